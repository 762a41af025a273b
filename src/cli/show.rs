//! The command `ctprof show`.

use std::time::Duration;

use super::{
    DigestReader, Format, Messages, ShowArgs, StepPrinter, Stream, ViewArgs, check_exports, free_at_exit, groups_exist,
    part_of, reported, series_of, unsuitable_file, usage_error, warn_of, write_report,
};
use crate::compare::{NoSuchGroup, OverviewColumn, Sides, report, trends};
use crate::model::Section;
use crate::report::Column;

/// Bars of a group.
const PARTS: u32 = 20;
/// Parts of a page's time axis, each of some pixels.
const PARTS_OF_PAGE: u32 = 240;

pub(super) fn run(args: &ShowArgs, messages: Messages) -> anyhow::Result<()> {
    args.view.check_units().map_err(usage_error)?;
    if args.steps || args.view.format == Format::Perfetto && args.later.is_none() {
        args.view.check_steps().map_err(usage_error)?;
        return show_steps(args);
    }
    args.view.check_columns(Column::is_of_views).map_err(usage_error)?;
    check_exports(&args.view, &[&args.snapshot, args.later.as_deref().unwrap_or(&args.snapshot)])?;
    reported(show_as(args, &args.view, messages), ())?;
    args.view.exported().try_for_each(|view| show_as(args, &view, messages))
}

fn show_as(args: &ShowArgs, view: &ViewArgs, messages: Messages) -> anyhow::Result<()> {
    let options = view.options(Sides::one(args.snapshot.display().to_string()));
    let mut input = DigestReader::new(options, view, messages);
    let (parts, columns, sections) = trend_selection(args, view);
    let (side, parts) = match &args.later {
        None => input.runs_and_parts(&args.snapshot, parts)?,
        Some(later) => (input.window(&args.snapshot, later)?.into(), None),
    };
    let options = input.into_options();
    let mut report = report(Sides::one(side), &options, &[]);
    report.trends = parts.map(|parts| trends(parts, &columns, sections, &options)).unwrap_or_default();
    groups_exist(&report.unmatched, view)?;
    let written = write_report(Stream::Stdout, &report, view);
    free_at_exit(report);
    written
}

/// Returns, for a series, the number of parts, and the columns and sections whose trends are shown.
fn trend_selection(args: &ShowArgs, view: &ViewArgs) -> (u32, Vec<&'static OverviewColumn>, &'static [Section]) {
    if !view.format.is_interactive() {
        return (PARTS, vec![args.sparkline], &[Section::Overview]);
    }
    let others = OverviewColumn::of_groups().filter(|column| column.name != args.sparkline.name);
    (
        PARTS_OF_PAGE,
        [args.sparkline].into_iter().chain(others).collect(),
        &[Section::Overview, Section::Primary, Section::Reasons],
    )
}

/// Prints the steps of a part of a series.
fn show_steps(args: &ShowArgs) -> anyhow::Result<()> {
    let part = part_of(&args.snapshot)?;
    let mut series = series_of(&part, args.view.limits.max_snapshot_bytes)?;
    let mut printer = StepPrinter::new(Stream::Stdout, &args.view)?;
    let range = part.range.unwrap_or_default();
    series.each_window(&range, &mut |mut window, moment| {
        moment.add_unchanged(&mut window);
        printer.print(&window)
    })?;
    let found = printer.groups_exist();
    // The status is that of wrong usage, as it is for the whole part.
    let unfit = |error: anyhow::Error| {
        if error.is::<NoSuchGroup>() { unsuitable_file(format!("{error:#}")) } else { error }
    };
    let finished = printer.finish(Duration::MAX).map_err(unfit);
    warn_of(&series, &part.file);
    finished.and(found)
}
