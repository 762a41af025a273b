//! Records: the values of cgroups, of pressure and of sched_ext, one table row each.
//!
//! A row says meaning, name, type and source. The type says unit, reduction over several cgroups,
//! and [`ValueKind`]: what the value does over time. Capture, comparison and listing are loops over the
//! tables.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::limit::{LimitBytes, LimitCount, LimitUs, ProtectedBytes};
use super::reduce::{Cell, Largest, Maxable, Mode, Modeable, Reduce, Reduction, Sum, Summable};
use super::table::Total;
use super::unit::{OrdinalI32, PeakBytes, Reading, Shape, Unit, numbers};
use super::value::{Mismatch, Value};

/// What a value does over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ValueKind {
    /// Only increases, as long as what it counts for exists.
    Counter,
    /// An amount or an average at the instant of the capture.
    Gauge,
    /// The largest value so far.
    Peak,
    /// An upper bound that someone has set.
    Limit,
    /// A protected amount that someone has set.
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

    /// Whether the value is configured, not measured.
    #[must_use]
    pub fn is_configured(self) -> bool {
        matches!(self, Self::Limit | Self::Protection | Self::Setting)
    }
}

/// A type of values in records.
pub trait Recorded: Reading {
    /// What its values do over time.
    const KIND: ValueKind;
}

numbers! {
    /// Microseconds since the counter began.
    CounterUs(u64) is Summable(u64): Sum, Us, Unsigned;
    /// Bytes since the counter began.
    CounterBytes(u64) is Summable(u64): Sum, Bytes, Unsigned;
    /// Events since the counter began.
    CounterEvents(u64) is Summable(u64): Sum, Count, Unsigned;
    /// Bytes in use at an instant: those of different cgroups add up.
    CurrentBytes(u64) is Summable(u64): Sum, Bytes, Unsigned;
    /// Things that exist at an instant: those of different cgroups add up.
    CurrentCount(u64) is Summable(u64): Sum, Count, Unsigned;
    /// A period that is configured, in microseconds.
    PeriodUs(u64) is Maxable(u64): Largest, Us, Unsigned;
    /// A share among siblings.
    Weight(u64) is Maxable(u64): Largest, Count, Unsigned;
    /// A switch that is a number to the kernel.
    SwitchNumber(u64) is Maxable(u64): Largest, Count, Unsigned;
    /// An average over the last seconds, in hundredths of a percent.
    Hundredths(u16) is Maxable(u64): Largest, Hundredths, Unsigned;
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

    fn of(word: &StateWord) -> Self {
        Self(Mode::of(word))
    }

    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
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
    Counter: CounterUs CounterBytes CounterEvents;
    Gauge: CurrentBytes CurrentCount Hundredths;
    Peak: PeakBytes;
    Limit: LimitUs LimitBytes LimitCount;
    Protection: ProtectedBytes;
    Setting: PeriodUs Weight OrdinalI32 SwitchNumber;
    State: StateWord;
}

/// A type of values, as data.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ValueType {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// The form of a value.
    pub shape: Shape,
    /// What a value does over time.
    pub kind: ValueKind,
    /// How the values of several cgroups become one.
    pub reduction: Reduction,
    reduce: fn(&mut dyn Iterator<Item = Value<'_>>) -> Option<Cell>,
}

impl ValueType {
    /// The type `T`.
    pub(super) const fn of<T: Recorded>() -> Self {
        Self {
            name: T::NAME,
            unit: T::UNIT,
            shape: T::SHAPE,
            kind: T::KIND,
            reduction: <T::Reduced as Reduce<T>>::REDUCTION,
            reduce: reduce::<T>,
        }
    }

    /// The one value that stands for several; `None` where there are none.
    pub fn reduce<'v>(&self, values: impl IntoIterator<Item = Value<'v>>) -> Option<Cell> {
        (self.reduce)(&mut values.into_iter())
    }
}

fn reduce<T: Recorded>(values: &mut dyn Iterator<Item = Value<'_>>) -> Option<Cell> {
    let mut total = Total::<T>::default();
    values.for_each(|value| total.add(T::from_value(value).ok().flatten().as_ref()));
    total.cell()
}

/// Whose work a cgroup's value includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueScope {
    /// That of the cgroup and all its descendants.
    #[default]
    Subtree,
    /// That of the cgroup alone.
    Own,
}

/// A row of a record's table.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecordField<R: 'static, S: 'static> {
    /// Name in reports.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// The type of its values.
    pub value_type: ValueType,
    /// Whose work it includes.
    pub scope: ValueScope,
    /// Where the kernel has it.
    pub source: S,
    pub(super) get: fn(&R) -> Option<Value<'_>>,
    pub(super) set: fn(&mut R, Value<'_>) -> Result<(), Mismatch>,
}

impl<R, S> RecordField<R, S> {
    /// The record's value, if it has one.
    #[must_use]
    pub fn get<'r>(&self, record: &'r R) -> Option<Value<'r>> {
        (self.get)(record)
    }

    /// Puts a value into the record.
    ///
    /// # Errors
    /// [`Mismatch`] if the field cannot hold `value`; the old value stays.
    pub fn set(&self, record: &mut R, value: Value<'_>) -> Result<(), Mismatch> {
        (self.set)(record, value)
    }

    /// The record's value with what the row says of it.
    pub(super) fn entry<'r>(&'static self, record: &'r R) -> Option<RecordValue<'r>> {
        let value = self.get(record)?;
        Some(RecordValue { name: self.name.into(), value_type: &self.value_type, scope: self.scope, value })
    }
}

/// A value of a record with what its table says of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordValue<'r> {
    /// Name in reports.
    pub name: Cow<'static, str>,
    /// The type of the value.
    pub value_type: &'static ValueType,
    /// Whose work it includes.
    pub scope: ValueScope,
    /// The value.
    pub value: Value<'r>,
}

impl RecordValue<'_> {
    /// The same value under a longer name.
    pub(super) fn prefixed(self, prefix: &str) -> Self {
        Self { name: format!("{prefix}{}", self.name).into(), ..self }
    }
}

/// The type of the values in a map whose keys the kernel names.
#[derive(Debug)]
#[non_exhaustive]
pub struct KeyPattern {
    /// The key; a `*` at the end stands for any rest.
    pub pattern: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// The type of its values.
    pub value_type: ValueType,
}

impl KeyPattern {
    pub(super) const fn new<T: Recorded>(pattern: &'static str, doc: &'static str) -> Self {
        Self { pattern, doc, value_type: ValueType::of::<T>() }
    }

    /// Whether the pattern is `key`'s.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        self.pattern.strip_suffix('*').map_or(key == self.pattern, |front| key.starts_with(front))
    }
}

/// Turns rows into a record, whose values are all optional, and the table of its values. A record
/// may have parts that are no single values, after its rows.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $record:ident, $prefix:literal in $table:ident: $source:ty {
        $(#[doc = $doc:literal] $name:ident: $type:ty = $from:expr $(, $scope:ident)?;)+
        $(and $(#[$part_meta:meta])* $part:ident: $part_type:ty;)*
    }) => {
        optional_record! {
            $(#[$meta])*
            pub struct $record {
                $(#[doc = $doc] pub $name: $type,)+
                $($(#[$part_meta])* pub $part: $part_type,)*
            }
        }

        #[doc = concat!("The values of [`", stringify!($record), "`].")]
        pub static $table: &[RecordField<$record, $source>] = &[$(RecordField {
            name: concat!($prefix, stringify!($name)),
            doc: $doc.trim_ascii(),
            value_type: ValueType::of::<$type>(),
            scope: [$(ValueScope::$scope,)? ValueScope::Subtree][0],
            source: $from,
            get: |record| record.$name.as_ref().map(Reading::value),
            set: |record, value| Reading::from_value(value).map(|value| record.$name = value),
        },)+];
    };
}

pub(super) use record;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_star_is_the_whole_key() {
        let pattern = |pattern| KeyPattern::new::<CounterEvents>(pattern, "");
        assert!(pattern("pg*").matches("pgfault") && !pattern("pg*").matches("anon"));
        assert!(pattern("sock").matches("sock") && !pattern("sock").matches("sock_throttled"));
    }

    #[test]
    fn a_type_decides_how_values_combine() {
        let of = |value_type: ValueType| value_type.reduce([3, 5].map(Value::Unsigned));
        assert_eq!(of(ValueType::of::<CurrentBytes>()), Some(Cell::Number(8)));
        assert_eq!(of(ValueType::of::<PeakBytes>()), Some(Cell::Number(5)));
        assert_eq!(of(ValueType::of::<ProtectedBytes>()), Some(Cell::Number(3)));
        assert_eq!(of(ValueType::of::<OrdinalI32>()), Some(Cell::Range { min: 3, max: 5 }));
        assert_eq!(ValueType::of::<PeakBytes>().reduce([]), None);
    }
}
