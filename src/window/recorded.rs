//! Records of exited threads: what they did in a window, under which name, and in which counters of processes it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::boot::Clocks;
use super::exited::{ExitedThread, Exits};
use super::join::WindowStart;
use super::packed_threads::PackedThread;
use super::parents::{KnownProcess, Parents};
use super::processes::{Processes, Unexplained};
use super::work::Work;
use crate::model::{Includes, MetricId, Metrics, Name, ThreadId, ThreadSpan, ThreadState, Value};

/// Whether a record says exactly which thread it is of, and all that the thread did.
fn is_exact(exited: &ThreadState) -> bool {
    exited.start_time_clock_ticks.is_some()
}

/// Whose a record is.
struct Origin {
    ppid: u32,
    /// Time since boot at the start of the thread, in nanoseconds.
    start_ns: u64,
    /// Place of its process among the parents.
    process: Option<usize>,
}

/// Where records belong in a window.
pub(super) struct Records<'s> {
    start: &'s WindowStart,
    clocks: Clocks,
    parents: Arc<Parents>,
    /// Names of processes, from the records of their leaders, by their place among the parents. Exact records have them.
    names: BTreeMap<usize, Name>,
    /// What processes did beyond their living threads and these records.
    pub(super) unexplained: Unexplained,
    /// Places of the earlier threads that have a record.
    pub(super) recorded: BTreeSet<usize>,
    /// Number of records with delays that are longer than their thread had lived.
    pub(super) impossible_delays: u64,
}

impl<'s> Records<'s> {
    /// Knows the parents and names of all records, but has placed none.
    pub(super) fn new(
        start: &'s WindowStart,
        clocks: Clocks,
        processes: &Processes,
        exits: &Exits<'_>,
        parents: Arc<Parents>,
    ) -> Self {
        let mut names = BTreeMap::new();
        exits.for_each(|exited| {
            let is_needed = exited.state.is_leader() && exited.state.pcomm.is_empty();
            let start_ns = start.clocks.start_ns(exited.state.start_time_clock_ticks, exited.started_monotonic_ns);
            if let Some(process) = parents.find(exited.state.tgid, start_ns).filter(|_| is_needed) {
                names.insert(process, exited.state.comm);
            }
        });
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
        Self { start, clocks, parents, names, unexplained, recorded: BTreeSet::new(), impossible_delays: 0 }
    }

    /// The place of the earlier thread that a record continues. Of several threads with one id, the earlier capture had
    /// the first.
    pub(super) fn earlier_place(&self, exited: &ThreadState) -> Option<usize> {
        let place = self.start.earlier.find(exited.id()).filter(|place| !self.recorded.contains(place))?;
        let start_ticks = self.start.earlier.threads()[place].start_ticks;
        (!is_exact(exited) || exited.start_time_clock_ticks == start_ticks).then_some(place)
    }

    /// The thread of a record with its part of the window, and its work; `None` if it is of another time.
    pub(super) fn placed(&mut self, processes: &Processes, exited: ExitedThread) -> Option<(ThreadState, Work)> {
        let ExitedThread { mut state, ppid, started_monotonic_ns, elapsed_ns } = exited;
        let start = self.start;
        let start_ns = start.clocks.start_ns(state.start_time_clock_ticks, started_monotonic_ns);
        let origin = Origin { ppid, start_ns, process: self.parents.find(state.tgid, start_ns) };
        let continues = |place: &usize| is_exact(&state) || has_grown(start, *place, &state.metrics);
        let known = self.earlier_place(&state).filter(continues);
        if known.is_none() && !self.clocks.may_have_started(started_monotonic_ns) {
            return None;
        }
        self.impossible_delays += u64::from(state.metrics.remove_impossible_delays(elapsed_ns));
        let alive_ns = self.clocks.alive_ns(started_monotonic_ns, elapsed_ns);
        let started = known.is_none();
        state.span = Some(ThreadSpan { alive_ns, started, exited: true, ..ThreadSpan::default() });
        if let Some(place) = known {
            self.recorded.insert(place);
            // Records round bytes down to KiB, so that a counter that stood still is smaller in them.
            start.earlier.subtract(place, &mut state.metrics, |_| {});
        }
        let work = self.explained(&origin, &mut state);
        self.describe(processes, &origin, known, &mut state);
        Some((state, work))
    }

    /// The work of a record, which is taken out of that of its process or its parent.
    fn explained(&mut self, origin: &Origin, state: &mut ThreadState) -> Work {
        let mut work = Work::of_thread(&state.metrics, self.start.clocks.ns_per_tick);
        if !self.process(origin).is_some_and(|process| process.is_living) {
            self.unexplained.explain_record((origin.ppid, origin.start_ns), work, &self.parents);
            return work;
        }
        let excess = self.unexplained.explain_thread(state.tgid, work);
        if is_exact(state) {
            return work;
        }
        // taskstats lacks run time of short threads, which is estimated. What the process counts is exact.
        for metric in [MetricId::run_time_ns, MetricId::utime_clock_ticks, MetricId::stime_clock_ticks] {
            work[metric] = work[metric].saturating_sub(excess[metric]);
            if metric.metric().get(&state.metrics).is_some() {
                let set = metric.metric().set(&mut state.metrics, Value::Unsigned(work[metric]));
                set.expect("a counter holds less than it held");
            }
        }
        work
    }

    /// Names the process, the cgroup and the party of an exited thread: those of its record, else those that it had in
    /// a capture, else those of its process, else the cgroup of the nearest ancestor that is known.
    fn describe(&self, processes: &Processes, origin: &Origin, known: Option<usize>, state: &mut ThreadState) {
        let process = self.process(origin);
        let leader = || self.earlier_leader(process?);
        let earlier = known.map(|place| &self.start.earlier.threads()[place]).or_else(leader);
        let later = process.filter(|process| process.is_living).and_then(|process| processes.describe(process.tgid));
        let recorded = || self.names.get(&origin.process?);
        let name = later.map(|(name, ..)| name).or_else(recorded).or(earlier.map(|thread| &thread.pcomm));
        if state.pcomm.is_empty() {
            state.pcomm = Name::clone(name.unwrap_or(&state.comm));
        }
        let own = earlier.and_then(|thread| thread.cgroup.clone());
        let of_process = || later.and_then(|(_, cgroup, _)| cgroup.cloned());
        state.cgroup = match state.cgroup.take() {
            // A cgroup that neither capture had a thread in is not that of the process or of an ancestor.
            cgroup if is_exact(state) => cgroup.or(own.filter(|_| known.is_some())),
            _ => own.or_else(of_process).or_else(|| self.cgroup_of_ancestor(processes, origin)),
        };
        state.party = later.and_then(|(.., party)| party).or(earlier.and_then(|thread| thread.party));
    }

    /// The process of a record.
    fn process(&self, origin: &Origin) -> Option<&KnownProcess> {
        origin.process.map(|place| &self.parents.all()[place])
    }

    /// The leader of a process in the earlier capture.
    fn earlier_leader(&self, process: &KnownProcess) -> Option<&PackedThread> {
        let KnownProcess { tgid, is_in_earlier: true, .. } = *process else { return None };
        self.start.earlier.find(ThreadId { tgid, tid: tgid }).map(|place| &self.start.earlier.threads()[place])
    }

    /// The cgroup of the nearest ancestor that a capture had.
    fn cgroup_of_ancestor(&self, processes: &Processes, origin: &Origin) -> Option<Name> {
        let cgroup = |process: &KnownProcess| {
            let later = || processes.describe(process.tgid).and_then(|(_, cgroup, _)| cgroup.cloned());
            let later = process.is_living.then(later).flatten();
            later.or_else(|| self.earlier_leader(process)?.cgroup.clone())
        };
        self.parents.ancestors(origin.ppid, origin.start_ns).take(MOST_ANCESTORS).find_map(cgroup)
    }
}

/// More generations of exited ancestors than this are not asked for a cgroup.
const MOST_ANCESTORS: usize = 8;

/// Whether a record continues the earlier thread at `place`.
fn has_grown(start: &WindowStart, place: usize, metrics: &Metrics) -> bool {
    match (start.earlier.value(place, MetricId::run_time_ns), metrics.run_time_ns) {
        (Some(Value::Unsigned(earlier)), Some(later)) => earlier <= later.0,
        _ => true,
    }
}

/// The threads of the earlier capture that were not found again.
fn gone(start: &WindowStart) -> impl Iterator<Item = &PackedThread> {
    let threads = start.earlier.threads().iter().zip(&start.found);
    threads.filter(|(_, found)| !found.load(Ordering::Relaxed)).map(|(thread, _)| thread)
}
