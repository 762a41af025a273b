//! Reports as CSV (RFC 4180): one row a line, raw numbers.

use std::io::{self, Write};

use super::scale::ranges;
use crate::compare::{Comparison, Delta, Row, Sides, Table, View};
use crate::model::Cell;

/// Writes a comparison.
///
/// # Errors
/// Those of `out`.
pub fn comparison_csv(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
    record(&mut csv, ["section", "group", "threads", "metric", "unit", "baseline", "candidate", "delta", "percent"])?;
    for (table, row) in rows(&comparison.tables) {
        let Sides { baseline, candidate } =
            row.values.as_ref().map(|value| value.as_ref().map(cell).unwrap_or_default());
        let delta = row.delta.as_ref().map(delta).unwrap_or_default();
        let percent = row.percent.map(|percent| format!("{percent:.3}")).unwrap_or_default();
        let [section, group, members, name, unit] = place(table, row);
        record(&mut csv, [section, group, members, name, unit, baseline, candidate, delta, percent])?;
    }
    csv.flush()
}

/// Writes one snapshot's groups.
///
/// # Errors
/// Those of `out`.
pub fn view_csv(out: &mut dyn Write, view: &View) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
    record(&mut csv, ["section", "group", "threads", "metric", "unit", "value"])?;
    for (table, row) in rows(&view.tables) {
        let value = row.values.baseline.as_ref().map(cell).unwrap_or_default();
        let [section, group, members, name, unit] = place(table, row);
        record(&mut csv, [section, group, members, name, unit, value])?;
    }
    csv.flush()
}

/// Writes a line; whatever fails is the writer below.
fn record<const N: usize>(csv: &mut csv::Writer<impl Write>, fields: [impl AsRef<[u8]>; N]) -> io::Result<()> {
    csv.write_record(fields).map_err(|error| match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    })
}

fn rows(tables: &[Table]) -> impl Iterator<Item = (&Table, &Row)> {
    tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)))
}

fn place(table: &Table, row: &Row) -> [String; 5] {
    let group = &table.groups[row.group];
    let members = group.members.candidate.or(group.members.baseline).map(|members| members.to_string());
    let path = super::escape::escaped(&group.path.join(" » ")).into_owned();
    let name = super::escape::escaped(&row.name).into_owned();
    [table.section.name().to_owned(), path, members.unwrap_or_default(), name, row.unit.name().to_owned()]
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) => number.to_string(),
        Cell::Signed(number) => number.to_string(),
        Cell::Ratio(ratio) => format!("{ratio:.6}"),
        Cell::Range { min, max } => format!("{min}..{max}"),
        Cell::Mode { value, .. } | Cell::Word(value) => super::escape::escaped(value).into_owned(),
        Cell::Cpus { cpus: Some(cpus), .. } => ranges(cpus),
        Cell::Cpus { fewest, most, .. } => format!("{fewest}..{most} cpus"),
    }
}

fn delta(delta: &Delta) -> String {
    match delta {
        Delta::Number(number) => number.to_string(),
        Delta::Points(points) => format!("{points:.6}"),
        Delta::Range { min, max } => format!("{min}..{max}"),
        Delta::Changed { .. } => "changed".to_owned(),
        Delta::Same => "same".to_owned(),
        Delta::Cpus { moved: true, .. } => "moved".to_owned(),
        Delta::Cpus { fewest, most, .. } => format!("{fewest}..{most}"),
    }
}
