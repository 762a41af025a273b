//! User and system time of a thread in a window.
//!
//! The kernel knows their sum, and divides it by samples (`cputime_adjust` of kernel/sched/cputime.c): each new sample
//! changes how the past is divided. procfs prints no part smaller than before; values that BPF reads can be. Their sum
//! never goes backwards, but by the tick that rounding both parts down can cost.

use crate::model::{InWindow, MetricId, Metrics, proportional};

/// Metrics of user and system time in ticks.
pub(super) const CPU_TICKS: [MetricId; 2] = [MetricId::utime_clock_ticks, MetricId::stime_clock_ticks];

/// The increases of user and system time; `None` if their sum went backwards.
fn increases(earlier: [u64; 2], later: [u64; 2]) -> Option<[u64; 2]> {
    let sum = |[user, system]: [u64; 2]| user.saturating_add(system);
    let (before, after) = (sum(earlier), sum(later));
    let total = after.checked_sub(before).or_else(|| (before - after == 1).then_some(0))?;
    let user = later[0].saturating_sub(earlier[0]).min(total);
    Some([user, total - user])
}

/// Run time as user and system time, as the kernel divides it.
pub(super) fn divided(run_ns: u64, [user, system]: [u64; 2]) -> [u64; 2] {
    let system_ns = proportional(system, run_ns, u128::from(user) + u128::from(system));
    [run_ns - system_ns, system_ns]
}

/// Replaces user and system time by their increases since `earlier`, if both are known at both ends.
pub(super) fn subtract(earlier: [Option<u64>; 2], later: &mut Metrics) -> Option<InWindow> {
    let [Some(user), Some(system)] = earlier else { return None };
    let (later_user, later_system) = later.utime_clock_ticks.zip(later.stime_clock_ticks)?;
    let increases = increases([user, system], [later_user.number(), later_system.number()]);
    later.utime_clock_ticks = increases.map(|[user, _]| user.into());
    later.stime_clock_ticks = increases.map(|[_, system]| system.into());
    Some(increases.map_or(InWindow::Backwards, |[user, _]| InWindow::Increase(user)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_time_without_a_tick_is_user_time() {
        assert_eq!([[0, 0], [1, 3], [0, 3]].map(|ticks| divided(8, ticks)), [[8, 0], [2, 6], [0, 8]]);
    }

    #[test]
    fn a_part_that_a_new_sample_made_smaller_went_backwards() {
        assert_eq!(increases([5, 3], [9, 4]), Some([4, 1]));
        // 30 ms were system time by the only sample so far; then there were two, one of each kind.
        assert_eq!(increases([0, 3], [2, 2]), Some([1, 0]));
        assert_eq!(increases([3, 0], [2, 2]), Some([0, 1]));
        assert_eq!(increases([3, 5], [3, 4]), Some([0, 0]), "rounded down");
        assert_eq!(increases([3, 5], [3, 3]), None);
        assert_eq!(increases([u64::MAX, 1], [u64::MAX, 9]), Some([0, 0]), "saturates");
    }
}
