//! Reports as CSV (RFC 4180): one row per line. Numbers and texts have separate columns, so that tools that
//! detect types detect them correctly.

use std::io::{self, Write};

use csv::{Terminator, Writer, WriterBuilder};

use super::{DisplayOptions, ShownSection, cell_digits, cell_text, decimals, delta_digits, delta_text, escaped};
use crate::compare::{Group, Report, Row};
use crate::model::{Cell, Unit};
use crate::statistics::Estimate;

/// Writes a report as CSV. Errors come from `out`.
pub fn write_csv(out: &mut dyn Write, report: &Report, selection: &DisplayOptions) -> io::Result<()> {
    let mut csv = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(out);
    let sides: &[&str] = if report.is_comparison() { &["baseline", "candidate"] } else { &["value"] };
    let runs: &[&str] = match report.is_repeated() {
        false => &[],
        true if report.is_comparison() => RUNS,
        true => &["runs"],
    };
    let names = heading(sides).into_iter().chain(runs.iter().map(|name| (*name).to_owned()));
    record(&mut csv, names.collect())?;
    for section in &report.sections {
        let shown = ShownSection::new(section, selection);
        for row in &shown.rows {
            let mut fields = fields(shown.group(row), row);
            fields.extend(fields_of_runs(row).into_iter().take(runs.len()));
            record(&mut csv, fields)?;
        }
    }
    csv.flush()
}

fn heading(sides: &[&str]) -> Vec<String> {
    let one = sides.len() == 1;
    let of_side = |what: &str| -> Vec<String> {
        sides.iter().map(|side| if one { what.to_owned() } else { format!("{side}_{what}") }).collect()
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let texts = sides.iter().map(|side| format!("{side}_text")).collect();
    let change = if one { Vec::new() } else { owned(&["change", "delta", "delta_text", "percent"]) };
    let about = owned(&["section", "group", "metric", "unit"]);
    [about, of_side("members"), of_side("covered"), owned(sides), texts, change].concat()
}

fn fields(group: &Group, row: &Row) -> Vec<String> {
    let path = harmless(&group.full_label());
    let name = harmless(&row.name);
    let mut fields = vec![row.section.name().to_owned(), path, name, row.unit.name().to_owned()];
    fields.extend(group.members().iter().map(count));
    fields.extend(row.covered.iter().map(count));
    let cells = row.values.iter().map(|cell| {
        let (number, text) = number_or_text(cell.as_ref(), row.unit, cell_digits, cell_text);
        let is_bound = matches!(cell, Some(Cell::AtLeast { .. }));
        (number, if is_bound { cell_text(cell.as_ref(), row.unit) } else { text })
    });
    let (numbers, texts): (Vec<_>, Vec<_>) = cells.unzip();
    fields.extend(numbers.into_iter().chain(texts));
    if let Some(change) = row.change {
        let (number, text) = number_or_text(row.delta().as_ref(), row.unit, delta_digits, delta_text);
        fields.extend([change.name().to_owned(), number, text, row.percent().map(decimals).unwrap_or_default()]);
    }
    fields
}

const RUNS: &[&str] =
    &["baseline_runs", "candidate_runs", "ratio", "interval_low", "interval_high", "verdict", "runs_needed"];

/// Numbers of runs are separated by spaces. A run without a value is `-`, and no upper limit is empty.
fn fields_of_runs(row: &Row) -> Vec<String> {
    let Some(runs) = &row.runs else { return vec![String::new(); RUNS.len()] };
    let number = |number: &f64| match number {
        number if number.is_nan() => "-".to_owned(),
        number if number.fract() == 0.0 => format!("{number:.0}"),
        number => format!("{number:.6}"),
    };
    let values = |values: &[f64]| values.iter().map(number).collect::<Vec<_>>().join(" ");
    let ratio = |ratio: f64| if ratio.is_finite() { format!("{ratio:.6}") } else { String::new() };
    let estimate = |part: fn(Estimate) -> f64| runs.estimate.map(part).map(ratio).unwrap_or_default();
    let of_sides = runs.values.iter().map(|side| values(side));
    let compared = [
        estimate(|estimate| estimate.change),
        estimate(|estimate| estimate.interval.low),
        estimate(|estimate| estimate.interval.high),
        runs.verdict.map(|verdict| verdict.name().to_owned()).unwrap_or_default(),
        runs.needed.map(|needed| needed.runs.to_string()).unwrap_or_default(),
    ];
    of_sides.chain(compared).collect()
}

/// A text that no spreadsheet takes for a formula: with an apostrophe in front, which they do not show, if it begins like
/// one and is no number. Spreadsheets read full-width signs as the ASCII ones.
pub(super) fn harmless(text: &str) -> String {
    let text = escaped(text);
    let is_formula = text.starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}', '\t', '\r']);
    if is_formula && text.parse::<f64>().is_err() { format!("'{text}") } else { text.into_owned() }
}

fn count(count: &Option<u64>) -> String {
    count.map(|count| count.to_string()).unwrap_or_default()
}

/// The number of a value, or its text if it is not one.
fn number_or_text<T>(
    value: Option<&T>,
    unit: Unit,
    digits: fn(&T) -> Option<String>,
    text: fn(Option<&T>, Unit) -> String,
) -> (String, String) {
    let number = value.and_then(digits);
    let text = value.filter(|_| number.is_none()).map(|value| harmless(&text(Some(value), unit)));
    (number.unwrap_or_default(), text.unwrap_or_default())
}

/// Writes a line. Only the underlying writer can fail.
pub(super) fn record(csv: &mut Writer<impl Write>, fields: Vec<String>) -> io::Result<()> {
    csv.write_record(fields).map_err(|error| match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    })
}
