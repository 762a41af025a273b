//! Names of threads and processes in records.

use std::collections::HashMap;

use super::layout::{Field, ThreadRecord};
use crate::model::{Name, printable};

/// Distinct names that are remembered: programs can make any number of them.
const MAX_NAMES: usize = 1 << 14;

/// Equal names share one allocation.
#[derive(Default)]
pub(super) struct NameCache(HashMap<[u64; 2], Name>);

impl NameCache {
    /// The name in a field.
    pub(super) fn name(&mut self, record: ThreadRecord<'_>, field: Option<Field>) -> Name {
        let mut words = [0; 2];
        let read = field.and_then(|field| record.words(field)).unwrap_or_default();
        words.iter_mut().zip(read).for_each(|(to, from)| *to = *from);
        self.of_words(words)
    }

    fn of_words(&mut self, words: [u64; 2]) -> Name {
        if self.0.len() >= MAX_NAMES {
            self.0.clear();
        }
        let name = || {
            let bytes = words.map(u64::to_ne_bytes).concat();
            printable(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into()
        };
        self.0.entry(words).or_insert_with(name).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_names_takes_the_memory_of_some() {
        let mut names = NameCache::default();
        for name in 0..100_000_u64 {
            assert_eq!(&*names.of_words([u64::from_ne_bytes(*b"worker-\0"), name]), "worker-");
            assert!(names.0.len() <= MAX_NAMES);
        }
    }
}
