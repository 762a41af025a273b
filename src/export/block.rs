//! Rows in memory, column by column, as Parquet stores them.

use std::borrow::Cow;
use std::slice;

use parquet::data_type::ByteArray;

use super::column::{ColumnDoc, ColumnType, ParquetCell};
use super::identity::Identity;
use super::schema::Schema;
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

    fn push(&mut self, value: &Value<'_>) -> Result<(), u64> {
        match self {
            Self::Integers(integers) => integers.push(integer(value)?),
            Self::Flags(flags) => flags.push(*value == Value::Flag(true)),
            Self::Texts(texts) => {
                let text = text(value);
                // Neighbors often have equal texts, and share them.
                let same = texts.last().filter(|last| last.data() == text.as_bytes()).cloned();
                texts.push(same.unwrap_or_else(|| ByteArray::from(&*text)));
            }
        }
        Ok(())
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
    /// The leaves of a column: two for a map, else one.
    fn of_column(column_type: ColumnType) -> impl Iterator<Item = Self> {
        let integers = || Values::Integers(Vec::new());
        let texts = || Values::Texts(Vec::new());
        let (first, second) = match column_type {
            ColumnType::Integer | ColumnType::Time => (integers(), None),
            ColumnType::Flag => (Values::Flags(Vec::new()), None),
            ColumnType::Text => (texts(), None),
            ColumnType::Counts => (texts(), Some(integers())),
        };
        let leaf = |values| Self { values, definitions: Vec::new(), repetitions: Vec::new() };
        [Some(first), second].into_iter().flatten().map(leaf)
    }

    /// Adds the value of a row to a plain column; the number if no INT64 holds it.
    fn push(&mut self, value: Option<&Value<'_>>) -> Result<(), u64> {
        self.definitions.push(if value.is_some() { levels::VALUE } else { levels::NULL });
        value.map_or(Ok(()), |value| self.values.push(value))
    }

    /// An entry of a map.
    fn level(&mut self, definition: i16, repetition: i16) {
        self.definitions.push(definition);
        self.repetitions.push(repetition);
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

/// Rows of a block. Row groups consist of whole blocks.
pub(super) const BLOCK: usize = 1024;

/// Some consecutive rows.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) rows: usize,
    pub(super) leaves: Vec<Leaf>,
}

impl Block {
    pub(super) fn new<R>(schema: &Schema<R>) -> Self {
        Self { rows: 0, leaves: schema.docs().into_iter().flat_map(|doc| Leaf::of_column(doc.column_type)).collect() }
    }

    /// Adds it to the rows before, which have the same schema. Steps of a series have few rows, and a block takes some memory
    /// for each column.
    pub(super) fn add_to(self, blocks: &mut Vec<Self>) {
        let Some(last) = blocks.last_mut().filter(|last| last.rows + self.rows <= BLOCK) else {
            return blocks.push(self);
        };
        last.rows += self.rows;
        for (leaf, mut later) in last.leaves.iter_mut().zip(self.leaves) {
            leaf.values.append(later.values);
            leaf.definitions.append(&mut later.definitions);
            leaf.repetitions.append(&mut later.repetitions);
        }
    }

    /// Adds a row of a capture.
    ///
    /// # Errors
    /// [`OutOfRange`], after which the block has lost its shape and is of no use.
    pub(super) fn push<R>(&mut self, schema: &Schema<R>, identity: &Identity, row: &R) -> Result<(), OutOfRange> {
        let leaves = &mut self.leaves.iter_mut();
        for column in &schema.identity {
            push_cell(leaves, &column.doc, (column.get)(identity))?;
        }
        for column in &schema.columns {
            push_cell(leaves, &column.doc, (column.get)(row))?;
        }
        self.rows += 1;
        Ok(())
    }
}

/// Adds the value of a row to the next leaves, which are those of its column.
fn push_cell(
    leaves: &mut slice::IterMut<'_, Leaf>,
    ColumnDoc { name, column_type, .. }: &ColumnDoc,
    cell: Option<ParquetCell<'_>>,
) -> Result<(), OutOfRange> {
    let mut next = || leaves.next().expect("a block has the leaves of its columns");
    let leaf = next();
    let out_of_range = |value| OutOfRange { column: name.clone(), value };
    match cell {
        Some(ParquetCell::Counts(counts)) => push_counts(leaf, next(), Some(counts))
            .map_err(|(key, value)| OutOfRange { column: format!("{name}['{key}']"), value }),
        None if *column_type == ColumnType::Counts => push_counts(leaf, next(), None).map_err(|(_, n)| out_of_range(n)),
        Some(ParquetCell::Value(value)) => leaf.push(Some(&value)).map_err(out_of_range),
        None => leaf.push(None).map_err(out_of_range),
    }
}

/// A map: NULL, empty, or its entries.
fn push_counts<'c>(
    keys: &mut Leaf,
    numbers: &mut Leaf,
    counts: Option<Vec<(Cow<'c, str>, u64)>>,
) -> Result<(), (Cow<'c, str>, u64)> {
    let without_entries = if counts.is_some() { levels::EMPTY_MAP } else { levels::NULL };
    let counts = counts.unwrap_or_default();
    if counts.is_empty() {
        keys.level(without_entries, levels::FIRST);
        numbers.level(without_entries, levels::FIRST);
    }
    for (at, (key, number)) in counts.into_iter().enumerate() {
        let repetition = if at == 0 { levels::FIRST } else { levels::NEXT };
        keys.level(levels::KEY, repetition);
        numbers.level(levels::VALUE_OF_KEY, repetition);
        let key_pushed = keys.values.push(&Value::Text(Cow::Borrowed(&*key)));
        let pushed = key_pushed.and_then(|()| numbers.values.push(&Value::Unsigned(number)));
        pushed.map_err(|number| (key, number))?;
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
        let mut leaves: Vec<_> = Leaf::of_column(ColumnType::Counts).collect();
        let [keys, numbers] = leaves.as_mut_slice() else { panic!() };
        for counts in [None, Some(vec![]), Some(vec![("a".into(), 1), ("b".into(), 2)])] {
            push_counts(keys, numbers, counts).unwrap();
        }
        assert_eq!((&keys.definitions[..], &keys.repetitions[..]), (&[0, 1, 2, 2][..], &[0, 0, 0, 1][..]));
        assert_eq!((&numbers.definitions[..], &numbers.repetitions[..]), (&[0, 1, 3, 3][..], &[0, 0, 0, 1][..]));
        assert!(push_counts(keys, numbers, Some(vec![("c".into(), u64::MAX)])).is_err());
    }
}
