//! Reductions of the values of a group. Each reduction requires a trait that only suitable types have.
//!
//! High-water marks cannot be summed, and a counter has no most frequent value:
//!
//! ```compile_fail
//! use ctprof::model::{PeakNs, Reduce, Sum};
//! Sum::single(&PeakNs::from(7));
//! ```
//!
//! ```compile_fail
//! use ctprof::model::{Mode, MonotonicNs, Reduce};
//! Mode::single(&MonotonicNs::from(7));
//! ```
//!
//! ```
//! use ctprof::model::{Largest, PeakNs, Reduce};
//! let mut peak = Largest::single(&PeakNs::from(7));
//! peak.add(&PeakNs::from(3));
//! assert_eq!(peak.0, PeakNs::from(7));
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::model::sorted::CollectSorted;

/// Types with sums as totals.
pub trait Summable: Copy + From<u64> + Into<u64> {}

/// Types with the largest value as total.
pub trait Maxable: Copy + Ord + Into<Cell> {}

/// Types with the smallest value as total.
pub trait Minable: Copy + Ord + Into<Cell> {}

/// Types with the range of values as total; of settings, it is the one value that all have, if they do.
pub trait Rangeable: Copy + Ord + Into<Cell> {}

/// Types with the most frequent value as total.
pub trait Modeable: Clone + Ord + ToString {}

named! {
    /// The name of a reduction.
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Reduction {
        /// Saturating sum of all values.
        Sum = "sum",
        /// Largest of all values.
        Max = "max",
        /// Smallest of all values.
        Min = "min",
        /// Range from the smallest to the largest value.
        Range = "range",
        /// Most frequent of all values.
        Mode = "mode",
        /// Fewest and most CPUs, and the set if all are equal.
        Cpus = "cpus",
    }
}

/// The total of a group in one metric, as plain data.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Cell {
    /// A sum, a maximum or a minimum.
    Number(u64),
    /// A lower bound of a number that is not known exactly.
    AtLeast {
        /// The lower bound.
        at_least: u64,
    },
    /// Smallest and largest number of a range.
    Range {
        /// Smallest value of the group.
        min: i64,
        /// Largest value of the group.
        max: i64,
    },
    /// Smallest and largest of several limits or other settings, each a number or a word.
    Settings(Box<SettingRange>),
    /// The most frequent value.
    Mode(Box<MostFrequent>),
    /// A difference that may be negative.
    Signed(i64),
    /// A ratio, 1 for 100%.
    Ratio(f64),
    /// A word: the kernel's `max`, a state, a name.
    Word(Box<str>),
    /// Sizes of CPU sets.
    Cpus(Box<CpuSetSizes>),
}

/// Reports have a cell for each value of each group and side: rare ones are boxed.
const _: () = assert!(size_of::<Option<Option<Cell>>>() == 24);

/// The smallest and the largest of settings that differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingRange {
    /// Smallest setting of the group.
    pub min: Cell,
    /// Largest setting of the group.
    pub max: Cell,
}

/// The most frequent value, and how many threads have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MostFrequent {
    /// Most frequent value of the group.
    pub value: String,
    /// Number of threads with this value.
    pub count: u64,
    /// Number of threads with any value.
    pub total: u64,
}

/// The sizes of CPU sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuSetSizes {
    /// CPUs in the smallest set.
    pub fewest: u64,
    /// CPUs in the largest set.
    pub most: u64,
    /// The set, if all threads have the same.
    pub cpus: Option<Arc<[u32]>>,
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Signed(number)
    }
}

/// A reduction over values of type `T`, added one at a time in any order.
pub trait Reduce<T>: Clone {
    /// Kind of reduction that this type makes.
    const REDUCTION: Reduction;

    /// The reduction of a single value.
    fn single(value: &T) -> Self;

    /// Adds one more value.
    fn add(&mut self, value: &T) {
        self.merge(&Self::single(value));
    }

    /// Adds all values of another reduction.
    fn merge(&mut self, other: &Self);

    /// Returns the result as a cell of a report.
    fn cell(&self) -> Cell;
}

/// Saturating sum of the values so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum<T>(pub T);

/// Largest of the values so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Largest<T>(pub T);

/// Smallest of the values so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smallest<T>(pub T);

/// Smallest and largest of the values so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<T> {
    /// Smallest value so far.
    pub min: T,
    /// Largest value so far.
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
        self.0.into()
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
        self.0.into()
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
        match (self.min.into(), self.max.into()) {
            // Positions on a scale are no settings, which are numbers without sign, or words.
            (Cell::Signed(min), Cell::Signed(max)) => Cell::Range { min, max },
            (min, max) if min == max => min,
            (min, max) => Cell::Settings(Box::new(SettingRange { min, max })),
        }
    }
}

impl<T: Modeable> Reduce<T> for Mode<T> {
    const REDUCTION: Reduction = Reduction::Mode;

    fn single(value: &T) -> Self {
        Self(std::iter::once((value.clone(), 1)).into_map())
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
        Cell::Mode(Box::new(MostFrequent { value: value.to_string(), count: *count, total }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{METRICS, Metric, Metrics, Reading, Totals, Value};

    fn metric(name: &str) -> &'static Metric {
        METRICS.iter().find(|metric| metric.name == name).unwrap()
    }

    /// The total of threads with these values, added one by one, and merged one by one.
    fn total(name: &str, values: Vec<Value<'static>>) -> Option<Cell> {
        let (mut added, mut merged) = (Totals::default(), Totals::default());
        for value in values {
            let (mut metrics, mut one) = (Metrics::default(), Totals::default());
            metric(name).set(&mut metrics, value).unwrap();
            added.add(&metrics);
            one.add(&metrics);
            merged.merge(&one);
        }
        assert_eq!(metric(name).total(&added), metric(name).total(&merged), "{name}");
        metric(name).total(&added)
    }

    #[test]
    fn every_reduction_has_its_total_in_whatever_order_values_come() {
        let unsigned = |numbers: [u64; 3]| numbers.map(Value::Unsigned).to_vec();
        let signed = |numbers: [i64; 3]| numbers.map(Value::Signed).to_vec();
        let words = |words: [&'static str; 3]| words.map(Value::Name).to_vec();
        for place in 0..3 {
            let turned = |mut values: Vec<Value<'static>>| {
                values.rotate_left(place);
                values
            };
            assert_eq!(total("run_time_ns", turned(unsigned([7, 3, 5]))), Some(Cell::Number(15)));
            assert_eq!(total("wait_max", turned(unsigned([7, 3, 5]))), Some(Cell::Number(7)));
            assert_eq!(total("cpu_delay_min_ns", turned(unsigned([7, 3, 5]))), Some(Cell::Number(3)));
            assert_eq!(total("cpu_delay_min_ns", turned(unsigned([7, 0, 5]))), Some(Cell::Number(5)), "0 is no event");
            assert_eq!(total("nice", turned(signed([-5, 3, 0]))), Some(Cell::Range { min: -5, max: 3 }));
            let policy = Cell::Mode(Box::new(MostFrequent { value: "SCHED_FIFO".to_owned(), count: 2, total: 3 }));
            assert_eq!(total("policy", turned(words(["SCHED_FIFO", "SCHED_OTHER", "SCHED_FIFO"]))), Some(policy));
        }
        assert_eq!(total("run_time_ns", Vec::new()), None);
        assert_eq!(total("run_time_ns", unsigned([u64::MAX, 1, 1])), Some(Cell::Number(u64::MAX - 1)));
    }

    #[test]
    fn values_of_categories_have_a_text() {
        fn text<T: Reading<Reduced = Mode<T>> + Modeable>(value: T) -> Cell {
            let mut mode = Mode::single(&value);
            mode.add(&value);
            mode.cell()
        }
        let mode = |value: &str| Cell::Mode(Box::new(MostFrequent { value: value.to_owned(), count: 2, total: 2 }));
        assert_eq!(text('S'), mode("S"));
        assert_eq!([text(true), text(false)], [mode("true"), mode("false")]);
        assert_eq!(text(crate::model::CategoricalString("SCHED_RR".into())), mode("SCHED_RR"));
    }
}
