//! Exited work without records: what a process counts, less what its threads did, and less what its children had done before the
//! window. It has the name of the process that counts it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::earlier_threads::process_after;
use super::processes::{LaterProcess, Processes, Seen};
use super::work::PRECISION_NS;
use super::{EarlierThreads, MOST_ANCESTORS, Parents, WindowStart, Work};
use crate::model::{
    ExitedWork, Includes, MetricId, Name, PROCESS, ProcessSource, ProcessState, RecordField, ThreadState,
};

/// Work of a process beyond its living threads.
struct Residue {
    /// Work of exited threads; the I/O includes the I/O of children.
    threads: Work,
    /// Work of exited children.
    children: Work,
    /// Work of the living threads.
    living: Work,
    /// How much the run time of children may be overstated, in nanoseconds: the kernel rounds it to ticks.
    imprecise_ns: u64,
    /// Whether it is unknown how much of its I/O was before the window.
    lacks_io: bool,
}

/// A process that exited in the window, and was there before.
struct ExitedProcess {
    /// Process id of the last known parent.
    ppid: u32,
    /// Time since boot at its start.
    start_ns: u64,
    /// Work of the process and its children before the window.
    before: Work,
    /// How much that run time may be overstated, in nanoseconds: the kernel shows ticks.
    imprecise_ns: u64,
    /// Whether its I/O is unknown.
    lacks_io: bool,
}

/// Process id of the first user process, on the host or in a container: it waits for orphans.
const INIT: u32 = 1;

impl Residue {
    fn from_process(process: &LaterProcess, earlier: &EarlierThreads) -> Option<Self> {
        let later = process.leader.as_ref()?.state.as_deref()?;
        let work = Work::of_process;
        let (threads_before, children_before, lacks_io) = match process.seen {
            Seen::Started => Default::default(),
            Seen::AtBothEnds => {
                let leader = earlier.leader(process.tgid)?;
                let (before, after) = leader.process.as_deref().zip(process_after(leader))?;
                (threads_with_io(before, after), work(after, Includes::Children), lacks_io(after))
            }
        };
        let threads = work(later, Includes::Threads).less(threads_before).less(process.threads);
        let children = work(later, Includes::Children).less(children_before);
        Some(Self { threads, children, living: process.threads, imprecise_ns: PRECISION_NS, lacks_io })
    }

    /// Takes out what a child had done before the window, and leaves there what it does not count.
    fn take(&mut self, process: &mut ExitedProcess) {
        let io = process.before.take_io();
        let rest = self.children.take_up_to(process.before);
        if rest != process.before {
            self.imprecise_ns = self.imprecise_ns.saturating_add(process.imprecise_ns);
        }
        self.lacks_io |= process.lacks_io;
        process.before = rest;
        process.before += self.threads.take_up_to(io);
    }

    /// Returns the work of exited threads, and the work of exited children.
    fn parts(self) -> [(Work, ExitedWork); 2] {
        let all_children = self.children;
        let mut threads = self.threads.without_noise(self.living, PRECISION_NS);
        let mut children = self.children.without_noise(all_children, self.imprecise_ns);
        if !children.is_zero() {
            children += threads.take_io();
        }
        [(threads, ExitedWork::Threads), (children, ExitedWork::Children)]
    }
}

/// Returns the exited work in the window, as work of the processes whose counters include it. CPU time above `most_ns` belongs to
/// children that ran before the window and that the earlier capture should have seen: how much of it is in the window is unknown.
pub(super) fn residues(
    start: &WindowStart,
    processes: &Processes,
    parents: &Parents,
    most_ns: Option<u64>,
) -> Vec<ThreadState> {
    let residue = |process: &LaterProcess| Some((process.tgid, Residue::from_process(process, &start.earlier)?));
    let mut by_process: BTreeMap<u32, Residue> = processes.iter().filter_map(residue).collect();
    let adopters = with_children(processes, &by_process);
    for mut exited in exited_processes(start, parents) {
        // Any ancestor can have waited for it, or init, or, if its parent is not known, any process.
        let ancestors = parents.ancestors(exited.ppid, exited.start_ns).take(MOST_ANCESTORS);
        let living = ancestors.filter(|process| process.is_living).map(|process| process.tgid);
        let is_orphan = parents.get(exited.ppid, exited.start_ns).is_none();
        for tgid in living.chain([INIT]).chain(adopters.iter().copied().filter(|_| is_orphan)) {
            if let Some(residue) = by_process.get_mut(&tgid) {
                residue.take(&mut exited);
                if exited.before.is_zero() {
                    break;
                }
            }
        }
    }
    let mut all = Vec::new();
    for (tgid, residue) in by_process {
        let Some(process) = processes.find(tgid) else { continue };
        let lacks_io = residue.lacks_io;
        for (mut work, kind) in residue.parts() {
            if kind == ExitedWork::Children && most_ns.is_some_and(|most| work[MetricId::run_time_ns] > most) {
                continue;
            }
            if lacks_io {
                work.take_io();
            }
            all.extend(exited(process, work.with_ticks_of_run_time(), kind, lacks_io));
        }
    }
    all
}

/// Returns the processes that can have waited for an orphan from before the window, in descending order of their children's work.
fn with_children(processes: &Processes, residues: &BTreeMap<u32, Residue>) -> Vec<u32> {
    let stayed = processes.iter().filter(|process| process.seen == Seen::AtBothEnds);
    let work = |tgid: u32| Some((tgid, residues.get(&tgid)?.children[MetricId::run_time_ns]));
    let mut all: Vec<_> = stayed.filter_map(|process| work(process.tgid)).filter(|(_, ran)| *ran > 0).collect();
    all.sort_by_key(|(_, ran)| Reverse(*ran));
    all.into_iter().map(|(tgid, _)| tgid).collect()
}

/// Returns the work of a process's threads when they were read, with the I/O of the process and its children afterwards.
fn threads_with_io(threads: &ProcessState, after: &ProcessState) -> Work {
    let mut work = Work::of_process(threads, Includes::Threads);
    work.take_io();
    work += Work::of_process(after, Includes::Threads).take_io();
    work
}

/// The processes of the earlier capture that the later one does not have.
fn exited_processes<'s>(start: &'s WindowStart, parents: &'s Parents) -> impl Iterator<Item = ExitedProcess> + 's {
    let has_exited = |(place, thread): &(usize, &ThreadState)| {
        let start_ns = start.clocks.boot_ns(thread.start_time_clock_ticks);
        let is_living = || parents.get(thread.tgid, start_ns).is_some_and(|process| process.is_living);
        thread.is_leader() && !start.found[*place].load(Ordering::Relaxed) && !is_living()
    };
    let leaders = start.earlier.threads.iter().enumerate().filter(has_exited);
    leaders.filter_map(|(_, leader)| {
        let (threads, after) = leader.process.as_deref().zip(process_after(leader))?;
        let (tgid, start_ns) = (leader.tgid, start.clocks.boot_ns(leader.start_time_clock_ticks));
        let ppid = parents.get(tgid, start_ns).map(|process| process.ppid).filter(|ppid| *ppid > 0).or(after.ppid)?;
        let mut before = threads_with_io(threads, after);
        let exact_ns = start.earlier.run_time_ns(tgid);
        let is_exact = exact_ns.is_some_and(|exact| exact >= before[MetricId::run_time_ns]);
        before[MetricId::run_time_ns] = before[MetricId::run_time_ns].max(exact_ns.unwrap_or(0));
        let of_children = Work::of_process(after, Includes::Children);
        let rounded = u64::from(!is_exact) + u64::from(of_children[MetricId::run_time_ns] > 0);
        before += of_children;
        let (imprecise_ns, lacks_io) = (rounded * PRECISION_NS, lacks_io(after));
        Some(ExitedProcess { ppid, start_ns, before, imprecise_ns, lacks_io })
    })
}

/// Whether the I/O of a process could not be read.
fn lacks_io(process: &ProcessState) -> bool {
    !PROCESS.iter().any(|field| field.source.is_io() && field.get(process).is_some())
}

fn exited(process: &LaterProcess, work: Work, kind: ExitedWork, lacks_io: bool) -> Option<ThreadState> {
    let leader = process.leader.as_ref().filter(|_| !work.is_zero())?;
    let state = leader.state.as_deref()?;
    let has_value = |metric: MetricId| {
        let counts = |field: &RecordField<ProcessState, ProcessSource>| {
            field.source.metric == metric && field.get(state).is_some() && !(lacks_io && field.source.is_io())
        };
        metric == MetricId::run_time_ns || PROCESS.iter().any(counts)
    };
    Some(ThreadState {
        tgid: process.tgid,
        pcomm: Name::clone(&leader.name),
        comm: Name::clone(&leader.name),
        program: leader.program.clone(),
        cgroup: leader.cgroup.clone(),
        exited_work: Some(kind),
        owner: leader.owner,
        metrics: work.metrics(has_value),
        ..ThreadState::default()
    })
}
