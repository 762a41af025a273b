//! Sources of the values of a metric, and the conditions under which the kernel counts them.

use super::KernelField;

/// The source of a value: a file of `/proc/<tgid>/task/<tid>/`, or a facility.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// Field of `stat`, counted from 1 as in proc(5).
    Stat(u8),
    /// Field of `stat` with the number of a scheduling policy.
    StatPolicy(u8),
    /// Column of `schedstat`, counted from 1.
    Schedstat(u8),
    /// A key of the file `status`.
    Status(&'static str),
    /// Key of `status` that describes the process: stored for the leader only.
    StatusOfLeader(&'static str),
    /// Key of `sched`: the whole key, or the part after its last dot.
    Sched(&'static str),
    /// Difference of two keys of `sched`, never below 0.
    SchedDifference(&'static str, &'static str),
    /// A key of the file `io`.
    Io(&'static str),
    /// The system call `sched_getaffinity(2)`.
    Affinity,
    /// Field of `struct taskstats`.
    Taskstats(TaskstatsField),
    /// Member of jemalloc's `tsd_s`.
    Tsd(&'static str),
}

/// A field of `struct taskstats` (`include/uapi/linux/taskstats.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskstatsField {
    /// Byte offset in versions 16 and 17.
    pub at: u16,
    /// Version that added it. Fields older than version 8, the oldest that is read, have 8 or less.
    pub since: u16,
    /// The condition under which the kernel counts it.
    pub family: TaskstatsFamily,
}

const fn taskstats(at: u16, since: u16, family: TaskstatsFamily) -> Source {
    Source::Taskstats(TaskstatsField { at, since, family })
}

pub(super) const fn cpu_delay(at: u16, since: u16) -> Source {
    taskstats(at, since, TaskstatsFamily::Cpu)
}

pub(super) const fn delay(at: u16, since: u16) -> Source {
    taskstats(at, since, TaskstatsFamily::Delay)
}

pub(super) const fn irq_delay(at: u16, since: u16) -> Source {
    taskstats(at, since, TaskstatsFamily::Irq)
}

pub(super) const fn watermark(at: u16, since: u16) -> Source {
    taskstats(at, since, TaskstatsFamily::Watermark)
}

impl Source {
    /// The file or facility.
    pub fn file(self) -> &'static str {
        match self {
            Self::Stat(_) | Self::StatPolicy(_) => "stat",
            Self::Schedstat(_) => "schedstat",
            Self::Status(_) | Self::StatusOfLeader(_) => "status",
            Self::Sched(_) | Self::SchedDifference(..) => "sched",
            Self::Io(_) => "io",
            Self::Affinity => "affinity",
            Self::Taskstats { .. } => "taskstats",
            Self::Tsd(_) => "jemalloc",
        }
    }

    /// The position in the file or facility, as text.
    pub fn place(self) -> String {
        match self {
            Self::Stat(n) | Self::StatPolicy(n) => format!("field {n}"),
            Self::Schedstat(n) => format!("column {n}"),
            Self::Status(key) | Self::Sched(key) | Self::Io(key) | Self::Tsd(key) => key.to_owned(),
            Self::StatusOfLeader(key) => format!("{key}, leader only"),
            Self::SchedDifference(key, less) => format!("{key} − {less}"),
            Self::Affinity => "sched_getaffinity(2)".to_owned(),
            Self::Taskstats(TaskstatsField { at, since, .. }) => format!("offset {at}, since version {since}"),
        }
    }
}

/// Sources of a value per capture engine. An engine is a loop over its own column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Sources of the procfs engine: the first with a value counts.
    pub procfs: &'static [Source],
    /// The field that the BPF engine reads. What has none is read otherwise.
    pub(crate) bpf: Option<KernelField>,
}

named! {
    /// The scheduling classes that count a metric, if not all do. The name is the tag in listings.
    pub enum Class {
        /// counted in fair-class paths only
        CfsOnly = "cfs-only",
        /// counted for fair, real-time and deadline threads, not under sched_ext
        NonExt = "non-ext",
        /// given for threads of a fair policy only
        FairPolicy = "fair-policy",
    }
}

/// The condition under which the kernel counts a field of taskstats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskstatsFamily {
    /// The scheduler: always, if delay accounting is built in.
    Cpu,
    /// Delay accounting: for threads that started while `kernel.task_delayacct` was 1.
    Delay,
    /// Delay accounting of kernels with `CONFIG_IRQ_TIME_ACCOUNTING`.
    Irq,
    /// `CONFIG_TASK_XACCT`: for threads with memory of their own. In KiB.
    Watermark,
}
