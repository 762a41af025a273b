//! Gates pass, fail, or are errors.

use super::*;
use crate::compare::runs::tests::of_all;
use crate::compare::{Group, GroupFacts, Judge, Measurement, SideGroup, SideSection, Threshold, tests_of};
use crate::model::{ExitedWork, Section};

/// A run in which the groups have these values; `None` is a group without one. That of all groups has no name.
fn run(name: &'static str, values: &[(&str, Option<Cell>)]) -> SideSection {
    let group = |value: &Option<Cell>| {
        let quantity = crate::compare::Quantity::named(name).unwrap();
        let measured = Measurement {
            is_total: quantity.is_total(),
            quantity: Some(quantity),
            ..Measurement::new(name, quantity.about().unit, value.clone(), 1)
        };
        SideGroup { measurements: vec![measured], ..SideGroup::default() }
    };
    let key = |name: &str| if name.is_empty() { Vec::new() } else { vec![name.to_owned()] };
    values.iter().map(|(name, value)| (key(name), group(value))).collect()
}

/// The section of these runs.
fn section(section: Section, runs: Sides<Vec<SideSection>>) -> ReportSection {
    let judge = Judge { design: Design::Independent, threshold: Threshold::default(), tail: TAIL };
    ReportSection::new(section, runs.map(of_all), &[], judge)
}

fn gate_results(gates: &[Gate], runs: Sides<Vec<SideSection>>) -> Vec<GateResult> {
    let rows = [section(gates[0].metrics[0].section, runs)];
    judge(gates, &GateJudge { tests: tests_of(gates), ..default_judge() }, |_| rows.iter().collect())
}

/// Independent runs on one host, with a group that takes little CPU time.
fn default_judge() -> GateJudge {
    GateJudge {
        design: Design::Independent,
        tests: 1,
        tail: TAIL,
        minor: [vec!["minor".to_owned()]].into(),
        per: Per::Run,
        new_groups: NewGroups::Judge,
        other_host: None,
        ended_early: false,
    }
}

/// The results of one gate for one run per side.
fn results(gate: &str, before: &[(&str, Option<u64>)], after: &[(&str, Option<u64>)]) -> Vec<GateOutcome> {
    let gate: Gate = gate.parse().unwrap();
    let quantity = gate.metrics[0].quantity.unwrap();
    let run = |values: &[(&str, Option<u64>)]| {
        let cells: Vec<_> = values.iter().map(|(name, value)| (*name, value.map(Cell::Number))).collect();
        vec![run(quantity.name(), &cells)]
    };
    let results = gate_results(std::slice::from_ref(&gate), Sides::two(run(before), run(after)));
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
    gate_results(&gates, Sides::two(side(before), side(after)))
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
    assert_eq!(both("*:run_time_ns>10%"), [Passed, Failed], "the baseline of what is new is 0");
    assert_eq!(both("new:run_time_ns>10%"), [error(ONLY_IN_CANDIDATE)]);
    let baseline_only = |gate: &str| results(gate, &[app, new], &[app]);
    assert_eq!(baseline_only("*:run_time_ns>10%"), [Passed]);
    assert_eq!(baseline_only("*:run_time_ns<1s"), [Failed], "the other cannot fall by as much");
    assert_eq!(baseline_only("*:run_time_ns<50%"), [Passed, Failed], "a fall by 100%");
    assert_eq!(baseline_only("new:run_time_ns>10%"), [error(ONLY_IN_BASELINE)]);
}

#[test]
fn a_group_only_in_the_candidate_has_no_percentage_even_without_a_value() {
    let (app, new) = (("app", Some(100)), ("new", None));
    let both = |gate: &str| results(gate, &[app], &[app, new]);
    assert_eq!(both("new:run_time_ns>10%"), [error(ONLY_IN_CANDIDATE)]);
    assert_eq!(both("*:run_time_ns>10%"), [Passed], "a glob leaves it out");
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
fn the_name_of_an_interpreter_is_a_glob_for_its_scripts() {
    let [a, b, c] = ["python3 a", "python3 b", "python3 c"].map(|name| (name, Some(100)));
    let scripts = |gate: &str| results(gate, &[a, b, ("python3 minor", Some(1))], &[a, c, ("python3 minor", Some(1))]);
    assert_eq!(scripts("python3:run_time_ns>10%"), scripts("python3*:run_time_ns>10%"));
    assert_eq!(
        scripts("python3:run_time_ns>1s"),
        [Passed, Passed, Passed, Passed],
        "what one side lacks did nothing there"
    );
    assert_eq!(scripts("python3 b:run_time_ns>1s"), [error(ONLY_IN_BASELINE)]);
    let (gate, none) = ("python3:run_time_ns>10%", &[("sh", Some(1))]);
    assert_eq!(results(gate, &[a, b], none), [error(ONLY_IN_BASELINE)], "not one of them is left");
    assert_eq!(results(gate, none, &[a, b]), [error(ONLY_IN_CANDIDATE)]);
    assert_eq!(results(gate, &[a], none), [error(ONLY_IN_BASELINE)]);
    // A group with the very name is judged as alone, whatever has a longer name.
    let [app, slower, helper] = [("app", Some(100)), ("app", Some(180)), ("app helper", Some(1))];
    for gate in ["app:run_time_ns>10%", "app:run_time_ns>1s"] {
        assert!(results(gate, &[app, helper], &[helper]).contains(&error(ONLY_IN_BASELINE)), "{gate}");
    }
    assert!(
        results(
            "minor:run_time_ns>10%",
            &[("minor", Some(1)), ("minor x", None)],
            &[("minor", Some(9)), ("minor x", None)]
        )
        .contains(&Failed)
    );
    assert!(results("app:run_time_ns>10%", &[app, helper], &[slower, helper]).contains(&Failed));
    let unknown = [("app", None), helper];
    assert!(results("app:run_time_ns>10%", &unknown, &unknown).contains(&error(NO_DATA)));
    let web = ("/docker/{H} [web]", Some(100));
    assert_eq!(results("/docker/{H} [web]:run_time_ns>1s", &[web, helper], &[helper]), [error(ONLY_IN_BASELINE)]);
}

#[test]
fn gates_on_groups_look_neither_at_all_together_nor_at_exited_work() {
    let is_gated = |key: &[&str], exited_work| {
        let group_facts = Sides::one(Some(GroupFacts { exited_work, ..GroupFacts::default() }));
        let key = key.iter().map(|name| (*name).to_owned()).collect();
        is_gated(&Group { key, group_facts, ..Group::default() })
    };
    assert!(is_gated(&["app"], None));
    assert!(!is_gated(&[], None) && !is_gated(&["app", "(exited threads)"], Some(ExitedWork::Threads)));
}

#[test]
fn groups_without_data_are_left_out_only_beside_others_that_have_some() {
    let both = |values: &[(&str, Option<u64>)]| results("*:run_time_ns>10%", values, values);
    assert_eq!(both(&[("a", None), ("b", Some(1))]), [Passed]);
    assert_eq!(both(&[("a", None), ("b", None)]), [error(NO_DATA)]);
}

#[test]
fn a_lower_bound_is_judged_by_no_gate() {
    let gate: Gate = "app:longest>10%".parse().unwrap();
    let side = |cell| vec![run("longest", &[("app", Some(cell))])];
    let exact = || side(Cell::Number(40));
    for sides in [
        Sides::two(exact(), side(Cell::AtLeast { at_least: 40 })),
        Sides::two(side(Cell::AtLeast { at_least: 40 }), exact()),
    ] {
        assert_eq!(gate_results(std::slice::from_ref(&gate), sides)[0].outcome, error(ONLY_A_BOUND));
    }
    assert_eq!(gate_results(&[gate], Sides::two(exact(), side(Cell::Number(50))))[0].outcome, Failed);
}

#[test]
fn averages_of_a_group_on_one_side_are_unknown() {
    let some = [("app", Some(100))];
    let none = [("other", Some(1))];
    assert_eq!(results("app:avg_wait_ns>1s", &none, &some), [error("no data in the baseline")]);
    assert_eq!(results("app:wait_max>1s", &none, &some), [error("no data in the baseline")]);
}

#[test]
fn for_a_glob_what_is_new_rose_from_nothing_and_may_have_fallen() {
    let (app, new) = (("app", Some(100)), ("new", Some(50)));
    let both = |gate: &str| results(gate, &[app], &[app, new]);
    assert_eq!(both("*:wait_max>10ns"), [Passed, Failed]);
    assert_eq!(both("*:wait_max>10%"), [Passed, Failed]);
    assert_eq!(both("*:wait_max>50ns"), [Passed, Passed], "whatever it was before");
    assert_eq!(both("*:wait_max<10ns"), [Passed, Failed], "it may have fallen");
    assert_eq!(results("*:wait_max>10ns", &[app, new], &[app]), [Passed], "gone");
    assert_eq!(results("*:wait_max>10ns", &[app], &[app, ("new", None)]), [Passed], "without a value");
    let of_longest = |cell: Cell| {
        let side = |cells: &[(&str, Option<Cell>)]| vec![run("longest", cells)];
        let app = ("app", Some(Cell::Number(100)));
        let sides = Sides::two(side(std::slice::from_ref(&app)), side(&[app, ("new", Some(cell))]));
        gate_results(&["*:longest>1s".parse().unwrap()], sides).remove(1).outcome
    };
    assert_eq!(of_longest(Cell::AtLeast { at_least: 5 }), error(ONLY_A_BOUND), "at least 5 can be anything");
}

#[test]
fn new_groups_pass_only_where_they_are_allowed_or_take_little_time() {
    let outcomes = |new_groups, name: &str| {
        let gate: Gate = "*:run_time_ns>10%".parse().unwrap();
        let cell = |nanoseconds| Some(Cell::Number(nanoseconds));
        let runs = Sides::two(
            vec![run("run_time_ns", &[("app", cell(100))])],
            vec![run("run_time_ns", &[("app", cell(100)), (name, cell(50))])],
        );
        let rows = [section(gate.metrics[0].section, runs)];
        let results = judge(&[gate], &GateJudge { new_groups, ..default_judge() }, |_| rows.iter().collect());
        results.into_iter().map(|result| result.outcome).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(NewGroups::Judge, "new"), [Passed, Failed]);
    assert_eq!(outcomes(NewGroups::Pass, "new"), [Passed]);
    assert_eq!(outcomes(NewGroups::Judge, "minor"), [Passed]);
}

#[test]
fn a_gate_that_no_candidate_could_fail_is_an_error() {
    let fault = |gate: &str, before: u64| match of_total(gate, Some(before), Some(before)) {
        GateOutcome::Error(fault) => fault,
        outcome => outcome.name().to_owned(),
    };
    assert!(fault("run_time_ns<1s", 1_000_000_000).starts_with("this gate can never fail"));
    assert!(fault("run_time_ns<10%", 0).starts_with("this gate can never fail"));
    assert_eq!([fault("run_time_ns<1s", 1_000_000_001), fault("run_time_ns<10%", 1)], ["passed", "passed"]);
    let falls = |before: &[u64]| of_runs(&["run_time_ns<50ns"], before, before).remove(0).outcome.name();
    assert_eq!(falls(&[10, 20, 30, 60]), "error", "one run could fall by as much, and one run decides nothing");
    assert_eq!([falls(&[10, 60, 70, 80]), falls(&[10, 60, 70]), falls(&[10, 20, 90])], ["unclear", "passed", "error"]);
    let share = |gate: &str, share| {
        let run = || vec![run("cpu_efficiency", &[("", Some(Cell::Ratio(share)))])];
        gate_results(&[gate.parse().unwrap()], Sides::two(run(), run())).remove(0).outcome.name()
    };
    assert_eq!([share("cpu_efficiency>5pp", 0.96), share("cpu_efficiency>5pp", 0.9)], ["error", "passed"]);
    assert_eq!([share("cpu_efficiency<5pp", 0.04), share("cpu_efficiency<5pp", 0.06)], ["error", "passed"]);
}

#[test]
fn percentages_of_times_of_other_processors_are_refused_and_other_values_are_not() {
    let of_other = |gate: &str, name: &'static str| {
        let side = || vec![run(name, &[("", Some(Cell::Number(100)))])];
        let gate: Gate = gate.parse().unwrap();
        let rows = [section(gate.metrics[0].section, Sides::two(side(), side()))];
        let judge_of = GateJudge { other_host: Some("other".to_owned()), ..default_judge() };
        judge(&[gate], &judge_of, |_| rows.iter().collect()).remove(0).outcome
    };
    assert_eq!(of_other("run_time_ns>10%", "run_time_ns"), error("other"));
    assert_eq!([of_other("run_time_ns>1s", "run_time_ns"), of_other("minflt>10%", "minflt")], [Passed, Passed]);
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
    let outcome = |gates: usize| of_runs(&vec!["run_time_ns>10%"; gates], &LOW[..4], &LOW[..4]).remove(0).outcome;
    assert_eq!((outcome(1), outcome(2)), (Passed, error(text)), "gates that cannot fail do not pass");
}

#[test]
fn negative_values_have_no_percentage() {
    let run = |value| vec![run("live_heap_estimate", &[("", Some(Cell::Signed(value)))])];
    let outcome =
        |gate: &str| gate_results(&[gate.parse().unwrap()], Sides::two(run(-4096), run(4096))).remove(0).outcome;
    assert_eq!(outcome("live_heap_estimate>10%"), error(NEGATIVE));
    assert_eq!((outcome("live_heap_estimate>4KiB"), outcome("live_heap_estimate>8KiB")), (Failed, Passed));
}

#[test]
fn a_glob_leaves_out_no_group_of_both_sides_that_cannot_be_judged() {
    let run = |value| {
        let cells = [("app", value), ("web", 8)].map(|(name, value)| (name, Some(Cell::Signed(value))));
        vec![run("live_heap_estimate", &cells)]
    };
    let results = gate_results(&["*:live_heap_estimate>10%".parse().unwrap()], Sides::two(run(-4096), run(4096)));
    let outcomes: Vec<_> = results.into_iter().map(|result| (result.group.join("/"), result.outcome)).collect();
    assert_eq!(outcomes, [("app".to_owned(), error(NEGATIVE)), ("web".to_owned(), Passed)]);
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
    for gate in ["run_time_ns>10%", "run_time_ns<10%", "run_time_ns>1s", "run_time_ns<50ns"] {
        assert_eq!(of_runs(&[gate], &[100; 8], &[100; 8])[0].outcome, Passed, "{gate}");
    }
    assert_eq!(of_runs(&["run_time_ns<50%"], &[100; 8], &[50; 8])[0].outcome, Passed, "not below it");
    assert_eq!(of_runs(&["run_time_ns>50%"], &[100; 8], &[150; 8])[0].outcome, Passed, "not above it");
}

#[test]
fn an_interval_twice_as_wide_as_the_distance_from_the_bound_needs_eight_times_the_runs() {
    let mut result = of_runs(&["run_time_ns>10%"], &[100; 8], &[100; 8]).remove(0);
    let mut needed = |scale, amount: f64, (low, high), bound| {
        result.change =
            Some(GateChange { scale, amount, interval: Some(Interval { low, high }), tail: TAIL, level: 0.95 });
        runs_needed(&result, bound)
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
    let side = |values: [u64; 6]| values.map(|value| run("run_time_ns", &[("", Some(Cell::Number(value)))])).to_vec();
    let rows = [section(gates[0].metrics[0].section, Sides::two(side(low), side(high)))];
    let results =
        judge(&gates, &GateJudge { design: Design::Paired, tests: 5, ..default_judge() }, |_| rows.iter().collect());
    assert!(results.iter().all(|result| result.outcome == Failed), "{results:?}");
}

#[test]
fn medians_decide_single_runs_but_not_runs_that_ended_too_early_for_an_interval() {
    let side = |value| vec![run("run_time_ns", &[("", Some(Cell::Number(value)))]); 2];
    let outcomes = |ended_early, after| {
        let gates: Vec<Gate> = ["run_time_ns>5%"; 2].iter().map(|gate| gate.parse().unwrap()).collect();
        let rows = [section(gates[0].metrics[0].section, Sides::two(side(100), side(after)))];
        let judge_of = GateJudge { tests: 2, ended_early, ..default_judge() };
        judge(&gates, &judge_of, |_| rows.iter().collect()).into_iter().map(|result| result.outcome).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(false, 200), [Failed, Failed]);
    for after in [100, 200] {
        let [GateOutcome::Error(fault), Unclear] = &outcomes(true, after)[..] else { panic!("{after}") };
        assert!(fault.starts_with("2 runs per side cannot decide gates on 2 values"), "{fault}");
    }
}

#[test]
fn a_new_group_fails_a_glob_also_if_runs_ended_early() {
    let side = |cells: &[(&str, Option<Cell>)]| vec![run("wait_max", cells); 8];
    let [app, new] = ["app", "new"].map(|name| (name, Some(Cell::Number(100))));
    let gate: Gate = "*:wait_max>10ns".parse().unwrap();
    let rows = [section(gate.metrics[0].section, Sides::two(side(std::slice::from_ref(&app)), side(&[app, new])))];
    let judge_of = GateJudge { ended_early: true, ..default_judge() };
    let results = judge(&[gate], &judge_of, |_| rows.iter().collect());
    assert_eq!(results.into_iter().map(|result| result.outcome).collect::<Vec<_>>(), [Passed, Failed]);
}

#[test]
fn a_gate_on_many_values_is_as_many_tests() {
    let of =
        |name: &'static str, runs: [u64; 5]| runs.map(|value| run(name, &[("", Some(Cell::Number(value)))])).to_vec();
    let rows = ["run", "wait"].map(|name| {
        section(Section::Overview, Sides::two(of(name, [100, 101, 102, 103, 104]), of(name, [120, 121, 122, 123, 124])))
    });
    let gates: [Gate; 1] = ["worse>10%".parse().unwrap()];
    let judge_of = GateJudge { design: Design::Independent, tests: tests_of(&gates), ..default_judge() };
    assert_eq!(judge_of.tests, 8, "columns");
    let results = judge(&gates, &judge_of, |_| rows.iter().collect());
    assert_eq!(results.iter().map(|result| result.p).collect::<Vec<_>>(), [Some(2.0 / 252.0); 2]);
}

#[test]
fn a_gate_on_many_groups_is_one_gate() {
    let values = |value| [("a", Some(Cell::Number(value))), ("b", Some(Cell::Number(value)))];
    let side = |runs: [u64; 4]| runs.map(|value| run("run_time_ns", &values(value))).to_vec();
    let gate: Gate = "*:run_time_ns>10%".parse().unwrap();
    let results = gate_results(&[gate], Sides::two(side([100, 101, 102, 103]), side([120, 121, 122, 123])));
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
    let results =
        judge(&gates, &GateJudge { design: Design::Paired, tests: 4, ..default_judge() }, |_| rows.iter().collect());
    let is_unpaired = |tested: &Samples| (tested.design, tested.sizes()) == (Design::Independent, (7, 10));
    let is_failed = |result: &GateResult| result.outcome == Failed && result.tested.as_ref().is_some_and(is_unpaired);
    assert!(results.iter().all(is_failed), "{results:?}");
}

#[test]
fn of_several_gates_the_printed_interval_decides() {
    let (low, high) = ([100, 104, 98, 101, 97, 103, 99, 102], [110, 131, 120, 150, 109, 122, 140, 135]);
    for bound in 0..60 {
        let bounds = [bound, 500, 600, 700, 800].map(|bound| format!("run_time_ns>{bound}%"));
        for result in of_runs(&bounds.each_ref().map(String::as_str), &low, &high) {
            let limit = 1.0 + result.bound[1..result.bound.len() - 1].parse::<f64>().unwrap() / 100.0;
            let Interval { low, high } = result.change.unwrap().interval.unwrap();
            let expected = if low > limit {
                Failed
            } else if high <= limit {
                Passed
            } else {
                Unclear
            };
            assert_eq!(result.outcome, expected, "{low}..{high} {limit}");
            assert_eq!(result.outcome == Failed, result.p.is_some_and(|p| p <= TAIL), "{:?}", result.p);
        }
    }
}

#[test]
fn a_side_where_most_runs_have_no_value_has_no_data() {
    let outcome = |with_value: usize| {
        let side = |with_value: usize| {
            (0..20).map(|place| run("run_time_ns", &[("", (place < with_value).then_some(Cell::Number(1)))])).collect()
        };
        let gate: Gate = "run_time_ns>10ms".parse().unwrap();
        gate_results(&[gate], Sides::two(side(20), side(with_value))).remove(0).outcome
    };
    assert_eq!([outcome(10), outcome(20)], [GateOutcome::Passed, GateOutcome::Passed]);
    assert_eq!([outcome(3), outcome(9)], [(); 2].map(|()| GateOutcome::Error(NO_CANDIDATE.to_owned())));
}
