//! The overview: one line per group, with what matters most: where its time went, its switches, faults and I/O.

use std::collections::BTreeSet;

use super::exited_work::{TICKS, exited_that_matter, matters, run, sum};
use super::group::side_group;
use super::{
    ColumnInput, Digest, Group, GroupTotals, Groups, Measurement, OVERVIEW, OverviewColumn, Per, Population, Quantity,
    Row, Runs, SideGroup, SideSection, Sides, ThreadFilter, number, rate_unit,
};
use crate::diagnose::Note;
use crate::model::{Cell, Direction, ExitedWork, MetricId as M, NS_PER_TICK, SnapshotHead, Totals, Unit};
use crate::statistics::Verdict;

/// What the values of a group depend on besides its totals; what is unknown is left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Seconds that amounts are divided by, 0 if they are unknown; `None` if amounts are not divided.
    seconds: Option<f64>,
    /// How long the threads were alive, in nanoseconds. Exited work was alive while it ran: it is no part of the sleep.
    alive: Option<u64>,
    blocked: Option<u64>,
    /// Number of threads for which that is known.
    blocked_of: u64,
    /// How long the command took that was recorded, in nanoseconds.
    elapsed: Option<u64>,
}

impl OverviewColumn {
    fn amount(&self, totals: &Totals, times: Times) -> Option<u64> {
        match self.amount {
            ColumnInput::Elapsed => times.elapsed,
            ColumnInput::Run => run(totals),
            ColumnInput::Block => times.blocked,
            ColumnInput::Sleep => sleep(totals, times),
            ColumnInput::PartOfRun(part) => part_of_run(totals, part),
            ColumnInput::Sum(metrics) | ColumnInput::Gauges(metrics) => sum(totals, metrics),
        }
    }

    /// For each input, the number of threads that have a value.
    fn covered(&self, totals: &Totals, times: Times) -> impl Iterator<Item = u64> + Clone {
        let (metrics, blocked): ([&[M]; 2], _) = match self.amount {
            ColumnInput::Elapsed => ([&[], &[]], None),
            ColumnInput::Run => ([run_metrics(totals), &[]], None),
            ColumnInput::Block => ([&[], &[]], Some(times.blocked_of)),
            ColumnInput::Sleep => ([run_metrics(totals), &[M::wait_time_ns]], times.blocked.map(|_| times.blocked_of)),
            ColumnInput::PartOfRun(_) => ([run_metrics(totals), TICKS], None),
            ColumnInput::Sum(metrics) | ColumnInput::Gauges(metrics) => ([metrics, &[]], None),
        };
        metrics.into_iter().flatten().map(|id| id.metric().covered(totals)).chain(blocked)
    }
}

/// Fewer ticks do not say how much of the time on a CPU was in user mode.
const FEWEST_TICKS: u128 = 5;

/// Time on a CPU, divided as its ticks are.
fn part_of_run(totals: &Totals, part: M) -> Option<u64> {
    let [part, all] = [sum(totals, &[part])?, sum(totals, TICKS)?].map(u128::from);
    let all = Some(all).filter(|all| *all >= FEWEST_TICKS)?;
    u64::try_from(u128::from(run(totals)?) * part / all).ok()
}

/// The metrics that the time on a CPU is from.
fn run_metrics(totals: &Totals) -> &'static [M] {
    if totals.run_time_ns.sum().is_some() { &[M::run_time_ns] } else { TICKS }
}

fn sleep(totals: &Totals, times: Times) -> Option<u64> {
    let used = run(totals)?.saturating_add(totals.wait_time_ns.sum()?).saturating_add(times.blocked.unwrap_or(0));
    Some(times.alive?.saturating_sub(used))
}

/// What values are divided by where the options don't say: a window's by its length, those of commands alone by nothing.
/// A snapshot's are divided by the time that threads have existed, and by nothing if it is compared.
pub(super) fn usual_per(sides: &Sides<Runs>) -> Per {
    let only = Some(&sides.baseline).filter(|side| sides.candidate.is_none() && side.count().is_none());
    if let Some([digest]) = only.map(|side| &side.digests[..]) {
        let lived = |members: &GroupTotals| members.lifetimes.lived(&digest.head).is_some();
        let is_known = digest.head.window.is_some() || digest.threads.by_names.values().any(lived);
        return if is_known { Per::Second } else { Per::Run };
    }
    // What the host does besides running the commands depends on how long they take.
    let is_of_host =
        |digest: &Digest| digest.head.window.is_some() && !matches!(digest.threads.filter, ThreadFilter::OfCommand);
    if sides.iter().flat_map(|side| &side.digests).all(is_of_host) { Per::Second } else { Per::Run }
}

/// The overview of one capture: its groups, and below them the work of exited threads where it matters.
pub(super) fn section(snapshot: &SnapshotHead, groups: &Groups, per: Per) -> SideSection {
    let cpu_time = cpu_time(groups);
    let mut section = SideSection::new();
    for (key, members) in groups {
        let mut times = Times::new(snapshot, members, per, cpu_time);
        let command = snapshot.window.as_ref().and_then(|window| window.command.as_ref());
        times.elapsed = command.filter(|_| key.is_empty()).map(|command| command.elapsed_ns);
        let mut measurements = times.measurements(&members.totals, members.threads);
        exited_that_matter(members).for_each(|(_, totals)| mark_excluding(&mut measurements, totals));
        section.insert(key.clone(), side_group(snapshot, members, measurements));
        if !key.is_empty() {
            section.extend(exited(key, members, times));
        }
    }
    section
}

/// The seconds that rises of counters are divided by; `None` if they are not.
pub(super) fn seconds(snapshot: &SnapshotHead, groups: &Groups, per: Per) -> Option<f64> {
    let seconds = match per {
        Per::Run => None,
        Per::Second => snapshot.window.as_ref().map(|window| window.duration_ns as f64 / 1e9),
        Per::CpuSecond => Some(cpu_time(groups) as f64 / 1e9),
    };
    seconds.filter(|seconds| *seconds > 0.0)
}

/// The run time of all groups, in nanoseconds.
pub(super) fn cpu_time(groups: &Groups) -> u64 {
    let tops = groups.iter().filter(|(path, _)| path.len() == 1);
    tops.filter_map(|(_, group)| run(&group.totals)).fold(0, u64::saturating_add)
}

/// A note on windows without exit records, if a line of exited children is shown.
pub(super) fn unnamed_children(groups: &[Group], snapshots: Sides<&SnapshotHead>) -> Option<Note> {
    let has_records =
        |snapshot: &SnapshotHead| snapshot.window.as_ref().is_some_and(|window| window.exit_records.is_some());
    let has_children = groups.iter().any(|group| group.exited_work() == Some(ExitedWork::Children));
    let unnamed = has_children && !snapshots.into_iter().all(has_records);
    unnamed.then_some(Note::ExitedChildrenUnnamed)
}

/// Removes the lines of exited work that matter in no run of either side.
pub(super) fn remove_minor_exits(sides: &mut Sides<SideSection>) {
    let matter = |groups: &SideSection| {
        let matters = |group: &SideGroup| group.population.exited_work.is_some() && !group.population.is_minor;
        groups.iter().filter(|(_, group)| matters(group)).map(|(path, _)| path.clone()).collect::<BTreeSet<_>>()
    };
    let kept: BTreeSet<_> = sides.iter().flat_map(matter).collect();
    let is_kept = |path: &Vec<String>, group: &SideGroup| !group.population.is_minor || kept.contains(path);
    sides.as_mut().map(|groups| groups.retain(|path, group| is_kept(path, group)));
}

/// Marks the values of a group that lack those of exited work, of which processes count less than threads do.
fn mark_excluding(measurements: &mut [Measurement], totals: &Totals) {
    for measured in measurements.iter_mut().filter(|measured| measured.cell.is_some()) {
        if let Some(Quantity::Column(column)) = measured.quantity {
            measured.partial |= column.is_divided() && column.amount(totals, Times::default()).is_none();
        }
    }
}

/// The lines of exited work below a group. With the parentheses, their keys are longer than any name of a thread.
fn exited(path: &[String], members: &GroupTotals, times: Times) -> impl Iterator<Item = (Vec<String>, SideGroup)> {
    members.exited_work.iter().map(move |(kind, totals)| {
        let measurements = Times { seconds: times.seconds, ..Times::default() }.measurements(totals, 0);
        let population = Population {
            own: members.are_own(),
            exited_work: Some(*kind),
            is_minor: !matters(members, totals),
            ..Population::default()
        };
        let group = SideGroup { population, measurements, ..SideGroup::default() };
        ([path, &[format!("({})", kind.name())]].concat(), group)
    })
}

impl Times {
    /// `cpu_time` is that of all groups, in nanoseconds.
    pub(super) fn new(snapshot: &SnapshotHead, members: &GroupTotals, per: Per, cpu_time: u64) -> Self {
        let lived = members.lifetimes.lived(snapshot);
        let seconds = match (per, &snapshot.window) {
            (Per::Run, _) => None,
            (Per::Second, Some(window)) => Some(window.duration_ns as f64 / 1e9),
            (Per::Second, None) => Some(lived.map_or(0.0, |(ns, threads)| ns as f64 / threads as f64 / 1e9)),
            (Per::CpuSecond, _) => Some(cpu_time as f64 / 1e9),
        };
        let alive = match &snapshot.window {
            Some(window) => Some(members.alive_within(window.duration_ns)),
            None => lived.and_then(|(ns, _)| ns.try_into().ok()),
        };
        let exited_run = members.exited_work.values().filter_map(|totals| run(totals)).fold(0, u64::saturating_add);
        let alive = alive.map(|alive: u64| alive.saturating_add(exited_run));
        Self { seconds, alive, blocked: members.blocked_ns, blocked_of: members.blocked_of, elapsed: None }
    }

    /// The value of a column, as the overview shows it.
    pub(super) fn shown(self, column: &OverviewColumn, totals: &Totals) -> Option<Cell> {
        self.value(column, column.amount(totals, self)).1
    }

    fn measurements(self, totals: &Totals, members: u64) -> Vec<Measurement> {
        let value = |column: &'static OverviewColumn| {
            let (unit, cell) = self.value(column, column.amount(totals, self));
            let in_ticks = match column.amount {
                ColumnInput::Run => totals.run_time_ns.sum().is_none(),
                ColumnInput::PartOfRun(_) => true,
                _ => false,
            };
            let quantum = if in_ticks { self.value(column, Some(NS_PER_TICK)).1 } else { None };
            let quantum = quantum.as_ref().and_then(number).unwrap_or(0.0);
            let inputs = column.covered(totals, self);
            // Of gauges, only the first thread of a process has a value.
            let partial = column.is_divided() && inputs.clone().any(|covered| (1..members).contains(&covered));
            let covered = inputs.min().unwrap_or(0);
            Measurement {
                partial,
                quantity: Some(Quantity::Column(column)),
                is_total: true,
                quantum,
                ..Measurement::new(column.name, unit, cell, covered)
            }
        };
        OVERVIEW.iter().filter(|column| column.is_of_groups() || self.elapsed.is_some()).map(value).collect()
    }

    fn value(self, column: &OverviewColumn, amount: Option<u64>) -> (Unit, Option<Cell>) {
        let Some(seconds) = self.seconds.filter(|_| column.is_divided()) else {
            return (column.unit, amount.map(Cell::Number));
        };
        let (unit, scale) = rate_unit(column.unit).expect("columns are times, bytes or events");
        let rate = |amount: u64| Cell::Ratio(amount as f64 / scale / seconds);
        (unit, amount.filter(|_| seconds > 0.0).map(rate))
    }
}

impl Row {
    /// Whether a larger value is worse.
    pub(crate) fn direction(&self) -> Direction {
        let column = self.reason.as_ref().and_then(|reason| OverviewColumn::named(reason.column()?));
        let quantity = column.map(Quantity::Column).or(self.quantity);
        quantity.map(|quantity| quantity.about().direction).unwrap_or_default()
    }
}

/// The word for a verdict: `worse` or `better` where the value has a direction, else the verdict's name.
pub(crate) fn word(verdict: Verdict, direction: Direction) -> &'static str {
    match (verdict, direction) {
        (Verdict::More, Direction::MoreIsWorse) | (Verdict::Less, Direction::LessIsWorse) => "worse",
        (Verdict::More, Direction::LessIsWorse) | (Verdict::Less, Direction::MoreIsWorse) => "better",
        _ => verdict.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareOptions, show};
    use crate::model::{CtprofSnapshot, Section, ThreadState};

    #[test]
    fn more_time_is_worse_and_more_sleep_is_more() {
        let words = |name: &str| {
            let direction = Quantity::named(name).unwrap().about().direction;
            [Verdict::More, Verdict::Less, Verdict::Same, Verdict::Unclear].map(|verdict| word(verdict, direction))
        };
        assert_eq!(words("run"), ["worse", "better", "same", "unclear"]);
        assert_eq!(words("sleep"), ["more", "less", "same", "unclear"]);
        assert_eq!(words("cpu_efficiency"), ["better", "worse", "same", "unclear"]);
        assert_eq!(words("voluntary_csw")[0], "more");
    }

    #[test]
    fn exited_work_without_cpu_time_has_no_line_even_below_a_group_without_any() {
        let thread = |tid, exited_work| {
            let mut thread = ThreadState { tid, tgid: 1, exited_work, ..ThreadState::default() };
            thread.metrics.run_time_ns = Some(0.into());
            thread
        };
        let threads = vec![thread(0, Some(ExitedWork::Children)), thread(1, None)];
        let report = show(&CtprofSnapshot { threads, ..CtprofSnapshot::default() }, &CompareOptions::default());
        let overview = report.sections.iter().find(|section| section.section == Section::Overview).unwrap();
        assert!(overview.groups.len() == 2 && overview.groups.iter().all(|group| group.exited_work().is_none()));
    }
}
