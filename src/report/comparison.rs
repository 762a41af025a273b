//! The page of a comparison.

use serde_json::json;

use super::page::{Fact, Line, Page, PageGroup, PageRow, PageSection, Selection, Sided, Tone};
use super::scale::spaced;
use super::view::described;
use super::window;
use crate::compare::{Comparison, ComparisonTable, Difference, Header, Per, Row, Side, Sides, Threshold};
use crate::diagnose::Warning;
use crate::model::{Section, Unit};
use crate::statistics::{Design, MIN_RUNS};

impl<'r> Page<'r> {
    /// The page of a comparison.
    #[must_use]
    pub fn of_comparison(comparison: &'r Comparison, selection: Selection) -> Self {
        let header = comparison.header.as_ref();
        Self {
            facts: header
                .map(facts)
                .into_iter()
                .flatten()
                .chain([per(comparison)])
                .chain(threshold(comparison))
                .chain(design(comparison))
                .collect(),
            group_by: comparison.group_by,
            sections: comparison.tables.iter().map(|table| section(table, selection)).collect(),
            is_repeated: comparison.is_repeated(),
            renamed: Some(&comparison.renamed),
            gates: Some(&comparison.gates),
            tree: None,
        }
    }
}

fn section<'r>(table: &'r ComparisonTable, selection: Selection) -> PageSection<'r> {
    let groups = table.groups.iter().map(|group| PageGroup {
        name: &group.name,
        path: &group.path,
        name_cut: group.name_cut,
        renamed: group.renamed,
        members: Sided::Two(group.population.map(|side| side.map(|population| population.members))),
        exited_work: group.population.as_ref().into_iter().flatten().find_map(|population| population.exited_work),
        turnover: Sided::Two(group.population.map(|side| side.map(|population| population.turnover))),
        uptime: Sided::Two(group.population.map(|side| side.and_then(|population| population.uptime))),
    });
    let row = |row: &'r Row| PageRow {
        section: table.section,
        group: row.group,
        name: &row.name,
        unit: row.unit,
        quantity: row.quantity,
        values: Sided::Two(row.values.as_ref().map(Option::as_ref)),
        covered: Sided::Two(row.covered),
        partial: row.partial,
        delta: row.delta.as_ref(),
        percent: row.percent,
        change: Some(row.change),
        runs: row.runs.as_deref(),
        leads: row.leads,
    };
    PageSection::new(table.section, &table.notes, groups.collect(), table.rows.iter().map(row), selection)
}

fn facts(header: &Header) -> Vec<Fact> {
    let Sides { baseline, candidate } = &header.sides;
    let side = |key, side: &Side| Fact {
        key,
        data: json!(side),
        lines: match (&side.runs, &side.window) {
            (Some(runs), window) => window::lines_of_runs(key, side, runs, window.as_ref()),
            (None, Some(window)) if !window.since_baseline => window::lines(key, side, window),
            _ => vec![Line { label: key, text: described(side), tone: Tone::Fact }],
        },
    };
    let since = candidate.window.as_ref().filter(|window| window.since_baseline);
    let since = since.map(|window| window::lines("activity", candidate, window));
    let warning = |warning: &Warning| Line { label: "warning", text: warning.to_string(), tone: Tone::Warning };
    let is_repeated = header.sides.as_ref().into_iter().any(|side| side.runs.is_some());
    let apart_lines = if is_repeated { Vec::new() } else { vec![apart(header.apart_ns)] };
    vec![
        side("baseline", baseline),
        side("candidate", candidate),
        Fact { key: "apart_ns", data: json!(header.apart_ns), lines: since.unwrap_or(apart_lines) },
        Fact { key: "differences", data: json!(header.differences), lines: differences(header.differences.as_deref()) },
        Fact { key: "warnings", data: json!(header.warnings), lines: header.warnings.iter().map(warning).collect() },
    ]
}

/// What the overview's values are divided by. Two snapshots have totals.
fn per(comparison: &Comparison) -> Fact {
    let has_overview = comparison.tables.iter().any(|table| table.section == Section::Overview);
    let sides = comparison.header.as_ref().map(|header| &header.sides);
    let are_windows = sides.is_some_and(|sides| sides.as_ref().into_iter().all(|side| side.window.is_some()));
    let text = match comparison.per {
        Per::Second => Some("values are per second"),
        Per::CpuSecond => Some("values are per CPU-second of all groups"),
        _ => are_windows.then_some("values are totals of each run"),
    };
    let line = text.filter(|_| has_overview).map(|text| Line { label: "", text: text.to_owned(), tone: Tone::Fact });
    Fact { key: "per", data: json!(comparison.per), lines: line.into_iter().collect() }
}

/// What verdicts are about, or why there are none.
fn threshold(comparison: &Comparison) -> Option<Fact> {
    let Threshold(threshold) = comparison.threshold?;
    let (label, text, tone) = if comparison.runs.into_iter().all(|runs| runs >= MIN_RUNS) {
        let within = format!("±{}%", (threshold * 1e4).round() / 1e2);
        let is_long = comparison.tables.iter().all(|table| table.section != Section::Overview);
        let hint = if is_long { "" } else { " (--long shows them)" };
        let paired = if comparison.design == Design::Paired { " of paired runs" } else { "" };
        let text = format!("against {within}, by 95% intervals of the ratio of medians{paired}{hint}");
        ("verdicts", text, Tone::Fact)
    } else {
        ("note", format!("no intervals or verdicts with fewer than {MIN_RUNS} runs per side"), Tone::Warning)
    };
    Some(Fact { key: "threshold", data: json!(threshold), lines: vec![Line { label, text, tone }] })
}

/// Whether the runs are paired, for programs; the verdicts' line says it.
fn design(comparison: &Comparison) -> Option<Fact> {
    let name = comparison.threshold.map(|_| comparison.design.name())?;
    Some(Fact { key: "design", data: json!(name), lines: Vec::new() })
}

fn apart(apart_ns: Option<i128>) -> Line {
    let text = match apart_ns {
        None => "capture time unknown on one side".to_owned(),
        Some(0) => "captured at the same time: the snapshots are identical".to_owned(),
        Some(apart @ 1..) => format!("captured {} after the baseline", spaced(apart.unsigned_abs(), Unit::Ns)),
        Some(apart) => format!("captured {} before the baseline", spaced(apart.unsigned_abs(), Unit::Ns)),
    };
    Line { label: "", text, tone: Tone::Fact }
}

fn differences(differences: Option<&[Difference]>) -> Vec<Line> {
    let line = |label, text: &str| Line { label, text: text.to_owned(), tone: Tone::Fact };
    let Some(differences) = differences else { return vec![line("host", "unknown on one side")] };
    let texts: Vec<String> = differences.iter().filter_map(difference).collect();
    let lines: Vec<_> =
        texts.iter().enumerate().map(|(at, text)| line(if at == 0 { "host" } else { "" }, text)).collect();
    if lines.is_empty() { vec![line("host", "same")] } else { lines }
}

/// The differences between the hosts; of the load averages, only the one over a minute.
fn difference(difference: &Difference) -> Option<String> {
    let value = |value: Option<&String>| value.map_or("-", String::as_str).to_owned();
    let Sides { baseline, candidate } = difference.values.as_ref().map(|side| value(side.as_ref()));
    if difference.field != "loadavg" {
        return Some(format!("{}: {baseline} → {candidate}", difference.field));
    }
    let minute = |loads: &str| loads.split(' ').next().unwrap_or_default().to_owned();
    let (before, after) = (minute(&baseline), minute(&candidate));
    (before != after).then(|| format!("load: {before} → {after}"))
}
