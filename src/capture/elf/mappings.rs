//! The executable mappings of files in a process: from queries, or from the text of `maps`.

use std::fs::File;
use std::io::Read;

use memchr::memmem;
use nix::errno::Errno;

use crate::sys;
use crate::sys::maps::{self, Mapping};

/// The first mapping of a file in the process whose `maps` this is, and all executable mappings of files, by address.
pub(in crate::capture) fn file_mappings(mut maps: File) -> Result<Vec<Mapping>, Errno> {
    // Whatever prevents queries, the text has its own errors.
    maps::file_mappings(&maps).or_else(|_| {
        let mut text = Vec::new();
        maps.read_to_end(&mut text).map_err(|error| sys::errno(&error))?;
        Ok(parse(&text).collect())
    })
}

/// Parses any bytes as a text of `maps`.
#[cfg(feature = "fuzzing")]
pub(in crate::capture) fn fuzz_maps(bytes: &[u8]) {
    super::modules::modules(parse(bytes), b"/bin/program");
}

/// The first mapping of a file in a text of `maps`, and all executable mappings of files.
fn parse(maps: &[u8]) -> impl Iterator<Item = Mapping> {
    let mappings = maps.split(|&b| b == b'\n').filter_map(mapping).enumerate();
    mappings.filter_map(|(number, mapping)| (number == 0 || mapping.is_executable).then_some(mapping))
}

/// `start-end perms offset major:minor inode path`, for mappings of files.
fn mapping(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |&b| b == b' ');
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let (start, end) = field()?.split_once('-')?;
    let (permissions, offset) = (field()?, field()?);
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?.parse().ok()?;
    let path = fields.next()?.trim_ascii_start();
    let address = |hex| u64::from_str_radix(hex, 16).ok();
    let number = |hex| u32::from_str_radix(hex, 16).ok();
    (inode != 0).then_some(Mapping {
        start: address(start)?,
        end: address(end)?,
        offset: address(offset)?,
        is_executable: permissions.contains('x'),
        device: (number(major)?, number(minor)?),
        inode,
        path: unescaped(path),
    })
}

/// The kernel writes a newline in a path as `\012`, and nothing else differently (`show_map_vma` of
/// `fs/proc/task_mmu.c`).
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(newline) = memmem::find(rest, b"\\012") {
        name.extend_from_slice(&rest[..newline]);
        name.push(b'\n');
        rest = &rest[newline + 4..];
    }
    name.extend_from_slice(rest);
    name
}

#[cfg(test)]
mod tests {
    use crate::skip::{Missing, skipped};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::{fs, thread};

    use nix::errno::Errno;

    use super::*;

    /// Linux 6.18, shortened.
    const MAPS: &[u8] = b"\
00400000-00452000 r--p 00000000 fe:1f 777                                /opt/my\\012program (deleted)\n\
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n\
7f3b5a600000-7f3b5a628000 r--p 00000000 103:00 12345                     /usr/lib/libc.so.6\n\
7f3b5a628000-7f3b5a79d000 r-xp 00028000 103:00 12345                     /usr/lib/libc.so.6\n\
7ffd0b9f0000-7ffd0ba11000 rw-p 00000000 00:00 0                          [stack]\n";

    #[test]
    fn the_first_line_of_a_file_and_executable_ones_are_mappings() {
        let program = b"/opt/my\nprogram (deleted)".to_vec();
        let (start, end) = (0x40_0000, 0x45_2000);
        let (device, is_executable) = ((0xfe, 0x1f), false);
        let program = Mapping { start, end, offset: 0, is_executable, device, inode: 777, path: program };
        let (start, end, path) = (0x7f3b_5a62_8000, 0x7f3b_5a79_d000, b"/usr/lib/libc.so.6".to_vec());
        let (device, is_executable) = ((0x103, 0), true);
        let library = Mapping { start, end, offset: 0x28000, is_executable, device, inode: 12345, path };
        assert_eq!(parse(MAPS).collect::<Vec<_>>(), [program, library]);
        assert_eq!(parse(b"nonsense\n").count(), 0);
    }

    fn text(pid: u32) -> Option<Vec<u8>> {
        fs::read(format!("/proc/{pid}/maps")).ok()
    }

    /// The mappings of a process both ways, if it does not change meanwhile.
    fn both(pid: u32) -> Option<[Vec<Mapping>; 2]> {
        let before = text(pid)?;
        let queried = maps::file_mappings(File::open(format!("/proc/{pid}/maps")).ok()?).ok()?;
        (text(pid)? == before).then(|| [queried, parse(&before).collect()])
    }

    #[test]
    fn queries_have_the_mappings_of_the_text() {
        if maps::file_mappings(File::open("/proc/self/maps").unwrap()) == Err(Errno::ENOTTY) {
            return skipped(Missing::Kernel("PROCMAP_QUERY, of Linux 6.11"));
        }
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("new\nline (deleted) \\ ü");
        // By another process: this one may start others meanwhile, and a file open for writing cannot be executed.
        assert!(Command::new("cp").arg("/bin/sleep").arg(&program).status().unwrap().success());
        let mut child = Command::new(&program).arg0("sleep").arg("60").spawn().unwrap();
        fs::remove_file(&program).unwrap();
        let removed = [program.as_os_str().as_bytes(), b" (deleted)"].concat();
        // The dynamic linker maps libraries meanwhile.
        let mut tries = (0..100).map(|_| thread::sleep(std::time::Duration::from_millis(10)));
        let found = tries.find_map(|()| both(child.id()).filter(|[_, text]| text.iter().any(|m| m.path == removed)));
        child.kill().unwrap();
        child.wait().unwrap();
        let [queried, text] = found.expect("the text names the program");
        assert_eq!(queried, text);

        let ids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let compared = ids.filter_map(|pid| both(pid).map(|ways| (pid, ways)));
        let compared = compared.take(20).map(|(pid, [queried, text])| assert_eq!(queried, text, "of process {pid}"));
        eprintln!("compared {} processes", compared.count());
    }
}
