//! The files that are mapped into a process.

use std::collections::HashSet;

use crate::sys::maps::Mapping;

/// A file that is mapped into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    /// The mapping of its start.
    pub(super) mapping: Mapping,
    /// Whether it is the program itself.
    pub(super) is_program: bool,
}

/// The files whose start is mapped, each once, the program first.
pub(super) fn modules(mappings: impl IntoIterator<Item = Mapping>, program: &[u8]) -> Vec<Module> {
    let mut known = HashSet::new();
    let mut modules: Vec<Module> = Vec::new();
    for mapping in mappings.into_iter().filter(|mapping| mapping.offset == 0 && mapping.path.starts_with(b"/")) {
        // `sysctl vm.max_map_count` allows 65,530 mappings.
        if known.insert((mapping.inode, mapping.path.clone())) {
            let is_program = mapping.path == program;
            modules.push(Module { mapping, is_program });
        }
    }
    modules.sort_by_key(|module| !module.is_program);
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, offset: u64, inode: u64, path: &str) -> Mapping {
        Mapping { start, end: start + 0x1000, offset, device: (0xfe, 0), inode, path: path.into() }
    }

    #[test]
    fn each_file_is_a_module_once_and_the_program_comes_first() {
        let mappings = [
            mapping(0x1000, 0, 12345, "/usr/lib/libc.so.6"),
            mapping(0x2000, 0x28000, 12345, "/usr/lib/libc.so.6"),
            mapping(0x3000, 0, 12345, "/usr/lib/libc.so.6"),
            mapping(0x4000, 0, 777, "/opt/my program (deleted)"),
            mapping(0x5000, 0, 14, "anon_inode:[perf_event]"),
        ];
        let modules = modules(mappings, b"/opt/my program (deleted)");
        let found: Vec<_> = modules.iter().map(|m| (m.mapping.start, m.mapping.inode, m.is_program)).collect();
        assert_eq!(found, [(0x4000, 777, true), (0x1000, 12345, false)]);
    }

    #[test]
    fn as_many_files_as_a_process_may_map_take_little_time() {
        let directory = "/same/long/directory/for/all/files";
        let mappings = (1..=65_530).map(|n| mapping(n << 12, 0, n, &format!("{directory}/{n}")));
        let begin = std::time::Instant::now();
        assert_eq!(modules(mappings, b"").len(), 65_530);
        assert!(begin.elapsed() < std::time::Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}
