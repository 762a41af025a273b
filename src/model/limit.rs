//! Limits: a number or the kernel's word `max`.

use serde::{Deserialize, Serialize};

use super::unit::numbers;
use super::{Cell, Mismatch, Range, Rangeable, Reading, Reduce, Reduction, Shape, Unit, Value, WindowRule};

/// The kernel's word for "no limit".
const MAX: &str = "max";

/// A limit. Numbers are smaller than `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[serde(expecting = "expected a number or \"max\"")]
pub enum Limit {
    /// `max`: no limit, or full protection.
    #[default]
    #[serde(rename = "max")]
    Max = 1,
    /// A limit as a number.
    #[serde(untagged)]
    Number(u64) = 0,
}

impl From<Limit> for Cell {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Number(number) => Self::Number(number),
            Limit::Max => Self::Word(MAX.into()),
        }
    }
}

impl From<Limit> for Value<'_> {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Number(number) => Self::Unsigned(number),
            Limit::Max => Self::Name(MAX),
        }
    }
}

impl TryFrom<Value<'_>> for Limit {
    type Error = Mismatch;

    fn try_from(value: Value<'_>) -> Result<Self, Mismatch> {
        match &value {
            Value::Unsigned(number) => Ok(Self::Number(*number)),
            Value::Name(MAX) => Ok(Self::Max),
            Value::Text(text) if text == MAX => Ok(Self::Max),
            other => Err(other.mismatch("a number or \"max\"")),
        }
    }
}

numbers! {
    /// Limit in microseconds, or `max`.
    LimitUs(Limit as Limit) is Rangeable(Limit): Range, Us, Unsigned, Later;
    /// Limit in bytes, or `max`.
    LimitBytes(Limit as Limit) is Rangeable(Limit): Range, Bytes, Unsigned, Later;
    /// Limit of a number of objects.
    LimitCount(Limit as Limit) is Rangeable(Limit): Range, Count, Unsigned, Later;
    /// Protection from reclaim, in bytes.
    ProtectedBytes(Limit as Limit) is Rangeable(Limit): Range, Bytes, Unsigned, Later;
}

#[cfg(test)]
mod tests {
    use super::super::reduce::{Reduce, SettingRange};
    use super::*;

    #[test]
    fn limits_that_differ_are_a_range_in_which_no_limit_is_the_largest() {
        let cell = |limits: &[Limit]| {
            let mut limits = limits.iter().map(|limit| LimitBytes::from(*limit));
            let mut range = Range::single(&limits.next().unwrap());
            limits.for_each(|limit| range.add(&limit));
            range.cell()
        };
        let (one, most) = (Limit::Number(7), Limit::Number(u64::MAX));
        assert_eq!([cell(&[one, one]), cell(&[Limit::Max])], [Cell::Number(7), Cell::Word("max".into())]);
        let range = |max: Limit| Cell::Settings(Box::new(SettingRange { min: Cell::Number(7), max: max.into() }));
        assert_eq!([cell(&[most, one]), cell(&[one, Limit::Max, most])], [range(most), range(Limit::Max)]);
    }

    #[test]
    fn a_limit_is_a_number_or_max_however_it_is_written() {
        assert_eq!(Limit::try_from(Value::Unsigned(7)).unwrap(), Limit::Number(7));
        for word in [Value::Name("max"), Value::Text("max".into())] {
            assert_eq!(Limit::try_from(word).unwrap(), Limit::Max);
        }
        for other in [Value::Name("min"), Value::Text("maximum".into()), Value::Signed(-1)] {
            assert!(Limit::try_from(other).is_err());
        }
    }
}
