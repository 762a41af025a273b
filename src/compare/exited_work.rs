//! CPU time of groups, and the work of their exited threads and children that only their processes count.

use super::GroupTotals;
use super::score::LEAST_EXITED_WORK;
use crate::model::{ExitedWork, MetricId as M, NS_PER_TICK, Totals};

/// The metrics of CPU time in ticks.
pub(super) const TICKS: &[M] = &[M::utime_clock_ticks, M::stime_clock_ticks];

/// Returns the run time; without scheduler statistics, the CPU time in ticks.
pub(super) fn run(totals: &Totals) -> Option<u64> {
    totals.run_time_ns.sum().or_else(|| Some(sum(totals, TICKS)?.saturating_mul(NS_PER_TICK)))
}

pub(super) fn sum(totals: &Totals, metrics: &[M]) -> Option<u64> {
    metrics.iter().try_fold(0, |all: u64, id| Some(all.saturating_add(id.metric().sum(totals)?)))
}

/// The exited work of a group that has lines of its own.
pub(super) fn exited_that_matter(members: &GroupTotals) -> impl Iterator<Item = (&ExitedWork, &Totals)> {
    members.exited_work.iter().map(|(kind, totals)| (kind, &**totals)).filter(|(_, totals)| matters(members, totals))
}

/// Whether exited work of a group has a line of its own.
pub(super) fn matters(members: &GroupTotals, totals: &Totals) -> bool {
    let least = run(&members.totals).unwrap_or(0) as f64 * LEAST_EXITED_WORK;
    run(totals).is_some_and(|run| run > 0 && run as f64 >= least)
}
