//! Show where every thread's time went, and why.
//!
//! [`capture`](fn@capture) reads the counters of every thread into a [`CtprofSnapshot`].
//! [`compare`](fn@compare) groups the threads of two snapshots and lists what changed.
//!
//! ```no_run
//! let before = ctprof::capture()?;
//! // ... the work to be examined ...
//! let after = ctprof::capture()?;
//! let comparison = ctprof::compare(&before, &after, &ctprof::compare::CompareOptions::default());
//! println!("{} sections", comparison.sections.len());
//! # Ok::<(), ctprof::capture::CaptureError>(())
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | [`model`] | values, tables of metrics, threads, snapshots |
//! | [`capture`](mod@capture) | from the kernel to a snapshot |
//! | [`store`] | snapshots as files |
//! | [`record`] | windows, one after the other, over a period or while a command runs |
//! | [`compare`](mod@compare) | groups of threads and their differences |
//! | [`report`] | output as table, Markdown, CSV, JSON and HTML |
//!
//! Modules that this page does not show are public only for the tests and benchmarks of ctprof.

pub mod capture;
#[doc(hidden)]
pub mod cli;
pub mod compare;
#[doc(hidden)]
pub mod diagnose;
#[cfg(feature = "parquet")]
#[doc(hidden)]
pub mod export;
pub mod model;
#[doc(hidden)]
pub mod names;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod reasons;
pub mod record;
pub mod report;
#[doc(hidden)]
pub mod series;
#[doc(hidden)]
pub mod statistics;
pub mod store;
mod sys;
mod top;
#[doc(hidden)]
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
