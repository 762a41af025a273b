//! Reductions of the values of a group. Each reduction requires a trait that only suitable types have.
//!
//! High-water marks cannot be summed, and a counter has no most frequent value:
//!
//! ```compile_fail
//! use ctprof::model::{PeakNs, Reduce, Sum};
//! Sum::single(&PeakNs(7));
//! ```
//!
//! ```compile_fail
//! use ctprof::model::{Mode, MonotonicNs, Reduce};
//! Mode::single(&MonotonicNs(7));
//! ```
//!
//! ```
//! use ctprof::model::{Largest, PeakNs, Reduce};
//! let mut peak = Largest::single(&PeakNs(7));
//! peak.add(&PeakNs(3));
//! assert_eq!(peak.0, PeakNs(7));
//! ```

use std::collections::BTreeMap;

use serde::Serialize;

/// Types with sums as totals.
pub trait Summable: Copy + From<u64> + Into<u64> {}

/// Types with the largest value as total.
pub trait Maxable: Copy + Ord + Into<u64> {}

/// Types with the smallest value as total; 0 means "no event".
pub trait Minable: Copy + Ord + Into<u64> {}

/// Types with the range of values as total.
pub trait Rangeable: Copy + Ord + Into<i64> {}

/// Types with the most frequent value as total.
pub trait Modeable: Clone + Ord {
    /// The text of the value.
    fn label(&self) -> String;
}

/// The name of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Reduction {
    /// Saturating sum.
    Sum,
    /// Largest.
    Max,
    /// Smallest.
    Min,
    /// Smallest to largest.
    Range,
    /// Most frequent.
    Mode,
    /// Fewest and most CPUs, and the set if all are equal.
    Cpus,
}

impl Reduction {
    /// The reduction's name in listings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
            Self::Range => "range",
            Self::Mode => "mode",
            Self::Cpus => "cpus",
        }
    }
}

/// The total of a group in one metric, as plain data.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Cell {
    /// A sum, a maximum or a minimum.
    Number(u64),
    /// Both ends of a range.
    Range {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// The most frequent value, and how many threads have it.
    Mode {
        /// The value.
        value: String,
        /// Number of threads with this value.
        count: u64,
        /// Number of threads with any value.
        total: u64,
    },
    /// A difference that may be negative.
    Signed(i64),
    /// A ratio.
    Ratio(f64),
    /// A word: the kernel's `max`, a state, a name.
    Word(String),
    /// Sizes of CPU sets.
    Cpus {
        /// CPUs in the smallest set.
        fewest: u64,
        /// CPUs in the largest set.
        most: u64,
        /// The set, if all threads have the same.
        cpus: Option<Vec<u32>>,
    },
}

/// A reduction over values of type `T`, added one at a time in any order.
pub trait Reduce<T>: Clone {
    /// Its name.
    const REDUCTION: Reduction;

    /// The reduction of a single value.
    fn single(value: &T) -> Self;

    /// Adds one more value.
    fn add(&mut self, value: &T) {
        self.merge(&Self::single(value));
    }

    /// Adds all values of another reduction.
    fn merge(&mut self, other: &Self);

    /// The result.
    fn cell(&self) -> Cell;

    /// The value, or `None` if it means "no event".
    fn measured(value: T) -> Option<T> {
        Some(value)
    }
}

/// Saturating sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum<T>(pub T);

/// Largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Largest<T>(pub T);

/// Smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smallest<T>(pub T);

/// Smallest and largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<T> {
    /// The smallest.
    pub min: T,
    /// The largest.
    pub max: T,
}

/// How often each value occurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode<T>(pub BTreeMap<T, u64>);

impl<T: Summable> Reduce<T> for Sum<T> {
    const REDUCTION: Reduction = Reduction::Sum;

    fn single(value: &T) -> Self {
        Self(*value)
    }

    fn merge(&mut self, other: &Self) {
        let (total, more): (u64, u64) = (self.0.into(), other.0.into());
        self.0 = total.saturating_add(more).into();
    }

    fn cell(&self) -> Cell {
        Cell::Number(self.0.into())
    }
}

impl<T: Maxable> Reduce<T> for Largest<T> {
    const REDUCTION: Reduction = Reduction::Max;

    fn single(value: &T) -> Self {
        Self(*value)
    }

    fn merge(&mut self, other: &Self) {
        self.0 = self.0.max(other.0);
    }

    fn cell(&self) -> Cell {
        Cell::Number(self.0.into())
    }
}

impl<T: Minable> Reduce<T> for Smallest<T> {
    const REDUCTION: Reduction = Reduction::Min;

    fn single(value: &T) -> Self {
        Self(*value)
    }

    fn merge(&mut self, other: &Self) {
        self.0 = self.0.min(other.0);
    }

    fn cell(&self) -> Cell {
        Cell::Number(self.0.into())
    }

    fn measured(value: T) -> Option<T> {
        Some(value).filter(|&r| Into::<u64>::into(r) != 0)
    }
}

impl<T: Rangeable> Reduce<T> for Range<T> {
    const REDUCTION: Reduction = Reduction::Range;

    fn single(value: &T) -> Self {
        Self { min: *value, max: *value }
    }

    fn merge(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    fn cell(&self) -> Cell {
        Cell::Range { min: self.min.into(), max: self.max.into() }
    }
}

impl<T: Modeable> Reduce<T> for Mode<T> {
    const REDUCTION: Reduction = Reduction::Mode;

    fn single(value: &T) -> Self {
        Self(BTreeMap::from([(value.clone(), 1)]))
    }

    fn add(&mut self, value: &T) {
        match self.0.get_mut(value) {
            Some(count) => *count += 1,
            None => drop(self.0.insert(value.clone(), 1)),
        }
    }

    fn merge(&mut self, other: &Self) {
        for (value, more) in &other.0 {
            match self.0.get_mut(value) {
                Some(count) => *count += more,
                None => drop(self.0.insert(value.clone(), *more)),
            }
        }
    }

    fn cell(&self) -> Cell {
        let total = self.0.values().sum();
        // In reverse, because `max_by_key` returns the last of equal values: the smallest value wins.
        let (value, count) =
            self.0.iter().rev().max_by_key(|(_, count)| **count).expect("`single` starts with one value");
        Cell::Mode { value: value.label(), count: *count, total }
    }
}
