//! The results of gates as lines, as cells of tables and as JSON.

use std::cmp::Reverse;
use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{cell_text, change_text, delta_text, escaped, interval_json, range_text, runs_text};
use crate::compare::{ALL_GROUPS, Delta, GateCause, GateChange, GateOutcome, GateResult, GroupReason};
use crate::diagnose::counted;
use crate::model::sorted::Arrange;
use crate::model::{Cell, Unit};
use crate::statistics::{Interval, Scale};

/// The outcomes of gates, worst first.
const OUTCOMES: [&str; 4] = ["failed", "could not be evaluated", "unclear", "passed"];
const PASSED: usize = 3;

fn rank(result: &GateResult) -> usize {
    match result.outcome {
        GateOutcome::Failed => 0,
        GateOutcome::Error(_) => 1,
        GateOutcome::Unclear => 2,
        GateOutcome::Passed => PASSED,
    }
}

/// Returns the results, with gates that did not pass first.
pub(super) fn worst_first(results: &[GateResult]) -> Vec<&GateResult> {
    let mut ordered: Vec<_> = results.iter().collect();
    ordered.arrange_by_key(|result| rank(result));
    ordered
}

/// Writes how many gates passed, and a line per result that did not: failed gates last. Errors come from `out`.
pub fn write_gate_lines(out: &mut dyn Write, results: &[GateResult]) -> io::Result<()> {
    if !results.is_empty() {
        writeln!(out, "{}", counts(results))?;
    }
    let mut others: Vec<_> = results.iter().filter(|result| needs_attention(result)).collect();
    others.arrange_by_key(|result| Reverse(rank(result)));
    others
        .into_iter()
        .try_for_each(|result| writeln!(out, "ctprof: gate {}: {}", result.outcome.name(), escaped(&line(result))))
}

/// The number of gates with each outcome, the worst of their results: `1 gate failed, 2 passed`.
pub(super) fn counts(results: &[GateResult]) -> String {
    let mut counts = [0_usize; OUTCOMES.len()];
    for gate in results.chunk_by(|a, b| a.gate == b.gate) {
        counts[gate.iter().map(rank).min().unwrap_or(PASSED)] += 1;
    }
    let named = counts.into_iter().zip(OUTCOMES).filter(|(count, _)| *count > 0);
    let texts = named.enumerate().map(|(place, (count, word))| match place {
        0 => format!("{} {word}", counted(count, "gate")),
        _ => format!("{count} {word}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// `make run: 3.00s → 3.50s (+16.7%, 95% interval +12.0..+21.0%), bound >10%`; of several gates with a wider interval. Then
/// what contributes most to a failure: `; mostly cc1 run +0.48s`.
fn line(result: &GateResult) -> String {
    let [_, group, metric, baseline, candidate, change, interval, bound, mostly] = cells(result);
    if let GateOutcome::Error(fault) = &result.outcome {
        return format!("{group} {metric}{bound}: {fault}");
    }
    let interval = if interval.is_empty() { interval } else { format!(", {interval}") };
    let needed = result.runs_needed.filter(|_| result.outcome == GateOutcome::Unclear);
    let needed = needed
        .map(|runs| format!("; {} runs per side would decide in 4 of 5 cases", runs_text(runs)))
        .unwrap_or_default();
    let mostly = if mostly.is_empty() { mostly } else { format!("; mostly {mostly}") };
    format!("{group} {metric}: {baseline} → {candidate} ({change}{interval}), bound {bound}{needed}{mostly}")
}

/// Returns the largest contribution to a failure: `cc1 wait +0.48s: rustc ran`.
fn mostly(GateCause { group, value, unit, delta, reason }: &GateCause) -> String {
    let reason = reason.as_ref().map(|reason| format!(": {}", reason_text(reason))).unwrap_or_default();
    format!("{} {value} {}{reason}", group.join(" » "), delta_text(delta.as_ref(), *unit))
}

/// How the threads got to where they wait, and what they wait for.
fn reason_text(reason: &GroupReason) -> String {
    reason.place() + &reason.target(str::to_owned)
}

fn change(result: &GateResult) -> [String; 2] {
    let Some(GateChange { scale, amount, interval, level, .. }) = result.change else {
        return ["-".to_owned(), String::new()];
    };
    let text = |amount| match scale {
        Scale::Ratio => change_text(amount),
        Scale::Difference => difference_text(amount, result.unit),
    };
    let level = (level * 1000.0).round() / 10.0;
    let interval =
        interval.map(|Interval { low, high }| format!("{level}% interval {}", range_text([low, high].map(text))));
    [if amount == f64::INFINITY { "new".to_owned() } else { text(amount) }, interval.unwrap_or_default()]
}

fn difference_text(difference: f64, unit: Unit) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "differences of 64-bit numbers")]
    let whole = Delta::Number(difference.round() as i128);
    let is_share = unit.is_rate() || unit == Unit::Ratio;
    delta_text(Some(&if is_share { Delta::Points(difference) } else { whole }), unit)
}

pub(super) const HEADINGS: [&str; 9] =
    ["result", "group", "metric", "baseline", "candidate", "change", "interval", "bound", "mostly"];

/// Whether it is something else than that a gate passed.
pub(super) fn needs_attention(result: &GateResult) -> bool {
    rank(result) < PASSED
}

/// The line of a result in a table of gates.
pub(super) fn cells(result: &GateResult) -> [String; 9] {
    let outcome = match &result.outcome {
        GateOutcome::Error(fault) => format!("error: {fault}"),
        other => other.name().to_owned(),
    };
    // In a tree, the names of the groups above it too.
    let group = if result.group.is_empty() { ALL_GROUPS.to_owned() } else { result.group.join(" » ") };
    // `*` marks a total without some members.
    let mark = if result.partial { "*" } else { "" };
    let value = |cell: Option<&Cell>| format!("{}{mark}", cell_text(cell, result.unit));
    let (baseline, candidate) = (value(result.values.baseline.as_ref()), value(result.values.of_candidate()));
    let [change, interval] = change(result);
    let mostly = result.cause.as_ref().map(mostly).unwrap_or_default();
    [outcome, group, result.metric.clone(), baseline, candidate, change, interval, result.bound.clone(), mostly]
}

impl Serialize for GateCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("group", &self.group.last())?;
        map.serialize_entry("path", &self.group)?;
        map.serialize_entry("metric", &self.value)?;
        map.serialize_entry("unit", self.unit.name())?;
        map.serialize_entry("delta", &self.delta)?;
        map.serialize_entry("reason", &self.reason.as_ref().map(|reason| reason_text(reason)))?;
        map.end()
    }
}

impl Serialize for GateResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let interval = self.change.and_then(|change| change.interval);
        let fault = if let GateOutcome::Error(fault) = &self.outcome { Some(fault) } else { None };
        let measure = self.change.map_or("none", |change| match change.scale {
            Scale::Ratio => "ratio",
            Scale::Difference => "difference",
        });
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("gate", &self.text)?;
        map.serialize_entry("group", &self.group.last())?;
        map.serialize_entry("path", &self.group)?;
        map.serialize_entry("metric", &self.metric)?;
        map.serialize_entry("unit", self.unit.name())?;
        map.serialize_entry("bound", &self.bound)?;
        map.serialize_entry("runs", &self.runs)?;
        map.serialize_entry("baseline", &self.values.baseline)?;
        map.serialize_entry("candidate", &self.values.candidate)?;
        map.serialize_entry("partial", &self.partial)?;
        map.serialize_entry("measure", measure)?;
        map.serialize_entry("change", &self.change.map(|change| change.amount))?;
        map.serialize_entry("interval", &interval.map(interval_json))?;
        map.serialize_entry("p", &self.p)?;
        map.serialize_entry("runs_needed", &self.runs_needed)?;
        map.serialize_entry("outcome", self.outcome.name())?;
        map.serialize_entry("error", &fault)?;
        map.serialize_entry("cause", &self.cause)?;
        map.end()
    }
}
