//! Whether gates hold: each of their values against its bound.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::{
    ELAPSED, Gate, GateCause, GateMetric, Group, GroupGlob, NewGroups, NoSuchGroup, Per, Quantity, ReportSection, Row,
    Sides, WORSE, gate_can_fail, is_gated, median_of_runs, number, of_kind, present, samples,
};
use crate::model::sorted::CollectSorted;
use crate::model::{Cell, Unit};
use crate::statistics::{self, Beyond, Bound, Corrected, Design, Interval, Margin, Samples, Scale, TAIL};

/// The result of a gate for one value of one group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GateResult {
    /// Index of the gate.
    pub gate: usize,
    /// The gate as it was written.
    pub text: String,
    /// The path of the group; empty for all groups together.
    pub group: Vec<String>,
    /// The value that the gate looks at.
    pub metric: String,
    pub(crate) bound: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The values, of several runs the medians; `None` without data.
    pub values: Sides<Option<Cell>>,
    /// Whether some members of the group lack a value that they should have.
    pub(crate) partial: bool,
    pub(crate) runs: Sides<usize>,
    /// Samples from which the deciding interval is made; `None` without values on both sides.
    tested: Option<Samples>,
    /// The bound, in the unit of the values.
    limit: Bound,
    /// How much the value changed; `None` if there is no saying.
    pub(crate) change: Option<GateChange>,
    /// The one-sided p-value of "the change is not beyond the bound", corrected for the number of gates; `None` with
    /// too few runs.
    pub(crate) p: Option<f64>,
    /// About how many runs per side would decide an unclear gate, if that can be estimated.
    pub(crate) runs_needed: Option<usize>,
    /// Whether the gate holds.
    pub outcome: GateOutcome,
    /// Largest contribution to a failure, if it is known.
    pub(crate) cause: Option<GateCause>,
}

/// A change, as the bound measures it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GateChange {
    pub(crate) scale: Scale,
    /// A difference is in the unit of the values.
    pub(crate) amount: f64,
    /// The interval that decides, if there are enough runs for its level.
    pub(crate) interval: Option<Interval>,
    /// The probability that an end of the interval misses the true change: 0.025 of a single gate, less of several, or at one of
    /// several looks.
    pub(crate) tail: f64,
    /// How often the interval has the true change in it, all looks together: 0.95 of a single gate.
    pub(crate) level: f64,
}

/// Whether a gate holds.
#[derive(Clone, Debug, PartialEq)]
pub enum GateOutcome {
    /// The change is not beyond the bound.
    Passed,
    /// The change is beyond the bound.
    Failed,
    /// The runs vary too much, or are too few: the interval contains the bound.
    Unclear,
    /// There is nothing to compare, for this reason.
    Error(String),
}

impl GateOutcome {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Unclear => "unclear",
            Self::Error(_) => "error",
        }
    }
}

/// Why a gate on a value cannot be judged.
const NO_DATA: &str = "no data";
const ONLY_A_BOUND: &str = "only a lower bound of the value is known (≥)";
const LACKS_EXITED_WORK: &str = "the value lacks threads or children that exited; gate CPU time or page faults of a group with their parent, or record with BPF, which has all of theirs but allocations (`ctprof doctor` says how)";
const NO_BASELINE: &str = "no data in the baseline";
const NO_CANDIDATE: &str = "no data in the candidate";
const NEGATIVE: &str = "negative values have no percentage; use an absolute bound";
const MINOR: &str = "each group that matches takes too little of the CPU time (--min-time)";
const ONLY_IN_BASELINE: &str = "the group is only in the baseline";
const NEW: &str = "each group that matches is only in the candidate (--allow-new)";
const ONLY_IN_CANDIDATE: &str =
    "the group is only in the candidate: a percentage bound cannot apply to a baseline of 0; use an absolute bound";

pub(super) struct GateJudge {
    pub(super) design: Design,
    /// How many values the gates look at, not counting groups.
    pub(super) tests: usize,
    /// The probability with which any of the gates may fail by chance.
    pub(super) tail: f64,
    /// The groups that take too little CPU time for a percentage, by key.
    pub(super) minor: BTreeSet<Vec<String>>,
    /// Divisor of the values of gates that have none of their own.
    pub(super) per: Per,
    /// Treatment of groups that only the candidate has, by gates on several groups.
    pub(super) new_groups: NewGroups,
    /// Why percentages of times say nothing, if they don't.
    pub(super) other_host: Option<String>,
    /// Whether fewer runs were made than planned.
    pub(super) ended_early: bool,
}

impl GateJudge {
    /// The runs that decide. Pairs that are too few for so many tests leave it to the runs without their pairs.
    fn tested(&self, values: &Sides<Box<[f64]>>, quantum: f64) -> Option<Samples> {
        let paired = samples(self.design, values, quantum).filter(|tested| tested.can_decide(self.tests, self.tail));
        paired.or_else(|| samples(Design::Independent, values, quantum))
    }
}

/// Returns the results of all gates. `sections` finds the sections that a gate checks.
pub(super) fn judge<'r>(
    gates: &[Gate],
    judge: &GateJudge,
    sections: impl Fn(&Gate) -> Vec<&'r ReportSection>,
) -> Vec<GateResult> {
    let of_gate = |(place, gate)| results_of(place, gate, judge, &sections(gate));
    let mut results: Vec<_> = gates.iter().enumerate().flat_map(of_gate).collect();
    // The number of values that gates look at counts, not the number of groups: of each value, the smallest p-value.
    let test = |result: &GateResult| (result.gate, result.metric.clone());
    let mut smallest: BTreeMap<_, f64> = BTreeMap::new();
    for (test, p) in results.iter().filter_map(|result| Some((test(result), result.p?))) {
        smallest.entry(test).and_modify(|least| *least = least.min(p)).or_insert(p);
    }
    let raw: Vec<f64> = smallest.values().copied().collect();
    let corrections: BTreeMap<_, Corrected> = smallest.into_keys().zip(statistics::holm(&raw, judge.tail)).into_map();
    for result in &mut results {
        let Some(p) = result.p else { continue };
        let corrected = corrections[&test(result)];
        result.p = Some((p * corrected.factor).min(1.0));
        decide(result, corrected);
    }
    refuse_what_never_fails(&mut results, judge);
    results
}

impl GateResult {
    /// The result of a gate that cannot be judged for any group.
    pub(super) fn error(place: usize, gate: &Gate, fault: String) -> Self {
        let metric = if let [metric] = &gate.metrics[..] { &metric.name } else { WORSE };
        let group = gate.group.iter().map(GroupGlob::to_string).collect();
        Self::new(place, gate, metric, group, GateOutcome::Error(fault))
    }

    /// The values of the runs of both sides that decided, and the value beyond which the gate fails; `None` for single runs.
    pub(crate) fn deciding_runs(&self) -> Option<(&[Vec<f64>; 2], f64)> {
        let sides = self.tested.as_ref().map(|tested| &tested.sides)?;
        sides.iter().all(|runs| runs.len() > 1).then_some(())?;
        Some((sides, self.limit.beyond_which(number(self.values.baseline.as_ref()?)?)))
    }

    fn new(place: usize, gate: &Gate, metric: &str, group: Vec<String>, outcome: GateOutcome) -> Self {
        Self {
            gate: place,
            text: gate.text.clone(),
            group,
            metric: metric.to_owned(),
            bound: gate.bound.clone(),
            unit: Unit::None,
            values: Sides::two(None, None),
            partial: false,
            runs: Sides::two(0, 0),
            tested: None,
            limit: gate.limit,
            change: None,
            p: None,
            runs_needed: None,
            outcome,
            cause: None,
        }
    }
}

/// The results of one gate. Those without data are left out if others have some.
fn results_of(place: usize, gate: &Gate, judge: &GateJudge, sections: &[&ReportSection]) -> Vec<GateResult> {
    let of_metric = |metric| results_of_metric((place, gate), metric, judge, sections);
    let (results, left_out): (Vec<_>, Vec<_>) = gate.metrics.iter().flat_map(of_metric).partition(Result::is_ok);
    if !results.is_empty() {
        return results.into_iter().flatten().collect();
    }
    let left_out = left_out.into_iter().filter_map(Result::err).next_back();
    vec![GateResult::error(place, gate, fault(gate, left_out, sections))]
}

/// Why a gate has no result, if its groups were left out for a reason; `None` if it selects none.
fn fault(gate: &Gate, left_out: Option<&str>, sections: &[&ReportSection]) -> String {
    match (left_out, &gate.group, gate.metrics.iter().find_map(|metric| metric.reason.as_ref())) {
        (None, Some(glob), _) => {
            let groups = sections.iter().flat_map(|section| &section.groups).filter(|group| is_gated(group));
            NoSuchGroup::new("group", glob, groups.map(|group| group.label.as_str())).to_string()
        }
        (Some(why), ..) if why != NO_DATA => why.to_owned(),
        (.., Some(name)) => {
            format!("`{name}` is neither a metric (`ctprof metrics`) nor a reason with samples (`ctprof show --why`)")
        }
        _ if gate.metrics.iter().any(|metric| metric.name == ELAPSED) => {
            "only windows of a command have it; record both sides with `ctprof record -- COMMAND`".to_owned()
        }
        _ => NO_DATA.to_owned(),
    }
}

/// A gate, for one of its metrics.
#[derive(Clone, Copy)]
struct MetricGate<'g> {
    place: usize,
    gate: &'g Gate,
    metric: &'g GateMetric,
    looks_at: LooksAt,
}

/// How a gate selects the group that it looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LooksAt {
    /// It selects none: all groups together.
    All,
    /// The gate has exactly the name of the group, which is judged as if no other group matched.
    Named,
    /// A glob matches it, or the name of its interpreter or program stands for it. Each can be missing on a side.
    Several,
}

impl MetricGate<'_> {
    /// Whether the gate is in error without this value, though others have one. A reason without samples took no time.
    fn needs_value(&self) -> bool {
        self.looks_at == LooksAt::Named && self.metric.reason.is_none() && self.gate.metrics.len() == 1
    }
}

/// The results of a gate for one metric, and why groups are left out.
fn results_of_metric(
    (place, gate): (usize, &Gate),
    metric: &GateMetric,
    judge: &GateJudge,
    sections: &[&ReportSection],
) -> Vec<Result<GateResult, &'static str>> {
    let of_section = sections.iter().copied().filter(|section| section.section == metric.section);
    let rows = of_section.flat_map(|section| {
        gate.selected(section).map(move |group| (&section.groups[group].key, row_of(metric, section, group)))
    });
    let rows: Vec<_> = rows.collect();
    let name = gate.group.as_ref().filter(|glob| glob.is_exact());
    let looks_at = |key: &[String]| match &gate.group {
        None => LooksAt::All,
        Some(glob) if name.is_some() && rows.len() == 1 || glob.is_name_of(key) => LooksAt::Named,
        Some(_) => LooksAt::Several,
    };
    let exists = |is_there: fn(&Row) -> bool| rows.iter().any(|(_, row)| row.as_deref().is_some_and(is_there));
    let exist = Sides::two(
        exists(|row| row.covered.baseline.is_some()),
        exists(|row| row.covered.candidate.flatten().is_some()),
    );
    if let (Some(name), Err(why)) = (name.filter(|_| rows.len() > 1), check_groups(gate, exist)) {
        let error = GateOutcome::Error(why.to_owned());
        return vec![Ok(GateResult::new(place, gate, &metric.name, vec![name.to_string()], error))];
    }
    let judged = |key: &[String], row: Option<&Row>| {
        let of_metric = MetricGate { place, gate, metric, looks_at: looks_at(key) };
        match row.ok_or(NO_DATA).and_then(|row| result_of(of_metric, judge, key, row)) {
            Err(NO_DATA) if of_metric.needs_value() => {
                Ok(GateResult::new(place, gate, &metric.name, key.to_vec(), GateOutcome::Error(NO_DATA.to_owned())))
            }
            result => result,
        }
    };
    rows.iter().map(|(key, row)| judged(key, row.as_deref())).collect()
}

/// The row of a group. Groups that were never in a state that any group was in have no row of it: they spent no time in it.
fn row_of<'s>(metric: &GateMetric, section: &'s ReportSection, group: usize) -> Option<Cow<'s, Row>> {
    let row = |of: usize| section.rows.iter().find(|row| row.group == of && row.name == metric.row);
    let none = || {
        let all = section
            .groups
            .iter()
            .position(Group::is_all)
            .filter(|_| metric.quantity.is_some_and(Quantity::is_rare_state))?;
        Some(row(all)?.none_of(group, &section.groups[group]))
    };
    row(group).map(Cow::Borrowed).or_else(|| none().map(Cow::Owned))
}

/// The result for a group, or why the group is left out: it has no data, or a glob matches it and it takes little CPU time
/// or exists on one side only.
fn result_of(
    MetricGate { place, gate, metric, looks_at }: MetricGate<'_>,
    judge: &GateJudge,
    key: &[String],
    row: &Row,
) -> Result<GateResult, &'static str> {
    let key = if looks_at == LooksAt::All { Vec::new() } else { key.to_vec() };
    let is_glob = looks_at == LooksAt::Several;
    let is_share = gate.limit.scale == Scale::Ratio;
    let is_derived = matches!(metric.quantity, Some(Quantity::Derived(_)));
    let is_new = row.covered.baseline.is_none();
    let is_gone = !is_new && row.covered.candidate.flatten().is_none();
    if is_glob && is_share && judge.minor.contains(&key) {
        return Err(MINOR);
    }
    if is_glob && is_new && judge.new_groups == NewGroups::Pass {
        return Err(NEW);
    }
    let mut result = GateResult::new(place, gate, &metric.name, key, GateOutcome::Passed);
    if let Some(why) = judge.other_host.as_ref().filter(|_| is_share && metric.unit.is_time()) {
        result.outcome = GateOutcome::Error(why.clone());
        return Ok(result);
    }
    let is_fall = gate.limit.beyond == Beyond::Below;
    match compare(&mut result, (gate, looks_at), judge, row) {
        Ok(()) if is_glob && is_share && is_gone && !is_fall => return Err(ONLY_IN_BASELINE),
        Ok(()) => {}
        Err(NO_DATA) => return Err(NO_DATA),
        Err(LACKS_EXITED_WORK) if gate.metrics.len() > 1 || is_glob && is_gone && !is_fall => {
            return Err(LACKS_EXITED_WORK);
        }
        Err(LACKS_EXITED_WORK) => {
            result.outcome = GateOutcome::Error(format!("{}{LACKS_EXITED_WORK}", side_that_lacks(row)));
        }
        Err(fault) if is_glob && (is_gone || is_new && row.values.of_candidate().is_none()) => return Err(fault),
        // What did nothing on one side has no ratio or average there.
        Err(NO_BASELINE | NO_CANDIDATE) if is_glob && !is_new && is_derived => return Err(NO_DATA),
        Err(fault) if (is_glob || gate.metrics.len() > 1) && gate_can_fail::is_fault(fault) => return Err(fault),
        // Whether it fell is unknown, and what is unknown does not pass.
        Err(NO_BASELINE) if is_glob && is_new => result.outcome = GateOutcome::Failed,
        Err(fault) => result.outcome = GateOutcome::Error(fault.to_owned()),
    }
    Ok(result)
}

/// Fills in the values, their change, and its p-value or, of too few runs, the outcome.
fn compare(
    result: &mut GateResult,
    (gate, looks_at): (&Gate, LooksAt),
    judge: &GateJudge,
    row: &Row,
) -> Result<(), &'static str> {
    let is_bound = row.values.iter().flatten().any(|cell| matches!(cell, Cell::AtLeast { .. }));
    let values = row.samples().ok_or(if is_bound { ONLY_A_BOUND } else { NO_DATA })?;
    let quantum = row.runs.as_ref().map_or(0.0, |runs| runs.quantum);
    let limit = gate.limit_in(row.unit);
    (result.unit, result.limit, result.partial) = (row.unit, limit, row.partial);
    let like = row.values.iter().flatten().next();
    let medians = values.as_ref().map(|numbers| median_of_runs(numbers));
    result.values = medians.map(|median| Some(of_kind(like?, median?)));
    result.runs = values.as_ref().map(|numbers| present(numbers).count());
    if looks_at == LooksAt::Named {
        check_groups(gate, row.covered.map(|covered| covered.is_some()))?;
    }
    let is_new_of_several = looks_at == LooksAt::Several && row.covered.baseline.is_none();
    let (before, after) = match (medians.baseline, medians.candidate.flatten()) {
        (Some(before), Some(after)) => (before, after),
        // From any baseline, an average or a peak rose by at most as much.
        (None, Some(after)) if is_new_of_several && limit.beyond == Beyond::Above => (0.0, after),
        (None, None) => return Err(NO_DATA),
        (None, Some(_)) => return Err(NO_BASELINE),
        (Some(_), None) => return Err(NO_CANDIDATE),
    };
    if row.lacks_exited_work.iter().any(|lacks| *lacks) {
        return Err(LACKS_EXITED_WORK);
    }
    let scale = limit.scale;
    if scale == Scale::Ratio && values.iter().flatten().any(|number| *number < 0.0) {
        return Err(NEGATIVE);
    }
    let can_fail = |farthest: f64| {
        let candidate = values.candidate.as_ref().map(|runs| vec![farthest; runs.len()].into());
        let tested = judge.tested(&Sides { candidate, ..values.clone() }, quantum);
        let p = tested.and_then(|tested| tested.probability(limit));
        p.map_or_else(|| limit.is_exceeded(scale.change(farthest, before)), |p| p < 1.0)
    };
    gate_can_fail::check(limit.beyond, (row, &result.group, gate.per_of(judge.per)), can_fail)?;
    result.tested = judge.tested(&values, quantum);
    let amount = scale.change(after, before);
    result.change = Some(GateChange { scale, amount, interval: None, tail: TAIL, level: 1.0 - 2.0 * TAIL });
    result.p = result.tested.as_ref().and_then(|tested| tested.probability(limit));
    if result.p.is_none() && limit.is_exceeded(amount) {
        result.outcome = GateOutcome::Failed;
    }
    Ok(())
}

/// The side that lacks exited work, if it is one of two.
fn side_that_lacks(row: &Row) -> &'static str {
    match row.lacks_exited_work {
        Sides { baseline: true, candidate: Some(true) } => "",
        Sides { baseline: true, .. } => "baseline: ",
        Sides { .. } => "candidate: ",
    }
}

/// A gate on a name needs a group with the name in the candidate, and a percentage of it in the baseline.
fn check_groups(gate: &Gate, exists: Sides<bool>) -> Result<(), &'static str> {
    match (exists.baseline, exists.candidate.unwrap_or(false)) {
        (true, false) => Err(ONLY_IN_BASELINE),
        (false, true) if gate.limit.scale == Scale::Ratio => Err(ONLY_IN_CANDIDATE),
        _ => Ok(()),
    }
}

/// Decides by the interval whose ends have this tail.
fn decide(result: &mut GateResult, Corrected { tail, level, .. }: Corrected) {
    let limit = result.limit;
    let (Some(change), Some(tested)) = (&mut result.change, &result.tested) else { return };
    (change.tail, change.level) = (tail, level);
    if let Some(estimate) = tested.estimate(change.scale, tail) {
        (change.amount, change.interval) = (estimate.change, Some(estimate.interval));
    }
    // The ends nearest to the bound and farthest beyond it.
    let ends = change.interval.map(|Interval { low, high }| match limit.beyond {
        Beyond::Above => [low, high],
        Beyond::Below => [high, low],
    });
    result.outcome = match ends.map(|ends| ends.map(|end| limit.is_exceeded(end))) {
        Some([true, _]) => GateOutcome::Failed,
        Some([_, false]) => GateOutcome::Passed,
        _ => GateOutcome::Unclear,
    };
    if result.outcome == GateOutcome::Unclear {
        result.runs_needed = runs_needed(result, limit.limit);
    }
}

/// The number of runs that would decide. Percentages are on a logarithmic scale.
fn runs_needed(result: &GateResult, bound: f64) -> Option<usize> {
    let GateChange { scale, amount, interval, tail, .. } = result.change?;
    let Interval { low, high } = interval?;
    let on_scale = |number: f64| if scale == Scale::Ratio { number.ln() } else { number };
    let half_width = (on_scale(high) - on_scale(low)) / 2.0;
    let runs = result.runs.iter().copied().min()?;
    let margin = Margin::One((on_scale(amount) - on_scale(bound)).abs());
    statistics::runs_needed(runs, half_width, margin, tail)
}

/// Gates that could not fail with so few runs don't pass either. It is said once, of the first unclear result. If more runs were
/// planned, medians don't decide instead of intervals.
fn refuse_what_never_fails(results: &mut [GateResult], &GateJudge { tests, tail, ended_early, .. }: &GateJudge) {
    // A new group stays new.
    let by_median = |result: &&mut GateResult| {
        result.p.is_none() && result.values.baseline.is_some() && !matches!(result.outcome, GateOutcome::Error(_))
    };
    for result in results.iter_mut().filter(by_median).filter(|_| ended_early) {
        result.outcome = GateOutcome::Unclear;
    }
    let undecided = |result: &&mut GateResult| {
        result.outcome == GateOutcome::Unclear
            && result.tested.as_ref().is_some_and(|tested| !tested.can_decide(tests, tail))
    };
    if let Some(result) = results.iter_mut().find(undecided) {
        let (runs, needed) = (result.tested.as_ref().map_or(0, Samples::fewest), statistics::fewest_runs(tests, tail));
        let fix = format!("record at least {needed} per side, or use fewer gates");
        result.outcome =
            GateOutcome::Error(format!("{runs} runs per side cannot decide gates on {tests} values; {fix}"));
    }
}

#[cfg(test)]
mod tests;
