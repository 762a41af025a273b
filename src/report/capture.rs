//! Lines about a capture: its summary, and findings on its sources.

use std::io::{self, Write};

use serde::Serialize;

use super::{GAP, REPORT_FORMAT_VERSION, escaped, layout, object, spaced};
use crate::diagnose::{self, DataSource, Finding, counted};
use crate::model::{Census, CtprofSnapshot, SnapshotHead, Unit};

/// Columns of the word for a coverage.
const COVERAGE: usize = 11;

#[derive(Serialize)]
struct FindingsJson<'a> {
    format_version: u32,
    findings: &'a [Finding],
}

/// Writes a line per source, folded to a terminal of `width` columns, then every fix with the sources it
/// fixes. Fixes are not folded: they are there to be copied.
pub(crate) fn findings_table(out: &mut dyn Write, findings: &[Finding], width: Option<u16>) -> io::Result<()> {
    let longest = findings.iter().map(|finding| finding.source.name().len()).max().unwrap_or(0);
    for finding in findings {
        let (coverage, reason) = (finding.coverage.name(), finding.reason().unwrap_or_default());
        let reason = layout::folded(&escaped(&reason), longest + GAP + COVERAGE + GAP, width);
        let line = format!("{:<longest$}{:GAP$}{coverage:<COVERAGE$}{:GAP$}{reason}", finding.source.name(), "", "");
        writeln!(out, "{}", line.trim_end())?;
    }
    if findings.iter().any(|finding| finding.fix.is_some()) {
        writeln!(out)?;
    }
    fixes(out, findings)
}

/// Writes each fix once, with its sources.
fn fixes(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    for (fix, sources) in diagnose::fixes(findings) {
        let sources: Vec<_> = sources.into_iter().map(DataSource::name).collect();
        writeln!(out, "fix for {}: {}", escaped(&sources.join(", ")), escaped(&fix.to_string()))?;
    }
    Ok(())
}

pub(crate) fn findings_json(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    object(out, &FindingsJson { format_version: REPORT_FORMAT_VERSION, findings })
}

/// Writes what was captured, how long it took, what is missing, and how to fix that.
pub(crate) fn capture_summary(
    out: &mut dyn Write,
    head: &SnapshotHead,
    census: &Census,
    gaps: &[Finding],
    (file, bytes): (&str, u64),
) -> io::Result<()> {
    let (engine, duration_ns) =
        head.capture.as_ref().map_or(("", 0), |capture| (&*capture.engine, capture.duration_ns));
    writeln!(
        out,
        "Captured {} in {}, {}, in {} with {engine}: {file} ({})",
        counted(census.threads, "thread"),
        counted(census.processes, "process"),
        counted(head.cgroups().count(), "cgroup"),
        spaced(duration_ns.into(), Unit::Ns),
        spaced(bytes.into(), Unit::Bytes),
    )?;
    for gap in gaps {
        writeln!(out, "missing: {}: {}", gap.source, escaped(&gap.reason().unwrap_or_default()))?;
    }
    fixes(out, gaps)
}

/// Writes the number of steps of a series, and its file.
pub(crate) fn series_summary(out: &mut dyn Write, steps: u64, file: &str, bytes: u64) -> io::Result<()> {
    writeln!(out, "Recorded {}: {file} ({})", counted(steps, "step"), spaced(bytes.into(), Unit::Bytes))
}

/// Writes what a window covers, and its file.
pub(crate) fn record_summary(out: &mut dyn Write, window: &CtprofSnapshot, file: &str, bytes: u64) -> io::Result<()> {
    let census = Census::from_threads(&window.threads);
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
