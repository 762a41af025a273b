//! Which module of a process has jemalloc, and the distance of its data from a thread's pointer.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use super::elf::TsdLayout;
use super::files::Files;
use super::layouts::Offsets;
use super::tag::Tag;
use crate::sys::memory;

/// A file that is mapped into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    /// Address range of its first mapping, as `maps` and `map_files` write it.
    pub(super) range: String,
    /// Where that starts.
    pub(super) start: u64,
    /// Device of the file system, as `maps` writes it.
    pub(super) device: String,
    pub(super) inode: u64,
    pub(super) path: Vec<u8>,
    /// Whether it is the program itself.
    pub(super) is_program: bool,
}

/// Where the threads of a process have their counters: distance of the thread-specific data from the thread
/// pointer, and offsets in it.
#[derive(Clone, Copy, Debug)]
pub(in crate::capture) struct Target {
    pub(super) distance: i64,
    pub(super) offsets: Offsets,
}

/// Finds jemalloc in a process.
pub(super) fn attach(pid: u32, files: &Files) -> Result<Target, Tag> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).map_err(|error| match error.kind() {
        // Reading the link and attaching need the same privileges.
        ErrorKind::PermissionDenied => Tag::PtraceSeize,
        _ => Tag::ReadlinkFailure,
    })?;
    let maps = fs::read(format!("/proc/{pid}/maps")).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Tag::PidMissing,
        ErrorKind::PermissionDenied => Tag::PtraceSeize,
        _ => Tag::MapsReadFailure,
    })?;
    let mut failure = Tag::JemallocNotFound;
    for module in modules(&maps, program.as_os_str().as_bytes()) {
        match files.layout(pid, &module) {
            Ok(layout) => return target(pid, &module, &layout),
            Err(Tag::JemallocNotFound) => {}
            // A library for another machine is mapped as data.
            Err(Tag::ArchMismatch) if !module.is_program => {}
            Err(tag) => failure = tag,
        }
    }
    Err(failure)
}

fn target(pid: u32, module: &Module, layout: &TsdLayout) -> Result<Target, Tag> {
    let distance = match layout.slot {
        // The dynamic linker places a library's block, and stores the distance in the slot.
        Some(slot) if !module.is_program => {
            let address = module.start.checked_add(slot).and_then(|address| address.checked_sub(layout.base));
            let mut word = [0; 8];
            let read = memory::read(pid, address.ok_or(Tag::TlsArithmetic)?, &mut word);
            read.map_err(|errno| match errno {
                Errno::EPERM => Tag::PtraceSeize,
                Errno::ESRCH => Tag::PidMissing,
                _ => Tag::ProcessVmReadv,
            })?;
            i64::from_ne_bytes(word)
        }
        _ if module.is_program => layout.static_distance().ok_or(Tag::TlsArithmetic)?,
        _ => return Err(Tag::TlsArithmetic),
    };
    // The dynamic linker has not filled the slot yet.
    if distance == 0 { Err(Tag::TlsArithmetic) } else { Ok(Target { distance, offsets: layout.offsets }) }
}

/// Parses any bytes as a text of `maps`.
#[cfg(fuzzing)]
pub(in crate::capture) fn fuzz_maps(bytes: &[u8]) {
    modules(bytes, b"/bin/program");
}

/// The files in a text of `maps`, each once, the program first.
fn modules(maps: &[u8], program: &[u8]) -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    for mut module in maps.split(|&b| b == b'\n').filter_map(module) {
        if modules.iter().any(|known| known.inode == module.inode && known.path == module.path) {
            continue;
        }
        module.is_program = module.path == program;
        modules.push(module);
    }
    modules.sort_by_key(|module| !module.is_program);
    modules
}

/// `start-end perms offset dev inode path`, for mappings of the start of a file.
fn module(line: &[u8]) -> Option<Module> {
    let mut fields = line.splitn(6, |&b| b == b' ');
    let range = std::str::from_utf8(fields.next()?).ok()?;
    let (_permissions, offset, device) = (fields.next()?, fields.next()?, fields.next()?);
    let inode: u64 = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let path = fields.next()?.trim_ascii_start();
    let device = std::str::from_utf8(device).ok()?;
    let start = u64::from_str_radix(range.split_once('-')?.0, 16).ok()?;
    let first = offset.iter().all(|&b| b == b'0');
    (first && inode != 0 && path.starts_with(b"/")).then(|| Module {
        range: range.to_owned(),
        start,
        device: device.to_owned(),
        inode,
        path: path.to_vec(),
        is_program: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18, shortened.
    const MAPS: &[u8] = b"\
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n\
7f3b5a600000-7f3b5a628000 r--p 00000000 fe:00 12345                      /usr/lib/libc.so.6\n\
7f3b5a628000-7f3b5a79d000 r-xp 00028000 fe:00 12345                      /usr/lib/libc.so.6\n\
55d5f0c00000-55d5f0c10000 r--p 00000000 fe:00 777                        /opt/my program (deleted)\n\
7ffd0b9f0000-7ffd0ba11000 rw-p 00000000 00:00 0                          [stack]\n";

    #[test]
    fn each_file_is_a_module_once_and_the_program_comes_first() {
        let modules = modules(MAPS, b"/opt/my program (deleted)");
        let found: Vec<_> = modules.iter().map(|m| (m.start, m.inode, m.is_program)).collect();
        assert_eq!(found, [(0x55d5_f0c0_0000, 777, true), (0x7f3b_5a60_0000, 12345, false)]);
        assert_eq!(modules[0].range, "55d5f0c00000-55d5f0c10000");
        assert_eq!(super::modules(b"nonsense\n", b"x"), []);
    }
}
