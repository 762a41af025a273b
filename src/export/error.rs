//! Errors of exports, with the file that they are about.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::{ENDINGS, StoreError};

/// Why a capture, or a file of the export, could not be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ExportError {
    #[error(transparent)]
    Snapshot(#[from] StoreError),
    #[error("cannot read {}", path.display())]
    Input { path: PathBuf, source: io::Error },
    #[error("{}: {why}", path.display())]
    NoPart { path: PathBuf, why: String },
    /// The input is a pipe, a device or the like.
    #[error("{} is not a regular file; write the snapshot to a file first", .0.display())]
    NotAFile(PathBuf),
    #[error("{} has no snapshots (*{})", .0.display(), ENDINGS.join(", *"))]
    NoSnapshots(PathBuf),
    /// It was replaced or written, or a recorder has removed its first file.
    #[error("{} changed while it was exported; export it again", .0.display())]
    Changed(PathBuf),
    #[error("cannot export {}", path.display())]
    OutOfRange { path: PathBuf, capture: String, source: OutOfRange },
    #[error("cannot export captures with the weight {0}: expected a number above 0")]
    Weight(f64),
    #[error("cannot write {}", path.display())]
    Output { path: PathBuf, source: io::Error },
    /// A directory of the output is a symbolic link, which could lead elsewhere.
    #[error("{} is not a directory (symbolic links are not followed); remove it", .0.display())]
    NotADirectory(PathBuf),
    /// A file of the output whose captures cannot be listed.
    #[error("cannot read which captures are in {}; if it is damaged, remove it and export again; compact files with codec zstd", path.display())]
    Unlisted { path: PathBuf, source: parquet::errors::ParquetError },
    /// The output was written by ctprof 0.3, one directory per host.
    #[error("{} was written by ctprof 0.3, and engines do not read its directories together with new ones; export to another directory (docs/fleet.md has a view of both)", .0.display())]
    OldLayout(PathBuf),
}

/// A number that no INT64 holds: query engines have no larger integers.
#[derive(Debug, thiserror::Error)]
#[error("{column} is {value}, more than the largest BIGINT ({})", i64::MAX)]
pub struct OutOfRange {
    pub(super) column: String,
    pub(super) value: u64,
}

impl ExportError {
    pub(super) fn input(path: &Path, source: io::Error) -> Self {
        Self::Input { path: path.to_owned(), source }
    }

    pub(super) fn output(path: &Path, source: io::Error) -> Self {
        Self::Output { path: path.to_owned(), source }
    }
}

/// The I/O error in an error of the writer.
pub(super) fn io_error(error: parquet::errors::ParquetError) -> io::Error {
    match error {
        parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    }
}
