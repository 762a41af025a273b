//! The files of some captures, while they are written.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::iter;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use parquet::errors::ParquetError;
use rayon::prelude::*;

use super::block::{Block, OutOfRange};
use super::captures::CaptureRow;
use super::cgroups::CgroupRow;
use super::dataset::{BLOCK, Dataset};
use super::error::{ExportError, io_error};
use super::identity::Identity;
use super::inputs::{Capture, Options};
use super::rows::{Failed, Stream, ThreadRows, Writing};
use super::schema::{Schema, Schemas};
use crate::model::CtprofSnapshot;
use crate::process::Progress;
use crate::store::{PendingFile, StoreError, Stored};

/// Number of captures that are read ahead of their turn.
pub(super) const AHEAD: usize = 8;

/// Maximum size of the JSON of a capture that is read ahead, in bytes. It also limits the number of its threads.
const LARGEST_AHEAD: u64 = 4 << 20;

/// Usual size of JSON, by that of its file.
const USUAL_RATIO: u64 = 12;

/// A capture, and how its rows are written.
pub(super) struct Source {
    pub(super) capture: Capture,
    pub(super) writing: Writing,
}

impl Source {
    pub(super) fn id(&self) -> &str {
        &self.capture.identity.capture_id
    }
}

/// What happened to a capture.
pub(super) enum Outcome {
    /// Its rows were added.
    Written,
    /// It cannot be exported. The files are of no use.
    LeftOut(ExportError),
    /// Its rows have to be written after it is read. The files are of no use.
    Again,
}

type Out<'f> = Dataset<BufWriter<&'f File>>;

/// The datasets of some captures.
pub(super) struct Files<'f> {
    schemas: &'f Schemas,
    threads: Mutex<Out<'f>>,
    /// `cgroups` and `captures`; `None` for a file of threads.
    others: Option<[Out<'f>; 2]>,
}

impl<'f> Files<'f> {
    /// Starts files: that of threads, and perhaps those of cgroups and captures.
    pub(super) fn create(schemas: &'f Schemas, files: &'f [PendingFile], sources: &[Source]) -> io::Result<Self> {
        let create = |file: &'f PendingFile, columns: Vec<_>| {
            let out = BufWriter::with_capacity(1 << 20, file.file());
            Dataset::create(out, &columns, sources.iter().map(Source::id)).map_err(io_error)
        };
        let [threads, others @ ..] = files else { return Err(io::ErrorKind::InvalidInput.into()) };
        let others = match others {
            [cgroups, captures] => {
                Some([create(cgroups, schemas.cgroups.docs())?, create(captures, schemas.captures.docs())?])
            }
            _ => None,
        };
        Ok(Self { schemas, threads: Mutex::new(create(threads, schemas.threads.docs())?), others })
    }

    /// Adds the rows of captures, in their order. Small ones are read ahead, all at once.
    ///
    /// # Errors
    /// Errors of the output.
    pub(super) fn add(&mut self, sources: &[Source], options: Options<'_>) -> io::Result<Vec<Outcome>> {
        let Self { schemas, threads, others } = self;
        let (schemas, threads) = (*schemas, &*threads);
        let stream = |at: usize, writing| Stream {
            identity: &sources[at].capture.identity,
            schema: &schemas.threads,
            writing,
            out: threads,
            has_written: AtomicBool::new(false),
        };
        let streams: Vec<_> = (0..sources.len()).map(|at| stream(at, Writing::AtTheEnd)).collect();
        let ahead = sources.par_iter().zip(&streams).map(|(source, stream)| read_ahead(source, stream, options));
        let mut outcomes = Vec::new();
        for (at, ahead) in ahead.collect::<Vec<_>>().into_iter().enumerate() {
            let (source, stream) = (&sources[at], stream(at, sources[at].writing));
            let added = match ahead.map_or_else(|| read(source, &stream, options), Ok) {
                Ok(read) => add_rows(read, others.as_mut(), schemas, &source.capture.identity),
                Err(error) => Err(Failed::Input(error)),
            };
            outcomes.push(match added {
                Ok(()) => Outcome::Written,
                Err(Failed::Input(error)) => Outcome::LeftOut(error.into()),
                Err(Failed::OutOfRange(error)) => {
                    Outcome::LeftOut(ExportError::out_of_range(&source.capture.path, error))
                }
                Err(Failed::ReadAgain) => Outcome::Again,
                Err(Failed::Output(error)) => return Err(io_error(error)),
            });
        }
        Ok(outcomes)
    }

    /// Ends the files, and returns the number of threads and of bytes.
    pub(super) fn finish(self) -> io::Result<(u64, u64)> {
        let threads = self.threads.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (threads, mut bytes) = threads.finish().and_then(flushed).map_err(io_error)?;
        for other in self.others.into_iter().flatten() {
            bytes += other.finish().and_then(flushed).map_err(io_error)?.1;
        }
        Ok((threads, bytes))
    }
}

/// A snapshot without threads, and these as rows.
type Read<'s, 'f> = (CtprofSnapshot, ThreadRows<'s, BufWriter<&'f File>>);
type Threads<'s, 'f> = Stream<'s, BufWriter<&'f File>>;

fn read<'s, 'f>(
    source: &Source,
    stream: &'s Threads<'s, 'f>,
    Options { limit, progress }: Options<'_>,
) -> Result<Read<'s, 'f>, StoreError> {
    Stored::open(&source.capture.path, limit)?.load_into(&ThreadRows::new(stream), progress)
}

/// Reads a capture, if it is small; `None` also after an error, which is found again when it is read in its turn.
fn read_ahead<'s, 'f>(source: &Source, stream: &'s Threads<'s, 'f>, options: Options<'_>) -> Option<Read<'s, 'f>> {
    let bytes = fs::metadata(&source.capture.path).ok()?.len();
    if bytes > LARGEST_AHEAD / USUAL_RATIO {
        return None;
    }
    let (limit, progress) = (options.limit.min(LARGEST_AHEAD), &Progress::default());
    let read = read(source, stream, Options { limit, progress }).ok()?;
    options.progress.announce(bytes);
    options.progress.advance(bytes);
    Some(read)
}

/// Adds the rows of a capture, that of threads first.
fn add_rows(
    (snapshot, rows): Read<'_, '_>,
    others: Option<&mut [Out<'_>; 2]>,
    schemas: &Schemas,
    identity: &Identity,
) -> Result<(), Failed> {
    let census = rows.finish()?;
    let Some([cgroups, captures]) = others else { return Ok(()) };
    let rows = snapshot.cgroup_stats.iter().map(|(path, stats)| CgroupRow::new(path.clone(), stats));
    push(cgroups, identity, &schemas.cgroups, rows)?;
    push(captures, identity, &schemas.captures, [CaptureRow::new(snapshot, census)].into_iter())
}

/// The number of rows and of bytes of a file that was written.
fn flushed((out, rows): (BufWriter<&File>, u64)) -> Result<(u64, u64), ParquetError> {
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok((rows, file.metadata()?.len()))
}

/// Adds rows to a dataset.
fn push<R>(
    out: &mut Out<'_>,
    identity: &Identity,
    schema: &Schema<R>,
    mut rows: impl Iterator<Item = R>,
) -> Result<(), Failed> {
    loop {
        let mut block = Block::new(&schema.types);
        for row in rows.by_ref().take(BLOCK) {
            let pushed = block.push((identity, &schema.identity), (&row, &schema.columns), iter::repeat(true));
            pushed.map_err(|error: OutOfRange| Failed::OutOfRange(error))?;
        }
        if block.rows == 0 {
            return Ok(());
        }
        out.push(block).map_err(Failed::Output)?;
    }
}
