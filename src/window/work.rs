//! Amounts of work that the kernel counts for threads and for whole processes.

use std::ops::{AddAssign, Index, IndexMut};

use crate::model::{Includes, MetricId, Metrics, NS_PER_TICK, PROCESS, ProcessState, Value};

/// User and system time are rounded down to ticks, each.
pub(super) const PRECISION_NS: u64 = 2 * NS_PER_TICK;

/// The metrics that processes count, and the run time, which they count in ticks.
const METRICS: [MetricId; 12] = [
    MetricId::run_time_ns,
    MetricId::utime_clock_ticks,
    MetricId::stime_clock_ticks,
    MetricId::minflt,
    MetricId::majflt,
    MetricId::rchar,
    MetricId::wchar,
    MetricId::syscr,
    MetricId::syscw,
    MetricId::read_bytes,
    MetricId::write_bytes,
    MetricId::cancelled_write_bytes,
];

/// Amounts of the metrics that processes count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work([u64; METRICS.len()]);

fn place(metric: MetricId) -> usize {
    METRICS.iter().position(|counted| *counted == metric).expect("processes count this metric")
}

impl Index<MetricId> for Work {
    type Output = u64;

    fn index(&self, metric: MetricId) -> &u64 {
        &self.0[place(metric)]
    }
}

impl IndexMut<MetricId> for Work {
    fn index_mut(&mut self, metric: MetricId) -> &mut u64 {
        &mut self.0[place(metric)]
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(all, more)| *all = all.saturating_add(more));
    }
}

impl Work {
    /// Returns the work of a thread. Without scheduler statistics, its CPU time comes from its ticks.
    pub(super) fn of_thread(metrics: &Metrics) -> Self {
        let mut work = Self::default();
        for metric in METRICS {
            if let Some(Value::Unsigned(amount)) = metric.metric().get(metrics) {
                work[metric] = amount;
            }
        }
        if metrics.run_time_ns.is_none() {
            work.set_run_time_from_ticks();
        }
        work
    }

    /// The work that a process counts for its threads with its I/O, or for its children without.
    pub(super) fn of_process(process: &ProcessState, part: Includes) -> Self {
        let mut work = Self::default();
        let with_io = part == Includes::Threads;
        for field in PROCESS {
            let counts = field.source.includes == part || (with_io && field.source.is_io());
            if let (true, Some(Value::Unsigned(amount))) = (counts, field.get(process)) {
                work[field.source.metric] = amount;
            }
        }
        work.set_run_time_from_ticks();
        work
    }

    /// Sets the run time to the time of the ticks.
    fn set_run_time_from_ticks(&mut self) {
        let ticks = self[MetricId::utime_clock_ticks].saturating_add(self[MetricId::stime_clock_ticks]);
        self[MetricId::run_time_ns] = ticks.saturating_mul(NS_PER_TICK);
    }

    /// Returns the saturating difference to `other`.
    pub(super) fn less(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(all, less)| *all = all.saturating_sub(less));
        self
    }

    /// Takes as much of `wanted` as there is, and returns the rest of it.
    pub(super) fn take_up_to(&mut self, wanted: Self) -> Self {
        let rest = wanted.less(*self);
        *self = self.less(wanted);
        rest
    }

    /// Removes amounts that the time between two readings of busy threads explains: below a hundredth of what
    /// the threads did, and CPU time below `least_ns`.
    pub(super) fn without_noise(mut self, threads: Self, least_ns: u64) -> Self {
        let tiny = |amount: u64, whole: u64| amount < whole / 100;
        self.0.iter_mut().zip(threads.0).for_each(|(amount, whole)| {
            if tiny(*amount, whole) {
                *amount = 0;
            }
        });
        if self[MetricId::run_time_ns] < least_ns {
            self[MetricId::run_time_ns] = 0;
        }
        self
    }

    /// Limits the ticks to the run time. Ticks beyond it are the sum of what was rounded for each thread.
    pub(super) fn with_ticks_of_run_time(mut self) -> Self {
        let mut ticks = self[MetricId::run_time_ns] / NS_PER_TICK;
        for metric in [MetricId::utime_clock_ticks, MetricId::stime_clock_ticks] {
            self[metric] = self[metric].min(ticks);
            ticks -= self[metric];
        }
        self
    }

    /// The I/O, which is removed.
    pub(super) fn take_io(&mut self) -> Self {
        let mut io = Self::default();
        for field in PROCESS.iter().filter(|field| field.source.is_io()) {
            io[field.source.metric] = std::mem::take(&mut self[field.source.metric]);
        }
        io
    }

    pub(super) fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// The amounts as values of metrics, where `is_known` says that the process counts them.
    pub(super) fn metrics(&self, is_known: impl Fn(MetricId) -> bool) -> Box<Metrics> {
        let mut metrics = Box::<Metrics>::default();
        for metric in METRICS.into_iter().filter(|metric| is_known(*metric)) {
            metric.metric().set(&mut metrics, Value::Unsigned(self[metric])).expect("a counter holds an amount");
        }
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_processes_is_an_amount_of_work() {
        assert!(PROCESS.iter().all(|field| METRICS.contains(&field.source.metric)));
        let process = ProcessState {
            utime_clock_ticks: Some(3.into()),
            stime_clock_ticks: Some(2.into()),
            cutime_clock_ticks: Some(7.into()),
            write_bytes: Some(5.into()),
            ..ProcessState::default()
        };
        let threads = Work::of_process(&process, Includes::Threads);
        assert_eq!((threads[MetricId::run_time_ns], threads[MetricId::write_bytes]), (5 * NS_PER_TICK, 5));
        let children = Work::of_process(&process, Includes::Children);
        assert_eq!((children[MetricId::run_time_ns], children[MetricId::write_bytes]), (7 * NS_PER_TICK, 0));
    }

    #[test]
    fn differences_within_the_precision_of_ticks_are_no_work() {
        let (mut residue, mut threads) = (Work::default(), Work::default());
        residue[MetricId::run_time_ns] = 2 * NS_PER_TICK - 1;
        residue[MetricId::rchar] = 9;
        threads[MetricId::rchar] = 1000;
        assert!(residue.without_noise(threads, 2 * NS_PER_TICK).is_zero());
        residue[MetricId::rchar] = 10;
        assert_eq!(residue.without_noise(threads, 2 * NS_PER_TICK)[MetricId::rchar], 10);
    }

    #[test]
    fn ticks_are_not_more_than_the_run_time_has_and_first_those_in_user_mode() {
        let ticks = |run: u64, user: u64, system: u64| {
            let mut work = Work::default();
            work[MetricId::run_time_ns] = run;
            (work[MetricId::utime_clock_ticks], work[MetricId::stime_clock_ticks]) = (user, system);
            let work = work.with_ticks_of_run_time();
            (work[MetricId::utime_clock_ticks], work[MetricId::stime_clock_ticks])
        };
        assert_eq!(ticks(40 * NS_PER_TICK, 30, 30), (30, 10));
        assert_eq!(ticks(41 * NS_PER_TICK - 1, 50, 30), (40, 0));
        assert_eq!(ticks(100 * NS_PER_TICK, 30, 30), (30, 30));
    }

    #[test]
    fn what_is_taken_is_at_most_what_there_is() {
        let work = |run, faults| {
            let mut work = Work::default();
            (work[MetricId::run_time_ns], work[MetricId::minflt]) = (run, faults);
            work
        };
        let mut pool = work(10, 3);
        assert_eq!(pool.take_up_to(work(4, 5)), work(0, 2), "the rest of what was wanted");
        assert_eq!(pool, work(6, 0));
        let mut mixed = work(5, 1);
        mixed[MetricId::rchar] = 9;
        let io = mixed.take_io();
        assert_eq!((io[MetricId::rchar], io[MetricId::minflt], mixed), (9, 0, work(5, 1)));
    }
}
