//! The facts before the sections of a report: its sides, what differs between them, what is missing.

use std::fmt::Display;

use jiff::Timestamp;
use serde_json::json;

use super::{
    Fact, FactData, FactLine, cell_text, change_text, interval_json, interval_text, percent_text, spaced, verdict_text,
    window,
};
use crate::compare::{
    Difference, ELAPSED, EndOfRuns, EndedEarly, Header, Per, Report, ReportSection, Row, Scope, SideSummary, Sides,
    Threshold,
};
use crate::diagnose::{Finding, Warning, counted};
use crate::model::sorted::CollectSorted;
use crate::model::{Section, Unit};
use crate::statistics::{Design, Estimate, MIN_RUNS, TAIL, Verdict};

pub(super) fn report_facts(report: &Report) -> Vec<Fact<'_>> {
    if !report.is_comparison() {
        return of_one_side(report);
    }
    let sides = report.header.as_ref().and_then(|header| {
        let Sides { baseline, candidate } = &header.sides;
        Some(of_sides(header, baseline, candidate.as_ref()?))
    });
    let sides = sides.into_iter().flatten().chain(report.elapsed().map(elapsed));
    let ended = report.ended_early.map(|ended| ended_early(ended, report.runs));
    sides
        .chain(ended)
        .chain([per(report), scope(report)])
        .chain(threshold(report))
        .chain(tail(report))
        .chain(design(report))
        .collect()
}

fn of_one_side(report: &Report) -> Vec<Fact<'_>> {
    let header = report.header.as_ref();
    let side = header.map(|header| &header.sides.baseline);
    let host = header.iter().flat_map(|header| &header.host).map(|(field, value)| (field.as_str(), value.as_str()));
    let label = side.map_or("snapshot", |side| match (&side.runs, &side.window) {
        (Some(_), _) => "runs",
        (None, Some(_)) => "window",
        (None, None) => "snapshot",
    });
    let gaps = if side.is_some() { gaps(report) } else { Vec::new() };
    let warnings = header.map(|header| &header.warnings[..]).unwrap_or_default();
    let about = side.map(|side| about(label, side)).unwrap_or_default();
    let is_divided = |section: &ReportSection| {
        !matches!(section.section, Section::Overview | Section::Reasons)
            && section.rows.iter().any(|row| row.unit.is_rate())
    };
    let has_per_lines = matches!(report.per, Per::Unit | Per::CpuSecond)
        || report.section(Section::Overview).is_some() && report.threshold.is_some()
        || report.sections.iter().any(is_divided);
    let per_lines = if has_per_lines { per(report).lines } else { Vec::new() };
    vec![
        Fact::new("snapshot", FactData::Side(side), about),
        Fact { lines: per_lines, ..per(report) },
        scope(report),
        Fact::new("host", FactData::Plain(json!(host.into_map())), Vec::new()),
        Fact::new("gaps", FactData::Gaps(&report.gaps), gaps),
        Fact::new("warnings", FactData::Warnings(warnings), warnings.iter().map(warning).collect()),
    ]
}

/// Whether the report has more than an overview, and says for each gap why it is one.
pub(super) fn explains_gaps(report: &Report) -> bool {
    report.sections.iter().any(|section| section.section != Section::Overview)
}

/// Returns the gaps of the values that the report shows; for an overview alone, only for how many threads.
fn gaps(report: &Report) -> Vec<FactLine> {
    if explains_gaps(report) {
        return report.needed_gaps().map(|gap| FactLine::fact("missing", gap.to_string())).collect();
    }
    let mut sources: Vec<_> = report.needed_gaps().map(Finding::extent).collect();
    // A source can be missing for several reasons.
    sources.dedup();
    let text = format!("{} (--long says why)", sources.join(", "));
    if sources.is_empty() { Vec::new() } else { vec![FactLine::fact("partial", text)] }
}

fn about(label: &'static str, side: &SideSummary) -> Vec<FactLine> {
    match (&side.runs, &side.window) {
        (Some(runs), window) => window::lines_of_runs(label, side, runs, window.as_ref()),
        (None, Some(window)) if !window.since_baseline => window::lines(label, side, window),
        _ => vec![FactLine::fact(label, described(side))],
    }
}

fn of_sides<'r>(header: &'r Header, baseline: &'r SideSummary, candidate: &'r SideSummary) -> Vec<Fact<'r>> {
    let since = candidate.window.as_ref().filter(|window| window.since_baseline);
    let since = since.map(|window| window::lines("activity", candidate, window));
    let is_repeated = header.sides.iter().any(|side| side.runs.is_some());
    let apart_lines = if is_repeated { Vec::new() } else { vec![apart(header.apart_ns)] };
    let found = header.differences.as_deref();
    vec![
        Fact::new("baseline", FactData::Side(Some(baseline)), about("baseline", baseline)),
        Fact::new("candidate", FactData::Side(Some(candidate)), about("candidate", candidate)),
        Fact::new("apart_ns", FactData::Plain(json!(header.apart_ns)), since.unwrap_or(apart_lines)),
        Fact::new("differences", FactData::Differences(found), differences(found)),
        Fact::new("warnings", FactData::Warnings(&header.warnings), header.warnings.iter().map(warning).collect()),
    ]
}

fn warning(warning: &Warning) -> FactLine {
    FactLine::warning("warning", warning.to_string())
}

/// How long the commands took, which is what matters most. A change beside an interval is the estimate in it.
fn elapsed(row: &Row) -> Fact<'_> {
    let [baseline, candidate] = [row.values.baseline.as_ref(), row.values.of_candidate()];
    let mut data = json!({"baseline": baseline, "candidate": candidate});
    if let Some(runs) = &row.runs {
        data["interval"] = json!(runs.estimate.map(|estimate| interval_json(estimate.interval)));
        data["verdict"] = json!(runs.verdict.map(Verdict::name));
    }
    let [baseline, candidate] = [baseline, candidate].map(|cell| cell_text(cell, row.unit));
    let change = match (row.runs.as_deref().and_then(|runs| runs.estimate), percent_text(row.percent())) {
        (Some(Estimate { change, .. }), _) => {
            format!(" ({}, 95% interval {})", change_text(change), interval_text(row.runs.as_deref()))
        }
        (None, percent) if !percent.is_empty() => format!(" ({percent})"),
        _ => String::new(),
    };
    let text = format!("{baseline} → {candidate}{change}  {}", verdict_text(row));
    Fact::new(ELAPSED, FactData::Plain(data), vec![FactLine::fact(ELAPSED, text.trim_end())])
}

/// Why there are fewer runs than planned: `after 8 of 20 runs per side: the time of --max-time is over`.
pub(crate) fn ended_early_text(EndedEarly { planned, by }: EndedEarly, made: impl Display) -> String {
    let why = match by {
        EndOfRuns::Time => "the time of --max-time is over",
        EndOfRuns::Decided => "elapsed and all gates are decided",
    };
    format!("after {made} of {planned} runs per side: {why}")
}

fn ended_early(ended @ EndedEarly { planned, by }: EndedEarly, runs: Sides<usize>) -> Fact<'static> {
    let made = runs.into_iter().min().unwrap_or_default();
    let line = FactLine::fact("ended", ended_early_text(ended, made));
    Fact::new("ended_early", FactData::Plain(json!({"planned": planned, "by": by})), vec![line])
}

/// Returns the line on the divisor of the overview's values. Two snapshots have totals.
fn per(report: &Report) -> Fact<'static> {
    let sides = report.header.as_ref().map(|header| &header.sides);
    let are_windows = sides.is_some_and(|sides| sides.iter().all(|side| side.window.is_some()));
    let text = match report.per {
        Per::Second => Some("values are per second"),
        Per::CpuSecond => Some("values are per CPU-second of all groups"),
        Per::Unit => Some("values are per unit of work (--per-unit)"),
        Per::Run => are_windows.then_some("values are totals of each run"),
    };
    let scope = match &report.scope {
        Scope::Command => ", of the command and its descendants (all threads: --scope host)".to_owned(),
        Scope::Container(glob) => format!(", of containers {glob} (all threads: --scope host)"),
        Scope::Pod(glob) => format!(", of pods {glob} (all threads: --scope host)"),
        Scope::Host if report.is_comparison() && !report.names_its_groups => ", of the whole host".to_owned(),
        _ => String::new(),
    };
    let line = text.map(|text| FactLine::fact("", format!("{text}{scope}")));
    Fact::new("per", FactData::Plain(json!(report.per)), line.into_iter().collect())
}

/// Returns the line on the threshold of verdicts, or why there are no verdicts.
fn threshold(report: &Report) -> Option<Fact<'static>> {
    let Threshold(threshold) = report.threshold?;
    let line = if report.runs.into_iter().all(|runs| runs >= MIN_RUNS) {
        let within = format!("±{}%", (threshold * 1e4).round() / 1e2);
        let is_long = report.sections.iter().all(|section| section.section != Section::Overview);
        let hint = if is_long { "" } else { " (--long shows them)" };
        let paired = if report.design == Design::Paired { " of paired runs" } else { "" };
        let looks = if report.tail < TAIL { ", all looks at the runs together" } else { "" };
        let text = format!("against {within}, by 95% intervals of the ratio{paired}{looks}{hint}");
        FactLine::fact("verdicts", text)
    } else {
        FactLine::warning("note", format!("no intervals or verdicts with fewer than {MIN_RUNS} runs per side"))
    };
    Some(Fact::new("threshold", FactData::Plain(json!(threshold)), vec![line]))
}

/// The level of intervals, for programs.
fn tail(report: &Report) -> Option<Fact<'static>> {
    report.threshold.map(|_| Fact::new("tail", FactData::Plain(json!(report.tail)), Vec::new()))
}

/// The threads that are looked at, for programs; another line says it.
fn scope(report: &Report) -> Fact<'static> {
    Fact::new("scope", FactData::Plain(json!(report.scope)), Vec::new())
}

/// Whether the runs are paired, for programs; the verdicts' line says it.
fn design(report: &Report) -> Option<Fact<'static>> {
    let name = report.threshold.map(|_| report.design.name())?;
    Some(Fact::new("design", FactData::Plain(json!(name)), Vec::new()))
}

fn apart(apart_ns: Option<i64>) -> FactLine {
    let text = match apart_ns {
        None => "capture time unknown on one side".to_owned(),
        Some(0) => "captured at the same time: the snapshots are identical".to_owned(),
        Some(apart @ 1..) => format!("captured {} after the baseline", spaced(apart.unsigned_abs().into(), Unit::Ns)),
        Some(apart) => format!("captured {} before the baseline", spaced(apart.unsigned_abs().into(), Unit::Ns)),
    };
    FactLine::fact("", text)
}

fn differences(differences: Option<&[Difference]>) -> Vec<FactLine> {
    let Some(differences) = differences else { return vec![FactLine::fact("host", "unknown on one side")] };
    let texts = differences.iter().filter_map(difference).enumerate();
    let lines: Vec<_> = texts.map(|(at, text)| FactLine::fact(if at == 0 { "host" } else { "" }, text)).collect();
    if lines.is_empty() { vec![FactLine::fact("host", "no differences")] } else { lines }
}

/// The differences between the hosts; of the load averages, only the one over a minute.
fn difference(difference: &Difference) -> Option<String> {
    let value = |value: Option<&String>| value.map_or("-", String::as_str).to_owned();
    let values = &difference.values;
    let (baseline, candidate) = (value(values.baseline.as_ref()), value(values.of_candidate()));
    if difference.field != "loadavg" {
        return Some(format!("{}: {baseline} → {candidate}", difference.field));
    }
    let minute = |loads: &str| loads.split(' ').next().unwrap_or_default().to_owned();
    let (before, after) = (minute(&baseline), minute(&candidate));
    (before != after).then(|| format!("load: {before} → {after}"))
}

pub(super) fn described(side: &SideSummary) -> String {
    let when = Some(i128::from(side.captured_at_unix_ns)).filter(|when| *when > 0);
    let when = when.and_then(|when| Timestamp::from_nanosecond(when).ok());
    let when = when.map_or_else(|| "time unknown".to_owned(), |when| format!("{when:.0}"));
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    format!(
        "{}  {}, Linux {} {}, {when}, {} in {}, {}{}",
        side.file,
        or_dash(&side.hostname),
        or_dash(&side.kernel_release),
        or_dash(&side.arch),
        counted(side.threads, "thread"),
        counted(side.processes, "process"),
        side.tool.as_deref().unwrap_or("unknown tool"),
        side.engine.iter().filter(|engine| !engine.is_empty()).map(|engine| format!(" ({engine})")).collect::<String>(),
    )
}
