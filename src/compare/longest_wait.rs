//! The longest single wait for a CPU of groups.
//!
//! The kernel keeps the longest wait of each thread since it started. If that rose in a window, it is exactly the longest wait
//! that ended there. If not, the thread can have waited for as long as all its waits together, and samples say how long it
//! waited at least.

use crate::model::{Cell, ThreadState};

/// The longest wait of a group's threads, as far as it is known, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongestWait {
    /// The longest that the kernel measured; `None` if it measured none in the window.
    measured: Option<u64>,
    /// The longest that samples saw; `None` if they saw none.
    sampled: Option<u64>,
    /// The longest that a thread without a measured wait can have waited at once: all its waits together.
    possible: u64,
}

impl LongestWait {
    pub(super) fn of_thread(thread: &ThreadState) -> Self {
        let metrics = &thread.metrics;
        let measured = metrics.cpu_delay_max_ns.or(metrics.wait_max).map(u64::from);
        // Several exited threads that are one have a measured wait if one of them has.
        let are_all_measured = measured.is_some() && thread.span.is_none_or(|span| span.count <= 1 || span.started);
        let all_waits = metrics.wait_time_ns.map_or(u64::MAX, u64::from);
        Self { measured, sampled: None, possible: if are_all_measured { 0 } else { all_waits } }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.measured = self.measured.max(other.measured);
        self.sampled = self.sampled.max(other.sampled);
        self.possible = self.possible.max(other.possible);
    }

    /// A wait that samples saw, in nanoseconds.
    pub(super) fn of_samples(ns: u64) -> Self {
        Self { sampled: Some(ns), ..Self::default() }
    }

    /// Returns the wait: a lower bound if a sample saw a longer one than the kernel measured, which has not ended, or if a thread
    /// without a measured one may have waited longer.
    pub(super) fn cell(self) -> Option<Cell> {
        let longest = self.measured.max(self.sampled)?;
        let is_exact = self.measured == Some(longest) && self.possible <= longest;
        Some(if is_exact { Cell::Number(longest) } else { Cell::AtLeast { at_least: longest } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareOptions, GroupBy, Grouping, show};
    use crate::model::{CtprofSnapshot, Owner, Reasons, SampledThreads, ThreadSpan, WindowInfo};

    /// A thread of a process with this longest wait, if the kernel measured one, and this time in all waits.
    fn thread(tgid: u32, pcomm: &str, measured: Option<u64>, all: Option<u64>) -> ThreadState {
        let mut thread =
            ThreadState { tid: tgid, tgid, pcomm: pcomm.into(), comm: pcomm.into(), ..ThreadState::default() };
        thread.metrics.cpu_delay_max_ns = measured.map(Into::into);
        thread.metrics.wait_time_ns = all.map(Into::into);
        thread
    }

    /// The longest wait of all groups together in a window, whose samples saw these processes waiting.
    fn longest(threads: Vec<ThreadState>, sampled: &[(u32, &str, u64)], axis: GroupBy) -> Option<Cell> {
        let mut window = CtprofSnapshot { threads, ..CtprofSnapshot::default() };
        window.head.window = Some(WindowInfo { duration_ns: 1_000, ..WindowInfo::default() });
        let named = |&(tgid, name, _): &(u32, &str, u64)| SampledThreads {
            tgid: Some(tgid),
            pcomm: name.into(),
            comm: name.into(),
            owner: (tgid == 9).then_some(Owner::Ctprof),
            ..SampledThreads::default()
        };
        let longest_waits = (0..).zip(sampled).map(|(place, (.., ns))| (place, *ns)).chain([(99, 99)]).collect();
        let threads = sampled.iter().map(named).collect();
        window.head.reasons = Some(Box::new(Reasons { threads, longest_waits, ..Reasons::default() }));
        let options =
            CompareOptions { grouping: Grouping { axis, ..Grouping::default() }, ..CompareOptions::default() };
        let report = show(&window, &options);
        let section = report.section(crate::model::Section::Derived)?;
        let row = section.rows.iter().find(|row| row.name == "longest" && section.groups[row.group].is_all())?;
        row.values.baseline.clone()
    }

    fn at_least(at_least: u64) -> Option<Cell> {
        Some(Cell::AtLeast { at_least })
    }

    #[test]
    fn a_wait_is_exact_unless_another_thread_may_have_waited_longer() {
        let of = |threads: &[(Option<u64>, Option<u64>)], sampled: &[(u32, &str, u64)]| {
            let threads = (1..).zip(threads).map(|(tgid, (measured, all))| thread(tgid, "a", *measured, *all));
            let threads: Vec<_> = threads.collect();
            let all = [GroupBy::Command, GroupBy::Pid, GroupBy::Tid, GroupBy::Comm, GroupBy::All]
                .map(|axis| longest(threads.clone(), sampled, axis));
            assert!(all.iter().all(|other| *other == all[0]), "{all:?}");
            all[0].clone()
        };
        let exact = Some(Cell::Number(40));
        assert_eq!(of(&[(Some(40), Some(90))], &[]), exact);
        assert_eq!(of(&[(Some(40), Some(90)), (Some(7), Some(70))], &[(1, "a", 40)]), exact);
        assert_eq!(of(&[(Some(40), Some(90)), (None, Some(40))], &[(2, "a", 30)]), exact, "40 ns in all its waits");
        assert_eq!(of(&[(Some(40), Some(90)), (None, Some(41))], &[]), at_least(40));
        assert_eq!(of(&[(Some(40), Some(90)), (None, None)], &[]), at_least(40), "its waits are unknown");
        assert_eq!(of(&[(Some(40), Some(90))], &[(1, "a", 41)]), at_least(41), "the wait has not ended");
        assert_eq!(of(&[(None, Some(90)), (None, Some(90))], &[(1, "a", 5), (2, "a", 6)]), at_least(6));
        assert_eq!(of(&[(None, Some(90))], &[]), None, "no source is not 0");
        assert_eq!(of(&[(Some(0), Some(0))], &[]), Some(Cell::Number(0)));
    }

    #[test]
    fn exited_threads_that_are_one_may_have_waited_longer_than_the_one_that_was_measured() {
        let exited = |count, started| {
            let span = ThreadSpan { count, started, exited: true, ..ThreadSpan::default() };
            let threads = vec![ThreadState { span: Some(span), ..thread(0, "a", Some(40), Some(90)) }];
            longest(threads, &[], GroupBy::Command)
        };
        assert_eq!(
            [(1, false), (5, true)].map(|(count, started)| exited(count, started)),
            [Some(Cell::Number(40)), Some(Cell::Number(40))]
        );
        assert_eq!(exited(5, false), at_least(40));
    }

    #[test]
    fn samples_of_other_threads_of_the_name_are_left_out() {
        let own = ThreadState { owner: Some(Owner::Ctprof), ..thread(9, "a", None, Some(90)) };
        let threads = vec![thread(1, "a", None, Some(90)), own];
        assert_eq!(longest(threads, &[(1, "a", 5), (3, "gone", 7)], GroupBy::Pid), at_least(5));
    }
}
