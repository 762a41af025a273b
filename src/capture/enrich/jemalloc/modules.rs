//! The files that are mapped into a process, by its `maps`.

use std::collections::HashSet;

/// A file that is mapped into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    /// Address range of its first mapping, as `maps` and `map_files` write it.
    pub(super) range: String,
    /// Start of the mapping.
    pub(super) start: u64,
    /// Device of the file system, as `maps` writes it.
    pub(super) device: String,
    pub(super) inode: u64,
    pub(super) path: Vec<u8>,
    /// Whether it is the program itself.
    pub(super) is_program: bool,
}

/// Parses any bytes as a text of `maps`.
#[cfg(fuzzing)]
pub(in crate::capture) fn fuzz_maps(bytes: &[u8]) {
    modules(bytes, b"/bin/program");
}

/// The files in a text of `maps`, each once, the program first.
pub(super) fn modules(maps: &[u8], program: &[u8]) -> Vec<Module> {
    let mut known = HashSet::new();
    let mut modules: Vec<Module> = Vec::new();
    for mut module in maps.split(|&b| b == b'\n').filter_map(module) {
        // `sysctl vm.max_map_count` allows 65,530 mappings.
        if known.insert((module.inode, module.path.clone())) {
            module.is_program = module.path == program;
            modules.push(module);
        }
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

    #[test]
    fn as_many_files_as_a_process_may_map_take_quadratic_time() {
        let line =
            |n: u64| format!("{n:x}000-{n:x}fff r--p 00000000 fe:00 {n} /same/long/directory/for/all/files/{n}\n");
        let maps: String = (1..=65_530).map(line).collect();
        let begin = std::time::Instant::now();
        assert_eq!(modules(maps.as_bytes(), b"").len(), 65_530);
        assert!(begin.elapsed() < std::time::Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}
