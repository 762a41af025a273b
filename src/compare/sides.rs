//! The two sides of a comparison.

use std::collections::BTreeMap;

/// A value of each side of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Sides<T> {
    /// Value of the first snapshot.
    pub baseline: T,
    /// Value of the second snapshot.
    pub candidate: T,
}

impl<T> Sides<T> {
    /// Applies `f` to both sides.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Sides<U> {
        Sides { baseline: f(self.baseline), candidate: f(self.candidate) }
    }

    /// Borrows both sides.
    pub fn as_ref(&self) -> Sides<&T> {
        Sides { baseline: &self.baseline, candidate: &self.candidate }
    }

    /// Borrows both sides mutably.
    pub fn as_mut(&mut self) -> Sides<&mut T> {
        Sides { baseline: &mut self.baseline, candidate: &mut self.candidate }
    }
}

impl<T> From<(T, T)> for Sides<T> {
    fn from((baseline, candidate): (T, T)) -> Self {
        Self { baseline, candidate }
    }
}

impl<T> IntoIterator for Sides<T> {
    type Item = T;
    type IntoIter = std::array::IntoIter<T, 2>;

    fn into_iter(self) -> Self::IntoIter {
        [self.baseline, self.candidate].into_iter()
    }
}

/// Both sides of each key.
pub(super) fn joined<K: Ord, V>(maps: Sides<BTreeMap<K, V>>) -> BTreeMap<K, Sides<Option<V>>> {
    let mut joined: BTreeMap<K, Sides<Option<V>>> = BTreeMap::new();
    let empty = || Sides { baseline: None, candidate: None };
    for (key, value) in maps.baseline {
        joined.entry(key).or_insert_with(empty).baseline = Some(value);
    }
    for (key, value) in maps.candidate {
        joined.entry(key).or_insert_with(empty).candidate = Some(value);
    }
    joined
}
