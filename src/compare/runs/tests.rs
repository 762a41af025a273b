//! The runs of a side.

use super::*;
use crate::compare::SideGroup;
use crate::model::{MostFrequent, Unit};
use crate::statistics::{Interval, TAIL};

fn judge() -> Judge {
    Judge { design: Design::Independent, threshold: Threshold(0.05), tail: TAIL }
}

/// The pairs of runs in this order: `a` of the baseline, `b` of the candidate.
fn pairs(order: &str) -> Vec<(usize, usize)> {
    let times =
        |side| order.char_indices().filter(|(_, run)| *run == side).map(|(at, _)| at as u64).collect::<Vec<_>>();
    in_turn(&times('a'), &times('b'))
}

#[test]
fn pairs_that_are_whole_stay_pairs_whatever_else_failed() {
    assert_eq!(pairs("abbaab"), [(0, 0), (1, 1), (2, 2)]);
    assert_eq!(pairs("abb_abba"), [(0, 0), (1, 1), (2, 3)], "one run of the candidate has no partner");
    assert_eq!(pairs("abbaa"), [(0, 0), (1, 1)], "interrupted");
    assert_eq!(pairs("aaabbb"), [(2, 0)]);
    assert_eq!(in_turn(&[0, 5], &[0, 6]), [], "at one time");
}

fn run(members: u64, run_time: Option<u64>, wait_max: Option<u64>) -> SideSection {
    let measured = |name, value: Option<u64>, is_total| Measurement {
        is_total,
        ..Measurement::new(name, Unit::Ns, value.map(Cell::Number), members)
    };
    let measurements = vec![measured("run_time_ns", run_time, true), measured("wait_max", wait_max, false)];
    let group = SideGroup::new(members, measurements);
    BTreeMap::from([(vec!["app".to_owned()], group)])
}

/// The section of a side with these runs.
pub(in crate::compare) fn of_all(runs: Vec<SideSection>) -> SectionRuns {
    SectionRuns::new(KnownValues::of_runs(runs.len()), runs.into_iter().map(Some), |_| true, &[]).unwrap()
}

fn merged(runs: Vec<SideSection>) -> SideSection {
    of_all(runs).groups
}

#[test]
fn user_time_that_only_longer_runs_have_is_not_shown_beside_the_run_time_of_all() {
    let run = |run: u64, usr: Option<u64>| {
        let column = |name: &'static str, value: Option<u64>| {
            let quantity = Quantity::named(name);
            Measurement { is_total: true, quantity, ..Measurement::new(name, Unit::Ns, value.map(Cell::Number), 1) }
        };
        BTreeMap::from([(
            vec!["app".to_owned()],
            SideGroup::new(1, vec![column("run", Some(run)), column("usr", usr)]),
        )])
    };
    let medians = |runs: Vec<SideSection>| {
        let section = merged(runs);
        let group = section.values().next().unwrap();
        [0, 1].map(|place| group.measurements[place].cell.clone())
    };
    let long = |ns: u64| run(ns, Some(ns / 2));
    assert_eq!(medians(vec![long(80), long(90), long(70)]), [Some(Cell::Number(80)), Some(Cell::Number(40))]);
    let mixed = vec![run(10, None), run(20, None), long(80), long(90)];
    assert_eq!(medians(mixed), [Some(Cell::Number(50)), None]);
    let nearly_all = std::iter::once(run(10, None)).chain((80..=88).map(long)).collect();
    assert_eq!(medians(nearly_all), [Some(Cell::Number(84)), Some(Cell::Number(42))]);
}

#[test]
fn several_runs_have_the_median_of_each_value() {
    let section = merged(vec![
        run(1, Some(900), None),
        run(2, Some(5), Some(8)),
        run(9, Some(7), Some(9)),
        run(4, Some(8), None),
    ]);
    let group = &section[&vec!["app".to_owned()]];
    assert_eq!(group.measurements[0].cell, Some(Cell::Number(8)), "7.5, rounded");
    assert_eq!(group.measurements[0].runs.as_deref(), Some(&[900.0, 5.0, 7.0, 8.0][..]));
    assert_eq!(group.measurements[1].cell, Some(Cell::Number(9)), "of two that know it");
    assert_eq!(group.group_facts.members, 3);
    let section = merged(vec![run(1, Some(1), None), run(1, Some(1), None), run(1, Some(1), Some(8))]);
    assert_eq!(section[&vec!["app".to_owned()]].measurements[1].cell, None, "most runs do not know it");
    assert!(merged(Vec::new()).is_empty());
}

#[test]
fn a_few_runs_that_count_in_ticks_do_not_blur_the_exact_ones() {
    let ticks = |time, quantum| {
        let mut run = run(1, Some(time), None);
        run.get_mut(&vec!["app".to_owned()]).unwrap().measurements[0].quantum = quantum;
        run
    };
    let app = |runs: [f64; 4]| {
        let section = merged(runs.map(|quantum| ticks(7, quantum)).to_vec());
        let run_time = &section[&vec!["app".to_owned()]].measurements[0];
        (run_time.quantum, run_time.runs.as_ref().unwrap().iter().filter(|number| !number.is_nan()).count())
    };
    assert_eq!(app([10.0, 0.0, 0.0, 0.0]), (0.0, 3));
    assert_eq!(app([10.0, 10.0, 10.0, 0.0]), (10.0, 4), "then it is the exact one that says little");
}

#[test]
fn a_run_without_the_group_did_no_work_in_it_and_has_no_maximum() {
    let mut other = run(1, Some(3), Some(3));
    let (_, group) = other.pop_first().unwrap();
    let without = BTreeMap::from([(vec!["other".to_owned()], group)]);
    let nothing_read = || BTreeMap::from([(vec!["other".to_owned()], run(1, None, None).pop_first().unwrap().1)]);
    let section = merged(vec![run(2, Some(6), Some(4)), without.clone(), run(2, Some(6), Some(4)), nothing_read()]);
    let app = &section[&vec!["app".to_owned()]];
    let runs = |measured: &Measurement| measured.runs.as_deref().unwrap().to_vec();
    assert_eq!(runs(&app.measurements[0])[..3], [6.0, 0.0, 6.0]);
    assert!(runs(&app.measurements[0])[3].is_nan(), "a run that did not read the value does not know it");
    assert_eq!(app.measurements[0].cell, Some(Cell::Number(6)));
    assert!(runs(&app.measurements[1])[1].is_nan());
    assert_eq!((&app.measurements[1].cell, app.group_facts.members), (&Some(Cell::Number(4)), 1));
}

#[test]
fn a_side_without_the_group_has_a_total_of_0_where_it_knows_the_value() {
    let side = of_all(vec![run(1, Some(5), Some(5)), run(1, Some(5), None), run(1, None, None)]).runs_with_values;
    let cell = |name: &'static str, is_total, exists| {
        let like = Measurement { is_total, ..Measurement::new(name, Unit::Ns, Cell::Number(7), 1) };
        let Measurement { cell, runs, .. } = side.instead_of(&like, exists);
        (cell, runs.unwrap().iter().map(|number| *number == 0.0).collect::<Vec<_>>())
    };
    assert_eq!(cell("run_time_ns", true, false), (Some(Cell::Number(0)), vec![true, true, false]));
    assert_eq!(cell("wait_max", true, false), (None, vec![true, false, false]), "most runs do not know it");
    assert_eq!(cell("run_time_ns", true, true), (None, vec![false; 3]), "the group lacks the value");
    assert_eq!(cell("run_time_ns", false, false), (None, vec![false; 3]), "a maximum of no members");
}

#[test]
fn words_have_the_most_frequent_one_and_ranges_the_middle_one() {
    let word = |word: &str| Cell::Word(word.into());
    assert_eq!(middle_cell(vec![word("max"), word("max"), Cell::Number(5)]), Some(word("max")));
    let range = |max| Cell::Range { min: 0, max };
    assert_eq!(middle_cell(vec![range(3), range(1), range(9), range(2)]), Some(range(2)));
    let bound = Cell::AtLeast { at_least: 1 };
    let some = vec![Cell::Number(9), Cell::Number(5), bound.clone()];
    assert_eq!(middle_cell(some), Some(Cell::AtLeast { at_least: 5 }), "the third may be any number from 1 on");
    assert_eq!(middle_cell(vec![bound.clone()]), Some(bound));
    assert_eq!(middle_cell(vec![Cell::Signed(-3), Cell::Signed(-4)]), Some(Cell::Signed(-4)));
}

#[test]
fn the_name_of_a_group_is_cut_if_it_is_so_in_any_run() {
    let is_cut = |cut: usize| {
        let runs = (0..3).map(|place| {
            let mut run = run(1, Some(1), None);
            run.get_mut(&vec!["app".to_owned()]).unwrap().group_facts.name_cut = place == cut;
            run
        });
        merged(runs.collect()).remove(&vec!["app".to_owned()]).unwrap().group_facts.name_cut
    };
    assert_eq!([0, 1, 2, 9].map(is_cut), [true, true, true, false]);
}

#[test]
fn a_limit_that_few_runs_have_as_a_number_is_the_word_that_most_have() {
    let cell = |cells: &[Option<Cell>]| {
        let runs = cells.iter().map(|cell| {
            let mut run = run(1, Some(1), None);
            run.get_mut(&vec!["app".to_owned()]).unwrap().measurements[0].cell = cell.clone();
            run
        });
        merged(runs.collect()).remove(&vec!["app".to_owned()]).unwrap().measurements[0].cell.clone()
    };
    let (max, five) = (Some(Cell::Word("max".into())), Some(Cell::Number(5)));
    let unknown = || None;
    let five_first = [unknown(), unknown(), unknown(), five.clone(), max.clone(), max.clone()];
    assert_eq!(cell(&five_first), max);
    assert_eq!(cell(&[max.clone(), five.clone(), five.clone()]), five);
    assert_eq!(cell(&[five.clone(), five.clone(), max]), five);
}

#[test]
fn the_median_has_the_kind_of_the_values() {
    let values = |numbers: [i64; 3]| numbers.map(Cell::Signed).to_vec();
    assert_eq!(middle_cell(values([9, 3, -5])), Some(Cell::Signed(3)));
    assert_eq!(middle_cell(values([-9, -3, 5])), Some(Cell::Signed(-3)));
    assert_eq!(middle_cell(vec![Cell::Ratio(0.5), Cell::Ratio(1.0)]), Some(Cell::Ratio(0.75)));
    let ranges = [7, 1, 9, 3, 5].map(|max| Cell::Range { min: 0, max });
    assert_eq!(middle_cell(ranges.to_vec()), Some(Cell::Range { min: 0, max: 5 }));
}

#[test]
fn the_word_of_most_runs_counts_whatever_the_number_of_threads() {
    let word = |value: &str, count| Cell::Mode(Box::new(MostFrequent { value: value.to_owned(), count, total: count }));
    let runs = vec![word("OTHER", 5), word("BATCH", 3), word("OTHER", 6), word("BATCH", 3), word("OTHER", 7)];
    let Some(Cell::Mode(middle)) = middle_cell(runs) else { panic!("a word") };
    assert_eq!(middle.value, "OTHER");
}

#[test]
fn exited_work_matters_if_it_does_in_one_run() {
    let app = vec!["app".to_owned()];
    let is_minor = |runs: [bool; 2]| {
        let of_run = |is_minor| {
            let mut run = run(1, Some(1), None);
            run.get_mut(&app).unwrap().group_facts.is_minor = is_minor;
            run
        };
        merged(runs.map(of_run).to_vec())[&app].group_facts.is_minor
    };
    assert_eq!([[true, true], [true, false], [false, true]].map(is_minor), [true, false, false]);
}

const UNKNOWN: f64 = f64::NAN;

#[test]
fn an_unclear_verdict_never_recommends_fewer_runs_than_there_are() {
    let unclear = |change, low, high| {
        let estimate = Estimate { change, interval: Interval { low, high } };
        assert_eq!(Verdict::new(estimate, 0.05), Verdict::Unclear);
        RunsNeeded::new(10, estimate, judge()).map(|needed| needed.runs)
    };
    assert_eq!(unclear(1.0, 0.95, 0.97), None);
    assert_eq!(unclear(1.1, 1.04, 1.16), Some(29));
    assert_eq!(unclear(1.05, 1.04, 1.16), None, "on the threshold, no number of runs decides");
}

#[test]
fn a_row_has_the_larger_quantum_of_both_sides() {
    let judge = judge();
    let side = KnownValues::of_runs(4);
    let entry = |quantum| Measurement {
        quantum,
        runs: Some([100.0; 4].into()),
        ..Measurement::new("run", Unit::Ns, Cell::Number(100), 1)
    };
    let quantum = |a, b| judge.row(&mut Sides::two(entry(a), entry(b)), Sides::two(&side, &side)).unwrap().quantum;
    assert_eq!([quantum(0.0, 10.0), quantum(10.0, 0.0)], [10.0, 10.0]);
}

#[test]
fn pairs_are_whole_or_their_runs_are_compared_without_them() {
    let all = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    let [no_first, no_last] = [0, 6].map(|place| {
        let mut values = all;
        values[place] = UNKNOWN;
        values
    });
    let of = |design, baseline: &[f64], candidate: &[f64]| {
        let samples = samples(design, &Sides::two(baseline.into(), candidate.into()), 0.0).unwrap();
        (samples.design, samples.sizes())
    };
    assert_eq!(of(Design::Paired, &all, &all), (Design::Paired, (7, 7)));
    assert_eq!(of(Design::Paired, &no_first, &all), (Design::Paired, (6, 6)));
    assert_eq!(of(Design::Paired, &all, &no_last), (Design::Paired, (6, 6)));
    assert_eq!(of(Design::Paired, &no_first, &no_last), (Design::Independent, (6, 6)), "five pairs are too few");
    assert_eq!(of(Design::Independent, &no_first, &all), (Design::Independent, (6, 7)));
}

#[test]
fn half_of_the_runs_are_enough_and_none_are_not() {
    assert!(are_half(2, 4) && are_half(3, 5) && are_half(1, 1));
    assert!(!are_half(1, 3) && !are_half(2, 5) && !are_half(0, 1) && !are_half(0, 0));
}
