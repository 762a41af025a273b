//! Counters of whole processes: counters that the kernel keeps of exited threads and of children, and counters of the living
//! threads.

use super::columns;
use super::cpu_time::{CpuTime, Printed};
use super::layout::{Field, ThreadRecord};
use super::value::{CpuTimeFields, cpu_time};
use crate::model::{Includes, MetricId, Metrics, NS_PER_TICK, PROCESS, ProcessState, Value};

/// Where records of first threads have the counters of their process.
#[derive(Debug)]
pub(super) struct ProcessFields {
    /// In the order of the table.
    counters: Vec<Option<Field>>,
    cpu_time: CpuTimeFields,
    parent: Option<Field>,
}

/// Counters of a process, before the counters of its living threads are added.
pub(super) struct ProcessCounters {
    counters: Vec<Option<u64>>,
    cpu_time: Option<(CpuTime, Printed)>,
    ppid: Option<u32>,
}

impl ProcessFields {
    pub(super) fn find(find: impl Fn(&str) -> Option<Field>) -> Self {
        Self {
            counters: PROCESS.iter().map(|counter| find(counter.source.field)).collect(),
            cpu_time: columns::PROCESS_CPU_TIME.map(&find),
            parent: find(columns::PARENT),
        }
    }

    pub(super) fn read(&self, record: ThreadRecord<'_>) -> ProcessCounters {
        ProcessCounters {
            counters: self.counters.iter().map(|field| record.number(*field)).collect(),
            cpu_time: cpu_time(record, self.cpu_time),
            ppid: record.number(self.parent).and_then(|parent| u32::try_from(parent).ok()),
        }
    }
}

/// Returns a counter of exited threads plus the counters of living threads; `None` if one has no value.
fn with_living(exited: u64, metric: MetricId, threads: &[(&Metrics, Option<CpuTime>)]) -> Option<u64> {
    threads.iter().try_fold(exited, |sum, (metrics, _)| match metric.metric().get(metrics) {
        Some(Value::Unsigned(more)) => Some(sum.wrapping_add(more)),
        _ => None,
    })
}

impl ProcessCounters {
    /// Adds the counters of the living threads, as procfs does (`do_task_stat` of fs/proc/array.c, `do_io_accounting` of
    /// fs/proc/base.c).
    pub(super) fn with_threads(&self, threads: &[(&Metrics, Option<CpuTime>)]) -> ProcessState {
        let cpu_time = self.cpu_time.and_then(|(exited, printed)| {
            let all = threads.iter().try_fold(exited, |sum, (_, time)| Some(sum.plus((*time)?)))?;
            Some(all.adjusted(printed))
        });
        let mut process = ProcessState { ppid: self.ppid, ..ProcessState::default() };
        for (counter, &number) in PROCESS.iter().zip(&self.counters) {
            let of_threads = counter.source.includes != Includes::Children;
            let value = match counter.source.metric {
                MetricId::utime_clock_ticks if of_threads => cpu_time.map(|(user, _)| user / NS_PER_TICK),
                MetricId::stime_clock_ticks if of_threads => cpu_time.map(|(_, system)| system / NS_PER_TICK),
                MetricId::utime_clock_ticks | MetricId::stime_clock_ticks => number.map(|ns| ns / NS_PER_TICK),
                metric if of_threads => number.and_then(|number| with_living(number, metric, threads)),
                _ => number,
            };
            // A number that the counter cannot hold is absent.
            value.and_then(|value| counter.set(&mut process, Value::Unsigned(value)).ok());
        }
        process
    }
}

#[cfg(test)]
mod tests {

    use super::super::columns;
    use super::super::host_parameters::HostParameters;
    use super::super::read::{BpfThread, RecordReader};
    use super::super::tests::record_builder::RecordBuilder;
    use super::*;

    const LEADER: [(&str, u64); 2] = [("pid", 700), ("tgid", 700)];

    fn read(record: &RecordBuilder) -> BpfThread {
        RecordReader::new(&record.layout, &HostParameters::default()).thread(record.record()).unwrap()
    }

    /// Returns the counters of a process with these threads, the leader first.
    fn counters(threads: &[RecordBuilder]) -> ProcessState {
        let mut threads: Vec<_> = threads.iter().map(read).collect();
        let process = threads[0].kernel.process.take().unwrap();
        let living: Vec<_> = threads.iter().map(|thread| (&*thread.state.metrics, thread.kernel.cpu_time)).collect();
        process.with_threads(&living)
    }

    fn leader() -> RecordBuilder {
        RecordBuilder::new().with(LEADER)
    }

    #[test]
    fn counters_of_exited_threads_children_and_living_threads_add_up() {
        let leader = leader().with([
            ("signal->min_flt", 1000),
            ("signal->cmin_flt", 7),
            ("signal->ioac.rchar", 50_000),
            ("min_flt", 100),
            ("ioac.rchar", 4),
        ]);
        let other = RecordBuilder::new().with([("pid", 701), ("tgid", 700), ("min_flt", 10), ("ioac.rchar", 2)]);
        let process = counters(&[leader, other]);
        assert_eq!((process.minflt, process.cminflt), (Some(1110.into()), Some(7.into())));
        assert_eq!((process.rchar, process.majflt), (Some(50_006.into()), Some(0.into())));
    }

    #[test]
    fn cpu_time_is_adjusted_for_the_process_as_a_whole() {
        let process_time = [
            ("signal->utime", 60_000_000),
            ("signal->stime", 20_000_000),
            ("signal->sum_sched_runtime", 100_000_000),
            ("signal->cutime", 39_999_999),
            ("signal->cstime", 40_000_000),
        ];
        let thread_time = [("utime", 0), ("stime", 20_000_000), ("se.sum_exec_runtime", 100_000_000)];
        let process = counters(&[leader().with(process_time).with(thread_time)]);
        // 60 of 100 ms of the samples are user time, and the threads ran for 200 ms.
        assert_eq!((process.utime_clock_ticks, process.stime_clock_ticks), (Some(12.into()), Some(8.into())));
        assert_eq!((process.cutime_clock_ticks, process.cstime_clock_ticks), (Some(3.into()), Some(4.into())));
        let printed = [("signal->prev_cputime.utime", 140_000_000), ("signal->prev_cputime.stime", 10_000_000)];
        let process = counters(&[leader().with(process_time).with(thread_time).with(printed)]);
        assert_eq!((process.utime_clock_ticks, process.stime_clock_ticks), (Some(14.into()), Some(6.into())));
    }

    #[test]
    fn a_counter_that_one_thread_lacks_is_absent() {
        let leader = leader().with([("signal->min_flt", 1), ("signal->cmin_flt", 2), ("signal->utime", 30_000_000)]);
        let mut read = read(&leader);
        let (process, state) = (read.kernel.process.take().unwrap(), &mut read.state);
        state.metrics.minflt = None;
        let process = process.with_threads(&[(&state.metrics, None)]);
        assert_eq!((process.minflt, process.utime_clock_ticks), (None, None));
        assert_eq!((process.cminflt, process.majflt), (Some(2.into()), Some(0.into())));
    }

    #[test]
    fn a_process_without_counters_of_its_own_has_no_values() {
        let process = counters(&[leader().null("signal")]);
        assert!(PROCESS.iter().all(|counter| counter.get(&process).is_none()));
    }

    #[test]
    fn counters_wrap_around_like_those_of_the_kernel() {
        let process = counters(&[leader().with([("signal->min_flt", u64::MAX), ("min_flt", 3)])]);
        assert_eq!(process.minflt, Some(2.into()));
    }

    #[test]
    fn a_process_has_the_id_of_its_parent() {
        let ppid = |record: RecordBuilder| counters(&[record]).ppid;
        assert_eq!(ppid(leader().with([(columns::PARENT, 1)])), Some(1));
        assert_eq!(ppid(leader().with([(columns::PARENT, 0)])), Some(0), "of process 1");
        assert_eq!(ppid(leader().null("real_parent")), None);
    }
}
