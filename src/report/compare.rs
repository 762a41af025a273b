//! A comparison as tables: what is compared, what moved, what is on one side only.

use std::io::{self, Write};

use jiff::Timestamp;

use super::escape::escaped;
use super::scale::{cell, delta, percent, scaled};
use super::table::{self, Column};
use super::{Style, Unchanged};
use crate::compare::{Change, Comparison, Header, Row, Side, Sides, Table};
use crate::model::{Section, Unit};

/// Writes a comparison.
///
/// # Errors
/// Those of `out`.
pub fn comparison(out: &mut dyn Write, comparison: &Comparison, style: &Style) -> io::Result<()> {
    if let Some(header) = &comparison.header {
        write_header(out, header)?;
    }
    comparison.tables.iter().try_for_each(|table| section(out, table, style))
}

fn write_header(out: &mut dyn Write, header: &Header) -> io::Result<()> {
    let Sides { baseline, candidate } = &header.sides;
    writeln!(out, "baseline   {}", described(baseline))?;
    writeln!(out, "candidate  {}", described(candidate))?;
    let apart = scaled(header.apart_ns.unsigned_abs(), Unit::Ns);
    let relation = if header.apart_ns < 0 { "before" } else { "after" };
    writeln!(out, "           captured {apart} {relation} the baseline")?;
    match &header.differences {
        None => writeln!(out, "host       host context unavailable on one side")?,
        Some(differences) if differences.is_empty() => writeln!(out, "host       same")?,
        Some(differences) => {
            for (at, difference) in differences.iter().enumerate() {
                let heading = if at == 0 { "host" } else { "" };
                let value = |value: &Option<String>| escaped(value.as_deref().unwrap_or("-")).into_owned();
                let Sides { baseline, candidate } = difference.values.as_ref().map(value);
                writeln!(out, "{heading:<10} {}: {baseline} → {candidate}", escaped(&difference.field))?;
            }
        }
    }
    header.warnings.iter().try_for_each(|warning| writeln!(out, "warning    {}", escaped(warning)))
}

/// A snapshot in a line.
pub(super) fn described(side: &Side) -> String {
    let when = i128::from(side.captured_at_unix_ns);
    let when = Timestamp::from_nanosecond(when).map_or_else(|_| "-".to_owned(), |when| format!("{when:.0}"));
    let known = |text: &Option<String>| escaped(text.as_deref().unwrap_or("-")).into_owned();
    format!(
        "{}  {}, Linux {} {}, {when}, {} threads of {} processes, {}",
        escaped(&side.file),
        known(&side.hostname),
        known(&side.kernel_release),
        known(&side.arch),
        side.threads,
        side.processes,
        escaped(side.tool.as_deref().unwrap_or("no word on what made it")),
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
    heading(out, table)?;
    if !shown.is_empty() {
        let columns = [
            Column::Left(group_heading(table.section)),
            Column::Right(member_heading(table.section)),
            Column::Left("metric"),
            Column::Right("baseline"),
            Column::Right("candidate"),
            Column::Right("delta"),
            Column::Right("%"),
        ];
        let rows = shown.iter().take(style.limit.unwrap_or(usize::MAX));
        table::write(out, columns, rows.map(|row| moved_row(table, row)), style.width)?;
    }
    footer(out, shown.len(), style)?;
    if style.unchanged == Unchanged::Hidden && !common.is_empty() {
        let count = |change| common.iter().filter(|row| row.change == change).count();
        let (unchanged, absent) = (count(Change::Unchanged), count(Change::Absent));
        writeln!(out, "hidden: {unchanged} rows unchanged, {absent} rows without a reading (--unchanged shows them)")?;
    }
    only_in(out, table, Change::BaselineOnly, style)?;
    only_in(out, table, Change::CandidateOnly, style)
}

/// The section's name, and what has to be known to read it.
pub(super) fn heading(out: &mut dyn Write, table: &Table) -> io::Result<()> {
    writeln!(out, "\n{}", table.section.name())?;
    table.notes.iter().try_for_each(|note| writeln!(out, "  {}", escaped(note)))
}

pub(super) fn group_heading(section: Section) -> &'static str {
    if section.is_of_cgroups() { "cgroup" } else { "group" }
}

pub(super) fn member_heading(section: Section) -> &'static str {
    match section {
        Section::Primary | Section::TaskstatsDelay | Section::Derived => "threads",
        section if section.is_of_cgroups() => "cgroups",
        _ => "",
    }
}

fn moved_row(table: &Table, row: &Row) -> [String; 7] {
    let Sides { baseline, candidate } = row.values.as_ref().map(|value| cell(value.as_ref(), row.unit));
    [
        group(table, row),
        members(table, row),
        reading(row),
        baseline,
        candidate,
        delta(row.delta.as_ref(), row.unit),
        percent(row.percent),
    ]
}

/// The group's name; `…` where the kernel may have cut it.
pub(super) fn group(table: &Table, row: &Row) -> String {
    let group = &table.groups[row.group];
    format!("{}{}", group.name, if group.name_cut { "…" } else { "" })
}

/// The reading's name; `*` where some of the group lack it.
pub(super) fn reading(row: &Row) -> String {
    format!("{}{}", row.name, if row.partial { "*" } else { "" })
}

/// How many members the group has, on both sides where they differ.
pub(super) fn members(table: &Table, row: &Row) -> String {
    let count = |members: Option<u64>| members.map_or_else(|| "-".to_owned(), |members| members.to_string());
    match table.groups[row.group].members {
        _ if member_heading(table.section).is_empty() => String::new(),
        Sides { baseline, candidate } if baseline == candidate => count(baseline),
        Sides { baseline: Some(one), candidate: None } | Sides { baseline: None, candidate: Some(one) } => {
            one.to_string()
        }
        Sides { baseline, candidate } => format!("{}→{}", count(baseline), count(candidate)),
    }
}

fn only_in(out: &mut dyn Write, table: &Table, change: Change, style: &Style) -> io::Result<()> {
    let rows: Vec<_> = table.rows.iter().filter(|row| row.change == change).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let side = if change == Change::BaselineOnly { "baseline" } else { "candidate" };
    let mut groups: Vec<_> = rows.iter().map(|row| row.group).collect();
    groups.sort_unstable();
    groups.dedup();
    let s = if groups.len() == 1 { "" } else { "s" };
    writeln!(out, "\n{} only in the {side}: {} group{s}", table.section.name(), groups.len())?;
    let columns = [
        Column::Left(group_heading(table.section)),
        Column::Right(member_heading(table.section)),
        Column::Left("metric"),
        Column::Right(side),
    ];
    let line = |row: &&Row| {
        let value = row.values.baseline.as_ref().or(row.values.candidate.as_ref());
        [group(table, row), members(table, row), reading(row), cell(value, row.unit)]
    };
    let limit = style.limit.unwrap_or(usize::MAX);
    table::write(out, columns, rows.iter().take(limit).map(line), style.width)?;
    footer(out, rows.len(), style)
}

/// What the limit has cut off.
pub(super) fn footer(out: &mut dyn Write, rows: usize, style: &Style) -> io::Result<()> {
    match style.limit.map_or(0, |limit| rows.saturating_sub(limit)) {
        0 => Ok(()),
        cut => writeln!(out, "{cut} more rows (--limit 0 shows all)"),
    }
}
