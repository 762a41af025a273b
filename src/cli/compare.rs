//! `ctprof compare`.

use std::process::ExitCode;

use super::args::{Compare, Messages};
use super::gates;
use super::input::Input;
use super::output::{groups_exist, selection, write_page};
use crate::compare::{Options, Sides, compare_digests};
use crate::report::{Column, Page};

pub(super) fn run(args: &Compare, messages: Messages) -> anyhow::Result<ExitCode> {
    let paths = Sides { baseline: args.baseline.as_path(), candidate: args.candidate.as_path() };
    let options = Options {
        threshold: args.verdicts.threshold,
        gates: args.gates.fail_on.clone(),
        ..args.view.options(paths.map(|path| path.display().to_string()))
    };
    gates::check(&options)?;
    let columns = args.view.columns(|column| column != Column::Value)?;
    let input = Input::new(&options, &args.view, messages);
    let sides = input.sides(paths)?;
    drop(input);
    let comparison = compare_digests(sides, &options);
    groups_exist(&comparison.unmatched)?;
    let written = write_page(&Page::of_comparison(&comparison, selection(&args.view)), &args.view, &columns);
    let status = gates::finish(&comparison.gates, &args.gates, messages);
    // A closed pipe, which is no failure of a report, must not hide a failed gate.
    if status == ExitCode::SUCCESS { written.map(|()| status) } else { Ok(status) }
}
