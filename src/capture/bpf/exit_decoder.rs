//! Exit records as threads.

use super::columns;
use super::host_parameters::HostParameters;
use super::layout::{Field, Layout, ThreadRecord};
use super::read::RecordReader;
use super::value::{CpuTimeFields, cpu_time};
use crate::model::{ClockTicks, ExitedThread, Metrics, NS_PER_TICK, ThreadState};

/// Turns records into threads.
pub(super) struct Decoder {
    reader: RecordReader,
    started: Option<Field>,
    parent: Option<Field>,
    process_name: Option<Field>,
    cpu_time: CpuTimeFields,
    user: Ticks,
    system: Ticks,
}

impl Decoder {
    pub(super) fn new(layout: &Layout, facts: &HostParameters) -> Self {
        let find = |path: &str| layout.find(path);
        Self {
            reader: RecordReader::new(layout, facts),
            started: find(columns::START_MONOTONIC),
            parent: find(columns::PARENT),
            process_name: find(columns::PROCESS_NAME),
            cpu_time: columns::CPU_TIME.map(find),
            user: Ticks::default(),
            system: Ticks::default(),
        }
    }

    /// The thread of a record, and the address of its `struct css_set`.
    pub(super) fn exit(&mut self, record: ThreadRecord<'_>) -> Option<(ExitedThread, Option<u64>)> {
        let thread = self.reader.thread(record)?;
        let mut state = ThreadState { read_at_ns: None, ..thread.state };
        self.split_cpu_time(record, &mut state.metrics);
        state.pcomm = self.reader.name(record, self.process_name);
        let ppid = record.number(self.parent).and_then(|parent| u32::try_from(parent).ok()).unwrap_or(0);
        let started_monotonic_ns = record.number(self.started)?;
        let elapsed_ns = record.time().saturating_sub(started_monotonic_ns);
        Some((ExitedThread { state, ppid, started_monotonic_ns, elapsed_ns }, thread.facts.cgroups))
    }

    /// User and system time of threads that are shorter than a tick are not lost.
    fn split_cpu_time(&mut self, record: ThreadRecord<'_>, metrics: &mut Metrics) {
        let Some((time, printed)) = cpu_time(record, self.cpu_time) else { return };
        let (user, system) = time.adjusted(printed);
        metrics.utime_clock_ticks = Some(self.user.add(user));
        metrics.stime_clock_ticks = Some(self.system.add(system));
    }
}

/// Converts times of many threads to ticks. Most threads run for less than a tick, so that rounding each time would lose
/// it: the remainder is carried to the next thread.
#[derive(Default)]
struct Ticks {
    carry_ns: u64,
}

impl Ticks {
    fn add(&mut self, ns: u64) -> ClockTicks {
        let ns = self.carry_ns.saturating_add(ns);
        self.carry_ns = ns % NS_PER_TICK;
        ClockTicks(ns / NS_PER_TICK)
    }
}
