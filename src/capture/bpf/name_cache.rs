//! Names of threads and processes in records.

use super::super::recent::Recent;
use super::layout::{Field, ThreadRecord};
use crate::model::{Name, printable};

/// Maximum number of distinct names that are remembered: programs can make any number of names.
const MAX_NAMES: usize = 1 << 14;

/// Equal names share one allocation.
pub(super) struct NameCache(Recent<[u64; 2], Name>);

impl Default for NameCache {
    fn default() -> Self {
        Self(Recent::new("names of threads", MAX_NAMES))
    }
}

impl NameCache {
    /// The name in a field.
    pub(super) fn name(&mut self, record: ThreadRecord<'_>, field: Option<Field>) -> Name {
        let mut words = [0; 2];
        let read = field.and_then(|field| record.words(field)).unwrap_or_default();
        words.iter_mut().zip(read).for_each(|(to, from)| *to = *from);
        self.of_words(words)
    }

    /// Forgets names that were not asked for since the call before.
    pub(super) fn forget(&mut self) {
        self.0.turn();
    }

    /// The number of names.
    pub(super) fn entries(&self) -> usize {
        self.0.len()
    }

    fn of_words(&mut self, words: [u64; 2]) -> Name {
        let name = || {
            let bytes = words.map(u64::to_ne_bytes).concat();
            printable(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into()
        };
        self.0.get_or_insert_with(words, name)
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
