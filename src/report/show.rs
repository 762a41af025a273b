//! One snapshot as a table.

use std::io::{self, Write};

use super::compare::{described, footer};
use super::escape::escaped;
use super::scale::cell;
use super::table::{self, Column};
use super::{Style, Unchanged};
use crate::compare::{View, ViewRow};
use crate::model::Cell;

/// Writes one snapshot's groups.
///
/// # Errors
/// Those of `out`.
pub fn view(out: &mut dyn Write, view: &View, style: &Style) -> io::Result<()> {
    writeln!(out, "{}", described(&view.side))?;
    for gap in &view.gaps {
        writeln!(out, "missing    {}: {}", escaped(&gap.source), escaped(&gap.reason))?;
    }
    let silent = |row: &&ViewRow| matches!(row.value, None | Some(Cell::Number(0)));
    let shown: Vec<_> = match style.unchanged {
        Unchanged::Hidden => view.rows.iter().filter(|row| !silent(row)).collect(),
        Unchanged::Shown => view.rows.iter().collect(),
    };
    writeln!(out)?;
    let columns = [Column::Left("group"), Column::Right("threads"), Column::Left("metric"), Column::Right("value")];
    let limit = style.limit.unwrap_or(usize::MAX);
    table::write(out, columns, shown.iter().take(limit).map(|row| line(row)), style.width)?;
    footer(out, shown.len(), style)?;
    if style.unchanged == Unchanged::Hidden {
        let absent = view.rows.iter().filter(|row| row.value.is_none()).count();
        let zero = view.rows.len() - shown.len() - absent;
        writeln!(out, "hidden: {zero} rows of 0, {absent} rows without a reading (--unchanged shows them)")?;
    }
    Ok(())
}

fn line(row: &ViewRow) -> [String; 4] {
    let partial = if row.metric.is_partial(row.covered, row.threads) { "*" } else { "" };
    [
        format!("{}{}", row.group, if row.name_cut { "…" } else { "" }),
        row.threads.to_string(),
        format!("{}{partial}", row.metric.name),
        cell(row.value.as_ref(), row.metric.unit),
    ]
}
