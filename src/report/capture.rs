//! The summary of a capture, in a few lines.

use std::io::{self, Write};

use super::escape::escaped;
use super::findings::fixes;
use super::scale::spaced;
use crate::diagnose::{counted, gaps};
use crate::model::{Census, CtprofSnapshot, Unit};

/// Writes what was captured, how long it took, what is missing, and how to fix that.
pub(crate) fn capture_summary(
    out: &mut dyn Write,
    CtprofSnapshot { head, threads }: &CtprofSnapshot,
    file: &str,
    bytes: u64,
) -> io::Result<()> {
    let census = Census::of(threads);
    let (engine, duration_ns) =
        head.capture.as_ref().map_or(("", 0), |capture| (&*capture.engine, capture.duration_ns));
    writeln!(
        out,
        "Captured {} in {}, {}, in {} with {engine}: {file} ({})",
        counted(census.threads, "thread"),
        counted(census.processes, "process"),
        counted(head.cgroup_stats.len(), "cgroup"),
        spaced(duration_ns.into(), Unit::Ns),
        spaced(bytes.into(), Unit::Bytes),
    )?;
    let gaps = gaps(head, &census);
    for gap in &gaps {
        writeln!(out, "missing: {}: {}", gap.source, escaped(&gap.reason().unwrap_or_default()))?;
    }
    fixes(out, &gaps)
}

/// Writes what a window covers, and its file.
pub(crate) fn record_summary(out: &mut dyn Write, window: &CtprofSnapshot, file: &str, bytes: u64) -> io::Result<()> {
    let census = Census::of(&window.threads);
    let duration = window.head.window.as_ref().map_or(0, |window| window.duration_ns);
    writeln!(
        out,
        "Recorded {}: {} in {} ({} started, {} exited): {file} ({})",
        spaced(duration.into(), Unit::Ns),
        counted(census.threads, "thread"),
        counted(census.processes, "process"),
        census.started,
        census.exited,
        spaced(bytes.into(), Unit::Bytes),
    )
}
