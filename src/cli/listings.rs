//! `ctprof metrics`, `ctprof schema` and `ctprof doctor`.

use std::io::Write;
use std::process::ExitCode;

use clap::ValueEnum;

use super::program_file::name_program;
use super::{FAILED, Format, JsonOutput, Stream, reported, to_stdout};
use crate::capture::{Engine, Options};
use crate::diagnose::{Finding, findings};
use crate::process::Privileges;
use crate::record::Recorder;
use crate::report;

pub(super) fn metrics(format: Format) -> anyhow::Result<()> {
    to_stdout(|out| match format {
        Format::Json => report::metrics_json(out),
        Format::Markdown => report::metrics_markdown(out),
        _ => report::metrics_table(out, Stream::Stdout.width()),
    })
}

/// Prints the schema of an output, or the definitions of all.
pub(super) fn schema(output: Option<JsonOutput>) -> anyhow::Result<()> {
    let name = output.and_then(|output| Some(output.to_possible_value()?.get_name().to_owned()));
    let of_one = |name| report::JSON_SCHEMA.replacen('{', &format!("{{\n  \"$ref\": \"#/$defs/{name}\","), 1);
    let text = name.map_or_else(|| report::JSON_SCHEMA.to_owned(), of_one);
    to_stdout(|out| out.write_all(text.as_bytes()))
}

/// Captures, and keeps only the findings. Fails if anything fixable is missing.
pub(super) fn doctor(engine: Engine, format: Format) -> anyhow::Result<ExitCode> {
    let options = Options { engine, ..Options::default() };
    // The first and the last sample say enough.
    let mut recorder = Recorder::of_one_capture(options.clone())?.with_reasons(&options, 1.0);
    Privileges::Capture.keep_after_loading()?;
    let mut findings = findings(&recorder.capture_with_samples()?);
    name_program(&mut findings);
    let printed = to_stdout(|out| match format {
        Format::Json => report::findings_json(out, &findings),
        _ => report::findings_table(out, &findings, Stream::Stdout.width()),
    });
    let fixable = findings.iter().any(Finding::is_fixable);
    reported(printed, if fixable { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
