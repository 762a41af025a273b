//! Rows in memory, column by column, as Parquet stores them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;
use std::iter::repeat_n;

use parquet::data_type::ByteArray;

use super::identity::Identity;
use super::{Column, ColumnType, Entries, Get, Schema};
use crate::model::{Value, cpu_ranges};

/// The values of a leaf of the schema, in some consecutive rows.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) values: Values,
    /// Per row, or per entry of a map, how much of the path to the value exists. See [`levels`].
    pub(super) definitions: Vec<i16>,
    /// Per entry of a map, whether it continues the map of the entry before; empty for other leaves.
    pub(super) repetitions: Vec<i16>,
}

#[derive(Debug)]
pub(super) enum Values {
    Integers(Vec<i64>),
    Flags(Vec<bool>),
    Texts(Vec<ByteArray>),
}

impl Values {
    pub(super) fn integers(&self) -> Option<&[i64]> {
        if let Self::Integers(integers) = self { Some(integers) } else { None }
    }

    /// Adds the later values of the same leaf.
    fn append(&mut self, later: Self) {
        match (self, later) {
            (Self::Integers(all), Self::Integers(mut later)) => all.append(&mut later),
            (Self::Flags(all), Self::Flags(mut later)) => all.append(&mut later),
            (Self::Texts(all), Self::Texts(mut later)) => all.append(&mut later),
            _ => unreachable!("a leaf has one type"),
        }
    }
}

/// Definition levels: of a plain column, and of the leaves of a map.
mod levels {
    pub(super) const NULL: i16 = 0;
    pub(super) const VALUE: i16 = 1;
    pub(super) const EMPTY_MAP: i16 = 1;
    pub(super) const KEY: i16 = 2;
    pub(super) const VALUE_OF_KEY: i16 = 3;
    /// Repetition levels: the first entry of a map, and the following ones.
    pub(super) const FIRST: i16 = 0;
    pub(super) const NEXT: i16 = 1;
}

/// A number that no INT64 holds: query engines have no larger integers.
#[derive(Debug, thiserror::Error)]
#[error("{column} is {value}, more than the largest BIGINT ({})", i64::MAX)]
pub struct OutOfRange {
    column: String,
    value: u64,
}

/// The largest number of an INT64. It stands for the kernel's `max`: every limit is smaller.
const UNLIMITED: i64 = i64::MAX;

impl Leaf {
    /// A plain column with a cell per row; the number if no INT64 holds it.
    fn plain<R>(column: &Column<R>, cells: &[Option<Value<'_>>]) -> Result<Self, u64> {
        let definitions = cells.iter().map(|cell| if cell.is_some() { levels::VALUE } else { levels::NULL }).collect();
        let present = cells.iter().flatten();
        let values = match column.doc.column_type {
            ColumnType::Integer | ColumnType::Time => {
                let mut integers = Vec::with_capacity(present.clone().count());
                present.map(integer).try_for_each(|number| number.map(|number| integers.push(number)))?;
                Values::Integers(integers)
            }
            ColumnType::Flag => Values::Flags(present.map(|value| *value == Value::Flag(true)).collect()),
            ColumnType::Text | ColumnType::Counts => {
                let mut shared = SharedTexts { known: HashMap::new(), last: None };
                let make = |value| match column.pattern {
                    Some(pattern) => ByteArray::from(&*pattern(&text(value))),
                    None => ByteArray::from(&*text(value)),
                };
                Values::Texts(present.map(|value| shared.text(value, || make(value))).collect())
            }
        };
        Ok(Self { values, definitions, repetitions: Vec::new() })
    }

    /// The keys and the numbers of a column of maps, with a map per row: NULL, empty, or its entries; an entry whose number no INT64
    /// holds.
    fn maps<'r>(maps: impl Iterator<Item = Option<Entries<'r>>>) -> Result<[Self; 2], (&'r str, u64)> {
        let (mut of_keys, mut of_numbers, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        let (mut keys, mut numbers, mut shared) =
            (Vec::new(), Vec::new(), SharedTexts { known: HashMap::new(), last: None });
        for map in maps {
            let without_entries = if map.is_some() { levels::EMPTY_MAP } else { levels::NULL };
            let entries = map.unwrap_or_default();
            if entries.is_empty() {
                of_keys.push(without_entries);
                of_numbers.push(without_entries);
                repetitions.push(levels::FIRST);
            }
            for (at, (key, number)) in entries.into_iter().enumerate() {
                of_keys.push(levels::KEY);
                of_numbers.push(levels::VALUE_OF_KEY);
                repetitions.push(if at == 0 { levels::FIRST } else { levels::NEXT });
                keys.push(shared.text(key, || key.into()));
                numbers.push(i64::try_from(number).map_err(|_| (key, number))?);
            }
        }
        let numbers =
            Self { values: Values::Integers(numbers), definitions: of_numbers, repetitions: repetitions.clone() };
        Ok([Self { values: Values::Texts(keys), definitions: of_keys, repetitions }, numbers])
    }
}

/// Texts of a leaf: equal ones share their bytes, and are made once. Neighbors are often equal.
struct SharedTexts<K> {
    known: HashMap<K, ByteArray>,
    last: Option<(K, ByteArray)>,
}

impl<K: Copy + Eq + Hash> SharedTexts<K> {
    fn text(&mut self, key: K, make: impl FnOnce() -> ByteArray) -> ByteArray {
        match &self.last {
            Some((last, text)) if *last == key => text.clone(),
            _ => {
                let text = self.known.entry(key).or_insert_with(make).clone();
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

/// Most rows of a block. Row groups consist of whole blocks.
pub(super) const BLOCK: usize = 256;
/// Blocks of fewer rows become one: each takes some memory for each column.
const SMALL: usize = 64;

/// Some consecutive rows.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) rows: usize,
    pub(super) leaves: Vec<Leaf>,
}

impl Block {
    pub(super) fn new<R>(schema: &Schema<R>, identity: &Identity, rows: &[R]) -> Result<Self, OutOfRange> {
        let mut leaves = Vec::new();
        let identities = || repeat_n(identity, rows.len());
        schema.identity.iter().try_for_each(|column| add_column(&mut leaves, column, identities()))?;
        schema.columns.iter().try_for_each(|column| add_column(&mut leaves, column, rows.iter()))?;
        Ok(Self { rows: rows.len(), leaves })
    }

    /// Adds it to the rows before, which have the same schema. Steps of a series have few rows.
    pub(super) fn add_to(self, blocks: &mut Vec<Self>) {
        let Some(last) = blocks.last_mut().filter(|last| last.rows + self.rows <= SMALL) else {
            return blocks.push(self);
        };
        last.rows += self.rows;
        for (leaf, mut later) in last.leaves.iter_mut().zip(self.leaves) {
            leaf.values.append(later.values);
            leaf.definitions.append(&mut later.definitions);
            leaf.repetitions.append(&mut later.repetitions);
        }
    }
}

/// Adds the leaves of a column: two for a map, else one.
fn add_column<'r, R: 'r>(
    leaves: &mut Vec<Leaf>,
    column: &Column<R>,
    rows: impl Iterator<Item = &'r R>,
) -> Result<(), OutOfRange> {
    let name = &column.doc.name;
    match &column.get {
        Get::Value(get) => {
            let cells: Vec<_> = rows.map(get).collect();
            leaves.push(Leaf::plain(column, &cells).map_err(|value| OutOfRange { column: name.clone(), value })?);
        }
        Get::Counts(get) => {
            let out_of_range = |(key, value)| OutOfRange { column: format!("{name}['{key}']"), value };
            leaves.extend(Leaf::maps(rows.map(get)).map_err(out_of_range)?);
        }
    }
    Ok(())
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
        let maps = [None, Some(vec![]), Some(vec![("a", 1), ("b", 2)])];
        let [keys, numbers] = Leaf::maps(maps.into_iter()).unwrap();
        assert_eq!((&keys.definitions[..], &keys.repetitions[..]), (&[0, 1, 2, 2][..], &[0, 0, 0, 1][..]));
        assert_eq!((&numbers.definitions[..], &numbers.repetitions[..]), (&[0, 1, 3, 3][..], &[0, 0, 0, 1][..]));
        assert_eq!(Leaf::maps([Some(vec![("c", u64::MAX)])].into_iter()).unwrap_err(), ("c", u64::MAX));
    }

    #[test]
    fn equal_texts_are_made_once() {
        let (mut shared, mut made) = (SharedTexts { known: HashMap::new(), last: None }, 0);
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
