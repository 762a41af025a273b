//! Layouts of `tsd_s` in known builds of jemalloc, for programs without debug information. Measured on
//! x86_64; other sizes are refused, not guessed.

/// Offsets of the two counters in `tsd_s`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// `thread_allocated`.
    pub allocated: u64,
    /// `thread_deallocated`.
    pub deallocated: u64,
}

struct KnownBuild {
    versions: &'static [&'static str],
    size: u64,
    offsets: Offsets,
}

const fn build(versions: &'static [&'static str], size: u64, allocated: u64, deallocated: u64) -> KnownBuild {
    KnownBuild { versions, size, offsets: Offsets { allocated, deallocated } }
}

static KNOWN_BUILDS: [KnownBuild; 8] = [
    build(&["4.0.4"], 80, 16, 24),
    build(&["4.5.0"], 104, 16, 24),
    build(&["5.0.1"], 6104, 8, 16),
    build(&["5.1.0"], 6144, 16, 24),
    build(&["5.2.0", "5.2.1"], 6216, 16, 24),
    build(&["5.3.0"], 2632, 824, 840),
    // With lg-quantum 3, as Debian and Redis build it.
    build(&["5.3.0"], 2720, 840, 856),
    build(&["5.3.1"], 1968, 928, 944),
];

/// The layout of a `tsd_s` with that size. The version must match if it is known.
pub(super) fn by_size(size: u64, version: Option<&str>) -> Option<Offsets> {
    let fits =
        |build: &&KnownBuild| build.size == size && version.is_none_or(|version| build.versions.contains(&version));
    if cfg!(target_arch = "x86_64") { KNOWN_BUILDS.iter().find(fits).map(|build| build.offsets) } else { None }
}

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
        assert_eq!(by_size(2633, None), None);
        assert_eq!(by_size(2632, Some("5.2.1")), None);
        let known = cfg!(target_arch = "x86_64").then_some(Offsets { allocated: 824, deallocated: 840 });
        assert_eq!(by_size(2632, Some("5.3.0")), known);
        assert_eq!(by_size(2632, None), known);
    }

    #[test]
    fn the_version_is_found_in_its_own_text_only() {
        let rodata = b"\0usage: x-0-g\0v1.2-0-gabcdef012\x005.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c\0";
        assert_eq!(version(rodata), Some("5.3.0"));
        assert_eq!(version(b"5.3.0-0-gxyz"), None);
        assert_eq!(version(b"-0-g54eaed1d8b"), None);
    }
}
