//! Limits: a number or the kernel's word `max`.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use super::reduce::{Cell, Reduce, Reduction};
use super::unit::{Reading, Shape, Unit};
use super::value::{Mismatch, Value};
use super::window_rule::WindowRule;

/// The kernel's word for "no limit".
const MAX: &str = "max";

/// A limit. Numbers are smaller than `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The number.
    Number(u64),
    /// `max`: no limit, or full protection.
    Max,
}

impl From<Limit> for Cell {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Number(number) => Self::Number(number),
            Limit::Max => Self::Word(MAX.to_owned()),
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

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Value::from(*self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LimitVisitor)
    }
}

struct LimitVisitor;

impl Visitor<'_> for LimitVisitor {
    type Value = Limit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or \"max\"")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Limit, E> {
        Ok(Limit::Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Limit, E> {
        if text == MAX { Ok(Limit::Max) } else { Err(E::invalid_value(de::Unexpected::Str(text), &self)) }
    }
}

/// The largest of several limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargestLimit(pub Limit);

/// The smallest of several protections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallestLimit(pub Limit);

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident: $reduced:ident($choose:ident, $reduction:ident), $unit:ident;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Limit);

        impl Reading for $name {
            type Reduced = $reduced;
            const NAME: &'static str = stringify!($name);
            const UNIT: Unit = Unit::$unit;
            const SHAPE: Shape = Shape::Unsigned;
            const WINDOW: WindowRule = WindowRule::Later;

            fn value(&self) -> Value<'_> {
                self.0.into()
            }

            fn from_value(value: Value<'_>) -> Result<Option<Self>, Mismatch> {
                Limit::try_from(value).map(|limit| Some(Self(limit)))
            }
        }

        impl Reduce<$name> for $reduced {
            const REDUCTION: Reduction = Reduction::$reduction;

            fn single(limit: &$name) -> Self {
                Self(limit.0)
            }

            fn merge(&mut self, other: &Self) {
                self.0 = self.0.$choose(other.0);
            }

            fn cell(&self) -> Cell {
                self.0.into()
            }
        }
    )+};
}

limits! {
    /// Limit in microseconds.
    LimitUs: LargestLimit(max, Max), Us;
    /// Limit in bytes.
    LimitBytes: LargestLimit(max, Max), Bytes;
    /// Limit of a number of objects.
    LimitCount: LargestLimit(max, Max), Count;
    /// Protection from reclaim, in bytes.
    ProtectedBytes: SmallestLimit(min, Min), Bytes;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_larger_than_any_number() {
        let mut largest = LargestLimit(Limit::Number(7));
        Reduce::<LimitBytes>::add(&mut largest, &LimitBytes(Limit::Max));
        Reduce::<LimitBytes>::add(&mut largest, &LimitBytes(Limit::Number(u64::MAX)));
        assert_eq!(Reduce::<LimitBytes>::cell(&largest), Cell::Word("max".to_owned()));
        let mut smallest = SmallestLimit(Limit::Max);
        Reduce::<ProtectedBytes>::add(&mut smallest, &ProtectedBytes(Limit::Number(0)));
        assert_eq!(Reduce::<ProtectedBytes>::cell(&smallest), Cell::Number(0), "nothing protected is a value");
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
