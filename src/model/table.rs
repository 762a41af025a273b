//! The table of metrics: its rows, and the macro that generates code from the rows of `metrics.rs`.
//!
//! The macro generates no logic, only the struct of a thread's values, the struct of a group's totals,
//! the enum of names and the static table. All logic about metrics is a loop over that table.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use super::cpus::CpuSet;
use super::direction::Direction;
use super::kernel_field::FieldForm::{
    Cpus, Less, LessField, PageCounter, Pages, Policy, Representative, State, SystemTime, UserTime,
};
use super::kernel_field::{RESIDENT, field};
use super::metrics;
use super::reduce::{Cell, Reduce, Reduction};
use super::section::Section;
use super::source::Class::{CfsOnly, FairPolicy, NonExt};
use super::source::Source::{
    Affinity, Io, Sched, SchedDifference, Schedstat, Stat, StatPolicy, Status, StatusOfLeader, Tsd,
};
use super::source::{Class, Source, Sources, TaskstatsFamily, TaskstatsField, cpu_delay, delay, irq_delay, watermark};
use super::total::Total;
use super::unit::{
    Bytes, CategoricalString, ClockTicks, FloorNs, GaugeBytes, GaugeCount, GaugeNs, MonotonicCount, MonotonicNs,
    OrdinalI32, OrdinalU32, PeakBytes, PeakNs, Reading, Shape, Unit,
};
use super::value::{Mismatch, Value};
use super::window_rule::{InWindow, WindowRule};

/// The declaration of a metric.
pub struct Metric {
    /// Id of the metric.
    pub id: MetricId,
    /// Public name: JSON key, `--metrics`, `--sort-by`.
    pub name: &'static str,
    /// The meaning, in a sentence.
    pub doc: &'static str,
    /// The type of a value.
    pub type_name: &'static str,
    /// Unit of the metric.
    pub unit: Unit,
    /// How the values of a group are combined.
    pub reduction: Reduction,
    /// The form of a value.
    pub shape: Shape,
    /// Rule for the value in a window, from the values in its two captures.
    pub window: WindowRule,
    /// Whether a larger value is worse.
    pub direction: Direction,
    /// The sources per engine.
    pub sources: Sources,
    /// The section that reports it.
    pub section: Section,
    /// Required kernel options, without `CONFIG_`.
    pub gates: &'static [&'static str],
    /// The scheduling classes that count it, if not all do.
    pub class: Option<Class>,
    get: fn(&Metrics) -> Option<Value<'_>>,
    set: fn(&mut Metrics, Value<'_>) -> Result<(), Mismatch>,
    clear: fn(&mut Metrics),
    total: fn(&Totals) -> Option<Cell>,
    covered: fn(&Totals) -> u64,
    #[cfg(feature = "parquet")]
    numbers: fn(&[&Metrics], &mut Numbers),
}

/// The values of a metric of some threads, if they are numbers.
#[cfg(feature = "parquet")]
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The values of the threads that have one.
    pub(crate) values: Vec<i64>,
    /// Per thread, 1 if it has a value, else 0.
    pub(crate) present: Vec<i16>,
    /// The first value that is too large for `values`, with the place of its thread.
    pub(crate) too_large: Option<(usize, u64)>,
}

#[cfg(feature = "parquet")]
impl Numbers {
    #[inline]
    fn push(&mut self, value: Option<Value<'_>>) {
        let number = value.and_then(|value| match value {
            Value::Signed(number) => Some(number),
            Value::Unsigned(number) => Some(i64::try_from(number).unwrap_or_else(|_| {
                self.too_large.get_or_insert((self.present.len(), number));
                i64::MAX
            })),
            _ => None,
        });
        self.present.push(number.is_some().into());
        self.values.extend(number);
    }
}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl MetricId {
    /// Returns the metric's row of the table.
    pub fn metric(self) -> &'static Metric {
        &METRICS[self as usize]
    }
}

impl Metric {
    /// The thread's value, if it has one.
    pub fn get<'a>(&self, metrics: &'a Metrics) -> Option<Value<'a>> {
        (self.get)(metrics)
    }

    /// Stores a value in the record of a thread.
    ///
    /// # Errors
    /// [`Mismatch`] if the metric cannot hold `value`; the old value stays.
    pub fn set(&self, metrics: &mut Metrics, value: Value<'_>) -> Result<(), Mismatch> {
        (self.set)(metrics, value)
    }

    /// Makes the value absent.
    pub fn clear(&self, metrics: &mut Metrics) {
        (self.clear)(metrics);
    }

    /// Replaces the value in `later` by the value in a window that started with `earlier`.
    pub fn subtract(&self, earlier: Option<&Value<'_>>, later: &mut Metrics) -> InWindow {
        self.window.apply(earlier, self.get(later).as_ref()).stored(later, self.set, self.clear)
    }

    /// The values of some threads, which are numbers.
    #[cfg(feature = "parquet")]
    pub(crate) fn numbers<'a>(&self, threads: impl Iterator<Item = &'a Metrics>) -> Numbers {
        let mut numbers = Numbers::default();
        (self.numbers)(&threads.collect::<Vec<_>>(), &mut numbers);
        numbers
    }

    /// The value of a group, if any of its threads has one.
    pub fn total(&self, totals: &Totals) -> Option<Cell> {
        (self.total)(totals)
    }

    /// The value of a group, if it is a number.
    pub(crate) fn sum(&self, totals: &Totals) -> Option<u64> {
        match self.total(totals)? {
            Cell::Number(sum) => Some(sum),
            _ => None,
        }
    }

    /// Number of threads of the group with a value.
    pub fn covered(&self, totals: &Totals) -> u64 {
        (self.covered)(totals)
    }

    /// The first source of the procfs engine.
    pub fn file(&self) -> &'static str {
        self.sources.procfs[0].file()
    }

    /// The field of taskstats that a capture reads; `None` if it reads another source.
    pub fn taskstats(&self) -> Option<TaskstatsField> {
        self.sources.procfs.iter().find_map(|source| match source {
            Source::Taskstats(field) => Some(*field),
            _ => None,
        })
    }

    /// The condition under which the kernel counts it; `None` if it is not from taskstats.
    pub fn taskstats_family(&self) -> Option<TaskstatsFamily> {
        self.taskstats().map(|field| field.family)
    }

    /// The version of `struct taskstats` that added it; `None` if it is not from taskstats.
    pub fn taskstats_since(&self) -> Option<u16> {
        self.taskstats().map(|field| field.since)
    }

    /// Whether it describes a process, and only the process's leader has a value.
    pub fn is_leader_only(&self) -> bool {
        matches!(self.sources.procfs, [Source::StatusOfLeader(_)])
    }

    /// Whether it describes the instant of the capture, so that two captures always differ.
    pub fn is_instant(&self) -> bool {
        matches!(self.id, MetricId::state | MetricId::processor)
    }

    /// Whether some of a group's `threads` lack a value that they should have, if `covered` have one.
    pub fn is_partial(&self, covered: u64, threads: u64) -> bool {
        covered > 0 && covered < threads && !self.is_leader_only()
    }

    /// The tags of a listing: kernel options, then the scheduling class.
    pub fn tags(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.gates.iter().copied().chain(self.class.map(Class::name))
    }
}

/// Every source of the procfs engine with its metric, in the order of the table.
pub fn procfs_sources() -> impl Iterator<Item = (Source, &'static Metric)> {
    METRICS.iter().flat_map(|metric| metric.sources.procfs.iter().map(move |source| (*source, metric)))
}

/// The class of a block of rows, if it has one.
const fn only<T: Copy>(items: &[T]) -> Option<T> {
    match items {
        [] => None,
        [item, ..] => Some(*item),
    }
}

/// Values in which most threads are alike: equal ones are in memory once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedMetrics(Arc<RareMetrics>);

impl Default for SharedMetrics {
    fn default() -> Self {
        static NONE: LazyLock<SharedMetrics> = LazyLock::new(|| SharedMetrics(Arc::default()));
        NONE.clone()
    }
}

/// Each thread has this in addition to what it shares. jemalloc has blocks of 224 bytes.
const _: () = assert!(size_of::<Metrics>() <= 224);

/// Interns rare values: a thread usually equals one of the last two distinct ones.
#[derive(Debug, Default)]
pub(crate) struct SharedMetricsCache([SharedMetrics; 2]);

impl SharedMetricsCache {
    /// Returns a guess of the next thread's values: a copy of the previous ones.
    pub(crate) fn next(&self) -> SharedMetrics {
        self.0[0].clone()
    }

    /// Replaces values by the shared copy of an earlier thread with equal values.
    pub(crate) fn share(&mut self, values: &mut SharedMetrics) {
        let [last, other] = &mut self.0;
        if values == last {
            values.clone_from(last);
        } else if values == other {
            values.clone_from(other);
            self.0.swap(0, 1);
        } else {
            other.clone_from(values);
        }
    }
}

impl Deref for Metrics {
    type Target = RareMetrics;

    fn deref(&self) -> &RareMetrics {
        &self.rare.0
    }
}

impl DerefMut for Metrics {
    /// Gives the thread a copy of the rare values of its own, to be changed.
    fn deref_mut(&mut self) -> &mut RareMetrics {
        Arc::make_mut(&mut self.rare.0)
    }
}

/// Collects the fields of [`Metrics`] and of [`RareMetrics`], block by block.
macro_rules! structs {
    ({ $($own:tt)* } { $($rare:tt)* }) => {
        /// The values of a thread. A value that the kernel does not provide is `None`, never 0.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Metrics {
            $($own)*
            /// The other values, which are read and set like those above.
            pub rare: SharedMetrics,
        }

        /// The values of a thread that most threads have alike.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct RareMetrics { $($rare)* }
    };
    ({ $($own:tt)* } $rare:tt () { $($fields:tt)* } $($others:tt)*) => {
        structs! { { $($own)* $($fields)* } $rare $($others)* }
    };
    ($own:tt { $($rare:tt)* } (rare) { $($fields:tt)* } $($others:tt)*) => {
        structs! { $own { $($rare)* $($fields)* } $($others)* }
    };
}

/// Turns blocks of rows, each under the section, the kernel options and the scheduling class that its
/// rows share, into [`Metrics`], [`Totals`], [`MetricId`] and [`METRICS`].
macro_rules! define {
    ($($section:ident $gates:tt $classes:tt $($rare:ident)? {
        $(#[doc = $doc:literal] $name:ident: $type:ty $(, $direction:ident)? = $($procfs:expr),+;
        $(at $path:literal $(as $form:expr)?;)? $(stats $stat:literal;)?)+
    })+) => {
        structs! { {} {} $(($($rare)?) { $(#[doc = $doc] pub $name: Option<$type>,)+ })+ }

        impl Metrics {
            /// The metrics that have a value, a bit for each.
            pub(crate) fn present(&self) -> u128 {
                $($(u128::from(self.$name.is_some()) << MetricId::$name as u32 |)+)+ 0
            }

            /// Whether each metric, in the order of the table, has another value than in `other`.
            pub(crate) fn differences(&self, other: &Self) -> [bool; METRIC_COUNT] {
                [$($(self.$name != other.$name,)+)+]
            }
        }

        pub(crate) const METRIC_COUNT: usize = [$($(stringify!($name),)+)+].len();

        /// The totals of a group, each with the reduction of its type.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Totals { $($(#[doc = $doc] pub $name: Total<$type>,)+)+ }

        impl Totals {
            /// Adds the values of one thread.
            pub fn add(&mut self, metrics: &Metrics) {
                $($(self.$name.add(metrics.$name.as_ref());)+)+
            }

            /// Adds work without a thread behind it, such as exited work: the number of threads does not change.
            pub fn add_work(&mut self, metrics: &Metrics) {
                $($(self.$name.add_work(metrics.$name.as_ref());)+)+
            }

            /// Adds the totals of another group.
            pub fn merge(&mut self, other: &Totals) {
                $($(self.$name.merge(&other.$name);)+)+
            }
        }

        /// The name of a metric, checked by the compiler.
        #[expect(non_camel_case_types, reason = "a metric has one spelling")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum MetricId { $($(#[doc = $doc] $name,)+)+ }

        /// All per-thread metrics, in the order of listings, of JSON, and of rows that rank equal.
        pub static METRICS: &[Metric] = &[$($(Metric {
            id: MetricId::$name, name: stringify!($name), doc: $doc.trim_ascii(),
            type_name: <$type as Reading>::NAME, unit: <$type as Reading>::UNIT, shape: <$type as Reading>::SHAPE, window: <$type as Reading>::WINDOW,
            reduction: <<$type as Reading>::Reduced as Reduce<$type>>::REDUCTION,
            direction: [$(Direction::$direction,)? Direction::Neither][0],
            sources: Sources { procfs: &[$($procfs),+], bpf: field(&[$($path)? $(concat!("stats.", $stat, " | se.statistics.", $stat))?], &[$($($form)?)?]) },
            section: Section::$section, gates: &$gates, class: only(&$classes),
            get: |m| m.$name.as_ref().map(Reading::value),
            set: |m, value| Reading::from_value(value).map(|reading| if m.$name != reading { m.$name = reading }),
            clear: |m| if m.$name.is_some() { m.$name = None },
            total: |t| t.$name.cell(),
            covered: |t| t.$name.covered(),
            #[cfg(feature = "parquet")]
            numbers: |threads, numbers| threads.iter().for_each(|m| numbers.push(m.$name.as_ref().map(Reading::value))),
        },)+)+];
    };
}

metrics::rows!(define);
