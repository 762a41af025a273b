//! Exited work of processes: what a process counts, less what its threads and exited processes are known to
//! have done.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::earlier_threads::process_after;
use super::processes::{LaterProcess, Processes, Seen};
use super::{EarlierThreads, FoldedPart, KnownProcess, MOST_ANCESTORS, Parents, Work};
use crate::model::{
    ExitedWork, Includes, MetricId, NS_PER_TICK, Name, PROCESS, ProcessSource, ProcessState, RecordField, ThreadState,
};

/// What processes did beyond their living threads, by process id.
pub(super) struct Unexplained {
    by_process: BTreeMap<u32, Unattributed>,
    /// What exited processes did for which one of their ancestors waited, by the nearest living one. Those with the most
    /// ancestors are first.
    of_ancestors: BTreeMap<(Reverse<usize>, u32), CountedWork>,
    /// What exited processes did in the window whose living ancestor is unknown, because the record of one in between was lost.
    without_ancestor: CountedWork,
    /// What such processes had done before the window, and what none of the known ancestors counted: other processes that have
    /// started in the window did not count it either.
    before_without_ancestor: CountedWork,
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
    /// Whether it is unknown how much of its I/O was before the window.
    lacks_io: bool,
    /// Whether others wait for its children.
    has_exited: bool,
    seen: Seen,
}

/// A process that exited in the window, and was there before.
pub(super) struct GoneProcess {
    /// Its last known parent; 0 if that is in another PID namespace.
    pub(super) ppid: u32,
    /// Time since boot at its start.
    pub(super) start_ns: u64,
    /// What it and its children had done before the window.
    pub(super) before: CountedWork,
}

/// Work of an exited process, which the process that waited for it counts as that of its children.
#[derive(Clone, Copy, Default)]
pub(super) struct CountedWork {
    pub(super) work: Work,
    /// Its run time can be longer by so much, because the kernel shows ticks.
    pub(super) imprecise_ns: u64,
    /// Whether its I/O is unknown.
    pub(super) lacks_io: bool,
}

impl AddAssign for CountedWork {
    fn add_assign(&mut self, other: Self) {
        self.work += other.work;
        self.imprecise_ns = self.imprecise_ns.saturating_add(other.imprecise_ns);
        self.lacks_io |= other.lacks_io;
    }
}

/// User and system time are rounded down to ticks, each.
pub(super) const PRECISION_NS: u64 = 2 * NS_PER_TICK;

impl Unattributed {
    /// Takes out work of children, and returns the rest.
    fn take_children(&mut self, counted: CountedWork) -> CountedWork {
        let mut time = counted.work;
        let io = time.take_io();
        let (mut rest, io) = (self.children.take_up_to(time), self.threads.take_up_to(io));
        if rest != time {
            self.imprecise_ns = self.imprecise_ns.saturating_add(counted.imprecise_ns);
        }
        self.lacks_io |= counted.lacks_io;
        rest += io;
        CountedWork { work: rest, ..counted }
    }
}

/// The first user process, or that of a container: it waits for orphans.
const INIT: u32 = 1;

impl Unexplained {
    pub(super) fn of(processes: &Processes, earlier: &EarlierThreads) -> Self {
        let pools = processes.iter().filter_map(|process| {
            let leader = process.leader.as_ref()?;
            let later = leader.state.as_deref()?;
            let work = Work::of_process;
            let (threads_before, children_before, lacks_io) = match process.seen {
                Seen::Started => Default::default(),
                Seen::AtBothEnds => {
                    let (before, after) = states_of(earlier, process.tgid)?;
                    let mut threads = work(before, Includes::Threads);
                    threads.take_io();
                    // The I/O includes that of children.
                    threads += work(after, Includes::Threads).take_io();
                    (threads, work(after, Includes::Children), lacks_io(after))
                }
            };
            let threads = work(later, Includes::Threads).less(threads_before).less(process.threads);
            let children = work(later, Includes::Children).less(children_before);
            let (living, all_children, imprecise_ns) = (process.threads, children, PRECISION_NS);
            let (seen, has_exited) = (process.seen, leader.has_exited);
            let pools =
                Unattributed { threads, children, living, all_children, imprecise_ns, lacks_io, has_exited, seen };
            Some((process.tgid, pools))
        });
        let (of_ancestors, without_ancestor, before_without_ancestor) = Default::default();
        Self { by_process: pools.collect(), of_ancestors, without_ancestor, before_without_ancestor }
    }

    /// Takes out what an exited thread of a living process did.
    pub(super) fn explain_thread(&mut self, tgid: u32, work: Work) {
        if let Some(pools) = self.by_process.get_mut(&tgid) {
            pools.threads.take_up_to(work);
        }
    }

    /// Takes out what an exited process had done before the window, which is no work of children in it.
    pub(super) fn explain_process(&mut self, gone: &GoneProcess, parents: &Parents) {
        let GoneProcess { ppid, start_ns, before } = *gone;
        if ppid > 0 {
            let rest = self.explain_child((ppid, start_ns), FoldedPart::Children, before, parents);
            self.before_without_ancestor += rest;
        }
    }

    /// Takes out the work of exited children of a process at that time, or of descendants of these.
    pub(super) fn explain_record(&mut self, parent: (u32, u64), of: FoldedPart, work: Work, parents: &Parents) {
        let rest = self.explain_child(parent, of, CountedWork { work, ..CountedWork::default() }, parents);
        self.without_ancestor += rest;
    }

    /// A parent that lives has waited for its children. Any ancestor can have waited for others: the parent, if another one has waited
    /// for that, or one that adopts orphans. What all others did is taken out first. Returns the work whose living ancestor is unknown.
    fn explain_child(
        &mut self,
        (ppid, start_ns): (u32, u64),
        of: FoldedPart,
        work: CountedWork,
        parents: &Parents,
    ) -> CountedWork {
        match self.nearest(ppid, start_ns, parents) {
            Some(ancestor)
                if ancestor == ppid && of != FoldedPart::Descendants && !self.by_process[&ancestor].has_exited =>
            {
                self.take_children(ppid, work);
            }
            Some(ancestor) => *self.of_ancestors.entry(ordered(ancestor, parents)).or_default() += work,
            // Nothing but init itself waits for its children.
            None if ppid == INIT => {}
            // Init has adopted it, or it was counted before the earlier capture had read the process that counts it, or outside.
            None if parents.are_known(ppid, start_ns) => {
                *self.of_ancestors.entry(ordered(INIT, parents)).or_default() += work;
            }
            None => return work,
        }
        CountedWork::default()
    }

    /// The nearest living ancestor of an exited child of `ppid` that started at that time.
    fn nearest(&self, ppid: u32, start_ns: u64, parents: &Parents) -> Option<u32> {
        let mut ancestors = parents.ancestors(ppid, start_ns).take(MOST_ANCESTORS);
        let counts = |process: &&KnownProcess| process.is_living && self.by_process.contains_key(&process.tgid);
        ancestors.find(counts).map(|process| process.tgid)
    }

    /// Takes work out of that of a process's children, and returns what it did not count.
    fn take_children(&mut self, tgid: u32, counted: CountedWork) -> CountedWork {
        let Some(pools) = self.by_process.get_mut(&tgid) else { return counted };
        let rest = pools.take_children(counted);
        let least_ns = rest.imprecise_ns.saturating_add(PRECISION_NS);
        CountedWork { work: rest.work.without_noise(Work::default(), least_ns), ..rest }
    }

    /// Takes out the work for which one of the living ancestors waited, from the nearest one on.
    fn give_ancestors(&mut self, parents: &Parents) {
        while let Some((place, work)) = self.of_ancestors.pop_first() {
            let rest = self.take_children(place.1, work);
            let Some(process) = parents.get(place.1, u64::MAX).filter(|_| !rest.work.is_zero()) else { continue };
            let above = self.nearest(process.ppid, process.start_ns, parents).map(|above| ordered(above, parents));
            match above {
                // A corrupt snapshot can have a circle.
                Some(above) if above > place => *self.of_ancestors.entry(above).or_default() += rest,
                None if process.ppid > 0 => self.before_without_ancestor += rest,
                _ => {}
            }
        }
    }

    /// Takes out work without a known ancestor: probably, init counts it, or the processes with the most work of children. None
    /// that started in the window has waited for what began before.
    fn give_without_ancestor(&mut self) {
        let mut pools: Vec<_> =
            self.by_process.iter().map(|(tgid, pools)| (*tgid, pools.children, pools.seen)).collect();
        pools.sort_by_key(|(tgid, children, _)| (*tgid != INIT, Reverse(children[MetricId::run_time_ns])));
        let mut before = std::mem::take(&mut self.before_without_ancestor);
        for (tgid, ..) in pools.iter().filter(|(.., seen)| *seen == Seen::AtBothEnds) {
            before = self.take_children(*tgid, before);
        }
        let mut work = std::mem::take(&mut self.without_ancestor);
        for (tgid, ..) in pools {
            work = self.take_children(tgid, work);
        }
    }

    /// What is left, as work of processes. More CPU time than `most_ns` is that of children that the earlier capture
    /// should have seen, since before the window: it is unknown how much of it is in the window.
    pub(super) fn into_threads(
        mut self,
        processes: &Processes,
        parents: &Parents,
        most_ns: Option<u64>,
    ) -> Vec<ThreadState> {
        self.give_ancestors(parents);
        self.give_without_ancestor();
        let mut all = Vec::new();
        for (tgid, Unattributed { threads, children, living, all_children, imprecise_ns, lacks_io, .. }) in
            self.by_process
        {
            let mut threads = threads.without_noise(living, PRECISION_NS);
            let mut children = children.without_noise(all_children, imprecise_ns);
            if !children.is_zero() {
                children += threads.take_io();
            }
            let Some(process) = processes.find(tgid) else { continue };
            if most_ns.is_some_and(|most| children[MetricId::run_time_ns] > most) {
                children = Work::default();
            }
            for (mut work, kind) in [(threads, ExitedWork::Threads), (children, ExitedWork::Children)] {
                if lacks_io {
                    work.take_io();
                }
                all.extend(exited(process, work.with_ticks_of_run_time(), kind, lacks_io));
            }
        }
        all
    }
}

/// Those with the most ancestors are first.
fn ordered(tgid: u32, parents: &Parents) -> (Reverse<usize>, u32) {
    (Reverse(parents.ancestors(tgid, u64::MAX).take(MOST_ANCESTORS).count()), tgid)
}

/// The counters that a process had in the earlier capture, when its threads were read and after all threads.
fn states_of(earlier: &EarlierThreads, tgid: u32) -> Option<(&ProcessState, &ProcessState)> {
    let leader = earlier.leader(tgid)?;
    leader.process.as_deref().zip(process_after(leader))
}

/// Whether the I/O of a process could not be read.
pub(super) fn lacks_io(process: &ProcessState) -> bool {
    !PROCESS.iter().any(|field| field.source.is_io() && field.get(process).is_some())
}

fn exited(process: &LaterProcess, work: Work, kind: ExitedWork, lacks_io: bool) -> Option<ThreadState> {
    let leader = process.leader.as_ref().filter(|_| !work.is_zero())?;
    let state = leader.state.as_deref()?;
    let known = |metric: MetricId| {
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
        metrics: work.metrics(known),
        ..ThreadState::default()
    })
}
