//! The export: one file per dataset and day, with the captures that can be read.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::captures::CaptureRow;
use super::cgroups::CgroupRow;
use super::identity::{StepTime, id_of_file};
use super::reasons::ReasonRow;
use super::{
    Begins, CaptureFile, CaptureRows, DatasetFile, Day, Directory, ExportError, ExportOptions, OtherRows, Schemas,
    inputs, part_name, rows,
};
use crate::model::ThreadState;
use crate::store::{ExportLock, OutputPlace, PendingFile};

/// Where an export goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A single file with the threads of all captures, without the other datasets.
    Threads(PathBuf),
    /// A directory with the datasets `threads`, `cgroups`, `reasons` and `captures`, partitioned by day.
    Datasets(PathBuf),
}

impl From<PathBuf> for Output {
    /// A path that ends in `.parquet` is a file.
    fn from(path: PathBuf) -> Self {
        let is_file = path.extension().is_some_and(|extension| extension == "parquet") && !path.is_dir();
        if is_file { Self::Threads(path) } else { Self::Datasets(path) }
    }
}

/// Numbers of what an export wrote and left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Number of captures that were written.
    pub captures: u64,
    /// Number of captures that the directory had before.
    pub already_present: u64,
    /// Number of rows in `threads`.
    pub threads: u64,
    /// Number of files that were written.
    pub files: u64,
    /// Size of the files together.
    pub bytes: u64,
    /// Number of inputs that were reported and left out.
    pub failed: u64,
}

/// Exports snapshots, windows and series, and those in directories. The same input gives the same files. A directory has each capture
/// once, whatever is exported again, and whenever an export ended early.
///
/// An input that cannot be read is passed to `report` and left out; the others are written. If the output cannot be written,
/// the days that were written before stay.
pub fn export(
    inputs: &[PathBuf],
    output: &Output,
    options: ExportOptions<'_>,
    report: &mut dyn FnMut(ExportError),
) -> Result<Exported, ExportError> {
    if !(options.weight.is_finite() && options.weight > 0.0) {
        return Err(ExportError::Weight(options.weight));
    }
    let (captures, failed) = inputs::captures(inputs, options);
    let exported = Exported { failed: number(failed.len()), ..Exported::default() };
    failed.into_iter().for_each(&mut *report);
    let (left_out, steps, is_checked) = Default::default();
    let mut export = Export { options, report, schemas: &Schemas::new(), exported, left_out, steps, is_checked };
    match output {
        Output::Threads(path) => {
            let place = OutputPlace::from_path(path).map_err(|source| ExportError::output(path, source))?;
            export.write(&captures, &[(&place.directory, path)], &|_| place.name.clone(), &mut |_| Ok(()))?;
        }
        Output::Datasets(path) => {
            let root = Directory::create(path)?;
            let _lock = ExportLock::wait_for(&root.fd).map_err(|source| ExportError::output(path, source))?;
            root.refuse_old_layout()?;
            let mut days = BTreeMap::<_, Vec<_>>::new();
            captures.into_iter().for_each(|capture| days.entry(capture.date()).or_default().push(capture));
            days.into_iter().try_for_each(|(date, captures)| export.write_day(&root, &date, captures))?;
        }
    }
    Ok(export.exported)
}

struct Export<'e> {
    options: ExportOptions<'e>,
    report: &'e mut dyn FnMut(ExportError),
    schemas: &'e Schemas,
    exported: Exported,
    /// The ids of captures that cannot be read.
    left_out: BTreeSet<String>,
    /// The steps that the day which is written had before, as far as these captures can have them.
    steps: BTreeSet<StepTime>,
    /// Whether captures are read to their end before their rows go to the files.
    is_checked: bool,
}

/// Number of captures that are read ahead of their turn.
const AHEAD: usize = 8;

/// Why files are not complete.
enum Incomplete {
    Failed(ExportError),
    /// They have a part of a capture that is left out: they are written again without it.
    HasPart,
}

impl From<ExportError> for Incomplete {
    fn from(error: ExportError) -> Self {
        Self::Failed(error)
    }
}

impl Export<'_> {
    fn write_day(&mut self, root: &Directory, date: &str, captures: Vec<CaptureFile>) -> Result<(), ExportError> {
        let day = Day::open(root, date)?;
        let weights = day.recover()?;
        let (there, new): (Vec<_>, Vec<_>) =
            captures.into_iter().partition(|capture| weights.contains_key(capture.id()));
        self.exported.already_present += number(there.len());
        let weight = self.options.weight;
        let others = there.iter().filter(|capture| weights[capture.id()] != weight).count();
        if others > 0 {
            tracing::warn!(
                "{date}: captures that were exported with another weight than {weight} keep it ({others} of them); export to a new directory to change it"
            );
        }
        let mut begins = Begins::new();
        for CaptureFile { identity, .. } in &new {
            let first = begins.entry(identity.host.clone()).or_insert(u64::MAX);
            *first = identity.microseconds().min(*first);
        }
        self.steps = if new.is_empty() { BTreeSet::new() } else { day.steps(&begins)? };
        let places: Vec<_> = day.0.iter().map(|directory| (&directory.fd, &*directory.path)).collect();
        // What lasts of `captures` must not come before what lasts of the others.
        let mut named = |number: usize| day.0[number].sync();
        self.write(&new, &places, &|captures| part_name(captures).into(), &mut named)
    }

    /// Writes the files of the captures that can be read: threads only if there is one place, else all datasets. Files get their
    /// name when they are whole, because it depends on the captures. `named` is called with the place of each named file.
    fn write(
        &mut self,
        captures: &[CaptureFile],
        places: &[(&OwnedFd, &Path)],
        name: &dyn Fn(&[&str]) -> OsString,
        named: &mut dyn FnMut(usize) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let (written, pending) = loop {
            let failed = |source| ExportError::output(places[0].1, source);
            let pending = places.iter().map(|(directory, _)| PendingFile::within(directory.try_clone()?));
            let pending = pending.collect::<io::Result<Vec<_>>>().map_err(failed)?;
            match self.fill(captures, &pending, places) {
                Ok((written, threads)) => {
                    self.exported.threads += threads;
                    break (written, pending);
                }
                Err(Incomplete::HasPart) => self.is_checked = true,
                Err(Incomplete::Failed(error)) => return Err(error),
            }
        };
        self.exported.already_present += number(self.chosen(captures).count() - written.len());
        if written.is_empty() {
            return Ok(());
        }
        let name = name(&written);
        self.exported.captures += number(written.len());
        for (at, (file, (_, shown))) in pending.into_iter().zip(places).enumerate() {
            self.exported.bytes += self.publish(file, &name).map_err(|source| ExportError::output(shown, source))?;
            named(at)?;
        }
        Ok(())
    }

    fn publish(&mut self, file: PendingFile, name: &OsStr) -> io::Result<u64> {
        let bytes = file.file().metadata()?.len();
        file.publish(name)?;
        self.exported.files += 1;
        Ok(bytes)
    }

    fn chosen<'c>(&self, captures: &'c [CaptureFile]) -> impl Iterator<Item = &'c CaptureFile> {
        captures.iter().filter(|capture| !self.left_out.contains(capture.id()))
    }

    /// Writes the rows of all captures that can be read, in their order, but no step twice. Returns the ids of the captures that
    /// have rows and the number of threads.
    fn fill<'c>(
        &mut self,
        captures: &'c [CaptureFile],
        pending: &[PendingFile],
        places: &[(&OwnedFd, &Path)],
    ) -> Result<(Vec<&'c str>, u64), Incomplete> {
        let mut written = Vec::new();
        let mut files = DayFiles::create(self.schemas, pending, places)?;
        let mut steps = self.steps.clone();
        let chosen: Vec<_> = self.chosen(captures).collect();
        let mut following = chosen.iter().skip(1);
        for together in chosen.chunks(AHEAD) {
            let options = self.options;
            let ahead: Vec<_> = together.par_iter().map(|capture| rows::read_ahead(capture, options)).collect();
            for (capture, ahead) in together.iter().zip(ahead) {
                let mut has_part = false;
                // Captures are sorted by their hosts and times.
                let next = following.next().map(|next| &next.identity);
                let comes_again = |step: &StepTime| {
                    next.is_some_and(|next| next.host == step.host && next.microseconds() < step.time)
                };
                let added = self.add(capture, ahead, &mut |rows: CaptureRows| {
                    let step = rows.identity.step_time();
                    if step.as_ref().is_some_and(|step| steps.contains(step)) {
                        return Ok(());
                    }
                    // A step whose rows are not all here yet is not there.
                    steps.extend(step.filter(|step| rows.rest.is_some() && comes_again(step)));
                    has_part = true;
                    files.add(rows)
                });
                match added {
                    Ok(()) if !has_part => {}
                    Ok(()) => written.push(capture.id()),
                    Err(error) => self.leave_out(capture, error, has_part)?,
                }
            }
        }
        match files.finish() {
            Ok(threads) => Ok((written, threads)),
            Err(error) => match captures.last() {
                Some(capture) => self.leave_out(capture, error, true).map(|()| (written, 0)),
                None => Err(error.into()),
            },
        }
    }

    /// Passes on the rows of a capture.
    fn add(
        &self,
        capture: &CaptureFile,
        ahead: Option<CaptureRows>,
        sink: &mut dyn rows::RowSink,
    ) -> Result<(), ExportError> {
        let schemas = self.schemas;
        if let Some(rows) = ahead {
            if self.is_checked {
                rows.check(schemas)?;
            }
            return sink(rows);
        }
        if self.is_checked {
            rows::read(capture, self.options, &mut |rows| rows.check(schemas))?;
        }
        rows::read(capture, self.options, sink)?.iter().for_each(|remark| tracing::warn!("{remark}"));
        Ok(())
    }

    /// Reports a capture that cannot be read, unless the output is at fault. A number that is out of range can be of an earlier one.
    fn leave_out(&mut self, capture: &CaptureFile, error: ExportError, has_part: bool) -> Result<(), Incomplete> {
        let id = match &error {
            ExportError::Output { .. } => return Err(error.into()),
            ExportError::OutOfRange { capture, .. } => capture.clone(),
            _ => id_of_file(&capture.identity.capture_id).to_owned(),
        };
        if self.left_out.insert(id) {
            (self.report)(error);
            self.exported.failed += 1;
        }
        if has_part { Err(Incomplete::HasPart) } else { Ok(()) }
    }
}

/// The files of the datasets while they are written.
struct DayFiles<'f> {
    threads: DatasetFile<'f, ThreadState>,
    others: Option<OtherFiles<'f>>,
}

struct OtherFiles<'f> {
    cgroups: DatasetFile<'f, CgroupRow>,
    reasons: DatasetFile<'f, ReasonRow>,
    captures: DatasetFile<'f, CaptureRow>,
}

impl<'f> DayFiles<'f> {
    fn create(
        schemas: &'f Schemas,
        pending: &'f [PendingFile],
        places: &[(&OwnedFd, &Path)],
    ) -> Result<Self, ExportError> {
        let others = match (pending, places) {
            ([_, cgroups, reasons, captures], [_, of_cgroups, of_reasons, of_captures]) => Some(OtherFiles {
                cgroups: DatasetFile::create(cgroups.file(), of_cgroups.1, &schemas.cgroups)?,
                reasons: DatasetFile::create(reasons.file(), of_reasons.1, &schemas.reasons)?,
                captures: DatasetFile::create(captures.file(), of_captures.1, &schemas.captures)?,
            }),
            _ => None,
        };
        Ok(Self { threads: DatasetFile::create(pending[0].file(), places[0].1, &schemas.threads)?, others })
    }

    fn add(&mut self, CaptureRows { identity, threads, rest }: CaptureRows) -> Result<(), ExportError> {
        self.threads.push(&identity, threads)?;
        let (Some(files), Some(OtherRows { cgroups, reasons, capture })) = (&mut self.others, rest) else {
            return Ok(());
        };
        files.cgroups.push(&identity, cgroups)?;
        files.reasons.push(&identity, reasons)?;
        files.captures.push(&identity, [capture])
    }

    /// Ends the files, and returns the number of rows of threads.
    fn finish(self) -> Result<u64, ExportError> {
        if let Some(OtherFiles { cgroups, reasons, captures }) = self.others {
            cgroups.finish()?;
            reasons.finish()?;
            captures.finish()?;
        }
        self.threads.finish()
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
