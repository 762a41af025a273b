//! Lists of distinct values.

use std::collections::HashMap;
use std::hash::Hash;

/// Values, each once, which are known by their place in the list.
#[derive(Clone, Debug)]
pub(crate) struct NumberedValues<T> {
    numbers: HashMap<T, u32>,
    pub(crate) values: Vec<T>,
}

impl<T> Default for NumberedValues<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> NumberedValues<T> {
    /// The number of a value; `None` for a new one if there are already so many.
    pub(crate) fn number_up_to(&mut self, most: usize, value: &T) -> Option<u32> {
        if self.values.len() >= most { self.numbers.get(value).copied() } else { Some(self.number(value)) }
    }

    /// The number of a value, for which there is always room.
    pub(crate) fn number(&mut self, value: &T) -> u32 {
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = u32::try_from(self.values.len()).expect("values fit in memory");
        self.numbers.insert(value.clone(), number);
        self.values.push(value.clone());
        number
    }
}
