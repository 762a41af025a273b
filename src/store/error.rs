//! Errors of snapshot files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::model::SERIES_FORMAT_VERSION;
use crate::series::SeriesRange;

/// Why a snapshot could not be read or written, and its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be opened or read.
    #[error("cannot read {}", shown(.0))]
    Read(PathBuf, #[source] io::Error),
    /// The file is not a snapshot that this ctprof reads.
    #[error("{} {}", shown(.0), .1)]
    Refused(PathBuf, SnapshotRefusal),
    /// The zstd frame is damaged.
    #[error("{} is damaged; copy it again or capture a new one", shown(.0))]
    Damaged(PathBuf, #[source] io::Error),
    /// The content is not valid JSON.
    #[error("{} is not a ctprof snapshot (invalid JSON)", shown(.0))]
    NotJson(PathBuf, #[source] serde_json::Error),
    /// A field has a value of the wrong type: the field, the expected and the actual value.
    #[error("cannot parse {}: {}", shown(.0), .1)]
    WrongType(PathBuf, String),
    /// The file is not a series, so it has no parts.
    #[error("{} is not a series; `ctprof record --every` records one", shown(.0))]
    NotASeries(PathBuf),
    /// A series without a step.
    #[error("{} has no step: its recorder has only begun, or ended before the first one", shown(.0))]
    NoStep(PathBuf),
    /// A part of a series without a step: the part, when the series begins and ends, in nanoseconds since 1970, and what the clock showed
    /// at its end.
    #[error("{} has no part {}", shown(.0), no_such_part(.1, *.2))]
    NoSuchPart(PathBuf, SeriesRange, [u64; 3]),
    /// The file cannot be written.
    #[error("cannot write {}", written(.0))]
    Write(PathBuf, #[source] io::Error),
    /// The snapshot has more than readers allow: the maximum, and of what.
    #[error("cannot write {}: more than {} {}; raise --max-snapshot-bytes here and for readers", written(.0), .1, .2)]
    TooLargeToWrite(PathBuf, u64, &'static str),
}

impl StoreError {
    /// Whether the file is right, and does not fit what was asked of it.
    pub fn is_unsuitable(&self) -> bool {
        matches!(self, Self::NotASeries(_) | Self::NoSuchPart(..))
    }
}

/// Why a file is refused, as it follows the name of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotRefusal {
    /// It is something else, or nothing.
    #[error("is not a ctprof snapshot ({0})")]
    NotASnapshot(&'static str),
    /// The file ends early.
    #[error("is truncated; copy it again or capture a new one")]
    Truncated,
    /// A newer ctprof wrote it, in this version of the format.
    #[error("has format version {0}; this ctprof reads versions up to {SERIES_FORMAT_VERSION}. Upgrade ctprof.")]
    NewerFormat(u32),
    /// It exceeds a limit: the maximum, and of what.
    #[error("has more than {0} {1}; if you trust it, raise --max-snapshot-bytes")]
    TooLarge(u64, &'static str),
    /// A text or a name is longer than any that ctprof writes: the maximum in bytes, and what it is.
    #[error("has {1} of more than {0} bytes, which ctprof never writes")]
    TooLong(usize, &'static str),
}

impl SnapshotRefusal {
    pub(super) fn too_large(max: usize, what: &'static str) -> Self {
        Self::TooLarge(u64::try_from(max).unwrap_or(u64::MAX), what)
    }

    /// The names of its threads and what is known of each take more than so many bytes.
    pub(super) fn in_memory(max: usize) -> Self {
        Self::too_large(max, "bytes of threads in memory")
    }

    /// The refusal that ended the reading of a file, if one did.
    pub(super) fn from_io_error(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

fn no_such_part(part: &SeriesRange, [start, end, shown_end]: [u64; 3]) -> String {
    let length = Duration::from_nanos(end.saturating_sub(start));
    let why = if part.is_backwards([start, end]) { "it does not end after it begins" } else { "it has no step" };
    let [begin, end] =
        [start, shown_end].map(|end| format!("{:.1}", Timestamp::from_nanosecond(end.into()).unwrap_or_default()));
    format!("{part}: {why}. The series is from 0s to {length:.1?}, or from {begin} to {end}")
}

/// The name of an input in messages.
fn shown(path: &Path) -> std::path::Display<'_> {
    named(path, "standard input")
}

/// The name of an output in messages.
fn written(path: &Path) -> std::path::Display<'_> {
    named(path, "standard output")
}

fn named<'p>(path: &'p Path, stream: &'static str) -> std::path::Display<'p> {
    let path = if path == Path::new("-") { Path::new(stream) } else { path };
    path.display()
}
