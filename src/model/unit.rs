//! The types of values. A type determines the unit and the reduction.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZero;

use serde::{Deserialize, Serialize};

use super::{
    Cell, Largest, Maxable, Minable, Mismatch, Mode, Modeable, Range, Rangeable, Reduce, Reduction, Smallest, Sum,
    Summable, Value, WindowRule,
};

named! {
    /// The unit of a number, which determines how it is scaled for display.
    pub enum Unit {
        /// Number of events or objects.
        Count = "count",
        /// Number of nanoseconds, as a duration.
        Ns = "ns",
        /// Number of microseconds, as a duration.
        Us = "us",
        /// Hundredths of a percent.
        Hundredths = "percent/100",
        /// A ratio, usually 0 to 1.
        Ratio = "ratio",
        /// Clock ticks of `USER_HZ`, as procfs prints them.
        Ticks = "ticks",
        /// Amount of memory or data, in bytes.
        Bytes = "bytes",
        /// Percent; of time, 100 is one thread or one CPU for the whole time.
        Percent = "percent",
        /// Events in each second.
        CountPerSecond = "count/s",
        /// Bytes in each second.
        BytesPerSecond = "bytes/s",
        /// Events per unit of work.
        CountPerUnit = "count/unit",
        /// Bytes per unit of work.
        BytesPerUnit = "bytes/unit",
        /// Not a quantity: never scaled.
        None = "",
    }
}

impl Unit {
    /// Whether it is a unit of time, or of time per second.
    pub(crate) fn is_time(self) -> bool {
        matches!(self, Self::Ns | Self::Us | Self::Ticks | Self::Percent)
    }

    /// How many nanoseconds it is; `None` unless it is a unit of time.
    pub(crate) fn nanoseconds(self) -> Option<f64> {
        match self {
            Self::Ns => Some(1.0),
            Self::Us => Some(1e3),
            Self::Ticks => Some(NS_PER_TICK as f64),
            _ => None,
        }
    }

    /// Whether it is an amount per second or per unit of work, with decimals.
    pub(crate) fn is_rate(self) -> bool {
        self == Self::Percent || self.per().is_some()
    }

    /// Returns the divisor of rates in this unit, as names of columns end; `None` for totals and shares.
    pub(crate) fn per(self) -> Option<&'static str> {
        self.name().rsplit_once('/').map(|(_, per)| per).filter(|_| self != Self::Hundredths)
    }
}

/// Nanoseconds per tick of `USER_HZ`, which is 100 on all architectures that ctprof supports.
pub(crate) const NS_PER_TICK: u64 = 10_000_000;

/// `part * whole / sum`, at most `whole`; 0 of nothing.
pub(crate) fn proportional(part: u64, whole: u64, sum: u128) -> u64 {
    u64::try_from(u128::from(part) * u128::from(whole) / sum.max(1)).unwrap_or(whole).min(whole)
}

/// The form that a value has in JSON and in kernel text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// A number without sign.
    Unsigned,
    /// A number that may be negative.
    Signed,
    /// A single letter, such as a state.
    Letter,
    /// True or false; 1 or 0 in kernel text.
    Flag,
    /// A name or other text.
    Text,
    /// A list of CPU numbers.
    Cpus,
}

/// A type of values: how they are stored, parsed and reduced over a group of threads.
pub trait Reading: Sized + 'static {
    /// The reduction of a group of these.
    type Reduced: Reduce<Self>;
    /// The type's name, as documentation gives it.
    const NAME: &'static str;
    /// Unit of the values.
    const UNIT: Unit = Unit::None;
    /// Form of the value as data.
    const SHAPE: Shape;
    /// Rule for the value in a window.
    const WINDOW: WindowRule = WindowRule::Later;

    /// The value as plain data.
    fn value(&self) -> Value<'_>;

    /// The typed value; `None` if it means "no event" in this type, and an error if it has another shape or is out of range.
    fn from_value(value: Value<'_>) -> Result<Option<Self>, Mismatch>;
}

/// A number below 2⁶⁴ - 1, which stands for it. With nothing in its place, it takes 8 bytes and not 16: a thread has some ninety.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(transparent)]
#[serde(from = "u64", into = "u64")]
pub(super) struct Whole(NonZero<u64>);

impl Default for Whole {
    fn default() -> Self {
        0.into()
    }
}

impl fmt::Debug for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        u64::from(*self).fmt(f)
    }
}

impl From<u64> for Whole {
    fn from(number: u64) -> Self {
        Self(NonZero::<u64>::MIN.saturating_add(number))
    }
}

impl From<Whole> for u64 {
    fn from(whole: Whole) -> Self {
        whole.0.get() - 1
    }
}

macro_rules! numbers {
    ($($(#[doc = $doc:literal])+ $name:ident($inner:ident as $stored:ident) is $kind:ident($wide:ty): $reduced:ident, $unit:ident, $shape:ident, $window:ident;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(transparent)]
        #[serde(transparent)]
        pub struct $name($stored);

        impl $kind for $name {}

        impl $name {
            /// Returns the number without its unit.
            pub fn number(self) -> $inner {
                self.0.into()
            }
        }

        impl From<$name> for $wide {
            fn from(reading: $name) -> $wide {
                reading.number().into()
            }
        }

        impl From<$name> for Cell {
            fn from(reading: $name) -> Cell {
                <$wide>::from(reading).into()
            }
        }

        impl From<$inner> for $name {
            fn from(number: $inner) -> $name {
                $name(number.into())
            }
        }

        impl Reading for $name {
            type Reduced = $reduced<$name>;
            const NAME: &'static str = stringify!($name);
            const UNIT: Unit = Unit::$unit;
            const SHAPE: Shape = Shape::$shape;
            const WINDOW: WindowRule = WindowRule::$window;

            #[inline]
            fn value(&self) -> Value<'_> {
                Value::from(self.number())
            }

            #[inline]
            fn from_value(value: Value<'_>) -> Result<Option<Self>, Mismatch> {
                // The kernel's smallest value of no event is 0.
                let is_event = <$reduced<$name> as Reduce<$name>>::REDUCTION != Reduction::Min || value != Value::Unsigned(0);
                let number = <$inner>::try_from(value)?;
                Ok(is_event.then_some(number.into()))
            }
        }
    )+};
}

pub(super) use numbers;

numbers! {
    /// Events since the thread started.
    MonotonicCount(u64 as Whole) is Summable(u64): Sum, Count, Unsigned, Increase;
    /// Nanoseconds since the thread started.
    MonotonicNs(u64 as Whole) is Summable(u64): Sum, Ns, Unsigned, Increase;
    /// `USER_HZ` ticks since the thread started.
    ClockTicks(u64 as Whole) is Summable(u64): Sum, Ticks, Unsigned, Increase;
    /// Bytes since the thread started.
    Bytes(u64 as Whole) is Summable(u64): Sum, Bytes, Unsigned, Increase;
    /// A maximum since the thread started, in nanoseconds.
    PeakNs(u64 as Whole) is Maxable(u64): Largest, Ns, Unsigned, IfChanged;
    /// A maximum since the thread started, in bytes.
    PeakBytes(u64 as Whole) is Maxable(u64): Largest, Bytes, Unsigned, IfChanged;
    /// A minimum since the thread started, in nanoseconds; 0 means "no event".
    FloorNs(u64 as Whole) is Minable(u64): Smallest, Ns, Unsigned, IfChanged;
    /// A duration at an instant, in nanoseconds.
    GaugeNs(u64 as Whole) is Maxable(u64): Largest, Ns, Unsigned, Later;
    /// Bytes at an instant.
    GaugeBytes(u64 as Whole) is Summable(u64): Sum, Bytes, Unsigned, Later;
    /// A number of objects at an instant.
    GaugeCount(u64 as Whole) is Maxable(u64): Largest, Count, Unsigned, Later;
    /// A signed position on a scale.
    OrdinalI32(i32 as i32) is Rangeable(i64): Range, None, Signed, Later;
    /// A position on a scale that starts at 0.
    OrdinalU32(u32 as u32) is Rangeable(i64): Range, None, Unsigned, Later;
}

/// A name, borrowed if it is from a set that is known at compile time.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(transparent)]
#[serde(transparent)]
pub struct CategoricalString(pub Cow<'static, str>);

impl Modeable for CategoricalString {}

impl fmt::Display for CategoricalString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Reading for CategoricalString {
    type Reduced = Mode<Self>;
    const NAME: &'static str = "CategoricalString";
    const SHAPE: Shape = Shape::Text;

    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(&self.0))
    }

    fn from_value(value: Value<'_>) -> Result<Option<Self>, Mismatch> {
        match value {
            Value::Name(name) => Ok(Some(Self(name.into()))),
            Value::Text(text) => Ok(Some(Self(text.into_owned().into()))),
            other => Err(other.mismatch("a string")),
        }
    }
}

impl Modeable for char {}

impl Modeable for bool {}

impl Reading for char {
    type Reduced = Mode<Self>;
    const NAME: &'static str = "char";
    const SHAPE: Shape = Shape::Letter;

    fn value(&self) -> Value<'_> {
        Value::Letter(*self)
    }

    fn from_value(value: Value<'_>) -> Result<Option<Self>, Mismatch> {
        match &value {
            Value::Letter(letter) => Ok(Some(*letter)),
            Value::Text(text) if text.chars().count() == 1 => Ok(text.chars().next()),
            other => Err(other.mismatch("one letter")),
        }
    }
}

impl Reading for bool {
    type Reduced = Mode<Self>;
    const NAME: &'static str = "bool";
    const SHAPE: Shape = Shape::Flag;

    fn value(&self) -> Value<'_> {
        Value::Flag(*self)
    }

    fn from_value(value: Value<'_>) -> Result<Option<Self>, Mismatch> {
        match value {
            Value::Flag(flag) => Ok(Some(flag)),
            other => Err(other.mismatch("true or false")),
        }
    }
}
