//! A capture as rows. They are made while its threads are read, and written once all of it has been read: no file has
//! half a capture.

use std::fs;
use std::sync::Arc;

use super::block::{BLOCK, Block, OutOfRange};
use super::captures::CaptureRow;
use super::cgroups::CgroupRow;
use super::error::ExportError;
use super::identity::Identity;
use super::inputs::{CaptureFile, ExportOptions, LARGEST_AHEAD};
use super::reasons;
use super::schema::{Schema, Schemas};
use crate::model::{Census, CgroupStats, CtprofSnapshot, SnapshotHead, ThreadState, Threads};
use crate::store::{PartPath, Stored};

/// Usual size of JSON, by that of its file.
const USUAL_RATIO: u64 = 12;

/// The rows of a capture in each dataset: threads, cgroups, captures, reasons.
pub(super) type CaptureRows = [Vec<Block>; 4];

/// Passes on the rows of a capture, those of a series step by step.
fn each_rows(
    CaptureFile { part: PartPath { file: path, range }, identity }: &CaptureFile,
    schemas: &Schemas,
    ExportOptions { limit, progress }: ExportOptions<'_>,
    found: &mut dyn FnMut(CaptureRows) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let out_of_range = |source| ExportError::OutOfRange { path: path.clone(), source };
    let stored = Stored::open(path, limit, progress)?;
    let Some(mut series) = stored.series()? else {
        let (head, threads) = stored.load_into(&ThreadRows::new(identity, schemas))?;
        return found(rows(head, threads, schemas).map_err(out_of_range)?);
    };
    let mut steps = 0..;
    series.each_window(&range.clone().unwrap_or_default(), 0, &mut |CtprofSnapshot { head, threads: changed }| {
        let identity = identity.of_step(steps.next().unwrap_or(u64::MAX), &head);
        let mut threads = ThreadRows::new(&identity, schemas);
        changed.into_iter().for_each(|thread| threads.add(thread));
        found(rows(head, threads, schemas).map_err(out_of_range)?)
    })
}

/// Passes on the rows of a capture, if all of it can be read. A series has too many for memory: it is read before.
pub(super) fn read(
    capture: &CaptureFile,
    schemas: &Schemas,
    options: ExportOptions<'_>,
    found: &mut dyn FnMut(CaptureRows) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let unseen = Arc::default();
    if Stored::open(&capture.part.file, options.limit, &unseen)?.series()?.is_some() {
        each_rows(capture, schemas, ExportOptions { progress: &unseen, ..options }, &mut |_| Ok(()))?;
    }
    each_rows(capture, schemas, options, found)
}

/// The rows of a capture, whose threads have theirs.
fn rows(head: SnapshotHead, threads: ThreadRows<'_>, schemas: &Schemas) -> Result<CaptureRows, OutOfRange> {
    let identity = threads.rows.identity;
    let mut cgroups = Rows::new(identity, &schemas.cgroups);
    // Of a step, those that changed have values.
    let is_of_step = identity.step.is_some();
    for (path, stats) in head.cgroup_stats.iter().filter(|(_, stats)| !is_of_step || **stats != CgroupStats::default())
    {
        cgroups.add(CgroupRow::new(path.clone(), stats, head.containers.get(path)));
    }
    let mut sampled = Rows::new(identity, &schemas.reasons);
    head.reasons.iter().flat_map(|reasons| reasons::rows(reasons)).for_each(|row| sampled.add(row));
    let mut captures = Rows::new(identity, &schemas.captures);
    captures.add(CaptureRow::new(head, threads.census));
    Ok([threads.rows.into_blocks()?, cgroups.into_blocks()?, captures.into_blocks()?, sampled.into_blocks()?])
}

/// Reads a capture if it is small. `None` also after an error, which is found again when it is read in its turn.
pub(super) fn read_ahead(capture: &CaptureFile, schemas: &Schemas, options: ExportOptions<'_>) -> Option<CaptureRows> {
    let bytes = fs::metadata(&capture.part.file).ok()?.len();
    if bytes > LARGEST_AHEAD / USUAL_RATIO {
        return None;
    }
    let (limit, progress) = (options.limit.min(LARGEST_AHEAD), &Arc::default());
    let mut all = CaptureRows::default();
    let add = &mut |rows: CaptureRows| {
        all.iter_mut().zip(rows).for_each(|(all, rows)| rows.into_iter().for_each(|block| block.add_to(all)));
        Ok(())
    };
    each_rows(capture, schemas, ExportOptions { limit, progress }, add).ok()?;
    options.progress.announce(bytes);
    options.progress.advance(bytes);
    Some(all)
}

struct Rows<'s, R> {
    identity: &'s Identity,
    schema: &'s Schema<R>,
    blocks: Result<Vec<Block>, OutOfRange>,
    /// Those that come after the blocks.
    last: Vec<R>,
}

impl<'s, R> Rows<'s, R> {
    fn new(identity: &'s Identity, schema: &'s Schema<R>) -> Self {
        Self { identity, schema, blocks: Ok(Vec::new()), last: Vec::new() }
    }

    fn add(&mut self, row: R) {
        self.last.push(row);
        if self.last.len() == BLOCK {
            self.make_block();
        }
    }

    fn make_block(&mut self) {
        let rows = std::mem::take(&mut self.last);
        let Some(blocks) = self.blocks.as_mut().ok().filter(|_| !rows.is_empty()) else { return };
        match Block::new(self.schema, self.identity, &rows) {
            Ok(block) => blocks.push(block),
            Err(error) => self.blocks = Err(error),
        }
    }

    fn append(&mut self, later: Self) {
        self.make_block();
        match (&mut self.blocks, later.into_blocks()) {
            (Ok(blocks), Ok(mut later)) => blocks.append(&mut later),
            (blocks @ Ok(_), later @ Err(_)) => *blocks = later,
            (Err(_), _) => {}
        }
    }

    fn into_blocks(mut self) -> Result<Vec<Block>, OutOfRange> {
        self.make_block();
        self.blocks
    }
}

struct ThreadRows<'s> {
    rows: Rows<'s, ThreadState>,
    census: Census,
}

impl<'s> ThreadRows<'s> {
    fn new(identity: &'s Identity, schemas: &'s Schemas) -> Self {
        Self { rows: Rows::new(identity, &schemas.threads), census: Census::default() }
    }
}

impl Threads for ThreadRows<'_> {
    fn another(&self) -> Self {
        Self { rows: Rows::new(self.rows.identity, self.rows.schema), census: Census::default() }
    }

    fn add(&mut self, thread: ThreadState) {
        self.census.add(&thread);
        self.rows.add(thread);
    }

    fn append(&mut self, later: Self) {
        self.census.append(later.census);
        self.rows.append(later.rows);
    }
}
