//! A comparison as tables: what is compared, what moved, what is on one side only.

use std::io::{self, Write};

use jiff::Timestamp;

use super::escape::escaped;
use super::scale::scaled;
use super::table::{self, inline, paragraph};
use super::{Column, Markup, Style, Unchanged};
use crate::compare::{Change, Comparison, Header, Renamed, Row, Side, Sides, Table};
use crate::model::Unit;

/// Writes a comparison.
///
/// # Errors
/// Those of `out`.
pub fn comparison(out: &mut dyn Write, comparison: &Comparison, style: &Style) -> io::Result<()> {
    if let Some(header) = &comparison.header {
        write_header(out, header, style)?;
    }
    comparison.tables.iter().try_for_each(|table| section(out, table, style))?;
    renamed(out, &comparison.renamed, style)
}

fn write_header(out: &mut dyn Write, header: &Header, style: &Style) -> io::Result<()> {
    let Sides { baseline, candidate } = &header.sides;
    fact(out, "baseline", &described(baseline), style)?;
    fact(out, "candidate", &described(candidate), style)?;
    let apart = scaled(header.apart_ns.unsigned_abs(), Unit::Ns);
    let relation = if header.apart_ns < 0 { "before" } else { "after" };
    fact(out, "", &format!("captured {apart} {relation} the baseline"), style)?;
    match &header.differences {
        None => fact(out, "host", "host context unavailable on one side", style)?,
        Some(differences) if differences.is_empty() => fact(out, "host", "same", style)?,
        Some(differences) => {
            for (at, difference) in differences.iter().enumerate() {
                let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
                let Sides { baseline, candidate } = difference.values.as_ref().map(value);
                let text = format!("{}: {baseline} → {candidate}", difference.field);
                fact(out, if at == 0 { "host" } else { "" }, &text, style)?;
            }
        }
    }
    header.warnings.iter().try_for_each(|warning| fact(out, "warning", &warning.to_string(), style))
}

/// A line of what leads a report.
pub(super) fn fact(out: &mut dyn Write, heading: &str, text: &str, style: &Style) -> io::Result<()> {
    match style.markup {
        Markup::Markdown if heading.is_empty() => writeln!(out, "- {}", inline(text)),
        Markup::Markdown => writeln!(out, "- **{heading}** {}", inline(text)),
        Markup::Plain => {
            let padded = format!("{heading:<10}");
            let heading = match heading {
                "" => padded,
                "warning" => style.warning(&padded),
                _ => style.strong(&padded),
            };
            writeln!(out, "{heading} {}", escaped(text))
        }
    }
}

/// A snapshot in a line.
pub(super) fn described(side: &Side) -> String {
    let when = i128::from(side.captured_at_unix_ns);
    let when = Timestamp::from_nanosecond(when).map_or_else(|_| "-".to_owned(), |when| format!("{when:.0}"));
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    format!(
        "{}  {}, Linux {} {}, {when}, {} threads of {} processes, {}",
        side.file,
        known(&side.hostname),
        known(&side.kernel_release),
        known(&side.arch),
        side.threads,
        side.processes,
        side.tool.as_deref().unwrap_or("no word on what made it"),
    )
}

fn section(out: &mut dyn Write, table: &Table, style: &Style) -> io::Result<()> {
    let one_sided = |row: &&Row| matches!(row.change, Change::BaselineOnly | Change::CandidateOnly);
    let silent = |row: &&Row| matches!(row.change, Change::Unchanged | Change::Absent);
    let common: Vec<_> = table.rows.iter().filter(|row| !one_sided(row)).collect();
    let shown: Vec<_> = match style.unchanged {
        Unchanged::Hidden => common.iter().copied().filter(|row| !silent(row)).collect(),
        Unchanged::Shown => common.clone(),
    };
    if shown.is_empty() && table.notes.is_empty() && !table.rows.iter().any(|row| one_sided(&row)) {
        return Ok(());
    }
    heading(out, table, style)?;
    if !shown.is_empty() {
        table::rows(out, table, style.columns(Column::COMPARISON), &shown, style)?;
    }
    if style.unchanged == Unchanged::Hidden && !common.is_empty() {
        let count = |change| common.iter().filter(|row| row.change == change).count();
        let (unchanged, absent) = (count(Change::Unchanged), count(Change::Absent));
        let hidden = format!("hidden: {unchanged} rows unchanged, {absent} rows without a reading");
        writeln!(out, "{}{hidden} (--unchanged shows them)", paragraph(style))?;
    }
    only_in(out, table, Change::BaselineOnly, style)?;
    only_in(out, table, Change::CandidateOnly, style)
}

/// The section's name, and what has to be known to read it.
pub(super) fn heading(out: &mut dyn Write, table: &Table, style: &Style) -> io::Result<()> {
    title(out, table.section.name(), style)?;
    let notes = table.notes.iter();
    match style.markup {
        Markup::Plain => notes.into_iter().try_for_each(|note| writeln!(out, "  {}", escaped(&note.to_string()))),
        Markup::Markdown => notes.into_iter().try_for_each(|note| writeln!(out, "{}\n", inline(&note.to_string()))),
    }
}

fn title(out: &mut dyn Write, text: &str, style: &Style) -> io::Result<()> {
    match style.markup {
        Markup::Plain => writeln!(out, "\n{}", style.strong(text)),
        Markup::Markdown => writeln!(out, "\n### {text}\n"),
    }
}

fn only_in(out: &mut dyn Write, table: &Table, change: Change, style: &Style) -> io::Result<()> {
    let rows: Vec<_> = table.rows.iter().filter(|row| row.change == change).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let (side, own) = match change {
        Change::BaselineOnly => ("baseline", Column::Baseline),
        _ => ("candidate", Column::Candidate),
    };
    let mut groups: Vec<_> = rows.iter().map(|row| row.group).collect();
    groups.sort_unstable();
    groups.dedup();
    let s = if groups.len() == 1 { "" } else { "s" };
    title(out, &format!("{} only in the {side}: {} group{s}", table.section.name(), groups.len()), style)?;
    let has_none = |column: &&Column| !column.is_of_views() && **column != own;
    let columns = style.columns(Column::COMPARISON).iter().filter(|column| !has_none(column));
    table::rows(out, table, &columns.copied().collect::<Vec<_>>(), &rows, style)
}

fn renamed(out: &mut dyn Write, renamed: &[Renamed], style: &Style) -> io::Result<()> {
    if renamed.is_empty() {
        return Ok(());
    }
    title(out, "cgroups under another name (≈)", style)?;
    renamed.iter().try_for_each(|Renamed { baseline, candidate, similarity, .. }| {
        fact(out, &format!("{:.0}%", similarity * 100.0), &format!("{baseline} → {candidate}"), style)
    })
}
