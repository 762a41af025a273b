//! The record that a program writes per thread: which fields of the kernel it has, and where.
//!
//! A record has 8-byte words: how many they are, which pointers the kernel followed, the time, the fields of a
//! thread, and for the first thread of a process also those of the process.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::btf::{Btf, TypeId};
use super::path::{self, Place};

/// Words of a record before its fields.
pub(super) const LENGTH: usize = 0;
pub(super) const FOLLOWED: usize = 1;
pub(super) const TIME: usize = 4;
const HEAD: usize = 5;
/// Pointers that fit into the words from [`FOLLOWED`], a byte each.
const MAX_POINTERS: usize = 8 * (TIME - FOLLOWED);

/// Which records have a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Those of all threads.
    Thread,
    /// Those of the first threads of processes.
    Process,
}

/// A field to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// As [`KernelField::path`](crate::model::KernelField::path).
    pub(super) path: Cow<'static, str>,
    pub(super) part: Part,
    /// An array is cut at this many words.
    pub(super) max_words: usize,
}

impl Wanted {
    pub(super) fn number(part: Part, path: impl Into<Cow<'static, str>>) -> Self {
        Self { path: path.into(), part, max_words: 1 }
    }
}

/// A field that the kernel has.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) path: Cow<'static, str>,
    pub(super) part: Part,
    pub(super) place: Place,
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

/// The fields of a record.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Those of threads come first.
    pub(super) columns: Vec<Column>,
    /// The pointers on the way to fields: the offset of each in the structure that the one before leads to.
    pub(super) pointers: Vec<Vec<u32>>,
}

impl Layout {
    /// The fields of `wanted` that the kernel has, each once.
    pub(super) fn resolve(btf: &Btf<'_>, task: TypeId, mut wanted: Vec<Wanted>) -> Self {
        wanted.sort_by_key(|wanted| wanted.part);
        let mut layout = Self::default();
        let mut slot = HEAD;
        for Wanted { path, part, max_words } in wanted {
            let is_known = layout.columns.iter().any(|column| column.path == path);
            let place = path::resolve(btf, task, &path).filter(|place| is_addressable(place));
            let Some(place) = place.filter(|_| !is_known) else { continue };
            if !layout.follow(&place.hops) {
                continue;
            }
            let words = usize::try_from(place.size.div_ceil(8)).unwrap_or(usize::MAX).min(max_words);
            layout.columns.push(Column { path, part, place, slot, words });
            slot += words;
        }
        layout
    }

    /// Adds the pointers on a way; false if a record has no room for them.
    fn follow(&mut self, hops: &[u32]) -> bool {
        let is_new = |way: &&[u32]| !self.pointers.iter().any(|known| known == way);
        let new: Vec<_> = (1..=hops.len()).map(|depth| &hops[..depth]).filter(is_new).map(<[u32]>::to_vec).collect();
        let fits = self.pointers.len() + new.len() <= MAX_POINTERS;
        if fits {
            self.pointers.extend(new);
        }
        fits
    }

    /// Where records have the field with this path, unless a program leaves it out.
    pub(super) fn find(&self, path: &str, dropped: &BTreeSet<u16>) -> Option<Field> {
        let is_wanted = |(number, column): &(u16, &Column)| column.path == path && !dropped.contains(number);
        let (_, column) = (0..).zip(&self.columns).find(is_wanted)?;
        let pointer = self.pointers.iter().position(|way| *way == column.place.hops);
        Some(Field { slot: column.slot, words: column.words, pointer })
    }

    /// Length of a record in words.
    pub(super) fn words(&self, part: Part) -> usize {
        let last = self.columns.iter().rfind(|column| column.part <= part);
        last.map_or(HEAD, |column| column.slot + column.words)
    }
}

/// Whether an instruction can load the field: offsets have 16 bits. Arrays are loaded word by word.
fn is_addressable(place: &Place) -> bool {
    let is_near = |offset: u32| i16::try_from(offset).is_ok();
    let has_width = matches!(place.size, 1 | 2 | 4) || (place.size > 0 && place.size % 8 == 0);
    has_width && place.hops.iter().all(|&hop| is_near(hop)) && is_near(place.offset.saturating_add(place.size))
}

/// One record.
#[derive(Clone, Copy)]
pub(super) struct Record<'r> {
    words: &'r [u64],
}

impl<'r> Record<'r> {
    /// The first record of `words`, and the rest; `None` if it is not whole.
    pub(super) fn split(words: &'r [u64]) -> Option<(Self, &'r [u64])> {
        let length = usize::try_from(*words.get(LENGTH)?).ok().filter(|&length| length >= HEAD)?;
        let (words, rest) = words.split_at_checked(length)?;
        Some((Self { words }, rest))
    }

    /// Its words.
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
        let words = self.words.get(field.slot..field.slot + field.words)?;
        field.pointer.is_none_or(is_followed).then_some(words)
    }

    /// The field, if it is one word.
    pub(super) fn number(self, field: Option<Field>) -> Option<u64> {
        self.words(field?)?.first().copied()
    }
}

/// The records in `words`. What follows the last whole one is left out.
pub(super) fn records(mut words: &[u64]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let (record, rest) = Record::split(words)?;
        words = rest;
        Some(record)
    })
}
