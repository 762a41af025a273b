//! The sides of a report: `show` has one, `compare` has two.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A value per side of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sides<T> {
    /// The value of the first side, or of the only one.
    pub baseline: T,
    /// The value of the second side; `None` in a report of one side.
    pub candidate: Option<T>,
}

impl<T> Sides<T> {
    /// Returns a report's only side.
    pub fn one(value: T) -> Self {
        Self { baseline: value, candidate: None }
    }

    /// Returns a pair of two sides.
    pub fn two(baseline: T, candidate: T) -> Self {
        Self { baseline, candidate: Some(candidate) }
    }

    /// Applies `f` to each side.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Sides<U> {
        Sides { baseline: f(self.baseline), candidate: self.candidate.map(f) }
    }

    /// Applies `f` to all sides at once.
    pub(crate) fn par_map<U: Send>(self, f: impl Fn(T) -> U + Sync) -> Sides<U>
    where
        T: Send,
    {
        let Self { baseline, candidate } = self;
        let (baseline, candidate) = rayon::join(|| f(baseline), || candidate.map(&f));
        Sides { baseline, candidate }
    }

    /// The values of each side together.
    pub(crate) fn zip<U>(self, other: Sides<U>) -> Sides<(T, U)> {
        Sides { baseline: (self.baseline, other.baseline), candidate: self.candidate.zip(other.candidate) }
    }

    /// Borrows the value of each side.
    pub fn as_ref(&self) -> Sides<&T> {
        Sides { baseline: &self.baseline, candidate: self.candidate.as_ref() }
    }

    pub(crate) fn as_mut(&mut self) -> Sides<&mut T> {
        Sides { baseline: &mut self.baseline, candidate: self.candidate.as_mut() }
    }

    /// Borrows the values, the baseline's first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.as_ref().into_iter()
    }

    /// The values of both sides; `None` in a report of one side.
    pub fn both(self) -> Option<(T, T)> {
        Some((self.baseline, self.candidate?))
    }
}

impl<T> Sides<Option<T>> {
    /// The value of each side; `None` if one is missing.
    pub(super) fn of_all(self) -> Option<Sides<T>> {
        let baseline = self.baseline?;
        Some(Sides { baseline, candidate: self.candidate.map_or(Some(None), |candidate| candidate.map(Some))? })
    }

    /// The candidate's value, if there is a candidate and it has one.
    pub fn of_candidate(&self) -> Option<&T> {
        self.candidate.as_ref()?.as_ref()
    }
}

impl<T> IntoIterator for Sides<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::iter::Once<T>, std::option::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.baseline).chain(self.candidate)
    }
}

/// Serializes one side as its value, two as an object.
impl<T: Serialize> Serialize for Sides<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self { baseline, candidate: None } => baseline.serialize(serializer),
            Self { baseline, candidate: Some(candidate) } => {
                let mut sides = serializer.serialize_map(Some(2))?;
                sides.serialize_entry("baseline", baseline)?;
                sides.serialize_entry("candidate", candidate)?;
                sides.end()
            }
        }
    }
}

/// Each key with the values of the sides.
pub(super) fn joined<K: Ord, V>(maps: Sides<BTreeMap<K, V>>) -> BTreeMap<K, Sides<Option<V>>> {
    let Sides { baseline, candidate } = maps;
    let absent = candidate.as_ref().map(|_| ());
    let mut joined: BTreeMap<K, _> = baseline
        .into_iter()
        .map(|(key, value)| (key, Sides { baseline: Some(value), candidate: absent.map(|()| None) }))
        .collect();
    for (key, value) in candidate.into_iter().flatten() {
        joined.entry(key).or_insert_with(|| Sides { baseline: None, candidate: None }).candidate = Some(Some(value));
    }
    joined
}
