//! What can go wrong with a snapshot file.

use std::io;
use std::path::{Path, PathBuf};

/// Why a snapshot could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file can't be opened or read.
    #[error("cannot read {}", shown(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file has no content.
    #[error("cannot read {}: it is empty", shown(.0))]
    Empty(PathBuf),
    /// The file is not a zstd frame.
    #[error("cannot read {}: not a zstd frame, so not a snapshot; ctprof capture -o FILE makes one", shown(.0))]
    NotZstd(PathBuf),
    /// The file ends early.
    #[error("cannot read {}: truncated; copy it again or make a new one", shown(.0))]
    Truncated(PathBuf),
    /// The zstd frame is damaged.
    #[error("cannot decompress {}: damaged; copy it again or make a new one", shown(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file decompresses to more than the limit.
    #[error(
        "cannot read {}: larger than {limit} bytes once decompressed; if you trust it, raise --max-snapshot-bytes",
        shown(path)
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The content is not JSON.
    #[error("cannot parse {}: not JSON at line {line}, column {column}", shown(path))]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Why.
        source: serde_json::Error,
    },
    /// The content is JSON, but no snapshot.
    #[error("cannot parse {}: {field}: {reason}", shown(path))]
    WrongType {
        /// The file.
        path: PathBuf,
        /// The field, as a path from the top.
        field: String,
        /// What was expected and found there.
        reason: String,
    },
    /// The file can't be written.
    #[error("cannot write {}", shown(path))]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The snapshot is larger than the limit.
    #[error(
        "cannot write {}: the snapshot is larger than {limit} bytes, which readers refuse; raise --max-snapshot-bytes here and there",
        shown(path)
    )]
    TooLargeToWrite {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
}

/// A path as messages give it.
fn shown(path: &Path) -> std::path::Display<'_> {
    let stream = if path == Path::new("-") { Path::new("standard input or output") } else { path };
    stream.display()
}
