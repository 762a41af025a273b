//! Changes from one pass over the threads to the next.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::error::SeriesError;
use super::slept_on::{Sleepers, SleptOn};
use super::table::ThreadTable;
use crate::model::{ExitRecords, ExitedThread, Reasons, RecordedCommand, ThreadId, ThreadState};
use crate::window::FoldedPart;

/// Changes from one pass to the next, as files have them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// Changes in the head of the capture.
    pub(super) head: Option<Json>,
    pub(super) threads: ThreadTable,
    /// Process ids and thread ids of threads that are no longer listed.
    #[serde(rename = "gone", skip_serializing_if = "Vec::is_empty")]
    pub(super) gone_threads: Vec<(u32, u32)>,
    #[serde(skip_serializing_if = "ExitTable::is_empty")]
    pub(super) exits: ExitTable,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_records: Option<ExitRecords>,
    /// Why threads waited in the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Box<Reasons>>,
    /// Threads with the reason that they had in the step before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slept_on: Option<SleptOn>,
    /// Recorded command, in the last step, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<RecordedCommand>,
}

/// Threads that exited in a step.
#[derive(Debug, Default, Clone)]
pub struct StepExits {
    /// How many records there are; `None` if there are none of any thread.
    pub records: Option<ExitRecords>,
    /// Threads that started before the step, and what they were each time that they executed another program.
    pub each: Vec<ExitedThread>,
    /// Threads that started in the step and exited, keyed by the process whose counters include them. Threads with equal names
    /// are one.
    pub folded: Vec<(u32, FoldedPart, ExitedThread)>,
    /// Number of these threads whose delays are longer than their life.
    pub impossible_delays: u64,
}

impl StepExits {
    /// Threads that exited and started before the step.
    pub fn exited(&self) -> impl Iterator<Item = &ExitedThread> {
        self.each.iter().filter(|exit| !exit.executed)
    }

    /// All that exited, and then what others were that executed another program.
    pub fn states(&self) -> impl Iterator<Item = &ThreadState> {
        let executed = self.each.iter().filter(|exit| exit.executed);
        self.exited().chain(self.folded.iter().map(|(_, _, exit)| exit)).chain(executed).map(|exit| &exit.state)
    }
}

/// Exited threads as columns.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ExitTable {
    threads: ThreadTable,
    rows: Vec<ExitRow>,
    impossible_delays: u64,
}

/// Facts about an exited thread beyond its values.
#[derive(Debug, Serialize, Deserialize)]
struct ExitRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    folded: Option<(u32, FoldedPart)>,
    ppid: u32,
    started_monotonic_ns: u64,
    elapsed_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_time_ns: Option<[u64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_by: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    executed: bool,
}

impl ExitTable {
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn from_exits(exits: &StepExits) -> Self {
        let each = exits.each.iter().map(|exit| (None, exit));
        let folded = exits.folded.iter().map(|(tgid, part, exit)| (Some((*tgid, *part)), exit));
        let all: Vec<_> = each.chain(folded).collect();
        let row = |(folded, exit): &(Option<(u32, FoldedPart)>, &ExitedThread)| ExitRow {
            folded: *folded,
            ppid: exit.ppid,
            started_monotonic_ns: exit.started_monotonic_ns,
            elapsed_ns: exit.elapsed_ns,
            cpu_time_ns: exit.cpu_time_ns,
            replaced_by: exit.replaced_by,
            executed: exit.executed,
        };
        Self {
            threads: ThreadTable::from_changes(all.iter().map(|(_, exit)| (None, &exit.state))),
            rows: all.iter().map(row).collect(),
            impossible_delays: exits.impossible_delays,
        }
    }

    pub(super) fn exits(self, records: Option<ExitRecords>) -> Result<StepExits, SeriesError> {
        let mut exits = StepExits { records, impossible_delays: self.impossible_delays, ..StepExits::default() };
        let threads = self.threads.threads(|_| None)?;
        if threads.len() != self.rows.len() {
            return Err(SeriesError::Columns);
        }
        for (state, row) in threads.into_iter().zip(self.rows) {
            let ExitRow { folded, ppid, started_monotonic_ns, elapsed_ns, cpu_time_ns, replaced_by, executed } = row;
            let exit = ExitedThread {
                state,
                ppid,
                started_monotonic_ns,
                elapsed_ns,
                cpu_time_ns,
                replaced_by,
                executed,
                ..ExitedThread::default()
            };
            match folded {
                Some((tgid, part)) => exits.folded.push((tgid, part, exit)),
                None => exits.each.push(exit),
            }
        }
        Ok(exits)
    }
}

impl Step {
    pub(super) fn new(
        head: Option<Json>,
        threads: ThreadTable,
        gone_threads: Vec<ThreadId>,
        exits: &StepExits,
    ) -> Self {
        Self {
            head,
            threads,
            gone_threads: gone_threads.into_iter().map(|id| (id.tgid, id.tid)).collect(),
            exits: ExitTable::from_exits(exits),
            exit_records: exits.records.clone(),
            ..Self::default()
        }
    }

    /// Takes out the reasons that go on, to be written after the steps before.
    pub fn shorten(&mut self, sleepers: &mut Sleepers) {
        self.slept_on = self.reasons.as_deref_mut().and_then(|reasons| sleepers.shorten(reasons));
        if self.reasons.is_none() {
            sleepers.forget();
        }
    }

    /// Adds the reasons that go on, as they were read in the steps before. Returns how many rows that makes.
    pub fn restore_reasons(&mut self, sleepers: &mut Sleepers) -> usize {
        let slept = self.slept_on.take();
        let Some(reasons) = self.reasons.as_deref_mut() else {
            sleepers.forget();
            return 0;
        };
        let before = reasons.times.len();
        sleepers.restore(reasons, slept);
        reasons.times.len() - before
    }

    /// How much later the clock shows it is after the step, in nanoseconds.
    pub fn clock_ns(&self) -> Option<i64> {
        self.head.as_ref()?.get("captured_at_unix_ns")?.as_i64()
    }

    /// Time from the capture before to the one after, in nanoseconds.
    pub fn length_ns(&self) -> Option<u64> {
        self.head.as_ref()?.get("capture")?.get("boottime_ns")?.as_u64()
    }
}
