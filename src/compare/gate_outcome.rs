//! Whether gates hold: each of their values against its bound.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::known;
use super::{
    ELAPSED, Gate, GateMetric, Group, GroupGlob, NoSuchGroup, ReportSection, Row, RowRuns, Sides, WORSE, are_half,
    of_kind,
};
use crate::model::{Cell, Unit};
use crate::statistics::{self, Beyond, Bound, Design, Interval, Margin, Sample, Scale, TAIL};

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
    /// The test that decides, and how many runs of each side it has.
    tested: (Design, (usize, usize)),
    /// How much the value changed; `None` if there is no saying.
    pub(crate) change: Option<GateChange>,
    /// The one-sided p-value of "the change is not beyond the bound", corrected for the number of gates; `None` with
    /// too few runs.
    pub(crate) p: Option<f64>,
    /// About how many runs per side would decide an unclear gate, if that can be estimated.
    pub(crate) runs_needed: Option<usize>,
    /// Whether the gate holds.
    pub outcome: GateOutcome,
}

/// A change, as the bound measures it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GateChange {
    pub(crate) scale: Scale,
    /// A difference is in the unit of the values.
    pub(crate) amount: f64,
    /// The 95 % interval, if there are enough runs.
    pub(crate) interval: Option<Interval>,
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
const NO_CANDIDATE: &str = "no data in the candidate";
const NEGATIVE: &str = "negative values have no percentage; use an absolute bound";
const MINOR: &str = "each group that matches takes too little of the CPU time (--min-time)";
const ONLY_IN_BASELINE: &str = "the group is only in the baseline";
const ONLY_IN_CANDIDATE: &str =
    "the group is only in the candidate: a percentage bound cannot apply to a baseline of 0; use an absolute bound";

pub(super) struct GateJudge {
    pub(super) design: Design,
    /// How many values the gates look at, not counting groups.
    pub(super) tests: usize,
    /// The groups that take too little CPU time for a percentage, by key.
    pub(super) minor: BTreeSet<Vec<String>>,
}

/// The results of all gates. `rows` makes the sections that a gate looks at, with the values of each run.
pub(super) fn judge<R: AsRef<[ReportSection]>>(
    gates: &[Gate],
    judge: &GateJudge,
    rows: impl Fn(&Gate) -> R,
) -> Vec<GateResult> {
    let of_gate = |(place, gate)| results_of(place, gate, judge, rows(gate).as_ref());
    let mut results: Vec<_> = gates.iter().enumerate().flat_map(of_gate).collect();
    // The number of values that gates look at counts, not the number of groups: of each value, the smallest p-value.
    let test = |result: &GateResult| (result.gate, result.metric.clone());
    let mut smallest: BTreeMap<_, f64> = BTreeMap::new();
    for (test, p) in results.iter().filter_map(|result| Some((test(result), result.p?))) {
        smallest.entry(test).and_modify(|least| *least = least.min(p)).or_insert(p);
    }
    let raw: Vec<f64> = smallest.values().copied().collect();
    let factors =
        raw.iter().zip(statistics::holm(&raw)).map(|(p, corrected)| if *p > 0.0 { corrected / p } else { 1.0 });
    let factors: BTreeMap<_, f64> = smallest.into_keys().zip(factors).collect();
    for result in &mut results {
        let Some(p) = result.p else { continue };
        let p = (p * factors[&test(result)]).min(1.0);
        decide(result, p, gates[result.gate].limit, judge.tests);
    }
    refuse_what_never_fails(&mut results, judge.tests);
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
            values: Sides::two(None, None),
            partial: false,
            runs: Sides::two(0, 0),
            tested: (Design::default(), (0, 0)),
            change: None,
            p: None,
            runs_needed: None,
            outcome,
        }
    }
}

/// The results of one gate. Those without data are left out if others have some.
fn results_of(place: usize, gate: &Gate, judge: &GateJudge, sections: &[ReportSection]) -> Vec<GateResult> {
    let of_metric = |metric: &GateMetric| {
        let of_section = sections.iter().filter(|section| section.section == metric.section);
        let groups = of_section.flat_map(|section| gate.selected(section).map(move |group| (section, group)));
        groups.map(|group| result_of((place, gate), metric, judge, group)).collect::<Vec<_>>()
    };
    let (results, left_out): (Vec<_>, Vec<_>) = gate.metrics.iter().flat_map(of_metric).partition(Result::is_ok);
    if !results.is_empty() {
        return results.into_iter().flatten().collect();
    }
    let left_out = left_out.into_iter().filter_map(Result::err).next_back();
    let fault = fault(gate, left_out, sections);
    let metric = if let [metric] = &gate.metrics[..] { &metric.name } else { WORSE };
    let group = gate.group.iter().map(GroupGlob::to_string).collect();
    vec![GateResult::new(place, gate, metric, group, GateOutcome::Error(fault))]
}

/// Why a gate has no result, if its groups were left out for a reason; `None` if it selects none.
fn fault(gate: &Gate, left_out: Option<&str>, sections: &[ReportSection]) -> String {
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

/// The result for a group, or why the group is left out: it has no data, or a glob matches it and it takes little CPU time
/// or exists on one side only.
fn result_of(
    (place, gate): (usize, &Gate),
    metric: &GateMetric,
    judge: &GateJudge,
    (section, group): (&ReportSection, usize),
) -> Result<GateResult, &'static str> {
    let row = section.rows.iter().find(|row| row.group == group && row.name == metric.row).ok_or(NO_DATA)?;
    let key = if gate.group.is_some() { section.groups[group].key.clone() } else { Vec::new() };
    let is_glob = gate.group.as_ref().is_some_and(|glob| !glob.is_exact());
    let is_share = gate.limit.scale == Scale::Ratio;
    let is_on_one_side = row.covered.iter().any(Option::is_none);
    if is_glob && is_share && judge.minor.contains(&key) {
        return Err(MINOR);
    }
    let mut result = GateResult::new(place, gate, &metric.name, key, GateOutcome::Passed);
    match compare(&mut result, gate, judge, row) {
        Ok(()) if is_glob && is_share && is_on_one_side => return Err(ONLY_IN_BASELINE),
        Ok(()) => {}
        Err(NO_DATA) => return Err(NO_DATA),
        Err(fault) if is_glob && is_on_one_side => return Err(fault),
        Err(fault) => result.outcome = GateOutcome::Error(fault.to_owned()),
    }
    Ok(result)
}

/// Whether gates on groups look at a group: neither at all together, nor at exited work.
fn is_gated(group: &Group) -> bool {
    !group.is_all() && group.exited_work().is_none()
}

impl Gate {
    /// The groups of a section that the gate looks at: those that its glob matches, or all together. Sections about the
    /// host have one group.
    fn selected(&self, section: &ReportSection) -> impl Iterator<Item = usize> {
        let has_total = section.section.has_named_groups();
        let is_selected = move |group: &Group| match &self.group {
            Some(glob) => is_gated(group) && glob.matches(&group.key),
            None => !has_total || group.is_all(),
        };
        section.groups.iter().enumerate().filter(move |(_, group)| is_selected(group)).map(|(place, _)| place)
    }
}

/// `None` if most runs have no value.
fn median(numbers: &[f64], like: &Cell) -> Option<(f64, Cell)> {
    let known: Vec<f64> = numbers.iter().copied().filter(|number| !number.is_nan()).collect();
    let median = statistics::median(&known).filter(|_| are_half(known.len(), numbers.len()));
    median.map(|median| (median, of_kind(like, median)))
}

/// Fills in the values, their change, and its p-value or, of too few runs, the outcome.
fn compare(result: &mut GateResult, gate: &Gate, judge: &GateJudge, row: &Row) -> Result<(), &'static str> {
    let RowRuns { values, quantum, .. } = row.runs.as_deref().ok_or(NO_DATA)?;
    result.unit = row.unit;
    result.partial = row.partial;
    let like = row.values.iter().flatten().next();
    let medians = values.as_ref().map(|numbers| median(numbers, like?));
    result.values = medians.as_ref().map(|median| median.as_ref().map(|(_, cell)| cell.clone()));
    result.runs = values.as_ref().map(|numbers| numbers.iter().filter(|number| !number.is_nan()).count());
    check_groups(gate, row.covered.map(|covered| covered.is_some()))?;
    let (before, after) = match (medians.baseline, medians.candidate.flatten()) {
        (Some((before, _)), Some((after, _))) => (before, after),
        (None, None) => return Err(NO_DATA),
        (None, Some(_)) => return Err("no data in the baseline"),
        (Some(_), None) => return Err(NO_CANDIDATE),
    };
    let scale = gate.limit.scale;
    if scale == Scale::Ratio && values.iter().flatten().any(|number| *number < 0.0) {
        return Err(NEGATIVE);
    }
    let all = values.as_ref().map(|numbers| &**numbers);
    let known_of_both = |design| {
        let (design, sides) = known(design, all);
        (design, sides.both().unwrap_or_default())
    };
    let (design, sides) = known_of_both(judge.design);
    let [baseline, candidate] = [&sides.0, &sides.1].map(|values| Sample { values, quantum: *quantum });
    let interval = statistics::estimate(design, scale, baseline, candidate).map(|estimate| estimate.interval);
    result.change = Some(GateChange { scale, amount: scale.change(after, before), interval });
    // Pairs that are too few for so many tests leave it to the runs without their pairs.
    let is_enough = design.can_decide(judge.tests, (sides.0.len(), sides.1.len()));
    let (design, sides) = if is_enough { (design, sides) } else { known_of_both(Design::Independent) };
    let [baseline, candidate] = [&sides.0, &sides.1].map(|values| Sample { values, quantum: *quantum });
    result.tested = (design, (sides.0.len(), sides.1.len()));
    result.p = statistics::probability(design, baseline, candidate, gate.limit);
    if result.p.is_none() && gate.limit.is_exceeded(scale.change(after, before)) {
        result.outcome = GateOutcome::Failed;
    }
    Ok(())
}

/// A percentage needs the group in the baseline, and a gate on one name needs it in the candidate. Other groups can
/// have done nothing on a side.
fn check_groups(gate: &Gate, exists: Sides<bool>) -> Result<(), &'static str> {
    let is_named = gate.group.as_ref().is_some_and(GroupGlob::is_exact);
    match (exists.baseline, exists.candidate.unwrap_or(false)) {
        (true, false) if is_named => Err(ONLY_IN_BASELINE),
        (false, true) if gate.limit.scale == Scale::Ratio => Err(ONLY_IN_CANDIDATE),
        _ => Ok(()),
    }
}

fn decide(result: &mut GateResult, p: f64, limit: Bound, tests: usize) {
    let interval = result.change.and_then(|change| change.interval);
    let is_within = interval.is_some_and(|Interval { low, high }| match limit.beyond {
        Beyond::Above => high <= limit.limit,
        Beyond::Below => low >= limit.limit,
    });
    result.p = Some(p);
    result.outcome = match () {
        () if p <= TAIL => GateOutcome::Failed,
        () if is_within => GateOutcome::Passed,
        () => GateOutcome::Unclear,
    };
    if result.outcome == GateOutcome::Unclear {
        result.runs_needed = runs_needed(result, limit.limit, tests);
    }
}

/// The number of runs that would decide. Percentages are on a logarithmic scale.
fn runs_needed(result: &GateResult, bound: f64, tests: usize) -> Option<usize> {
    let GateChange { scale, amount, interval } = result.change?;
    let Interval { low, high } = interval?;
    let on_scale = |number: f64| if scale == Scale::Ratio { number.ln() } else { number };
    let half_width = (on_scale(high) - on_scale(low)) / 2.0;
    let runs = result.runs.iter().copied().min()?;
    let margin = Margin::One((on_scale(amount) - on_scale(bound)).abs());
    statistics::runs_needed(runs, half_width, margin, tests).filter(|needed| *needed > runs)
}

/// Gates that could not fail with so few runs don't pass either. It is said once, of the first unclear result.
fn refuse_what_never_fails(results: &mut [GateResult], tests: usize) {
    let undecided = |result: &&mut GateResult| {
        let (design, runs) = result.tested;
        result.outcome == GateOutcome::Unclear && !design.can_decide(tests, runs)
    };
    if let Some(result) = results.iter_mut().find(undecided) {
        let (_, (baseline, candidate)) = result.tested;
        let (runs, needed) = (baseline.min(candidate), statistics::fewest_runs(tests));
        let fix = format!("record at least {needed} per side, or use fewer gates");
        result.outcome =
            GateOutcome::Error(format!("{runs} runs per side cannot decide gates on {tests} values; {fix}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::judge::{Judge, Judged, KnownValues};
    use crate::compare::measurement::{Measurement, SideGroup, SideSection};
    use crate::compare::merge::SectionRuns;
    use crate::compare::options::Threshold;
    use crate::compare::tests_of;
    use crate::model::Section;

    /// A run in which the groups have these values; `None` is a group without one. That of all groups has no name.
    fn run(name: &'static str, values: &[(&str, Option<Cell>)]) -> SideSection {
        let group = |value: &Option<Cell>| {
            let quantity = crate::compare::Quantity::named(name).unwrap();
            let measured = Measurement {
                is_total: quantity.is_total(),
                ..Measurement::new(name, quantity.about().unit, value.clone(), 1)
            };
            SideGroup { measurements: vec![measured], ..SideGroup::default() }
        };
        let key = |name: &str| if name.is_empty() { Vec::new() } else { vec![name.to_owned()] };
        values.iter().map(|(name, value)| (key(name), group(value))).collect()
    }

    /// The section of these runs.
    fn section(section: Section, runs: Sides<Vec<SideSection>>) -> ReportSection {
        let merged = |runs: Vec<SideSection>| {
            let mut merged = SectionRuns::new(runs.len());
            for (place, run) in runs.into_iter().enumerate() {
                merged.know(place, &run);
                merged.add(place, run);
            }
            merged.merged(&[])
        };
        let mut sides = runs.map(merged);
        let known: Sides<KnownValues> = sides.as_mut().map(|(_, known)| std::mem::take(known));
        let (design, threshold) = (Design::Independent, Threshold::default());
        let judge = Judge { judged: Judged::Yes, known, design, threshold };
        ReportSection::new(section, sides.map(|(groups, _)| groups), &[], &judge)
    }

    fn judged(gates: &[Gate], runs: Sides<Vec<SideSection>>) -> Vec<GateResult> {
        let rows = [section(gates[0].metrics[0].section, runs)];
        let minor = [vec!["minor".to_owned()]].into();
        judge(gates, &GateJudge { design: Design::Independent, tests: tests_of(gates), minor }, |_| &rows)
    }

    /// The results of one gate for one run per side.
    fn results(gate: &str, before: &[(&str, Option<u64>)], after: &[(&str, Option<u64>)]) -> Vec<GateOutcome> {
        let gate: Gate = gate.parse().unwrap();
        let quantity = gate.metrics[0].quantity.unwrap();
        let run = |values: &[(&str, Option<u64>)]| {
            let cells: Vec<_> = values.iter().map(|(name, value)| (*name, value.map(Cell::Number))).collect();
            vec![run(quantity.name(), &cells)]
        };
        let results = judged(std::slice::from_ref(&gate), Sides::two(run(before), run(after)));
        results.into_iter().map(|result| result.outcome).collect()
    }

    fn of_total(gate: &str, before: Option<u64>, after: Option<u64>) -> GateOutcome {
        results(gate, &[("", before)], &[("", after)]).remove(0)
    }

    /// The results of several gates on all groups for these runs.
    fn of_runs(gates: &[&str], before: &[u64], after: &[u64]) -> Vec<GateResult> {
        let gates: Vec<Gate> = gates.iter().map(|gate| gate.parse().unwrap()).collect();
        let run = |value: &u64| run("run_time_ns", &[("", Some(Cell::Number(*value)))]);
        let side = |values: &[u64]| values.iter().map(run).collect();
        judged(&gates, Sides::two(side(before), side(after)))
    }

    use GateOutcome::{Failed, Passed, Unclear};

    fn error(reason: &str) -> GateOutcome {
        GateOutcome::Error(reason.to_owned())
    }

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
        assert_eq!(of_total("run_time_ns>10%", None, None), error(NO_DATA));
        assert_eq!(of_total("run_time_ns>10%", None, Some(1)), error("no data in the baseline"));
        assert_eq!(of_total("run_time_ns<10%", Some(1), None), error(NO_CANDIDATE));
        let some = [("redis", Some(5))];
        let suggested = results("reds:run_time_ns>1s", &some, &some).remove(0);
        assert_eq!(suggested, error("no group matches `reds`; did you mean `redis`?"));
    }

    #[test]
    fn a_group_on_one_side_did_nothing_on_the_other() {
        let (app, new) = (("app", Some(100)), ("new", Some(5_000_000_000)));
        let both = |gate: &str| results(gate, &[app], &[app, new]);
        assert_eq!(both("*:run_time_ns>2s"), [Passed, Failed]);
        assert_eq!(both("*:run_time_ns>10%"), [Passed], "what is new has no percentage");
        assert_eq!(both("new*:run_time_ns>10%"), [error(ONLY_IN_CANDIDATE)], "there is nothing else");
        let gone = |gate: &str| results(gate, &[app, new], &[app]);
        assert_eq!(gone("*:run_time_ns>10%"), [Passed]);
        assert_eq!(gone("*:run_time_ns<1s"), [Passed, Failed]);
        assert_eq!(gone("new:run_time_ns>10%"), [error(ONLY_IN_BASELINE)]);
    }

    #[test]
    fn a_group_only_in_the_candidate_has_no_percentage_even_without_a_value() {
        let (app, new) = (("app", Some(100)), ("new", None));
        let both = |gate: &str| results(gate, &[app], &[app, new]);
        assert_eq!(both("new:run_time_ns>10%"), [error(ONLY_IN_CANDIDATE)]);
        assert_eq!(both("*:run_time_ns>1s"), [Passed], "unknown on one side, and nothing on the other");
    }

    #[test]
    fn a_percentage_of_every_group_leaves_out_those_that_do_not_matter() {
        let both = |gate: &str| {
            results(gate, &[("app", Some(100)), ("minor", Some(1))], &[("app", Some(100)), ("minor", Some(9))])
        };
        assert_eq!((both("*:run_time_ns>10%"), both("m*:run_time_ns>10%")), (vec![Passed], vec![error(MINOR)]));
        assert_eq!((both("minor:run_time_ns>10%"), both("*:run_time_ns>5ns")), (vec![Failed], vec![Passed, Failed]));
    }

    #[test]
    fn groups_without_data_are_left_out_only_beside_others_that_have_some() {
        let both = |values: &[(&str, Option<u64>)]| results("*:run_time_ns>10%", values, values);
        assert_eq!(both(&[("a", None), ("b", Some(1))]), [Passed]);
        assert_eq!(both(&[("a", None), ("b", None)]), [error(NO_DATA)]);
    }

    #[test]
    fn averages_of_a_group_on_one_side_are_unknown() {
        let some = [("app", Some(100))];
        let none = [("other", Some(1))];
        assert_eq!(results("app:avg_wait_ns>1s", &none, &some), [error("no data in the baseline")]);
        assert_eq!(results("app:wait_max>1s", &none, &some), [error("no data in the baseline")]);
    }

    const LOW: [u64; 5] = [100, 101, 102, 103, 104];
    const HIGH: [u64; 5] = [120, 121, 122, 123, 124];

    #[test]
    fn of_several_runs_the_interval_decides() {
        let outcome = |after: &[u64]| of_runs(&["run_time_ns>10%"], &LOW, after).remove(0);
        let failed = outcome(&HIGH);
        assert_eq!((&failed.outcome, failed.values.of_candidate()), (&Failed, Some(&Cell::Number(122))));
        assert!(failed.p.is_some_and(|p| p <= TAIL));
        let GateChange { amount: ratio, interval, .. } = failed.change.unwrap();
        let Interval { low, high } = interval.unwrap();
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
        let outcomes: Vec<_> = gates(2).into_iter().map(|result| result.outcome).collect();
        let text = "4 runs per side cannot decide gates on 2 values; record at least 5 per side, or use fewer gates";
        assert_eq!(outcomes, [error(text), Unclear], "it is said once");
        assert_eq!(of_runs(&["run_time_ns>10%"; 2], &LOW[..4], &LOW[..4])[0].outcome, Passed);
    }

    #[test]
    fn negative_values_have_no_percentage() {
        let run = |value| vec![run("live_heap_estimate", &[("", Some(Cell::Signed(value)))])];
        let outcome =
            |gate: &str| judged(&[gate.parse().unwrap()], Sides::two(run(-4096), run(4096))).remove(0).outcome;
        assert_eq!(outcome("live_heap_estimate>10%"), error(NEGATIVE));
        assert_eq!((outcome("live_heap_estimate>4KiB"), outcome("live_heap_estimate>8KiB")), (Failed, Passed));
    }

    #[test]
    fn every_outcome_has_a_name() {
        let error = error(NO_DATA);
        for (outcome, name) in [(Passed, "passed"), (Failed, "failed"), (Unclear, "unclear"), (error, "error")] {
            assert_eq!(outcome.name(), name);
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
    fn an_interval_twice_as_wide_as_the_distance_from_the_bound_needs_eight_times_the_runs() {
        let mut result = of_runs(&["run_time_ns>10%"], &[100; 8], &[100; 8]).remove(0);
        let mut needed = |scale, amount: f64, (low, high), bound| {
            result.change = Some(GateChange { scale, amount, interval: Some(Interval { low, high }) });
            runs_needed(&result, bound, 1)
        };
        for (ratio, bound) in [(1.21, 1.1), (1.0, 1.1), (2.0, 2.2), (2.2, 2.0), (0.5, 0.55)] {
            // Four times for an interval that ends at the bound, twice as many for it to do so in 80 of 100 cases.
            let needed = needed(Scale::Ratio, ratio, (ratio / 1.21, ratio * 1.21), bound).unwrap();
            assert!((64..=67).contains(&needed), "{ratio} {bound}: {needed}");
        }
        assert_eq!(needed(Scale::Ratio, 1.21, (1.0, 1.46), 5.0), None, "far from it, fewer runs are enough");
        assert_eq!(needed(Scale::Difference, 10.0, (8.0, 12.0), 9.0), Some(66));
    }

    #[test]
    fn six_pairs_decide_several_gates_that_are_clear() {
        // A rise of 186 %, recorded in turn.
        let low = [100, 104, 98, 101, 97, 103];
        let high = low.map(|value| value * 286 / 100);
        let gates: Vec<Gate> = ["run_time_ns>5%"; 5].iter().map(|gate| gate.parse().unwrap()).collect();
        let side =
            |values: [u64; 6]| values.map(|value| run("run_time_ns", &[("", Some(Cell::Number(value)))])).to_vec();
        let rows = [section(gates[0].metrics[0].section, Sides::two(side(low), side(high)))];
        let results = judge(&gates, &GateJudge { design: Design::Paired, tests: 5, minor: BTreeSet::new() }, |_| &rows);
        assert!(results.iter().all(|result| result.outcome == Failed), "{results:?}");
    }

    #[test]
    fn a_gate_on_many_values_is_as_many_tests() {
        let of = |name: &'static str, runs: [u64; 5]| {
            runs.map(|value| run(name, &[("", Some(Cell::Number(value)))])).to_vec()
        };
        let rows = ["run", "wait"].map(|name| {
            section(
                Section::Overview,
                Sides::two(of(name, [100, 101, 102, 103, 104]), of(name, [120, 121, 122, 123, 124])),
            )
        });
        let gates: [Gate; 1] = ["worse>10%".parse().unwrap()];
        let judge_of = GateJudge { design: Design::Independent, tests: tests_of(&gates), minor: BTreeSet::new() };
        assert_eq!(judge_of.tests, 8, "columns");
        let results = judge(&gates, &judge_of, |_| &rows);
        assert_eq!(results.iter().map(|result| result.p).collect::<Vec<_>>(), [Some(2.0 / 252.0); 2]);
    }

    #[test]
    fn a_gate_on_many_groups_is_one_gate() {
        let values = |value| [("a", Some(Cell::Number(value))), ("b", Some(Cell::Number(value)))];
        let side = |runs: [u64; 4]| runs.map(|value| run("run_time_ns", &values(value))).to_vec();
        let gate: Gate = "*:run_time_ns>10%".parse().unwrap();
        let results = judged(&[gate], Sides::two(side([100, 101, 102, 103]), side([120, 121, 122, 123])));
        assert_eq!(results.iter().map(|result| result.p).collect::<Vec<_>>(), [Some(1.0 / 70.0); 2]);
        assert!(results.iter().all(|result| result.outcome == Failed));
    }

    #[test]
    fn seven_whole_pairs_of_ten_decide_four_gates() {
        let run = |value: Option<u64>| run("run_time_ns", &[("", value.map(Cell::Number))]);
        let mut low = [100, 104, 98, 101, 97, 103, 99, 102, 100, 105].map(Some);
        let high = low.map(|value| value.map(|value| value * 3 / 2));
        low[2..5].fill(None);
        let gates: Vec<Gate> = ["run_time_ns>5%"; 4].iter().map(|gate| gate.parse().unwrap()).collect();
        let runs = Sides::two(low.map(run).to_vec(), high.map(run).to_vec());
        let rows = [section(gates[0].metrics[0].section, runs)];
        let results = judge(&gates, &GateJudge { design: Design::Paired, tests: 4, minor: BTreeSet::new() }, |_| &rows);
        let expected = (Design::Independent, (7, 10));
        assert!(results.iter().all(|result| result.outcome == Failed && result.tested == expected), "{results:?}");
    }

    #[test]
    fn a_side_where_most_runs_have_no_value_has_no_data() {
        let outcome = |known: usize| {
            let side = |known: usize| {
                (0..20).map(|place| run("run_time_ns", &[("", (place < known).then_some(Cell::Number(1)))])).collect()
            };
            let gate: Gate = "run_time_ns>10ms".parse().unwrap();
            judged(&[gate], Sides::two(side(20), side(known))).remove(0).outcome
        };
        assert_eq!([outcome(10), outcome(20)], [GateOutcome::Passed, GateOutcome::Passed]);
        assert_eq!([outcome(3), outcome(9)], [(); 2].map(|()| GateOutcome::Error(NO_CANDIDATE.to_owned())));
    }
}
