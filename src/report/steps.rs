//! The steps of a series as lines: a heading, and the groups that did most.

use std::io::{self, Write};

use csv::WriterBuilder;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{
    ColumnShape, Head, Selection, ShownSection, Terminal, cell_digits, escaped, harmless, layout, pivot, record,
    spaced, why, window,
};
use crate::compare::{OverviewColumn, Report, ReportSection, WindowSide};
use crate::model::{Section, Unit};

/// Several shorter steps begin in the same second.
const SHORT_NS: u64 = 900_000_000;

fn overview(report: &Report) -> Option<&ReportSection> {
    report.sections.iter().find(|section| section.section == Section::Overview)
}

fn window_of(report: &Report) -> Option<&WindowSide> {
    report.header.as_ref()?.sides.baseline.window.as_ref()
}

/// Writes a step as text. Errors are those of `out`.
pub fn write_step(out: &mut dyn Write, report: &Report, selection: &Selection, terminal: Terminal) -> io::Result<()> {
    if let Some(WindowSide { info, .. }) = window_of(report) {
        let form = if info.duration_ns < SHORT_NS { "%H:%M:%S%.3f" } else { "%H:%M:%S" };
        let time = Timestamp::from_nanosecond(info.started_at_unix_ns.into());
        let time = time.map(|time| time.to_zoned(TimeZone::UTC).strftime(form).to_string());
        let length = spaced(info.duration_ns.into(), Unit::Ns);
        let cpu =
            info.cpu.as_ref().map_or_else(String::new, |cpu| format!(", {}", window::busy(cpu, info.duration_ns)));
        writeln!(out, "{}   {length}{cpu}", time.unwrap_or_default())?;
    }
    let Some(section) = overview(report) else { return Ok(()) };
    let section = ShownSection::of_groups(section, selection);
    let pivot = pivot(&section, selection.users_of(report));
    let reasons = why::lines(report, &section);
    let lines = pivot.lines.iter().zip(&pivot.groups).map(|(line, group)| {
        let reasons = reasons.iter().find(|(of, _)| Some(*of) == *group).map(|(_, lines)| lines.join("; "));
        line.iter().cloned().chain(reasons).collect()
    });
    let lines: Vec<Vec<_>> = lines.collect();
    let shape = |place| if place == 0 { ColumnShape::Name } else { ColumnShape::Number };
    let heads =
        pivot.heads.iter().enumerate().map(|(place, text)| Head { text, shape: shape(place), dispensable: None });
    let why = Head { text: "why", shape: ColumnShape::Prose, dispensable: Some(0) };
    let heads: Vec<_> = heads.chain((!reasons.is_empty()).then_some(why)).collect();
    let width = terminal.width.map(|width| width.saturating_sub(2));
    layout::lines(&heads, &lines, &[], width).0.iter().try_for_each(|line| writeln!(out, "  {}", line.trim_end()))
}

/// Writes a step as CSV, a row per group, after the names of the columns if it is the first. Errors are those of `out`.
pub fn write_step_csv(out: &mut dyn Write, report: &Report, selection: &Selection, is_first: bool) -> io::Result<()> {
    let mut csv = WriterBuilder::new().flexible(true).terminator(csv::Terminator::CRLF).from_writer(out);
    let columns: Vec<_> = OverviewColumn::of_groups().collect();
    if is_first {
        let about = ["started_at_unix_ns", "duration_ns", "group", "threads"].map(str::to_owned);
        record(&mut csv, about.into_iter().chain(columns.iter().map(|column| column.name.to_owned())).collect())?;
    }
    let (Some(WindowSide { info, .. }), Some(section)) = (window_of(report), overview(report)) else { return Ok(()) };
    for rows in ShownSection::of_groups(section, selection).rows_of_groups() {
        let group = &section.groups[rows[0].group];
        let value = |column: &&OverviewColumn| {
            let row = rows.iter().find(|row| row.name == column.name);
            row.and_then(|row| cell_digits(row.values.baseline.as_ref()?)).unwrap_or_default()
        };
        let threads = group.members().baseline.map_or_else(String::new, |members| members.to_string());
        let name = harmless(escaped(&group.full_label()).into_owned());
        let about = [info.started_at_unix_ns.to_string(), info.duration_ns.to_string(), name, threads];
        record(&mut csv, about.into_iter().chain(columns.iter().map(value)).collect())?;
    }
    csv.flush()
}
