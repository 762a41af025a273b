//! One snapshot as tables.

use std::io::{self, Write};

use super::compare::{described, footer, group, group_heading, heading, member_heading, members, reading};
use super::escape::escaped;
use super::scale::cell;
use super::table::{self, Column};
use super::{Style, Unchanged};
use crate::compare::{Row, Table, View};
use crate::model::Cell;

/// Writes one snapshot's groups.
///
/// # Errors
/// Those of `out`.
pub fn view(out: &mut dyn Write, view: &View, style: &Style) -> io::Result<()> {
    if let Some(side) = &view.side {
        writeln!(out, "{}", described(side))?;
        for gap in &view.gaps {
            writeln!(out, "missing    {}: {}", gap.source, escaped(&gap.reason))?;
        }
    }
    view.tables.iter().try_for_each(|table| section(out, table, style))
}

fn section(out: &mut dyn Write, table: &Table, style: &Style) -> io::Result<()> {
    let silent = |row: &&Row| matches!(row.values.baseline, None | Some(Cell::Number(0)));
    let shown: Vec<_> = match style.unchanged {
        Unchanged::Hidden => table.rows.iter().filter(|row| !silent(row)).collect(),
        Unchanged::Shown => table.rows.iter().collect(),
    };
    heading(out, table)?;
    if !shown.is_empty() {
        let columns = [
            Column::Left(group_heading(table.section)),
            Column::Right(member_heading(table.section)),
            Column::Left("metric"),
            Column::Right("value"),
        ];
        let limit = style.limit.unwrap_or(usize::MAX);
        table::write(out, columns, shown.iter().take(limit).map(|row| line(table, row)), style.width)?;
    }
    footer(out, shown.len(), style)?;
    if style.unchanged == Unchanged::Hidden && !table.rows.is_empty() {
        let absent = table.rows.iter().filter(|row| row.values.baseline.is_none()).count();
        let zero = table.rows.len() - shown.len() - absent;
        writeln!(out, "hidden: {zero} rows of 0, {absent} rows without a reading (--unchanged shows them)")?;
    }
    Ok(())
}

fn line(table: &Table, row: &Row) -> [String; 4] {
    [group(table, row), members(table, row), reading(row), cell(row.values.baseline.as_ref(), row.unit)]
}
