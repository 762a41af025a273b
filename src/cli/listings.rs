//! `ctprof metrics`, `ctprof completions` and `ctprof doctor`.

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::Args;
use super::errors::FAILED;
use super::format::Format;
use super::output::{Stream, to_stdout};
use crate::capture::{Engine, Options, capture_with};
use crate::diagnose::{Finding, findings};
use crate::report;

pub(super) fn metrics(format: Format) -> anyhow::Result<()> {
    to_stdout(|out| match format {
        Format::Json => report::metrics_json(out),
        Format::Markdown => report::metrics_markdown(out),
        _ => report::metrics_table(out, Stream::Stdout.width()),
    })
}

pub(super) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "ctprof", &mut script);
    to_stdout(|out| out.write_all(&script))
}

/// Captures, and keeps only the findings. Fails if anything fixable is missing.
pub(super) fn doctor(engine: Engine, format: Format) -> anyhow::Result<ExitCode> {
    let options = Options { engine, ..Options::default() };
    let findings = findings(&capture_with(&options)?);
    to_stdout(|out| match format {
        Format::Json => report::findings_json(out, &findings),
        _ => report::findings_table(out, &findings, Stream::Stdout.width()),
    })?;
    let fixable = findings.iter().any(Finding::is_fixable);
    Ok(if fixable { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
