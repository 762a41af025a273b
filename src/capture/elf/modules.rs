//! The files that are mapped into a process.

use std::collections::HashSet;

use crate::model::sorted::Arrange;
use crate::sys::maps::Mapping;

/// A file that is mapped into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::capture) struct Module {
    /// The first executable mapping of the file. Of the program it is the first mapping of all: programs can copy their code to
    /// other memory.
    pub(in crate::capture) mapping: Mapping,
    /// Whether it is the program itself.
    pub(in crate::capture) is_program: bool,
}

#[cfg(test)]
impl Module {
    /// A file, as if this process had mapped it from a device.
    pub(in crate::capture) fn of_file(file: &std::path::Path, device: (u32, u32)) -> Self {
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::fs::MetadataExt;
        let (inode, path) = (file.metadata().unwrap().ino(), file.as_os_str().as_bytes().to_vec());
        let mapping = Mapping { start: 0, end: 4096, offset: 0, is_executable: true, device, inode, path };
        Self { mapping, is_program: false }
    }
}

/// The files with code, each once, the program first.
pub(in crate::capture) fn modules(mappings: impl IntoIterator<Item = Mapping>, program: &[u8]) -> Vec<Module> {
    let mut seen = HashSet::new();
    let mut modules: Vec<Module> = Vec::new();
    for mapping in mappings.into_iter().filter(|mapping| mapping.path.starts_with(b"/")) {
        let is_program = mapping.path == program;
        // `sysctl vm.max_map_count` allows 65,530 mappings.
        if (is_program || mapping.is_executable) && seen.insert((mapping.inode, mapping.path.clone())) {
            modules.push(Module { mapping, is_program });
        }
    }
    modules.arrange_by_key(|module| !module.is_program);
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, permissions: &str, inode: u64, path: &str) -> Mapping {
        let (end, is_executable) = (start + 0x1000, permissions.ends_with('x'));
        Mapping { start, end, offset: 0, is_executable, device: (0xfe, 0), inode, path: path.into() }
    }

    #[test]
    fn each_file_is_a_module_once_and_the_program_comes_first() {
        let mappings = [
            mapping(0x1000, "r-", 12345, "/usr/lib/libc.so.6"),
            mapping(0x2000, "rx", 12345, "/usr/lib/libc.so.6"),
            mapping(0x3000, "rx", 12345, "/usr/lib/libc.so.6"),
            mapping(0x4000, "r-", 777, "/opt/my program (deleted)"),
            mapping(0x5000, "rx", 14, "anon_inode:[perf_event]"),
        ];
        let modules = modules(mappings, b"/opt/my program (deleted)");
        let found: Vec<_> = modules.iter().map(|m| (m.mapping.start, m.mapping.inode, m.is_program)).collect();
        assert_eq!(found, [(0x4000, 777, true), (0x2000, 12345, false)]);
    }

    #[test]
    fn as_many_files_as_a_process_may_map_take_little_time() {
        let directory = "/same/long/directory/for/all/files";
        let mappings = (1..=65_530).map(|n| mapping(n << 12, "rx", n, &format!("{directory}/{n}")));
        let begin = std::time::Instant::now();
        assert_eq!(modules(mappings, b"").len(), 65_530);
        assert!(begin.elapsed() < std::time::Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}
