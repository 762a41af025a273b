//! Pages as CSV (RFC 4180): one row per line. Numbers and texts have separate columns, so that tools that
//! detect types detect them correctly.

use std::io::{self, Write};

use csv::{Terminator, Writer, WriterBuilder};

use super::columns::{Column, Number, PageCell};
use super::escape::escaped;
use super::page::{Page, PageGroup, PageRow, Sided};
use crate::statistics::Estimate;

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
    let runs = if page.is_repeated { RUNS } else { &[] };
    let names = heading(sides).into_iter().chain(runs.iter().map(|name| (*name).to_owned()));
    record(&mut csv, names.collect())?;
    for section in &page.sections {
        for row in &section.rows {
            let mut fields = fields(&section.groups[row.group], row, sides);
            if page.is_repeated {
                fields.extend(fields_of_runs(row));
            }
            record(&mut csv, fields)?;
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

/// The columns about several runs.
const RUNS: &[&str] =
    &["baseline_runs", "candidate_runs", "ratio", "interval_low", "interval_high", "verdict", "runs_needed"];

/// Numbers of runs are separated by spaces. A run without a value is `-`, and no upper limit is empty.
fn fields_of_runs(row: &PageRow<'_>) -> Vec<String> {
    let Some(runs) = row.runs else { return vec![String::new(); RUNS.len()] };
    let number = |number: &f64| match number {
        number if number.is_nan() => "-".to_owned(),
        number if number.fract() == 0.0 => format!("{number:.0}"),
        number => format!("{number:.6}"),
    };
    let values = |values: &[f64]| values.iter().map(number).collect::<Vec<_>>().join(" ");
    let ratio = |ratio: f64| if ratio.is_finite() { format!("{ratio:.6}") } else { String::new() };
    let estimate = |part: fn(Estimate) -> f64| runs.estimate.map(part).map(ratio).unwrap_or_default();
    vec![
        values(&runs.values.baseline),
        values(&runs.values.candidate),
        estimate(|estimate| estimate.ratio),
        estimate(|estimate| estimate.interval.low),
        estimate(|estimate| estimate.interval.high),
        runs.verdict.map(|verdict| verdict.name().to_owned()).unwrap_or_default(),
        runs.needed.map(|needed| needed.runs.to_string()).unwrap_or_default(),
    ]
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
