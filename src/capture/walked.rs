//! The result of a walk over all threads, by any engine.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::enrich::{jemalloc, taskstats};
use super::tally::Tally;
use super::ticks::NS_PER_TICK;
use crate::model::{CtprofProbeSummary, Name, TaskstatsSummary, ThreadState};

/// Threads, and counts of failures, of one worker or of all.
#[derive(Default)]
pub(super) struct Walked {
    /// Sorted by process and thread id after [`in_order`](Self::in_order).
    pub(super) threads: Vec<ThreadState>,
    /// The cgroups of the threads, in all hierarchies with values.
    pub(super) cgroups: BTreeSet<Name>,
    /// Resident bytes of processes by id, where they are known.
    pub(super) resident_bytes: HashMap<u32, u64>,
    pub(super) tally: Tally,
    /// `None` if taskstats was disabled.
    pub(super) taskstats: Option<TaskstatsSummary>,
    /// `None` if the jemalloc probe was disabled.
    pub(super) probe: Option<CtprofProbeSummary>,
    /// Time spent on the probe, summed over workers.
    pub(super) probe_time: Duration,
}

impl Walked {
    /// Adds the result of another worker.
    pub(super) fn merge(&mut self, other: Self) {
        let Self { mut threads, mut cgroups, resident_bytes, tally, taskstats, probe, probe_time } = other;
        self.threads.append(&mut threads);
        self.cgroups.append(&mut cgroups);
        self.resident_bytes.extend(resident_bytes);
        self.tally.merge(tally);
        self.taskstats = either(self.taskstats.take(), taskstats, taskstats::merge);
        self.probe = either(self.probe.take(), probe, jemalloc::merge);
        self.probe_time += probe_time;
    }

    /// Removes delays that are longer than their thread has lived, where `boottime_ns` is after all threads were read.
    pub(super) fn remove_impossible_delays(&mut self, boottime_ns: u64) {
        for thread in &mut self.threads {
            let Some(start) = thread.start_time_clock_ticks else { continue };
            let life_ns = boottime_ns.saturating_sub(start.saturating_mul(NS_PER_TICK));
            self.tally.impossible_delays += u64::from(thread.metrics.remove_impossible_delays(life_ns));
        }
    }

    /// Sorts the threads and names their processes.
    pub(super) fn in_order(mut self) -> Self {
        self.threads.sort_unstable_by_key(ThreadState::id);
        name_processes(&mut self.threads);
        self
    }
}

fn either<T>(a: Option<T>, b: Option<T>, merge: fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(merge(a, b)),
        (a, b) => a.or(b),
    }
}

/// Gives all threads of a process the name of its leader, or of its first thread if the leader
/// could not be read.
fn name_processes(threads: &mut [ThreadState]) {
    for process in threads.chunk_by_mut(|a, b| a.tgid == b.tgid) {
        let leader = process.iter().find(|thread| thread.is_leader()).unwrap_or(&process[0]);
        let (name, complete) = (Name::clone(&leader.comm), leader.name_complete);
        for thread in process {
            // A new thread inherits the name of the thread that creates it.
            thread.name_complete |= complete && thread.comm == name;
            thread.pcomm = Name::clone(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_longer_than_a_thread_has_lived_are_absent_and_counted() {
        let mut thread = ThreadState { start_time_clock_ticks: Some(100), ..ThreadState::default() };
        thread.metrics.blkio_delay_total_ns = Some(2_000_000_000.into());
        let mut walked = Walked { threads: vec![thread], ..Walked::default() };
        walked.remove_impossible_delays(3_000_000_000);
        assert!(walked.threads[0].metrics.blkio_delay_total_ns.is_some() && walked.tally.impossible_delays == 0);
        walked.remove_impossible_delays(2_500_000_000);
        assert_eq!((walked.threads[0].metrics.blkio_delay_total_ns, walked.tally.impossible_delays), (None, 1));
    }

    #[test]
    fn a_thread_that_kept_its_leaders_whole_name_has_a_whole_name() {
        let thread = |tid, comm: &str| ThreadState { tgid: 7, tid, comm: comm.into(), ..ThreadState::default() };
        let leader = ThreadState { name_complete: true, ..thread(7, "fifteen-bytes-x") };
        let threads = vec![thread(9, "fifteen-bytes-y"), thread(8, "fifteen-bytes-x"), leader];
        let walked = Walked { threads, ..Walked::default() }.in_order();
        let names: Vec<_> = walked.threads.iter().map(|thread| (thread.tid, thread.name_complete)).collect();
        assert_eq!(names, [(7, true), (8, true), (9, false)]);
        assert!(walked.threads.iter().all(|thread| &*thread.pcomm == "fifteen-bytes-x"));
    }
}
