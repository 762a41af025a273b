//! Joins the threads of the later capture, as they stream by, with the threads of the earlier capture.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::earlier_threads::{EarlierThreads, renamed, subtract};
use super::left_programs::take_from_state;
use super::{Clocks, CpuReadings, Exits, LeftPrograms, Lineage, PRECISION_NS, Processes, Seen, Work};
use crate::model::{
    HostCpuTime, Includes, METRICS, Metric, MetricId, Owner, ProcessState, SnapshotHead, ThreadId, ThreadSpan,
    ThreadState, Threads, WindowInfo, WindowRule,
};

/// Kind of values that a window has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinedValues {
    /// Increases within the window.
    Increases,
    /// Totals at both ends: first of threads that were alive at both ends, before and after; then of threads that started, and of
    /// exited work.
    Totals,
}

/// The earlier capture, and what is known before the later threads come.
pub(super) struct WindowStart {
    pub(super) earlier: EarlierThreads,
    pub(super) clocks: Clocks,
    pub(super) values: JoinedValues,
    /// Marks of the earlier threads that were found again.
    pub(super) found: Vec<AtomicBool>,
    /// The last thread that continued with the ids and the start of a process's first one, by its own id until then, from records.
    pub(super) replaced: BTreeMap<(u32, Option<u64>), u32>,
    /// Programs that processes left in the window, from records.
    pub(super) left: LeftPrograms,
    /// Wall clock, in nanoseconds since 1970.
    pub(super) started_at_unix_ns: u64,
    pub(super) cpu_time: CpuReadings,
}

impl WindowStart {
    pub(super) fn new(head: &SnapshotHead, earlier: EarlierThreads, clocks: Clocks, values: JoinedValues) -> Self {
        Self {
            found: (0..earlier.threads.len()).map(|_| AtomicBool::new(false)).collect(),
            earlier,
            clocks,
            values,
            replaced: BTreeMap::new(),
            left: LeftPrograms::default(),
            started_at_unix_ns: head.captured_at_unix_ns,
            cpu_time: CpuReadings::from_head(head),
        }
    }
}

/// The later threads, joined with the earlier ones.
pub struct Join<T> {
    pub(super) start: Arc<WindowStart>,
    /// The earlier totals of threads that were found again; of totals only.
    pub(super) before: T,
    pub(super) threads: T,
    pub(super) processes: Processes,
    pub(super) sums: JoinSums,
    /// First threads whose counters do not continue the counters of the earlier first threads at these indexes.
    replaced: Vec<(usize, ThreadState)>,
    /// Parents of processes, if a command ran.
    pub(super) lineage: Option<Lineage>,
}

/// Sums over all joined threads.
#[derive(Default)]
pub(super) struct JoinSums {
    pub(super) missed: u64,
    pub(super) unread: u64,
    pub(super) backwards: BTreeMap<MetricId, u64>,
    /// Threads that started in the window and were listed at its end, with their start in ticks, ascending.
    pub(super) started: Vec<(ThreadId, u64)>,
    /// Number of threads that started and exited in the window.
    pub(super) started_and_exited: u64,
    /// When threads were read.
    pub(super) read: ReadTimes,
    /// CPU time of the capturing process's threads so far.
    pub(super) own_ns: u64,
    /// Whether one process made both captures.
    pub(super) recorder_stayed: bool,
    /// CPU time of all other threads so far.
    pub(super) explained_ns: u64,
}

/// When the threads of both captures were read, weighted by what they did in between.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadTimes {
    earlier: u128,
    later: u128,
    weight: u128,
}

impl ReadTimes {
    /// Adds a thread with its times in nanoseconds since the starts of the captures.
    fn add(&mut self, earlier_ns: u64, later_ns: u64, run_ns: u64) {
        // A nanosecond lets idle threads decide where all are idle.
        let weight = u128::from(run_ns).saturating_add(1);
        let weighted = |ns| u128::from(ns).saturating_mul(weight);
        self.merge(Self { earlier: weighted(earlier_ns), later: weighted(later_ns), weight });
    }

    fn merge(&mut self, other: Self) {
        let Self { earlier, later, weight } = other;
        self.earlier = self.earlier.saturating_add(earlier);
        self.later = self.later.saturating_add(later);
        self.weight = self.weight.saturating_add(weight);
    }

    pub(super) fn means(self) -> (u64, u64) {
        let mean = |sum: u128| u64::try_from(sum / self.weight.max(1)).unwrap_or(u64::MAX);
        (mean(self.earlier), mean(self.later))
    }
}

/// Result of a join.
#[derive(Debug)]
#[non_exhaustive]
pub struct Joined<T> {
    /// The earlier totals of threads that were alive at both ends; empty unless the join is of totals.
    pub before: T,
    /// The later threads, and exited ones.
    pub threads: T,
    /// The start and the length of the window, and how it was recorded.
    pub window: WindowInfo,
    /// The increase of the host's.
    pub cpu_time: Option<HostCpuTime>,
    /// Number of records of exited threads that lack delays because the kernel's are longer than the thread lived.
    pub impossible_delays: u64,
}

impl<T: Threads> Threads for Join<T> {
    fn another(&self) -> Self {
        Self::new(Arc::clone(&self.start), &self.threads)
    }

    fn add(&mut self, thread: ThreadState) {
        let start = Arc::clone(&self.start);
        let place = start.earlier.find(thread.id());
        let same = place.filter(|place| {
            let earlier = start.earlier.threads[*place].start_time_clock_ticks;
            // One that is older than the window is the one that had its ids when it began.
            let is_older = |ticks| earlier.is_none() && !start.clocks.started_within(ticks);
            earlier == thread.start_time_clock_ticks || thread.start_time_clock_ticks.is_some_and(is_older)
        });
        match (same, place, thread.start_time_clock_ticks) {
            (Some(place), ..) if start.is_replaced(place, &thread) => {
                self.processes.add(&thread, Work::default(), Seen::AtBothEnds);
                self.replaced.push((place, thread));
            }
            (Some(place), ..) => self.add_known(&start, place, thread),
            (None, _, Some(ticks)) if start.clocks.started_within(ticks) => {
                self.add_started(&start, Seen::Started, thread, ticks);
            }
            // Its start cannot be read while its process executes a program. It may be the thread that was there.
            (None, Some(place), None) => self.add_without_values(&start, place),
            _ => self.sums.missed += 1,
        }
    }

    fn append(&mut self, later: Self) {
        let Self { start: _, before, threads, processes, sums, replaced, lineage: _ } = later;
        self.replaced.extend(replaced);
        self.before.append(before);
        self.threads.append(threads);
        self.processes.append(processes);
        self.sums.append(sums);
    }

    fn bytes(&self) -> usize {
        self.before.bytes() + self.threads.bytes()
    }
}

impl JoinSums {
    fn append(&mut self, later: Self) {
        let Self {
            missed,
            unread,
            backwards,
            started,
            started_and_exited,
            read,
            own_ns,
            recorder_stayed,
            explained_ns,
        } = later;
        self.missed += missed;
        self.unread += unread;
        self.started.extend(started);
        self.started_and_exited += started_and_exited;
        self.read.merge(read);
        self.explained_ns = self.explained_ns.saturating_add(explained_ns);
        self.own_ns = self.own_ns.saturating_add(own_ns);
        self.recorder_stayed |= recorder_stayed;
        backwards.into_iter().for_each(|(metric, threads)| *self.backwards.entry(metric).or_default() += threads);
    }
}

impl<T: Threads> Join<T> {
    pub(super) fn new(start: Arc<WindowStart>, empty: &T) -> Self {
        let (before, threads) = (empty.another(), empty.another());
        let (processes, sums) = Default::default();
        Self { start, before, threads, processes, sums, replaced: Vec::new(), lineage: None }
    }

    /// Adds the first threads of processes in which another thread continues. The records name that thread; without them, it is
    /// the only thread whose counters, and the counters of whose process, did not decrease. If there is none, the values of the
    /// thread are unknown.
    pub(super) fn add_replaced(&mut self, start: &WindowStart) {
        for (place, mut thread) in std::mem::take(&mut self.replaced) {
            let siblings = start.earlier.siblings(place);
            let is_found = |place: &usize| start.found[*place].load(Ordering::Relaxed);
            if siblings.clone().any(|place| is_found(&place)) {
                // execve(2) ends all other threads.
                self.add_known(start, place, thread);
            } else if let Some(tid) = start.replaced.get(&(thread.tgid, thread.start_time_clock_ticks)) {
                match start.earlier.find(ThreadId { tid: *tid, ..thread.id() }) {
                    Some(place) => self.add_known(start, place, thread),
                    None => match thread.start_time_clock_ticks {
                        Some(ticks) => self.add_started(start, Seen::AtBothEnds, thread, ticks),
                        None => self.sums.missed += 1,
                    },
                }
            } else {
                let mut possible = siblings.filter(|place| start.continues(*place, &thread));
                if let (Some(place), None) = (possible.next(), possible.next()) {
                    self.add_known(start, place, thread);
                } else {
                    let counters = METRICS.iter().filter(|metric| metric.window != WindowRule::Later);
                    counters.for_each(|metric| metric.clear(&mut thread.metrics));
                    self.add_known(start, place, thread);
                }
            }
        }
        self.sums.started.sort_unstable();
    }

    /// Adds the earlier threads that the later capture could not read, without values, unless there are records of their exits.
    pub(super) fn add_unread(&mut self, start: &WindowStart, later: &SnapshotHead, exits: &Exits<'_>) {
        if later.unread_threads.is_empty() {
            return;
        }
        let mut exited = HashSet::new();
        exits.for_each(|exit| {
            exited.extend((!exit.executed).then(|| (exit.state.id(), exit.state.start_time_clock_ticks)));
        });
        for (place, earlier) in start.earlier.threads.iter().enumerate() {
            let has_exited = exited.contains(&(earlier.id(), earlier.start_time_clock_ticks));
            if later.is_unread(earlier.id()) && !has_exited && !start.found[place].load(Ordering::Relaxed) {
                self.add_without_values(start, place);
            }
        }
    }

    /// Adds an earlier thread whose values the later capture could not read.
    fn add_without_values(&mut self, start: &WindowStart, place: usize) {
        self.sums.unread += 1;
        let earlier = &start.earlier.threads[place];
        let mut thread = renamed(earlier, earlier);
        (thread.metrics, thread.smaps_rollup_kib) = Default::default();
        self.add_known(start, place, thread);
    }

    /// Adds a thread that was alive at both ends.
    fn add_known(&mut self, start: &WindowStart, place: usize, mut thread: ThreadState) {
        start.found[place].store(true, Ordering::Relaxed);
        let earlier = &start.earlier.threads[place];
        take_cgroup(earlier, &mut thread);
        let [before, read] = [earlier, &thread].map(ThreadState::read_after_ns);
        // A thread that slept on in the last step has the time of an older capture.
        let before = before.min(start.cpu_time.walk_ns.unwrap_or(u64::MAX));
        let listed_ns = start.clocks.duration_ns.saturating_add(read).saturating_sub(before);
        let zombie_ns = if earlier.has_exited() { listed_ns } else { start.clocks.zombie_ns(&thread, listed_ns) };
        let alive_ns = listed_ns - zombie_ns;
        let totals = (start.values == JoinedValues::Totals).then(|| thread.metrics.clone());
        let count = |metric: &Metric| *self.sums.backwards.entry(metric.id).or_default() += 1;
        subtract(&earlier.metrics, &mut thread.metrics, count);
        thread.span = Some(ThreadSpan { alive_ns, zombie_ns, ..ThreadSpan::default() });
        start.leave_programs(&mut thread);
        let work = Work::of_thread(&thread.metrics);
        self.explain(work, thread.owner);
        if thread.owner == Some(Owner::Ctprof) {
            self.sums.recorder_stayed = true;
        } else {
            self.sums.read.add(before, read, work[MetricId::run_time_ns]);
        }
        self.processes.add(&thread, work, Seen::AtBothEnds);
        if let Some(totals) = totals {
            self.before.add(renamed(earlier, &thread));
            (thread.metrics, thread.span) = (totals, None);
        } else {
            thread.exited_monotonic_ns = None;
            let exited = thread.has_exited() && !earlier.has_exited();
            thread.span.iter_mut().for_each(|span| span.exited = exited);
            // They are totals, which a window does not have.
            (thread.process, thread.process_after) = (None, None);
        }
        self.threads.add(thread);
    }

    /// Counts CPU time of the host as explained by this work.
    pub(super) fn explain(&mut self, work: Work, owner: Option<Owner>) {
        let sum = if owner == Some(Owner::Ctprof) { &mut self.sums.own_ns } else { &mut self.sums.explained_ns };
        *sum = sum.saturating_add(work[MetricId::run_time_ns]);
    }

    /// Adds a thread that started in the window: its totals are of the window. `seen` is when its process was.
    fn add_started(&mut self, start: &WindowStart, seen: Seen, mut thread: ThreadState, ticks: u64) {
        self.sums.started.push((thread.id(), ticks));
        // A process begins where its parent is.
        let parent = thread.process.as_ref().and_then(|process| start.earlier.leader(process.ppid?));
        parent.into_iter().for_each(|parent| take_cgroup(parent, &mut thread));
        let until_read = start.clocks.duration_ns.saturating_add(thread.read_after_ns());
        let listed_ns = until_read.saturating_sub(start.clocks.until_start(ticks));
        let zombie_ns = start.clocks.zombie_ns(&thread, listed_ns);
        let alive_ns = listed_ns - zombie_ns;
        let exited = start.values == JoinedValues::Increases && thread.has_exited();
        thread.span = Some(ThreadSpan { alive_ns, zombie_ns, started: true, exited, ..ThreadSpan::default() });
        start.leave_programs(&mut thread);
        if thread.forked {
            // A copy of its parent's counters.
            (thread.metrics.allocated_bytes, thread.metrics.deallocated_bytes) = (None, None);
        }
        let work = Work::of_thread(&thread.metrics);
        self.explain(work, thread.owner);
        self.processes.add(&thread, work, seen);
        if start.values == JoinedValues::Increases {
            (thread.process, thread.process_after, thread.exited_monotonic_ns) = (None, None, None);
        }
        self.threads.add(thread);
    }
}

/// Keeps the cgroup that a thread had earlier, if none was read: the kernel shows no cgroup of version 1 once a thread exits.
fn take_cgroup(earlier: &ThreadState, thread: &mut ThreadState) {
    if thread.cgroup.is_none() {
        (thread.cgroup, thread.cpu_cgroup) = (earlier.cgroup.clone(), earlier.cpu_cgroup.clone());
    }
}

/// The thread that calls execve(2) continues with the ids and the start time of the first thread, but with its own counters
/// (`de_thread` in fs/exec.c).
impl WindowStart {
    /// Leaves a thread of the later capture what it did in its last program.
    fn leave_programs(&self, thread: &mut ThreadState) {
        let began_ns = self.clocks.end_monotonic_ns.unwrap_or(0);
        let read_ns = thread.read_at_ns.map_or(u64::MAX, |at| began_ns.saturating_add(at));
        if let Some(before) = self.left.before(thread, read_ns) {
            take_from_state(before, thread);
        }
    }

    /// Whether the first thread of a process may be another one than the earlier first thread, at `place`.
    fn is_replaced(&self, place: usize, later: &ThreadState) -> bool {
        later.is_leader()
            && (self.replaced.contains_key(&(later.tgid, later.start_time_clock_ticks))
                || (self.earlier.siblings(place).next().is_some() && !self.continues(place, later)))
    }

    /// Whether a later first thread can be the earlier thread at `place`: no counter is less, and it did no more than its whole
    /// process, whose other threads count on after they have exited.
    fn continues(&self, place: usize, later: &ThreadState) -> bool {
        let (mut increase, mut is_possible) = (later.metrics.clone(), true);
        subtract(&self.earlier.threads[place].metrics, &mut increase, |_| is_possible = false);
        let of_process = |state: &Option<Box<ProcessState>>| {
            let process = state.as_deref().filter(|process| process.utime_clock_ticks.is_some())?;
            Some(Work::of_process(process, Includes::Threads)[MetricId::run_time_ns])
        };
        let leader = self.earlier.leader(later.tgid).map(|leader| &leader.process);
        let whole = leader.and_then(of_process).zip(of_process(&later.process));
        let run_ns = Work::of_thread(&increase)[MetricId::run_time_ns];
        let most_ns = |(before, after): (u64, u64)| after.saturating_sub(before).saturating_add(PRECISION_NS);
        is_possible && whole.is_none_or(|whole| run_ns <= most_ns(whole))
    }
}
