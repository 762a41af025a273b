//! The steps of a series as lines: a heading, and the groups that did most.

use std::io::{self, Write};

use csv::{Writer, WriterBuilder};

use super::{
    CORE, ColumnShape, DisplayOptions, Head, PivotColumn, ShownSection, Terminal, cell_digits, harmless, layout, pivot,
    record, why, window_heading,
};
use crate::compare::{OverviewColumn, Report, WindowSide};
use crate::model::Section;

/// Writes a step as text. Errors come from `out`.
pub fn write_step(
    out: &mut dyn Write,
    report: &Report,
    selection: &DisplayOptions,
    terminal: Terminal,
) -> io::Result<()> {
    if report.window().is_some() {
        writeln!(out, "{}", window_heading(report))?;
    }
    let Some(section) = report.section(Section::Overview) else { return Ok(()) };
    let section = ShownSection::of_groups(section, selection);
    let pivot = pivot(&section, selection.users_of(report));
    let reasons = why::lines(report, &section);
    let lines = pivot.lines.iter().zip(&pivot.groups).map(|(line, group)| {
        let reasons = reasons.iter().find(|(of, _)| Some(*of) == *group).map(|(_, lines)| lines.join("; "));
        line.iter().cloned().chain(reasons).collect()
    });
    let lines: Vec<Vec<_>> = lines.collect();
    let texts: Vec<_> = pivot.columns.iter().map(PivotColumn::heading).collect();
    let heads = texts.iter().enumerate();
    let heads = heads.map(|(place, text)| Head { text, shape: pivot.shape(place), dispensable: None });
    let why = Head { text: "why", shape: ColumnShape::Prose, dispensable: Some(CORE) };
    let heads: Vec<_> = heads.chain((!reasons.is_empty()).then_some(why)).collect();
    let width = terminal.width.map(|width| width.saturating_sub(2));
    layout::lines(&heads, &lines, &[], width).0.iter().try_for_each(|line| writeln!(out, "  {}", line.trim_end()))
}

fn csv(out: &mut dyn Write) -> Writer<&mut dyn Write> {
    WriterBuilder::new().flexible(true).terminator(csv::Terminator::CRLF).from_writer(out)
}

/// Writes the names of the columns of steps as CSV. Errors come from `out`.
pub fn write_step_columns(out: &mut dyn Write) -> io::Result<()> {
    let about = ["started_at_unix_ns", "duration_ns", "group", "threads"];
    let names = about.into_iter().chain(OverviewColumn::of_groups().map(|column| column.name));
    record(&mut csv(out), names.map(str::to_owned).collect())
}

/// Writes a step as CSV, a row per group. Errors come from `out`.
pub fn write_step_csv(out: &mut dyn Write, report: &Report, selection: &DisplayOptions) -> io::Result<()> {
    let mut csv = csv(out);
    let columns: Vec<_> = OverviewColumn::of_groups().collect();
    let (Some(WindowSide { info, .. }), Some(section)) = (report.window(), report.section(Section::Overview)) else {
        return Ok(());
    };
    for rows in ShownSection::of_groups(section, selection).rows_of_groups() {
        let group = &section.groups[rows[0].group];
        let value = |column: &&OverviewColumn| {
            let row = rows.iter().find(|row| row.name == column.name);
            row.and_then(|row| cell_digits(row.values.baseline.as_ref()?)).unwrap_or_default()
        };
        let threads = group.members().baseline.map_or_else(String::new, |members| members.to_string());
        let name = harmless(&group.full_label());
        let about = [info.started_at_unix_ns.to_string(), info.duration_ns.to_string(), name, threads];
        record(&mut csv, about.into_iter().chain(columns.iter().map(value)).collect())?;
    }
    csv.flush()
}
