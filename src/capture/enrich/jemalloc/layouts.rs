//! Layouts of `tsd_s` in known builds of jemalloc, for programs without debug information. Other sizes are refused,
//! not guessed.
//!
//! The layout depends on the version and on the options of the build, not on the machine: debug information of 5.3.0
//! and 5.3.1 says the same for both. Rows are for machines where a build was measured. Those of arm64 are from debug
//! information of the same sources with the same options (5.3.0, 5.3.1), and from the code of `malloc` and `free` in
//! Debian's `libjemalloc2` (5.2.1-3, 5.3.0-1, 5.3.0-3).

use super::machine::Machine;

/// Offsets of the two counters in `tsd_s`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// `thread_allocated`.
    pub allocated: u64,
    /// `thread_deallocated`.
    pub deallocated: u64,
}

struct KnownBuild {
    machines: &'static [Machine],
    versions: &'static [&'static str],
    size: u64,
    offsets: Offsets,
}

const fn build(
    machines: &'static [Machine],
    versions: &'static [&'static str],
    size: u64,
    allocated: u64,
    deallocated: u64,
) -> KnownBuild {
    KnownBuild { machines, versions, size, offsets: Offsets { allocated, deallocated } }
}

const X86_64: &[Machine] = &[Machine::X86_64];
const AARCH64: &[Machine] = &[Machine::Aarch64];
const BOTH: &[Machine] = &[Machine::X86_64, Machine::Aarch64];

/// For pages of 4 KiB, unless noted.
static KNOWN_BUILDS: [KnownBuild; 11] = [
    build(X86_64, &["4.0.4"], 80, 16, 24),
    build(X86_64, &["4.5.0"], 104, 16, 24),
    build(X86_64, &["5.0.1"], 6104, 8, 16),
    build(X86_64, &["5.1.0"], 6144, 16, 24),
    build(X86_64, &["5.2.0", "5.2.1"], 6216, 16, 24),
    build(BOTH, &["5.3.0"], 2632, 824, 840),
    // With lg-quantum 3, as Debian and Redis build it.
    build(X86_64, &["5.3.0"], 2720, 840, 856),
    build(BOTH, &["5.3.1"], 1968, 928, 944),
    // For pages of up to 64 KiB (lg-page 16), as Debian builds it.
    build(AARCH64, &["5.2.1"], 6248, 16, 24),
    build(AARCH64, &["5.3.0"], 2696, 888, 904),
    build(AARCH64, &["5.3.1"], 2432, 1008, 1024),
];

/// The layout of a `tsd_s` with that size. The version must match if it is known.
pub(super) fn by_size(machine: Machine, size: u64, version: Option<&str>) -> Option<Offsets> {
    let fits = |build: &&KnownBuild| {
        build.machines.contains(&machine)
            && build.size == size
            && version.is_none_or(|version| build.versions.contains(&version))
    };
    KNOWN_BUILDS.iter().find(fits).map(|build| build.offsets)
}

/// Bytes of a version text, at most.
pub(super) const LONGEST_VERSION: usize = 64;

/// The version in jemalloc's version text, `5.3.0-0-g54eaed1d…`, anywhere in `rodata`.
pub(super) fn version(rodata: &[u8]) -> Option<&str> {
    memchr::memmem::find_iter(rodata, b"-0-g").find_map(|at| {
        let commit = rodata[at + 4..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let number = |b: &u8| b.is_ascii_digit() || *b == b'.';
        let start = at - rodata[..at].iter().rev().take_while(|b| number(b)).count();
        let version = std::str::from_utf8(&rodata[start..at]).ok()?;
        (commit >= 7 && version.split('.').count() == 3).then_some(version)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_size_is_refused() {
        let x86_64 = |size, version| by_size(Machine::X86_64, size, version);
        assert_eq!(x86_64(2633, None), None);
        assert_eq!(x86_64(2632, Some("5.2.1")), None);
        let known = Some(Offsets { allocated: 824, deallocated: 840 });
        assert_eq!((x86_64(2632, Some("5.3.0")), x86_64(2632, None)), (known, known));
    }

    #[test]
    fn the_stripped_library_of_debian_for_arm64_was_unknown() {
        let arm64 = |size, version| by_size(Machine::Aarch64, size, Some(version)).map(|found| found.allocated);
        assert_eq!((arm64(2696, "5.3.0"), arm64(6248, "5.2.1")), (Some(888), Some(16)));
        assert_eq!((arm64(2696, "5.2.1"), arm64(6216, "5.2.1")), (None, None), "not measured");
    }

    #[test]
    fn the_version_is_found_in_its_own_text_only() {
        let rodata = b"\0usage: x-0-g\0v1.2-0-gabcdef012\x005.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c\0";
        assert_eq!(version(rodata), Some("5.3.0"));
        assert_eq!(version(b"5.3.0-0-gxyz"), None);
        assert_eq!(version(b"-0-g54eaed1d8b"), None);
    }
}
