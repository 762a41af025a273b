//! Sections of a report: groups, and rows with the values that a group has on each side.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::{
    Change, Delta, ELAPSED, GroupFacts, GroupReason, Judge, KnownValues, Measurement, Quantity, RowRuns, SectionRuns,
    Selection, Sides, SortKey, Turnover, delta, joined, of_kind, one_run, plain_number, present, score,
};
use crate::diagnose::Note;
use crate::model::sorted::CollectSorted;
use crate::model::{Cell, ExitedWork, Name, Section, Unit, named};
use crate::statistics::Verdict;

/// A section of a report.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReportSection {
    /// Kind of the section.
    pub section: Section,
    /// The groups, in the order of their keys.
    pub groups: Vec<Group>,
    /// The values of all groups, in display order.
    pub rows: Vec<Row>,
    /// Names of the overview's columns: first the ones that say most of what the groups did, or how they changed.
    pub(crate) columns_by_share: Vec<&'static str>,
    /// Rows of the overview whose verdicts stand for groups, by group; also rows that are not selected.
    pub(crate) headlines: BTreeMap<usize, Row>,
    /// Order of the overview's groups, as text.
    pub(crate) order: String,
    /// Notes on the section, such as why it has no data.
    pub notes: Vec<Note>,
}

/// The label of all groups of a section together.
pub(crate) const ALL_GROUPS: &str = "all groups";

/// A group of a section.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Group {
    /// Key of the group: the names from the top of the tree down to its own; empty for all groups together.
    pub key: Vec<String>,
    /// Name to display: a name or a pattern; in a tree, the last part of the key.
    pub label: String,
    /// Whether its cgroup was renamed in the candidate.
    pub renamed: bool,
    /// How many cgroups of both sides it stands for; `None` if it is not the group of a cgroup, or if its members are cgroups.
    pub cgroups: Option<usize>,
    /// Facts about the group; `None` on a side where the group does not exist.
    pub(super) group_facts: Sides<Option<GroupFacts>>,
}

impl Group {
    fn new(key: Vec<String>, group_facts: Sides<Option<GroupFacts>>) -> Self {
        let label = key.last().map_or(ALL_GROUPS, String::as_str).to_owned();
        Self { label, key, renamed: false, cgroups: None, group_facts }
    }

    /// Whether the kernel may have cut a name in the group, so that different threads are one group.
    pub fn name_cut(&self) -> bool {
        self.group_facts.iter().flatten().any(|facts| facts.name_cut)
    }

    /// Returns, for each side, the ancestors of the group's processes that started and exited in the window.
    pub(crate) fn parents(&self) -> Sides<&[(Name, u64)]> {
        self.group_facts.as_ref().map(|facts| facts.as_ref().map_or(&[][..], |facts| &facts.parents))
    }

    /// Whether it stands for all groups of the section together.
    pub fn is_all(&self) -> bool {
        self.key.is_empty()
    }

    /// Returns the label; in a tree, behind the labels of the groups above it.
    pub(crate) fn full_label(&self) -> String {
        if self.is_all() { self.label.clone() } else { self.key.join(" » ") }
    }

    /// The number of members; `None` on a side where the group does not exist.
    pub fn members(&self) -> Sides<Option<u64>> {
        self.of_members(|facts| Some(facts.members))
    }

    /// In a window, how many of its threads started and exited; `None` on a side where the group does not exist.
    pub(crate) fn turnover(&self) -> Sides<Option<Turnover>> {
        self.of_members(|facts| Some(facts.turnover))
    }

    /// Returns a fact about the members; `None` on a side where it is unknown, or where the group does not exist.
    pub(crate) fn of_members<T>(&self, fact: impl Fn(&GroupFacts) -> Option<T>) -> Sides<Option<T>> {
        self.group_facts.as_ref().map(|side| side.as_ref().and_then(&fact))
    }

    /// The kind of exited work, if it is no group of threads but exited work of the group above.
    pub(crate) fn exited_work(&self) -> Option<ExitedWork> {
        self.group_facts.iter().flatten().find_map(|facts| facts.exited_work)
    }

    /// Whether all members are threads of the capturing process.
    pub(super) fn is_own(&self) -> bool {
        self.group_facts.iter().flatten().any(|facts| facts.own)
    }
}

/// A value of a group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// The section of the row.
    pub section: Section,
    /// Index of the group.
    pub group: usize,
    /// Name of the value.
    pub name: Cow<'static, str>,
    /// Unit of the value.
    pub unit: Unit,
    /// The quantity, in sections about threads.
    pub quantity: Option<Quantity>,
    /// The reason whose time it is, in the section of reasons.
    pub reason: Option<Arc<GroupReason>>,
    /// The group's values; of several runs, the medians.
    pub values: Sides<Option<Cell>>,
    /// How many of the group's members have one; `None` on a side where the group does not exist.
    pub covered: Sides<Option<u64>>,
    /// True if some members lack a value that they should have.
    pub partial: bool,
    /// The sides on which work of exited threads or children is not in the value.
    pub(super) lacks_exited_work: Sides<bool>,
    /// How the sides differ; of several runs, how their medians differ. `None` in a report of one side.
    pub change: Option<Change>,
    /// Numbers of all runs and their verdict, if there are several runs.
    pub runs: Option<Box<RowRuns>>,
    /// Why the verdict on this value stands for its group in the overview of several runs, if it does.
    pub headline: Option<Headline>,
    /// How much the row changed, for the order of rows.
    score: f64,
}

/// Why the verdict on a value stands for its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Headline {
    /// It is the largest change.
    Change,
    /// It explains most of why commands take longer, or less long.
    Elapsed,
    /// It is time that the group waited for CPUs which others used.
    OtherLoad,
}

named! {
    /// Why tables hide a row, in display order.
    pub enum HiddenReason {
        /// The sides have the same value.
        Unchanged = "unchanged",
        /// In several runs, both sides have the same value up to the threshold.
        Same = "same",
        /// The value is 0.
        Zero = "zero",
        /// There is no value.
        Absent = "without data",
    }
}

fn is_zero(cell: &Cell) -> bool {
    matches!(cell, Cell::Number(0) | Cell::Signed(0)) || *cell == Cell::Ratio(0.0)
}

impl Row {
    fn new(
        (section, group): (Section, usize),
        sides: Sides<Measurement>,
        exists: Sides<bool>,
        runs: Option<Box<RowRuns>>,
    ) -> Self {
        let covered = sides.as_ref().zip(exists).map(|(measured, exists)| exists.then_some(measured.covered));
        let partial = sides.iter().any(|measured| measured.partial);
        let lacks_exited_work = sides.as_ref().map(|measured| measured.lacks_exited_work);
        let Measurement { ref name, unit, quantity, ref reason, .. } = sides.baseline;
        let (name, reason) = (name.clone(), reason.clone());
        let values = sides.map(|measured| measured.cell);
        let delta = values.baseline.as_ref().zip(values.of_candidate()).and_then(|(a, b)| Delta::between(a, b));
        Self {
            section,
            group,
            name,
            unit,
            quantity,
            reason,
            covered,
            partial,
            lacks_exited_work,
            change: exists.both().map(|exists| Change::new(&values, delta.as_ref(), exists)),
            runs,
            headline: None,
            score: score::score(quantity, unit, values.baseline.as_ref(), values.of_candidate()),
            values,
        }
    }

    /// The sum of rows of a group with equal units, by another name.
    ///
    /// # Panics
    /// If there are none.
    pub(super) fn sum_of(rows: &[&Self], name: String) -> Self {
        let first = rows.first().expect("a sum has parts");
        let of_side = |side: fn(&Self) -> Option<&Cell>| {
            let values: Vec<_> = rows.iter().filter_map(|row| side(row)).collect();
            let sum = values.iter().filter_map(|cell| delta::number(cell)).sum();
            values.first().map(|cell| of_kind(cell, sum))
        };
        let mut values = Sides::one(of_side(|row| row.values.baseline.as_ref()));
        values.candidate = first.values.candidate.is_some().then(|| of_side(|row| row.values.of_candidate()));
        let delta = values.baseline.as_ref().zip(values.of_candidate()).and_then(|(a, b)| Delta::between(a, b));
        let exists = first.covered.as_ref().map(Option::is_some).both();
        let change = exists.map(|exists| Change::new(&values, delta.as_ref(), exists));
        let partial = rows.iter().any(|row| row.partial);
        Self {
            name: name.into(),
            reason: None,
            values,
            partial,
            change,
            runs: None,
            headline: None,
            ..(*first).clone()
        }
    }

    /// The row of a group that has none of this total, on each side that knows the total.
    pub(super) fn none_of(&self, place: usize, group: &Group) -> Self {
        let mut row = Self { group: place, covered: group.members(), partial: false, ..self.clone() };
        row.lacks_exited_work = row.lacks_exited_work.map(|_| false);
        row.values = row.values.map(|cell| cell.map(|cell| of_kind(&cell, 0.0)));
        let numbers = row.runs.iter_mut().flat_map(|runs| runs.values.as_mut()).flatten();
        numbers.for_each(|number| *number *= 0.0);
        row
    }

    /// The numbers of each run, NaN where there is none; `None` if they are no numbers.
    pub(super) fn samples(&self) -> Option<Sides<Box<[f64]>>> {
        if let Some(runs) = &self.runs {
            return Some(runs.values.clone());
        }
        self.values.as_ref().map(|cell| one_run(cell.as_ref())).of_all()
    }

    /// The numbers of both sides; 0 on a side without the group. Where one side has the group without its value, the other
    /// side's number stands for both: an unknown difference explains nothing.
    pub(super) fn numbers(&self) -> [f64; 2] {
        let numbers = [self.values.baseline.as_ref(), self.values.of_candidate()].map(|cell| delta::number(cell?));
        match (self.change, numbers) {
            (Some(Change::Incomparable), [Some(number), _] | [_, Some(number)]) => [number; 2],
            _ => numbers.map(|number| number.unwrap_or(0.0)),
        }
    }

    /// The numbers of both sides; of several runs, the means.
    pub(super) fn means(&self) -> [f64; 2] {
        let Some(RowRuns { values, .. }) = self.runs.as_deref() else { return self.numbers() };
        let mean = |numbers: &[f64]| present(numbers).sum::<f64>() / present(numbers).count().max(1) as f64;
        [mean(&values.baseline), values.candidate.as_deref().map_or(0.0, mean)]
    }

    /// How much it changed, or of one side how much it is. A group on one side has no value on the other, which counts as 0.
    pub(crate) fn amount(&self) -> f64 {
        let [before, after] = self.numbers();
        (after - before).abs()
    }

    /// The difference, if both sides have a value.
    pub fn delta(&self) -> Option<Delta> {
        Delta::between(self.values.baseline.as_ref()?, self.values.of_candidate()?)
    }

    /// The difference in percent of the baseline.
    pub fn percent(&self) -> Option<f64> {
        delta::percent(self.unit, self.values.baseline.as_ref()?, &self.delta()?)
    }

    /// Returns the verdict of several runs, against the threshold.
    pub fn verdict(&self) -> Option<Verdict> {
        self.runs.as_ref()?.verdict
    }

    pub(super) fn is_absent(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }

    /// Why tables hide the row, if they do.
    pub fn hidden_reason(&self) -> Option<HiddenReason> {
        let zero = || self.is_each_run(|number| number == 0.0).then_some(HiddenReason::Zero);
        match (self.verdict(), self.change) {
            (Some(Verdict::Same), change) if change != Some(Change::Unchanged) => Some(HiddenReason::Same),
            (Some(Verdict::Unclear), _) => zero(),
            (Some(Verdict::More | Verdict::Less), _) => None,
            (_, Some(Change::Unchanged)) => Some(HiddenReason::Unchanged),
            (_, Some(Change::Changed | Change::Incomparable)) => None,
            _ if self.is_absent() => Some(HiddenReason::Absent),
            _ => zero(),
        }
    }

    /// Whether nothing changed, or there is no value. A 0 in a group that exists on one side only counts as a change.
    pub(super) fn is_silent(&self) -> bool {
        match self.hidden_reason() {
            Some(HiddenReason::Zero) => self.verdict() == Some(Verdict::Unclear),
            reason => reason.is_some(),
        }
    }

    /// Whether tables hide the row, or it has only percentages that are shown as 0.
    pub(crate) fn is_next_to_nothing(&self) -> bool {
        let is_least = |percent| percent < score::LEAST_SHOWN_PERCENT;
        self.unit == Unit::Percent && self.is_each_run(is_least) || self.hidden_reason().is_some()
    }

    /// Whether the predicate holds for the value of each side; if there are several runs, for the value of each run.
    fn is_each_run(&self, predicate: impl Fn(f64) -> bool) -> bool {
        match &self.runs {
            Some(runs) => runs.values.iter().all(|numbers| present(numbers).all(&predicate)),
            None => self.values.iter().flatten().all(|cell| plain_number(cell).is_some_and(&predicate)),
        }
    }

    /// Whether it has only values that are 0, or percentages that are shown as 0.
    pub(crate) fn is_shown_as_zero(&self) -> bool {
        let is_least = |cell: &Cell| matches!(cell, Cell::Ratio(percent) if *percent < score::LEAST_SHOWN_PERCENT);
        let is_percent = self.unit == Unit::Percent;
        self.values.iter().flatten().all(|cell| is_zero(cell) || is_percent && is_least(cell))
    }
}

/// The numbers of both sides of these rows together.
pub(super) fn sum<'r>(rows: impl Iterator<Item = &'r Row>) -> [f64; 2] {
    rows.map(Row::numbers).fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d])
}

impl ReportSection {
    pub(super) fn empty(section: Section, notes: Vec<Note>) -> Self {
        let (groups, rows, columns_by_share, headlines) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
        Self { section, groups, rows, columns_by_share, headlines, order: String::new(), notes }
    }

    /// Keeps only rows of selected groups and columns. All groups together are not shown beside some groups: a reader would take
    /// the sum for theirs. The command's time always stays, as the first fact of a comparison.
    pub(super) fn select(&mut self, selection: &Selection) {
        let (groups, is_overview) = (&self.groups, self.section == Section::Overview);
        self.rows.retain(|row| {
            let group = &groups[row.group];
            let is_time = is_overview && row.name == ELAPSED;
            let is_column = !is_overview || is_time || selection.wants_column(&row.name);
            is_column
                && if group.is_all() { is_time || selection.only.is_empty() } else { selection.wants_group(&group.key) }
        });
    }

    /// The groups and rows of a section, in the order of `keys` if there are any. Rows of all groups together come
    /// first. Of two sides, changed rows come before others, then clear changes, then large ones.
    pub(super) fn new(section: Section, mut sides: Sides<SectionRuns>, keys: &[SortKey], judge: Judge) -> Self {
        let mut table = Self::empty(section, Vec::new());
        let runs_with_values = sides.as_mut().map(|side| std::mem::take(&mut side.runs_with_values));
        let mut sort_values = Vec::new();
        for (place, (key, mut group)) in joined(sides.map(|side| side.groups)).into_iter().enumerate() {
            let exists = group.as_ref().map(Option::is_some);
            let cells = |key: usize| group.as_ref().map(|side| side.as_ref()?.sort_values.get(key)?.as_ref());
            sort_values.push((0..keys.len()).map(|key| sort_value(cells(key), exists)).collect());
            let group_facts =
                group.as_mut().map(|side| side.as_mut().map(|group| std::mem::take(&mut group.group_facts)));
            table.groups.push(Group::new(key, group_facts));
            let measurements = group.map(|side| side.map(|group| group.measurements).unwrap_or_default());
            let rows = joined_measurements(measurements, runs_with_values.as_ref().zip(exists));
            table.rows.extend(rows.map(|mut sides| {
                let runs = judge.row(&mut sides, runs_with_values.as_ref());
                Row::new((section, place), sides, exists, runs)
            }));
        }
        table.sort(&places(&sort_values, keys));
        table
    }

    fn sort(&mut self, places: &[usize]) {
        // Times of reasons are parts of wholes, so that the largest part leads.
        if self.section == Section::Reasons {
            self.rows.iter_mut().for_each(|row| row.score = row.amount());
        }
        let weights: Vec<_> = self.groups.iter().map(|group| score::weight(&group.key)).collect();
        let is_group: Vec<_> = self.groups.iter().map(|group| !group.is_all()).collect();
        self.rows.iter_mut().for_each(|row| row.score *= weights[row.group]);
        let is_one_side = self.rows.iter().all(|row| row.change.is_none());
        if self.section == Section::Overview || (is_one_side && self.section != Section::Reasons) {
            return self.rows.sort_by_key(|row| (is_group[row.group], places[row.group]));
        }
        // Scores are not negative, and the bits of such numbers have the order of the numbers. Rows are large:
        // keys are sorted, and each row moves once.
        self.rows.sort_by_cached_key(|row| {
            let is_clear = row.verdict().is_some_and(Verdict::is_clear);
            let (group, score) = (row.group, row.score.to_bits());
            (row.is_silent(), is_group[group], places[group], Reverse(is_clear), Reverse(score))
        });
    }
}

/// The measurements of the sides by name, in the order of the baseline. `sides` says which values a side knows, and whether
/// it has the group.
fn joined_measurements(
    measurements: Sides<Vec<Measurement>>,
    sides: Sides<(&KnownValues, bool)>,
) -> impl Iterator<Item = Sides<Measurement>> {
    let Sides { baseline, candidate } = measurements;
    let instead_of = |(side, exists): (&KnownValues, bool), like: &Measurement| side.instead_of(like, exists);
    let mut others: Vec<_> = candidate.into_iter().flatten().map(Some).collect();
    // Most lists are equal, and need no search.
    let are_equal = baseline.iter().zip(others.iter().flatten()).all(|(a, b)| a.name == b.name);
    let names = others.iter().flatten().map(|measured| measured.name.clone()).enumerate();
    let places: BTreeMap<_, _> = names.filter(|_| !are_equal).map(|(place, name)| (name, place)).into_map();
    let mut pairs = Vec::with_capacity(baseline.len());
    for (place, measured) in baseline.into_iter().enumerate() {
        let place = if are_equal { Some(place) } else { places.get(&measured.name).copied() };
        let other = place.and_then(|place| others.get_mut(place)?.take());
        let candidate = sides.candidate.map(|side| other.unwrap_or_else(|| instead_of(side, &measured)));
        pairs.push(Sides { baseline: measured, candidate });
    }
    let others = others.into_iter().flatten();
    pairs.into_iter().chain(others.map(move |measured| Sides::two(instead_of(sides.baseline, &measured), measured)))
}

/// Returns the value by which a group is sorted: the value of one side, or the difference between two. For a group on one side of
/// two, it is the difference from nothing; a value that one side lacks is unknown.
fn sort_value(cells: Sides<Option<&Cell>>, exists: Sides<bool>) -> Option<f64> {
    match (cells.baseline, cells.candidate) {
        (Some(a), None) => delta::number(a),
        (Some(a), Some(Some(b))) => Delta::between(a, b)?.number(),
        (Some(a), Some(None)) if exists.candidate == Some(false) => delta::number(a).map(|number| -number),
        (None, Some(Some(b))) if !exists.baseline => delta::number(b),
        _ => None,
    }
}

/// The rank of each group in the order of `keys`; without keys, all ranks are equal.
fn places(values: &[Vec<Option<f64>>], keys: &[SortKey]) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..values.len()).collect();
    sorted.sort_by(|&a, &b| {
        let mut by_key = keys.iter().enumerate().map(|(at, key)| key.order.compare(values[a][at], values[b][at]));
        by_key.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    let mut places = vec![0; values.len()];
    if !keys.is_empty() {
        sorted.into_iter().enumerate().for_each(|(place, group)| places[group] = place);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::runs::tests::of_all;
    use crate::compare::{CompareOptions, GroupBy, Grouping, SideGroup, SideSection, Threshold, parse_sort_key};
    use crate::model::{CtprofSnapshot, ThreadState};
    use crate::statistics::Design;
    use crate::statistics::TAIL;

    fn side(groups: &[(&str, u64)]) -> SideSection {
        let group = |run_time: u64| SideGroup {
            sort_values: vec![Some(Cell::Number(run_time))],
            measurements: vec![Measurement::new("run_time_ns", Unit::Ns, Cell::Number(run_time), 1)],
            ..SideGroup::default()
        };
        groups.iter().map(|(name, run_time)| (vec![(*name).to_owned()], group(*run_time))).collect()
    }

    fn order(baseline: &[(&str, u64)], candidate: &[(&str, u64)], keys: &str) -> Vec<String> {
        let keys = [parse_sort_key(keys).unwrap()];
        let sides = Sides::two(side(baseline), side(candidate));
        let judge = Judge { design: Design::Independent, threshold: Threshold::default(), tail: TAIL };
        let sides = sides.map(|groups| SectionRuns { groups, ..SectionRuns::default() });
        let table = ReportSection::new(Section::Primary, sides, &keys, judge);
        table.rows.iter().map(|row| table.groups[row.group].label.clone()).collect()
    }

    #[test]
    fn groups_on_one_side_only_are_sorted_with_the_others() {
        let (before, after) = (&[("both", 5), ("gone", 9)], &[("both", 12), ("new", 100), ("new2", 1)]);
        assert_eq!(order(before, after, "run_time_ns:desc"), ["new", "both", "new2", "gone"]);
        assert_eq!(order(before, after, "run_time_ns:abs"), ["new", "gone", "both", "new2"]);
        assert_eq!(order(before, after, "run_time_ns:asc"), ["gone", "new2", "both", "new"]);
    }

    #[test]
    fn a_value_that_a_side_lacks_is_unknown_unless_the_group_is_not_there() {
        let five = Cell::Number(5);
        let value =
            |before, after, exists: (bool, bool)| sort_value(Sides::two(before, after), Sides::two(exists.0, exists.1));
        assert_eq!([value(Some(&five), None, (true, true)), value(None, Some(&five), (true, true))], [None; 2]);
        let changes = [value(Some(&five), None, (true, false)), value(None, Some(&five), (false, true))];
        assert_eq!(changes, [Some(-5.0), Some(5.0)]);
    }

    #[test]
    fn values_are_joined_by_name_wherever_they_stand() {
        let entry = |name: &'static str, value| Measurement::new(name, Unit::Bytes, Cell::Number(value), 1);
        let (a, b) =
            (vec![entry("a", 1), entry("b", 2), entry("c", 3)], vec![entry("b", 20), entry("c", 30), entry("d", 40)]);
        let side = KnownValues::of_runs(1);
        let pairs = joined_measurements(Sides::two(a, b), Sides::two((&side, true), (&side, true)));
        let pairs: Vec<_> = pairs.map(|pair| pair.map(|measured| measured.cell)).collect();
        let number = |value: Option<u64>| value.map(Cell::Number);
        let expected = [(Some(1), None), (Some(2), Some(20)), (Some(3), Some(30)), (None, Some(40))];
        assert_eq!(pairs, expected.map(|(a, b)| Sides::two(number(a), number(b))));
    }

    #[test]
    fn of_several_runs_equal_medians_are_unchanged_and_close_ones_the_same() {
        let hidden = |after: u64| {
            let side = |value: u64| {
                let measured = Measurement::new("run_time_ns", Unit::Ns, Cell::Number(value), 1);
                SideSection::from([(vec!["app".to_owned()], SideGroup::new(1, vec![measured]))])
            };
            let judge = Judge { design: Design::Independent, threshold: Threshold::default(), tail: TAIL };
            let sides = Sides::two(1000, after).map(|value| of_all(vec![side(value); 4]));
            ReportSection::new(Section::Primary, sides, &[], judge).rows[0].hidden_reason()
        };
        assert_eq!([1000, 1001, 2000].map(hidden), [Some(HiddenReason::Unchanged), Some(HiddenReason::Same), None]);
    }

    #[test]
    fn the_users_of_a_report_are_those_of_its_processes() {
        let thread = |(tgid, euid): (u32, u32)| {
            let mut thread = ThreadState { tid: tgid, tgid, euid: Some(euid), ..ThreadState::default() };
            thread.metrics.run_time_ns = Some(5.into());
            thread
        };
        let snapshot = CtprofSnapshot { threads: [(1, 33), (2, 7)].map(thread).into(), ..CtprofSnapshot::default() };
        let grouping = Grouping { axis: GroupBy::Pid, ..Grouping::default() };
        let options = CompareOptions { grouping, ..CompareOptions::default() };
        assert_eq!(crate::compare::show(&snapshot, &options).euids(), [7, 33].into());
    }
}
