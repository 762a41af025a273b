//! A leaf of a row group: its pages, encoded and compressed in memory.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use super::{Leaf, Values};
use crate::process::lock;

const LEVEL: i32 = 3;

thread_local! {
    /// Compressor of this worker: a compressor for each of some 400 leaves would take 600 KB each.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

/// A leaf of a row group, while it is encoded and compressed.
pub(super) struct Chunk {
    writer: ColumnWriter<'static>,
    pages: Pages,
    is_repeated: bool,
}

/// Pages in memory, shared with the writer that makes them.
#[derive(Clone)]
struct Pages(Arc<Mutex<TrackedWrite<Vec<u8>>>>);

impl PageWriter for Pages {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        SerializedPageWriter::new(&mut *lock(&self.0)).write_page(compressed(&page)?)
    }

    fn close(&mut self) -> Result<()> {
        SerializedPageWriter::new(&mut *lock(&self.0)).close()
    }
}

/// Compresses a page that the writer of its leaf left as it is.
fn compressed(page: &CompressedPage) -> Result<CompressedPage> {
    let bytes = COMPRESSOR.with_borrow_mut(|worker| {
        let compressor = match worker {
            Some(compressor) => compressor,
            None => worker.insert(Compressor::new(LEVEL)?),
        };
        compressor.compress(page.data())
    });
    let mut small = page.compressed_page().clone();
    let (Page::DataPage { buf, .. } | Page::DataPageV2 { buf, .. } | Page::DictionaryPage { buf, .. }) = &mut small;
    *buf = bytes?.into();
    Ok(CompressedPage::new(small, page.uncompressed_size()))
}

impl Chunk {
    /// `properties` must not compress.
    pub(super) fn new(descriptor: &ColumnDescPtr, properties: &WriterPropertiesPtr) -> Self {
        let pages = Pages(Arc::new(Mutex::new(TrackedWrite::new(Vec::new()))));
        let writer = get_column_writer(Arc::clone(descriptor), Arc::clone(properties), Box::new(pages.clone()));
        Self { writer, pages, is_repeated: descriptor.max_rep_level() > 0 }
    }

    pub(super) fn add(&mut self, leaf: &Leaf) -> Result<()> {
        let (definitions, repetitions) = (Some(&*leaf.definitions), self.is_repeated.then_some(&*leaf.repetitions));
        let written = match (&mut self.writer, &leaf.values) {
            (ColumnWriter::Int64ColumnWriter(writer), Values::Integers(values)) => {
                writer.write_batch(values, definitions, repetitions)
            }
            (ColumnWriter::DoubleColumnWriter(writer), Values::Reals(values)) => {
                writer.write_batch(values, definitions, repetitions)
            }
            (ColumnWriter::BoolColumnWriter(writer), Values::Flags(values)) => {
                writer.write_batch(values, definitions, repetitions)
            }
            (ColumnWriter::ByteArrayColumnWriter(writer), Values::Texts(values)) => {
                writer.write_batch(values, definitions, repetitions)
            }
            _ => Err(ParquetError::General("a leaf does not match the schema".to_owned())),
        };
        written.map(drop)
    }

    /// The bytes of its pages so far.
    pub(super) fn bytes(&self) -> usize {
        lock(&self.pages.0).bytes_written()
    }

    /// The compressed pages, and what the file's metadata says about them.
    pub(super) fn close(self) -> Result<(Bytes, ColumnCloseResult)> {
        let mut closed = self.writer.close()?;
        let codec = Compression::ZSTD(ZstdLevel::try_new(LEVEL)?);
        closed.metadata = closed.metadata.into_builder().set_compression(codec).build()?;
        Ok((std::mem::take(lock(&self.pages.0).inner_mut()).into(), closed))
    }
}
