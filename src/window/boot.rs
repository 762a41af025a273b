//! The time between two captures of one boot.

use std::collections::BTreeSet;

use crate::model::sorted::CollectSorted;
use crate::model::{NS_PER_TICK, SnapshotHead, ThreadState, start_ns};

/// Parents need a moment to wait for their children: an exited process is a zombie if it is listed for longer.
const SHORTEST_ZOMBIE_NS: u64 = 10_000_000;

/// Why two snapshots are not the ends of a window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum NoWindow {
    #[error("cannot build a window across a reboot; `ctprof compare` compares totals")]
    DifferentBoots,
    #[error(
        "a snapshot has no boot id (is /proc/sys hidden?), so nothing says that both are of one boot; record both ends by one \
         process: `ctprof record`"
    )]
    UnknownBoot,
    #[error("the snapshots are of different processes; capture both with the same --pid")]
    DifferentProcesses,
    #[error(
        "the clock since boot advanced by more than the time between the snapshots: one is from a time namespace, or \
         the clock was set back; capture both in the same namespace"
    )]
    DifferentClocks,
    #[error("the second snapshot is the earlier one; swap them")]
    NotLater,
    #[error(
        "one of the files is a window, not a snapshot: show it alone, or compare two windows with `ctprof compare`"
    )]
    IsWindow,
}

/// The clocks of both ends of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clocks {
    /// Length without time suspended, in nanoseconds.
    pub(super) duration_ns: u64,
    pub(super) suspended_ns: Option<u64>,
    pub(super) start_boottime_ns: u64,
    pub(super) start_monotonic_ns: Option<u64>,
    pub(super) end_monotonic_ns: Option<u64>,
}

/// Process or processes that took both captures of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakenBy {
    /// The same process took both, and no process outlives its boot: even captures without a boot id are from one boot.
    OneProcess,
    /// Any processes: only the boot id says that the captures are of one boot.
    Anyone,
}

/// Shorter differences between the clocks are the time between reading them.
const SHORTEST_SUSPEND_NS: u64 = 1_000_000;

impl Clocks {
    pub(super) fn between(earlier: &SnapshotHead, later: &SnapshotHead, taken_by: TakenBy) -> Result<Self, NoWindow> {
        if earlier.window.is_some() || later.window.is_some() {
            return Err(NoWindow::IsWindow);
        }
        match boot(earlier).zip(boot(later)) {
            Some((first, second)) if first != second => return Err(NoWindow::DifferentBoots),
            None if taken_by == TakenBy::Anyone => return Err(NoWindow::UnknownBoot),
            _ => {}
        }
        if processes(earlier) != processes(later) {
            return Err(NoWindow::DifferentProcesses);
        }
        let (a, b) = (earlier.boottime_ns(), later.boottime_ns());
        let (Some(a), Some(b)) = (a, b) else { return Err(NoWindow::UnknownBoot) };
        let since_boot = b.checked_sub(a).ok_or(NoWindow::NotLater)?;
        let awake = monotonic(later).zip(monotonic(earlier)).and_then(|(b, a)| b.checked_sub(a));
        let suspended = awake.map(|awake| since_boot.saturating_sub(awake)).filter(|time| *time >= SHORTEST_SUSPEND_NS);
        if suspended.is_some_and(|time| !has_passed(time, earlier, later)) {
            return Err(NoWindow::DifferentClocks);
        }
        Ok(Self {
            duration_ns: awake.filter(|time| *time > 0).unwrap_or(since_boot),
            suspended_ns: suspended,
            start_boottime_ns: a,
            start_monotonic_ns: monotonic(earlier),
            end_monotonic_ns: monotonic(later),
        })
    }

    /// Whether a thread with this start time, in ticks since boot, started in the window; false if it is older than the clock.
    pub(super) fn started_within(&self, start_ticks: u64) -> bool {
        start_ns(start_ticks).is_some() && start_ticks >= self.start_boottime_ns / NS_PER_TICK
    }

    /// Whether a thread whose record says this start time started in the window. Others exited before they could
    /// be captured, or started after the window.
    pub(super) fn may_have_started(&self, monotonic_ns: u64) -> bool {
        self.start_monotonic_ns.is_none_or(|start| monotonic_ns >= start)
            && self.end_monotonic_ns.is_none_or(|end| monotonic_ns < end)
    }

    /// Moves both ends to so many nanoseconds after the starts of the captures.
    pub(super) fn move_ends(&mut self, begin_ns: u64, end_ns: u64) {
        self.duration_ns = self.duration_ns.saturating_add(end_ns).saturating_sub(begin_ns);
        self.start_monotonic_ns = self.start_monotonic_ns.map(|start| start.saturating_add(begin_ns));
        self.end_monotonic_ns = self.end_monotonic_ns.map(|end| end.saturating_add(end_ns));
    }

    /// How long a thread was alive in the window, in nanoseconds.
    pub(super) fn alive_ns(&self, started_monotonic_ns: u64, elapsed_ns: u64) -> u64 {
        let before = self.start_monotonic_ns.map_or(0, |start| start.saturating_sub(started_monotonic_ns));
        elapsed_ns.saturating_sub(before).min(self.duration_ns)
    }

    /// How long a thread of the later capture had been a zombie, of the time in which it was listed, in nanoseconds; 0 if it
    /// has not exited, or if nobody saw it exit.
    pub(super) fn zombie_ns(&self, thread: &ThreadState, listed_ns: u64) -> u64 {
        let exited_ns = thread.exited_monotonic_ns.filter(|_| thread.has_exited());
        let dead_ns = exited_ns
            .zip(self.end_monotonic_ns)
            .map_or(0, |(exited_ns, end_ns)| end_ns.saturating_add(thread.read_after_ns()).saturating_sub(exited_ns));
        if dead_ns < SHORTEST_ZOMBIE_NS { 0 } else { dead_ns.min(listed_ns) }
    }

    /// Time since boot of a start in ticks, in nanoseconds; 0, before all others, if it is unknown or before the clock began.
    pub(super) fn boot_ns(&self, start_ticks: Option<u64>) -> u64 {
        start_ticks.and_then(start_ns).unwrap_or(0)
    }

    /// Returns the time from the start of the window to the start of a thread, in nanoseconds. Start times include the time suspended,
    /// which the window does not: one that is later than the window is long was after it.
    pub(super) fn until_start(&self, start_ticks: u64) -> u64 {
        let since_boot = start_ticks.saturating_mul(NS_PER_TICK).saturating_sub(self.start_boottime_ns);
        let suspended = self.suspended_ns.filter(|_| since_boot > self.duration_ns).unwrap_or(0);
        since_boot.saturating_sub(suspended).min(self.duration_ns)
    }
}

/// Checks that two snapshots are the ends of a window.
pub fn check(earlier: &SnapshotHead, later: &SnapshotHead) -> Result<(), NoWindow> {
    Clocks::between(earlier, later, TakenBy::Anyone).map(drop)
}

/// Whether the wall clock, if both snapshots have it, says that at least half of this time has passed: it may have been
/// adjusted meanwhile.
fn has_passed(time_ns: u64, earlier: &SnapshotHead, later: &SnapshotHead) -> bool {
    let [first, second] = [earlier, later].map(|snapshot| snapshot.captured_at_unix_ns);
    first == 0 || second == 0 || second.saturating_sub(first) >= time_ns / 2
}

fn boot(snapshot: &SnapshotHead) -> Option<&str> {
    snapshot.host.as_ref()?.boot_id.as_deref()
}

/// The selected processes; empty for all.
fn processes(snapshot: &SnapshotHead) -> BTreeSet<u32> {
    snapshot.capture.iter().flat_map(|capture| &capture.options.pids).copied().into_set()
}

fn monotonic(snapshot: &SnapshotHead) -> Option<u64> {
    snapshot.capture.as_ref()?.monotonic_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CaptureInfo, HostContext};

    fn snapshot(boot: Option<&str>, monotonic: Option<u64>, boottime: Option<u64>) -> SnapshotHead {
        let capture = CaptureInfo { monotonic_ns: monotonic, boottime_ns: boottime, ..CaptureInfo::default() };
        let host = HostContext { boot_id: boot.map(str::to_owned), ..HostContext::default() };
        SnapshotHead { capture: Some(capture), host: Some(host), ..SnapshotHead::default() }
    }

    #[test]
    fn time_suspended_is_no_part_of_the_window() {
        let second = 1_000_000_000;
        let a = snapshot(Some("x"), Some(5 * second), Some(7 * second));
        let b = snapshot(Some("x"), Some(8 * second), Some(70 * second));
        let clocks = Clocks::between(&a, &b, TakenBy::Anyone).unwrap();
        assert_eq!((clocks.duration_ns, clocks.suspended_ns), (3 * second, Some(60 * second)));
        assert!(clocks.started_within(700) && !clocks.started_within(699));
        assert_eq!(
            [800, 6900].map(|ticks| clocks.until_start(ticks)),
            [second, 2 * second],
            "before and after the suspend"
        );
        let before_the_clock = (-second.cast_signed()).cast_unsigned() / 10_000_000;
        assert!(!clocks.started_within(before_the_clock), "older than the time namespace");
        assert_eq!([Some(before_the_clock), Some(800)].map(|ticks| clocks.boot_ns(ticks)), [0, 8 * second]);
        let awake = snapshot(Some("x"), Some(5 * second), Some(70 * second));
        assert_eq!(
            Clocks::between(&a, &awake, TakenBy::Anyone).unwrap().duration_ns,
            63 * second,
            "there was no other time"
        );
    }

    #[test]
    fn time_suspended_must_have_passed_by_the_wall_clock_where_both_captures_know_it() {
        let second = 1_000_000_000;
        let between = |first: u64, last: u64| {
            let mut a = snapshot(Some("x"), Some(5 * second), Some(7 * second));
            let mut b = snapshot(Some("x"), Some(8 * second), Some(70 * second));
            (a.captured_at_unix_ns, b.captured_at_unix_ns) = (first * second, last * second);
            Clocks::between(&a, &b, TakenBy::Anyone).map(|clocks| clocks.suspended_ns)
        };
        let suspended = Ok(Some(60 * second));
        assert_eq!([between(1000, 1063), between(1000, 1030)], [suspended.clone(), suspended.clone()]);
        assert_eq!(between(1000, 1029), Err(NoWindow::DifferentClocks));
        assert_eq!([between(0, 10), between(1000, 0)], [suspended.clone(), suspended]);
    }

    #[test]
    fn a_window_needs_two_captures_of_one_boot_in_order() {
        let taken_by = |taken_by, a: (Option<&str>, Option<u64>), b: (Option<&str>, Option<u64>)| {
            let (a, b) = (snapshot(a.0, None, a.1), snapshot(b.0, None, b.1));
            Clocks::between(&a, &b, taken_by).map(|clocks| clocks.duration_ns)
        };
        let of = |a, b| taken_by(TakenBy::Anyone, a, b);
        assert_eq!(of((Some("x"), Some(1)), (Some("x"), Some(4))), Ok(3));
        assert_eq!(of((Some("x"), Some(4)), (Some("x"), Some(1))), Err(NoWindow::NotLater));
        assert_eq!(of((Some("x"), Some(4)), (Some("x"), Some(4))), Ok(0));
        assert_eq!(of((Some("x"), Some(1)), (Some("y"), Some(4))), Err(NoWindow::DifferentBoots));
        assert_eq!(of((None, Some(1)), (Some("y"), Some(4))), Err(NoWindow::UnknownBoot));
        // A process does not outlive its boot.
        let of_one = |a, b| taken_by(TakenBy::OneProcess, a, b);
        assert_eq!(of_one((None, Some(1)), (None, Some(4))), Ok(3));
        assert_eq!(of_one((None, Some(1)), (Some("y"), Some(4))), Ok(3), "/proc/sys was hidden at first");
        assert_eq!(of_one((None, Some(4)), (None, Some(1))), Err(NoWindow::NotLater));
        assert_eq!(of_one((Some("x"), Some(1)), (Some("y"), Some(4))), Err(NoWindow::DifferentBoots));
    }
}
