//! Findings on the sources of a capture.

use std::io::{self, Write};

use serde::Serialize;

use super::REPORT_FORMAT_VERSION;
use super::escape::escaped;
use super::json::object;
use super::layout::{self, GAP};
use crate::diagnose::{self, DataSource, Finding};

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
pub(super) fn fixes(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    for (fix, sources) in diagnose::fixes(findings) {
        let sources: Vec<_> = sources.into_iter().map(DataSource::name).collect();
        writeln!(out, "fix for {}: {}", escaped(&sources.join(", ")), escaped(&fix.to_string()))?;
    }
    Ok(())
}

pub(crate) fn findings_json(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    object(out, &FindingsJson { format_version: REPORT_FORMAT_VERSION, findings })
}
