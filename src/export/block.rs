//! Rows in memory, column by column, as Parquet stores them.

use std::borrow::Cow;
use std::slice;

use parquet::data_type::ByteArray;

use super::column::{Cell, Column, ColumnDoc, ColumnType};
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

/// A number that no INT64 holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutOfRange {
    pub(super) column: String,
    pub(super) value: u64,
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

    fn null(&mut self) {
        self.definitions.push(levels::NULL);
    }

    /// Repeats the last value of a plain column, until there are this many.
    fn repeat_until(&mut self, rows: usize) {
        let missing = rows - self.definitions.len();
        let Some(last) = self.definitions.last().copied().filter(|_| missing > 0) else { return };
        self.definitions.resize(rows, last);
        if last == levels::VALUE {
            match &mut self.values {
                Values::Integers(integers) => repeat_last(integers, missing),
                Values::Flags(flags) => repeat_last(flags, missing),
                Values::Texts(texts) => repeat_last(texts, missing),
            }
        }
    }

    /// An entry of a map.
    fn level(&mut self, definition: i16, repetition: i16) {
        self.definitions.push(definition);
        self.repetitions.push(repetition);
    }

    /// A value of a plain column; the number if no INT64 holds it.
    fn push(&mut self, value: &Value<'_>) -> Result<(), u64> {
        self.definitions.push(levels::VALUE);
        match &mut self.values {
            Values::Integers(integers) => integers.push(integer(value)?),
            Values::Flags(flags) => flags.push(*value == Value::Flag(true)),
            Values::Texts(texts) => push_text(texts, &text(value)),
        }
        Ok(())
    }
}

fn repeat_last<T: Clone>(values: &mut Vec<T>, times: usize) {
    if let Some(last) = values.last().cloned() {
        values.resize(values.len() + times, last);
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

/// Consecutive rows often have the same text: it is shared.
fn push_text(texts: &mut Vec<ByteArray>, text: &str) {
    let text = match texts.last() {
        Some(last) if last.data() == text.as_bytes() => last.clone(),
        _ => ByteArray::from(text),
    };
    texts.push(text);
}

/// Some consecutive rows.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) rows: usize,
    pub(super) leaves: Vec<Leaf>,
}

impl Block {
    pub(super) fn new(types: &[ColumnType]) -> Self {
        Self { rows: 0, leaves: types.iter().flat_map(|column_type| Leaf::of_column(*column_type)).collect() }
    }

    /// Adds a row: the columns of `left`, which is the same for all rows, then those of `right`. A column that does not
    /// differ from the row before is left as it is until it does, or until the block is complete.
    ///
    /// # Errors
    /// [`OutOfRange`], after which the block has lost its shape and is of no use.
    pub(super) fn push<L, R>(
        &mut self,
        (left, left_columns): (&L, &[Column<L>]),
        (right, right_columns): (&R, &[Column<R>]),
        differences: impl Iterator<Item = bool>,
    ) -> Result<(), OutOfRange> {
        let is_first = self.rows == 0;
        let mut leaves = self.leaves.iter_mut();
        for Column { doc, get } in left_columns {
            let cells = Cells::of_column(&mut leaves, doc);
            if is_first {
                cells.push(self.rows, get(left))?;
            }
        }
        for (Column { doc, get }, differs) in right_columns.iter().zip(differences) {
            let cells = Cells::of_column(&mut leaves, doc);
            if is_first || differs || cells.numbers.is_some() {
                cells.push(self.rows, get(right))?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Gives every leaf the values of all rows.
    pub(super) fn complete(&mut self) {
        let plain = self.leaves.iter_mut().filter(|leaf| leaf.repetitions.is_empty());
        plain.for_each(|leaf| leaf.repeat_until(self.rows));
    }
}

/// The leaves of a column.
struct Cells<'b> {
    doc: &'b ColumnDoc,
    leaf: &'b mut Leaf,
    /// The numbers of a map.
    numbers: Option<&'b mut Leaf>,
}

impl<'b> Cells<'b> {
    /// Takes the leaves of a column from those that are left.
    fn of_column(leaves: &mut slice::IterMut<'b, Leaf>, doc: &'b ColumnDoc) -> Self {
        let mut next = || leaves.next().expect("a block has the leaves of its columns");
        let leaf = next();
        Self { doc, leaf, numbers: (doc.column_type == ColumnType::Counts).then(next) }
    }

    /// Adds the value of a row, which has `rows` before it.
    fn push(self, rows: usize, cell: Option<Cell<'_>>) -> Result<(), OutOfRange> {
        let Self { doc: ColumnDoc { name, .. }, leaf, numbers } = self;
        if let Some(numbers) = numbers {
            let counts = match cell {
                Some(Cell::Counts(counts)) => Some(counts),
                _ => None,
            };
            let pushed = push_counts(leaf, numbers, counts);
            return pushed.map_err(|(key, value)| OutOfRange { column: format!("{name}['{key}']"), value });
        }
        leaf.repeat_until(rows);
        match cell {
            Some(Cell::Value(value)) => leaf.push(&value).map_err(|value| OutOfRange { column: name.clone(), value }),
            _ => {
                leaf.null();
                Ok(())
            }
        }
    }
}

/// A map: NULL, empty, or its entries.
fn push_counts(
    keys: &mut Leaf,
    numbers: &mut Leaf,
    counts: Option<Vec<(Cow<'_, str>, u64)>>,
) -> Result<(), (String, u64)> {
    let without_entries = if counts.is_some() { levels::EMPTY_MAP } else { levels::NULL };
    let counts = counts.unwrap_or_default();
    if counts.is_empty() {
        keys.level(without_entries, levels::FIRST);
        numbers.level(without_entries, levels::FIRST);
    }
    let (Values::Texts(texts), Values::Integers(integers)) = (&mut keys.values, &mut numbers.values) else {
        unreachable!("the leaves of a map are texts and integers")
    };
    let mut entries = Vec::with_capacity(counts.len());
    for (key, number) in counts {
        integers.push(i64::try_from(number).map_err(|_| (key.to_string(), number))?);
        texts.push(ByteArray::from(&*key));
        entries.push(if entries.is_empty() { levels::FIRST } else { levels::NEXT });
    }
    for repetition in entries {
        keys.level(levels::KEY, repetition);
        numbers.level(levels::VALUE_OF_KEY, repetition);
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
