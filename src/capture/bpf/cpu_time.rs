//! User and system time as procfs prints them.

use crate::model::proportional;

/// CPU time of a thread or of a process, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTime {
    /// User time sampled at ticks.
    pub(super) user: u64,
    /// System time sampled at ticks.
    pub(super) system: u64,
    /// Exact run time, in nanoseconds.
    pub(super) run: u64,
}

/// Times that procfs printed last (`struct prev_cputime`), in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) user: u64,
    pub(super) system: u64,
}

impl CpuTime {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            user: self.user.wrapping_add(other.user),
            system: self.system.wrapping_add(other.system),
            run: self.run.wrapping_add(other.run),
        }
    }

    /// User and system time whose sum is the exact run time, divided like the samples, and never less than procfs
    /// printed before (`cputime_adjust` of kernel/sched/cputime.c).
    pub(super) fn adjusted(self, printed: Printed) -> (u64, u64) {
        let Self { user, system, run } = self;
        if printed.user.saturating_add(printed.system) >= run {
            return (printed.user, printed.system);
        }
        let system = proportional(system, run, u128::from(user) + u128::from(system)).max(printed.system);
        let user = (run - system).max(printed.user);
        (user, run - user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adjusted([user, system, run, printed_user, printed_system]: [u64; 5]) -> (u64, u64) {
        CpuTime { user, system, run }.adjusted(Printed { user: printed_user, system: printed_system })
    }

    /// User, system and run time, and the last printed user and system time, of threads that then slept; user and system
    /// time of `stat`, in ticks, right after. Linux 6.18.
    const RECORDED: [([u64; 5], [u64; 2]); 17] = [
        ([4_000_000, 4_000_000, 6_654_590, 0, 0], [0, 0]),
        ([8_000_000, 0, 15_915_290, 15_915_290, 0], [1, 0]),
        ([4_000_000, 16_000_000, 20_725_530, 0, 17_387_370], [0, 1]),
        ([16_000_000, 36_000_000, 44_018_570, 13_216_020, 11_785_230], [1, 3]),
        ([44_000_000, 4_000_000, 55_533_050, 0, 0], [5, 0]),
        ([32_000_000, 0, 59_132_840, 0, 0], [5, 0]),
        ([24_000_000, 20_000_000, 60_894_040, 0, 0], [3, 2]),
        ([63_991_920, 40_000_000, 156_438_130, 77_490_743, 46_500_707], [9, 6]),
        ([40_000_000, 76_000_000, 297_768_680, 90_581_324, 188_937_296], [10, 19]),
        ([112_000_000, 68_000_000, 367_697_470, 209_316_826, 117_740_714], [22, 13]),
        ([5_169_671_510, 203_991_130, 5_101_271_667, 0, 0], [490, 19]),
        ([7_554_199_190, 543_967_040, 8_054_140_757, 0, 0], [751, 54]),
        ([13_767_119_410, 351_953_010, 14_350_631_486, 13_804_942_818, 330_729_578], [1399, 35]),
        // The product of system and run time has more than 64 bits.
        ([2_575_754_690, 3_571_743_500, 5_807_995_710, 0, 0], [243, 337]),
        ([3_542_753_190, 4_811_721_130, 7_889_772_420, 3_066_206_783, 4_181_180_857], [334, 454]),
        ([3_542_753_190, 4_811_721_130, 7_889_772_420, 3_345_694_216, 4_544_078_204], [334, 454]),
        ([3_550_753_190, 4_827_721_130, 7_918_909_010, 3_345_694_216, 4_544_078_204], [335, 456]),
    ];

    #[test]
    fn times_are_those_that_procfs_prints() {
        for (times, ticks) in RECORDED {
            let (user, system) = adjusted(times);
            assert_eq!([user, system].map(|ns| ns / 10_000_000), ticks, "{times:?}");
            assert_eq!(user + system, times[2], "{times:?}");
        }
    }

    #[test]
    fn times_never_go_back() {
        // The samples say 90 % user time, and less than printed before would remain for one of them.
        assert_eq!(adjusted([90, 10, 1000, 500, 400]), (600, 400));
        assert_eq!(adjusted([10, 90, 1000, 500, 400]), (500, 500));
        assert_eq!(adjusted([10, 90, 1000, 0, 0]), (100, 900));
        for run in [0, 899, 900] {
            assert_eq!(adjusted([10, 90, run, 500, 400]), (500, 400), "less than was printed");
        }
        assert_eq!(adjusted([10, 90, 901, 500, 400]), (500, 401));
    }

    #[test]
    fn threads_without_samples_of_one_kind_ran_in_the_other() {
        assert_eq!(adjusted([0, 0, 7, 0, 0]), (7, 0));
        assert_eq!(adjusted([5, 0, 7, 0, 0]), (7, 0));
        assert_eq!(adjusted([0, 5, 7, 0, 0]), (0, 7));
        assert_eq!(adjusted([0, 5, 7, 3, 0]), (3, 4));
    }

    #[test]
    fn any_numbers_have_a_result() {
        const MAX: u64 = u64::MAX;
        assert_eq!(adjusted([MAX, MAX, MAX, 0, 0]), (MAX / 2 + 1, MAX / 2));
        assert_eq!(adjusted([1, MAX, MAX, 0, 0]), (1, MAX - 1));
        assert_eq!(adjusted([MAX, MAX, MAX, MAX, MAX]), (MAX, MAX));
        assert_eq!(adjusted([MAX, MAX, 1, 0, 0]), (1, 0));
    }
}
