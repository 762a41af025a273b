//! How long the steps of a series are.

use std::time::Duration;

/// Reading a step by procfs may take this part of the time of one CPU: 2 %.
const LARGEST_SHARE: u32 = 50;

/// The length of steps: what was asked for, or more times that where procfs takes long to read one.
#[derive(Debug)]
pub(super) struct StepLength {
    asked_for: Duration,
    /// CPU time that procfs takes to read a step, smoothed.
    procfs_time: Duration,
    /// Whether it was said that steps take longer.
    has_warned: bool,
}

impl StepLength {
    pub(super) fn new(asked_for: Duration) -> Self {
        Self { asked_for, procfs_time: Duration::ZERO, has_warned: false }
    }

    /// The length of the next step.
    pub(super) fn next(&self) -> Duration {
        let least = self.procfs_time * LARGEST_SHARE;
        let times = least.as_nanos().div_ceil(self.asked_for.as_nanos().max(1));
        self.asked_for.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX).max(1))
    }

    /// Notes the CPU time that procfs took to read a step, and returns whether steps have become longer for the first time.
    pub(super) fn note(&mut self, took: Duration) -> bool {
        let before = self.next();
        self.procfs_time = if self.procfs_time.is_zero() { took } else { (self.procfs_time + took) / 2 };
        let is_news = !self.has_warned && self.next() > before;
        self.has_warned |= is_news;
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn steps_are_as_long_as_asked_for_if_procfs_is_fast() {
        let mut length = StepLength::new(1000 * MS);
        assert_eq!((length.next(), length.note(MS), length.next()), (1000 * MS, false, 1000 * MS));
    }

    #[test]
    fn steps_are_so_much_longer_that_procfs_takes_2_percent_of_a_cpu_which_is_said_once() {
        let mut length = StepLength::new(20 * MS);
        assert_eq!((length.note(MS), length.next()), (true, 60 * MS), "three times, which is at least 50 ms");
        assert_eq!((length.note(3 * MS), length.next()), (false, 100 * MS), "2 ms on average");
    }
}
