//! `ctprof compare`.

use std::path::Path;
use std::process::ExitCode;

use super::args::{Compare, Comparing, Messages};
use super::gates;
use super::input::Input;
use super::output::{groups_exist, selection, write_page};
use crate::compare::{Options, Sides, compare_with_gates};
use crate::report::{Column, Page};

pub(super) fn run(args: &Compare, messages: Messages) -> anyhow::Result<ExitCode> {
    let paths = Sides { baseline: args.baseline.as_path(), candidate: args.candidate.as_path() };
    Prepared::new(&args.comparing, paths.map(|path| path.display().to_string()))?.compare(paths, messages)
}

/// A comparison whose options have been checked, before any file is read.
pub(super) struct Prepared<'a> {
    args: &'a Comparing,
    options: Options,
    columns: Vec<Column>,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(args: &'a Comparing, labels: Sides<String>) -> anyhow::Result<Self> {
        let options = Options { threshold: args.verdicts.threshold, ..args.view.options(labels) };
        gates::check(&args.gates, &options)?;
        let columns = args.view.columns(|column| column != Column::Value)?;
        Ok(Self { args, options, columns })
    }

    /// Compares two files or directories.
    pub(super) fn compare(&self, paths: Sides<&Path>, messages: Messages) -> anyhow::Result<ExitCode> {
        let Comparing { view, gates, .. } = self.args;
        let input = Input::new(&self.options, view, messages);
        let sides = input.sides(paths)?;
        drop(input);
        let comparison = compare_with_gates(sides, &self.options, &gates.fail_on);
        groups_exist(&comparison.unmatched)?;
        let written = write_page(&Page::of_comparison(&comparison, selection(view)), view, &self.columns);
        let status = gates::finish(&comparison.gates, gates, messages);
        // A closed pipe, which is no failure of a report, must not hide a failed gate.
        if status == ExitCode::SUCCESS { written.map(|()| status) } else { Ok(status) }
    }
}
