//! The runs of a side as one: the median of each value, and its values in all runs.
//!
//! Runs are added one by one, so that of each only its numbers are kept.

use std::collections::BTreeMap;

use super::overview_columns::RUN;
use super::{
    GroupFacts, KnownValues, Measurement, Quantity, SideGroup, SideSection, SortKey, Turnover, are_half, number,
    of_kind, plain_number, usual, whole,
};
use crate::model::{Cell, Name};
use crate::statistics::median;

pub(super) struct SectionRuns {
    runs: usize,
    groups: BTreeMap<Vec<String>, GroupRuns>,
    pub(super) known: KnownValues,
}

#[derive(Default)]
struct GroupRuns {
    /// What is known of it in the runs that have the group.
    facts: Vec<(usize, GroupFacts)>,
    sort_values: Vec<Vec<Option<Cell>>>,
    measurements: Vec<MeasurementRuns>,
}

/// A value of a group in several runs. `measured` is that of the first run; its cell has the kind of the numbers.
struct MeasurementRuns {
    measured: Measurement,
    /// Numbers by run; NaN where there is none.
    numbers: Box<[f64]>,
    /// The runs in which it was counted in a unit, though in others it is exact.
    coarse: Vec<usize>,
    /// The first value that is not a number, and all of later runs.
    others: Vec<(usize, Cell)>,
}

impl SectionRuns {
    pub(super) fn new(runs: usize) -> Self {
        Self { runs, groups: BTreeMap::new(), known: KnownValues::of_runs(runs) }
    }

    pub(super) fn add(&mut self, run: usize, groups: SideSection) {
        for (key, group) in groups {
            self.groups.entry(key).or_default().add(run, self.runs, group);
        }
    }

    /// Notes which values the run has, in any group.
    pub(super) fn know(&mut self, run: usize, groups: &SideSection) {
        let measurements = groups.values().flat_map(|group| &group.measurements);
        measurements.filter(|measured| measured.cell.is_some()).for_each(|measured| self.known.add(run, measured));
    }

    pub(super) fn merged(self, keys: &[SortKey]) -> (SideSection, KnownValues) {
        let Self { runs, groups, known } = self;
        let groups = groups.into_iter().map(|(key, group)| (key, group.merged(runs, &known, keys)));
        (groups.collect(), known)
    }
}

impl GroupRuns {
    fn add(&mut self, run: usize, runs: usize, group: SideGroup) {
        self.facts.push((run, group.facts));
        self.sort_values.push(group.sort_values);
        for (place, measured) in group.measurements.into_iter().enumerate() {
            // Most runs have the same values in the same order.
            let is_it = |known: &MeasurementRuns| known.measured.name == measured.name;
            let is_usual = self.measurements.get(place).is_some_and(is_it);
            match if is_usual { Some(place) } else { self.measurements.iter().position(is_it) } {
                Some(place) => self.measurements[place].add(run, measured),
                None => self.measurements.push(MeasurementRuns::new(run, runs, measured)),
            }
        }
    }

    fn merged(self, runs: usize, known: &KnownValues, keys: &[SortKey]) -> SideGroup {
        let without: Vec<usize> =
            (0..runs).filter(|run| self.facts.iter().all(|(present, _)| present != run)).collect();
        let sort_value = |(place, key): (usize, &SortKey)| {
            let cells = self.sort_values.iter().filter_map(|values| values[place].clone());
            let zeros = without.iter().filter(|_| key.by.is_total()).map(|_| Cell::Number(0));
            middle_cell(cells.chain(zeros).collect())
        };
        let sort_values = keys.iter().enumerate().map(sort_value).collect();
        let facts = merged_facts(&self.facts, runs);
        let merged = self.measurements.into_iter().map(|measured| measured.merged(runs, &without, known));
        let measurements = without_parts_of_longer_runs(merged.collect());
        SideGroup { facts, sort_values, measurements }
    }
}

/// Without the parts of run time that more than a tenth of the runs lack, or that are longer than the run time: short runs have
/// none, so it would be the median of the longer ones.
fn without_parts_of_longer_runs(mut measurements: Vec<Measurement>) -> Vec<Measurement> {
    let value = |measured: &Measurement| measured.cell.as_ref().and_then(number);
    let run = measurements.iter().find(|measured| measured.name == RUN).and_then(value);
    let is_of_longer_runs = |part: &Measurement| {
        let is_part = matches!(part.quantity, Some(Quantity::Column(column)) if column.is_part_of_run());
        let runs = part.runs.as_deref().unwrap_or_default();
        let lacking = runs.iter().filter(|number| number.is_nan()).count();
        is_part && (lacking * 10 > runs.len() || value(part) > run)
    };
    for part in measurements.iter_mut().filter(|measured| is_of_longer_runs(measured)) {
        part.cell = None;
        part.runs.iter_mut().flatten().for_each(|number| *number = f64::NAN);
    }
    measurements
}

/// The medians of all runs; a run without the group has no members.
fn merged_facts(known: &[(usize, GroupFacts)], runs: usize) -> GroupFacts {
    let all = || known.iter().map(|(_, facts)| facts);
    let counts = |count: fn(&GroupFacts) -> u64| {
        let mut counts: Vec<f64> = all().map(|facts| count(facts) as f64).collect();
        counts.resize(runs, 0.0);
        median(&counts).map_or(0, whole)
    };
    let uptimes: Vec<f64> = all().filter_map(|facts| facts.uptime).collect();
    let mut parents: BTreeMap<&Name, u64> = BTreeMap::new();
    all().flat_map(|facts| &facts.parents).for_each(|(name, count)| *parents.entry(name).or_default() += count);
    let mut parents: Vec<_> = parents.into_iter().map(|(name, count)| (Name::clone(name), count)).collect();
    parents.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    GroupFacts {
        members: counts(|facts| facts.members),
        turnover: Turnover {
            started: counts(|facts| facts.turnover.started),
            exited: counts(|facts| facts.turnover.exited),
        },
        uptime: median(&uptimes),
        own: all().all(|facts| facts.own),
        exited_work: all().find_map(|facts| facts.exited_work),
        is_minor: all().all(|facts| facts.is_minor),
        name_cut: all().any(|facts| facts.name_cut),
        parents,
        // What is known of single processes and threads is not of several runs.
        ..GroupFacts::default()
    }
}

impl MeasurementRuns {
    fn new(run: usize, runs: usize, mut measured: Measurement) -> Self {
        let cell = measured.cell.take();
        let mut new =
            Self { measured, numbers: vec![f64::NAN; runs].into_boxed_slice(), coarse: Vec::new(), others: Vec::new() };
        let quantum = new.measured.quantum;
        new.add_cell(run, cell, quantum);
        new
    }

    fn add(&mut self, run: usize, measured: Measurement) {
        self.measured.covered = self.measured.covered.min(measured.covered);
        self.measured.partial |= measured.partial;
        self.measured.quantum = self.measured.quantum.max(measured.quantum);
        self.add_cell(run, measured.cell, measured.quantum);
    }

    fn add_cell(&mut self, run: usize, cell: Option<Cell>, quantum: f64) {
        let Some(cell) = cell else { return };
        self.coarse.extend((quantum > 0.0).then_some(run));
        match plain_number(&cell) {
            Some(number) if self.others.is_empty() => {
                self.numbers[run] = number;
                self.measured.cell.get_or_insert(cell);
            }
            _ => self.others.push((run, cell)),
        }
    }

    /// The median. A value that more than half of the runs lack has none.
    fn merged(self, runs: usize, without: &[usize], known: &KnownValues) -> Measurement {
        let Self { mut measured, mut numbers, coarse, mut others } = self;
        let kind = measured.cell.take();
        let exact = numbers.iter().filter(|number| !number.is_nan()).count().saturating_sub(coarse.len());
        // A few runs that count in ticks say less than the others, and would blur all.
        if !coarse.is_empty() && are_half(exact, runs) {
            coarse.into_iter().for_each(|run| numbers[run] = f64::NAN);
            measured.quantum = 0.0;
        }
        if others.is_empty() {
            for &run in without {
                numbers[run] = known.without_group(run, &measured.name, measured.is_total);
            }
            let cell = kind.zip(usual(&numbers)).map(|(kind, median)| of_kind(&kind, median));
            return Measurement { cell, runs: Some(numbers), ..measured };
        }
        let numbers = numbers.iter().enumerate().filter(|(_, number)| !number.is_nan());
        others.extend(numbers.filter_map(|(run, number)| Some((run, of_kind(kind.as_ref()?, *number)))));
        others.sort_by_key(|(run, _)| *run);
        let cells: Vec<Cell> = others.into_iter().map(|(_, cell)| cell).collect();
        Measurement {
            cell: if are_half(cells.len(), runs) { middle_cell(cells) } else { None },
            runs: None,
            ..measured
        }
    }
}

/// Of ranges and CPU sets, the middle one; of words, the one that most runs have, of equally many the first.
fn middle_cell(mut runs: Vec<Cell>) -> Option<Cell> {
    if let Some(numbers) = runs.iter().map(plain_number).collect::<Option<Vec<f64>>>() {
        return runs.first().zip(median(&numbers)).map(|(kind, median)| of_kind(kind, median));
    }
    if runs.iter().all(|cell| number(cell).is_some()) {
        runs.sort_by(|a, b| number(a).partial_cmp(&number(b)).unwrap_or(std::cmp::Ordering::Equal));
        let place = (runs.len() - 1) / 2;
        return Some(runs.swap_remove(place));
    }
    // Of the most frequent words in each run, how often they were there is no matter.
    let is_same = |one: &Cell, other: &Cell| match (one, other) {
        (Cell::Mode(one), Cell::Mode(other)) => one.value == other.value,
        _ => one == other,
    };
    let frequency = |cell: &Cell| runs.iter().filter(|other| is_same(other, cell)).count();
    runs.iter().rev().max_by_key(|cell| frequency(cell)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MostFrequent, Unit};

    fn run(members: u64, run_time: Option<u64>, wait_max: Option<u64>) -> SideSection {
        let measured = |name, value: Option<u64>, is_total| Measurement {
            is_total,
            ..Measurement::new(name, Unit::Ns, value.map(Cell::Number), members)
        };
        let measurements = vec![measured("run_time_ns", run_time, true), measured("wait_max", wait_max, false)];
        let group = SideGroup::new(members, measurements);
        BTreeMap::from([(vec!["app".to_owned()], group)])
    }

    fn merged(runs: Vec<SideSection>) -> SideSection {
        let mut section = SectionRuns::new(runs.len());
        for (place, run) in runs.into_iter().enumerate() {
            section.know(place, &run);
            section.add(place, run);
        }
        section.merged(&[]).0
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
        assert_eq!(group.facts.members, 3);
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
        assert_eq!((&app.measurements[1].cell, app.facts.members), (&Some(Cell::Number(4)), 1));
    }

    #[test]
    fn words_have_the_most_frequent_one_and_ranges_the_middle_one() {
        let word = |word: &str| Cell::Word(word.into());
        assert_eq!(middle_cell(vec![word("max"), word("max"), Cell::Number(5)]), Some(word("max")));
        let range = |max| Cell::Range { min: 0, max };
        assert_eq!(middle_cell(vec![range(3), range(1), range(9), range(2)]), Some(range(2)));
        assert_eq!(middle_cell(vec![Cell::Signed(-3), Cell::Signed(-4)]), Some(Cell::Signed(-4)));
    }

    #[test]
    fn the_name_of_a_group_is_cut_if_it_is_so_in_any_run() {
        let is_cut = |cut: usize| {
            let runs = (0..3).map(|place| {
                let mut run = run(1, Some(1), None);
                run.get_mut(&vec!["app".to_owned()]).unwrap().facts.name_cut = place == cut;
                run
            });
            merged(runs.collect()).remove(&vec!["app".to_owned()]).unwrap().facts.name_cut
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
        let word =
            |value: &str, count| Cell::Mode(Box::new(MostFrequent { value: value.to_owned(), count, total: count }));
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
                run.get_mut(&app).unwrap().facts.is_minor = is_minor;
                run
            };
            merged(runs.map(of_run).to_vec())[&app].facts.is_minor
        };
        assert_eq!([[true, true], [true, false], [false, true]].map(is_minor), [true, false, false]);
    }
}
