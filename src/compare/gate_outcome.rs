//! Whether gates hold: each of their values against its bound.

use std::collections::BTreeSet;

use super::delta::number;
use super::entry::Entry;
use super::gate::{Gate, WORSE};
use super::gate_metric::{Absence, GateMetric};
use super::gate_values::{GroupValues, RunValues};
use super::judge::known;
use super::merge::of_kind;
use super::only::{GroupGlob, NoSuchGroup};
use super::sides::Sides;
use crate::model::{Cell, Unit};
use crate::statistics::{self, Bound, Design, Interval, MIN_RUNS, Sample};

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
    /// The bound as it was written.
    pub bound: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The values, of several runs the medians; `None` without data.
    pub values: Sides<Option<Cell>>,
    /// Whether some members of the group lack a value that they should have.
    pub partial: bool,
    /// Number of runs with a value.
    pub runs: Sides<usize>,
    /// How the runs of both sides belong together.
    pub design: Design,
    /// How much the value changed; `None` if there is no saying.
    pub change: Option<GateChange>,
    /// The one-sided p-value of "the change is not beyond the bound", corrected for the number of gates; `None` with
    /// too few runs.
    pub p: Option<f64>,
    /// About how many runs per side would decide an unclear percentage, if that can be estimated.
    pub runs_needed: Option<usize>,
    /// The result.
    pub outcome: GateOutcome,
}

/// A change, as the bound measures it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GateChange {
    /// Candidate over baseline, with its 95 % interval if there are enough runs.
    Ratio(f64, Option<Interval>),
    /// Candidate minus baseline in the unit of the values, with its 95 % interval if there are enough runs.
    Difference(f64, Option<Interval>),
}

/// Whether a gate holds.
#[derive(Clone, Debug, PartialEq)]
pub enum GateOutcome {
    /// The change is not beyond the bound.
    Passed,
    /// The change is beyond the bound.
    Failed,
    /// The runs vary too much: the interval contains the bound, or several gates need a narrower one.
    Unclear,
    /// There is nothing to compare.
    Error(GateFault),
}

impl GateOutcome {
    /// Whether the change is beyond the bound.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        *self == Self::Failed
    }

    /// Whether the runs vary too much.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        *self == Self::Unclear
    }

    /// Whether there is nothing to compare.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// The name in every output.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Unclear => "unclear",
            Self::Error(_) => "error",
        }
    }
}

/// Why a gate cannot be judged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GateFault {
    /// No group has such a name.
    #[error(transparent)]
    NoSuchGroup(#[from] NoSuchGroup),
    /// No side has a value.
    #[error("no data")]
    NoData,
    /// The baseline has no value.
    #[error("no data in the baseline")]
    NoBaseline,
    /// The candidate has no value.
    #[error("no data in the candidate")]
    NoCandidate,
    /// The candidate does not have the group.
    #[error("the group is only in the baseline")]
    OnlyInBaseline,
    /// The baseline does not have the group, and the bound is a percentage.
    #[error("the group is only in the candidate, so there is nothing to take a percentage of; use an absolute bound")]
    OnlyInCandidate,
    /// A percentage of negative values.
    #[error("negative values have no percentage; use an absolute bound")]
    Negative,
    /// Even the clearest result of so few runs is not significant.
    #[error("{} runs per side cannot decide {tests} comparisons; record at least {needed} per side, or use fewer gates", .runs.baseline.min(.runs.candidate))]
    TooFewRuns {
        /// Number of runs.
        runs: Sides<usize>,
        /// Number of comparisons of all gates.
        tests: usize,
        /// Number of runs per side that can decide so many.
        needed: usize,
    },
}

/// The highest p-value of a change beyond the bound: the tail of a 95 % interval.
const SIGNIFICANT: f64 = 0.025;

/// The results of all gates.
pub(super) fn judge(gates: &[Gate], design: Design, runs: &Sides<Vec<RunValues>>) -> Vec<GateResult> {
    let results = gates.iter().enumerate().map(|(place, gate)| (gate, of_gate(place, gate, design, runs)));
    let (mut results, limits): (Vec<_>, Vec<_>) =
        results.flat_map(|(gate, results)| results.into_iter().map(move |result| (result, gate.limit))).unzip();
    correct(&mut results);
    for (result, limit) in results.iter_mut().zip(limits).filter(|(result, _)| result.p.is_some()) {
        decide(result, limit);
    }
    let tests = results.iter().filter(|result| result.p.is_some()).count();
    refuse_what_never_fails(&mut results, tests);
    results
}

impl GateResult {
    fn new(place: usize, gate: &Gate, metric: &str, group: Vec<String>, outcome: GateOutcome) -> Self {
        Self {
            gate: place,
            text: gate.text.clone(),
            group,
            metric: metric.to_owned(),
            bound: gate.bound.clone(),
            unit: Unit::None,
            values: Sides::default(),
            partial: false,
            runs: Sides::default(),
            change: None,
            design: Design::default(),
            p: None,
            runs_needed: None,
            outcome,
        }
    }

    fn has_data(&self) -> bool {
        self.outcome != GateOutcome::Error(GateFault::NoData)
    }
}

/// The results of one gate. Those without data are left out if others have some.
fn of_gate(place: usize, gate: &Gate, design: Design, runs: &Sides<Vec<RunValues>>) -> Vec<GateResult> {
    let of_metric = |(at, metric): (usize, &GateMetric)| {
        let values = runs.as_ref().map(|side| side.iter().map(|run| &run.by_gate[place][at]).collect::<Vec<_>>());
        let groups = values.as_ref().into_iter().flatten().flat_map(|run| run.by_group.keys());
        let groups: BTreeSet<_> = groups.cloned().collect();
        let result = |group| {
            let mut result =
                GateResult { design, ..GateResult::new(place, gate, &metric.name, group, GateOutcome::Passed) };
            if let Err(fault) = compare(&mut result, gate, metric, &values) {
                result.outcome = GateOutcome::Error(fault);
            }
            result
        };
        groups.into_iter().map(result).collect::<Vec<_>>()
    };
    let mut results: Vec<_> = gate.metrics.iter().enumerate().flat_map(of_metric).collect();
    let fault = match &gate.group {
        Some(glob) if results.is_empty() => {
            let names = runs.as_ref().into_iter().flatten().flat_map(|run| &run.names);
            GateFault::NoSuchGroup(NoSuchGroup::new(glob, names.map(String::as_str)))
        }
        _ => GateFault::NoData,
    };
    results.retain(GateResult::has_data);
    if results.is_empty() {
        let metric = if let [metric] = &gate.metrics[..] { &metric.name } else { WORSE };
        let group = gate.group.iter().map(GroupGlob::to_string).collect();
        results.push(GateResult::new(place, gate, metric, group, GateOutcome::Error(fault)));
    }
    results
}

/// The values of one side.
struct Values {
    /// One per run; NaN where it is unknown.
    numbers: Vec<f64>,
    /// A value, for its kind.
    like: Option<Cell>,
    /// Whether any run has the group.
    has_group: bool,
}

impl Values {
    fn new(group: &[String], absence: Absence, runs: &[&GroupValues]) -> Self {
        let cell = |entry: &Option<Entry>| entry.as_ref().and_then(|entry| entry.cell.clone());
        let numbers = runs.iter().map(|run| match run.by_group.get(group) {
            Some(entry) => cell(entry).as_ref().and_then(number).unwrap_or(f64::NAN),
            None if run.known && absence == Absence::Zero => 0.0,
            None => f64::NAN,
        });
        Self {
            numbers: numbers.collect(),
            like: runs.iter().find_map(|run| run.by_group.get(group).and_then(cell)),
            has_group: runs.iter().any(|run| run.by_group.contains_key(group)),
        }
    }

    fn known(&self) -> Vec<f64> {
        self.numbers.iter().copied().filter(|value| !value.is_nan()).collect()
    }

    fn median(&self, like: Option<&Cell>) -> Option<(f64, Cell)> {
        let median = statistics::median(&self.known())?;
        Some((median, of_kind(like?, median)))
    }
}

/// Fills in the values, their change, and its p-value or, of too few runs, the outcome.
fn compare(
    result: &mut GateResult,
    gate: &Gate,
    metric: &GateMetric,
    runs: &Sides<Vec<&GroupValues>>,
) -> Result<(), GateFault> {
    let entries = runs.as_ref().into_iter().flatten().filter_map(|run| run.by_group.get(&result.group)?.as_ref());
    let entries: Vec<_> = entries.collect();
    result.unit = entries.first().map_or(Unit::None, |entry| entry.unit);
    result.partial = entries.iter().any(|entry| entry.partial);
    let sides = runs.as_ref().map(|side| Values::new(&result.group, metric.absence, side));
    let like = sides.baseline.like.clone().or_else(|| sides.candidate.like.clone());
    let medians = sides.as_ref().map(|side| side.median(like.as_ref()));
    result.values = medians.as_ref().map(|median| median.as_ref().map(|(_, cell)| cell.clone()));
    result.runs = sides.as_ref().map(|side| side.known().len());
    check_groups(gate, &sides)?;
    let (before, after) = match (medians.baseline, medians.candidate) {
        (Some((before, _)), Some((after, _))) => (before, after),
        (None, None) => return Err(GateFault::NoData),
        (None, Some(_)) => return Err(GateFault::NoBaseline),
        (Some(_), None) => return Err(GateFault::NoCandidate),
    };
    if is_ratio(gate.limit) && sides.as_ref().into_iter().any(|side| side.numbers.iter().any(|value| *value < 0.0)) {
        return Err(GateFault::Negative);
    }
    let quantum = entries.iter().map(|entry| entry.quantum).fold(0.0, f64::max);
    let (design, known) = known(result.design, sides.as_ref().map(|side| &side.numbers[..]));
    let samples = known.as_ref().map(|values| Sample { values, quantum });
    result.design = design;
    result.change = Some(change(gate.limit, design, samples, (before, after)));
    result.p = statistics::probability(design, samples.baseline, samples.candidate, gate.limit);
    if result.p.is_none() && gate.limit.is_exceeded(before, after) {
        result.outcome = GateOutcome::Failed;
    }
    Ok(())
}

/// A percentage needs the group in the baseline, and a gate on one name needs it in the candidate. Other groups can
/// have done nothing on a side.
fn check_groups(gate: &Gate, sides: &Sides<Values>) -> Result<(), GateFault> {
    let is_named = gate.group.as_ref().is_some_and(GroupGlob::is_exact);
    match (sides.baseline.has_group, sides.candidate.has_group) {
        (true, false) if is_named => Err(GateFault::OnlyInBaseline),
        (false, true) if is_ratio(gate.limit) => Err(GateFault::OnlyInCandidate),
        _ => Ok(()),
    }
}

fn is_ratio(limit: Bound) -> bool {
    matches!(limit, Bound::RatioAbove(_) | Bound::RatioBelow(_))
}

fn change(limit: Bound, design: Design, samples: Sides<Sample<'_>>, (before, after): (f64, f64)) -> GateChange {
    let Sides { baseline, candidate } = samples;
    if is_ratio(limit) {
        let ratio = statistics::quotient(after, before);
        GateChange::Ratio(ratio, statistics::ratio(design, baseline, candidate).map(|estimate| estimate.interval))
    } else {
        let interval = statistics::difference(design, baseline, candidate).map(|difference| difference.interval);
        GateChange::Difference(after - before, interval)
    }
}

/// Corrects the p-values for their number.
fn correct(results: &mut [GateResult]) {
    let raw: Vec<f64> = results.iter().filter_map(|result| result.p).collect();
    let tested = results.iter_mut().filter_map(|result| result.p.as_mut());
    tested.zip(statistics::holm(&raw)).for_each(|(p, corrected)| *p = corrected);
}

/// The outcome of several runs.
fn decide(result: &mut GateResult, limit: Bound) {
    let interval = match result.change {
        Some(GateChange::Ratio(_, interval) | GateChange::Difference(_, interval)) => interval,
        None => None,
    };
    let is_within = interval.is_some_and(|Interval { low, high }| match limit {
        Bound::RatioAbove(bound) | Bound::DifferenceAbove(bound) => high <= bound,
        Bound::RatioBelow(bound) | Bound::DifferenceBelow(bound) => low >= bound,
    });
    result.outcome = match result.p {
        Some(p) if p <= SIGNIFICANT => GateOutcome::Failed,
        _ if is_within => GateOutcome::Passed,
        _ => GateOutcome::Unclear,
    };
    if result.outcome == GateOutcome::Unclear {
        result.runs_needed = runs_needed(result, limit);
    }
}

/// The number of runs with which the interval ends at the bound.
fn runs_needed(result: &GateResult, limit: Bound) -> Option<usize> {
    let (Bound::RatioAbove(bound) | Bound::RatioBelow(bound), Some(GateChange::Ratio(ratio, Some(interval)))) =
        (limit, result.change)
    else {
        return None;
    };
    let distance = (ratio / bound).max(bound / ratio) - 1.0;
    let runs = result.runs.baseline.min(result.runs.candidate);
    statistics::runs_needed(runs, interval, distance).filter(|needed| *needed > runs)
}

/// Gates that could not fail with so few runs don't pass either. It is said once, of the first unclear result.
fn refuse_what_never_fails(results: &mut [GateResult], tests: usize) {
    let can_decide = |design: Design, runs: Sides<usize>| {
        statistics::least_probability(design, (runs.baseline, runs.candidate)) * tests as f64 <= SIGNIFICANT
    };
    let undecided =
        |result: &&mut GateResult| result.outcome == GateOutcome::Unclear && !can_decide(result.design, result.runs);
    if let Some(result) = results.iter_mut().find(undecided) {
        let needed = (MIN_RUNS..).find(|runs| can_decide(result.design, Sides { baseline: *runs, candidate: *runs }));
        let needed = needed.unwrap_or(usize::MAX);
        result.outcome = GateOutcome::Error(GateFault::TooFewRuns { runs: result.runs, tests, needed });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::gate_values::RunValues;

    /// A run with these values of `run_time_ns` by group; `None` is a group without one.
    fn run(values: &[(&str, Option<u64>)]) -> RunValues {
        let entry = |value: u64| Entry::whole("run_time_ns", Unit::Ns, Cell::Number(value), 1);
        let path = |name: &str| if name.is_empty() { Vec::new() } else { vec![name.to_owned()] };
        let by_group = values.iter().map(|(name, value)| (path(name), value.map(entry))).collect();
        let names = values.iter().map(|(name, _)| (*name).to_owned()).collect();
        RunValues { by_gate: vec![vec![GroupValues { by_group, known: true }]], names }
    }

    /// The results of one gate for one run per side.
    fn results(gate: &str, before: &[(&str, Option<u64>)], after: &[(&str, Option<u64>)]) -> Vec<GateOutcome> {
        let gate: Gate = gate.parse().unwrap();
        let run = |values| {
            let mut run = run(values);
            let is_chosen = |path: &[String]| gate.group.as_ref().is_none_or(|glob| glob.matches(path));
            run.by_gate[0][0].by_group.retain(|path, _| is_chosen(path));
            run
        };
        let runs = Sides { baseline: vec![run(before)], candidate: vec![run(after)] };
        judge(std::slice::from_ref(&gate), Design::Independent, &runs)
            .into_iter()
            .map(|result| result.outcome)
            .collect()
    }

    fn of_total(gate: &str, before: Option<u64>, after: Option<u64>) -> GateOutcome {
        results(gate, &[("", before)], &[("", after)]).remove(0)
    }

    /// The results of several gates on all groups for these runs.
    fn of_runs(gates: &[&str], before: &[u64], after: &[u64]) -> Vec<GateResult> {
        let gates: Vec<Gate> = gates.iter().map(|gate| gate.parse().unwrap()).collect();
        let run = |value: &u64| {
            let mut one = run(&[("", Some(*value))]);
            one.by_gate = vec![one.by_gate.remove(0); gates.len()];
            one
        };
        let side = |values: &[u64]| values.iter().map(run).collect();
        judge(&gates, Design::Independent, &Sides { baseline: side(before), candidate: side(after) })
    }

    use GateOutcome::{Error, Failed, Passed, Unclear};

    #[test]
    fn of_single_runs_the_values_decide() {
        assert_eq!(of_total("run_time_ns>10%", Some(100), Some(111)), Failed);
        assert_eq!(of_total("run_time_ns>10%", Some(100), Some(110)), Passed);
        assert_eq!(of_total("run_time_ns<10%", Some(100), Some(89)), Failed);
        assert_eq!(of_total("run_time_ns<10%", Some(100), Some(200)), Passed);
        assert_eq!(of_total("run_time_ns>2s", Some(1), Some(2_000_000_002)), Failed);
        assert_eq!(of_total("run_time_ns<2s", Some(2_000_000_001), Some(1)), Passed);
        assert_eq!(of_total("run_time_ns>10%", Some(0), Some(0)), Passed);
        assert_eq!(of_total("run_time_ns>10%", Some(0), Some(1)), Failed, "of a measured 0, any work is a rise");
    }

    #[test]
    fn what_has_no_data_never_passes() {
        assert_eq!(of_total("run_time_ns>10%", None, None), Error(GateFault::NoData));
        assert_eq!(of_total("run_time_ns>10%", None, Some(1)), Error(GateFault::NoBaseline));
        assert_eq!(of_total("run_time_ns<10%", Some(1), None), Error(GateFault::NoCandidate));
        let some = [("redis", Some(5))];
        let error = results("reds:run_time_ns>1s", &some, &some).remove(0);
        let Error(GateFault::NoSuchGroup(error)) = error else { panic!("{error:?}") };
        assert_eq!(error.nearest, ["redis"]);
    }

    #[test]
    fn a_group_on_one_side_did_nothing_on_the_other() {
        let (app, new) = (("app", Some(100)), ("new", Some(5_000_000_000)));
        let both = |gate: &str| results(gate, &[app], &[app, new]);
        assert_eq!(both("*:run_time_ns>2s"), [Passed, Failed]);
        assert_eq!(both("*:run_time_ns>10%"), [Passed, Error(GateFault::OnlyInCandidate)]);
        let gone = |gate: &str| results(gate, &[app, new], &[app]);
        assert_eq!(gone("*:run_time_ns>10%"), [Passed, Passed]);
        assert_eq!(gone("*:run_time_ns<1s"), [Passed, Failed]);
        assert_eq!(gone("new:run_time_ns>10%"), [Error(GateFault::OnlyInBaseline)]);
    }

    #[test]
    fn groups_without_data_are_left_out_only_beside_others_that_have_some() {
        let both = |values: &[(&str, Option<u64>)]| results("*:run_time_ns>10%", values, values);
        assert_eq!(both(&[("a", None), ("b", Some(1))]), [Passed]);
        assert_eq!(both(&[("a", None), ("b", None)]), [Error(GateFault::NoData)]);
    }

    #[test]
    fn averages_of_a_group_on_one_side_are_unknown() {
        let some = [("app", Some(100))];
        let none = [("other", Some(1))];
        assert_eq!(results("app:avg_wait_ns>1s", &none, &some), [Error(GateFault::NoBaseline)]);
        assert_eq!(results("app:wait_max>1s", &none, &some), [Error(GateFault::NoBaseline)]);
    }

    const LOW: [u64; 5] = [100, 101, 102, 103, 104];
    const HIGH: [u64; 5] = [120, 121, 122, 123, 124];

    #[test]
    fn of_several_runs_the_interval_decides() {
        let outcome = |after: &[u64]| of_runs(&["run_time_ns>10%"], &LOW, after).remove(0);
        let failed = outcome(&HIGH);
        assert_eq!((&failed.outcome, failed.values.candidate), (&Failed, Some(Cell::Number(122))));
        assert!(failed.p.is_some_and(|p| p <= SIGNIFICANT));
        let Some(GateChange::Ratio(ratio, Some(Interval { low, high }))) = failed.change else { panic!() };
        assert!(1.1 < low && low < ratio && ratio < high, "{low} {ratio} {high}");
        assert_eq!(outcome(&LOW).outcome, Passed);
        let unclear = outcome(&[90, 100, 115, 125, 140]);
        assert_eq!(unclear.outcome, Unclear);
        assert!(unclear.runs_needed.is_some_and(|runs| runs > 5), "{:?}", unclear.runs_needed);
        assert_eq!(of_runs(&["run_time_ns>10%"], &LOW[..3], &HIGH[..3])[0].outcome, Failed, "the medians");
    }

    #[test]
    fn several_gates_need_clearer_results() {
        // One comparison of 4 + 4 runs has a p-value of at least 1/70.
        let gates = |count| of_runs(&vec!["run_time_ns>10%"; count], &LOW[..4], &HIGH[..4]);
        assert_eq!(gates(1)[0].outcome, Failed);
        let fault = GateFault::TooFewRuns { runs: Sides { baseline: 4, candidate: 4 }, tests: 2, needed: 5 };
        let outcomes: Vec<_> = gates(2).into_iter().map(|result| result.outcome).collect();
        assert_eq!(outcomes, [Error(fault.clone()), Unclear], "it is said once");
        let text = "4 runs per side cannot decide 2 comparisons; record at least 5 per side, or use fewer gates";
        assert_eq!(fault.to_string(), text);
        assert_eq!(of_runs(&["run_time_ns>10%"; 2], &LOW[..4], &LOW[..4])[0].outcome, Passed);
    }

    #[test]
    fn negative_values_have_no_percentage() {
        let entry = |value| Entry::whole("live_heap_estimate", Unit::Bytes, Cell::Signed(value), 1);
        let run = |value| {
            let by_group = [(Vec::new(), Some(entry(value)))].into();
            RunValues { by_gate: vec![vec![GroupValues { by_group, known: true }]], names: Vec::new() }
        };
        let outcome = |gate: &str| {
            let runs = Sides { baseline: vec![run(-4096)], candidate: vec![run(4096)] };
            judge(&[gate.parse().unwrap()], Design::Independent, &runs).remove(0).outcome
        };
        assert_eq!(outcome("live_heap_estimate>10%"), Error(GateFault::Negative));
        assert_eq!((outcome("live_heap_estimate>4KiB"), outcome("live_heap_estimate>8KiB")), (Failed, Passed));
    }

    #[test]
    fn every_outcome_has_a_name_and_is_nothing_else() {
        let fault = GateFault::OnlyInBaseline;
        for (outcome, name) in [(Passed, "passed"), (Failed, "failed"), (Unclear, "unclear"), (Error(fault), "error")] {
            assert_eq!(outcome.name(), name);
            let is = [outcome.is_failed(), outcome.is_unclear(), outcome.is_error()];
            assert_eq!(is, ["failed", "unclear", "error"].map(|other| other == name), "{name}");
        }
    }

    #[test]
    fn runs_that_all_stay_at_the_bound_pass() {
        for gate in ["run_time_ns>10%", "run_time_ns<10%", "run_time_ns>1s", "run_time_ns<1s"] {
            assert_eq!(of_runs(&[gate], &[100; 8], &[100; 8])[0].outcome, Passed, "{gate}");
        }
        assert_eq!(of_runs(&["run_time_ns<50%"], &[100; 8], &[50; 8])[0].outcome, Passed, "not below it");
        assert_eq!(of_runs(&["run_time_ns>50%"], &[100; 8], &[150; 8])[0].outcome, Passed, "not above it");
    }

    #[test]
    fn an_interval_twice_as_wide_as_the_distance_from_the_bound_needs_four_times_the_runs() {
        let mut result = of_runs(&["run_time_ns>10%"], &[100; 8], &[100; 8]).remove(0);
        let mut needed = |ratio: f64, limit: Bound| {
            // From the ratio divided by 1.21 to the ratio multiplied by it.
            let interval = Interval { low: ratio / 1.21, high: ratio * 1.21 };
            result.change = Some(GateChange::Ratio(ratio, Some(interval)));
            runs_needed(&result, limit)
        };
        for (ratio, bound) in [(1.21, 1.1), (1.0, 1.1), (2.0, 2.2), (2.2, 2.0), (0.5, 0.55)] {
            for limit in [Bound::RatioAbove(bound), Bound::RatioBelow(bound)] {
                let needed = needed(ratio, limit).unwrap();
                assert!((32..=33).contains(&needed), "{ratio} {bound}: {needed}");
            }
        }
        assert_eq!(needed(1.21, Bound::RatioAbove(5.0)), None, "far from it, fewer runs are enough");
        assert_eq!(needed(1.21, Bound::DifferenceAbove(1.1)), None);
    }
}
