//! The total of one metric over a group of threads.

use super::{Cell, Reading, Reduce, Sum, Summable};

/// The total of a metric over a group of threads: the reduction of their values, and how many have one.
#[derive(Clone, Debug, PartialEq)]
pub struct Total<T: Reading> {
    reduced: Option<T::Reduced>,
    covered: u64,
}

impl<T: Reading> Default for Total<T> {
    fn default() -> Self {
        Self { reduced: None, covered: 0 }
    }
}

impl<T: Reading> Total<T> {
    /// Adds the value of one more thread, if it has one.
    pub fn add(&mut self, value: Option<&T>) {
        self.covered += u64::from(value.is_some());
        self.add_work(value);
    }

    /// Adds a value without a thread behind it, such as exited work: the number of threads with a value does not change.
    pub fn add_work(&mut self, value: Option<&T>) {
        let Some(value) = value else { return };
        match &mut self.reduced {
            Some(reduced) => reduced.add(value),
            None => self.reduced = Some(T::Reduced::single(value)),
        }
    }

    /// Adds the threads of another total.
    pub fn merge(&mut self, other: &Self) {
        self.covered += other.covered;
        match (&mut self.reduced, &other.reduced) {
            (Some(reduced), Some(other)) => reduced.merge(other),
            (none @ None, other) => none.clone_from(other),
            (Some(_), None) => {}
        }
    }

    /// Number of threads with a value.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    pub(super) fn cell(&self) -> Option<Cell> {
        self.reduced.as_ref().map(Reduce::cell)
    }
}

impl<T: Summable + Reading<Reduced = Sum<T>>> Total<T> {
    /// The sum, as a number.
    pub fn sum(&self) -> Option<u64> {
        self.reduced.map(|sum| sum.0.into())
    }
}
