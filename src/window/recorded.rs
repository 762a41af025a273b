//! Records of exited threads: what they did in a window, under which name, and in which counters of processes it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use super::boot::Clocks;
use super::earlier::PackedThread;
use super::join::Start;
use super::processes::{Processes, Unexplained};
use super::work::Work;
use crate::model::{ExitRecords, Includes, MetricId, Metrics, Name, ThreadId, ThreadSpan, ThreadState, Value};

/// The record of an exited thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExitedThread {
    /// Its ids, its name and its values since it started. With a start time in ticks, its values and times are exact,
    /// and a cgroup that it lacks is unknown. Without, names of process and cgroup are filled in.
    pub state: ThreadState,
    /// Process id of its parent; 0 if it is unknown.
    pub ppid: u32,
    /// `CLOCK_MONOTONIC` at its start, in nanoseconds, not earlier than it was.
    pub started_monotonic_ns: u64,
    /// How long it was alive, in nanoseconds.
    pub elapsed_ns: u64,
}

/// Calls its argument for each record, in the order of the exits.
pub type EachExit<'r> = &'r dyn Fn(&mut dyn FnMut(ExitedThread));

/// Records of exited threads.
#[derive(Default)]
pub struct Exits<'r> {
    /// Where they came from, and how many there are; `None` without records.
    pub summary: Option<ExitRecords>,
    /// The records.
    pub each: Option<EachExit<'r>>,
}

impl ExitedThread {
    /// A record.
    #[must_use]
    pub fn new(state: ThreadState, ppid: u32, started_monotonic_ns: u64, elapsed_ns: u64) -> Self {
        Self { state, ppid, started_monotonic_ns, elapsed_ns }
    }
}

/// Whether a record says exactly which thread it is of, and all that the thread did.
fn is_exact(exited: &ThreadState) -> bool {
    exited.start_time_clock_ticks.is_some()
}

impl Exits<'_> {
    /// Calls `found` for each record.
    pub(super) fn for_each(&self, mut found: impl FnMut(ExitedThread)) {
        if let Some(each) = self.each {
            each(&mut found);
        }
    }
}

/// Where records belong in a window.
pub(super) struct Records<'s> {
    start: &'s Start,
    clocks: Clocks,
    /// Parents of processes that exited.
    parent_of: BTreeMap<u32, u32>,
    /// Names of processes, from the records of their leaders.
    names: BTreeMap<u32, Name>,
    /// What processes did beyond their living threads and these records.
    pub(super) unexplained: Unexplained,
    /// Places of the earlier threads that have a record.
    pub(super) recorded: BTreeSet<usize>,
}

impl<'s> Records<'s> {
    /// Knows the parents and names of all records, but has placed none.
    pub(super) fn new(start: &'s Start, clocks: Clocks, processes: &Processes, exits: &Exits<'_>) -> Self {
        let leaders = || gone(start).filter(|thread| thread.id.tid == thread.id.tgid);
        let parent = |gone: &PackedThread| Some((gone.id.tgid, gone.process.as_ref()?.ppid?));
        let mut parent_of: BTreeMap<u32, u32> = leaders().filter_map(parent).collect();
        let mut names = BTreeMap::new();
        exits.for_each(|exited| {
            let ThreadState { tgid, tid, comm, .. } = exited.state;
            if processes.describe(tgid).is_none() {
                parent_of.insert(tgid, exited.ppid);
            }
            if tid == tgid {
                names.insert(tgid, comm);
            }
        });
        let mut unexplained = Unexplained::of(processes, &start.earlier, start.clocks.ns_per_tick);
        // What exited processes had done before the window is no work of their parents' children in it.
        for leader in leaders() {
            let Some((state, after)) = leader.process.as_deref().zip(leader.process_after()) else { continue };
            let Some(ppid) = after.ppid else { continue };
            let mut work = Work::of_process(state, Includes::Threads, start.clocks.ns_per_tick);
            work += Work::of_process(after, Includes::Children, start.clocks.ns_per_tick);
            unexplained.explain_process(ppid, work, &parent_of);
        }
        Self { start, clocks, parent_of, names, unexplained, recorded: BTreeSet::new() }
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
        let continues = |place: &usize| is_exact(&state) || has_grown(start, *place, &state.metrics);
        let known = self.earlier_place(&state).filter(continues);
        if known.is_none() && !self.clocks.may_have_started(started_monotonic_ns) {
            return None;
        }
        let alive_ns = self.clocks.alive_ns(started_monotonic_ns, elapsed_ns);
        let started = known.is_none();
        state.span = Some(ThreadSpan { alive_ns, started, exited: true, ..ThreadSpan::default() });
        if let Some(place) = known {
            self.recorded.insert(place);
            // Records round bytes down to KiB, so that a counter that stood still is smaller in them.
            start.earlier.subtract(place, &mut state.metrics, |_| {});
        }
        let work = self.explained(processes, ppid, &mut state);
        self.describe(processes, ppid, known, &mut state);
        Some((state, work))
    }

    /// The work of a record, which is taken out of that of its process or its parent.
    fn explained(&mut self, processes: &Processes, ppid: u32, state: &mut ThreadState) -> Work {
        let mut work = Work::of_thread(&state.metrics, self.start.clocks.ns_per_tick);
        if processes.describe(state.tgid).is_none() {
            self.unexplained.explain_record(ppid, work, &self.parent_of);
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
    fn describe(&self, processes: &Processes, ppid: u32, known: Option<usize>, state: &mut ThreadState) {
        let threads = self.start.earlier.threads();
        let tgid = state.tgid;
        let leader = || self.start.earlier.find(ThreadId { tgid, tid: tgid });
        let earlier = known.or_else(leader).map(|place| &threads[place]);
        let later = processes.describe(tgid);
        let name = later.map(|(name, ..)| name).or(self.names.get(&tgid)).or(earlier.map(|thread| &thread.pcomm));
        if state.pcomm.is_empty() {
            state.pcomm = Name::clone(name.unwrap_or(&state.comm));
        }
        let own = earlier.and_then(|thread| thread.cgroup.clone());
        let of_process = || later.and_then(|(_, cgroup, _)| cgroup.cloned());
        state.cgroup = match state.cgroup.take() {
            // A cgroup that neither capture had a thread in is not that of the process or of an ancestor.
            cgroup if is_exact(state) => cgroup.or(own.filter(|_| known.is_some())),
            _ => own.or_else(of_process).or_else(|| self.cgroup_of_ancestor(processes, ppid)),
        };
        state.party = later.and_then(|(.., party)| party).or(earlier.and_then(|thread| thread.party));
    }

    /// The cgroup of the nearest ancestor that a capture had.
    fn cgroup_of_ancestor(&self, processes: &Processes, ppid: u32) -> Option<Name> {
        let ancestors = std::iter::successors(Some(ppid), |process| self.parent_of.get(process).copied());
        let cgroup = |tgid: u32| {
            let later = processes.describe(tgid).and_then(|(_, cgroup, _)| cgroup.cloned());
            let earlier = || self.start.earlier.find(ThreadId { tgid, tid: tgid });
            later.or_else(|| self.start.earlier.threads()[earlier()?].cgroup.clone())
        };
        ancestors.take(MOST_ANCESTORS).find_map(cgroup)
    }
}

/// More generations of exited ancestors than this are not asked for a cgroup.
const MOST_ANCESTORS: usize = 8;

/// Whether a record continues the earlier thread at `place`.
fn has_grown(start: &Start, place: usize, metrics: &Metrics) -> bool {
    match (start.earlier.value(place, MetricId::run_time_ns), metrics.run_time_ns) {
        (Some(Value::Unsigned(earlier)), Some(later)) => earlier <= later.0,
        _ => true,
    }
}

/// The threads of the earlier capture that were not found again.
fn gone(start: &Start) -> impl Iterator<Item = &PackedThread> {
    let threads = start.earlier.threads().iter().zip(&start.found);
    threads.filter(|(_, found)| !found.load(Ordering::Relaxed)).map(|(thread, _)| thread)
}
