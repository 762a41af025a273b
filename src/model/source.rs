//! Where the values of a metric come from, and what decides whether the kernel counts them.

/// A place that a value is read from: in a file of `/proc/<tgid>/task/<tid>/`, or in a facility.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// Field of `stat`, counted from 1 as in proc(5).
    Stat(u8),
    /// Field of `stat` that holds a scheduling policy's number.
    StatPolicy(u8),
    /// Column of `schedstat`, counted from 1.
    Schedstat(u8),
    /// Key of `status`.
    Status(&'static str),
    /// Key of `status` that describes the process: kept for its leader only.
    StatusOfLeader(&'static str),
    /// Key of `sched`: the whole key, or what follows its last point.
    Sched(&'static str),
    /// Difference of two keys of `sched`, never below 0.
    SchedDifference(&'static str, &'static str),
    /// Key of `io`.
    Io(&'static str),
    /// `sched_getaffinity(2)`.
    Affinity,
    /// Field of `struct taskstats`.
    Taskstats {
        /// Byte offset in versions 16 and 17.
        at: u16,
        /// Version that added it.
        since: u16,
        /// What decides whether the kernel counts it.
        family: TaskstatsFamily,
        /// What one unit of the field is, in units of the metric.
        scale: u16,
    },
    /// Member of jemalloc's `tsd_s`.
    Tsd(&'static str),
}

/// A field of taskstats that the scheduler always counts.
pub(super) const fn cpu_delay(at: u16, since: u16) -> Source {
    Source::Taskstats { at, since, family: TaskstatsFamily::Cpu, scale: 1 }
}

/// A field of taskstats that needs delay accounting.
pub(super) const fn delay(at: u16, since: u16) -> Source {
    Source::Taskstats { at, since, family: TaskstatsFamily::Delay, scale: 1 }
}

/// A high-water mark of taskstats, which the kernel gives in KiB.
pub(super) const fn watermark(at: u16, since: u16) -> Source {
    Source::Taskstats { at, since, family: TaskstatsFamily::Watermark, scale: 1024 }
}

impl Source {
    /// The file or facility.
    #[must_use]
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

    /// The place in the file or facility, in words.
    #[must_use]
    pub fn place(self) -> String {
        match self {
            Self::Stat(n) | Self::StatPolicy(n) => format!("field {n}"),
            Self::Schedstat(n) => format!("column {n}"),
            Self::Status(key) | Self::Sched(key) | Self::Io(key) | Self::Tsd(key) => key.to_owned(),
            Self::StatusOfLeader(key) => format!("{key}, leader only"),
            Self::SchedDifference(key, less) => format!("{key} − {less}"),
            Self::Affinity => "sched_getaffinity(2)".to_owned(),
            Self::Taskstats { at, since, .. } => format!("offset {at}, since version {since}"),
        }
    }
}

/// Where each capture engine finds a value. An engine is a loop over its own column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sources {
    /// Sources of the portable engine: the first that gives a value counts.
    pub procfs: &'static [Source],
}

/// Which scheduling classes count a metric, where not all do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Class {
    /// Counted in fair-class paths only.
    CfsOnly,
    /// Counted for fair, real-time and deadline threads, not for `sched_ext` ones.
    NonExt,
    /// Printed for threads of a fair policy only.
    FairPolicy,
}

impl Class {
    /// Every class, in the order of the legend.
    pub const ALL: [Self; 3] = [Self::CfsOnly, Self::NonExt, Self::FairPolicy];

    /// The tag in listings.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::CfsOnly => "cfs-only",
            Self::NonExt => "non-ext",
            Self::FairPolicy => "fair-policy",
        }
    }

    /// What the tag means.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::CfsOnly => "counted in fair-class paths only",
            Self::NonExt => "counted for fair, real-time and deadline threads, not under sched_ext",
            Self::FairPolicy => "given for threads of a fair policy only",
        }
    }
}

/// What decides whether the kernel counts a field of taskstats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TaskstatsFamily {
    /// The scheduler: always.
    Cpu,
    /// Delay accounting: for threads that started while `kernel.task_delayacct` was 1.
    Delay,
    /// `CONFIG_TASK_XACCT`: for threads with memory of their own.
    Watermark,
}
