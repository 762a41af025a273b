//! Names of functions that a just-in-time compiler wrote, from the file that it writes for `perf`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::super::procfs::directory::ProcDirectory;
use super::super::procfs::text::innermost_id;
use super::demangle::limited;
use crate::model::{CodeFunction, Name, printable};

/// Maximum size that is read of a file, in bytes: any process may write to it without end.
const MAX_BYTES: u64 = 16 << 20;
const LONGEST_LINE: u64 = 64 << 10;

/// The functions at `addresses`, which are sorted, as [`CodeFunction`] reads them. The file is in `/tmp` of the process's own root, and not of another
/// user; a link is not followed.
pub(super) fn names(process: u32, addresses: &[u64]) -> Vec<Option<Name>> {
    let mut names = vec![None; addresses.len()];
    let map = ProcDirectory::open(Path::new(&format!("/proc/{process}"))).ok().and_then(|of| open_map(&of));
    if let Some(map) = map.and_then(|map| last_lines(map).ok()) {
        read(map, addresses, &mut names);
    }
    names
}

/// The last lines of a map, as far as they are read: compilers only add lines.
fn last_lines(mut map: File) -> io::Result<impl Read> {
    let skipped = map.metadata()?.len().saturating_sub(MAX_BYTES);
    map.seek(SeekFrom::Start(skipped))?;
    let mut map = BufReader::new(map);
    if skipped > 0 {
        map.by_ref().take(LONGEST_LINE).skip_until(b'\n')?;
    }
    Ok(map)
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
pub(super) fn read(map: impl Read, addresses: &[u64], names: &mut [Option<Name>]) {
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
            let function = function(&printable(name)).as_str().into();
            names[from..from + inside].fill(Some(function));
        }
        line.clear();
    }
}

/// Returns the function in an entry of a compiler. Names are followed by different things: the file and place, or the parameters.
fn function(text: &str) -> String {
    // Node writes how far it has optimized the function, which changes: `JS:*name /directory/file.js:3:17`.
    let node = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"].iter().find_map(|kind| text.strip_prefix(kind));
    let node = node.and_then(|text| text.trim_start_matches(['~', '^', '*', '+']).split_once(' '));
    // Python writes `py::name:/directory/file.py`.
    let python = text.strip_prefix("py::").and_then(|text| text.split_once(':'));
    let (module, name) = match (node, python) {
        (Some((name, place)), _) => (file_name(without_place(place)), name),
        (_, Some((name, file))) => (file_name(file), name),
        // Java writes `void shop.Cart.add(int)`.
        _ => match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            _ if is_of_jvm(text) => ("(jvm)", text),
            Some((before, _)) => ("", before.rsplit(' ').next().unwrap_or(before)),
            None => ("", text),
        },
    };
    CodeFunction { module: &limited(module), name: &limited(name) }.text()
}

/// Whether the Java virtual machine calls its own code so: it has no parameters.
fn is_of_jvm(text: &str) -> bool {
    let ends = [" stub", "_Java", "Blob", " adapters"];
    text == "Interpreter" || text.starts_with("StubRoutines (") || ends.iter().any(|end| text.ends_with(end))
}

/// `file.js` of `file.js:3:17`.
fn without_place(place: &str) -> &str {
    place.trim_end_matches(|char: char| char.is_ascii_digit() || char == ':')
}

/// The name of a file without its directory, and one name for all of node's own files, which are `node:internal/name`.
fn file_name(file: &str) -> &str {
    if file.starts_with("node:") { "(node)" } else { file.rsplit('/').next().unwrap_or(file) }
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
        assert_eq!(names, [None, Some(":second one"), Some(":first"), None, Some(":rest")]);
    }

    #[test]
    fn a_function_has_one_name_however_it_was_compiled_and_the_module_of_its_file() {
        for (text, expected) in [
            ("JS:~load /srv/app/config.js:3:17", "config.js:load"),
            ("JS:*load /srv/app/config.js:3:17", "config.js:load"),
            ("LazyCompile:^load file:///srv/config.mjs:1:9", "config.mjs:load"),
            ("JS:~ /srv/app/main.js:1:1", "main.js:"),
            ("JS:^spawnSync node:internal/child_process:1108:19", "(node):spawnSync"),
            ("py::load:/srv/app/config.py", "config.py:load"),
            ("java.util.List shop.Cart.add(int, java.lang.String)", ":shop.Cart.add"),
            ("counter_overflow Runtime1 stub", "(jvm):counter_overflow Runtime1 stub"),
            ("StubRoutines (1)", "(jvm):StubRoutines (1)"),
            ("_complete_monitor_locking_Java", "(jvm):_complete_monitor_locking_Java"),
            ("Builtin:ArrayMap", ":Builtin:ArrayMap"),
        ] {
            assert_eq!(function(text), expected, "{text}");
        }
    }

    #[test]
    fn only_a_regular_file_of_the_user_is_a_map_and_only_its_end_is_read() {
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
        assert_eq!([early, late].map(|name| name.unwrap().to_string()), [":early", ":late"], "what was compiled last");
    }
}
