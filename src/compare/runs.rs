//! Runs of a side: which runs count, the values of their groups, and verdicts on values of two sides.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::overview_columns::RUN;
use super::{
    Digest, GroupBy, GroupFacts, Measurement, Quantity, SideGroup, SideSection, Sides, SortKey, Threshold, Turnover,
    number, of_kind, plain_number, whole,
};
use crate::model::sorted::Arrange;
use crate::model::{Cell, Name, WholeSleeps};
use crate::statistics::{Design, Estimate, MIN_PAIRS, Margin, POWER, Samples, Scale, Verdict, median, runs_needed};

/// The runs of one side; by default repeated runs, none yet.
#[derive(Debug, Default)]
pub struct Runs {
    pub(super) digests: Vec<Digest>,
    /// How many runs were left out because their command failed.
    pub(super) excluded: usize,
    /// How many runs were left out because they are in no pair.
    pub(super) unpaired: usize,
    /// Whether it is one capture or window, whatever its command did, and no repetition.
    pub(super) is_single: bool,
}

/// Why the runs of a side cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// There is no run.
    #[error("no runs")]
    None,
    /// More than a tenth of the commands failed: so many, and the number of all runs.
    #[error("the command failed in {0} of {1} runs; at most a tenth may fail")]
    Failed(usize, usize),
}

/// Number of runs per allowed failure.
const RUNS_PER_FAILURE: usize = 10;

impl From<Digest> for Runs {
    fn from(digest: Digest) -> Self {
        Self { digests: vec![digest], is_single: true, ..Self::default() }
    }
}

impl Runs {
    /// Adds a run. If its command failed, it is only counted.
    pub fn add(&mut self, run: Digest) {
        if run.has_failed() {
            self.excluded += 1;
        } else {
            self.digests.push(run);
        }
    }

    /// Runs made for [`GroupBy::All`], as they would be if they had been made for this axis.
    pub fn narrowed(&self, axis: GroupBy) -> Self {
        Self { digests: self.digests.iter().map(|digest| digest.narrowed(axis)).collect(), ..*self }
    }

    /// Parts of a series, with the ids of the processes and threads that the whole has by id. It has the others, which started
    /// and exited in it, by their names.
    #[must_use]
    pub fn with_ids_of(mut self, whole: &Digest) -> Self {
        if matches!(whole.threads.group_by, GroupBy::Pid | GroupBy::Tid) {
            let ids = whole.ids();
            self.digests.iter_mut().for_each(|part| part.forget_ids_but(&ids));
        }
        self
    }

    /// Takes sleeps that lasted through whole parts of a time for what they are in all of it.
    pub fn tell_sleeps_of(&mut self, whole: &Digest) {
        let Some(sleeps) = whole.head.reasons.as_deref().map(WholeSleeps::new) else { return };
        self.digests.iter_mut().filter_map(|part| part.head.reasons.as_mut()).for_each(|part| sleeps.tell(part));
    }

    /// Whether they are windows, and not snapshots; `None` before the first run.
    pub fn is_of_windows(&self) -> Option<bool> {
        let first = self.digests.first().map(|run| run.head.window.is_some());
        // Only windows have commands, which can fail.
        first.or((self.excluded > 0).then_some(true))
    }

    /// Returns the runs, or an error if there are none or too many have failed.
    pub fn checked(self) -> Result<Self, RunsError> {
        let (failed, all) = (self.excluded, self.excluded + self.digests.len());
        match () {
            () if all == 0 => Err(RunsError::None),
            () if failed * RUNS_PER_FAILURE > all => Err(RunsError::Failed(failed, all)),
            () => Ok(self),
        }
    }
}

/// Number of runs per allowed run without a partner: a tenth of the commands of each side may fail.
const RUNS_PER_UNPAIRED: usize = 8;

/// Pairs the runs of both sides if they were recorded in turn, as `ab` does: each run with the next one, of the other side.
/// Sorts them by time then, and leaves out those without a partner, such as the partner of one that failed.
pub(super) fn pair(sides: &mut Sides<Runs>) -> Design {
    let Some((baseline, candidate)) = sides.as_mut().both() else { return Design::Independent };
    let time = |digest: &Digest| digest.head.captured_at_unix_ns;
    let [before, after] = [&*baseline, &*candidate].map(|side| {
        let mut times: Vec<u64> = side.digests.iter().map(time).collect();
        times.sort_unstable();
        times
    });
    let (kept, all) = (in_turn(&before, &after), before.len() + after.len());
    let unpaired = all - 2 * kept.len();
    if kept.len() < MIN_PAIRS || unpaired * RUNS_PER_UNPAIRED > all {
        return Design::Independent;
    }
    let (first, second): (BTreeSet<usize>, BTreeSet<usize>) = kept.into_iter().unzip();
    for (side, kept) in [(baseline, first), (candidate, second)] {
        let mut places = 0..;
        side.digests.arrange_by_key(time);
        side.unpaired = side.digests.len() - kept.len();
        side.digests.retain(|_| places.next().is_some_and(|place| kept.contains(&place)));
    }
    Design::Paired
}

/// The places of the runs that form pairs, by their times in ascending order. Runs at one time have no order.
fn in_turn(baseline: &[u64], candidate: &[u64]) -> Vec<(usize, usize)> {
    let of_side = |side: usize, times: &[u64]| -> Vec<(u64, usize, usize)> {
        times.iter().enumerate().map(|(at, time)| (*time, side, at)).collect()
    };
    let mut runs = [of_side(0, baseline), of_side(1, candidate)].concat();
    runs.sort_unstable();
    if runs.windows(2).any(|runs| runs[0].0 == runs[1].0) {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    let mut waiting: Option<(usize, usize)> = None;
    for (_, side, at) in runs {
        match waiting.take() {
            Some((0, other)) if side == 1 => pairs.push((other, at)),
            Some((1, other)) if side == 0 => pairs.push((at, other)),
            _ => waiting = Some((side, at)),
        }
    }
    pairs
}

/// Runs of a side in which any group has a value, by the name of the value.
#[derive(Debug, Default)]
pub(super) struct KnownValues {
    runs: usize,
    by_name: HashMap<Cow<'static, str>, Box<[bool]>>,
}

impl KnownValues {
    pub(super) fn of_runs(runs: usize) -> Self {
        Self { runs, by_name: HashMap::new() }
    }

    /// Notes that these runs have values of these names, whether a group has them or not.
    pub(super) fn add_all(&mut self, runs: &[bool], names: impl IntoIterator<Item = String>) {
        self.by_name.extend(names.into_iter().map(|name| (Cow::Owned(name), runs.into())));
    }

    /// Notes the values that the groups of a run have.
    fn add(&mut self, run: usize, groups: &SideSection) {
        // What any group has, all groups together have. They have the first key.
        let has_all = groups.contains_key(&[][..]);
        let groups = groups.values().take(if has_all { 1 } else { usize::MAX });
        let measurements = groups.flat_map(|group| &group.measurements);
        for measured in measurements.filter(|measured| measured.cell.is_some()) {
            let none = || vec![false; self.runs].into_boxed_slice();
            self.by_name.entry(measured.name.clone()).or_insert_with(none)[run] = true;
        }
    }

    /// Returns the value of a group that the run lacks: a total is 0, or NaN if no group of the run has the value.
    fn total_of_none(&self, run: usize, like: &Measurement) -> f64 {
        let is_known = like.is_total && self.by_name.get(&like.name).is_some_and(|has_value| has_value[run]);
        if is_known { 0.0 } else { f64::NAN }
    }

    /// Returns the measurement of a side that lacks a value of the other side, `like`. Totals are 0 if the side lacks the group, and times in rare
    /// states also if the group was never in them.
    pub(super) fn instead_of(&self, like: &Measurement, exists: bool) -> Measurement {
        let number = |run| if exists && !like.is_of_rare_state() { f64::NAN } else { self.total_of_none(run, like) };
        let numbers: Box<[f64]> = (0..self.runs).map(number).collect();
        let kind = like.cell.as_ref().filter(|cell| plain_number(cell).is_some());
        let is_usual = are_half(present(&numbers).count(), self.runs);
        let cell = kind.filter(|_| is_usual).map(|kind| of_kind(kind, 0.0));
        let new = Measurement::new(like.name.clone(), like.unit, cell, 0);
        let (quantity, reason) = (like.quantity, like.reason.clone());
        Measurement { quantity, reason, quantum: 0.0, runs: Some(numbers), ..new }
    }
}

/// A section of one side: its groups. Of several runs, each value is the median, with the values of all runs beside it.
#[derive(Debug, Default)]
pub(super) struct SectionRuns {
    pub(super) groups: SideSection,
    pub(super) runs_with_values: KnownValues,
}

impl SectionRuns {
    /// Merges the wanted groups of all runs. Runs are made one by one, so that only their numbers are kept. `None` if a run
    /// lacks the section.
    pub(super) fn new(
        mut runs_with_values: KnownValues,
        runs: impl IntoIterator<Item = Option<SideSection>>,
        is_wanted: impl Fn(&[String]) -> bool,
        keys: &[SortKey],
    ) -> Option<Self> {
        let mut groups: BTreeMap<Vec<String>, GroupRuns> = BTreeMap::new();
        for (run, section) in runs.into_iter().enumerate() {
            let mut section = section?;
            runs_with_values.add(run, &section);
            section.retain(|key, _| is_wanted(key));
            if runs_with_values.runs == 1 {
                return Some(Self { groups: section, runs_with_values });
            }
            section
                .into_iter()
                .for_each(|(key, group)| groups.entry(key).or_default().add(run, runs_with_values.runs, group));
        }
        let groups = groups.into_iter().map(|(key, group)| (key, group.merged(&runs_with_values, keys))).collect();
        Some(Self { groups, runs_with_values })
    }
}

/// A group in several runs.
#[derive(Default)]
struct GroupRuns {
    /// The runs that have the group, each without its measurements.
    present: Vec<(usize, SideGroup)>,
    measurements: Vec<MeasurementRuns>,
}

impl GroupRuns {
    fn add(&mut self, run: usize, runs: usize, mut group: SideGroup) {
        for (place, measured) in std::mem::take(&mut group.measurements).into_iter().enumerate() {
            // Most runs have the same values in the same order.
            let is_it = |other: &MeasurementRuns| other.measured.name == measured.name;
            let is_usual = self.measurements.get(place).is_some_and(is_it);
            let place = if is_usual { Some(place) } else { self.measurements.iter().position(is_it) };
            let place = place.unwrap_or_else(|| {
                self.measurements.push(MeasurementRuns::new(runs, &measured));
                self.measurements.len() - 1
            });
            self.measurements[place].add(run, measured);
        }
        self.present.push((run, group));
    }

    fn merged(self, runs_with_values: &KnownValues, keys: &[SortKey]) -> SideGroup {
        let Self { present, measurements } = self;
        let without: Vec<usize> =
            (0..runs_with_values.runs).filter(|run| present.iter().all(|(present, _)| present != run)).collect();
        let sort_value = |(place, key): (usize, &SortKey)| {
            let cells = present.iter().filter_map(|(_, group)| group.sort_values[place].clone());
            let zeros = without.iter().filter(|_| key.by.is_total()).map(|_| Cell::Number(0));
            middle_cell(cells.chain(zeros).collect())
        };
        let sort_values = keys.iter().enumerate().map(sort_value).collect();
        let merged = measurements.into_iter().map(|measured| measured.merged(&without, runs_with_values));
        let measurements = without_parts_of_longer_runs(merged.collect());
        let present: Vec<GroupFacts> = present.into_iter().map(|(_, group)| group.group_facts).collect();
        SideGroup { group_facts: merged_facts(&present, runs_with_values.runs), sort_values, measurements }
    }
}

/// Removes parts of the run time that more than a tenth of the runs lack, or that are longer than the run time: short runs have
/// none, so the median would come from the longer ones.
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
fn merged_facts(present: &[GroupFacts], runs: usize) -> GroupFacts {
    let all = || present.iter();
    let counts = |count: fn(&GroupFacts) -> u64| {
        let mut counts: Vec<f64> = all().map(|facts| count(facts) as f64).collect();
        counts.resize(runs, 0.0);
        median(&counts).map_or(0, whole)
    };
    let uptimes: Vec<f64> = all().filter_map(|facts| facts.uptime).collect();
    let mut parents: BTreeMap<&Name, u64> = BTreeMap::new();
    all().flat_map(|facts| &facts.parents).for_each(|(name, count)| *parents.entry(name).or_default() += count);
    let mut parents: Vec<_> = parents.into_iter().map(|(name, count)| (Name::clone(name), count)).collect();
    parents.arrange_by_key(|(_, count)| std::cmp::Reverse(*count));
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

/// A value of a group in several runs.
struct MeasurementRuns {
    /// Name, unit and coverage, over all runs that have the group. The cell is the first number, whose kind the median gets.
    measured: Measurement,
    /// Numbers by run; NaN where there is none.
    numbers: Box<[f64]>,
    /// Runs in which the kernel counted the value in units, such as ticks.
    coarse: Vec<usize>,
    /// The first value that is not a number, and all of later runs.
    others: Vec<Cell>,
}

impl MeasurementRuns {
    fn new(runs: usize, like: &Measurement) -> Self {
        let measured = Measurement { cell: None, ..like.clone() };
        Self { measured, numbers: vec![f64::NAN; runs].into(), coarse: Vec::new(), others: Vec::new() }
    }

    fn add(&mut self, run: usize, Measurement { cell, covered, partial, lacks_exited_work, quantum, .. }: Measurement) {
        self.measured.covered = self.measured.covered.min(covered);
        self.measured.partial |= partial;
        self.measured.lacks_exited_work |= lacks_exited_work;
        self.measured.quantum = self.measured.quantum.max(quantum);
        let Some(cell) = cell else { return };
        self.coarse.extend((quantum > 0.0).then_some(run));
        match plain_number(&cell) {
            Some(number) if self.others.is_empty() => {
                self.numbers[run] = number;
                self.measured.cell.get_or_insert(cell);
            }
            _ => self.others.push(cell),
        }
    }

    /// The median. A value that more than half of the runs lack has none.
    fn merged(self, without: &[usize], runs_with_values: &KnownValues) -> Measurement {
        let Self { mut measured, mut numbers, coarse, others } = self;
        let exact = present(&numbers).count().saturating_sub(coarse.len());
        // A few runs that count in ticks say less than the others, and would blur all.
        if !coarse.is_empty() && are_half(exact, runs_with_values.runs) {
            coarse.into_iter().for_each(|run| numbers[run] = f64::NAN);
            measured.quantum = 0.0;
        }
        let kind = measured.cell.take();
        if others.is_empty() {
            without.iter().for_each(|run| numbers[*run] = runs_with_values.total_of_none(*run, &measured));
            if measured.is_of_rare_state() {
                // A run in which its threads were never in the state has no row of it.
                let none = |(run, number): (usize, &mut f64)| *number = runs_with_values.total_of_none(run, &measured);
                numbers.iter_mut().enumerate().filter(|(_, number)| number.is_nan()).for_each(none);
            }
            let cell = kind.zip(median_of_runs(&numbers)).map(|(kind, median)| of_kind(&kind, median));
            return Measurement { cell, runs: Some(numbers), ..measured };
        }
        let numbers = kind.iter().flat_map(|kind| present(&numbers).map(|number| of_kind(kind, number)));
        let cells: Vec<Cell> = numbers.chain(others).collect();
        let cell = if are_half(cells.len(), runs_with_values.runs) { middle_cell(cells) } else { None };
        Measurement { cell, ..measured }
    }
}

/// Returns the middle range or CPU set, or the most frequent word; of equally frequent words, the first.
fn middle_cell(mut runs: Vec<Cell>) -> Option<Cell> {
    if let Some(numbers) = runs.iter().map(plain_number).collect::<Option<Vec<f64>>>() {
        return runs.first().zip(median(&numbers)).map(|(kind, median)| of_kind(kind, median));
    }
    if runs.iter().all(|cell| number(cell).is_some()) {
        runs.arrange_by(|a, b| number(a).partial_cmp(&number(b)).unwrap_or(std::cmp::Ordering::Equal));
        let place = (runs.len() - 1) / 2;
        let has_bounds = runs.iter().any(|cell| matches!(cell, Cell::AtLeast { .. }));
        return Some(match runs.swap_remove(place) {
            Cell::Number(at_least) if has_bounds => Cell::AtLeast { at_least },
            middle => middle,
        });
    }
    // Of the most frequent words in each run, how often they were there is no matter.
    let is_same = |one: &Cell, other: &Cell| match (one, other) {
        (Cell::Mode(one), Cell::Mode(other)) => one.value == other.value,
        _ => one == other,
    };
    let frequency = |cell: &Cell| runs.iter().filter(|other| is_same(other, cell)).count();
    runs.iter().rev().max_by_key(|cell| frequency(cell)).cloned()
}

/// The values of the runs that have one.
pub(super) fn present(runs: &[f64]) -> impl Iterator<Item = f64> {
    runs.iter().copied().filter(|value| !value.is_nan())
}

/// The median of the values that are known; `None` if more than half of the runs lack the value.
pub(super) fn median_of_runs(runs: &[f64]) -> Option<f64> {
    let values: Vec<f64> = present(runs).collect();
    median(&values).filter(|_| are_half(values.len(), runs.len()))
}

fn are_half(some: usize, all: usize) -> bool {
    some > 0 && some * 2 >= all
}

/// The values of a row in several runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RowRuns {
    /// The value in each run, in the order of the runs; NaN where it is unknown.
    pub values: Sides<Box<[f64]>>,
    /// The unit in which the kernel counts them, in the unit of the row; 0 if they are exact.
    pub quantum: f64,
    /// The ratio of the sides, with its 95 % interval; `None` with fewer than [`MIN_RUNS`](crate::statistics::MIN_RUNS)
    /// known values on a side, if more than half of the runs of a side lack the value, or with negative values.
    pub estimate: Option<Estimate>,
    /// Verdict of the interval, against the threshold.
    pub verdict: Option<Verdict>,
    /// Number of runs that would make an unclear verdict clear, if it can be estimated.
    pub(crate) needed: Option<RunsNeeded>,
}

/// How the runs of two sides belong together, and what intervals are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge {
    pub(super) design: Design,
    pub(super) threshold: Threshold,
    /// How often an end of an interval may miss the true change.
    pub(super) tail: f64,
}

impl Judge {
    /// Compares the values of a row in all runs. `None` if they are not numbers, or if no side has several runs.
    pub(super) fn row(
        self,
        sides: &mut Sides<Measurement>,
        runs_with_values: Sides<&KnownValues>,
    ) -> Option<Box<RowRuns>> {
        if runs_with_values.iter().all(|side| side.runs < 2) {
            return None;
        }
        let quantum = sides.iter().map(|measured| measured.quantum).fold(0.0, f64::max);
        let values = sides.as_mut().zip(runs_with_values).map(|(measured, side)| {
            let of_one = || one_run(measured.cell.as_ref()).filter(|_| side.runs == 1);
            measured.runs.take().or_else(of_one)
        });
        let mut row = RowRuns { values: values.of_all()?, quantum, estimate: None, verdict: None, needed: None };
        let samples = samples(self.design, &row.values, quantum).filter(|samples| {
            samples.sides.iter().zip(row.values.iter()).all(|(with_value, all)| are_half(with_value.len(), all.len()))
        });
        if let Some(samples) = samples {
            row.estimate = samples.estimate(Scale::Ratio, self.tail);
            row.verdict = row.estimate.map(|estimate| Verdict::new(estimate, self.threshold.0));
            let unclear = row.estimate.filter(|_| row.verdict == Some(Verdict::Unclear));
            row.needed = unclear.and_then(|estimate| RunsNeeded::new(samples.fewest(), estimate, self));
        }
        Some(Box::new(row))
    }
}

/// The number of the only run, NaN where there is none; `None` if the value is no number.
pub(super) fn one_run(cell: Option<&Cell>) -> Option<Box<[f64]>> {
    cell.map_or(Some(f64::NAN), plain_number).map(|number| [number].into())
}

/// Returns the known values of two sides, in pairs if enough pairs are whole; `None` for one side.
pub(super) fn samples(design: Design, values: &Sides<Box<[f64]>>, quantum: f64) -> Option<Samples> {
    let (baseline, candidate) = values.as_ref().both()?;
    let pairs = baseline.iter().copied().zip(candidate.iter().copied());
    let (first, second): (Vec<_>, Vec<_>) = pairs.filter(|(a, b)| !a.is_nan() && !b.is_nan()).unzip();
    if design == Design::Paired && first.len() >= MIN_PAIRS {
        return Some(Samples { design, sides: [first, second], quantum });
    }
    let sides = [baseline, candidate].map(|side| present(side).collect());
    Some(Samples { design: Design::Independent, sides, quantum })
}

/// About how many runs per side would decide.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct RunsNeeded {
    pub(crate) runs: usize,
    /// In which share of cases, if the change is as measured.
    power: f64,
}

impl RunsNeeded {
    /// Estimates the runs for a change beyond the threshold, or, for a change within it, until both ends of the interval are
    /// within it.
    fn new(runs: usize, estimate: Estimate, judge: Judge) -> Option<Self> {
        let Judge { threshold: Threshold(threshold), tail, .. } = judge;
        let (change, threshold) = (estimate.change.ln().abs(), threshold.ln_1p());
        let margin = match change - threshold {
            beyond @ 0.0.. => Margin::One(beyond),
            _ => Margin::Two(threshold - change, threshold + change),
        };
        let half_width = estimate.interval.half_width()?.ln_1p();
        let needed = runs_needed(runs, half_width, margin, tail)?;
        Some(Self { runs: needed, power: POWER })
    }
}

#[cfg(test)]
pub(super) mod tests;
