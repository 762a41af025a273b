//! A Parquet file: schema, row groups that are encoded and compressed on all CPUs, and metadata.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescPtr, ColumnPath, Type, TypePtr};
use rayon::prelude::*;

use super::identity::Identity;
use super::{Chunk, ColumnDoc, ColumnType, ExportError, PendingRow, Schema, io_error};

/// Maximum number of rows of a row group. Pages of columns with a dictionary wait in memory for its end, without compression: a
/// million rows take 100 MB.
const ROW_GROUP: usize = 250_000;
/// Maximum size of the other pages of a row group, in bytes.
const ROW_GROUP_BYTES: usize = 32 << 20;
/// Number of columns that a CPU encodes at a time.
const TOGETHER: usize = 8;

/// Maximum size of a dictionary of integers and of texts. The pages of a column with a dictionary stay in memory without
/// compression, and integers that differ much are smaller as differences.
const INTEGERS: usize = 2 << 10;
const TEXTS: usize = 256 << 10;

/// The texts by which queries choose rows. The others have no minimum and maximum: those would take time and say little.
const SEARCHED: [&str; 8] = ["host", "pcomm", "comm_pattern", "cgroup", "workload", "namespace", "pod", "class"];
/// Columns of text in which a query usually looks for one value.
const BLOOM: [&str; 3] = ["capture_id", "pcomm", "workload"];
/// Maximum number of names that a Bloom filter of a row group is made for; filters for fewer names are smaller.
const BLOOM_NAMES: u64 = 16 << 10;

/// The key of the file's metadata with the units of columns, as a JSON object.
const UNITS: &str = "ctprof.units";
/// The key of the file's metadata with the version of the columns. They are only added, so that a file lacks the later ones.
const SCHEMA: &str = "ctprof.schema";
const SCHEMA_VERSION: &str = "2";

/// A file of a dataset, with rows of type `R`.
pub(super) struct DatasetFile<'f, R> {
    schema: &'f Schema<R>,
    /// The path for messages.
    shown: PathBuf,
    writer: SerializedFileWriter<&'f File>,
    /// Rows that are not encoded yet.
    pending: Vec<PendingRow<R>>,
    /// The leaves of the current row group, by column; empty before its first rows.
    group: Vec<Vec<Chunk>>,
    group_rows: usize,
    /// The capture of the last row.
    last: Option<Arc<Identity>>,
    rows: u64,
}

impl<'f, R: Send + Sync> DatasetFile<'f, R> {
    pub(super) fn create(out: &'f File, shown: &Path, schema: &'f Schema<R>) -> Result<Self, ExportError> {
        let columns = schema.docs();
        let writer = message(&columns).and_then(|message| {
            let properties = properties(&columns, schema.sorted_by).build();
            SerializedFileWriter::new(out, message, Arc::new(properties))
        });
        let writer = writer.map_err(|error| ExportError::output(shown, io_error(error)))?;
        let (pending, group) = Default::default();
        Ok(Self { schema, shown: shown.to_owned(), writer, pending, group, group_rows: 0, last: None, rows: 0 })
    }

    /// Adds rows of a capture, in their order. If the capture does not follow the one before by host and time, a row group begins, since
    /// its metadata says how it is sorted.
    pub(super) fn push(
        &mut self,
        identity: &Arc<Identity>,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), ExportError> {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_some() {
            let last = self.last.replace(Arc::clone(identity));
            if last.is_some_and(|last| last.order() >= identity.order()) {
                self.write_row_group()?;
            }
        }
        for values in rows {
            self.pending.push(PendingRow { identity: Arc::clone(identity), values });
            if self.pending.len() >= self.schema.rows_per_batch {
                self.encode()?;
                let bytes: usize = self.group.iter().flatten().map(Chunk::bytes).sum();
                if self.group_rows + self.schema.rows_per_batch > ROW_GROUP || bytes > ROW_GROUP_BYTES {
                    self.write_row_group()?;
                }
            }
        }
        Ok(())
    }

    /// Adds the pending rows to the row group.
    fn encode(&mut self) -> Result<(), ExportError> {
        let rows = std::mem::take(&mut self.pending);
        if rows.is_empty() {
            return Ok(());
        }
        if self.group.is_empty() {
            let mut leaves = self.writer.schema_descr().columns().iter();
            let properties = self.writer.properties();
            let chunk = |leaf: &ColumnDescPtr| Chunk::new(leaf, properties);
            let chunks = |column: &ColumnDoc| {
                let number = if column.column_type == ColumnType::Counts { 2 } else { 1 };
                leaves.by_ref().take(number).map(chunk).collect()
            };
            self.group = self.schema.docs().into_iter().map(chunks).collect();
        }
        self.group_rows += rows.len();
        let (schema, shown) = (self.schema, &self.shown);
        self.group.par_chunks_mut(TOGETHER).enumerate().try_for_each(|(part, columns)| {
            let first = part * TOGETHER;
            schema.each_leaf(first..first + columns.len(), &rows, &mut |column, leaves| {
                let mut chunks = columns[column - first].iter_mut().zip(&leaves);
                let added = chunks.try_for_each(|(chunk, leaf)| chunk.add(leaf));
                added.map_err(|error| ExportError::output(shown, io_error(error)))
            })
        })
    }

    fn write_row_group(&mut self) -> Result<(), ExportError> {
        self.encode()?;
        let chunks = std::mem::take(&mut self.group);
        self.rows += u64::try_from(std::mem::take(&mut self.group_rows)).unwrap_or(u64::MAX);
        if chunks.is_empty() {
            return Ok(());
        }
        let write = || -> ParquetResult<()> {
            let closed = chunks.into_par_iter().flatten().map(Chunk::close).collect::<ParquetResult<Vec<_>>>()?;
            let mut group = self.writer.next_row_group()?;
            closed.into_iter().try_for_each(|(bytes, closed)| group.append_column(&bytes, closed))?;
            group.close().map(drop)
        };
        write().map_err(|error| ExportError::output(&self.shown, io_error(error)))
    }

    /// Ends the file, and returns the number of its rows.
    pub(super) fn finish(mut self) -> Result<u64, ExportError> {
        self.write_row_group()?;
        self.writer.close().map_err(|error| ExportError::output(&self.shown, io_error(error)))?;
        Ok(self.rows)
    }
}

/// Properties without anything that differs between two runs. Pages are compressed by [`Chunk`].
fn properties(columns: &[&ColumnDoc], sorted_by: &[&str]) -> parquet::file::properties::WriterPropertiesBuilder {
    let place = |name| columns.iter().position(|column| column.name == name);
    // No map precedes them, so that the place of a column is that of its leaf.
    let places = sorted_by.iter().filter_map(|name| i32::try_from(place(*name)?).ok());
    let sorted = places.map(|column_idx| SortingColumn { column_idx, descending: false, nulls_first: true });
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("ctprof version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_dictionary_page_size_limit(TEXTS)
        .set_sorting_columns(Some(sorted.collect()))
        .set_key_value_metadata(Some(vec![
            units(columns),
            KeyValue::new(SCHEMA.to_owned(), SCHEMA_VERSION.to_owned()),
        ]));
    for column in columns {
        let path = || ColumnPath::from(&*column.name);
        match column.column_type {
            ColumnType::Integer | ColumnType::Time => {
                properties = properties
                    .set_column_dictionary_page_size_limit(path(), INTEGERS)
                    .set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED);
            }
            ColumnType::Text if !SEARCHED.contains(&&*column.name) => {
                properties = properties.set_column_statistics_enabled(path(), EnabledStatistics::None);
            }
            _ => {}
        }
        if BLOOM.contains(&&*column.name) {
            properties = properties
                .set_column_bloom_filter_max_ndv(path(), BLOOM_NAMES)
                .set_column_bloom_filter_fpp(path(), 0.01);
        }
    }
    properties
}

fn units(columns: &[&ColumnDoc]) -> KeyValue {
    let units = columns.iter().filter(|column| !column.unit.is_empty());
    let units: serde_json::Map<_, _> = units.map(|column| (column.name.clone(), column.unit.into())).collect();
    KeyValue::new(UNITS.to_owned(), serde_json::Value::from(units).to_string())
}

fn message(columns: &[&ColumnDoc]) -> ParquetResult<TypePtr> {
    let fields = columns.iter().map(|column| field(column).map(Arc::new)).collect::<ParquetResult<_>>()?;
    Ok(Arc::new(Type::group_type_builder("ctprof").with_fields(fields).build()?))
}

/// The type of a column. It has no field id: tables of Iceberg that take files as they are would find none of its columns.
fn field(column: &ColumnDoc) -> ParquetResult<Type> {
    let leaf = |name, physical, logical| Type::primitive_type_builder(name, physical).with_logical_type(logical);
    let required = |name, physical, logical| leaf(name, physical, logical).with_repetition(Repetition::REQUIRED);
    let text = Some(LogicalType::String);
    let group = |entries: &str, logical, fields| {
        let entries = Type::group_type_builder(entries).with_repetition(Repetition::REPEATED).with_fields(fields);
        let group = Type::group_type_builder(&column.name).with_repetition(Repetition::OPTIONAL);
        group.with_logical_type(Some(logical)).with_fields(vec![Arc::new(entries.build()?)]).build()
    };
    let (physical, logical) = match column.column_type {
        ColumnType::Integer => (Physical::INT64, None),
        ColumnType::Real => (Physical::DOUBLE, None),
        ColumnType::Flag => (Physical::BOOLEAN, None),
        ColumnType::Text => (Physical::BYTE_ARRAY, text),
        ColumnType::Time => (Physical::INT64, Some(LogicalType::timestamp(false, TimeUnit::MICROS))),
        ColumnType::Counts => {
            let key = required("key", Physical::BYTE_ARRAY, text).build()?;
            let value = leaf("value", Physical::INT64, None).with_repetition(Repetition::OPTIONAL).build()?;
            return group("key_value", LogicalType::Map, vec![Arc::new(key), Arc::new(value)]);
        }
        ColumnType::Texts => {
            let element = required("element", Physical::BYTE_ARRAY, text).build()?;
            return group("list", LogicalType::List, vec![Arc::new(element)]);
        }
    };
    leaf(&column.name, physical, logical).with_repetition(Repetition::OPTIONAL).build()
}
