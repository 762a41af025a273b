//! The export: each file is written whole, with the captures that can be read.

use std::path::{Path, PathBuf};

use super::error::ExportError;
use super::files::{AHEAD, Files, Outcome, Source};
use super::inputs::{self, Capture, Options};
use super::partition::{self, Partition, Parts};
use super::rows::Writing;
use super::schema::{CAPTURES, CGROUPS, Schemas, THREADS};
use super::tree::{Directory, part_name};
use crate::store::PendingFile;

/// Where an export goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// One file with the threads of all captures. Cgroups and captures are left out.
    Threads(PathBuf),
    /// A directory with the datasets `threads`, `cgroups` and `captures`, partitioned by day and host.
    Datasets(PathBuf),
}

impl From<PathBuf> for Output {
    /// A path that ends in `.parquet` is a file.
    fn from(path: PathBuf) -> Self {
        let is_file = path.extension().is_some_and(|extension| extension == "parquet") && !path.is_dir();
        if is_file { Self::Threads(path) } else { Self::Datasets(path) }
    }
}

/// What was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// Number of captures.
    pub captures: u64,
    /// Number of rows in `threads`.
    pub threads: u64,
    /// Number of files.
    pub files: u64,
    /// Number of bytes in these files.
    pub bytes: u64,
    /// Number of inputs that were reported and left out.
    pub failed: u64,
}

/// Exports snapshots and windows, and those in directories. The same input gives the same files.
///
/// An input that cannot be read is passed to `report` and left out; the others are written.
///
/// # Errors
/// [`ExportError`] if the output cannot be written. Files that were written before stay.
pub fn export(
    inputs: &[PathBuf],
    output: &Output,
    options: Options<'_>,
    report: &mut dyn FnMut(&ExportError),
) -> Result<Exported, ExportError> {
    let (captures, failed) = inputs::captures(inputs, options.limit);
    failed.iter().for_each(&mut *report);
    let exported = Exported { failed: u64::try_from(failed.len()).unwrap_or(u64::MAX), ..Exported::default() };
    let mut export = Export { options, report, schemas: Schemas::new(), exported };
    match output {
        Output::Threads(path) => export.write(captures, &Place::File(path), Damaged::LeftOut)?,
        Output::Datasets(path) => {
            let root = Directory::create(path)?;
            for (partition, captures) in partition::partitions(captures) {
                export.write_partition(&root, &partition, captures)?;
            }
        }
    }
    Ok(export.exported)
}

struct Export<'e> {
    options: Options<'e>,
    report: &'e mut dyn FnMut(&ExportError),
    schemas: Schemas,
    exported: Exported,
}

/// What to do if a capture turns out to be damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damaged {
    /// The files are written again without it.
    LeftOut,
    /// Nothing: the other captures are in an existing file, and would then be in two.
    LeavesFile,
}

/// Where the rows of some captures go.
enum Place<'p> {
    File(&'p Path),
    /// The directories of the partition in `threads`, `cgroups` and `captures`.
    Partition([Directory; 3]),
}

impl Place<'_> {
    /// The files of these captures, to open them and to show them.
    fn paths(&self, captures: &[Source]) -> Vec<(PathBuf, PathBuf)> {
        match self {
            Self::File(path) => vec![((*path).to_owned(), (*path).to_owned())],
            Self::Partition(directories) => {
                let name = part_name(captures.iter().map(Source::id));
                directories.iter().map(|directory| (directory.file(&name), directory.shown(&name))).collect()
            }
        }
    }
}

impl Export<'_> {
    fn write_partition(
        &mut self,
        root: &Directory,
        partition: &Partition,
        captures: Vec<Capture>,
    ) -> Result<(), ExportError> {
        let open = |dataset| root.child(dataset)?.child(&partition.date)?.child(&partition.host);
        let directories = [open(THREADS)?, open(CGROUPS)?, open(CAPTURES)?];
        // Threads get their name first: what an interrupted export left is written again.
        let existing = directories[0].exported()?;
        let place = Place::Partition(directories);
        let Parts { again, new } = partition::parts(captures, &existing);
        again.into_iter().try_for_each(|captures| self.write(captures, &place, Damaged::LeavesFile))?;
        self.write(new, &place, Damaged::LeftOut)
    }

    /// Writes the files of some captures.
    fn write(&mut self, captures: Vec<Capture>, place: &Place<'_>, damaged: Damaged) -> Result<(), ExportError> {
        let source = |capture| Source { capture, writing: Writing::AtOnce };
        let mut sources: Vec<Source> = captures.into_iter().map(source).collect();
        while !sources.is_empty() {
            let wanted = sources.len();
            match self.attempt(sources, place)? {
                Some(rest) if rest.len() < wanted && damaged == Damaged::LeavesFile => break,
                Some(rest) => sources = rest,
                None => break,
            }
        }
        Ok(())
    }

    /// Writes the files, if all captures can be read; otherwise returns those to try again.
    fn attempt(&mut self, sources: Vec<Source>, place: &Place<'_>) -> Result<Option<Vec<Source>>, ExportError> {
        let paths = place.paths(&sources);
        let create = |(path, shown): &(PathBuf, PathBuf)| {
            PendingFile::beside(path).map_err(|source| ExportError::output(shown, source))
        };
        let pending = paths.iter().map(create).collect::<Result<Vec<_>, _>>()?;
        let failed = |error| ExportError::output(&paths[0].1, error);
        let mut files = Files::create(&self.schemas, &pending, &sources).map_err(failed)?;
        let count = u64::try_from(sources.len()).unwrap_or(u64::MAX);
        let (mut rest, mut is_whole) = (Vec::new(), true);
        let mut outcomes = Vec::new();
        for together in sources.chunks(AHEAD) {
            outcomes.extend(files.add(together, self.options).map_err(failed)?);
        }
        for (mut source, outcome) in sources.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Written => rest.push(source),
                Outcome::Again => {
                    is_whole = false;
                    source.writing = Writing::AtTheEnd;
                    rest.push(source);
                }
                Outcome::LeftOut(error) => {
                    is_whole = false;
                    (self.report)(&error);
                    self.exported.failed += 1;
                }
            }
        }
        if !is_whole {
            return Ok(Some(rest));
        }
        let (threads, bytes) = files.finish().map_err(failed)?;
        for (file, (path, shown)) in pending.into_iter().zip(&paths) {
            file.publish(path).map_err(|source| ExportError::output(shown, source))?;
            self.exported.files += 1;
        }
        self.exported.captures += count;
        self.exported.threads += threads;
        self.exported.bytes += bytes;
        Ok(None)
    }
}
