//! Columns: name, unit, meaning, type, and the value of a row.

use std::borrow::Cow;

use crate::model::{Shape, Value};

/// The type of a column. All columns are nullable: what was not measured is NULL, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A signed number of 64 bits: Spark has no unsigned type.
    Integer,
    Flag,
    Text,
    /// An instant in UTC, in microseconds since 1970: Spark reads no nanoseconds. Without a time zone, because engines would convert to that of the session.
    Time,
    /// A map from names to numbers.
    Counts,
}

impl ColumnType {
    pub fn sql_name(self) -> &'static str {
        match self {
            Self::Integer => "BIGINT",
            Self::Flag => "BOOLEAN",
            Self::Text => "VARCHAR",
            Self::Time => "TIMESTAMP",
            Self::Counts => "MAP(VARCHAR, BIGINT)",
        }
    }
}

impl From<Shape> for ColumnType {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::Unsigned | Shape::Signed => Self::Integer,
            Shape::Flag => Self::Flag,
            Shape::Letter | Shape::Text | Shape::Cpus => Self::Text,
        }
    }
}

#[derive(Clone, Debug)]
pub struct ColumnDoc {
    pub name: String,
    pub column_type: ColumnType,
    /// The unit; empty if it is not a quantity.
    pub unit: &'static str,
    pub meaning: String,
}

pub(super) enum ParquetCell<'r> {
    Value(Value<'r>),
    Counts(Vec<(Cow<'r, str>, u64)>),
}

impl<'r> ParquetCell<'r> {
    pub(super) fn counts<T: AsRef<str> + 'r>(counts: impl IntoIterator<Item = (&'r T, &'r u64)>) -> Self {
        Self::Counts(counts.into_iter().map(|(name, count)| (Cow::Borrowed(name.as_ref()), *count)).collect())
    }
}

impl<'r> From<Value<'r>> for ParquetCell<'r> {
    fn from(value: Value<'r>) -> Self {
        Self::Value(value)
    }
}

impl<'r> From<&'r str> for ParquetCell<'r> {
    fn from(text: &'r str) -> Self {
        Self::Value(Value::Text(Cow::Borrowed(text)))
    }
}

impl From<String> for ParquetCell<'_> {
    fn from(text: String) -> Self {
        Self::Value(Value::Text(Cow::Owned(text)))
    }
}

impl From<u64> for ParquetCell<'_> {
    fn from(number: u64) -> Self {
        Self::Value(Value::Unsigned(number))
    }
}

impl From<bool> for ParquetCell<'_> {
    fn from(flag: bool) -> Self {
        Self::Value(Value::Flag(flag))
    }
}

type Get<R> = Box<dyn for<'r> Fn(&'r R) -> Option<ParquetCell<'r>> + Send + Sync>;

/// A column of rows that are made from an `R`.
pub(super) struct Column<R> {
    pub(super) doc: ColumnDoc,
    pub(super) get: Get<R>,
}

impl<R> Column<R> {
    pub(super) fn new(
        name: impl Into<String>,
        column_type: ColumnType,
        unit: &'static str,
        meaning: impl Into<String>,
        get: impl for<'r> Fn(&'r R) -> Option<ParquetCell<'r>> + Send + Sync + 'static,
    ) -> Self {
        let doc = ColumnDoc { name: name.into(), column_type, unit, meaning: meaning.into() };
        Self { doc, get: Box::new(get) }
    }
}

/// Turns rows into columns: `name: Type in "unit" = |row| value; "meaning"`.
macro_rules! columns {
    ($row:ty; $($name:ident: $type:ident in $unit:literal = $get:expr, $meaning:literal;)+) => {
        vec![$($crate::export::column::Column::<$row>::new(
            stringify!($name), $crate::export::column::ColumnType::$type, $unit, $meaning, $get,
        ),)+]
    };
}

pub(super) use columns;

/// The name of a record's value as a column: dots would have to be quoted in SQL, differently in each engine.
pub(super) fn column_name(record_name: &str) -> String {
    record_name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}
