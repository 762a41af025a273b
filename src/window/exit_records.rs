//! Records of exited threads: what they did in a window, for whom, and in which counters of processes it is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::cpu_ticks::divided;
use super::earlier_threads::{process_after, subtract};
use super::unexplained::lacks_io;
use super::{
    Clocks, CountedWork, FoldedPart, GoneProcess, KnownProcess, MOST_ANCESTORS, PRECISION_NS, Parents, Processes,
    Unexplained, WindowStart, Work,
};
use crate::model::{ExitedThread, Includes, MetricId, Metrics, Name, Owner, ThreadId, ThreadSpan, ThreadState};

/// Where records belong in a window.
pub(super) struct PlacedRecords<'s> {
    start: &'s WindowStart,
    clocks: Clocks,
    pub(super) parents: Arc<Parents>,
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
        let mut unexplained = Unexplained::of(processes, &start.earlier);
        gone_processes(start, &parents).for_each(|gone| unexplained.explain_process(&gone, &parents));
        Self { start, clocks, parents, unexplained, recorded: BTreeSet::new(), impossible_delays: 0 }
    }

    /// The place of the earlier thread that a record continues.
    pub(super) fn earlier_place(&self, exited: &ThreadState) -> Option<usize> {
        let place = self.earlier_with_ids(exited)?;
        let executed = || ThreadId { tid: self.start.replaced[&exited.tgid], tgid: exited.tgid };
        let place = if self.is_replacement(exited) { self.start.earlier.find(executed())? } else { place };
        (!self.recorded.contains(&place)).then_some(place)
    }

    /// The place of the earlier thread with these ids and this start.
    fn earlier_with_ids(&self, exited: &ThreadState) -> Option<usize> {
        let place = self.start.earlier.find(exited.id())?;
        (exited.start_time_clock_ticks == self.start.earlier.threads[place].start_time_clock_ticks).then_some(place)
    }

    /// Whether a thread had got its ids from the first thread, which has a record of its own.
    fn is_replacement(&self, exited: &ThreadState) -> bool {
        let is_recorded = || self.earlier_with_ids(exited).is_some_and(|place| self.recorded.contains(&place));
        exited.is_leader() && self.start.replaced.contains_key(&exited.tgid) && is_recorded()
    }

    /// The thread of a record with its part of the window, and its work; `None` if it is of another time.
    pub(super) fn placed(&mut self, processes: &Processes, mut exited: ExitedThread) -> Option<(ExitedThread, Work)> {
        let ExitedThread { ppid, started_monotonic_ns, elapsed_ns, .. } = exited;
        let state = &mut exited.state;
        let known = self.earlier_place(state);
        let is_of_window = self.clocks.may_have_started(started_monotonic_ns) || self.is_replacement(state);
        if known.is_none() && !is_of_window {
            return None;
        }
        self.impossible_delays += u64::from(state.metrics.remove_impossible_delays(elapsed_ns));
        let alive_ns = self.clocks.alive_ns(started_monotonic_ns, elapsed_ns);
        state.span = Some(ThreadSpan { alive_ns, started: known.is_none(), exited: true, ..ThreadSpan::default() });
        if let Some(place) = known {
            self.recorded.insert(place);
            // Counters that went backwards are those of listed threads.
            subtract(&self.start.earlier.threads[place].metrics, &mut state.metrics, |_| {});
            state.cgroup = state.cgroup.take().or_else(|| self.start.earlier.threads[place].cgroup.clone());
            exited.cpu_time_ns = exited.cpu_time_ns.map(|life| cpu_time_in_window(&state.metrics, life));
        }
        let work = Work::of_thread(&state.metrics);
        let start_ns = self.start.clocks.boot_ns(state.start_time_clock_ticks);
        let process = self.parents.get(state.tgid, start_ns).copied();
        match process.filter(|process| process.is_living) {
            Some(process) => self.unexplained.explain_thread(process.tgid, work),
            None => self.unexplained.explain_record((ppid, start_ns), FoldedPart::Children, work, &self.parents),
        }
        state.owner = self.owner(processes, process, known);
        state.program = self.program(processes, process);
        if process.is_none_or(|process| !process.is_living && !process.is_in_earlier) {
            state.parent = self.starter(processes, ppid, start_ns);
        }
        Some((exited, work))
    }

    /// Takes out the work of folded threads of the process `tgid`, or of its children or their descendants.
    pub(super) fn place_folded(&mut self, (tgid, part): (u32, FoldedPart), work: Work) {
        let process = self.parents.get(tgid, u64::MAX);
        if part == FoldedPart::Threads && process.is_some_and(|process| process.is_living) {
            return self.unexplained.explain_thread(tgid, work);
        }
        let ppid = if part == FoldedPart::Threads { process.map_or(0, |process| process.ppid) } else { tgid };
        self.unexplained.explain_record((ppid, u64::MAX), part, work, &self.parents);
    }

    /// The owner of an exited thread: that of its process in the later capture, else in the earlier one.
    fn owner(&self, processes: &Processes, process: Option<KnownProcess>, known: Option<usize>) -> Option<Owner> {
        let later = process.filter(|process| process.is_living).and_then(|process| processes.owner(process.tgid));
        let earlier =
            || known.map(|place| &self.start.earlier.threads[place]).or_else(|| self.earlier_leader(process?));
        later.or_else(|| earlier()?.owner)
    }

    /// The name of the nearest living ancestor of a child that this process had at that time. The recorder starts nothing by
    /// itself.
    pub(super) fn starter(&self, processes: &Processes, ppid: u32, start_ns: u64) -> Option<Name> {
        let mut ancestors = self.parents.ancestors(ppid, start_ns).take(MOST_ANCESTORS);
        let ancestor = ancestors.find(|process| process.is_living)?;
        processes.name(ancestor.tgid).filter(|_| processes.owner(ancestor.tgid) != Some(Owner::Ctprof))
    }

    /// What the interpreter of an exited thread ran, as a capture of its process says.
    fn program(&self, processes: &Processes, process: Option<KnownProcess>) -> Option<Name> {
        let process = process?;
        match process.is_living {
            true => processes.program(process.tgid),
            false => self.earlier_leader(process)?.program.clone(),
        }
    }

    /// The leader of a process in the earlier capture.
    fn earlier_leader(&self, process: KnownProcess) -> Option<&'s ThreadState> {
        let KnownProcess { tgid, is_in_earlier: true, .. } = process else { return None };
        self.start.earlier.leader(tgid)
    }
}

/// User and system time in the window of a thread that was there before, in nanoseconds: its run time, divided as the ticks
/// in the window are, or those of its life; nothing, if it never met one.
fn cpu_time_in_window(increase: &Metrics, life: [u64; 2]) -> [u64; 2] {
    let Some(run_ns) = increase.run_time_ns.map(u64::from).filter(|_| life != [0; 2]) else { return life };
    let ticks = [increase.utime_clock_ticks, increase.stime_clock_ticks].map(|ticks| ticks.map_or(0, u64::from));
    divided(run_ns, if ticks == [0; 2] { life } else { ticks })
}

/// The processes of the earlier capture that the later one does not have, with what they and their children had done.
fn gone_processes<'s>(start: &'s WindowStart, parents: &'s Parents) -> impl Iterator<Item = GoneProcess> + 's {
    let is_gone = |(place, thread): &(usize, &ThreadState)| {
        let start_ns = start.clocks.boot_ns(thread.start_time_clock_ticks);
        let is_living = || parents.get(thread.tgid, start_ns).is_some_and(|known| known.is_living);
        thread.is_leader() && !start.found[*place].load(Ordering::Relaxed) && !is_living()
    };
    let leaders = start.earlier.threads.iter().enumerate().filter(is_gone);
    leaders.filter_map(|(_, leader)| {
        let (state, after) = leader.process.as_deref().zip(process_after(leader))?;
        let (tgid, start_ns) = (leader.tgid, start.clocks.boot_ns(leader.start_time_clock_ticks));
        let ppid = parents.get(tgid, start_ns).map(|known| known.ppid).filter(|ppid| *ppid > 0).or(after.ppid)?;
        let mut work = Work::of_process(state, Includes::Threads);
        let exact_ns = start.earlier.run_time_ns(tgid);
        let is_exact = exact_ns.is_some_and(|exact| exact >= work[MetricId::run_time_ns]);
        work[MetricId::run_time_ns] = work[MetricId::run_time_ns].max(exact_ns.unwrap_or(0));
        let of_children = Work::of_process(after, Includes::Children);
        let rounded = u64::from(!is_exact) + u64::from(of_children[MetricId::run_time_ns] > 0);
        work += of_children;
        let lacks_io = lacks_io(after);
        let before = CountedWork { work, imprecise_ns: rounded * PRECISION_NS, lacks_io };
        Some(GoneProcess { ppid, start_ns, before })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_time_in_the_window_is_divided_as_its_ticks_are_or_those_of_the_life() {
        let divided = |run_ns: Option<u64>, [user, system]: [u64; 2], life| {
            let increase = Metrics {
                run_time_ns: run_ns.map(Into::into),
                utime_clock_ticks: Some(user.into()),
                stime_clock_ticks: Some(system.into()),
                ..Metrics::default()
            };
            cpu_time_in_window(&increase, life)
        };
        assert_eq!(divided(Some(100), [3, 1], [1, 9]), [75, 25], "as the ticks of the window");
        assert_eq!(divided(Some(100), [0, 0], [10, 40]), [20, 80], "as its life, without a tick in the window");
        assert_eq!(divided(Some(100), [0, 0], [0, 0]), [0, 0]);
        assert_eq!(divided(None, [3, 1], [10, 40]), [10, 40], "as the kernel counted, without run time");
    }
}
