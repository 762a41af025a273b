//! Records: the values of cgroups, of pressure and of sched_ext, one table row each.
//!
//! A row has meaning, name, type and source; its type has unit and reduction. Capture, comparison
//! and listing are loops over the tables.

use std::borrow::Cow;

use super::{Cell, InWindow, Mismatch, Reading, Reduce, Reduction, Section, Shape, Unit, Value, WindowRule};

/// A type of values, as data.
#[derive(Clone, Copy, Debug)]
pub struct ValueType {
    /// The name in documents and reports.
    pub name: &'static str,
    /// The unit of the values.
    pub unit: Unit,
    /// The type of the values in files.
    pub shape: Shape,
    /// The rule by which a window makes one value of those at its beginning and at its end.
    pub window: WindowRule,
    /// How the values of a group become one.
    pub reduction: Reduction,
    reduce: fn(&mut dyn Iterator<Item = Value<'_>>) -> Option<Cell>,
}

impl ValueType {
    pub(super) const fn from_reading<T: Reading>() -> Self {
        Self {
            name: T::NAME,
            unit: T::UNIT,
            shape: T::SHAPE,
            window: T::WINDOW,
            reduction: <T::Reduced as Reduce<T>>::REDUCTION,
            reduce: reduce::<T>,
        }
    }

    /// The combination of several values; `None` if there are none.
    pub fn reduce<'v>(&self, values: impl IntoIterator<Item = Value<'v>>) -> Option<Cell> {
        (self.reduce)(&mut values.into_iter())
    }

    /// The section of a cgroup's value: what is configured has a range, and stands apart from what is measured.
    pub(super) fn cgroup_section(&self) -> Section {
        if self.reduction == Reduction::Range { Section::CgroupLimits } else { Section::CgroupStats }
    }
}

fn reduce<T: Reading>(values: &mut dyn Iterator<Item = Value<'_>>) -> Option<Cell> {
    let mut values = values.filter_map(|value| T::from_value(value).ok().flatten());
    let mut reduced = T::Reduced::single(&values.next()?);
    values.for_each(|value| reduced.add(&value));
    match reduced.cell() {
        // How many cgroups have it is of no interest.
        Cell::Mode(most) => Some(Cell::Word(most.value.into())),
        cell => Some(cell),
    }
}

/// Cgroups that a value covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueScope {
    /// The cgroup and all its descendants.
    #[default]
    Subtree,
    /// Only the cgroup, without its descendants.
    Own,
}

/// A row of a record's table.
#[derive(Debug)]
pub struct RecordField<R: 'static, S: 'static> {
    /// The name in files, a path with dots.
    pub name: &'static str,
    /// The meaning of the value, and the kernel's file that has it.
    pub doc: &'static str,
    /// The unit, shape and rules of the value.
    pub value_type: ValueType,
    /// Whether the value of a cgroup includes the values of its descendants.
    pub scope: ValueScope,
    /// The file that has the value.
    pub source: S,
    pub(super) get: fn(&R) -> Option<Value<'_>>,
    pub(super) set: fn(&mut R, Value<'_>) -> Result<(), Mismatch>,
    pub(super) clear: fn(&mut R),
}

impl<R, S> RecordField<R, S> {
    /// The record's value, if it has one.
    pub fn get<'r>(&self, record: &'r R) -> Option<Value<'r>> {
        (self.get)(record)
    }

    /// Stores a value in the record. If the field cannot hold it, the old value stays.
    pub fn set(&self, record: &mut R, value: Value<'_>) -> Result<(), Mismatch> {
        (self.set)(record, value)
    }

    /// Replaces the value in `later` by the value in a window that started with `earlier`.
    pub fn subtract(&self, earlier: &R, later: &mut R) -> InWindow {
        let in_window = self.value_type.window.apply(self.get(earlier).as_ref(), self.get(later).as_ref());
        in_window.stored(later, self.set, self.clear)
    }

    /// Makes the value absent.
    pub fn clear(&self, record: &mut R) {
        (self.clear)(record);
    }

    /// The record's value, described by the row.
    pub(super) fn described<'r>(&'static self, record: &'r R) -> Option<RecordValue<'r>> {
        let value = self.get(record)?;
        Some(RecordValue { name: self.name.into(), value_type: &self.value_type, scope: self.scope, value })
    }
}

/// A value of a record, described by its table.
#[derive(Clone, Debug)]
pub struct RecordValue<'r> {
    /// The name in files.
    pub name: Cow<'static, str>,
    /// The unit, shape and rules of the value.
    pub value_type: &'static ValueType,
    /// Whether the value of a cgroup includes the values of its descendants.
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
pub(crate) struct KeyPattern {
    /// The key; a `*` at the end matches any suffix.
    pub(crate) pattern: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) value_type: ValueType,
}

impl KeyPattern {
    pub(super) const fn new<T: Reading>(pattern: &'static str, doc: &'static str) -> Self {
        Self { pattern, doc, value_type: ValueType::from_reading::<T>() }
    }

    pub(crate) fn matches(&self, key: &str) -> bool {
        self.pattern.strip_suffix('*').map_or(key == self.pattern, |front| key.starts_with(front))
    }
}

/// Turns rows into a record, whose values are all optional, and the table of its values. After its
/// rows, a record may have maps.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $record:ident, $prefix:literal in $visibility:vis $table:ident: $source:ty {
        $(#[doc = $doc:literal] $name:ident: $type:ty = $from:expr $(, $scope:ident)?;)+
        $(and $(#[$part_meta:meta])* $part:ident: $part_type:ty;)*
    }) => {
        stored! {
            $(#[$meta])*
            pub struct $record {
                $(#[doc = $doc] optional $name: Option<$type>,)+
                $($(#[$part_meta])* optional $part: Option<$part_type>,)*
            }
        }

        #[doc = concat!("The values of [`", stringify!($record), "`].")]
        $visibility static $table: &[RecordField<$record, $source>] = &[$(RecordField {
            name: concat!($prefix, stringify!($name)),
            doc: $doc.trim_ascii(),
            value_type: ValueType::from_reading::<$type>(),
            scope: [$(ValueScope::$scope,)? ValueScope::Subtree][0],
            source: $from,
            get: |record| record.$name.as_ref().map(Reading::value),
            set: |record, value| Reading::from_value(value).map(|value| record.$name = value),
            clear: |record| record.$name = None,
        },)+];
    };
}

pub(super) use record;

#[cfg(test)]
mod tests {
    use super::super::limit::ProtectedBytes;
    use super::super::record_types::{CounterEvents, CurrentBytes};
    use super::super::reduce::SettingRange;
    use super::super::unit::{CategoricalString, OrdinalI32, PeakBytes};
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
        assert_eq!(of(ValueType::from_reading::<CurrentBytes>()), Some(Cell::Number(8)));
        assert_eq!(of(ValueType::from_reading::<PeakBytes>()), Some(Cell::Number(5)));
        let range = SettingRange { min: Cell::Number(3), max: Cell::Number(5) };
        assert_eq!(of(ValueType::from_reading::<ProtectedBytes>()), Some(Cell::Settings(Box::new(range))));
        assert_eq!(of(ValueType::from_reading::<OrdinalI32>()), Some(Cell::Range { min: 3, max: 5 }));
        assert_eq!(ValueType::from_reading::<PeakBytes>().reduce([]), None);
        let words = |words: &[&'static str]| {
            ValueType::from_reading::<CategoricalString>().reduce(words.iter().copied().map(Value::Name))
        };
        assert_eq!(words(&["enabled", "disabled", "disabled"]), Some(Cell::Word("disabled".into())));
        assert_eq!(words(&["b", "a"]), Some(Cell::Word("a".into())), "of equally many, the first in the alphabet");
    }
}
