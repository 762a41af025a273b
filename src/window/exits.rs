//! Threads that exited in a window: from records, from what processes count, or known by their absence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use super::accounting::{Seen, account};
use super::boot::Clocks;
use super::cpu_time::{self, Readings};
use super::earlier::PackedThread;
use super::fold::Fold;
use super::join::{Ends, Join, Start};
use super::processes::{Processes, Unexplained};
use super::work::Work;
use crate::model::{
    CtprofSnapshot, ExitRecords, ExitedWork, HostCpuTime, Includes, MetricId, Metrics, MonotonicNs, Name, Party,
    ThreadId, ThreadSpan, ThreadState, Threads, Value, WindowInfo,
};

/// The record of an exited thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExitedThread {
    /// Its ids, its name and its values since it started. Names of process and cgroup are filled in.
    pub state: ThreadState,
    /// Process id of its parent.
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

/// What records say of exited processes, before their work is added.
#[derive(Default)]
struct Family {
    /// Parents of processes that exited.
    parent_of: BTreeMap<u32, u32>,
    /// Names of processes, from the records of their leaders.
    names: BTreeMap<u32, Name>,
}

impl<T: Threads> Join<T> {
    /// Adds what exited, and concludes the window that ends with the snapshot `later`.
    pub fn finish(mut self, later: &CtprofSnapshot, exits: &Exits<'_>) -> Ends<T> {
        let start = std::sync::Arc::clone(&self.start);
        let readings = Readings::of(later);
        let (clocks, cpu_time) = self.centred(&start, &readings);
        let family = self.family(&start, exits);
        let mut unexplained = Unexplained::of(&self.processes, &start.earlier, start.clocks.ns_per_tick);
        self.explain_gone(&start, &mut unexplained, &family);
        let (mut recorded, mut fold) = (BTreeSet::new(), Fold::default());
        if let Some(each) = exits.each {
            each(&mut |exited| {
                fold.extend(self.exited(&start, &clocks, exited, &family, &mut unexplained, &mut recorded));
            });
        }
        fold.into_threads().for_each(|thread| self.threads.add(thread));
        let cpus = cpu_time.as_ref().and_then(|time| time.cpus);
        let most_ns = cpus.map(|cpus| cpus.saturating_mul(clocks.duration_ns));
        for mut thread in unexplained.into_threads(&self.processes, most_ns) {
            // The children that a recorder waits for are orphans of the command.
            if self.lineage.is_some() && thread.party == Some(Party::Ctprof) && is_of_children(&thread) {
                thread.party = Some(Party::Command);
            }
            self.explain(Work::of_thread(&thread.metrics, start.clocks.ns_per_tick));
            self.threads.add(thread);
        }
        self.add_gone(&start, &recorded);
        let window = self.info(&start, &clocks, cpu_time.as_ref(), exits.summary.clone());
        Ends { before: self.before, threads: self.threads, window, cpu_time }
    }

    /// The window between the times at which busy threads were read on average, so that the host's CPU time
    /// and theirs are of the same time. A capture of a busy host takes long.
    fn centred(&self, start: &Start, later: &Readings) -> (Clocks, Option<HostCpuTime>) {
        let mut clocks = start.clocks;
        let (mut begin, mut end) = self.read.means();
        if !start.cpu_time.cover_the_walk() || !later.cover_the_walk() {
            (begin, end) = (0, 0);
        }
        clocks.move_ends(begin, end);
        (clocks, cpu_time::increase((&start.cpu_time, begin), (later, end)))
    }

    fn family(&self, start: &Start, exits: &Exits<'_>) -> Family {
        let mut family = Family::default();
        for gone in gone(start).filter(|thread| thread.id.tid == thread.id.tgid) {
            if let Some(ppid) = gone.process.as_ref().and_then(|state| state.ppid) {
                family.parent_of.insert(gone.id.tgid, ppid);
            }
        }
        if let Some(each) = exits.each {
            each(&mut |exited| {
                let ThreadState { tgid, tid, comm, .. } = exited.state;
                if self.processes.describe(tgid).is_none() {
                    family.parent_of.insert(tgid, exited.ppid);
                }
                if tid == tgid {
                    family.names.insert(tgid, comm);
                }
            });
        }
        family
    }

    /// What exited processes had done before the window is no work of their parents' children in it.
    fn explain_gone(&self, start: &Start, unexplained: &mut Unexplained, family: &Family) {
        let ticks = start.clocks.ns_per_tick;
        for leader in gone(start).filter(|thread| thread.id.tid == thread.id.tgid) {
            let Some((state, after)) = leader.process.as_deref().zip(leader.process_after()) else { continue };
            let Some(ppid) = after.ppid else { continue };
            let mut work = Work::of_process(state, Includes::Threads, ticks);
            work += Work::of_process(after, Includes::Children, ticks);
            unexplained.explain_process(ppid, work, &family.parent_of);
        }
    }

    /// The thread of a record as part of the window; `None` if the later capture still listed it, or if it is of
    /// another time.
    fn exited(
        &mut self,
        start: &Start,
        clocks: &Clocks,
        exited: ExitedThread,
        family: &Family,
        unexplained: &mut Unexplained,
        recorded: &mut BTreeSet<usize>,
    ) -> Option<ThreadState> {
        let ExitedThread { mut state, ppid, started_monotonic_ns, elapsed_ns } = exited;
        let id = state.id();
        let place = start.earlier.find(id).filter(|place| !recorded.contains(place));
        // Of several threads with one id, the earlier capture had the first.
        let is_listed = match place {
            Some(place) => start.found[place].load(Ordering::Relaxed),
            None => self.started.binary_search(&id).is_ok(),
        };
        if is_listed {
            return None;
        }
        let known = place.filter(|place| has_grown(start, *place, &state.metrics));
        if known.is_none() && !clocks.may_have_started(started_monotonic_ns) {
            return None;
        }
        let mut span = ThreadSpan {
            alive_ns: elapsed_ns.min(clocks.duration_ns),
            started: true,
            exited: true,
            ..ThreadSpan::default()
        };
        let origin = known.map(|place| &start.earlier.threads()[place]);
        if let Some(place) = known {
            recorded.insert(place);
            // Records round bytes down to KiB, so that a counter that stood still is smaller in them.
            start.earlier.subtract(place, &mut state.metrics, |_| {});
            span.started = false;
        }
        let mut work = Work::of_thread(&state.metrics, start.clocks.ns_per_tick);
        if self.processes.describe(id.tgid).is_some() {
            // The kernel estimates the run time of short threads. What the process counts is exact.
            let excess = unexplained.explain_thread(id.tgid, work)[MetricId::run_time_ns];
            work[MetricId::run_time_ns] -= excess;
            state.metrics.run_time_ns = state.metrics.run_time_ns.map(|run| MonotonicNs(run.0.saturating_sub(excess)));
        } else {
            unexplained.explain_process(ppid, work, &family.parent_of);
        }
        self.describe(start, &mut state, ppid, origin, family);
        state.span = Some(span);
        self.explain(work);
        self.started_and_exited += u64::from(span.started);
        Some(state)
    }

    /// Names the process, the cgroup and the party of an exited thread: those that it had in a capture, else
    /// those of its process, else the cgroup of the nearest ancestor that is known.
    fn describe(
        &mut self,
        start: &Start,
        state: &mut ThreadState,
        ppid: u32,
        origin: Option<&PackedThread>,
        family: &Family,
    ) {
        let tgid = state.tgid;
        let leader = start.earlier.find(ThreadId { tgid, tid: tgid }).map(|place| &start.earlier.threads()[place]);
        let earlier = origin.or(leader);
        let later = self.processes.describe(tgid);
        let name = later.map(|(name, ..)| name).or(family.names.get(&tgid)).or(earlier.map(|thread| &thread.pcomm));
        state.pcomm = Name::clone(name.unwrap_or(&state.comm));
        state.cgroup =
            earlier.and_then(|thread| thread.cgroup.clone()).or(later.and_then(|(_, group, _)| group.cloned()));
        let mut ancestor = ppid;
        for _ in 0..8 {
            if state.cgroup.is_some() {
                break;
            }
            state.cgroup = cgroup_of(start, &self.processes, ancestor);
            let Some(next) = family.parent_of.get(&ancestor) else { break };
            ancestor = *next;
        }
        let party = later.and_then(|(.., party)| party).or(earlier.and_then(|thread| thread.party));
        state.party = party.or_else(|| self.lineage.as_mut()?.party(tgid));
    }

    /// Adds the threads that are gone and have no record: their number is known, their work is not.
    fn add_gone(&mut self, start: &Start, recorded: &BTreeSet<usize>) {
        let is_gone = |(place, _): &(usize, &PackedThread)| {
            !start.found[*place].load(Ordering::Relaxed) && !recorded.contains(place)
        };
        for (_, gone) in start.earlier.threads().iter().enumerate().filter(is_gone) {
            self.threads.add(ThreadState {
                tid: gone.id.tid,
                tgid: gone.id.tgid,
                pcomm: Name::clone(&gone.pcomm),
                comm: Name::clone(&gone.comm),
                cgroup: gone.cgroup.clone(),
                kernel_thread: gone.kernel_thread,
                party: gone.party,
                start_time_clock_ticks: gone.start_ticks,
                span: Some(ThreadSpan { exited: true, ..ThreadSpan::default() }),
                ..ThreadState::default()
            });
        }
    }

    fn info(
        &self,
        start: &Start,
        clocks: &Clocks,
        cpu_time: Option<&HostCpuTime>,
        exit_records: Option<ExitRecords>,
    ) -> WindowInfo {
        let names = self.backwards.iter().map(|(metric, threads)| (metric.metric().name.to_owned(), *threads));
        let listed = u64::try_from(self.started.len()).unwrap_or(u64::MAX);
        let seen = Seen { explained_ns: self.explained_ns, started: listed.saturating_add(self.started_and_exited) };
        let had_counters = start.earlier.threads().iter().any(|thread| thread.process.is_some());
        WindowInfo {
            started_at_unix_ns: start.started_at_unix_ns,
            duration_ns: clocks.duration_ns,
            suspended_ns: clocks.suspended_ns,
            missed: self.missed,
            backwards: names.collect(),
            process_counters: had_counters && self.processes.have_counters(),
            exit_records,
            cpu: cpu_time.and_then(|time| account(clocks, time, seen)),
            command: None,
        }
    }
}

/// Whether a record continues the earlier thread at `place`.
fn has_grown(start: &Start, place: usize, metrics: &Metrics) -> bool {
    match (start.earlier.value(place, MetricId::run_time_ns), metrics.run_time_ns) {
        (Some(Value::Unsigned(earlier)), Some(later)) => earlier <= later.0,
        _ => true,
    }
}

fn is_of_children(thread: &ThreadState) -> bool {
    thread.exited_work == Some(ExitedWork::Children)
}

/// The threads of the earlier capture that were not found again.
fn gone(start: &Start) -> impl Iterator<Item = &PackedThread> {
    let threads = start.earlier.threads().iter().zip(&start.found);
    threads.filter(|(_, found)| !found.load(Ordering::Relaxed)).map(|(thread, _)| thread)
}

fn cgroup_of(start: &Start, processes: &Processes, tgid: u32) -> Option<Name> {
    let later = processes.describe(tgid).and_then(|(_, cgroup, _)| cgroup.cloned());
    let earlier = || start.earlier.find(ThreadId { tgid, tid: tgid });
    later.or_else(|| start.earlier.threads()[earlier()?].cgroup.clone())
}
