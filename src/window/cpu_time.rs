//! The host's CPU time between the moments at which threads were read.

use crate::model::{HostCpuTime, SnapshotHead};

/// Threads that are read for longer are read at different moments.
const LONG_WALK_NS: u64 = 100_000_000;

/// CPU time of the host around the reading of the threads of one capture.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuReadings {
    before: Option<HostCpuTime>,
    after: Option<HostCpuTime>,
    /// How long it took to read the threads.
    pub(super) walk_ns: Option<u64>,
}

impl CpuReadings {
    pub(super) fn from_head(snapshot: &SnapshotHead) -> Self {
        let walk_ns = snapshot.capture.as_ref().and_then(|capture| capture.walk_ns);
        Self { before: snapshot.cpu_time.clone(), after: snapshot.cpu_time_after.clone(), walk_ns }
    }

    /// Whether the CPU time at any moment of the capture is known.
    pub(super) fn cover_the_walk(&self) -> bool {
        self.before.is_some() && self.after.is_some() && self.walk_ns > Some(0)
    }

    /// Returns the time that both captures took to read the threads, in nanoseconds, ignoring captures that took only a moment.
    pub(super) fn reading_ns(&self, later: &Self) -> Option<u64> {
        let long = [self.walk_ns, later.walk_ns].into_iter().flatten().filter(|walk_ns| *walk_ns >= LONG_WALK_NS);
        long.reduce(u64::saturating_add)
    }

    /// The CPU time so many nanoseconds after the start: in proportion between both readings.
    fn at(&self, ns: u64) -> Option<HostCpuTime> {
        let (before, Some(after)) = (self.before.as_ref()?, &self.after) else { return self.before.clone() };
        // Files of 0.2.0 do not say when it was read: first and last.
        let first = before.at_ns.unwrap_or(0);
        let Some(last) = after.at_ns.or(self.walk_ns) else { return Some(before.clone()) };
        let (since, whole) = (ns.clamp(first, last.max(first)) - first, last.saturating_sub(first).max(1));
        let between = |a: Option<u64>, b: Option<u64>| {
            let (a, b) = a.zip(b)?;
            let share = u128::from(b.saturating_sub(a)) * u128::from(since);
            Some(a.saturating_add(u64::try_from(share / u128::from(whole)).unwrap_or(u64::MAX)))
        };
        Some(combined(before, after, between))
    }
}

/// The increase of the host's CPU time between moments of two captures, in nanoseconds since their starts; `None`
/// if one lacks it.
pub(super) fn increase(earlier: (&CpuReadings, u64), later: (&CpuReadings, u64)) -> Option<HostCpuTime> {
    let (a, b) = (earlier.0.at(earlier.1)?, later.0.at(later.1)?);
    Some(combined(&a, &b, |a, b| b?.checked_sub(a?)))
}

/// The CPU time of the later capture's process up to that moment: since the moment of the earlier one, if it made
/// both.
pub(super) fn own(earlier: Option<(&CpuReadings, u64)>, later: (&CpuReadings, u64)) -> Option<u64> {
    let since = match earlier {
        Some((readings, ns)) => readings.at(ns)?.own_ns?,
        None => 0,
    };
    later.0.at(later.1)?.own_ns?.checked_sub(since)
}

/// Each counter from both. If CPUs came or went in between, their number is unknown, and so are the counters of
/// `/proc/schedstat`, which are of the CPUs that are online.
fn combined(
    a: &HostCpuTime,
    b: &HostCpuTime,
    counter: impl Fn(Option<u64>, Option<u64>) -> Option<u64>,
) -> HostCpuTime {
    let cpus = b.cpus.filter(|_| a.cpus == b.cpus);
    let of_online = |a, b| counter(a, b).filter(|_| cpus.is_some());
    HostCpuTime {
        cpus,
        task_ticks: counter(a.task_ticks, b.task_ticks),
        idle_ticks: counter(a.idle_ticks, b.idle_ticks),
        iowait_ticks: counter(a.iowait_ticks, b.iowait_ticks),
        interrupt_ticks: counter(a.interrupt_ticks, b.interrupt_ticks),
        steal_ticks: counter(a.steal_ticks, b.steal_ticks),
        started: counter(a.started, b.started),
        run_ns: of_online(a.run_ns, b.run_ns),
        wait_ns: of_online(a.wait_ns, b.wait_ns),
        own_ns: counter(a.own_ns, b.own_ns),
        at_ns: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(before: u64, after: Option<u64>) -> CpuReadings {
        let time = |idle| HostCpuTime { idle_ticks: Some(idle), cpus: Some(2), ..HostCpuTime::default() };
        CpuReadings { before: Some(time(before)), after: after.map(time), walk_ns: Some(100) }
    }

    #[test]
    fn a_moment_during_a_capture_is_in_proportion_between_its_readings() {
        let idle = |a: (&CpuReadings, u64), b: (&CpuReadings, u64)| increase(a, b).unwrap().idle_ticks;
        let (a, b) = (readings(10, Some(30)), readings(50, Some(60)));
        assert_eq!(idle((&a, 0), (&b, 0)), Some(40));
        assert_eq!(idle((&a, 50), (&b, 50)), Some(35));
        assert_eq!(idle((&a, 100), (&b, 999)), Some(30));
        assert_eq!(idle((&readings(10, None), 50), (&b, 0)), Some(40), "a file without the second reading");
        assert!(increase((&CpuReadings::default(), 0), (&b, 0)).is_none());
    }

    #[test]
    fn only_captures_that_read_threads_for_long_say_so() {
        let walks = |a, b| {
            let of = |walk_ns| CpuReadings { walk_ns: Some(walk_ns), ..CpuReadings::default() };
            of(a).reading_ns(&of(b))
        };
        let [short, long] = [LONG_WALK_NS - 1, LONG_WALK_NS];
        assert_eq!([walks(short, short), walks(long, short), walks(long, long)], [None, Some(long), Some(2 * long)]);
    }

    #[test]
    fn the_values_of_a_capture_are_of_the_moments_at_which_they_were_read() {
        let mut stopped = readings(10, Some(30));
        // It was stopped for 5,000 ns before the first value, and as long again before the second one.
        (stopped.before.as_mut().unwrap().at_ns, stopped.after.as_mut().unwrap().at_ns) = (Some(5_000), Some(10_100));
        let idle = |ns| stopped.at(ns).unwrap().idle_ticks;
        assert_eq!([0, 5_000, 7_550, 20_000].map(idle), [Some(10), Some(10), Some(20), Some(30)]);
    }

    #[test]
    fn the_process_that_made_both_captures_counts_from_the_first_on() {
        let own = |ns| HostCpuTime { own_ns: Some(ns), ..HostCpuTime::default() };
        let readings =
            |before, after| CpuReadings { before: Some(own(before)), after: Some(own(after)), walk_ns: Some(100) };
        let (a, b) = (readings(10, 30), readings(100, 140));
        assert_eq!(super::own(Some((&a, 50)), (&b, 25)), Some(90));
        assert_eq!(super::own(None, (&b, 25)), Some(110));
        assert_eq!(super::own(Some((&CpuReadings::default(), 0)), (&b, 25)), None);
    }

    #[test]
    fn cpus_that_came_or_went_leave_their_number_and_the_run_time_of_tasks_unknown() {
        let of =
            |cpus| HostCpuTime { cpus: Some(cpus), idle_ticks: Some(7), run_ns: Some(9), ..HostCpuTime::default() };
        let readings =
            |before, after| CpuReadings { before: Some(of(before)), after: Some(of(after)), walk_ns: Some(100) };
        let between = |earlier: [u64; 2], later: [u64; 2]| {
            let [a, b] = [earlier, later].map(|[before, after]| readings(before, after));
            let window = increase((&a, 50), (&b, 50)).unwrap();
            (window.cpus, window.run_ns, window.idle_ticks)
        };
        assert_eq!(between([4, 4], [4, 4]), (Some(4), Some(0), Some(0)));
        for (earlier, later) in [([4, 4], [3, 3]), ([4, 3], [3, 3]), ([4, 4], [4, 3]), ([3, 3], [4, 4])] {
            assert_eq!(between(earlier, later), (None, None, Some(0)), "{earlier:?} {later:?}");
        }
    }

    #[test]
    fn an_idle_counter_that_went_backwards_is_absent() {
        let window = increase((&readings(10, None), 0), (&readings(9, None), 0)).unwrap();
        assert_eq!((window.idle_ticks, window.run_ns), (None, None));
    }
}
