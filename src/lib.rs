//! What did every thread on this host do, and what changed?
//!
//! [`capture`](fn@capture) reads the scheduler's, memory's and I/O counters of every thread into a
//! [`CtprofSnapshot`]; [`compare`](fn@compare) groups the threads of two
//! and says what moved.
//!
//! ```no_run
//! let before = ctprof::capture()?;
//! // ... the work in question ...
//! let after = ctprof::capture()?;
//! let comparison = ctprof::compare(&before, &after, &ctprof::compare::Options::default());
//! println!("{} sections", comparison.tables.len());
//! # Ok::<(), ctprof::capture::CaptureError>(())
//! ```
//!
//! Stages, each of which sees only those before it: [`model`] is what is known; `sys` asks the kernel;
//! [`process`] is about this process; [`names`] groups and redacts names; [`diagnose`] says what is
//! missing, why, and what fixes it; [`capture`](mod@capture) fills the model; [`store`] keeps it in
//! files; [`compare`](mod@compare) finds what changed; [`report`] draws it; [`cli`] is the command line.

pub mod model;

mod sys;

pub mod process;

pub mod names;

pub mod diagnose;

pub mod capture;

pub mod store;

pub mod compare;

pub mod report;

pub mod cli;

pub use capture::{capture, capture_pid};
pub use compare::{collect_smaps_rollup, compare, show};
pub use model::{CtprofSnapshot, ThreadState};

use std::path::Path;

/// Captures every thread of every process into a file.
///
/// # Errors
/// If the file can't be written, found out before the capture where possible, or nothing useful
/// can be captured.
pub fn capture_to(path: &Path) -> Result<CtprofSnapshot, CaptureToError> {
    let target = store::Target::create(path)?;
    let snapshot = capture::capture()?;
    target.write(&snapshot, store::MAX_DECOMPRESSED_SNAPSHOT_BYTES)?;
    Ok(snapshot)
}

/// Why a capture did not end in a file.
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
