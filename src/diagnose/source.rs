//! Sources of a snapshot's data, and the sides of a comparison.

use std::fmt;

use crate::model::{Metric, SourceFile, TaskstatsFamily, named};

/// A source of data, judged as a whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataSource {
    /// The BPF engine. Without it, procfs has the same values.
    Bpf,
    /// The processes that /proc lists.
    Processes,
    /// A file of each thread or process in /proc.
    File(SourceFile),
    /// Scheduler statistics in `sched` (`CONFIG_SCHEDSTATS`).
    Schedstats,
    /// Taskstats over generic netlink.
    Taskstats,
    /// Delays that only delay accounting counts (`CONFIG_TASK_DELAY_ACCT`).
    DelayAccounting,
    /// Peaks of memory use (`CONFIG_TASK_XACCT`).
    HighWaterMarks,
    /// The counters that jemalloc has of each thread, in the memory of its process.
    Jemalloc,
    /// Samples of why threads wait.
    Reasons,
    /// The files of cgroups.
    Cgroups,
    /// Names of containers, from the files of their runtimes.
    Containers,
    /// Pressure stall information of the host and of cgroups.
    Pressure,
    /// The state of sched_ext in /sys/kernel/sched_ext.
    SchedExt,
}

impl DataSource {
    /// The source that decides whether a metric has values.
    pub fn of_metric(metric: &Metric) -> Self {
        match (metric.taskstats_family(), metric.file()) {
            (Some(TaskstatsFamily::Delay | TaskstatsFamily::Irq), _) => Self::DelayAccounting,
            (Some(TaskstatsFamily::Watermark), _) => Self::HighWaterMarks,
            (Some(TaskstatsFamily::Cpu), _) => Self::Taskstats,
            (None, "jemalloc") => Self::Jemalloc,
            (None, _) if metric.gates.contains(&"SCHEDSTATS") => Self::Schedstats,
            (None, file) => Self::File(file.into()),
        }
    }

    /// Whether values of another source depend on this one.
    pub(crate) fn decides(&self, other: &Self) -> bool {
        self == other || other.carrier().as_ref() == Some(self)
    }

    pub(super) fn carrier(&self) -> Option<Self> {
        match self {
            Self::DelayAccounting | Self::HighWaterMarks => Some(Self::Taskstats),
            Self::Schedstats => Some(Self::File(SourceFile::Sched)),
            _ => None,
        }
    }

    /// Returns the name that reports show.
    pub fn name(&self) -> &str {
        match self {
            Self::Bpf => "bpf engine",
            Self::Processes => "processes",
            Self::File(file) => file.name(),
            Self::Schedstats => "schedstats",
            Self::Taskstats => "taskstats",
            Self::DelayAccounting => "delay accounting",
            Self::HighWaterMarks => "memory high-water marks",
            Self::Jemalloc => "jemalloc",
            Self::Reasons => "reasons",
            Self::Cgroups => "cgroups",
            Self::Containers => "containers",
            Self::Pressure => "pressure",
            Self::SchedExt => "sched_ext",
        }
    }
}

impl fmt::Display for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

named! {
    /// A side of a comparison.
    pub enum Side {
        /// The earlier of two snapshots.
        Baseline = "baseline",
        /// The later of two snapshots.
        Candidate = "candidate",
    }
}
