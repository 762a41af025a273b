//! Known layouts of jemalloc's `tsd_s`, for programs without debug information. Measured on x86_64;
//! a size that is not here is refused, not guessed.

/// Where the two counters stand in `tsd_s`, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// `thread_allocated`.
    pub allocated: u64,
    /// `thread_deallocated`.
    pub deallocated: u64,
}

struct Layout {
    versions: &'static [&'static str],
    size: u64,
    offsets: Offsets,
}

const fn layout(versions: &'static [&'static str], size: u64, allocated: u64, deallocated: u64) -> Layout {
    Layout { versions, size, offsets: Offsets { allocated, deallocated } }
}

static LAYOUTS: [Layout; 8] = [
    layout(&["4.0.4"], 80, 16, 24),
    layout(&["4.5.0"], 104, 16, 24),
    layout(&["5.0.1"], 6104, 8, 16),
    layout(&["5.1.0"], 6144, 16, 24),
    layout(&["5.2.0", "5.2.1"], 6216, 16, 24),
    layout(&["5.3.0"], 2632, 824, 840),
    // With lg-quantum 3, as Debian and Redis build it.
    layout(&["5.3.0"], 2720, 840, 856),
    layout(&["5.3.1"], 1968, 928, 944),
];

/// The layout of a `tsd_s` of that size. A version, where one is known, has to fit.
pub(super) fn by_size(size: u64, version: Option<&str>) -> Option<Offsets> {
    let fits =
        |layout: &&Layout| layout.size == size && version.is_none_or(|version| layout.versions.contains(&version));
    if cfg!(target_arch = "x86_64") { LAYOUTS.iter().find(fits).map(|layout| layout.offsets) } else { None }
}

/// The version in jemalloc's own text for it, `5.3.0-0-g54eaed1d…`, somewhere in `rodata`.
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
