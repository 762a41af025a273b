//! The table of metrics: what one row says, and the macro that turns rows into code.
//!
//! The macro makes shapes only: the struct of readings, the struct of group totals, and the
//! static table. Whatever is done with metrics is a loop over that table.

use std::fmt;

use super::reduce::{Cell, Reduce, Reduction, Sum, Summable};
use super::section::Section;
use super::unit::{Reading, Shape, Unit};
use super::value::{Mismatch, Value};
use super::{Metrics, Totals};

/// Where a reading comes from: a file of `/proc/<tgid>/task/<tid>/` or a facility, and the place in it.
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
    /// Key of `status`, of a process: kept on its leader only.
    StatusOfLeader(&'static str),
    /// Key of `sched`: the whole key, or what follows its last point.
    Sched(&'static str),
    /// Difference of two keys of `sched`, never below 0.
    SchedDifference(&'static str, &'static str),
    /// Key of `io`.
    Io(&'static str),
    /// `sched_getaffinity(2)`, else a key of `status`.
    Affinity(&'static str),
    /// Field of `struct taskstats`: byte offset in version 16, and the version that brought it.
    Taskstats {
        /// Byte offset in versions 16 and 17.
        at: u16,
        /// Version that brought it.
        since: u16,
        /// What one unit of the field is, in units of the metric.
        scale: u16,
    },
    /// Member of jemalloc's `tsd_s`.
    Tsd(&'static str),
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
            Self::Affinity(_) => "affinity",
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
            Self::StatusOfLeader(key) => format!("{key}, of the leader"),
            Self::SchedDifference(key, less) => format!("{key} − {less}"),
            Self::Affinity(key) => format!("sched_getaffinity(2), else status {key}"),
            Self::Taskstats { at, since, .. } => format!("offset {at}, since version {since}"),
        }
    }
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

    /// What the tag says.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::CfsOnly => "counted in fair-class paths only",
            Self::NonExt => "counted for fair, real-time and deadline threads, not under sched_ext",
            Self::FairPolicy => "given for threads of a fair policy only",
        }
    }
}

/// What decides whether the kernel keeps a field of taskstats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskstatsFamily {
    /// The scheduler, always.
    Cpu,
    /// Delay accounting, where `kernel.task_delayacct` is 1 when the thread is born.
    Delay,
    /// `CONFIG_TASK_XACCT`, for threads with memory of their own.
    Watermark,
}

/// One metric: everything that is known of it, once.
pub struct Metric {
    /// Public name: JSON key, `--metrics`, `--sort-by`.
    pub name: &'static str,
    /// What it means, in a sentence.
    pub doc: &'static str,
    /// The type of a reading.
    pub type_name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// How a group of readings becomes one.
    pub reduction: Reduction,
    /// The form of a reading.
    pub shape: Shape,
    /// Where a reading comes from.
    pub source: Source,
    /// Where it is reported.
    pub section: Section,
    /// Kernel options without which the kernel has no such reading, without `CONFIG_`.
    pub gates: &'static [&'static str],
    /// Which scheduling classes count it, where not all do.
    pub class: Option<Class>,
    pub(super) get: fn(&Metrics) -> Option<Value<'_>>,
    pub(super) set: fn(&mut Metrics, Value<'_>) -> Result<(), Mismatch>,
    pub(super) clear: fn(&mut Metrics),
    pub(super) total: fn(&Totals) -> Option<Cell>,
    pub(super) covered: fn(&Totals) -> u64,
}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Metric {
    /// The thread's reading, if it has one.
    #[must_use]
    pub fn get<'a>(&self, metrics: &'a Metrics) -> Option<Value<'a>> {
        (self.get)(metrics)
    }

    /// Puts a reading in.
    ///
    /// # Errors
    /// [`Mismatch`] if the metric can't hold `value`; the old reading stays.
    pub fn set(&self, metrics: &mut Metrics, value: Value<'_>) -> Result<(), Mismatch> {
        (self.set)(metrics, value)
    }

    /// Makes the reading absent.
    pub fn clear(&self, metrics: &mut Metrics) {
        (self.clear)(metrics);
    }

    /// The group's reading, if any of its threads has one.
    #[must_use]
    pub fn total(&self, totals: &Totals) -> Option<Cell> {
        (self.total)(totals)
    }

    /// How many threads of the group have a reading.
    #[must_use]
    pub fn covered(&self, totals: &Totals) -> u64 {
        (self.covered)(totals)
    }

    /// What decides whether the kernel keeps it; `None` for what is not from taskstats.
    #[must_use]
    pub fn taskstats_family(&self) -> Option<TaskstatsFamily> {
        match self.source {
            Source::Taskstats { .. } if self.gates.contains(&"TASK_XACCT") => Some(TaskstatsFamily::Watermark),
            Source::Taskstats { .. } if self.name.starts_with("cpu_") => Some(TaskstatsFamily::Cpu),
            Source::Taskstats { .. } => Some(TaskstatsFamily::Delay),
            _ => None,
        }
    }

    /// Whether `covered` of a group's `threads` leave some out that should have a reading. What
    /// belongs to a process stands on its leader only.
    #[must_use]
    pub fn is_partial(&self, covered: u64, threads: u64) -> bool {
        covered > 0 && covered < threads && !matches!(self.source, Source::StatusOfLeader(_))
    }

    /// TEMPORARY
    pub fn is_momentary(&self) -> bool {
        self.name == "state"
    }

    /// The tags of a listing: kernel options, then the scheduling class.
    pub fn tags(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.gates.iter().copied().chain(self.class.map(Class::tag))
    }
}

/// What the threads of a group come to in one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Total<T: Reading> {
    reduced: Option<T::Reduced>,
    covered: u64,
}

impl<T: Reading> Default for Total<T> {
    fn default() -> Self {
        Self { reduced: None, covered: 0 }
    }
}

impl<T: Reading> Total<T> {
    /// Takes in one thread's reading, or its lack of one.
    pub fn add(&mut self, reading: Option<&T>) {
        let Some(reading) = reading else { return };
        self.covered += 1;
        match &mut self.reduced {
            Some(reduced) => reduced.add(reading),
            None => self.reduced = Some(T::Reduced::of(reading)),
        }
    }

    /// Takes in the threads of another total.
    pub fn merge(&mut self, other: Self) {
        self.covered += other.covered;
        match (&mut self.reduced, other.reduced) {
            (Some(reduced), Some(other)) => reduced.merge(other),
            (none @ None, other) => *none = other,
            (Some(_), None) => {}
        }
    }

    /// The reduction of all readings; `None` where no thread had one.
    pub fn reduced(&self) -> Option<&T::Reduced> {
        self.reduced.as_ref()
    }

    /// How many threads had a reading.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    pub(super) fn cell(&self) -> Option<Cell> {
        self.reduced.as_ref().map(Reduce::cell)
    }
}

impl<T: Summable + Reading<Reduced = Sum<T>>> Total<T> {
    /// The sum, as a number.
    pub fn sum(&self) -> Option<u64> {
        self.reduced.map(|sum| sum.0.into())
    }
}

/// Turns blocks of rows, each under the section and the gates it shares, into [`Metrics`],
/// [`Totals`] and [`METRICS`](super::METRICS).
macro_rules! metrics {
    ($($section:ident $gates:tt {
        $(#[doc = $doc:literal] $name:ident: $type:ty = $source:expr $(, $class:ident)?;)+
    })+) => {
        /// One thread's readings. What the kernel did not give is `None`, never 0.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Metrics { $($(#[doc = $doc] pub $name: Option<$type>,)+)+ }

        /// A group's totals, each by the reduction that its type allows.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Totals { $($(#[doc = $doc] pub $name: Total<$type>,)+)+ }

        impl Totals {
            /// Takes in one thread.
            pub fn add(&mut self, metrics: &Metrics) {
                $($(self.$name.add(metrics.$name.as_ref());)+)+
            }

            /// Takes in another group.
            pub fn merge(&mut self, other: Totals) {
                $($(self.$name.merge(other.$name);)+)+
            }
        }

        /// Every per-thread metric, in the order of ties, of listings and of the JSON.
        pub static METRICS: &[Metric] = &[$($(Metric {
            name: stringify!($name),
            doc: $doc,
            type_name: <$type as Reading>::NAME,
            unit: <$type as Reading>::UNIT,
            reduction: <<$type as Reading>::Reduced as Reduce<$type>>::REDUCTION,
            shape: <$type as Reading>::SHAPE,
            source: $source,
            section: Section::$section,
            gates: &$gates,
            class: [$(Some(Class::$class),)? None][0],
            get: |m| m.$name.as_ref().map(Reading::value),
            set: |m, value| Reading::from_value(value).map(|reading| m.$name = reading),
            clear: |m| m.$name = None,
            total: |t| t.$name.cell(),
            covered: |t| t.$name.covered(),
        },)+)+];
    };
}

pub(super) use metrics;
