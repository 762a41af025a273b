//! Threads as rows, written while the snapshot is read.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use parquet::errors::ParquetError;

use super::block::{Block, OutOfRange};
use super::dataset::{BLOCK, Dataset};
use super::identity::Identity;
use super::schema::Schema;
use super::threads;
use crate::model::{Census, ThreadState, Threads};
use crate::store::StoreError;

/// Rows of another layout than ctprof's are written when there are this many blocks of them.
const WAITING: usize = 16;

/// Whether rows are written before the whole snapshot is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// As soon as they are in their order.
    AtOnce,
    /// After the snapshot is read: because it is read ahead of its turn, or a second time after an error.
    AtTheEnd,
}

/// The destination of the rows of one capture.
pub(super) struct Stream<'s, W: Write + Send> {
    pub(super) identity: &'s Identity,
    pub(super) schema: &'s Schema<ThreadState>,
    pub(super) writing: Writing,
    pub(super) out: &'s Mutex<Dataset<W>>,
    /// Whether rows were written.
    pub(super) has_written: AtomicBool,
}

/// Why the rows of a capture are not whole.
#[derive(Debug)]
pub(super) enum Failed {
    Input(StoreError),
    OutOfRange(OutOfRange),
    Output(ParquetError),
    /// Rows were written, and then the snapshot was read again from its start.
    ReadAgain,
}

/// Consecutive threads of a snapshot as rows.
pub(super) struct ThreadRows<'s, W: Write + Send> {
    stream: &'s Stream<'s, W>,
    /// Whether they are the first of the snapshot. Then they are in their order, and can be written.
    is_first: bool,
    blocks: Vec<Block>,
    /// The last thread that was added.
    last: Option<ThreadState>,
    census: Census,
    failed: Option<Failed>,
}

impl<'s, W: Write + Send> ThreadRows<'s, W> {
    pub(super) fn new(stream: &'s Stream<'s, W>) -> Self {
        Self { stream, is_first: false, blocks: Vec::new(), last: None, census: Census::default(), failed: None }
    }

    /// Writes the rest, and returns the counts of all threads.
    pub(super) fn finish(mut self) -> Result<Census, Failed> {
        self.write();
        self.failed.map_or(Ok(self.census), Err)
    }

    fn fail(&mut self, failed: Failed) {
        self.failed.get_or_insert(failed);
        self.blocks.clear();
    }

    fn write(&mut self) {
        let blocks = std::mem::take(&mut self.blocks);
        if blocks.is_empty() || self.failed.is_some() {
            return;
        }
        self.stream.has_written.store(true, Ordering::Relaxed);
        // Only the collection of the first threads writes, so that nothing waits here.
        let mut out = self.stream.out.lock().unwrap_or_else(PoisonError::into_inner);
        let written = blocks.into_iter().try_for_each(|block| out.push(block));
        drop(out);
        written.unwrap_or_else(|error| self.fail(Failed::Output(error)));
    }
}

impl<W: Write + Send> Threads for ThreadRows<'_, W> {
    fn another(&self) -> Self {
        Self::new(self.stream)
    }

    fn first(&self) -> Self {
        let mut first = Self { is_first: true, ..self.another() };
        if self.stream.has_written.load(Ordering::Relaxed) {
            first.fail(Failed::ReadAgain);
        }
        first
    }

    fn add(&mut self, thread: ThreadState) {
        self.census.add(&thread);
        if self.failed.is_some() {
            return;
        }
        let schema = self.stream.schema;
        if self.blocks.last().is_none_or(|block| block.rows == BLOCK) {
            self.blocks.push(Block::new(&schema.types));
        }
        let block = self.blocks.last_mut().expect("a block was added");
        let differences = threads::differences(self.last.as_ref().unwrap_or(&thread), &thread);
        let pushed = block.push((self.stream.identity, &schema.identity), (&thread, &schema.columns), differences);
        self.last = Some(thread);
        pushed.unwrap_or_else(|error| self.fail(Failed::OutOfRange(error)));
        if self.is_first && self.stream.writing == Writing::AtOnce && self.blocks.len() > WAITING {
            self.write();
        }
    }

    fn append(&mut self, later: Self) {
        self.census.append(later.census);
        self.blocks.extend(later.blocks);
        self.last = later.last.or(self.last.take());
        if let Some(failed) = later.failed {
            self.fail(failed);
        }
        if self.is_first && self.stream.writing == Writing::AtOnce {
            self.write();
        }
    }
}
