//! Names of functions that a just-in-time compiler wrote, from the file that it writes for `perf`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::super::procfs::directory::ProcDirectory;
use super::super::procfs::text::innermost_id;
use super::demangle::demangled;
use crate::model::{Name, printable};

/// What is read of a file, in bytes: any process may write it, and none ends it.
const MAX_BYTES: u64 = 16 << 20;

/// The names of the functions at `addresses`, which are sorted. The file is in `/tmp` of the process's own root, and not of another
/// user; a link is not followed.
pub(super) fn names(process: u32, addresses: &[u64]) -> Vec<Option<Name>> {
    let mut names = vec![None; addresses.len()];
    if let Some(map) = ProcDirectory::open(Path::new(&format!("/proc/{process}"))).ok().and_then(|of| open_map(&of)) {
        read(map, addresses, &mut names);
    }
    names
}

fn open_map(process: &ProcDirectory) -> Option<File> {
    let mut status = Vec::new();
    let id = innermost_id(process.read("status", &mut status).ok()?)?;
    let path = format!("root/tmp/perf-{id}.map");
    // `O_PATH` opens nothing: opening a FIFO waits for a writer.
    let place = File::from(process.open_at(path.as_str(), OFlag::O_PATH | OFlag::O_NOFOLLOW).ok()?);
    let metadata = place.metadata().ok()?;
    let is_own = process.stat(".").is_ok_and(|owner| owner.st_uid == metadata.uid());
    if !metadata.is_file() || !is_own {
        return None;
    }
    let place = format!("/proc/self/fd/{}", place.as_raw_fd());
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    open(place.as_str(), flags, Mode::empty()).ok().map(File::from)
}

/// Lines of start and length in hexadecimal digits, and name. Later lines are of what was compiled later.
fn read(map: impl Read, addresses: &[u64], names: &mut [Option<Name>]) {
    let mut map = BufReader::new(map.take(MAX_BYTES));
    let mut line = Vec::new();
    while map.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let number = |word: Option<&[u8]>| {
            let word = std::str::from_utf8(word?).ok()?;
            u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
        };
        let mut words = line.trim_ascii_end().splitn(3, |&byte| byte == b' ');
        if let (Some(start), Some(length), Some(name)) = (number(words.next()), number(words.next()), words.next()) {
            let from = addresses.partition_point(|&at| at < start);
            let inside = addresses[from..].iter().take_while(|&&at| at - start < length).count();
            names[from..from + inside].fill(Some(demangled(&printable(name)).as_str().into()));
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn the_latest_function_at_an_address_has_its_name() {
        let map = b"1000 10 first\nnonsense\n0x1000 8 second one\n2000 zz third\n3000 ffffffffffffffff rest";
        let mut names = vec![None; 5];
        read(&map[..], &[0xfff, 0x1000, 0x1008, 0x1010, 0x4000], &mut names);
        let names: Vec<_> = names.iter().map(Option::as_deref).collect();
        assert_eq!(names, [None, Some("second one"), Some("first"), None, Some("rest")]);
    }

    #[test]
    fn only_a_regular_file_of_the_user_is_a_map_and_only_its_beginning_is_read() {
        let map = std::path::PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()));
        let named = || names(std::process::id(), &[0x1000]).pop().flatten();
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = directory.path().join("map");
        std::fs::write(&elsewhere, "1000 10 secret\n").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &map).unwrap();
        let by_link = named();
        std::fs::remove_file(&map).unwrap();
        nix::unistd::mkfifo(&map, Mode::S_IRWXU).unwrap();
        let by_fifo = named();
        std::fs::remove_file(&map).unwrap();
        let file = File::create(&map).unwrap();
        file.write_all_at(b"1000 10 early\n", 0).unwrap();
        let early = named();
        file.write_all_at(b"\n1000 10 late\n", 1 << 32).unwrap();
        let late = named();
        std::fs::remove_file(&map).unwrap();
        assert_eq!([by_link, by_fifo], [None, None]);
        assert_eq!([early, late].map(|name| name.unwrap().to_string()), ["early", "early"]);
    }
}
