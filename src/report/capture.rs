//! The summary of a capture, in a few lines.

use std::io::{self, Write};

use super::escape::escaped;
use super::findings::fixes;
use super::scale::spaced;
use crate::diagnose::{Finding, Kind};
use crate::model::{Census, CtprofSnapshot, Unit};

/// What was captured, the file, and what is missing.
#[derive(Clone, Debug)]
pub struct Captured<'c> {
    /// Number of threads.
    pub threads: u64,
    /// Number of processes.
    pub processes: u64,
    /// Number of cgroups.
    pub cgroups: u64,
    /// Duration of the capture in nanoseconds.
    pub duration_ns: u64,
    /// The engine that read the threads.
    pub engine: &'c str,
    /// Path of the snapshot.
    pub file: &'c str,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// What is missing.
    pub gaps: &'c [Finding],
}

/// Writes what was captured, how long it took, what is missing, and how to fix that.
///
/// # Errors
/// Errors of `out`.
pub fn capture_summary(out: &mut dyn Write, captured: &Captured<'_>) -> io::Result<()> {
    let Captured { threads, processes, cgroups, duration_ns, engine, file, bytes, gaps } = captured;
    writeln!(
        out,
        "Captured {} in {}, {}, in {} with {engine}: {file} ({})",
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

/// Writes what a window covers, and its file.
///
/// # Errors
/// Errors of `out`.
pub fn record_summary(out: &mut dyn Write, window: &CtprofSnapshot, file: &str, bytes: u64) -> io::Result<()> {
    let census = Census::of(&window.threads);
    let duration = window.head.window.as_ref().map_or(0, |window| window.duration_ns);
    writeln!(
        out,
        "Recorded {}: {} in {} ({} started, {} exited): {file} ({})",
        spaced(duration.into(), Unit::Ns),
        Kind::Threads.counted(census.threads),
        Kind::Processes.counted(census.processes),
        census.started,
        census.exited,
        spaced(bytes.into(), Unit::Bytes),
    )
}
