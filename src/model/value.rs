//! Untyped values, exchanged between kernel text, JSON and the table of metrics.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// A value as plain data, without its unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A number without sign.
    Unsigned(u64),
    /// A number below zero, or one of a signed type.
    Signed(i64),
    /// A boolean, true or false.
    Flag(bool),
    /// A single letter, such as a state.
    Letter(char),
    /// A name known at compile time.
    Name(&'static str),
    /// Any other name or text.
    Text(Cow<'a, str>),
    /// Numbers of CPUs, in ascending order.
    Cpus(Cow<'a, [u32]>),
}

/// A value that its metric cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct Mismatch {
    expected: &'static str,
    found: String,
}

impl Value<'_> {
    /// The error for a value that is not `expected`.
    pub fn mismatch(&self, expected: &'static str) -> Mismatch {
        Mismatch { expected, found: self.to_string() }
    }

    /// The value without what it borrows.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Unsigned(number) => Value::Unsigned(number),
            Self::Signed(number) => Value::Signed(number),
            Self::Flag(flag) => Value::Flag(flag),
            Self::Letter(letter) => Value::Letter(letter),
            Self::Name(name) => Value::Name(name),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Self::Cpus(cpus) => Value::Cpus(Cow::Owned(cpus.into_owned())),
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(n) => n.fmt(f),
            Self::Signed(n) => n.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Letter(letter) => write!(f, "{letter:?}"),
            Self::Name(name) => write!(f, "{name:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Cpus(cpus) => write!(f, "a list of {}", cpus.len()),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

macro_rules! integers {
    ($($int:ty => $variant:ident, $what:literal;)+) => {$(
        impl From<$int> for Value<'_> {
            fn from(number: $int) -> Self {
                Value::$variant(number.into())
            }
        }

        impl TryFrom<Value<'_>> for $int {
            type Error = Mismatch;

            #[inline]
            fn try_from(value: Value<'_>) -> Result<Self, Mismatch> {
                match value {
                    Value::Unsigned(n) => <$int>::try_from(n).ok(),
                    Value::Signed(n) => <$int>::try_from(n).ok(),
                    _ => None,
                }
                .ok_or_else(|| value.mismatch($what))
            }
        }
    )+};
}

integers! {
    u64 => Unsigned, "a whole number from 0 to 18446744073709551615";
    u16 => Unsigned, "a whole number from 0 to 65535";
    u32 => Unsigned, "a whole number from 0 to 4294967295";
    i32 => Signed, "a whole number from -2147483648 to 2147483647";
}
