//! Builds records for tests.

use super::super::columns;
use super::super::layout::{FOLLOWED, LENGTH, Layout, RecordColumn, RecordScope, TIME, ThreadRecord};
use super::super::path::FieldLocation;

/// Words of a mask of CPUs.
const CPU_WORDS: usize = 2;

/// A layout with every field, and a record of it.
pub(crate) struct RecordBuilder {
    pub(crate) layout: Layout,
    words: Vec<u64>,
}

impl RecordBuilder {
    /// All fields are 0, and all pointers are followed.
    pub(crate) fn new() -> Self {
        let mut layout = Layout::default();
        for wanted in columns::all(CPU_WORDS) {
            if layout.columns.iter().any(|column| column.path == wanted.path) {
                continue;
            }
            let hops = pointers(wanted.path);
            if !hops.is_empty() && !layout.pointers.contains(&hops) {
                layout.pointers.push(hops.clone());
            }
            let place = FieldLocation { hops, ..FieldLocation::default() };
            let slot = layout.words(RecordScope::Process);
            layout.columns.push(RecordColumn {
                path: wanted.path,
                part: wanted.part,
                place,
                slot,
                words: wanted.max_words,
            });
        }
        let mut words = vec![0; layout.words(RecordScope::Process)];
        words[LENGTH] = u64::try_from(words.len()).unwrap();
        words[FOLLOWED..TIME].fill(u64::MAX);
        Self { layout, words }
    }

    /// Sets the words of a field.
    pub(crate) fn set(mut self, path: &str, words: &[u64]) -> Self {
        let column = self.layout.columns.iter().find(|column| column.path == path).expect("a known path");
        self.words[column.slot..column.slot + words.len()].copy_from_slice(words);
        self
    }

    /// Sets fields of one word.
    pub(crate) fn with<const N: usize>(self, fields: [(&str, u64); N]) -> Self {
        fields.into_iter().fold(self, |record, (path, number)| record.set(path, &[number]))
    }

    /// Makes a pointer, such as `mm`, NULL.
    pub(crate) fn null(mut self, pointer: &str) -> Self {
        let hops = pointers(&format!("{pointer}->"));
        for (index, _) in self.layout.pointers.iter().enumerate().filter(|(_, way)| way.starts_with(&hops)) {
            let word = &mut self.words[FOLLOWED + index / 8];
            let mut bytes = word.to_ne_bytes();
            bytes[index % 8] = 0;
            *word = u64::from_ne_bytes(bytes);
        }
        self
    }

    /// Sets the time of the record.
    pub(crate) fn at(mut self, time: u64) -> Self {
        self.words[TIME] = time;
        self
    }

    /// Sets all words but the length.
    pub(crate) fn fill(mut self, mut word: impl FnMut() -> u64) -> Self {
        self.words[FOLLOWED..].fill_with(&mut word);
        self
    }

    /// Cuts the record to this number of words.
    pub(crate) fn cut(mut self, words: usize) -> Self {
        self.words.truncate(words);
        self.words[LENGTH] = u64::try_from(words).unwrap();
        self
    }

    pub(crate) fn record(&self) -> ThreadRecord<'_> {
        ThreadRecord::split(&self.words).unwrap().0
    }
}

/// A number for each pointer on the way to a field.
fn pointers(path: &str) -> Vec<u32> {
    let newest = path.split('|').next().unwrap_or_default();
    let (pointers, _) = newest.rsplit_once("->").unwrap_or_default();
    let number = |name: &str| name.bytes().fold(0, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    pointers.split("->").filter(|name| !name.is_empty()).map(number).collect()
}
