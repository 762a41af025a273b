//! Programs that processes left for others in a window, by execve(2): what they did before belongs to them.

use std::collections::BTreeMap;

use super::earlier_threads::subtract_part;
use super::{Clocks, EarlierThreads};
use crate::model::{ExitedThread, ThreadSpan, ThreadState};

/// Work of processes in the window until they left a program, by process id, start in ticks, and time of leaving by
/// `CLOCK_MONOTONIC`.
#[derive(Default)]
pub(super) struct LeftPrograms(BTreeMap<(u32, Option<u64>, u64), ExitedThread>);

impl LeftPrograms {
    /// Adds the record of an execve(2), unless it is of another time. Its `span` is the part of the window until then.
    pub(super) fn add(&mut self, earlier: &EarlierThreads, clocks: &Clocks, mut executed: ExitedThread) {
        let executed_ns = executed.exited_monotonic_ns();
        let state = &mut executed.state;
        // The record has the start of the process, which is that of the first thread.
        let is_same = |leader: &&ThreadState| leader.start_time_clock_ticks == state.start_time_clock_ticks;
        let leader = earlier.leader(state.tgid).filter(is_same);
        if leader.is_none() && !clocks.may_have_started(executed.started_monotonic_ns) {
            return;
        }
        state.metrics.remove_impossible_delays(executed.elapsed_ns);
        if let Some(leader) = leader {
            let key = |monotonic_ns| (state.tgid, state.start_time_clock_ticks, monotonic_ns);
            let mut others = self.0.range(key(0)..key(executed_ns)).map(|(_, left)| left.state.id());
            // The ids of the first thread are those of the last other one that has executed a program.
            let other = others.rfind(|id| id.tid != id.tgid).filter(|_| state.is_leader());
            if let Some(place) = earlier.find(other.unwrap_or(state.id())) {
                subtract_part(&earlier.threads[place].metrics, &mut state.metrics);
            }
            let program = leader.program.clone().filter(|_| leader.pcomm == state.pcomm);
            state.program = state.program.take().or(program);
            state.cgroup = state.cgroup.take().or_else(|| leader.cgroup.clone());
        }
        let alive_ns = clocks.alive_ns(executed.started_monotonic_ns, executed.elapsed_ns);
        state.span = Some(ThreadSpan { alive_ns, zombie_ns: 0, count: 0, started: leader.is_none(), exited: true });
        let key = (state.tgid, state.start_time_clock_ticks, executed_ns);
        self.0.insert(key, executed);
    }

    /// Returns the work of a first thread's process until it last left a program before this time.
    pub(super) fn before(&self, thread: &ThreadState, monotonic_ns: u64) -> Option<&ExitedThread> {
        let key = |monotonic_ns| (thread.tgid, thread.start_time_clock_ticks, monotonic_ns);
        let mut before = self.0.range(key(0)..key(monotonic_ns)).map(|(_, left)| left);
        before.next_back().filter(|_| thread.is_leader())
    }

    /// Returns the work in each program that was left.
    pub(super) fn iter(&self) -> impl Iterator<Item = ExitedThread> {
        self.0.iter().map(|((.., left_ns), whole)| {
            let mut part = whole.clone();
            if let Some(before) = self.before(&whole.state, *left_ns) {
                take(before, &mut part);
            }
            part
        })
    }
}

/// Takes from what a thread did in a window what it had done in it when it left a program.
pub(super) fn take(before: &ExitedThread, thread: &mut ExitedThread) {
    take_from_state(before, &mut thread.state);
    let less = before.cpu_time_ns.iter().flatten();
    thread.cpu_time_ns.iter_mut().flatten().zip(less).for_each(|(all, less)| *all = all.saturating_sub(*less));
}

/// Subtracts the earlier work from the state of a thread, as [`take`] does from its metrics.
pub(super) fn take_from_state(before: &ExitedThread, thread: &mut ThreadState) {
    subtract_part(&before.state.metrics, &mut thread.metrics);
    if let (Some(span), Some(less)) = (&mut thread.span, before.state.span) {
        span.alive_ns = span.alive_ns.saturating_sub(less.alive_ns);
    }
}
