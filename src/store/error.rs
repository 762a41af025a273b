//! Errors of snapshot files.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::FORMAT_VERSION;

/// Why a snapshot could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be opened or read.
    #[error("cannot read {}", shown(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file has no content.
    #[error("{} is not a ctprof snapshot (empty)", shown(.0))]
    Empty(PathBuf),
    /// The file is neither a zstd frame nor a JSON object.
    #[error("{} is not a ctprof snapshot (neither zstd nor a JSON object)", shown(.0))]
    NotZstd(PathBuf),
    /// The file ends early.
    #[error("{} is truncated; copy it again or capture a new one", shown(.0))]
    Truncated(PathBuf),
    /// The zstd frame is damaged.
    #[error("{} is damaged; copy it again or capture a new one", shown(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The JSON is larger than the limit.
    #[error("{} is larger than {limit} bytes uncompressed; if you trust it, raise --max-snapshot-bytes", shown(path))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The snapshot has more threads, or cgroups, than the limit allows.
    #[error("{} has more than {max} {what}; if you trust it, raise --max-snapshot-bytes", shown(path))]
    TooMany {
        /// The file.
        path: PathBuf,
        /// `threads` or `cgroups`.
        what: &'static str,
        /// The maximum number.
        max: usize,
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
        /// The cause.
        source: serde_json::Error,
    },
    /// The content is a JSON object without threads.
    #[error("{} is not a ctprof snapshot (no `threads`)", shown(.0))]
    NoThreads(PathBuf),
    /// A newer ctprof wrote the file.
    #[error(
        "{} has format version {version}; this ctprof reads versions up to {FORMAT_VERSION}. Upgrade ctprof.",
        shown(path)
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        version: u32,
    },
    /// A field has a value of the wrong type.
    #[error("cannot parse {}: {}{reason}", shown(path), prefix(field))]
    WrongType {
        /// The file.
        path: PathBuf,
        /// The field, as a path from the top.
        field: String,
        /// The expected and the actual value.
        reason: String,
    },
    /// The file cannot be written.
    #[error("cannot write {}", written(path))]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The snapshot is larger than the limit.
    #[error(
        "cannot write {}: larger than {limit} bytes uncompressed; \
         raise --max-snapshot-bytes here and for readers",
        written(path)
    )]
    TooLargeToWrite {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The snapshot has more threads, or cgroups, than the limit allows.
    #[error(
        "cannot write {}: more than {max} {what}; \
         raise --max-snapshot-bytes here and for readers",
        written(path)
    )]
    TooManyToWrite {
        /// The file.
        path: PathBuf,
        /// `threads` or `cgroups`.
        what: &'static str,
        /// The maximum number.
        max: usize,
    },
}

/// The field, as a prefix of a message; empty for the whole file.
fn prefix(field: &str) -> String {
    if field == "." { String::new() } else { format!("{field}: ") }
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
