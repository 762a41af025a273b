//! The heap of the capturing process itself, as its jemalloc counts it.

use std::fmt::Write as _;

optional_record! {
    /// ctprof's own jemalloc.
    pub struct HostHeapState {
        /// Bytes in pages that hold allocations.
        pub active_bytes: u64,
        /// Bytes allocated.
        pub allocated_bytes: u64,
        /// Bytes of resident pages that the allocator maps.
        pub resident_bytes: u64,
        /// Bytes of active extents that the allocator maps.
        pub mapped_bytes: u64,
        /// Arenas.
        pub narenas: usize,
    }
}

impl HostHeapState {
    /// `key: value` lines, `(unknown)` where absent.
    #[must_use]
    pub fn format_human(&self) -> String {
        self.fields().iter().fold(String::new(), |mut out, (key, value)| {
            let _ = writeln!(out, "{key}: {}", shown(*value));
            out
        })
    }

    /// `key: before → after` lines of what differs; empty if nothing does.
    #[must_use]
    pub fn diff(&self, other: &Self) -> String {
        let pairs = self.fields().into_iter().zip(other.fields());
        let differing = pairs.filter(|((_, before), (_, after))| before != after);
        differing.fold(String::new(), |mut out, ((key, before), (_, after))| {
            let _ = writeln!(out, "{key}: {} → {}", shown(before), shown(after));
            out
        })
    }

    fn fields(&self) -> [(&'static str, Option<u64>); 5] {
        let Self { active_bytes, allocated_bytes, resident_bytes, mapped_bytes, narenas } = *self;
        let arenas = narenas.and_then(|arenas| u64::try_from(arenas).ok());
        [
            ("allocated", allocated_bytes),
            ("active", active_bytes),
            ("resident", resident_bytes),
            ("mapped", mapped_bytes),
            ("narenas", arenas),
        ]
    }
}

fn shown(value: Option<u64>) -> String {
    value.map_or_else(|| "(unknown)".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_order_and_say_what_is_unknown() {
        let heap = HostHeapState { allocated_bytes: Some(5), narenas: Some(2), ..HostHeapState::default() };
        let text = "allocated: 5\nactive: (unknown)\nresident: (unknown)\nmapped: (unknown)\nnarenas: 2\n";
        assert_eq!(heap.format_human(), text);
    }

    #[test]
    fn only_what_changed_is_in_the_difference() {
        let before = HostHeapState { allocated_bytes: Some(5), active_bytes: Some(9), ..HostHeapState::default() };
        let after = HostHeapState { allocated_bytes: Some(7), mapped_bytes: Some(1), ..before.clone() };
        assert_eq!(before.diff(&after), "allocated: 5 → 7\nmapped: (unknown) → 1\n");
        assert_eq!(before.diff(&before), "");
    }
}
