//! The record that a program writes per thread: which fields of the kernel it has, and where.
//!
//! A record has 8-byte words: how many they are, which pointers the kernel followed, the time, the fields of a thread, and for
//! the first thread of a process also the fields of the process.

use std::collections::BTreeSet;
use std::ops::Range;

use super::btf::{Btf, TypeId};
use super::path::{self, FieldLocation};
use crate::model::sorted::Arrange;

/// Words of a record before its fields.
pub(super) const LENGTH: usize = 0;
pub(super) const FOLLOWED: usize = 1;
pub(super) const TIME: usize = 4;
pub(super) const HEAD: usize = 5;
/// Pointers that fit into the words from [`FOLLOWED`], a byte each.
const MAX_POINTERS: usize = 8 * (TIME - FOLLOWED);

/// Records that have a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RecordScope {
    /// Records of all threads.
    Thread,
    /// Records of the first threads of processes.
    Process,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldRequest {
    /// Path of the field, as in [`KernelField::path`](crate::model::KernelField::path).
    pub(super) path: &'static str,
    pub(super) part: RecordScope,
    /// An array is cut at this many words.
    pub(super) max_words: usize,
}

impl FieldRequest {
    pub(super) fn number(part: RecordScope, path: &'static str) -> Self {
        Self { path, part, max_words: 1 }
    }
}

/// A field that the kernel has.
#[derive(Clone, Debug)]
pub(super) struct RecordColumn {
    pub(super) path: &'static str,
    pub(super) part: RecordScope,
    pub(super) place: FieldLocation,
    /// The first of its words in the record.
    pub(super) slot: usize,
    pub(super) words: usize,
}

/// Where a record has a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    slot: usize,
    words: usize,
    /// The last pointer on the way to it: an index of [`Layout::pointers`].
    pointer: Option<usize>,
}

impl Field {
    /// Returns the index of its first word in the record.
    pub(super) fn slot(self) -> usize {
        self.slot
    }

    /// Returns the indexes of its words in the record.
    pub(super) fn slots(self) -> Range<usize> {
        self.slot..self.slot + self.words
    }
}

/// The fields of a record.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// Columns of the record, columns of threads first.
    pub(super) columns: Vec<RecordColumn>,
    /// The pointers on the way to fields: the offset of each in the structure that the one before leads to.
    pub(super) pointers: Vec<Vec<u32>>,
    /// Columns that the verifier refused, by number.
    pub(super) dropped: BTreeSet<u16>,
}

impl Layout {
    /// The fields of `wanted` that the kernel has, each once.
    pub(super) fn resolve(btf: &Btf<'_>, task: TypeId, mut wanted: Vec<FieldRequest>) -> Self {
        wanted.arrange_by_key(|wanted| wanted.part);
        let mut layout = Self::default();
        let mut slot = HEAD;
        for FieldRequest { path, part, max_words } in wanted {
            let is_known = layout.columns.iter().any(|column| column.path == path);
            let place = path::resolve(btf, task, path).filter(is_addressable);
            let Some(place) = place.filter(|_| !is_known) else { continue };
            if !layout.follow(&place.hops) {
                continue;
            }
            let words = usize::try_from(place.size.div_ceil(8)).unwrap_or(usize::MAX).min(max_words);
            layout.columns.push(RecordColumn { path, part, place, slot, words });
            slot += words;
        }
        layout
    }

    /// Adds the pointers on a way; false if a record has no room for them.
    fn follow(&mut self, hops: &[u32]) -> bool {
        let is_new = |way: &&[u32]| !self.pointers.iter().any(|followed| followed == way);
        let new: Vec<_> = (1..=hops.len()).map(|depth| &hops[..depth]).filter(is_new).map(<[u32]>::to_vec).collect();
        let fits = self.pointers.len() + new.len() <= MAX_POINTERS;
        if fits {
            self.pointers.extend(new);
        }
        fits
    }

    /// Columns that were not refused, by number.
    pub(super) fn filled(&self) -> impl Iterator<Item = (u16, &RecordColumn)> {
        (0..).zip(&self.columns).filter(|(number, _)| !self.dropped.contains(number))
    }

    /// Where records have the field with this path.
    pub(super) fn find(&self, path: &str) -> Option<Field> {
        let (_, column) = self.filled().find(|(_, column)| column.path == path)?;
        let pointer = self.pointers.iter().position(|way| *way == column.place.hops);
        Some(Field { slot: column.slot, words: column.words, pointer })
    }

    pub(super) fn words(&self, part: RecordScope) -> usize {
        let last = self.columns.iter().rfind(|column| column.part <= part);
        last.map_or(HEAD, |column| column.slot + column.words)
    }
}

/// Whether an instruction can load the field: offsets have 16 bits. Arrays are loaded word by word.
pub(super) fn is_addressable(place: &FieldLocation) -> bool {
    let is_near = |offset: u32| i16::try_from(offset).is_ok();
    let has_width = matches!(place.size, 1 | 2 | 4) || (place.size > 0 && place.size.is_multiple_of(8));
    has_width && place.hops.iter().all(|&hop| is_near(hop)) && is_near(place.offset.saturating_add(place.size))
}

/// An offset as instructions have it.
pub(super) fn near(offset: u32) -> i16 {
    i16::try_from(offset).expect("the layout has only fields that an instruction can address")
}

#[derive(Clone, Copy)]
pub(super) struct ThreadRecord<'r> {
    words: &'r [u64],
}

impl<'r> ThreadRecord<'r> {
    /// The first record of `words`, and the rest; `None` if it is not whole.
    pub(super) fn split(words: &'r [u64]) -> Option<(Self, &'r [u64])> {
        let length = usize::try_from(*words.get(LENGTH)?).ok().filter(|&length| length >= HEAD)?;
        let (words, rest) = words.split_at_checked(length)?;
        Some((Self { words }, rest))
    }

    pub(super) fn len(self) -> usize {
        self.words.len()
    }

    /// `CLOCK_MONOTONIC` in nanoseconds when it was written.
    pub(super) fn time(self) -> u64 {
        self.words[TIME]
    }

    /// The words of a field; `None` if the kernel had no pointer to it, or if it is of processes and this is not
    /// their first thread.
    pub(super) fn words(self, field: Field) -> Option<&'r [u64]> {
        let is_followed = |pointer: usize| self.words[FOLLOWED + pointer / 8].to_ne_bytes()[pointer % 8] != 0;
        let words = self.words.get(field.slots())?;
        field.pointer.is_none_or(is_followed).then_some(words)
    }

    pub(super) fn number(self, field: Option<Field>) -> Option<u64> {
        self.words(field?)?.first().copied()
    }
}

/// The words in `bytes`, as a program wrote them.
pub(super) fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
}

/// The records in `words`. What follows the last whole one is left out.
pub(super) fn records(mut words: &[u64]) -> impl Iterator<Item = ThreadRecord<'_>> {
    std::iter::from_fn(move || {
        let (record, rest) = ThreadRecord::split(words)?;
        words = rest;
        Some(record)
    })
}

#[cfg(test)]
mod tests {
    use super::super::btf::kind;
    use super::super::columns;
    use super::super::tests::recorded_types::each_kernel;
    use super::super::tests::type_builder::TypeBuilder;
    use super::*;

    fn resolved(bytes: &[u8], wanted: Vec<FieldRequest>) -> Layout {
        let btf = Btf::parse(bytes).unwrap();
        Layout::resolve(&btf, btf.find(kind::STRUCT, "task_struct").unwrap(), wanted)
    }

    #[test]
    fn each_word_of_a_record_has_one_column() {
        each_kernel(|kernel, btf| {
            let task = btf.find(kind::STRUCT, "task_struct").unwrap();
            let layout = Layout::resolve(btf, task, columns::all(3));
            let words = layout.columns.iter().flat_map(|column| column.slot..column.slot + column.words);
            assert!(words.eq(HEAD..layout.words(RecordScope::Process)), "{kernel}");
            let is_in_order = layout.columns.is_sorted_by_key(|column| column.part);
            assert!(is_in_order && layout.words(RecordScope::Thread) < layout.words(RecordScope::Process), "{kernel}");
            let paths: BTreeSet<_> = layout.columns.iter().map(|column| &column.path).collect();
            assert_eq!(paths.len(), layout.columns.len(), "{kernel}");
            assert!(layout.pointers.len() <= MAX_POINTERS, "{kernel}");
            let cpus = layout.find("cpus_mask.bits | cpus_allowed.bits").unwrap();
            assert_eq!((cpus.words, layout.find(columns::COMM).unwrap().words), (3, 2), "{kernel}");
        });
    }

    #[test]
    fn a_record_has_room_for_the_pointers_to_all_fields() {
        each_kernel(|kernel, btf| {
            let task = btf.find(kind::STRUCT, "task_struct").unwrap();
            for wanted in [columns::all(3), columns::exits(), columns::samples()] {
                let layout = Layout::resolve(btf, task, wanted.clone());
                let resolves = |path: &&str| path::resolve(btf, task, path).is_some_and(|place| is_addressable(&place));
                let paths = wanted.iter().map(|wanted| wanted.path).filter(resolves);
                let left_out: Vec<_> = paths.filter(|path| layout.find(path).is_none()).collect();
                assert!(left_out.is_empty(), "{kernel}: {left_out:?}");
            }
        });
    }

    #[test]
    fn fields_that_no_instruction_loads_are_left_out() {
        let mut built = TypeBuilder::new();
        let (int, long) = (built.signed("int", 4), built.unsigned("unsigned long", 8));
        let three = built.array(int, 3);
        let members = [("last", long, 32_752), ("end", long, 32_760), ("far", long, 40_000), ("three", three, 0)];
        built.structure("task_struct", 40_008, &members);
        let wanted = members.map(|(name, ..)| FieldRequest::number(RecordScope::Thread, name)).to_vec();
        let layout = resolved(&built.finish(), wanted);
        assert!(layout.find("last").is_some());
        for path in ["end", "far", "three"] {
            assert_eq!(layout.find(path), None, "{path}");
        }
        assert_eq!([RecordScope::Thread, RecordScope::Process].map(|part| layout.words(part)), [HEAD + 1; 2]);
    }

    #[test]
    fn pointers_without_room_in_a_record_are_not_followed() {
        let mut built = TypeBuilder::new();
        let int = built.signed("int", 4);
        let target = built.structure("target", 4, &[("value", int, 0)]);
        let pointer = built.pointer(target);
        let names: Vec<_> = (0..=MAX_POINTERS).map(|number| format!("p{number}")).collect();
        let members: Vec<_> = (0..).zip(&names).map(|(number, name)| (name.as_str(), pointer, 8 * number)).collect();
        built.structure("task_struct", 8 * 25, &members);
        let path = |name: &String| &*format!("{name}->value").leak();
        let wanted = names.iter().map(|name| FieldRequest::number(RecordScope::Thread, path(name))).collect();
        let layout = resolved(&built.finish(), wanted);
        let found = names.iter().filter(|name| layout.find(path(name)).is_some()).count();
        assert_eq!((found, layout.pointers.len()), (MAX_POINTERS, MAX_POINTERS));
        // The last pointer has the last byte before the time.
        let last = layout.find(path(&names[MAX_POINTERS - 1])).unwrap();
        let mut words = vec![0; layout.words(RecordScope::Thread)];
        words[LENGTH] = u64::try_from(words.len()).unwrap();
        assert_eq!(ThreadRecord { words: &words }.number(Some(last)), None);
        words[TIME - 1] = u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(ThreadRecord { words: &words }.number(Some(last)), Some(0));
    }

    #[test]
    fn a_record_that_is_not_whole_is_none() {
        for words in [&[][..], &[0; 9], &[4; 9], &[5], &[10; 9], &[u64::MAX; 9]] {
            assert!(ThreadRecord::split(words).is_none(), "{words:?}");
        }
        let words = [6, 0, 0, 0, 77, 42, 5, 0, 0, 0, 78];
        let (first, rest) = ThreadRecord::split(&words).unwrap();
        let (second, rest) = ThreadRecord::split(rest).unwrap();
        assert_eq!((first.time(), second.time(), rest), (77, 78, &[][..]));
        let field = |slot, words| Some(Field { slot, words, pointer: None });
        assert_eq!(first.number(field(5, 1)), Some(42));
        assert_eq!(second.number(field(5, 1)), None, "of processes, and this is another thread");
        assert_eq!(first.words(field(5, 2).unwrap()), None);
        assert_eq!(first.number(None), None);
    }
}
