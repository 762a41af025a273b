//! What samples say, each once, by number.

use std::collections::HashMap;
use std::hash::Hash;

use crate::model::{KernelEntry, Name, ReasonClass, ThreadSample};

/// A reason before its functions have names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RawReason {
    pub(super) class: ReasonClass,
    pub(super) entry: KernelEntry,
    /// Addresses, the innermost first.
    pub(super) stack: Vec<u64>,
    pub(super) object: Option<Name>,
    /// The number of the names of another thread.
    pub(super) by: Option<u32>,
}

/// The names of threads, and the address of their `struct css_set`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SampledNames {
    pub(super) pcomm: Name,
    pub(super) comm: Name,
    pub(super) cgroups: u64,
}

impl SampledNames {
    pub(super) fn of(sample: &ThreadSample) -> Self {
        let ThreadSample { pcomm, comm, cgroups, .. } = sample;
        Self { pcomm: Name::clone(pcomm), comm: Name::clone(comm), cgroups: *cgroups }
    }
}

/// Values that are equal have one number.
#[derive(Clone, Debug)]
pub(super) struct NumberedValues<T> {
    numbers: HashMap<T, u32>,
    pub(super) values: Vec<T>,
    most: usize,
}

impl<T: Clone + Eq + Hash> NumberedValues<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { numbers: HashMap::new(), values: Vec::new(), most }
    }

    /// The number of a value; `None` for a new one if there are too many.
    pub(super) fn number(&mut self, value: &T) -> Option<u32> {
        let is_full = self.values.len() >= self.most;
        if is_full { self.numbers.get(value).copied() } else { Some(self.number_of_few(value)) }
    }

    /// The number of one of a few values, for which there is always room.
    pub(super) fn number_of_few(&mut self, value: &T) -> u32 {
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = u32::try_from(self.values.len()).expect("there are a few more than the most");
        self.numbers.insert(value.clone(), number);
        self.values.push(value.clone());
        number
    }
}
