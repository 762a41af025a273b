//! Records of exited threads: what they did in a window, for whom, and in which counters of processes it is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::boot::Clocks;
use super::join::WindowStart;
use super::packed_threads::PackedThread;
use super::parents::{KnownProcess, Parents};
use super::processes::{Processes, Unexplained};
use super::work::Work;
use crate::model::{ExitedThread, Includes, Owner, ThreadId, ThreadSpan, ThreadState};

/// Where records belong in a window.
pub(super) struct PlacedRecords<'s> {
    start: &'s WindowStart,
    clocks: Clocks,
    parents: Arc<Parents>,
    /// What processes did beyond their living threads and these records.
    pub(super) unexplained: Unexplained,
    /// Places of the earlier threads that have a record.
    pub(super) recorded: BTreeSet<usize>,
    /// Number of records with delays that are longer than their thread had lived.
    pub(super) impossible_delays: u64,
}

impl<'s> PlacedRecords<'s> {
    /// Has placed no record yet.
    pub(super) fn new(start: &'s WindowStart, clocks: Clocks, processes: &Processes, parents: Arc<Parents>) -> Self {
        let mut unexplained = Unexplained::of(processes, &start.earlier, start.clocks.ns_per_tick);
        // What exited processes had done before the window is no work of their parents' children in it.
        for leader in gone(start).filter(|thread| thread.id.tid == thread.id.tgid) {
            let Some((state, after)) = leader.process.as_deref().zip(leader.process_after()) else { continue };
            let Some(ppid) = after.ppid else { continue };
            let mut work = Work::of_process(state, Includes::Threads, start.clocks.ns_per_tick);
            work += Work::of_process(after, Includes::Children, start.clocks.ns_per_tick);
            let start_ns = start.clocks.boot_ns(leader.start_ticks);
            unexplained.explain_process((ppid, start_ns), work, &parents);
        }
        Self { start, clocks, parents, unexplained, recorded: BTreeSet::new(), impossible_delays: 0 }
    }

    /// The place of the earlier thread that a record continues.
    pub(super) fn earlier_place(&self, exited: &ThreadState) -> Option<usize> {
        let place = self.start.earlier.find(exited.id()).filter(|place| !self.recorded.contains(place))?;
        (exited.start_time_clock_ticks == self.start.earlier.threads[place].start_ticks).then_some(place)
    }

    /// The thread of a record with its part of the window, and its work; `None` if it is of another time.
    pub(super) fn placed(&mut self, processes: &Processes, exited: ExitedThread) -> Option<(ThreadState, Work)> {
        let ExitedThread { mut state, ppid, started_monotonic_ns, elapsed_ns } = exited;
        let known = self.earlier_place(&state);
        if known.is_none() && !self.clocks.may_have_started(started_monotonic_ns) {
            return None;
        }
        self.impossible_delays += u64::from(state.metrics.remove_impossible_delays(elapsed_ns));
        let alive_ns = self.clocks.alive_ns(started_monotonic_ns, elapsed_ns);
        state.span = Some(ThreadSpan { alive_ns, started: known.is_none(), exited: true, ..ThreadSpan::default() });
        if let Some(place) = known {
            self.recorded.insert(place);
            // Counters that went backwards are those of listed threads.
            self.start.earlier.subtract(place, &mut state.metrics, |_| {});
            state.cgroup = state.cgroup.or_else(|| self.start.earlier.threads[place].cgroup.clone());
        }
        let work = Work::of_thread(&state.metrics, self.start.clocks.ns_per_tick);
        let start_ns = self.start.clocks.boot_ns(state.start_time_clock_ticks);
        let process = self.parents.get(state.tgid, start_ns).copied();
        match process.filter(|process| process.is_living) {
            Some(process) => self.unexplained.explain_thread(process.tgid, work),
            None => self.unexplained.explain_record((ppid, start_ns), work, &self.parents),
        }
        state.owner = self.owner(processes, process, known);
        Some((state, work))
    }

    /// The owner of an exited thread: that of its process in the later capture, else in the earlier one.
    fn owner(&self, processes: &Processes, process: Option<KnownProcess>, known: Option<usize>) -> Option<Owner> {
        let later = process.filter(|process| process.is_living).and_then(|process| processes.owner(process.tgid));
        let earlier =
            || known.map(|place| &self.start.earlier.threads[place]).or_else(|| self.earlier_leader(process?));
        later.or_else(|| earlier()?.owner)
    }

    /// The leader of a process in the earlier capture.
    fn earlier_leader(&self, process: KnownProcess) -> Option<&'s PackedThread> {
        let KnownProcess { tgid, is_in_earlier: true, .. } = process else { return None };
        self.start.earlier.find(ThreadId { tgid, tid: tgid }).map(|place| &self.start.earlier.threads[place])
    }
}

/// The threads of the earlier capture that were not found again.
fn gone(start: &WindowStart) -> impl Iterator<Item = &PackedThread> {
    let threads = start.earlier.threads.iter().zip(&start.found);
    threads.filter(|(_, found)| !found.load(Ordering::Relaxed)).map(|(thread, _)| thread)
}
