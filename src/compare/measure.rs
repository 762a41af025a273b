//! The values of a group of threads in one capture.

use super::exited_work::{TICKS, exited_that_matter, run, sum};
use super::{ColumnInput, GroupTotals, HaltedNs, Measurement, OverviewColumn, Per, Quantity, number, rate_unit};
use crate::model::{Cell, Formula, MetricId as M, NS_PER_TICK, SnapshotHead, Totals, Unit};

/// Context on which the values of a group depend.
#[derive(Clone, Copy)]
pub(super) struct GroupContext<'g> {
    /// Totals of the threads; `None` for exited work, which belongs to no thread.
    members: Option<&'g GroupTotals>,
    totals: &'g Totals,
    times: Times,
    taskstats: Option<u16>,
}

impl<'g> GroupContext<'g> {
    /// Returns the context of a group. `cpu_time` is the CPU time of all groups, in nanoseconds.
    pub(super) fn new(head: &SnapshotHead, members: &'g GroupTotals, per: Per, cpu_time: u64) -> Self {
        let times = Times::new(head, members, per, cpu_time);
        Self { members: Some(members), totals: &members.totals, times, taskstats: head.taskstats_version() }
    }

    /// Exited work of the group, which was alive while it ran: it is no part of the sleep.
    pub(super) fn of_exited_work(self, totals: &'g Totals) -> Self {
        Self { members: None, totals, times: Times { seconds: self.times.seconds, ..Times::default() }, ..self }
    }

    fn threads(&self) -> u64 {
        self.members.map_or(0, |members| members.threads)
    }

    /// Whether the group has exited work without one of these metrics.
    fn lacks_exited_work(&self, metrics: impl IntoIterator<Item = M>) -> bool {
        let lacks = |members: &GroupTotals| metrics.into_iter().any(|id| members.lacks_exited_work(id));
        self.members.is_some_and(lacks)
    }

    /// Whether exited work of the group has a line of its own, or threads are shown to have exited.
    fn shows_exits(&self) -> bool {
        let shows = |members: &GroupTotals| members.turnover.exited > 0 || exited_that_matter(members).next().is_some();
        self.members.is_some_and(shows)
    }
}

/// The times of a group that its totals do not have; what is unknown is left out.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Seconds that amounts are divided by, 0 if they are unknown; `None` if amounts are not divided.
    seconds: Option<f64>,
    /// How long the threads were alive, in nanoseconds, and how long exited work ran.
    alive: Option<u64>,
    zombie: Option<u64>,
    halted: HaltedNs,
    blocked: Option<u64>,
    /// Number of threads for which that is known.
    blocked_of: u64,
    /// How long the command took that was recorded, in nanoseconds.
    elapsed: Option<u64>,
}

impl Times {
    fn new(head: &SnapshotHead, members: &GroupTotals, per: Per, cpu_time: u64) -> Self {
        let lived = members.lifetimes.lived(head);
        let seconds = match (per, &head.window) {
            (Per::Run | Per::Unit, _) => None,
            (Per::Second, Some(window)) => Some(window.duration_ns as f64 / 1e9),
            (Per::Second, None) => Some(lived.map_or(0.0, |(ns, threads)| ns as f64 / threads as f64 / 1e9)),
            (Per::CpuSecond, _) => Some(cpu_time as f64 / 1e9),
        };
        let alive = match &head.window {
            Some(window) => Some(members.alive_within(window.duration_ns)),
            None => lived.and_then(|(ns, _)| ns.try_into().ok()),
        };
        let exited_run = members.exited_work.values().filter_map(|totals| run(totals)).fold(0, u64::saturating_add);
        let alive = alive.map(|alive: u64| alive.saturating_add(exited_run));
        let command = head.window.as_ref().and_then(|window| window.command.as_ref());
        let elapsed = command.filter(|command| command.end().is_some()).map(|command| command.elapsed_ns);
        Self {
            seconds,
            alive,
            zombie: head.window.as_ref().and_then(|window| members.zombie_ns(window.duration_ns)),
            halted: members.halted_ns,
            blocked: members.blocked_ns,
            blocked_of: members.blocked_of,
            elapsed,
        }
    }
}

impl Quantity {
    /// The value of a group, and how far it can be relied on.
    pub(super) fn measure(self, of: &GroupContext<'_>) -> Measurement {
        let (totals, threads) = (of.totals, of.threads());
        let (cell, covered, lacks_members) = match self {
            Self::Column(column) => return column.measure(of),
            Self::ThreadCount => (Some(Cell::Number(threads)), threads, false),
            Self::Metric(metric) => {
                let covered = metric.covered(totals);
                (metric.total(totals), covered, metric.is_partial(covered, threads))
            }
            Self::Derived(derived) if matches!(derived.formula, Formula::LongestWait(_)) => {
                let covered = derived.formula.inputs().map(|id| id.metric().covered(totals)).max();
                (of.members.and_then(|members| members.longest_wait.cell()), covered.unwrap_or(0), false)
            }
            Self::Derived(derived) => (
                derived.total(totals, of.taskstats),
                derived.covered(totals, of.taskstats),
                derived.is_partial(totals, of.taskstats, threads),
            ),
        };
        let lacks_exited_work = of.lacks_exited_work(self.inputs().into_iter().map(|metric| metric.id));
        Measurement {
            partial: lacks_members || cell.is_some() && lacks_exited_work && of.shows_exits(),
            lacks_exited_work,
            quantity: Some(self),
            is_total: self.is_total(),
            is_increase: self.is_increase(),
            ..Measurement::new(self.name(), self.about().unit, cell, covered)
        }
    }
}

impl OverviewColumn {
    fn measure(&'static self, of: &GroupContext<'_>) -> Measurement {
        let (totals, times) = (of.totals, of.times);
        let in_ticks = match self.amount {
            ColumnInput::Run => totals.run_time_ns.sum().is_none(),
            ColumnInput::PartOfRun(_) => true,
            _ => false,
        };
        let amount = self.amount(totals, times);
        let (unit, cell) = self.value(amount, times);
        let quantum = if in_ticks { self.value(Some(NS_PER_TICK), times).1 } else { None };
        let inputs = self.covered(totals, times);
        // Of gauges, only the first thread of a process has a value.
        let lacks_members = inputs.clone().any(|covered| (1..of.threads()).contains(&covered));
        let lacks_exited_work = of.lacks_exited_work(self.needed_of_exited().iter().copied());
        Measurement {
            partial: self.is_divided() && lacks_members || cell.is_some() && lacks_exited_work && of.shows_exits(),
            lacks_exited_work,
            quantity: Some(Quantity::Column(self)),
            is_total: true,
            quantum: quantum.as_ref().and_then(number).unwrap_or(0.0),
            ..Measurement::new(self.name, unit, cell, inputs.min().unwrap_or(0))
        }
    }

    /// The value as the overview shows it: per second, if it is divided.
    fn value(&self, amount: Option<u64>, times: Times) -> (Unit, Option<Cell>) {
        let Some(seconds) = times.seconds.filter(|_| self.is_divided()) else {
            return (self.unit, amount.map(Cell::Number));
        };
        let (unit, scale) = rate_unit(self.unit).expect("columns are times, bytes or events");
        let rate = |amount: u64| Cell::Ratio(amount as f64 / scale / seconds);
        (unit, amount.filter(|_| seconds > 0.0).map(rate))
    }

    fn amount(&self, totals: &Totals, times: Times) -> Option<u64> {
        match self.amount {
            ColumnInput::Elapsed => times.elapsed,
            ColumnInput::Run => run(totals),
            ColumnInput::Block => times.blocked,
            ColumnInput::Sleep => rest(totals, times)
                .map(|rest| rest.saturating_sub(times.halted.into_iter().fold(0, u64::saturating_add))),
            ColumnInput::Halted(state) => Some(times.halted[state]).filter(|halted| *halted > 0),
            ColumnInput::Zombie => times.zombie,
            ColumnInput::PartOfRun(part) => part_of_run(totals, part),
            ColumnInput::Sum(metrics) | ColumnInput::Gauges(metrics) => sum(totals, metrics),
        }
    }

    /// The metrics without which exited work is not in the value.
    fn needed_of_exited(&self) -> &'static [M] {
        match self.amount {
            ColumnInput::Elapsed | ColumnInput::Gauges(_) => &[],
            ColumnInput::Run => &[M::run_time_ns],
            ColumnInput::PartOfRun(_) => TICKS,
            ColumnInput::Sum(metrics) => metrics,
            // Work without a record has no time but that on a CPU.
            ColumnInput::Block | ColumnInput::Sleep | ColumnInput::Halted(_) | ColumnInput::Zombie => {
                &[M::wait_time_ns]
            }
        }
    }

    /// Returns, for each input, the number of threads that have a value.
    fn covered(&self, totals: &Totals, times: Times) -> impl Iterator<Item = u64> + Clone {
        let (metrics, blocked): ([&[M]; 2], _) = match self.amount {
            ColumnInput::Elapsed | ColumnInput::Zombie => ([&[], &[]], None),
            ColumnInput::Run => ([run_metrics(totals), &[]], None),
            ColumnInput::Block => ([&[], &[]], Some(times.blocked_of)),
            ColumnInput::Sleep | ColumnInput::Halted(_) => {
                ([run_metrics(totals), &[M::wait_time_ns]], times.blocked.map(|_| times.blocked_of))
            }
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

/// How long threads were alive and neither ran nor waited nor were blocked.
fn rest(totals: &Totals, times: Times) -> Option<u64> {
    let used = run(totals)?.saturating_add(totals.wait_time_ns.sum()?).saturating_add(times.blocked.unwrap_or(0));
    Some(times.alive?.saturating_sub(used))
}

/// How long the threads of a group were alive and neither ran nor waited nor were blocked, in nanoseconds.
pub(super) fn rest_of(head: &SnapshotHead, members: &GroupTotals) -> Option<u64> {
    rest(&members.totals, Times::new(head, members, Per::Run, 0))
}
