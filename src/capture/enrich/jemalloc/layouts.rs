//! Layouts of `tsd_s` in known builds of jemalloc, for programs without debug information. Other sizes are refused,
//! not guessed.
//!
//! The layout depends on the version and on the options of the build, not on the machine: debug information of 5.3.0
//! and 5.3.1 says the same for both. Rows are for machines where a build was measured. Those of arm64 are from debug
//! information of the same sources with the same options (5.3.0, 5.3.1), and from the code of `malloc` and `free` in
//! Debian's `libjemalloc2` (5.2.1-3, 5.3.0-1, 5.3.0-3).

use super::super::super::elf::machine::Machine;

/// Offsets of the two counters in `tsd_s`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// Offset of the field `thread_allocated`.
    pub allocated: u64,
    /// Offset of the field `thread_deallocated`.
    pub deallocated: u64,
}

struct KnownBuild {
    machines: &'static [Machine],
    /// Size of `tsd_s` in bytes.
    size: u64,
    offsets: Offsets,
}

const fn build(machines: &'static [Machine], size: u64, allocated: u64, deallocated: u64) -> KnownBuild {
    KnownBuild { machines, size, offsets: Offsets { allocated, deallocated } }
}

const X86_64: &[Machine] = &[Machine::X86_64];
const AARCH64: &[Machine] = &[Machine::Aarch64];
const BOTH: &[Machine] = &[Machine::X86_64, Machine::Aarch64];

/// Known builds of jemalloc, for pages of 4 KiB unless noted.
static KNOWN_BUILDS: [KnownBuild; 11] = [
    // 4.0.4
    build(X86_64, 80, 16, 24),
    // 4.5.0
    build(X86_64, 104, 16, 24),
    // 5.0.1
    build(X86_64, 6104, 8, 16),
    // 5.1.0
    build(X86_64, 6144, 16, 24),
    // 5.2.0 and 5.2.1
    build(X86_64, 6216, 16, 24),
    // 5.3.0
    build(BOTH, 2632, 824, 840),
    // 5.3.0 with lg-quantum 3, as Debian and Redis build it.
    build(X86_64, 2720, 840, 856),
    // 5.3.1
    build(BOTH, 1968, 928, 944),
    // 5.2.1, 5.3.0 and 5.3.1 for pages of up to 64 KiB (lg-page 16), as Debian builds them.
    build(AARCH64, 6248, 16, 24),
    build(AARCH64, 2696, 888, 904),
    build(AARCH64, 2432, 1008, 1024),
];

/// The layout of a `tsd_s` with that size.
pub(super) fn by_size(machine: Machine, size: u64) -> Option<Offsets> {
    let fits = |build: &&KnownBuild| build.machines.contains(&machine) && build.size == size;
    KNOWN_BUILDS.iter().find(fits).map(|build| build.offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_size_is_refused() {
        assert_eq!(by_size(Machine::X86_64, 2633), None);
        assert_eq!(by_size(Machine::X86_64, 2632), Some(Offsets { allocated: 824, deallocated: 840 }));
    }

    #[test]
    fn a_build_is_known_on_the_machine_that_it_was_measured_on() {
        let arm64 = |size| by_size(Machine::Aarch64, size).map(|found| found.allocated);
        assert_eq!((arm64(2696), arm64(6248), arm64(6216)), (Some(888), Some(16), None));
    }

    #[test]
    fn a_size_has_one_layout_per_machine() {
        for machine in [Machine::X86_64, Machine::Aarch64] {
            let builds = || KNOWN_BUILDS.iter().filter(|build| build.machines.contains(&machine));
            assert!(builds().all(|one| builds().filter(|other| other.size == one.size).count() == 1), "{machine:?}");
        }
    }
}
