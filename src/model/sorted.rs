//! Sorts and sorted maps that add little to the program.
//!
//! The standard library's sort takes 8 kB of machine code for each type and comparison, and longer to compile than most files
//! do; a map that is made from an iterator sorts first. What is here is for short lists. What a host has many of, such as threads,
//! groups and their rows, is sorted by the standard library.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Sorts in place. Elements that compare as equal keep their order.
pub(crate) trait Arrange<T> {
    /// Sorts as `sort_by` does.
    fn arrange_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts as `sort_by_key` does.
    fn arrange_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.arrange_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> Arrange<T> for [T] {
    fn arrange_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut sources = sorted_indexes(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        for at in 0..sources.len() {
            // What was here is where it was swapped to.
            let mut source = sources[at];
            while source < at {
                source = sources[source];
            }
            sources[at] = source;
            self.swap(at, source);
        }
    }
}

/// The indexes of a list of this length in the order of its elements.
fn sorted_indexes(length: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut indexes: Vec<usize> = (0..length).collect();
    indexes.sort_by(|a, b| compare(*a, *b));
    indexes
}

/// Collects into maps and sets, as `collect` does. Of equal keys, the last value stays. Nodes of maps that are filled in order are
/// half empty: use `collect` for many large values.
pub(crate) trait CollectSorted: Iterator + Sized {
    /// A map of pairs.
    fn into_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        self.for_each(|(key, value)| {
            map.insert(key, value);
        });
        map
    }

    /// A set of the items.
    fn into_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = BTreeSet::new();
        self.for_each(|item| {
            set.insert(item);
        });
        set
    }
}

impl<I: Iterator> CollectSorted for I {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_as_the_standard_library_sorts_them() {
        let mut state = 1_u32;
        for length in 0..200 {
            let mut random = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 28
            };
            let mut list: Vec<_> = (0..length).map(|at| (random(), at)).collect();
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| *key);
            list.arrange_by_key(|(key, _)| *key);
            assert_eq!(list, expected);
        }
    }

    #[test]
    fn the_last_value_of_a_key_stays() {
        assert_eq!([(2, 'a'), (1, 'b'), (2, 'c')].into_iter().into_map(), BTreeMap::from([(1, 'b'), (2, 'c')]));
        assert_eq!([2, 1, 2].into_iter().into_set(), BTreeSet::from([1, 2]));
    }
}
