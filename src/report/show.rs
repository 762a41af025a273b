//! One snapshot as tables.

use std::io::{self, Write};

use super::compare::{described, fact, heading};
use super::table::{self, paragraph};
use super::{Column, Style, Unchanged};
use crate::compare::{Row, Table, View};
use crate::model::Cell;

/// Writes one snapshot's groups.
///
/// # Errors
/// Those of `out`.
pub fn view(out: &mut dyn Write, view: &View, style: &Style) -> io::Result<()> {
    if let Some(side) = &view.side {
        fact(out, "snapshot", &described(side), style)?;
        for gap in &view.gaps {
            fact(out, "missing", &format!("{}: {}", gap.source, gap.reason().unwrap_or_default()), style)?;
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
    heading(out, table, style)?;
    if !shown.is_empty() {
        table::rows(out, table, style.columns(Column::VIEW), &shown, style)?;
    }
    if style.unchanged == Unchanged::Hidden && !table.rows.is_empty() {
        let absent = table.rows.iter().filter(|row| row.values.baseline.is_none()).count();
        let zero = table.rows.len() - shown.len() - absent;
        let hidden = format!("hidden: {zero} rows of 0, {absent} rows without a reading");
        writeln!(out, "{}{hidden} (--unchanged shows them)", paragraph(style))?;
    }
    Ok(())
}
