//! The results of gates as lines, as a Markdown table and as JSON.

use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::escape::escaped;
use super::scale::{cell_text, delta_text, signed};
use super::verdict::{change_text, range_text, runs_text};
use crate::compare::{ALL_GROUPS, Delta, GateChange, GateOutcome, GateResult};
use crate::model::{Cell, Unit};
use crate::statistics::{Interval, Scale};

/// Rows of a Markdown table of gates. Lines on standard error have no limit.
const MOST_ROWS: usize = 20;

/// Writes how many gates passed, and a line per result that did not: failed gates last.
///
/// # Errors
/// Errors of `out`.
pub fn write_gate_lines(out: &mut dyn Write, results: &[GateResult]) -> io::Result<()> {
    if !results.is_empty() {
        writeln!(out, "{}", counts(results))?;
    }
    in_order([GateOutcome::is_unclear, GateOutcome::is_error, GateOutcome::is_failed], results)
        .try_for_each(|result| writeln!(out, "ctprof: gate {}: {}", result.outcome.name(), escaped(&line(result))))
}

/// The results with one of these outcomes, in their order.
fn in_order(outcomes: [fn(&GateOutcome) -> bool; 3], results: &[GateResult]) -> impl Iterator<Item = &GateResult> {
    outcomes.into_iter().flat_map(move |is| results.iter().filter(move |result| is(&result.outcome)))
}

/// The number of gates with each outcome, the worst of their results: `1 gate failed, 2 passed`.
fn counts(results: &[GateResult]) -> String {
    type Is = fn(&GateOutcome) -> bool;
    let outcomes: [(Is, &str); 4] = [
        (GateOutcome::is_failed, "failed"),
        (GateOutcome::is_error, "without a result"),
        (GateOutcome::is_unclear, "unclear"),
        (|_| true, "passed"),
    ];
    let mut counts = [0_usize; 4];
    for gate in results.chunk_by(|a, b| a.gate == b.gate) {
        let is_worst = |(is, _): &(Is, &str)| gate.iter().any(|result| is(&result.outcome));
        counts[outcomes.iter().position(is_worst).unwrap_or(3)] += 1;
    }
    let named = counts.into_iter().zip(outcomes).filter(|(count, _)| *count > 0);
    let texts = named.enumerate().map(|(place, (count, (_, word)))| match (place, count) {
        (0, 1) => format!("1 gate {word}"),
        (0, _) => format!("{count} gates {word}"),
        _ => format!("{count} {word}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// `make run: 3.00s → 3.50s (+16.7%, 95% interval +12.0..+21.0%), bound >10%`.
fn line(result: &GateResult) -> String {
    let mut text = format!("{} {}: ", group(result), result.metric);
    if let GateOutcome::Error(fault) = &result.outcome {
        return text + &format!("{fault}, bound {}", result.bound);
    }
    text += &format!("{} → {}", baseline(result), candidate(result));
    let interval = interval(result).map_or_else(String::new, |interval| format!(", 95% interval {interval}"));
    text += &format!(" ({}{interval}), bound {}", change(result), result.bound);
    if let (GateOutcome::Unclear, Some(runs)) = (&result.outcome, result.runs_needed) {
        text += &format!("; {} runs per side would decide", runs_text(runs));
    }
    text
}

/// The name of the group; in a tree, those of the groups above it too.
fn group(result: &GateResult) -> String {
    if result.group.is_empty() { ALL_GROUPS.to_owned() } else { result.group.join(" » ") }
}

fn baseline(result: &GateResult) -> String {
    value(result, result.values.baseline.as_ref())
}

fn candidate(result: &GateResult) -> String {
    value(result, result.values.of_candidate())
}

/// A value; `*` marks a total without some members.
fn value(result: &GateResult, value: Option<&Cell>) -> String {
    let mark = if result.partial { "*" } else { "" };
    format!("{}{mark}", cell_text(value, result.unit))
}

fn change(result: &GateResult) -> String {
    result.change.map_or_else(|| "-".to_owned(), |change| amount_text(change.scale, change.amount, result.unit))
}

fn interval(result: &GateResult) -> Option<String> {
    let GateChange { scale, interval, .. } = result.change?;
    let Interval { low, high } = interval?;
    Some(range_text([low, high].map(|end| amount_text(scale, end, result.unit))))
}

fn amount_text(scale: Scale, amount: f64, unit: Unit) -> String {
    match scale {
        Scale::Ratio => change_text(amount),
        Scale::Difference => difference_text(amount, unit),
    }
}

fn difference_text(difference: f64, unit: Unit) -> String {
    match unit {
        Unit::Ratio | Unit::Percent | Unit::CountPerSecond | Unit::BytesPerSecond => {
            delta_text(Some(&Delta::Points(difference)), unit)
        }
        _ => {
            #[expect(clippy::cast_possible_truncation, reason = "differences of 64-bit numbers")]
            let whole = difference.round() as i128;
            signed(whole, unit)
        }
    }
}

/// Writes how many gates passed, and a table of the others. Returns how many others there are.
pub(super) fn write_gate_table(
    out: &mut dyn Write,
    results: &[GateResult],
    inline: fn(&str) -> String,
) -> io::Result<usize> {
    let order = [GateOutcome::is_failed, GateOutcome::is_error, GateOutcome::is_unclear];
    let others: Vec<_> = in_order(order, results).collect();
    writeln!(out, "**{}**\n", inline(&counts(results)))?;
    if others.is_empty() {
        return Ok(0);
    }
    writeln!(out, "| {} |", HEADINGS.join(" | "))?;
    writeln!(out, "|---|---|---|---:|---:|---:|---:|---|")?;
    for result in others.iter().take(MOST_ROWS) {
        writeln!(out, "| {} |", cells(result).map(|cell| inline(&cell)).join(" | "))?;
    }
    if others.len() > MOST_ROWS {
        writeln!(out, "\n{} more", others.len() - MOST_ROWS)?;
    }
    writeln!(out)?;
    Ok(others.len())
}

/// The headings of a table of gates.
pub(super) const HEADINGS: [&str; 8] =
    ["result", "group", "metric", "baseline", "candidate", "change", "95% interval", "bound"];

/// The line of a result in a table of gates.
pub(super) fn cells(result: &GateResult) -> [String; 8] {
    let outcome = match &result.outcome {
        GateOutcome::Error(fault) => format!("error: {fault}"),
        other => other.name().to_owned(),
    };
    [
        outcome,
        group(result),
        result.metric.clone(),
        baseline(result),
        candidate(result),
        change(result),
        interval(result).unwrap_or_default(),
        result.bound.clone(),
    ]
}

/// How many gates have each outcome, and all results: those that passed last.
pub(super) fn all_in_order(results: &[GateResult]) -> (String, Vec<&GateResult>) {
    let order = [GateOutcome::is_failed, GateOutcome::is_error, GateOutcome::is_unclear];
    let passed = results.iter().filter(|result| result.outcome == GateOutcome::Passed);
    (counts(results), in_order(order, results).chain(passed).collect())
}

/// The results as JSON.
pub(super) struct GatesJson<'r>(pub(super) &'r [GateResult]);

impl Serialize for GatesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(GateJson))
    }
}

struct GateJson<'r>(&'r GateResult);

impl Serialize for GateJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(result) = self;
        let interval = result.change.and_then(|change| change.interval);
        let fault = match &result.outcome {
            GateOutcome::Error(fault) => Some(fault),
            _ => None,
        };
        let measure = result.change.map_or("none", |change| match change.scale {
            Scale::Ratio => "ratio",
            Scale::Difference => "difference",
        });
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("gate", &result.text)?;
        map.serialize_entry("group", &result.group.last())?;
        map.serialize_entry("path", &result.group)?;
        map.serialize_entry("metric", &result.metric)?;
        map.serialize_entry("unit", result.unit.name())?;
        map.serialize_entry("bound", &result.bound)?;
        map.serialize_entry("runs", &result.runs)?;
        map.serialize_entry("baseline", &result.values.baseline)?;
        map.serialize_entry("candidate", &result.values.candidate)?;
        map.serialize_entry("partial", &result.partial)?;
        map.serialize_entry("measure", measure)?;
        map.serialize_entry("change", &result.change.map(|change| change.amount))?;
        map.serialize_entry("interval", &interval.map(|Interval { low, high }| [low, high]))?;
        map.serialize_entry("p", &result.p)?;
        map.serialize_entry("runs_needed", &result.runs_needed)?;
        map.serialize_entry("outcome", result.outcome.name())?;
        map.serialize_entry("error", &fault)?;
        map.end()
    }
}
