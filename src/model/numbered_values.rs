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

/// A list without values that are no longer used, while it is made of another one.
pub(crate) struct Renumbering<'f, T> {
    from: &'f NumberedValues<T>,
    /// The number that each value has now, if it is still used.
    numbers: Vec<Option<u32>>,
    pub(crate) kept: NumberedValues<T>,
}

impl<'f, T: Clone + Eq + Hash> Renumbering<'f, T> {
    pub(crate) fn new(from: &'f NumberedValues<T>) -> Self {
        Self { from, numbers: vec![None; from.values.len()], kept: NumberedValues::default() }
    }

    /// The number that a value with this number has from now on, with what `change` makes of it; 0 if there is none.
    pub(crate) fn keep(&mut self, number: u32, change: impl FnOnce(&T) -> T) -> u32 {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        let (Some(now), Some(value)) = (self.numbers.get_mut(place), self.from.values.get(place)) else { return 0 };
        *now.get_or_insert_with(|| self.kept.number(&change(value)))
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
