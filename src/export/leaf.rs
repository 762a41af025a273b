//! The values of some consecutive rows, column by column, as Parquet stores them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parquet::data_type::ByteArray;

use super::identity::{Identity, id_of_file};
use super::{Column, ColumnType, ExportError, Get, OutOfRange, Schema};
use crate::model::{Numbers, Value, cpu_ranges};

/// The values of a leaf of the schema, in some consecutive rows.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) values: Values,
    /// Per row, or per entry of a map or list, how much of the path to the value exists. See [`levels`].
    pub(super) definitions: Vec<i16>,
    /// Per entry of a map or list, whether it continues the one of the entry before; empty for other leaves.
    pub(super) repetitions: Vec<i16>,
}

#[derive(Debug)]
pub(super) enum Values {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    Flags(Vec<bool>),
    Texts(Vec<ByteArray>),
}

/// Definition levels: of a plain column, and of the leaves of a map or list.
mod levels {
    pub(super) const NULL: i16 = 0;
    pub(super) const VALUE: i16 = 1;
    pub(super) const EMPTY: i16 = 1;
    /// The key of an entry, or the element of a list.
    pub(super) const KEY: i16 = 2;
    pub(super) const VALUE_OF_KEY: i16 = 3;
    /// Repetition levels: the first entry of a map or list, and the following ones.
    pub(super) const FIRST: i16 = 0;
    pub(super) const NEXT: i16 = 1;
}

/// The largest number of an INT64. It stands for the kernel's `max`: every limit is smaller.
const UNLIMITED: i64 = i64::MAX;

/// A row that is not encoded yet.
pub(super) struct PendingRow<R> {
    pub(super) identity: Arc<Identity>,
    pub(super) values: R,
}

/// Number of rows whose leaves are made at a time: they fit in the cache of a CPU.
const BATCH: usize = 256;

impl<R> Schema<R> {
    /// Passes on the leaves of some columns in these rows, with the place of each column: two of a map, else one.
    pub(super) fn each_leaf(
        &self,
        columns: std::ops::Range<usize>,
        rows: &[PendingRow<R>],
        found: &mut dyn FnMut(usize, Vec<Leaf>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        for rows in rows.chunks(BATCH) {
            for at in columns.clone() {
                let made = match at.checked_sub(self.identity.len()) {
                    Some(own) => leaves(&self.columns[own], rows.iter().map(|row| &row.values)),
                    None => leaves(&self.identity[at], rows.iter().map(|row| &*row.identity)),
                };
                found(at, made.map_err(|(row, source)| out_of_range(&rows[row].identity, source))?)?;
            }
        }
        Ok(())
    }

    /// Whether all numbers of these rows are in range.
    pub(super) fn check(&self, identity: &Identity, rows: &[R]) -> Result<(), ExportError> {
        rows.chunks(BATCH).try_for_each(|rows| {
            let mut columns = self.columns.iter();
            let checked = columns.try_for_each(|column| leaves(column, rows.iter()).map(drop));
            checked.map_err(|(_, source)| out_of_range(identity, source))
        })
    }
}

/// The error of a number in a row of this capture.
fn out_of_range(identity: &Identity, source: OutOfRange) -> ExportError {
    let capture = id_of_file(&identity.capture_id).to_owned();
    ExportError::OutOfRange { path: identity.file.to_path_buf(), capture, source }
}

/// The leaves of a column, or the place of the first row whose number no INT64 holds.
fn leaves<'r, R: 'r>(
    column: &Column<R>,
    rows: impl ExactSizeIterator<Item = &'r R>,
) -> Result<Vec<Leaf>, (usize, OutOfRange)> {
    let name = &column.doc.name;
    let wrong = |at, column: String, value| (at, OutOfRange { column, value });
    Ok(match &column.get {
        Get::Value(get) => {
            let wrong = |(at, value)| wrong(at, name.clone(), value);
            vec![Leaf::plain(column, rows.map(get)).map_err(wrong)?]
        }
        Get::Numbers(get) => {
            let Numbers { values, present: definitions, too_large } = get(&rows.collect::<Vec<_>>());
            if let Some((at, number)) = too_large {
                return Err(wrong(at, name.clone(), number));
            }
            vec![Leaf { values: Values::Integers(values), definitions, repetitions: Vec::new() }]
        }
        Get::Real(get) => {
            let (values, definitions) = rows.map(|row| (get(row), levels::VALUE)).unzip();
            vec![Leaf { values: Values::Reals(values), definitions, repetitions: Vec::new() }]
        }
        Get::Counts(get) => {
            let entries = Nested::from_rows(rows.map(get));
            let numbers = entries.items.iter().map(|(at, (key, number))| {
                i64::try_from(*number).map_err(|_| wrong(*at, format!("{name}['{key}']"), *number))
            });
            let numbers = Values::Integers(numbers.collect::<Result<_, _>>()?);
            let mut shared = SharedTexts::default();
            let keys = entries.items.iter().map(|(_, (key, _))| shared.text(*key, || (*key).into())).collect();
            vec![entries.leaf(Values::Texts(keys), levels::KEY), entries.leaf(numbers, levels::VALUE_OF_KEY)]
        }
        Get::Texts(get) => {
            let entries = Nested::from_rows(rows.map(get));
            let texts = entries.items.iter().map(|(_, text)| ByteArray::from(&**text)).collect();
            vec![entries.leaf(Values::Texts(texts), levels::KEY)]
        }
    })
}

/// The entries of some maps or lists, one per row: NULL, empty, or its entries.
struct Nested<T> {
    /// The entries, with the places of their rows.
    items: Vec<(usize, T)>,
    /// Levels of each entry, and of each row without entries: the repetition level, and the definition level if there is no
    /// entry.
    levels: Vec<(i16, Option<i16>)>,
}

impl<T> Nested<T> {
    fn from_rows(rows: impl Iterator<Item = Option<Vec<T>>>) -> Self {
        let (mut items, mut levels) = (Vec::new(), Vec::new());
        for (at, row) in rows.enumerate() {
            let none = if row.is_some() { levels::EMPTY } else { levels::NULL };
            let row = row.unwrap_or_default();
            match row.len().checked_sub(1) {
                None => levels.push((levels::FIRST, Some(none))),
                Some(following) => {
                    levels.push((levels::FIRST, None));
                    levels.extend(std::iter::repeat_n((levels::NEXT, None), following));
                }
            }
            items.extend(row.into_iter().map(|item| (at, item)));
        }
        Self { items, levels }
    }

    /// A leaf of the entries, which all have the value at this definition level.
    fn leaf(&self, values: Values, of_entry: i16) -> Leaf {
        let (repetitions, definitions) =
            self.levels.iter().map(|(repetition, none)| (*repetition, none.unwrap_or(of_entry))).unzip();
        Leaf { values, definitions, repetitions }
    }
}

impl Leaf {
    /// A plain column with a cell per row, or the first number that no INT64 holds, with the place of its row.
    fn plain<'v, R>(
        column: &Column<R>,
        cells: impl ExactSizeIterator<Item = Option<Value<'v>>>,
    ) -> Result<Self, (usize, u64)> {
        let mut definitions = Vec::with_capacity(cells.len());
        let present = cells.enumerate().filter_map(|(at, cell)| {
            definitions.push(if cell.is_some() { levels::VALUE } else { levels::NULL });
            Some((at, cell?))
        });
        let values = match column.doc.column_type {
            ColumnType::Integer | ColumnType::Time => Values::Integers(
                present.map(|(at, value)| integer(&value).map_err(|number| (at, number))).collect::<Result<_, _>>()?,
            ),
            ColumnType::Flag => Values::Flags(present.map(|(_, value)| value == Value::Flag(true)).collect()),
            _ => {
                let mut shared = SharedTexts::default();
                let make = |value: &Value<'_>| match column.pattern {
                    Some(pattern) => ByteArray::from(&*pattern(&text(value))),
                    None => ByteArray::from(&*text(value)),
                };
                Values::Texts(present.map(|(_, value)| shared.text(value.clone(), || make(&value))).collect())
            }
        };
        Ok(Self { values, definitions, repetitions: Vec::new() })
    }
}

/// Texts of a leaf: equal ones share their bytes, and are made once. Neighbors are often equal.
struct SharedTexts<K> {
    texts: HashMap<K, ByteArray>,
    last: Option<(K, ByteArray)>,
}

impl<K> Default for SharedTexts<K> {
    fn default() -> Self {
        Self { texts: HashMap::new(), last: None }
    }
}

impl<K: Clone + Eq + Hash> SharedTexts<K> {
    fn text(&mut self, key: K, make: impl FnOnce() -> ByteArray) -> ByteArray {
        match &self.last {
            Some((last, text)) if *last == key => text.clone(),
            _ => {
                let text = self.texts.entry(key.clone()).or_insert_with(make).clone();
                self.last.insert((key, text)).1.clone()
            }
        }
    }
}

fn integer(value: &Value<'_>) -> Result<i64, u64> {
    match value {
        Value::Unsigned(number) => i64::try_from(*number).map_err(|_| *number),
        Value::Signed(number) => Ok(*number),
        // The only word among numbers is `max`.
        _ => Ok(UNLIMITED),
    }
}

fn text<'v>(value: &'v Value<'_>) -> Cow<'v, str> {
    match value {
        Value::Text(text) => Cow::Borrowed(text),
        Value::Name(name) => Cow::Borrowed(name),
        Value::Letter(letter) => Cow::Owned(letter.to_string()),
        Value::Cpus(cpus) => Cow::Owned(cpu_ranges(cpus)),
        other => Cow::Owned(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_above_2_to_the_63_is_an_error_and_no_limit_is_the_largest_number() {
        assert_eq!(integer(&Value::Unsigned(1 << 63)), Err(1 << 63));
        assert_eq!(integer(&Value::Unsigned((1 << 63) - 1)), Ok(i64::MAX));
        assert_eq!(integer(&Value::Name("max")), Ok(i64::MAX));
    }

    #[test]
    fn a_missing_map_and_an_empty_one_differ() {
        type Maps = Option<Vec<(&'static str, u64)>>;
        let column = Column::<Maps>::counts("m", "", "", |map| map.clone());
        let maps = [None, Some(vec![]), Some(vec![("a", 1), ("b", 2)])];
        let [keys, numbers] = &leaves(&column, maps.iter()).unwrap()[..] else { panic!("two leaves") };
        assert_eq!((&keys.definitions[..], &keys.repetitions[..]), (&[0, 1, 2, 2][..], &[0, 0, 0, 1][..]));
        assert_eq!((&numbers.definitions[..], &numbers.repetitions[..]), (&[0, 1, 3, 3][..], &[0, 0, 0, 1][..]));
        let (at, wrong) = leaves(&column, [None, Some(vec![("c", u64::MAX)])].iter()).unwrap_err();
        assert_eq!((at, &*wrong.column, wrong.value), (1, "m['c']", u64::MAX));
    }

    #[test]
    fn equal_texts_are_made_once() {
        let (mut shared, mut made) = (SharedTexts::default(), 0);
        let mut text = |key: &'static str| {
            shared.text(key, || {
                made += 1;
                key.into()
            })
        };
        assert_eq!(["a", "a", "b", "a"].map(|key| text(key).as_utf8().unwrap().to_owned()), ["a", "a", "b", "a"]);
        assert_eq!(made, 2);
    }
}
