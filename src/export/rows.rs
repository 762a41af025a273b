//! A capture as rows, which are made while its threads are read.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use super::captures::CaptureRow;
use super::cgroups::CgroupRow;
use super::identity::{Identity, known};
use super::{
    BLOCK, Block, CaptureFile, ExportError, ExportOptions, LARGEST_AHEAD, OutOfRange, Schema, Schemas, reasons,
};
use crate::model::{Census, CgroupStats, CtprofSnapshot, SnapshotHead, ThreadState, Threads};
use crate::process::lock;
use crate::store::Input;

/// Usual size of JSON, by that of its file.
const USUAL_RATIO: u64 = 12;

/// Rows of a capture in each dataset: threads, cgroups, captures, reasons.
pub(super) type CaptureRows = [Vec<Block>; 4];

/// Takes the rows of a capture.
pub(super) trait RowSink: Send {
    /// Adds rows that follow those before.
    fn add(&mut self, rows: CaptureRows) -> Result<(), ExportError>;

    /// Forgets the rows so far: they come again from the first on.
    fn restart(&mut self);

    /// Holds nothing back from here on: the capture was read once, and all of its rows will come.
    fn pass_through(&mut self) {}
}

impl RowSink for CaptureRows {
    fn add(&mut self, rows: CaptureRows) -> Result<(), ExportError> {
        self.iter_mut().zip(rows).for_each(|(all, rows)| rows.into_iter().for_each(|block| block.add_to(all)));
        Ok(())
    }

    fn restart(&mut self) {
        *self = Self::default();
    }
}

/// Drops rows: it only matters whether they can be made.
struct Check;

impl RowSink for Check {
    fn add(&mut self, _: CaptureRows) -> Result<(), ExportError> {
        Ok(())
    }

    fn restart(&mut self) {}
}

/// Passes on the rows of a capture, those of a series step by step. Returns remarks on the series.
fn each_rows(
    CaptureFile { part, identity }: &CaptureFile,
    schemas: &Schemas,
    ExportOptions { limit, progress }: ExportOptions<'_>,
    sink: &mut dyn RowSink,
) -> Result<Vec<String>, ExportError> {
    let path = &part.file;
    let out_of_range = |source| ExportError::OutOfRange { path: path.clone(), source };
    let mut series = match part.open(limit, progress)? {
        Input::Series(series) => series,
        Input::File(stored) => {
            let sink = Mutex::new(sink);
            let (head, mut threads) = stored.load_into(&ThreadRows::new(identity, schemas, Some(&sink)))?;
            std::mem::replace(&mut threads.passed, Ok(()))?;
            let rows = rows(head, threads, schemas).map_err(out_of_range)?;
            let sink = sink.into_inner().unwrap_or_else(PoisonError::into_inner);
            return sink.add(rows).map(|()| Vec::new());
        }
        Input::Directory => return Err(ExportError::NotAFile(path.clone())),
    };
    if known(series.head().captured_at_unix_ns) != identity.captured_at_unix_ns {
        return Err(ExportError::Changed(path.clone()));
    }
    let mut steps = 0..;
    let range = part.range.clone().unwrap_or_default();
    series.each_window(&range, &mut |CtprofSnapshot { head, threads: changed }, _| {
        let identity = identity.of_step(steps.next().unwrap_or(u64::MAX), &head);
        let mut threads = ThreadRows::new(&identity, schemas, None);
        changed.into_iter().for_each(|thread| threads.add(thread));
        sink.add(rows(head, threads, schemas).map_err(out_of_range)?)
    })?;
    Ok(series.remarks(&path.to_string_lossy()))
}

/// Passes on the rows of a capture. A series may have too many for memory, even encoded: it is read before.
pub(super) fn read(
    capture: &CaptureFile,
    schemas: &Schemas,
    options: ExportOptions<'_>,
    sink: &mut dyn RowSink,
) -> Result<(), ExportError> {
    let unseen = Arc::default();
    if let Input::Series(_) = capture.part.open(options.limit, &unseen)? {
        each_rows(capture, schemas, ExportOptions { progress: &unseen, ..options }, &mut Check)?;
        sink.pass_through();
    }
    each_rows(capture, schemas, options, sink)?.iter().for_each(|remark| tracing::warn!("{remark}"));
    Ok(())
}

/// The rows of a capture, whose threads have theirs.
fn rows(head: SnapshotHead, threads: ThreadRows<'_, '_>, schemas: &Schemas) -> Result<CaptureRows, OutOfRange> {
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
    let file = fs::metadata(&capture.part.file).ok()?;
    let bytes = file.len();
    if file.is_dir() || bytes > LARGEST_AHEAD / USUAL_RATIO {
        return None;
    }
    let (limit, progress) = (options.limit.min(LARGEST_AHEAD), &Arc::default());
    let mut all = CaptureRows::default();
    let remarks = each_rows(capture, schemas, ExportOptions { limit, progress }, &mut all).ok()?;
    remarks.iter().for_each(|remark| tracing::warn!("{remark}"));
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

/// A sink that collections of threads share.
type SharedSink<'s, 'w> = &'s Mutex<&'w mut (dyn RowSink + 'w)>;

struct ThreadRows<'s, 'w> {
    rows: Rows<'s, ThreadState>,
    census: Census,
    /// Takes the rows of the first threads, and of those appended to them.
    sink: Option<SharedSink<'s, 'w>>,
    passed: Result<(), ExportError>,
}

impl<'s, 'w> ThreadRows<'s, 'w> {
    fn new(identity: &'s Identity, schemas: &'s Schemas, sink: Option<SharedSink<'s, 'w>>) -> Self {
        Self::of(Rows::new(identity, &schemas.threads), sink)
    }

    fn of(rows: Rows<'s, ThreadState>, sink: Option<SharedSink<'s, 'w>>) -> Self {
        Self { rows, census: Census::default(), sink, passed: Ok(()) }
    }

    fn pass_on(&mut self) {
        if let (Some(sink), Ok(blocks), Ok(())) = (self.sink, &mut self.rows.blocks, &self.passed)
            && !blocks.is_empty()
        {
            let threads = std::mem::take(blocks);
            let mut sink = lock(sink);
            self.passed = sink.add([threads, Vec::new(), Vec::new(), Vec::new()]);
        }
    }
}

impl Threads for ThreadRows<'_, '_> {
    fn another(&self) -> Self {
        Self::of(Rows::new(self.rows.identity, self.rows.schema), None)
    }

    fn first(&self) -> Self {
        if let Some(sink) = self.sink {
            lock(sink).restart();
        }
        Self { sink: self.sink, ..self.another() }
    }

    fn add(&mut self, thread: ThreadState) {
        self.census.add(&thread);
        self.rows.add(thread);
        self.pass_on();
    }

    fn append(&mut self, later: Self) {
        self.census.append(later.census);
        self.rows.append(later.rows);
        self.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::inputs;
    use super::*;
    use crate::model::{CaptureInfo, HostContext, SeriesInfo};
    use crate::store::{Keep, SegmentWriter};

    fn capture(second: u64) -> CtprofSnapshot {
        let mut head = SnapshotHead { captured_at_unix_ns: second * 1_000_000_000, ..SnapshotHead::default() };
        let now = Some(head.captured_at_unix_ns);
        head.capture = Some(CaptureInfo { monotonic_ns: now, boottime_ns: now, ..CaptureInfo::default() });
        head.host = Some(HostContext { boot_id: Some("b".to_owned()), ..HostContext::default() });
        (head.series, head.format_version) = (Some(SeriesInfo::default()), Some(3));
        CtprofSnapshot { head, threads: Vec::new() }
    }

    #[test]
    fn a_series_whose_start_was_removed_since_it_was_found_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        for second in 1..4 {
            let keep = Keep::Bytes(1 << 20);
            SegmentWriter::create(dir.path(), keep, 1 << 20, &capture(second)).unwrap().finish().unwrap();
        }
        let part = PathBuf::from(format!("{}@0s..2s", dir.path().display()));
        let (found, _) = inputs::captures(&[part], 1 << 20);
        let steps = || {
            let (mut rows, options) =
                (CaptureRows::default(), ExportOptions { limit: 1 << 20, progress: &Arc::default() });
            read(&found[0], &Schemas::new(), options, &mut rows)?;
            Ok(rows[2].iter().map(|block| block.rows).sum::<usize>())
        };
        assert_eq!(steps().unwrap(), 2);
        std::fs::remove_file(dir.path().join("19700101T000001.000Z-b.segment.ctprof.zst")).unwrap();
        assert!(matches!(steps(), Err(ExportError::Changed(_))));
    }
}
