//! The files of some captures, while they are written.

use std::fs::File;
use std::io::{self, BufWriter};

use parquet::errors::ParquetError;

use super::block::{Block, OutOfRange};
use super::captures::CaptureRow;
use super::cgroups::CgroupRow;
use super::dataset::{BLOCK, Dataset};
use super::error::{ExportError, io_error};
use super::identity::Identity;
use super::inputs::{Capture, Options};
use super::rows::{Failed, Stream, ThreadRows, Writing};
use super::schema::{Schema, Schemas};
use crate::model::{Census, CtprofSnapshot};
use crate::store::{PendingFile, Stored};

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
    threads: Out<'f>,
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
        Ok(Self { schemas, threads: create(threads, schemas.threads.docs())?, others })
    }

    /// Adds the rows of a capture.
    ///
    /// # Errors
    /// Errors of the output.
    pub(super) fn add(&mut self, source: &Source, options: Options<'_>) -> io::Result<Outcome> {
        let Capture { path, identity } = &source.capture;
        let stream = Stream::new(identity, &self.schemas.threads, source.writing, &mut self.threads);
        let stored = Stored::open(path, options.limit);
        let read = stored.and_then(|stored| stored.load_into(&ThreadRows::new(&stream), options.progress));
        let (snapshot, rows) = match read {
            Ok(read) => read,
            Err(error) => return Ok(Outcome::LeftOut(error.into())),
        };
        let added = match rows.finish() {
            Ok(census) => self.add_others(identity, snapshot, census),
            Err(failed) => Err(failed),
        };
        match added {
            Ok(()) => Ok(Outcome::Written),
            Err(Failed::OutOfRange(error)) => Ok(Outcome::LeftOut(ExportError::out_of_range(path, error))),
            Err(Failed::ReadAgain) => Ok(Outcome::Again),
            Err(Failed::Output(error)) => Err(io_error(error)),
        }
    }

    /// Adds the rows of a capture that are not threads.
    fn add_others(&mut self, identity: &Identity, snapshot: CtprofSnapshot, census: Census) -> Result<(), Failed> {
        let Some([cgroups, captures]) = &mut self.others else { return Ok(()) };
        let rows = snapshot.cgroup_stats.iter().map(|(path, stats)| CgroupRow::new(path.clone(), stats));
        push(cgroups, identity, &self.schemas.cgroups, rows)?;
        push(captures, identity, &self.schemas.captures, [CaptureRow::new(snapshot, census)].into_iter())
    }

    /// Ends the files, and returns the number of threads and of bytes.
    pub(super) fn finish(self) -> io::Result<(u64, u64)> {
        let (threads, mut bytes) = self.threads.finish().and_then(flushed).map_err(io_error)?;
        for other in self.others.into_iter().flatten() {
            bytes += other.finish().and_then(flushed).map_err(io_error)?.1;
        }
        Ok((threads, bytes))
    }
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
            let pushed = block.push((identity, &schema.identity), (&row, &schema.columns));
            pushed.map_err(|error: OutOfRange| Failed::OutOfRange(error))?;
        }
        if block.rows == 0 {
            return Ok(());
        }
        out.push(block).map_err(Failed::Output)?;
    }
}
