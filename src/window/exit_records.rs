//! Records of exited threads: what they did in a window, and for whom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cpu_ticks::divided;
use super::earlier_threads::subtract;
use super::left_programs::take;
use super::{Clocks, KnownProcess, MOST_ANCESTORS, Parents, Processes, WindowStart, Work};
use crate::model::{ExitedThread, Metrics, Name, Owner, ThreadId, ThreadSpan, ThreadState};

/// Where records belong in a window.
pub(super) struct PlacedRecords<'s> {
    start: &'s WindowStart,
    clocks: Clocks,
    pub(super) parents: Arc<Parents>,
    /// Places of the earlier threads that have a record.
    pub(super) recorded: BTreeSet<usize>,
    /// Threads replaced according to the records so far, as in [`WindowStart::replaced`].
    replaced: BTreeMap<(u32, Option<u64>), u32>,
    /// Number of records with delays that are longer than their thread had lived.
    pub(super) impossible_delays: u64,
}

impl<'s> PlacedRecords<'s> {
    /// Has placed no record yet.
    pub(super) fn new(start: &'s WindowStart, clocks: Clocks, parents: Arc<Parents>) -> Self {
        Self { start, clocks, parents, recorded: BTreeSet::new(), replaced: BTreeMap::new(), impossible_delays: 0 }
    }

    /// The place of the earlier thread that a record continues.
    pub(super) fn earlier_place(&self, exited: &ThreadState) -> Option<usize> {
        let earlier = &self.start.earlier;
        let place = match self.replacement(exited) {
            Some(tid) => earlier.find(ThreadId { tid, ..exited.id() })?,
            None => earlier
                .find(exited.id())
                .filter(|place| exited.start_time_clock_ticks == earlier.threads[*place].start_time_clock_ticks)?,
        };
        (!self.recorded.contains(&place)).then_some(place)
    }

    /// Returns the id that a thread had before it got the id of the first thread, which has a record of its own.
    fn replacement(&self, exited: &ThreadState) -> Option<u32> {
        let id = (exited.tgid, exited.start_time_clock_ticks);
        self.replaced.get(&id).copied().filter(|_| exited.is_leader())
    }

    /// Whether the later capture can have a thread under the ids of the first one: no other has got them since.
    pub(super) fn has_last_ids(&self, exited: &ThreadState) -> bool {
        let id = (exited.tgid, exited.start_time_clock_ticks);
        !exited.is_leader() || self.replaced.get(&id) == self.start.replaced.get(&id)
    }

    /// The thread of a record with its part of the window, and its work; `None` if it is of another time.
    pub(super) fn placed(&mut self, processes: &Processes, mut exited: ExitedThread) -> Option<(ExitedThread, Work)> {
        let ExitedThread { started_monotonic_ns, elapsed_ns, .. } = exited;
        let state = &mut exited.state;
        let earlier_place = self.earlier_place(state);
        let replacement = self.replacement(state);
        let is_of_window = self.start.clocks.may_have_started(started_monotonic_ns) || replacement.is_some();
        if earlier_place.is_none() && !is_of_window {
            return None;
        }
        if let Some(tid) = exited.replaced_by {
            self.replaced.insert((state.tgid, state.start_time_clock_ticks), tid);
        }
        self.impossible_delays += u64::from(state.metrics.remove_impossible_delays(elapsed_ns));
        let alive_ns = self.clocks.alive_ns(started_monotonic_ns, elapsed_ns);
        state.span =
            Some(ThreadSpan { alive_ns, started: earlier_place.is_none(), exited: true, ..ThreadSpan::default() });
        if let Some(place) = earlier_place {
            self.recorded.insert(place);
            // Counters that went backwards are those of listed threads.
            subtract(&self.start.earlier.threads[place].metrics, &mut state.metrics, |_| {});
            state.cgroup = state.cgroup.take().or_else(|| self.start.earlier.threads[place].cgroup.clone());
        }
        if let Some(before) = self.start.left.before(&exited.state, exited.exited_monotonic_ns()) {
            take(before, &mut exited);
        }
        if earlier_place.is_some() {
            exited.cpu_time_ns = exited.cpu_time_ns.map(|life| cpu_time_in_window(&exited.state.metrics, life));
        }
        let process = self.identify(processes, &mut exited, earlier_place);
        exited.state.program = exited.state.program.take().or_else(|| self.program(processes, process));
        let work = Work::of_thread(&exited.state.metrics);
        Some((exited, work))
    }

    /// Returns the row of a program that a process has left, and the work done in it.
    pub(super) fn left(&self, processes: &Processes, mut left: ExitedThread) -> (ExitedThread, Work) {
        self.identify(processes, &mut left, None);
        left.cpu_time_ns = left.cpu_time_ns.map(|life| cpu_time_in_window(&left.state.metrics, life));
        let work = Work::of_thread(&left.state.metrics);
        (left, work)
    }

    /// Finds out whose thread it was that had a record, and what is known of its process.
    fn identify(
        &self,
        processes: &Processes,
        exited: &mut ExitedThread,
        earlier_place: Option<usize>,
    ) -> Option<KnownProcess> {
        let start_ns = self.start.clocks.boot_ns(exited.state.start_time_clock_ticks);
        let process = self.parents.get(exited.state.tgid, start_ns).copied();
        exited.state.owner = exited.state.owner.or_else(|| self.owner(processes, process, earlier_place));
        if process.is_none_or(|process| !process.is_living && !process.is_in_earlier) {
            exited.state.parent = self.starter(processes, exited.ppid, start_ns);
        }
        process
    }

    /// Returns the owner of an exited thread: the owner of its process in the later capture, else in the earlier one.
    fn owner(
        &self,
        processes: &Processes,
        process: Option<KnownProcess>,
        earlier_place: Option<usize>,
    ) -> Option<Owner> {
        let later = process.filter(|process| process.is_living).and_then(|process| processes.owner(process.tgid));
        let earlier =
            || earlier_place.map(|place| &self.start.earlier.threads[place]).or_else(|| self.earlier_leader(process?));
        later.or_else(|| earlier()?.owner)
    }

    /// The name of the nearest living ancestor of a child that this process had at that time. The recorder starts nothing by
    /// itself.
    pub(super) fn starter(&self, processes: &Processes, ppid: u32, start_ns: u64) -> Option<Name> {
        let mut ancestors = self.parents.ancestors(ppid, start_ns).take(MOST_ANCESTORS);
        let ancestor = ancestors.find(|process| process.is_living)?;
        processes.name(ancestor.tgid).filter(|_| processes.owner(ancestor.tgid) != Some(Owner::Ctprof))
    }

    /// Returns the program that the interpreter of an exited thread ran, from a capture of its process.
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

/// Returns the user and system time in the window, in nanoseconds, of a thread that started before it. The run time is divided in
/// proportion to the ticks in the window, else to the ticks of the thread's life; a thread that never met a tick has neither.
fn cpu_time_in_window(increase: &Metrics, life: [u64; 2]) -> [u64; 2] {
    let Some(run_ns) = increase.run_time_ns.map(u64::from).filter(|_| life != [0; 2]) else { return life };
    let ticks = [increase.utime_clock_ticks, increase.stime_clock_ticks].map(|ticks| ticks.map_or(0, u64::from));
    divided(run_ns, if ticks == [0; 2] { life } else { ticks })
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
