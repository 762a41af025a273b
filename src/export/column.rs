//! Columns: name, unit, meaning, type, and the value of a row.

use crate::model::{Numbers, Shape, Value};

/// The type of a column. All columns are nullable: what was not measured is NULL, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A signed number of 64 bits: Spark has no unsigned type.
    Integer,
    /// A floating-point number.
    Real,
    /// A truth value: true or false.
    Flag,
    /// A text in UTF-8.
    Text,
    /// An instant in UTC, in microseconds since 1970: Spark reads no nanoseconds. Without a time zone, because engines would
    /// convert to the time zone of the session.
    Time,
    /// A map from names to numbers.
    Counts,
    /// A list of texts.
    Texts,
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

/// A column as documents describe it.
#[derive(Clone, Debug)]
pub struct ColumnDoc {
    /// The name, which needs no quotes in SQL.
    pub name: String,
    /// The type of its values.
    pub column_type: ColumnType,
    /// The unit; empty if it is not a quantity.
    pub unit: &'static str,
    /// The meaning of its values, in one sentence or several.
    pub meaning: String,
}

/// The entries of a map of counts.
pub(super) type Entries<'r> = Vec<(&'r str, u64)>;

type GetValue<R> = Box<dyn for<'r> Fn(&'r R) -> Option<Value<'r>> + Send + Sync>;
type GetNumbers<R> = Box<dyn Fn(&[&R]) -> Numbers + Send + Sync>;
type GetCounts<R> = for<'r> fn(&'r R) -> Option<Entries<'r>>;
type GetTexts<R> = fn(&R) -> Option<Vec<String>>;

/// How a column is made of a row.
pub(super) enum Get<R> {
    Value(GetValue<R>),
    /// Makes the values of many rows at once.
    Numbers(GetNumbers<R>),
    Real(fn(&R) -> f64),
    Counts(GetCounts<R>),
    Texts(GetTexts<R>),
}

/// A column of rows that are made from an `R`.
pub(super) struct Column<R> {
    pub(super) doc: ColumnDoc,
    pub(super) get: Get<R>,
    /// Makes the text of the column from the text of a row.
    pub(super) pattern: Option<fn(&str) -> String>,
}

impl<R> Column<R> {
    pub(super) fn new(
        name: impl Into<String>,
        column_type: ColumnType,
        unit: &'static str,
        meaning: impl Into<String>,
        get: impl for<'r> Fn(&'r R) -> Option<Value<'r>> + Send + Sync + 'static,
    ) -> Self {
        let doc = ColumnDoc { name: name.into(), column_type, unit, meaning: meaning.into() };
        Self { doc, get: Get::Value(Box::new(get)), pattern: None }
    }

    /// The same, with the pattern of each text.
    pub(super) fn by(self, pattern: fn(&str) -> String) -> Self {
        Self { pattern: Some(pattern), ..self }
    }

    /// The same, with the numbers of many rows made at once.
    pub(super) fn batched(self, get: impl Fn(&[&R]) -> Numbers + Send + Sync + 'static) -> Self {
        Self { get: Get::Numbers(Box::new(get)), ..self }
    }

    pub(super) fn counts(name: &str, unit: &'static str, meaning: &str, get: GetCounts<R>) -> Self {
        Self::from_parts(name, ColumnType::Counts, unit, meaning, Get::Counts(get))
    }

    pub(super) fn texts(name: &str, unit: &'static str, meaning: &str, get: GetTexts<R>) -> Self {
        Self::from_parts(name, ColumnType::Texts, unit, meaning, Get::Texts(get))
    }

    pub(super) fn real(name: &str, unit: &'static str, meaning: &str, get: fn(&R) -> f64) -> Self {
        Self::from_parts(name, ColumnType::Real, unit, meaning, Get::Real(get))
    }

    fn from_parts(name: &str, column_type: ColumnType, unit: &'static str, meaning: &str, get: Get<R>) -> Self {
        let doc = ColumnDoc { name: name.to_owned(), column_type, unit, meaning: meaning.to_owned() };
        Self { doc, get, pattern: None }
    }
}

pub(super) fn entries<'r, T: AsRef<str> + 'r>(counts: impl IntoIterator<Item = (&'r T, &'r u64)>) -> Entries<'r> {
    counts.into_iter().map(|(name, count)| (name.as_ref(), *count)).collect()
}

/// Turns rows into columns: `name: Type in "unit" = |row| value, "meaning";`, with the pattern of texts after their type.
macro_rules! columns {
    (@ $row:ty; $name:ident Counts $unit:literal $get:expr, $meaning:literal) => {
        $crate::export::column::Column::<$row>::counts(stringify!($name), $unit, $meaning, $get)
    };
    (@ $row:ty; $name:ident Texts $unit:literal $get:expr, $meaning:literal) => {
        $crate::export::column::Column::<$row>::texts(stringify!($name), $unit, $meaning, $get)
    };
    (@ $row:ty; $name:ident Real $unit:literal $get:expr, $meaning:literal) => {
        $crate::export::column::Column::<$row>::real(stringify!($name), $unit, $meaning, $get)
    };
    (@ $row:ty; $name:ident $type:ident $(by $pattern:ident)? $unit:literal $get:expr, $meaning:literal) => {
        $crate::export::column::Column::<$row>::new(
            stringify!($name), $crate::export::column::ColumnType::$type, $unit, $meaning, $get,
        )$(.by($pattern))?
    };
    ($row:ty; $($name:ident: $type:ident $(by $pattern:ident)? in $unit:literal = $get:expr, $meaning:literal;)+) => {
        vec![$(columns!(@ $row; $name $type $(by $pattern)? $unit $get, $meaning),)+]
    };
}

pub(super) use columns;

/// The name of a record's value as a column: dots would have to be quoted in SQL, differently in each engine.
pub(super) fn column_name(record_name: &str) -> String {
    record_name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}
