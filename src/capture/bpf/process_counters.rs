//! Counters of whole processes: those that the kernel keeps of exited threads and of children, and those of the
//! living threads.

use super::cpu_time::{CpuTime, Printed};
use super::layout::{Field, Record};
use super::value::{CpuTimeFields, NS_PER_TICK};
use crate::model::{Includes, MetricId, Metrics, PROCESS, ProcessState, Value};

/// Where records of first threads have the counters of their process.
#[derive(Debug)]
pub(super) struct ProcessFields {
    /// In the order of the table.
    pub(super) counters: Vec<Option<Field>>,
    pub(super) cpu_time: CpuTimeFields,
    pub(super) parent: Option<Field>,
    pub(super) parent_level: Option<Field>,
    /// The level of the PID namespace whose ids are wanted.
    pub(super) level: u32,
}

/// The counters of a process, until those of its living threads are added.
pub(super) struct ProcessCounters {
    counters: Vec<Option<u64>>,
    cpu_time: Option<(CpuTime, Printed)>,
    ppid: Option<u32>,
}

impl ProcessFields {
    pub(super) fn read(&self, record: Record<'_>) -> ProcessCounters {
        let is_visible = record.number(self.parent_level).is_some_and(|level| level >= u64::from(self.level));
        let parent = if is_visible { record.number(self.parent) } else { Some(0) };
        ProcessCounters {
            counters: self.counters.iter().map(|field| record.number(*field)).collect(),
            cpu_time: self.cpu_time.read(record),
            ppid: parent.and_then(|parent| u32::try_from(parent).ok()),
        }
    }
}

impl ProcessCounters {
    /// The counters with those of the living threads, as procfs adds them (`do_task_stat` of fs/proc/array.c,
    /// `do_io_accounting` of fs/proc/base.c).
    pub(super) fn with_threads(&self, threads: &[(&Metrics, Option<CpuTime>)]) -> ProcessState {
        let mut process = ProcessState { ppid: self.ppid, ..ProcessState::default() };
        let cpu_time = self.cpu_time.and_then(|(exited, printed)| {
            let living = threads.iter().try_fold(exited, |sum, (_, time)| Some(sum.plus((*time)?)))?;
            Some(living.adjusted(printed))
        });
        for (counter, &number) in PROCESS.iter().zip(&self.counters) {
            let metric = counter.source.metric;
            let of_threads = counter.source.includes != Includes::Children;
            let value = match metric {
                MetricId::utime_clock_ticks if of_threads => cpu_time.map(|(user, _)| user / NS_PER_TICK),
                MetricId::stime_clock_ticks if of_threads => cpu_time.map(|(_, system)| system / NS_PER_TICK),
                MetricId::utime_clock_ticks | MetricId::stime_clock_ticks => number.map(|ns| ns / NS_PER_TICK),
                _ if of_threads => threads
                    .iter()
                    .try_fold(number, |sum, (metrics, _)| {
                        let Some(Value::Unsigned(more)) = metric.metric().get(metrics) else { return None };
                        Some(sum.map(|sum| sum.wrapping_add(more)))
                    })
                    .flatten(),
                _ => number,
            };
            // A number that the counter cannot hold is absent.
            value.and_then(|value| counter.set(&mut process, Value::Unsigned(value)).ok());
        }
        process
    }
}
