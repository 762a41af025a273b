//! Findings on the sources of a capture.

use std::io::{self, Write};

use serde::Serialize;

use super::REPORT_FORMAT_VERSION;
use super::escape::escaped;
use super::json::object;
use crate::diagnose::Finding;

#[derive(Serialize)]
struct FindingsJson<'a> {
    format_version: u32,
    findings: &'a [Finding],
}

/// Writes a line for each source, and one for what cures it.
///
/// # Errors
/// Those of `out`.
pub fn findings_table(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    let width = findings.iter().map(|finding| finding.source.len()).max().unwrap_or(0);
    for finding in findings {
        let (state, reason) = (finding.coverage.name(), escaped(&finding.reason));
        let line = format!("{:<width$}  {state:<11}  {reason}", finding.source);
        writeln!(out, "{}", line.trim_end())?;
        if !finding.remedy.is_empty() {
            writeln!(out, "{:<width$}  → {}", "", finding.remedy)?;
        }
    }
    Ok(())
}

/// Writes the findings as JSON.
///
/// # Errors
/// Those of `out`.
pub fn findings_json(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    object(out, &FindingsJson { format_version: REPORT_FORMAT_VERSION, findings })
}
