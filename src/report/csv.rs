//! Pages as CSV (RFC 4180): one row per line. Numbers and texts have separate columns, so that tools that
//! detect types detect them correctly.

use std::io::{self, Write};

use csv::{Terminator, Writer, WriterBuilder};

use super::columns::{Column, Number, PageCell};
use super::escape::escaped;
use super::page::{Page, PageGroup, PageRow, Sided};

/// Writes a page as CSV.
///
/// # Errors
/// Errors of `out`.
pub fn write_csv(out: &mut dyn Write, page: &Page<'_>) -> io::Result<()> {
    let mut csv = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(out);
    let sides: &[(&str, Column)] = match page.renamed {
        Some(_) => &[("baseline", Column::Baseline), ("candidate", Column::Candidate)],
        None => &[("value", Column::Value)],
    };
    record(&mut csv, heading(sides))?;
    for section in &page.sections {
        for row in &section.rows {
            record(&mut csv, fields(&section.groups[row.group], row, sides))?;
        }
    }
    csv.flush()
}

fn heading(sides: &[(&str, Column)]) -> Vec<String> {
    let one = sides.len() == 1;
    let of_side = |what: &str| -> Vec<String> {
        sides.iter().map(|(side, _)| if one { what.to_owned() } else { format!("{side}_{what}") }).collect()
    };
    let mut names: Vec<String> = ["section", "group", "metric", "unit"].map(str::to_owned).into();
    names.extend(of_side("members"));
    names.extend(of_side("covered"));
    names.extend(sides.iter().map(|(side, _)| (*side).to_owned()));
    names.extend(sides.iter().map(|(side, _)| format!("{side}_text")));
    if !one {
        names.extend(["change", "delta", "delta_text", "percent"].map(str::to_owned));
    }
    names
}

fn fields(group: &PageGroup<'_>, row: &PageRow<'_>, sides: &[(&str, Column)]) -> Vec<String> {
    let path = escaped(&group.path.join(" » ")).into_owned();
    let mut fields =
        vec![row.section.name().to_owned(), path, escaped(row.name).into_owned(), row.unit.name().to_owned()];
    fields.extend(group.members.values().map(count));
    fields.extend(row.covered.values().map(count));
    let cells: Vec<PageCell> = sides.iter().map(|(_, column)| column.cell(group, row)).collect();
    let present: Vec<bool> = row.values.values().map(Option::is_some).collect();
    fields.extend(cells.iter().map(number));
    fields.extend(cells.iter().zip(present).map(|(cell, present)| if present { text(cell) } else { String::new() }));
    if let (Sided::Two(_), Some(change)) = (&row.values, row.change) {
        let delta = Column::Delta.cell(group, row);
        let word = if row.delta.is_some() { text(&delta) } else { String::new() };
        fields.extend([change.name().to_owned(), number(&delta), word, number(&Column::Percent.cell(group, row))]);
    }
    fields
}

fn count(count: &Option<u64>) -> String {
    count.map(|count| count.to_string()).unwrap_or_default()
}

fn number(cell: &PageCell) -> String {
    match cell.number {
        Some(Number::Integer(number)) => number.to_string(),
        Some(Number::Real(number)) => format!("{number:.6}"),
        None => String::new(),
    }
}

/// The text of a cell that is not a number.
fn text(cell: &PageCell) -> String {
    if cell.number.is_some() { String::new() } else { escaped(&cell.text).into_owned() }
}

/// Writes a line. Only the underlying writer can fail.
fn record(csv: &mut Writer<impl Write>, fields: Vec<String>) -> io::Result<()> {
    csv.write_record(fields).map_err(|error| match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    })
}
