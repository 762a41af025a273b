//! Exited work of processes: what a process counts, less what its threads and exited processes are known to
//! have done.

use std::collections::BTreeMap;

use super::{FoldedPart, KnownProcess, Living, MOST_ANCESTORS, PackedThreads, Parents, Work};
use crate::model::{
    ExitedWork, Includes, MetricId, Name, Owner, PROCESS, ProcessSource, ProcessState, RecordField, ThreadId,
    ThreadState,
};

/// When a process was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Seen {
    /// In both captures.
    #[default]
    AtBothEnds,
    /// In the later one: it started in between.
    Started,
}

/// A process of the later capture.
#[derive(Clone, Debug, Default)]
struct LaterProcess {
    tgid: u32,
    seen: Seen,
    leader: Option<Leader>,
    /// What its threads did in the window.
    threads: Work,
}

/// What the leader of a process knows.
#[derive(Clone, Debug)]
struct Leader {
    name: Name,
    program: Option<Name>,
    cgroup: Option<Name>,
    owner: Option<Owner>,
    start_ticks: Option<u64>,
    state: Option<Box<ProcessState>>,
}

/// The processes of the later capture, ascending.
#[derive(Clone, Debug, Default)]
pub(super) struct Processes(Vec<LaterProcess>);

impl Processes {
    /// Adds a thread, which did `work` in the window.
    pub(super) fn add(&mut self, thread: &ThreadState, work: Work, seen: Seen) {
        let last = self.0.len().checked_sub(1).filter(|last| self.0[*last].tgid == thread.tgid);
        let known = last.or_else(|| self.0.binary_search_by_key(&thread.tgid, |process| process.tgid).ok());
        let place = known.unwrap_or_else(|| {
            self.0.push(LaterProcess { tgid: thread.tgid, ..LaterProcess::default() });
            self.0.len() - 1
        });
        let process = &mut self.0[place];
        process.threads += work;
        if thread.is_leader() {
            process.seen = seen;
            process.leader = Some(Leader {
                name: Name::clone(&thread.comm),
                program: thread.program.clone(),
                cgroup: thread.cgroup.clone(),
                owner: thread.owner,
                start_ticks: thread.start_time_clock_ticks,
                state: thread.process.clone(),
            });
        }
    }

    /// Adds the processes that follow these. The threads of one may be in both.
    pub(super) fn append(&mut self, later: Self) {
        let mut later = later.0.into_iter().peekable();
        if let Some(last) = self.0.last_mut()
            && let Some(same) = later.next_if(|first| first.tgid == last.tgid)
        {
            last.threads += same.threads;
            if same.leader.is_some() {
                (last.leader, last.seen) = (same.leader, same.seen);
            }
        }
        self.0.extend(later);
    }

    /// Whether any process has counters, or none is left.
    pub(super) fn have_counters(&self) -> bool {
        let mut leaders = self.0.iter().filter_map(|process| process.leader.as_ref());
        self.0.is_empty() || leaders.any(|leader| leader.state.is_some())
    }

    /// The owner of a process.
    pub(super) fn owner(&self, tgid: u32) -> Option<Owner> {
        self.find(tgid)?.leader.as_ref()?.owner
    }

    /// What a process runs, if it is an interpreter.
    pub(super) fn program(&self, tgid: u32) -> Option<Name> {
        self.find(tgid)?.leader.as_ref()?.program.clone()
    }

    /// The name of a process, with what it runs if it is an interpreter.
    pub(super) fn name(&self, tgid: u32) -> Option<Name> {
        let leader = self.find(tgid)?.leader.as_ref()?;
        let name = Name::clone(&leader.name);
        Some(leader.program.as_ref().map_or(name, |program| format!("{} {program}", leader.name).into()))
    }

    /// The processes whose leader is known.
    pub(super) fn living(&self) -> impl Iterator<Item = Living> {
        self.0.iter().filter_map(|process| {
            let leader = process.leader.as_ref()?;
            Some((process.tgid, leader.start_ticks, leader.state.as_ref().and_then(|state| state.ppid)))
        })
    }

    fn find(&self, tgid: u32) -> Option<&LaterProcess> {
        self.0.binary_search_by_key(&tgid, |process| process.tgid).ok().map(|place| &self.0[place])
    }
}

/// What processes did beyond their living threads, by process id.
pub(super) struct Unexplained {
    by_process: BTreeMap<u32, Unattributed>,
    /// What exited processes did whose living ancestor is unknown, because the record of one in between was lost.
    without_ancestor: Work,
    ns_per_tick: u64,
}

/// What one process did beyond its living threads.
struct Unattributed {
    /// Of exited threads; the I/O is also that of children.
    threads: Work,
    /// Of exited children.
    children: Work,
    /// What its living threads did.
    living: Work,
    /// All that its children did.
    all_children: Work,
    /// By so much, its run time of children can be too long.
    imprecise_ns: u64,
}

/// A process that exited in the window, and was there before.
pub(super) struct GoneProcess {
    /// Its last known parent.
    pub(super) ppid: u32,
    /// Time since boot at its start.
    pub(super) start_ns: u64,
    /// What it and its children had done before the window.
    pub(super) work: Work,
    /// Its run time can be longer by so much, because the kernel shows ticks.
    pub(super) imprecise_ns: u64,
}

/// User and system time are rounded down to ticks, each.
pub(super) const PRECISION_TICKS: u64 = 2;

impl Unattributed {
    /// Takes out work of children, and returns the rest.
    fn take_children(&mut self, work: Work) -> Work {
        let mut time = work;
        let io = time.take_io();
        let (mut rest, io) = (self.children.take_up_to(time), self.threads.take_up_to(io));
        rest += io;
        rest
    }
}

/// The first user process, or that of a container: it waits for orphans.
const INIT: u32 = 1;

impl Unexplained {
    pub(super) fn of(processes: &Processes, earlier: &PackedThreads, ns_per_tick: u64) -> Self {
        let pools = processes.0.iter().filter_map(|process| {
            let later = process.leader.as_ref()?.state.as_deref()?;
            let work = |state, part| Work::of_process(state, part, ns_per_tick);
            let (threads_before, children_before) = match process.seen {
                Seen::Started => Default::default(),
                Seen::AtBothEnds => {
                    let (before, after) = states_of(earlier, process.tgid)?;
                    let mut threads = work(before, Includes::Threads);
                    threads.take_io();
                    // The I/O includes that of children.
                    threads += work(after, Includes::Threads).take_io();
                    (threads, work(after, Includes::Children))
                }
            };
            let threads = work(later, Includes::Threads).less(threads_before).less(process.threads);
            let children = work(later, Includes::Children).less(children_before);
            let imprecise_ns = PRECISION_TICKS * ns_per_tick;
            let living = process.threads;
            Some((process.tgid, Unattributed { threads, children, living, all_children: children, imprecise_ns }))
        });
        Self { by_process: pools.collect(), without_ancestor: Work::default(), ns_per_tick }
    }

    /// Takes out what an exited thread of a living process did.
    pub(super) fn explain_thread(&mut self, tgid: u32, work: Work) {
        if let Some(pools) = self.by_process.get_mut(&tgid) {
            pools.threads.take_up_to(work);
        }
    }

    /// Takes out what an exited process had done. Its nearest living ancestor waited for it, or for the process that did.
    /// An orphan's work may be counted by init.
    pub(super) fn explain_process(&mut self, gone: &GoneProcess, parents: &Parents) {
        let GoneProcess { ppid, start_ns, work, imprecise_ns } = *gone;
        let ancestor = self.nearest(ppid, start_ns, parents);
        if let Some(ancestor) = ancestor {
            self.explain_descendant(ancestor, ppid, work);
        } else if ppid != INIT && parents.get(ppid, start_ns).is_some_and(|parent| parent.ppid > 0) {
            self.take_children(INIT, work);
        }
        if let Some(pools) = self.by_process.get_mut(&ancestor.unwrap_or(INIT)) {
            pools.imprecise_ns = pools.imprecise_ns.saturating_add(imprecise_ns);
        }
    }

    /// Takes out the work of exited children of a process at that time, or of descendants of these. If the record of one of its
    /// ancestors was lost, some process counts it all the same.
    pub(super) fn explain_record(
        &mut self,
        (ppid, start_ns): (u32, u64),
        of: FoldedPart,
        work: Work,
        parents: &Parents,
    ) {
        // One of the parents of descendants may have exited without waiting.
        let waiting = if of == FoldedPart::Descendants { 0 } else { ppid };
        match self.nearest(ppid, start_ns, parents) {
            Some(ancestor) => self.explain_descendant(ancestor, waiting, work),
            None => self.without_ancestor += work,
        }
    }

    /// Takes out what an exited child of `ppid` did, whose nearest living ancestor is `ancestor`.
    fn explain_descendant(&mut self, ancestor: u32, ppid: u32, work: Work) {
        let rest = self.take_children(ancestor, work);
        if ancestor != ppid && ancestor != INIT {
            self.take_children(INIT, rest);
        }
    }

    /// The nearest living ancestor of an exited child of `ppid` that started at that time.
    fn nearest(&self, ppid: u32, start_ns: u64, parents: &Parents) -> Option<u32> {
        let mut ancestors = parents.ancestors(ppid, start_ns).take(MOST_ANCESTORS);
        let counts = |process: &&KnownProcess| process.is_living && self.by_process.contains_key(&process.tgid);
        ancestors.find(counts).map(|process| process.tgid)
    }

    /// Takes work out of that of a process's children, and returns the rest.
    fn take_children(&mut self, tgid: u32, work: Work) -> Work {
        self.by_process.get_mut(&tgid).map_or(work, |pools| pools.take_children(work))
    }

    /// Takes out work without a known ancestor: probably, the processes with the most work of children count it.
    fn give_without_ancestor(&mut self) {
        let mut work = std::mem::take(&mut self.without_ancestor);
        let mut pools: Vec<_> = self.by_process.values_mut().collect();
        pools.sort_by_key(|pools| std::cmp::Reverse(pools.children[MetricId::run_time_ns]));
        for pools in pools {
            work = pools.take_children(work);
        }
    }

    /// What is left, as work of processes. More CPU time than `most_ns` is that of children that the earlier capture
    /// should have seen, since before the window: it is unknown how much of it is in the window.
    pub(super) fn into_threads(mut self, processes: &Processes, most_ns: Option<u64>) -> Vec<ThreadState> {
        self.give_without_ancestor();
        let least_ns = PRECISION_TICKS * self.ns_per_tick;
        let mut all = Vec::new();
        for (tgid, Unattributed { threads, children, living, all_children, imprecise_ns }) in self.by_process {
            let mut threads = threads.without_noise(living, least_ns);
            let mut children = children.without_noise(all_children, imprecise_ns);
            if !children.is_zero() {
                children += threads.take_io();
            }
            let Some(process) = processes.find(tgid) else { continue };
            if most_ns.is_some_and(|most| children[MetricId::run_time_ns] > most) {
                children = Work::default();
            }
            for (work, kind) in [(threads, ExitedWork::Threads), (children, ExitedWork::Children)] {
                all.extend(exited(process, work.with_ticks_of_run_time(self.ns_per_tick), kind));
            }
        }
        all
    }
}

/// The counters that a process had in the earlier capture, when its threads were read and after all threads.
fn states_of(earlier: &PackedThreads, tgid: u32) -> Option<(&ProcessState, &ProcessState)> {
    let leader = &earlier.threads[earlier.find(ThreadId { tgid, tid: tgid })?];
    leader.process.as_deref().zip(leader.process_after())
}

fn exited(process: &LaterProcess, work: Work, kind: ExitedWork) -> Option<ThreadState> {
    let leader = process.leader.as_ref().filter(|_| !work.is_zero())?;
    let state = leader.state.as_deref()?;
    let known = |metric: MetricId| {
        let counts = |field: &RecordField<ProcessState, ProcessSource>| {
            field.source.metric == metric && field.get(state).is_some()
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
        metrics: work.metrics(known),
        ..ThreadState::default()
    })
}
