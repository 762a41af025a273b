//! User and system time as procfs prints them.

/// CPU time of a thread or of a process, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTime {
    /// Sampled at ticks.
    pub(super) user: u64,
    /// Sampled at ticks.
    pub(super) system: u64,
    /// Exact.
    pub(super) run: u64,
}

/// What procfs printed last (`struct prev_cputime`), in nanoseconds.
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
        let share = match (user, system) {
            (_, 0) => 0,
            (0, _) => run,
            _ => scaled(system, run, u128::from(user) + u128::from(system)),
        };
        let system = share.max(printed.system);
        let user = run.saturating_sub(system);
        if user < printed.user { (printed.user, run - printed.user) } else { (user, system) }
    }
}

/// `part * whole / sum`, at most `whole`.
fn scaled(part: u64, whole: u64, sum: u128) -> u64 {
    u64::try_from(u128::from(part) * u128::from(whole) / sum.max(1)).unwrap_or(whole).min(whole)
}
