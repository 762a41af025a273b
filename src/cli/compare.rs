//! The command `ctprof compare`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{
    BASELINE, CANDIDATE, CompareArgs, Comparing, DigestReader, FAILED, GATE_FAILED, Messages, Stream, ViewArgs,
    check_exports, complain, free_at_exit, groups_exist, is_of_ab, reported, usage_error, write_report,
};
use crate::compare::{CompareOptions, EndedEarly, GateOutcome, GateResult, Selection, Sides, report};
use crate::report::{Column, write_gate_lines};

pub(super) fn run(args: &CompareArgs, messages: Messages) -> anyhow::Result<ExitCode> {
    let (baseline, candidate) = sides(args)?;
    let labels = Sides::two(&baseline, &candidate).map(|path| path.display().to_string());
    Prepared::new(&args.comparing, labels)?.compare(&baseline, &candidate, messages)
}

/// The paths of both sides; those in a directory that `ab` wrote need not be named.
fn sides(CompareArgs { baseline, candidate, .. }: &CompareArgs) -> anyhow::Result<(PathBuf, PathBuf)> {
    match candidate {
        Some(candidate) => Ok((baseline.clone(), candidate.clone())),
        None if is_of_ab(baseline) => Ok((baseline.join(BASELINE), baseline.join(CANDIDATE))),
        None => {
            Err(usage_error("compare needs two sides: BASELINE CANDIDATE, or a directory that `ctprof ab -o` wrote"))
        }
    }
}

/// A comparison whose options have been checked, before any file is read.
pub(super) struct Prepared<'a> {
    args: &'a Comparing,
    options: CompareOptions,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(args: &'a Comparing, labels: Sides<String>) -> anyhow::Result<Self> {
        let options = args.options(labels);
        let unfit = args.fail_on.iter().find_map(|gate| Some((gate, gate.check(options.grouping.axis).err()?)));
        if let Some((gate, error)) = unfit {
            return Err(usage_error(format!("--fail-on '{}': {error}", gate.text)));
        }
        args.view.check_columns(|column| column != Column::Value).map_err(usage_error)?;
        check_exports(&args.view, &[])?;
        Ok(Self { args, options })
    }

    /// Judges at this level; with what ended the runs, if fewer were made than planned.
    pub(super) fn judge_at(&mut self, tail: f64, ended_early: Option<EndedEarly>) {
        (self.options.tail, self.options.ended_early) = (tail, ended_early);
    }

    /// Whether the runs so far decide all gates, and which command takes longer.
    pub(super) fn is_decided(&self, baseline: &Path, candidate: &Path) -> anyhow::Result<bool> {
        let options = CompareOptions { selection: Selection::default(), has_tree: false, ..self.options.clone() };
        let mut input = DigestReader::new(options, &self.args.view, Messages::ErrorsOnly);
        let sides = input.sides(baseline, candidate)?;
        Ok(report(sides, &input.into_options(), &self.args.fail_on).is_decided())
    }

    pub(super) fn compare(&self, baseline: &Path, candidate: &Path, messages: Messages) -> anyhow::Result<ExitCode> {
        let view = &self.args.view;
        check_exports(view, &[baseline, candidate])?;
        let as_view = |view: &ViewArgs, options: CompareOptions| {
            let mut input = DigestReader::new(options, view, messages);
            let sides = input.sides(baseline, candidate)?;
            let report = report(sides, &input.into_options(), &self.args.fail_on);
            groups_exist(&report.unmatched, view)?;
            let written = write_report(Stream::Stdout, &report, view);
            anyhow::Ok((report, written))
        };
        let (report, written) = as_view(view, self.options.clone())?;
        let status = gate_status(&report.gates, self.args, messages);
        free_at_exit(report);
        let exported = view.exported().try_for_each(|view| {
            let CompareOptions { ref labels, tail, ended_early, .. } = self.options;
            let options = self.args.options_of(&view, labels.clone());
            let (report, written) = as_view(&view, CompareOptions { tail, ended_early, ..options })?;
            free_at_exit(report);
            written
        });
        match reported(written, ()).and(exported) {
            // A full disk does not hide that a gate failed.
            Err(error) if status == ExitCode::from(GATE_FAILED) => complain(&error),
            written => written?,
        }
        Ok(status)
    }
}

/// Says which gates failed, and returns the exit status, whether standard error is open or not.
fn gate_status(results: &[GateResult], args: &Comparing, messages: Messages) -> ExitCode {
    let has = |is: fn(&GateOutcome) -> bool| results.iter().any(|result| is(&result.outcome));
    let is_unclear = || has(|outcome| *outcome == GateOutcome::Unclear) && args.fail_on_unclear;
    // What cannot be judged does not hide what failed.
    let status = match () {
        () if has(|outcome| *outcome == GateOutcome::Failed) || is_unclear() => ExitCode::from(GATE_FAILED),
        () if has(|outcome| matches!(outcome, GateOutcome::Error(_))) => ExitCode::from(FAILED),
        () => ExitCode::SUCCESS,
    };
    if status != ExitCode::SUCCESS || messages == Messages::All {
        let _ = write_gate_lines(&mut io::stderr().lock(), results);
    }
    status
}
