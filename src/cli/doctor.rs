//! `ctprof doctor`.

use std::process::ExitCode;

use super::FAILED;
use super::args::{Doctor, DoctorFormat};
use super::output::to_stdout;
use crate::capture::capture;
use crate::diagnose::{Coverage, findings};
use crate::report;

/// Captures, and keeps nothing but what that tells of the sources. Fails if something is missing.
pub(super) fn run(args: &Doctor) -> anyhow::Result<ExitCode> {
    let findings = findings(&capture()?);
    to_stdout(|out| match args.format {
        DoctorFormat::Table => report::findings_table(out, &findings),
        DoctorFormat::Json => report::findings_json(out, &findings),
    })?;
    let curable = |coverage| matches!(coverage, Coverage::Partial | Coverage::Missing);
    let missing = findings.iter().any(|finding| curable(finding.coverage));
    Ok(if missing { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
