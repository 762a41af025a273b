//! The columns of the overview: their names, meanings and inputs.

use self::ColumnInput::{Block, Elapsed, Gauges, Halted, PartOfRun, Run, Sleep, Sum, Zombie};
use crate::model::Direction::{self, MoreIsWorse, Neither};
use crate::model::Unit::{self, Bytes, Count, Ns};
use crate::model::{Metric, MetricId as M};

/// Input from which the values of a column are made.
#[derive(Clone, Copy, Debug)]
pub(super) enum ColumnInput {
    /// The time of the command, which all groups together have.
    Elapsed,
    Run,
    Block,
    Sleep,
    /// The time in the state of [`HALTED`] at this place, by samples.
    Halted(usize),
    /// The time of threads that have exited and that their parent has not waited for.
    Zombie,
    /// The part of the time on a CPU that this metric counts in ticks.
    PartOfRun(M),
    /// The sum of these metrics.
    Sum(&'static [M]),
    /// The sum of these gauges, which is not divided by time.
    Gauges(&'static [M]),
}

/// A column of the overview.
#[derive(Debug)]
pub struct OverviewColumn {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    /// Whether a larger value is worse.
    pub(crate) direction: Direction,
    /// The unit of amounts that are not divided: of time, events or bytes.
    pub(super) unit: Unit,
    pub(super) amount: ColumnInput,
    /// How much a change of the host's total matters, and from which rate per second it does fully.
    pub(super) weight: f64,
    pub(super) full_rate: f64,
}

impl OverviewColumn {
    /// The columns that groups have.
    pub(crate) fn of_groups() -> impl Iterator<Item = &'static Self> {
        OVERVIEW.iter().filter(|column| column.is_of_groups())
    }

    /// Whether each group has a value, not only all together.
    pub(crate) fn is_of_groups(&self) -> bool {
        !matches!(self.amount, Elapsed)
    }

    /// Whether every kernel has its values, where there is enough CPU time or a live process.
    pub(crate) fn is_in_every_kernel(&self) -> bool {
        matches!(self.amount, PartOfRun(_) | Gauges(_)) || self.is_rare()
    }

    /// Whether it is a state that few threads are in: groups without it have no row.
    pub(super) fn is_rare(&self) -> bool {
        matches!(self.amount, Halted(_) | Zombie)
    }

    /// Whether it is a part of the run time.
    pub(super) fn is_part_of_run(&self) -> bool {
        matches!(self.amount, PartOfRun(_))
    }

    /// Whether units of work divide it.
    pub(super) fn is_amount(&self) -> bool {
        !matches!(self.amount, Gauges(_))
    }

    /// Whether its values are amounts of work, which are divided by time.
    pub(super) fn is_divided(&self) -> bool {
        !matches!(self.amount, Elapsed | Gauges(_))
    }

    /// How much a share of the host's total says, where there is no room for all columns.
    pub(super) fn worth(&self) -> f64 {
        match self.amount {
            PartOfRun(_) => 0.9,
            Sleep => 0.02,
            Halted(_) | Zombie => 1.0,
            Gauges(_) => 0.3,
            _ => self.weight,
        }
    }

    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        OVERVIEW.iter().find(|column| column.name == name)
    }

    /// Whether it says how much a group changed: counters of what it did or suffered.
    pub(crate) fn is_ranked(&self) -> bool {
        self.weight > 0.0
    }

    pub(super) fn inputs(&self) -> impl Iterator<Item = &'static Metric> {
        let inputs: &[M] = match &self.amount {
            PartOfRun(metric) => std::slice::from_ref(metric),
            Elapsed | Sleep | Halted(_) | Zombie => &[],
            Run => &[M::run_time_ns],
            Block => BLOCKED,
            Sum(metrics) | Gauges(metrics) => metrics,
        };
        inputs.iter().map(|id| id.metric())
    }
}

const fn column(
    name: &'static str,
    direction: Direction,
    unit: Unit,
    (weight, full_rate): (f64, f64),
    amount: ColumnInput,
    doc: &'static str,
) -> OverviewColumn {
    OverviewColumn { name, doc, direction, unit, amount, weight, full_rate }
}

pub(crate) static OVERVIEW: &[OverviewColumn] = &[
    column(ELAPSED, MoreIsWorse, Ns, SHOWN, Elapsed, "Time that the command took."),
    column(RUN, MoreIsWorse, Ns, (1.0, 0.0), Run, "Time on a CPU."),
    column("usr", Neither, Ns, SHOWN, PartOfRun(M::utime_clock_ticks), "Part of run in user mode."),
    column("sys", Neither, Ns, SHOWN, PartOfRun(M::stime_clock_ticks), "Part of run in the kernel."),
    column(WAIT, MoreIsWorse, Ns, (1.0, 0.0), Sum(&[M::wait_time_ns]), "Time runnable but waiting for a CPU."),
    column(BLOCK, MoreIsWorse, Ns, (1.0, 0.0), Block, "Time blocked on I/O, memory or kernel locks."),
    column(SLEEP, Neither, Ns, SHOWN, Sleep, "The rest of the time."),
    column(HALTED[0], Neither, Ns, SHOWN, Halted(0), "Time stopped by a signal, by samples."),
    column(HALTED[1], Neither, Ns, SHOWN, Halted(1), "Time stopped by a tracer, by samples."),
    column(HALTED[2], Neither, Ns, SHOWN, Halted(2), "Time frozen with the cgroup, by samples."),
    column(ZOMBIE, Neither, Ns, SHOWN, Zombie, "Time after the exit, until the parent waits for it."),
    column("csw", Neither, Count, (0.1, 2e3), Sum(SWITCHES), "Context switches."),
    column("faults", MoreIsWorse, Count, (0.1, 2e4), Sum(&[M::minflt, M::majflt]), "Page faults."),
    column("read", MoreIsWorse, Bytes, (0.3, 1e7), Sum(&[M::read_bytes]), "Bytes fetched from storage."),
    column("write", MoreIsWorse, Bytes, (0.3, 1e7), Sum(&[M::write_bytes]), "Bytes sent to storage."),
    column("alloc", MoreIsWorse, Bytes, (0.05, 1e8), Sum(&[M::allocated_bytes]), "Bytes allocated through jemalloc."),
    column("rss", Neither, Bytes, SHOWN, Gauges(RESIDENT), "Resident memory at the end."),
];

/// The weights of values that say nothing on their own of how much a group changed.
const SHOWN: (f64, f64) = (0.0, 0.0);

pub(crate) const ELAPSED: &str = "elapsed";
pub(crate) const RUN: &str = "run";
pub(super) const WAIT: &str = "wait";
pub(super) const BLOCK: &str = "block";
pub(super) const SLEEP: &str = "sleep";
/// States in which a thread can do nothing until somebody else lets it: parts of the time in which threads neither run nor wait
/// nor are blocked.
pub(super) const HALTED: [&str; 3] = ["stopped", "traced", "frozen"];
/// Nanoseconds in each of the states of [`HALTED`].
pub(super) type HaltedNs = [u64; HALTED.len()];
pub(super) const ZOMBIE: &str = "zombie";
const RESIDENT: &[M] = &[M::rss_anon_bytes, M::rss_file_bytes, M::rss_shmem_bytes];
/// Metrics of blocked time, as the scheduler counts it, or as delays.
const BLOCKED: &[M] = &[
    M::block_sum,
    M::iowait_sum,
    M::blkio_delay_total_ns,
    M::swapin_delay_total_ns,
    M::freepages_delay_total_ns,
    M::thrashing_delay_total_ns,
    M::compact_delay_total_ns,
];
const SWITCHES: &[M] = &[M::voluntary_csw, M::nonvoluntary_csw];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_columns_without_a_weight_the_parts_of_run_say_most_and_sleep_least() {
        let worth = |name| OverviewColumn::named(name).unwrap().worth();
        assert!(worth(RUN) > worth("usr") && worth("usr") > worth("rss") && worth("rss") > worth("csw"));
        assert!(worth("alloc") > worth(SLEEP) && worth(SLEEP) > 0.0);
    }
}
