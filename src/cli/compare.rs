//! `ctprof compare`.

use std::path::Path;
use std::process::ExitCode;

use super::args::{Compare, Comparing, Messages};
use super::errors::free_at_exit;
use super::errors::reported;
use super::gates;
use super::input::Input;
use super::output::{Stream, groups_exist, write_report};
use crate::compare::{Options, Sides, report};
use crate::report::Column;

pub(super) fn run(args: &Compare, messages: Messages) -> anyhow::Result<ExitCode> {
    let (baseline, candidate) = (args.baseline.as_path(), args.candidate.as_path());
    let labels = Sides::two(baseline, candidate).map(|path| path.display().to_string());
    Prepared::new(&args.comparing, labels)?.compare(baseline, candidate, messages)
}

/// A comparison whose options have been checked, before any file is read.
pub(super) struct Prepared<'a> {
    args: &'a Comparing,
    options: Options,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(args: &'a Comparing, labels: Sides<String>) -> anyhow::Result<Self> {
        let options = Options { threshold: args.verdicts.threshold, ..args.view.options(labels) };
        gates::check(&args.gates, &options)?;
        args.view.check_columns(|column| column != Column::Value)?;
        Ok(Self { args, options })
    }

    /// Compares two files or directories.
    pub(super) fn compare(&self, baseline: &Path, candidate: &Path, messages: Messages) -> anyhow::Result<ExitCode> {
        let Comparing { view, gates, .. } = self.args;
        let input = Input::new(&self.options, view, messages);
        let sides = input.sides(baseline, candidate)?;
        drop(input);
        let report = report(sides, &self.options, &gates.fail_on);
        groups_exist(&report.unmatched)?;
        let written = write_report(Stream::Stdout, &report, view);
        let status = gates::finish(&report.gates, gates, messages);
        free_at_exit(report);
        reported(written, status)
    }
}
