//! The columns of the overview: their names, meanings and inputs.

use self::ColumnInput::{Block, Elapsed, Gauges, PartOfRun, Run, Sleep, Sum};
use super::Quantity;
use crate::model::Direction::{self, MoreIsWorse, Neither};
use crate::model::Unit::{self, Bytes, Count, Ns};
use crate::model::{Metric, MetricId as M, Section};

/// What the values of a column are made from.
#[derive(Clone, Copy, Debug)]
pub(super) enum ColumnInput {
    /// The time of the command, which all groups together have.
    Elapsed,
    Run,
    Block,
    Sleep,
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
    /// Whether each group has a value, not only all together.
    pub(crate) fn is_of_groups(&self) -> bool {
        !matches!(self.amount, Elapsed)
    }

    /// Whether every kernel has its values, where there is enough CPU time or a live process.
    pub(crate) fn is_in_every_kernel(&self) -> bool {
        matches!(self.amount, PartOfRun(_) | Gauges(_))
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

    /// The metrics that it shows.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &'static Metric> {
        let inputs: &[M] = match &self.amount {
            PartOfRun(metric) => std::slice::from_ref(metric),
            Elapsed | Sleep => &[],
            Run => &[M::run_time_ns],
            Block => BLOCKED,
            Sum(metrics) | Gauges(metrics) => metrics,
        };
        inputs.iter().map(|id| id.metric())
    }
}

/// Kernel options that many distributions leave out.
const OPTIONAL: &[&str] = &["SCHEDSTATS", "SCHED_CORE", "SCHED_CLASS_EXT", "TASK_DELAY_ACCT"];

/// A value of groups of threads that is selected by name.
#[derive(Clone, Copy, Debug)]
pub enum GroupValue {
    /// A column of the overview.
    Column(&'static OverviewColumn),
    /// A quantity of another section.
    Quantity(Quantity),
}

impl GroupValue {
    /// Every value that can be selected, in the order of listings: the columns of the overview, then the quantities.
    pub fn all() -> impl Iterator<Item = Self> {
        let columns = OVERVIEW.iter().filter(|column| column.is_of_groups()).map(Self::Column);
        columns.chain(Quantity::all().map(Self::Quantity))
    }

    /// The value of that name; `threads` is the number of threads.
    pub fn named(name: &str) -> Option<Self> {
        let name = if name == "threads" { "thread_count" } else { name };
        Self::all().find(|value| value.name() == name)
    }

    /// Public name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Column(column) => column.name,
            Self::Quantity(quantity) => quantity.name(),
        }
    }

    /// The section that has it.
    pub(crate) fn section(self) -> Section {
        match self {
            Self::Column(_) => Section::Overview,
            Self::Quantity(quantity) => quantity.about().section,
        }
    }

    /// Whether kernels have it whatever their configuration is.
    pub(super) fn is_usual(self) -> bool {
        let is_optional = |metric: &Metric| metric.tags().any(|tag| OPTIONAL.contains(&tag));
        match self {
            Self::Column(_) | Self::Quantity(Quantity::ThreadCount) => true,
            Self::Quantity(Quantity::Metric(metric)) => !is_optional(metric),
            Self::Quantity(Quantity::Derived(derived)) => !derived.formula.inputs().map(M::metric).any(is_optional),
        }
    }

    /// Whether groups can be sorted by it. Categories have no order.
    pub(crate) fn has_order(self) -> bool {
        !matches!(self, Self::Quantity(quantity) if !quantity.has_order())
    }

    /// Whether the value of a group is a total of its threads, so that it is 0 without any.
    pub(super) fn is_total(self) -> bool {
        !matches!(self, Self::Quantity(quantity) if !quantity.is_total())
    }

    /// Whether it is, or shows, the value of that name.
    pub(super) fn includes(self, name: &str) -> bool {
        match self {
            Self::Column(column) => column.name == name || column.inputs().any(|metric| metric.name == name),
            Self::Quantity(quantity) => quantity.name() == name,
        }
    }

    /// What stands for it in the overview: the column that shows it alone, if there is one.
    pub(super) fn in_overview(self) -> Self {
        let shows = |column: &&OverviewColumn| column.inputs().map(|metric| metric.name).eq([self.name()]);
        OVERVIEW.iter().find(shows).map_or(self, Self::Column)
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
pub(super) const RUN: &str = "run";
pub(super) const WAIT: &str = "wait";
pub(super) const BLOCK: &str = "block";
pub(super) const SLEEP: &str = "sleep";
const RESIDENT: &[M] = &[M::rss_anon_bytes, M::rss_file_bytes, M::rss_shmem_bytes];
/// As the scheduler counts it, or as delays.
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
