//! The captures to export: files, parts of series, and the snapshots in directories.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use rayon::prelude::*;

use super::ExportError;
use super::identity::Identity;
use crate::model::SnapshotHead;
use crate::model::sorted::Arrange;
use crate::process::Progress;
use crate::store::{Input, PartPath, StoreError, is_recorded, is_snapshot_name};

/// Options of an export: the limit of its inputs, the weight of its captures, and its progress.
#[derive(Clone, Copy, Debug)]
pub struct ExportOptions<'o> {
    /// Maximum size of a snapshot's JSON in bytes.
    pub limit: u64,
    /// How many captures of the fleet each of these stands for.
    pub weight: f64,
    /// Counts the bytes that are read.
    pub progress: &'o Arc<Progress>,
}

/// Maximum size of the JSON of captures that are read at the same time, in bytes. It also limits the number of their threads.
pub(super) const LARGEST_AHEAD: u64 = 4 << 20;

/// A file with a snapshot, a window or a series, or a part of a directory with a series.
#[derive(Clone, Debug)]
pub(super) struct CaptureFile {
    pub(super) part: PartPath,
    pub(super) identity: Arc<Identity>,
    /// State of the files of the capture before it was identified.
    stamps: Vec<FileStamp>,
}

/// Device, inode, size and time of the last change: what stays the same while nobody writes or replaces a file.
type FileStamp = (u64, u64, u64, SystemTime);

/// Finds and identifies all captures, each once, and the errors of captures that cannot be read.
pub(super) fn captures(paths: &[PathBuf], options: ExportOptions<'_>) -> (Vec<CaptureFile>, Vec<ExportError>) {
    let ExportOptions { limit, weight, .. } = options;
    let (mut files, mut failed) = (Vec::new(), Vec::new());
    for path in paths {
        match named(path, &mut failed) {
            Ok(found) => files.extend(found),
            Err(error) => failed.push(error),
        }
    }
    // Files of another layout are held whole: large ones are read one after the other.
    let small: Vec<_> = files.par_iter().map(|file| identify(file, limit.min(LARGEST_AHEAD), weight).ok()).collect();
    let mut captures = Vec::new();
    let mut seen_ids = BTreeSet::new();
    for (part, small) in files.iter().zip(small) {
        match small.map_or_else(|| identify(part, limit, weight), Ok) {
            Ok(Some(capture)) if seen_ids.insert(capture.id().to_owned()) => captures.push(capture),
            Ok(_) => {}
            Err(error) => failed.push(error),
        }
    }
    captures.arrange_by(|a, b| order(a).cmp(&order(b)));
    (captures, failed)
}

/// A total order, so that the same captures give the same bytes.
fn order(capture: &CaptureFile) -> ((Option<&str>, Option<u64>), &str) {
    (capture.identity.order(), capture.id())
}

impl CaptureFile {
    pub(super) fn id(&self) -> &str {
        &self.identity.capture_id
    }

    /// Passes on what was read of the capture, unless that can be of another file than the one that was identified.
    pub(super) fn unless_changed<T>(&self, read: Result<T, ExportError>) -> Result<T, ExportError> {
        match stamps(&self.part) {
            Ok(stamps) if stamps == self.stamps => read,
            Ok(_) => Err(ExportError::Changed(self.part.file.clone())),
            Err(source) => read.and(Err(ExportError::input(&self.part.file, source))),
        }
    }

    /// The day of the capture, as the name of a directory: `date=2026-11-22`, in UTC. Engines show the day of an unknown time as
    /// NULL.
    pub(super) fn date(&self) -> String {
        let day = self.identity.captured_at_unix_ns.map(|ns| {
            let captured = Timestamp::from_nanosecond(ns.into()).expect("64 bits of nanoseconds end in the year 2554");
            captured.strftime("%Y-%m-%d").to_string()
        });
        format!("date={}", day.as_deref().unwrap_or("__HIVE_DEFAULT_PARTITION__"))
    }
}

/// The file, the part of a series, or the snapshots in the directory. Adds the errors of directories in it.
fn named(path: &Path, failed: &mut Vec<ExportError>) -> Result<Vec<PartPath>, ExportError> {
    let part = PartPath::parse(path).map_err(|why| ExportError::NoPart { path: path.to_owned(), why })?;
    let there = fs::metadata(&part.file).map_err(|source| ExportError::input(&part.file, source))?;
    if there.is_file() {
        return Ok(vec![part]);
    }
    if !there.is_dir() {
        return Err(ExportError::NotAFile(part.file));
    }
    if part.range.is_some() {
        let dated = part.dated().map_err(|source| ExportError::input(path, source))?;
        return Ok(vec![dated]);
    }
    let (mut files, failed_before) = (Vec::new(), failed.len());
    walk(path, &mut files, failed);
    if files.is_empty() && failed.len() == failed_before {
        return Err(ExportError::NoSnapshots(path.to_owned()));
    }
    Ok(files.into_iter().map(|file| PartPath { file, range: None }).collect())
}

/// Adds the snapshots in a directory and below it, and the errors of directories that cannot be read. Links to directories are not
/// followed, because they can form cycles.
fn walk(directory: &Path, files: &mut Vec<PathBuf>, failed: &mut Vec<ExportError>) {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.unwrap_or_else(|source| {
        failed.push(ExportError::input(directory, source));
        Vec::new()
    });
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        if entry.file_type().is_ok_and(|found| found.is_dir()) {
            walk(&path, files, failed);
        } else if is_snapshot_name(&name) && path.is_file() {
            files.push(path);
        }
    }
}

/// Identifies a capture; `None` if it is a series that is still recorded, whose steps would be written again by a later call, or one
/// without steps.
fn identify(part: &PartPath, limit: u64, weight: f64) -> Result<Option<CaptureFile>, ExportError> {
    let failed = |source| ExportError::input(&part.file, source);
    let stamps = stamps(part).map_err(failed)?;
    let new = |head: &SnapshotHead| {
        let identity = Identity::new(id(part).map_err(failed)?, head, weight, &part.file).into();
        Ok(Some(CaptureFile { part: part.clone(), identity, stamps }))
    };
    match part.open(limit, &Arc::default())? {
        Input::Series(_) if part.files().map_err(failed)?.iter().any(|file| is_recorded(file)) => {
            tracing::warn!("{}: left out until its recording has ended", part.file.display());
            Ok(None)
        }
        Input::Series(mut series) => match series.begin(&part.range.clone().unwrap_or_default()) {
            // Its recording ended right after the capture with which it begins.
            Err(error @ StoreError::NoStep(_)) if series.loses_nothing(&part.file) => {
                tracing::warn!("{error}");
                series.remarks(&part.file.to_string_lossy()).iter().for_each(|remark| tracing::warn!("{remark}"));
                Ok(None)
            }
            begun => begun.map_err(ExportError::from).and_then(|()| new(series.head())),
        },
        Input::File(mut stored) => new(stored.head()?),
        Input::Directory => Err(ExportError::NotAFile(part.file.clone())),
    }
}

fn stamps(part: &PartPath) -> io::Result<Vec<FileStamp>> {
    let stamp = |file: PathBuf| {
        let found = fs::metadata(file)?;
        Ok((found.dev(), found.ino(), found.len(), found.modified()?))
    };
    part.files()?.into_iter().map(stamp).collect()
}

fn id(part: &PartPath) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    for file in part.files()? {
        hasher.update_reader(File::open(file)?)?;
    }
    let Some(range) = &part.range else { return Ok(hasher.finalize().to_hex().to_string()) };
    // Times count from the start of a directory, which is not that of its files.
    if part.file.is_dir() {
        hasher.update(format!("{:?}", range.since([0; 2])).as_bytes());
    }
    Ok(format!("{}@{range}", hasher.finalize().to_hex()))
}
