//! The types of values in records. A type determines the unit, the reduction over several cgroups, and
//! the [`ValueKind`]: how a value changes over time.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::limit::{LimitBytes, LimitCount, LimitUs, ProtectedBytes};
use super::reduce::{Cell, Largest, Maxable, Mode, Modeable, Reduce, Reduction, Sum, Summable};
use super::section::Section;
use super::unit::{Bytes, ClockTicks, MonotonicCount, OrdinalI32, PeakBytes, Reading, Shape, Unit, numbers};
use super::value::{Mismatch, Value};
use super::window_rule::WindowRule;

/// How a value changes over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ValueKind {
    /// Only increases during the lifetime of the counted object.
    Counter,
    /// An amount or an average at the instant of the capture.
    Gauge,
    /// The largest value so far.
    Peak,
    /// A configured limit.
    Limit,
    /// A configured protection.
    Protection,
    /// Any other setting: a weight, a period.
    Setting,
    /// A state or a name.
    State,
}

impl ValueKind {
    /// The kind's name in listings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Peak => "peak",
            Self::Limit => "limit",
            Self::Protection => "protection",
            Self::Setting => "setting",
            Self::State => "state",
        }
    }

    /// The section of a cgroup's value of this kind: what is configured stands apart from what is measured.
    pub(super) fn cgroup_section(self) -> Section {
        match self {
            Self::Limit | Self::Protection | Self::Setting => Section::CgroupLimits,
            _ => Section::CgroupStats,
        }
    }
}

/// A type of values in records.
pub trait Recorded: Reading {
    /// How its values change over time.
    const KIND: ValueKind;
}

numbers! {
    /// Microseconds since the counter started.
    CounterUs(u64) is Summable(u64): Sum, Us, Unsigned, Increase;
    /// Bytes since the counter started.
    CounterBytes(u64) is Summable(u64): Sum, Bytes, Unsigned, Increase;
    /// Events since the counter started.
    CounterEvents(u64) is Summable(u64): Sum, Count, Unsigned, Increase;
    /// Bytes in use at an instant; summed over cgroups.
    CurrentBytes(u64) is Summable(u64): Sum, Bytes, Unsigned, Later;
    /// Number of objects at an instant; summed over cgroups.
    CurrentCount(u64) is Summable(u64): Sum, Count, Unsigned, Later;
    /// A configured period, in microseconds.
    PeriodUs(u64) is Maxable(u64): Largest, Us, Unsigned, Later;
    /// A share among siblings.
    Weight(u64) is Maxable(u64): Largest, Count, Unsigned, Later;
    /// A switch that the kernel prints as a number.
    SwitchNumber(u64) is Maxable(u64): Largest, Count, Unsigned, Later;
    /// An average over the last seconds, in hundredths of a percent.
    Hundredths(u16) is Maxable(u64): Largest, Hundredths, Unsigned, Later;
}

/// A state or a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateWord(pub String);

/// The most frequent of several words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MostFrequent(Mode<StateWord>);

impl Modeable for StateWord {
    fn label(&self) -> String {
        self.0.clone()
    }
}

impl Reduce<StateWord> for MostFrequent {
    const REDUCTION: Reduction = Reduction::Mode;

    fn single(word: &StateWord) -> Self {
        Self(Mode::single(word))
    }

    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    fn cell(&self) -> Cell {
        match self.0.cell() {
            Cell::Mode { value, .. } => Cell::Word(value),
            other => other,
        }
    }
}

impl Reading for StateWord {
    type Reduced = MostFrequent;
    const NAME: &'static str = "StateWord";
    const UNIT: Unit = Unit::None;
    const SHAPE: Shape = Shape::Text;
    const WINDOW: WindowRule = WindowRule::Later;

    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(&self.0))
    }

    fn from_value(value: Value<'_>) -> Result<Option<Self>, Mismatch> {
        match value {
            Value::Name(name) => Ok(Some(Self(name.to_owned()))),
            Value::Text(text) => Ok(Some(Self(text.into_owned()))),
            other => Err(other.mismatch("a string")),
        }
    }
}

macro_rules! kinds {
    ($($kind:ident: $($type:ident)+;)+) => { $($(
        impl Recorded for $type {
            const KIND: ValueKind = ValueKind::$kind;
        }
    )+)+ };
}

kinds! {
    Counter: CounterUs CounterBytes CounterEvents Bytes ClockTicks MonotonicCount;
    Gauge: CurrentBytes CurrentCount Hundredths;
    Peak: PeakBytes;
    Limit: LimitUs LimitBytes LimitCount;
    Protection: ProtectedBytes;
    Setting: PeriodUs Weight OrdinalI32 SwitchNumber;
    State: StateWord;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_word_is_the_total_of_words() {
        let total = |words: &[&str]| {
            let mut total = MostFrequent::single(&StateWord(words[0].to_owned()));
            words[1..].iter().for_each(|word| total.merge(&MostFrequent::single(&StateWord((*word).to_owned()))));
            total.cell()
        };
        assert_eq!(total(&["enabled", "disabled", "disabled"]), Cell::Word("disabled".to_owned()));
        assert_eq!(total(&["enabled"]), Cell::Word("enabled".to_owned()));
        assert_eq!(total(&["b", "a"]), Cell::Word("a".to_owned()), "of equally many, the first in the alphabet");
    }
}
