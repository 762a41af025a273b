//! Functions of the kernel that threads wait in, as `wchan` names them: the innermost outside of the scheduler.

use std::collections::HashMap;

use crate::model::{Name, printable};

/// Distinct functions that are remembered.
const MAX_FUNCTIONS: usize = 1 << 14;

/// Numbers of functions, which take the place of addresses in samples.
#[derive(Default)]
pub(in crate::capture) struct WaitFunctions(HashMap<Name, u64>);

impl WaitFunctions {
    /// Returns the number of the function that a `wchan` file names; `None` if it names none, or if there are too many.
    pub(in crate::capture) fn number(&mut self, wchan: &[u8]) -> Option<u64> {
        let name = Some(wchan.trim_ascii()).filter(|name| !matches!(*name, b"" | b"0"))?;
        let name: Name = printable(name).into();
        if !self.0.contains_key(&name) && self.0.len() >= MAX_FUNCTIONS {
            return None;
        }
        let next = u64::try_from(self.0.len() + 1).ok()?;
        Some(*self.0.entry(name).or_insert(next))
    }

    /// Returns the functions by their numbers.
    pub(in crate::capture) fn names(&self) -> HashMap<u64, Name> {
        self.0.iter().map(|(name, &number)| (number, Name::clone(name))).collect()
    }

    /// Returns how many functions have a number.
    pub(in crate::capture) fn entries(&self) -> usize {
        self.0.len()
    }

    /// Takes the numbers back: samples before have other ones.
    pub(in crate::capture) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_beyond_the_bound_have_no_number() {
        let mut functions = WaitFunctions::default();
        let numbers: Vec<_> = (0..=MAX_FUNCTIONS).map(|n| functions.number(format!("f{n}\n").as_bytes())).collect();
        assert_eq!((numbers[0], numbers[MAX_FUNCTIONS - 1], numbers[MAX_FUNCTIONS]), (Some(1), Some(1 << 14), None));
        assert_eq!(functions.number(b"f9"), Some(10), "a known one keeps its number");
        assert_eq!([&b"0"[..], b"", b"\n"].map(|wchan| functions.number(wchan)), [None; 3], "it runs");
    }
}
