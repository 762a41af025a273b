//! What a capture did, in a few lines for whoever ran it.

use std::io::{self, Write};

use super::escape::escaped;
use super::findings::fixes;
use super::scale::spaced;
use crate::diagnose::{Finding, Kind};
use crate::model::Unit;

/// What was captured, into which file, and what is missing.
#[derive(Clone, Debug)]
pub struct Captured<'c> {
    /// Threads captured.
    pub threads: u64,
    /// Processes that they belong to.
    pub processes: u64,
    /// Cgroups that they are in.
    pub cgroups: u64,
    /// Duration of the capture in nanoseconds.
    pub duration_ns: u64,
    /// Where the snapshot is.
    pub file: &'c str,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// What is missing.
    pub gaps: &'c [Finding],
}

/// Writes what was captured, how long it took, what is missing, and how to fix that.
///
/// # Errors
/// Those of `out`.
pub fn capture_summary(out: &mut dyn Write, captured: &Captured<'_>) -> io::Result<()> {
    let Captured { threads, processes, cgroups, duration_ns, file, bytes, gaps } = captured;
    writeln!(
        out,
        "Captured {} in {}, {}, in {}: {file} ({})",
        Kind::Threads.counted(*threads),
        Kind::Processes.counted(*processes),
        Kind::Cgroups.counted(*cgroups),
        spaced((*duration_ns).into(), Unit::Ns),
        spaced((*bytes).into(), Unit::Bytes),
    )?;
    for gap in *gaps {
        writeln!(out, "missing: {}: {}", gap.source, escaped(&gap.reason().unwrap_or_default()))?;
    }
    fixes(out, gaps)
}
