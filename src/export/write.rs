//! The export: each file is written whole, with the captures that can be read.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{
    CaptureFile, CaptureRows, DATASETS, Dataset, Directory, ExportError, ExportOptions, Partition, RowSink, Schemas,
    inputs, io_error, part_name, partition, rows,
};
use crate::store::{OutputPlace, PendingFile};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// One file with the threads of all captures. The other datasets are left out.
    Threads(PathBuf),
    /// A directory with the datasets `threads`, `cgroups`, `captures` and `reasons`, partitioned by day and host.
    Datasets(PathBuf),
}

impl From<PathBuf> for Output {
    /// A path that ends in `.parquet` is a file.
    fn from(path: PathBuf) -> Self {
        let is_file = path.extension().is_some_and(|extension| extension == "parquet") && !path.is_dir();
        if is_file { Self::Threads(path) } else { Self::Datasets(path) }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub captures: u64,
    /// Number of rows in `threads`.
    pub threads: u64,
    pub files: u64,
    pub bytes: u64,
    /// Number of inputs that were reported and left out.
    pub failed: u64,
}

/// Exports snapshots and windows, and those in directories. The same input gives the same files.
///
/// An input that cannot be read is passed to `report` and left out; the others are written. If the output cannot be written,
/// files that were written before stay.
pub fn export(
    inputs: &[PathBuf],
    output: &Output,
    options: ExportOptions<'_>,
    report: &mut dyn FnMut(ExportError),
) -> Result<Exported, ExportError> {
    let (captures, failed) = inputs::captures(inputs, options.limit);
    let exported = Exported { failed: u64::try_from(failed.len()).unwrap_or(u64::MAX), ..Exported::default() };
    failed.into_iter().for_each(&mut *report);
    let mut export = DatasetExport { options, report, schemas: Schemas::new(), exported };
    match output {
        Output::Threads(path) => {
            let target = OutputPlace::of(path).map_err(|source| ExportError::output(path, source))?;
            let name = |_: &[&str]| target.name.clone();
            export.write(&captures, &Destination { directories: vec![(&target.directory, path)], name: &name }, 1)?;
        }
        Output::Datasets(path) => {
            let root = Directory::create(path)?;
            for (partition, captures) in partition::partitions(captures) {
                export.write_partition(&root, &partition, captures)?;
            }
        }
    }
    Ok(export.exported)
}

struct DatasetExport<'e> {
    options: ExportOptions<'e>,
    report: &'e mut dyn FnMut(ExportError),
    schemas: Schemas,
    exported: Exported,
}

/// Number of captures that are read ahead of their turn.
const AHEAD: usize = 8;

/// Where the rows of some captures go.
struct Destination<'d> {
    /// The directory of each file, and the path for messages.
    directories: Vec<(&'d OwnedFd, &'d Path)>,
    /// The name of the files with these captures.
    name: &'d dyn Fn(&[&str]) -> OsString,
}

impl DatasetExport<'_> {
    fn write_partition(
        &mut self,
        root: &Directory,
        partition: &Partition,
        captures: Vec<CaptureFile>,
    ) -> Result<(), ExportError> {
        let open = |dataset| root.child(dataset)?.child(&partition.date)?.child(&partition.host);
        let directories = DATASETS.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        // Threads get their name first: what an interrupted export left is written again.
        let existing = directories[0].exported()?;
        let name = |captures: &[&str]| part_name(captures).into();
        let directories = directories.iter().map(|directory| (&directory.fd, &*directory.path)).collect();
        let destination = Destination { directories, name: &name };
        let (again, new) = partition::parts(captures, &existing);
        again.iter().try_for_each(|captures| self.write(captures, &destination, captures.len()))?;
        self.write(&new, &destination, 1)
    }

    /// Writes the files of the captures that can be read, if there are at least so many. An existing file is replaced with
    /// all of its captures only: new ones get a file of their own, and the old one would keep those left out.
    fn write(&mut self, captures: &[CaptureFile], to: &Destination<'_>, at_least: usize) -> Result<(), ExportError> {
        let shown = to.directories[0].1;
        let failed = |source| ExportError::output(shown, source);
        // Files get their names when they are whole, because these depend on the captures.
        let pending = to.directories.iter().map(|(directory, _)| PendingFile::within(directory.try_clone()?));
        let pending = pending.collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let columns = self.schemas.docs();
        let buffered = pending.iter().map(|file| BufWriter::with_capacity(1 << 20, file.file()));
        let files = buffered.zip(&columns).map(|(file, columns)| Dataset::create(file, columns).map_err(io_error));
        let mut files = files.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let written = self.add(captures, &mut files, shown)?;
        if written.len() < at_least {
            return Ok(());
        }
        let mut rows = Vec::new();
        for file in files {
            let (count, bytes) = file.finish(&written).and_then(flushed).map_err(io_error).map_err(failed)?;
            rows.push(count);
            self.exported.bytes += bytes;
        }
        let name = (to.name)(&written);
        for (file, (_, shown)) in pending.into_iter().zip(&to.directories) {
            file.publish(&name).map_err(|source| ExportError::output(shown, source))?;
            self.exported.files += 1;
        }
        self.exported.captures += u64::try_from(written.len()).unwrap_or(u64::MAX);
        self.exported.threads += rows[0];
        Ok(())
    }

    /// Adds the rows of those captures that can be read, in their order, and returns their ids.
    fn add<'c>(
        &mut self,
        captures: &'c [CaptureFile],
        files: &mut [OpenFile<'_>],
        shown: &Path,
    ) -> Result<Vec<&'c str>, ExportError> {
        let mut written = Vec::new();
        for together in captures.chunks(AHEAD) {
            let (schemas, options) = (&self.schemas, self.options);
            let ahead: Vec<_> = together.par_iter().map(|one| rows::read_ahead(one, schemas, options)).collect();
            for (capture, ahead) in together.iter().zip(ahead) {
                let mut writer = CaptureWriter { files, shown, rows: WrittenRows::default() };
                let added = match ahead {
                    Some(rows) => writer.push(rows),
                    None => rows::read(capture, schemas, options, &mut writer),
                };
                match added.and_then(|()| writer.finish()) {
                    Ok(()) => written.push(&*capture.identity.capture_id),
                    Err(error @ ExportError::Output { .. }) => return Err(error),
                    Err(error) if writer.cannot_be_left_out() => return Err(error),
                    Err(error) => {
                        writer.restart();
                        (self.report)(error);
                        self.exported.failed += 1;
                    }
                }
            }
        }
        Ok(written)
    }
}

/// Rows of a capture that wait until all of it has been read. Those of a larger one are held in their encoded form.
const WAITING: usize = 8 * 1024;

/// Writes the rows of a capture if all of it can be read: no file has half a capture.
struct CaptureWriter<'w, 'f> {
    files: &'w mut [OpenFile<'f>],
    shown: &'w Path,
    rows: WrittenRows,
}

/// Where the rows of a capture are before they are written.
enum WrittenRows {
    Waiting(CaptureRows),
    Held,
    /// In the files: so many blocks of a series, all of which could be read before.
    Passed(usize),
}

impl Default for WrittenRows {
    fn default() -> Self {
        Self::Waiting(CaptureRows::default())
    }
}

impl<'f> CaptureWriter<'_, 'f> {
    fn each(
        &mut self,
        mut act: impl FnMut(&mut OpenFile<'f>) -> parquet::errors::Result<()>,
    ) -> Result<(), ExportError> {
        self.files.iter_mut().try_for_each(&mut act).map_err(|error| ExportError::output(self.shown, io_error(error)))
    }

    fn push(&mut self, rows: CaptureRows) -> Result<(), ExportError> {
        let mut rows = rows.into_iter();
        self.each(|file| rows.next().into_iter().flatten().try_for_each(|block| file.push(block)))
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        match std::mem::take(&mut self.rows) {
            WrittenRows::Waiting(rows) => self.push(rows),
            WrittenRows::Held => self.each(Dataset::keep),
            WrittenRows::Passed(_) => Ok(()),
        }
    }

    /// Whether the files have a part of a capture that cannot be read to its end any more.
    fn cannot_be_left_out(&self) -> bool {
        matches!(self.rows, WrittenRows::Passed(1..))
    }
}

impl RowSink for CaptureWriter<'_, '_> {
    fn add(&mut self, rows: CaptureRows) -> Result<(), ExportError> {
        let waiting = match &mut self.rows {
            WrittenRows::Waiting(waiting) => waiting,
            WrittenRows::Held => return self.push(rows),
            WrittenRows::Passed(blocks) => {
                *blocks += rows.iter().map(Vec::len).sum::<usize>();
                return self.push(rows);
            }
        };
        waiting.add(rows)?;
        if waiting.iter().flatten().map(|block| block.rows).sum::<usize>() <= WAITING {
            return Ok(());
        }
        let waiting = std::mem::take(waiting);
        self.each(Dataset::hold)?;
        self.rows = WrittenRows::Held;
        self.push(waiting)
    }

    fn restart(&mut self) {
        if let WrittenRows::Held = std::mem::take(&mut self.rows) {
            self.files.iter_mut().for_each(Dataset::discard);
        }
    }

    fn pass_through(&mut self) {
        self.rows = WrittenRows::Passed(0);
    }
}

type OpenFile<'f> = Dataset<BufWriter<&'f File>>;

/// The number of rows and of bytes of a file that was written.
fn flushed((out, rows): (BufWriter<&File>, u64)) -> parquet::errors::Result<(u64, u64)> {
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok((rows, file.metadata()?.len()))
}

#[cfg(test)]
mod tests {
    use super::super::Block;
    use super::super::identity::Identity;
    use super::*;
    use crate::model::{SnapshotHead, ThreadState};

    #[test]
    fn a_capture_can_be_left_out_until_its_rows_are_in_the_files() {
        let (schemas, identity) = (Schemas::new(), Identity::new("id".to_owned(), &SnapshotHead::default()));
        let threads = |number: usize| -> CaptureRows {
            let blocks =
                (0..number).map(|_| Block::new(&schemas.threads, &identity, &[ThreadState::default()]).unwrap());
            [blocks.collect(), Vec::new(), Vec::new(), Vec::new()]
        };
        let file = tempfile::tempfile().unwrap();
        let written = |number, passes_through: &[()]| {
            let mut files = [Dataset::create(BufWriter::new(&file), &schemas.docs()[0]).unwrap()];
            let mut writer = CaptureWriter { files: &mut files, shown: Path::new("f"), rows: WrittenRows::default() };
            passes_through.iter().for_each(|()| writer.pass_through());
            writer.add(threads(number)).unwrap();
            let is_whole_only = writer.cannot_be_left_out();
            writer.restart();
            writer.add(threads(1)).unwrap();
            writer.finish().unwrap();
            (is_whole_only, files.into_iter().next().unwrap().finish(&[]).unwrap().1)
        };
        assert_eq!(written(2, &[]), (false, 1));
        assert_eq!(written(WAITING + 1, &[]), (false, 1));
        assert_eq!(written(0, &[()]), (false, 1));
        assert_eq!(written(2, &[()]), (true, 3));
    }
}
