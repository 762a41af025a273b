//! One Parquet file: schema, row groups that are compressed on all CPUs, and metadata.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use rayon::prelude::*;

use super::{Block, Chunk, ColumnDoc, ColumnType, Values};

pub(super) const ROW_GROUP: usize = 100_000;

/// Rows that are encoded at a time, on all CPUs. They, and a row group in its encoded form, are in memory.
const STEP: usize = 8192;

const LEVEL: i32 = 3;

/// The key of the file's metadata with the units of columns, as a JSON object.
const UNITS: &str = "ctprof.units";

/// The key of the file's metadata with the ids of its captures, one per line.
pub(super) const CAPTURES: &str = "ctprof.captures";

pub(super) struct Dataset<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// The properties of leaves that are better packed than with a dictionary.
    packed: WriterPropertiesPtr,
    pending: Vec<Block>,
    pending_rows: usize,
    /// The current row group, by leaf; empty before its first rows.
    group: Vec<Chunk>,
    group_rows: usize,
    /// The finished row groups of a capture that may yet be left out.
    held: Option<Vec<RowGroup>>,
    rows: u64,
}

/// The leaves of a row group, and how many rows they are.
struct RowGroup {
    leaves: Vec<(Bytes, ColumnCloseResult)>,
    rows: usize,
}

impl<W: Write + Send> Dataset<W> {
    pub(super) fn create(out: W, columns: &[&ColumnDoc]) -> Result<Self> {
        let usual = properties()?.set_key_value_metadata(Some(vec![units(columns)]));
        let writer = SerializedFileWriter::new(out, schema(columns)?, Arc::new(usual.build()))?;
        // The differences of integers are smaller than a dictionary, and need no hashes.
        let packed = properties()?.set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BINARY_PACKED);
        let packed = Arc::new(packed.build());
        let (pending, group) = Default::default();
        Ok(Self { writer, packed, pending, pending_rows: 0, group, group_rows: 0, held: None, rows: 0 })
    }

    pub(super) fn push(&mut self, block: Block) -> Result<()> {
        if self.group_rows + self.pending_rows + block.rows > ROW_GROUP {
            self.write_row_group()?;
        }
        self.pending_rows += block.rows;
        block.add_to(&mut self.pending);
        if self.pending_rows >= STEP { self.encode() } else { Ok(()) }
    }

    /// Adds the pending rows to the row group.
    fn encode(&mut self) -> Result<()> {
        let blocks = std::mem::take(&mut self.pending);
        self.group_rows += std::mem::take(&mut self.pending_rows);
        if self.group.is_empty() {
            let leaves = self.writer.schema_descr().columns().par_iter();
            let (usual, packed) = (self.writer.properties(), &self.packed);
            let chunk = |(at, leaf): (usize, _)| {
                let is_packed = is_packed(blocks.iter().map(|block: &Block| &block.leaves[at].values));
                Chunk::new(leaf, if is_packed { packed } else { usual })
            };
            self.group = leaves.enumerate().map(chunk).collect();
        }
        let chunks = self.group.par_iter_mut().enumerate();
        chunks.try_for_each(|(leaf, chunk)| blocks.iter().try_for_each(|block| chunk.add(&block.leaves[leaf])))
    }

    /// Begins a capture that [`keep`](Self::keep) writes or [`discard`](Self::discard) leaves out. Until then its encoded rows are
    /// in memory, in row groups of their own.
    pub(super) fn hold(&mut self) -> Result<()> {
        self.write_row_group()?;
        self.held = Some(Vec::new());
        Ok(())
    }

    pub(super) fn keep(&mut self) -> Result<()> {
        self.held.take().into_iter().flatten().try_for_each(|group| self.write(group))
    }

    pub(super) fn discard(&mut self) {
        self.held = None;
        (self.pending, self.pending_rows) = Default::default();
        (self.group, self.group_rows) = Default::default();
    }

    fn write_row_group(&mut self) -> Result<()> {
        if self.group_rows + self.pending_rows == 0 {
            return Ok(());
        }
        self.encode()?;
        let chunks = std::mem::take(&mut self.group).into_par_iter();
        let leaves = chunks.map(Chunk::close).collect::<Result<_>>()?;
        let group = RowGroup { leaves, rows: std::mem::take(&mut self.group_rows) };
        match &mut self.held {
            Some(held) => held.push(group),
            None => self.write(group)?,
        }
        Ok(())
    }

    fn write(&mut self, RowGroup { leaves, rows }: RowGroup) -> Result<()> {
        self.rows += u64::try_from(rows).unwrap_or(u64::MAX);
        let mut group = self.writer.next_row_group()?;
        leaves.into_iter().try_for_each(|(bytes, closed)| group.append_column(&bytes, closed))?;
        group.close().map(drop)
    }

    /// Ends the file, which has the rows of these captures, and returns its writer and the number of rows.
    pub(super) fn finish(mut self, captures: &[&str]) -> Result<(W, u64)> {
        self.write_row_group()?;
        self.writer.append_key_value_metadata(KeyValue::new(CAPTURES.to_owned(), captures.join("\n")));
        Ok((self.writer.into_inner()?, self.rows))
    }
}

/// Properties without anything that differs between two runs.
fn properties() -> Result<WriterPropertiesBuilder> {
    let properties = WriterProperties::builder()
        .set_created_by(concat!("ctprof version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        // Engines skip row groups by these; an index of pages would be as large as the pages of small files.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    Ok(properties)
}

/// Whether integers need no dictionary: most of the first ones differ from each other, or none does.
fn is_packed<'v>(values: impl Iterator<Item = &'v Values>) -> bool {
    const ASKED: usize = 256;
    let mut integers = values.filter_map(Values::integers).flatten();
    let first: Vec<i64> = integers.by_ref().copied().take(ASKED).collect();
    match first.iter().collect::<BTreeSet<_>>().len() {
        1 => integers.all(|integer| *integer == first[0]),
        distinct => distinct > first.len() / 2,
    }
}

fn units(columns: &[&ColumnDoc]) -> KeyValue {
    let units = columns.iter().filter(|column| !column.unit.is_empty());
    let units: serde_json::Map<_, _> = units.map(|column| (column.name.clone(), column.unit.into())).collect();
    KeyValue::new(UNITS.to_owned(), serde_json::Value::from(units).to_string())
}

fn schema(columns: &[&ColumnDoc]) -> Result<TypePtr> {
    let fields = columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<_>>()?;
    Ok(Arc::new(Type::group_type_builder("ctprof").with_fields(fields).build()?))
}

fn field(column: &ColumnDoc) -> Result<Type> {
    let leaf = |name, physical, logical| {
        let leaf = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        leaf.with_repetition(Repetition::OPTIONAL)
    };
    let name = &*column.name;
    match column.column_type {
        ColumnType::Integer => leaf(name, Physical::INT64, None).build(),
        ColumnType::Flag => leaf(name, Physical::BOOLEAN, None).build(),
        ColumnType::Text => leaf(name, Physical::BYTE_ARRAY, Some(LogicalType::String)).build(),
        ColumnType::Time => leaf(name, Physical::INT64, Some(LogicalType::timestamp(false, TimeUnit::MICROS))).build(),
        ColumnType::Counts => {
            let key = leaf("key", Physical::BYTE_ARRAY, Some(LogicalType::String));
            let key = key.with_repetition(Repetition::REQUIRED).build()?;
            let value = leaf("value", Physical::INT64, None).build()?;
            let entries = Type::group_type_builder("key_value").with_repetition(Repetition::REPEATED);
            let entries = entries.with_fields(vec![Arc::new(key), Arc::new(value)]).build()?;
            Type::group_type_builder(name)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(Some(LogicalType::Map))
                .with_fields(vec![Arc::new(entries)])
                .build()
        }
    }
}
