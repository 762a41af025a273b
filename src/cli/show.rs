//! `ctprof show`.

use super::args::{Messages, ShowArgs};
use super::errors::free_at_exit;
use super::input::DigestReader;
use super::output::{Stream, groups_exist, write_report};
use crate::compare::{Sides, report};
use crate::report::Column;

pub(super) fn run(args: &ShowArgs, messages: Messages) -> anyhow::Result<()> {
    args.view.check_columns(Column::is_of_views)?;
    let options = args.view.options(Sides::one(args.snapshot.display().to_string()));
    let mut input = DigestReader::new(options, &args.view, messages);
    let side = match &args.later {
        None => input.runs(&args.snapshot)?,
        Some(later) => input.window(&args.snapshot, later)?.into(),
    };
    let report = report(Sides::one(side), &input.into_options(), &[]);
    groups_exist(&report.unmatched)?;
    let written = write_report(Stream::Stdout, &report, &args.view);
    free_at_exit(report);
    written
}
