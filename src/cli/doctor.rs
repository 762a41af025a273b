//! `ctprof doctor`.

use std::process::ExitCode;

use super::args::{Doctor, DoctorFormat};
use super::exit::FAILED;
use super::output::{Stream, to_stdout};
use crate::capture::{Options, capture_with};
use crate::diagnose::{Finding, findings};
use crate::report;

/// Captures, and keeps only the findings. Fails if anything fixable is missing.
pub(super) fn run(args: &Doctor) -> anyhow::Result<ExitCode> {
    let options = Options { engine: args.engine.engine(), ..Options::default() };
    let findings = findings(&capture_with(&options)?);
    to_stdout(|out| match args.format {
        DoctorFormat::Table => report::findings_table(out, &findings, Stream::Stdout.width()),
        DoctorFormat::Json => report::findings_json(out, &findings),
    })?;
    let fixable = findings.iter().any(Finding::is_fixable);
    Ok(if fixable { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
