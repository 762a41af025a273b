//! Show where every thread's time went, and why.
//!
//! [`capture`](fn@capture) reads the counters of every thread into a [`CtprofSnapshot`], a [`Recorder`](record::Recorder) what
//! happened in a window of time. [`compare`](fn@compare) groups the threads of two of them and lists what changed;
//! [`show`](fn@show) does that for one. [`report`] writes the result.
//!
//! Capture, write and load:
//!
//! ```
//! use ctprof::CtprofSnapshot;
//!
//! let path = std::env::temp_dir().join(format!("{}.ctprof.zst", std::process::id()));
//! let written = ctprof::capture_to(&path)?;
//! let read = CtprofSnapshot::load(&path)?;
//! assert_eq!(read.threads.len(), written.threads.len());
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Record a window of time, of this process:
//!
//! ```
//! use std::time::Duration;
//!
//! use ctprof::capture::{DEFAULT_RING_BYTES, Options};
//! use ctprof::process::Signals;
//! use ctprof::record::{Recorder, Until};
//!
//! // Before other threads start: they inherit the blocked signals.
//! let signals = Signals::for_pause()?;
//! let mut options = Options::default();
//! options.pids = vec![std::process::id()];
//! let mut recorder = Recorder::new(options, 1, DEFAULT_RING_BYTES)?;
//! let open = recorder.open()?;
//! let end = open.wait(&Until::Elapsed(Duration::from_millis(50)), &signals)?;
//! let window = open.close(end)?;
//! assert!(window.threads.iter().any(|thread| thread.tgid == std::process::id()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Compare two captures, and print what changed as a table:
//!
//! ```
//! use ctprof::compare::CompareOptions;
//! use ctprof::report::{DisplayOptions, Terminal, write_table};
//!
//! let earlier = ctprof::capture()?;
//! let later = ctprof::capture()?;
//! let report = ctprof::compare(&earlier, &later, &CompareOptions::default());
//! let mut table = Vec::new();
//! write_table(&mut table, &report, &DisplayOptions::default(), Terminal::default())?;
//! assert!(String::from_utf8(table)?.contains("threads"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Export files for query engines, with the feature `parquet`:
//!
//! ```
//! # #[cfg(feature = "parquet")] {
//! use ctprof::export::{ExportOptions, Output, export};
//!
//! let directory = std::env::temp_dir().join(format!("ctprof-{}", std::process::id()));
//! std::fs::create_dir(&directory)?;
//! let path = directory.join("a.ctprof.zst");
//! ctprof::capture_to(&path)?;
//! let output = Output::Threads(directory.join("threads.parquet"));
//! let options = ExportOptions { limit: 1 << 30, weight: 1.0, progress: &Default::default() };
//! let exported = export(&[path], &output, options, &mut |left_out| eprintln!("{left_out}"))?;
//! assert_eq!((exported.captures, exported.failed), (1, 0));
//! # std::fs::remove_dir_all(&directory)?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | [`model`] | values, tables of metrics, threads, snapshots |
//! | [`capture`](mod@capture) | from the kernel to a snapshot |
//! | [`record`] | windows, one after the other, over a period or while a command runs |
//! | [`store`] | snapshots as files |
//! | [`compare`](mod@compare) | groups of threads and their differences |
//! | [`report`] | output as table, Markdown, CSV, JSON and HTML |
//! | `export` | Parquet files, with the feature `parquet` |
//!
//! All other modules are parts of these. They can change in any version.
//!
//! The feature `cli` has the command line, and with it the page of reports for a browser and an allocator. Without default features, a
//! library needs neither: `ctprof = { version = "0.4", default-features = false }`.

#![cfg_attr(
    not(feature = "cli"),
    allow(dead_code, unused_imports, reason = "the command line alone uses much of them")
)]

pub mod capture;
#[cfg(feature = "cli")]
pub mod cli;
pub mod compare;
pub mod diagnose;
#[cfg(feature = "parquet")]
pub mod export;
pub mod model;
pub mod names;
pub mod process;
pub mod reasons;
pub mod record;
pub mod report;
pub mod series;
pub mod statistics;
pub mod store;
mod sys;
#[cfg(feature = "cli")]
mod top;
pub mod window;

pub use capture::{capture, capture_pid};
pub use compare::{collect_smaps_rollup, compare, show};
pub use model::{CtprofSnapshot, ThreadState};

use std::path::Path;

/// Captures every thread of every process into a file.
///
/// # Errors
/// If the file cannot be written (checked before the capture where possible), or nothing useful can
/// be captured.
pub fn capture_to(path: &Path) -> Result<CtprofSnapshot, CaptureToError> {
    let target = store::OutputTarget::create(path)?;
    let snapshot = capture::capture()?;
    target.write(&snapshot, store::MAX_DECOMPRESSED_SNAPSHOT_BYTES)?;
    Ok(snapshot)
}

/// Why a capture could not be written to a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureToError {
    /// Nothing could be captured.
    #[error(transparent)]
    Capture(#[from] capture::CaptureError),
    /// The file could not be written.
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

#[cfg(test)]
#[path = "../tests/support/skip.rs"]
mod skip;
