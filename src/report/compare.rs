//! A comparison as a table: what is compared, what moved, what is on one side only.

use std::io::{self, Write};

use jiff::Timestamp;

use super::escape::escaped;
use super::scale::{cell, delta, percent, scaled};
use super::table::{self, Column};
use super::{Style, Unchanged};
use crate::compare::{Change, Comparison, Header, Row, Rows, Side, Sides};
use crate::model::{Section, Unit};

/// Writes a comparison.
///
/// # Errors
/// Those of `out`.
pub fn comparison(out: &mut dyn Write, comparison: &Comparison, style: &Style) -> io::Result<()> {
    header(out, &comparison.header)?;
    for section in [Section::Primary, Section::TaskstatsDelay] {
        moved(out, &comparison.rows, section, style)?;
    }
    one_sided(out, &comparison.rows, Change::BaselineOnly, style)?;
    one_sided(out, &comparison.rows, Change::CandidateOnly, style)
}

fn header(out: &mut dyn Write, header: &Header) -> io::Result<()> {
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

fn moved(out: &mut dyn Write, all: &Rows, section: Section, style: &Style) -> io::Result<()> {
    let of_section = || all.rows.iter().filter(|row| row.metric.section == section);
    let hidden = |row: &&Row| matches!(row.change, Change::Unchanged | Change::Absent);
    let comparable = |row: &&Row| !matches!(row.change, Change::BaselineOnly | Change::CandidateOnly);
    let said: Vec<_> = of_section().filter(comparable).collect();
    if said.iter().all(|row| row.change == Change::Absent) {
        return Ok(());
    }
    let shown: Vec<_> = match style.unchanged {
        Unchanged::Hidden => said.iter().copied().filter(|row| !hidden(row)).collect(),
        Unchanged::Shown => said.clone(),
    };
    writeln!(out, "\n{}", section.name())?;
    if !shown.is_empty() {
        let columns = [
            Column::Left("group"),
            Column::Right("threads"),
            Column::Left("metric"),
            Column::Right("baseline"),
            Column::Right("candidate"),
            Column::Right("delta"),
            Column::Right("%"),
        ];
        let rows = shown.iter().take(style.limit.unwrap_or(usize::MAX));
        table::write(out, columns, rows.map(|row| moved_row(all, row)), style.width)?;
    }
    footer(out, shown.len(), style)?;
    if style.unchanged == Unchanged::Hidden {
        let count = |change| said.iter().filter(|row| row.change == change).count();
        let (unchanged, absent) = (count(Change::Unchanged), count(Change::Absent));
        writeln!(out, "hidden: {unchanged} rows unchanged, {absent} rows without a reading (--unchanged shows them)")?;
    }
    Ok(())
}

fn moved_row(all: &Rows, row: &Row) -> [String; 7] {
    let unit = row.metric.unit;
    let partial = if all.is_partial(row) { "*" } else { "" };
    let Sides { baseline, candidate } = row.values.as_ref().map(|value| cell(value.as_ref(), unit));
    [
        group(all, row),
        threads(all.groups[row.group].threads),
        format!("{}{partial}", row.metric.name),
        baseline,
        candidate,
        delta(row.delta.as_ref(), unit),
        percent(row.percent),
    ]
}

fn group(all: &Rows, row: &Row) -> String {
    let group = &all.groups[row.group];
    format!("{}{}", group.name, if group.name_cut { "…" } else { "" })
}

fn threads(threads: Sides<Option<u64>>) -> String {
    let count = |threads: Option<u64>| threads.map_or_else(|| "-".to_owned(), |threads| threads.to_string());
    match threads {
        Sides { baseline, candidate } if baseline == candidate => count(baseline),
        Sides { baseline, candidate } => format!("{}→{}", count(baseline), count(candidate)),
    }
}

fn one_sided(out: &mut dyn Write, all: &Rows, change: Change, style: &Style) -> io::Result<()> {
    let rows: Vec<_> = all.rows.iter().filter(|row| row.change == change).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let heading = if change == Change::BaselineOnly { "baseline" } else { "candidate" };
    let mut groups: Vec<_> = rows.iter().map(|row| row.group).collect();
    groups.sort_unstable();
    groups.dedup();
    let s = if groups.len() == 1 { "" } else { "s" };
    writeln!(out, "\nonly in the {heading}: {} group{s}", groups.len())?;
    let columns = [Column::Left("group"), Column::Right("threads"), Column::Left("metric"), Column::Right(heading)];
    let line = |row: &&Row| {
        let Sides { baseline, candidate } = all.groups[row.group].threads;
        let threads = baseline.or(candidate).unwrap_or(0).to_string();
        [
            group(all, row),
            threads,
            row.metric.name.to_owned(),
            cell(row.values.baseline.as_ref().or(row.values.candidate.as_ref()), row.metric.unit),
        ]
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
