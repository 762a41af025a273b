//! The heap of ctprof itself, as counted by its jemalloc.

use super::Unit;

stored! {
    /// ctprof's own jemalloc.
    #[derive(Eq)]
    pub struct HostHeapState {
        /// Bytes in pages that hold allocations.
        optional active_bytes: Option<u64>,
        /// Bytes that are allocated at present.
        optional allocated_bytes: Option<u64>,
        /// Bytes of resident pages that the allocator maps.
        optional resident_bytes: Option<u64>,
        /// Bytes of active extents that the allocator maps.
        optional mapped_bytes: Option<u64>,
        /// Number of jemalloc's arenas.
        optional narenas: Option<usize>,
    }
}

impl HostHeapState {
    /// `field: value` lines, `(unknown)` if absent.
    pub fn format_human(&self) -> String {
        self.fields().map(|(field, _, value)| format!("{field}: {}\n", text(value))).concat()
    }

    /// `field: before → after` lines of the fields that differ; empty if none does.
    pub fn diff(&self, other: &Self) -> String {
        let pairs = self.fields().into_iter().zip(other.fields());
        let differing = pairs.filter(|(before, after)| before != after);
        let line = |((field, _, before), (_, _, after))| format!("{field}: {} → {}\n", text(before), text(after));
        differing.map(line).collect()
    }

    /// The fields with their units and values, in the order of listings.
    pub fn fields(&self) -> [(&'static str, Unit, Option<u64>); 5] {
        let Self { allocated_bytes, active_bytes, resident_bytes, mapped_bytes, narenas } = *self;
        [
            ("allocated_bytes", Unit::Bytes, allocated_bytes),
            ("active_bytes", Unit::Bytes, active_bytes),
            ("resident_bytes", Unit::Bytes, resident_bytes),
            ("mapped_bytes", Unit::Bytes, mapped_bytes),
            ("narenas", Unit::Count, narenas.and_then(|arenas| u64::try_from(arenas).ok())),
        ]
    }
}

fn text(value: Option<u64>) -> String {
    value.map_or_else(|| "(unknown)".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A different value in every field.
    fn full_state() -> HostHeapState {
        HostHeapState {
            active_bytes: Some(12 << 20),
            allocated_bytes: Some(10 << 20),
            resident_bytes: Some(16 << 20),
            mapped_bytes: Some(20 << 20),
            narenas: Some(4),
        }
    }

    #[test]
    fn lines_are_labeled_by_the_names_of_the_fields() {
        let heap = HostHeapState { allocated_bytes: Some(5), narenas: Some(2), ..HostHeapState::default() };
        let text = "allocated_bytes: 5\nactive_bytes: (unknown)\nresident_bytes: (unknown)\n\
                    mapped_bytes: (unknown)\nnarenas: 2\n";
        assert_eq!(heap.format_human(), text);
        let json = serde_json::to_value(full_state()).unwrap();
        let full = full_state().format_human();
        let values = full_state().fields().map(|(_, _, value)| value);
        assert!(
            values.iter().all(|value| *value > Some(0) && values.iter().filter(|same| *same == value).count() == 1)
        );
        for (field, value) in json.as_object().unwrap() {
            assert!(full.contains(&format!("{field}: {value}\n")), "{full}");
        }
    }

    #[test]
    fn only_what_changed_is_in_the_difference() {
        let before = HostHeapState { allocated_bytes: Some(5), active_bytes: Some(9), ..HostHeapState::default() };
        let after = HostHeapState { allocated_bytes: Some(7), mapped_bytes: Some(1), ..before.clone() };
        assert_eq!(before.diff(&after), "allocated_bytes: 5 → 7\nmapped_bytes: (unknown) → 1\n");
        assert_eq!(before.diff(&before), "");
    }
}
