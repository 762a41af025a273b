//! When passes were made.

use std::collections::VecDeque;

/// Passes that are remembered, for exits that are reported late: 80 s at 50 Hz.
const REMEMBERED: usize = 4096;
/// Number of periods above which a pause leaves the activity of threads unknown.
const LONGEST_PAUSE: u64 = 4;

/// The times of the passes so far, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, Default)]
pub(super) struct PassTimes {
    /// Times of the latest passes, in order.
    latest: VecDeque<PassTime>,
    pub(super) count: u64,
}

/// A pass, and which time around it a thread is taken to have done what its sample says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PassTime {
    pub(super) number: u64,
    /// When it was made.
    pub(super) at: u64,
    /// Until when the samples before count.
    pub(super) until: u64,
    /// Time from which the samples of the pass count. It is later than `until` only after a pause.
    pub(super) from: u64,
}

impl PassTimes {
    /// Adds a pass, so long after the one before as was intended.
    pub(super) fn add(&mut self, at: u64, intended_ns: u64) -> PassTime {
        let number = self.count;
        self.count += 1;
        let (mut until, mut from) = (at, at);
        if let Some(before) = self.latest.back() {
            let pause = at.saturating_sub(before.at);
            let expected_ns = Some(self.period_ns().max(intended_ns))
                .filter(|&expected_ns| expected_ns > 0 && pause > LONGEST_PAUSE * expected_ns);
            let half = expected_ns.unwrap_or(pause) / 2;
            (until, from) = (before.at + half, at - half);
        }
        let time = PassTime { number, at, until, from };
        if self.latest.len() == REMEMBERED {
            self.latest.pop_front();
        }
        self.latest.push_back(time);
        time
    }

    pub(super) fn last(&self) -> PassTime {
        self.latest.back().copied().unwrap_or_default()
    }

    /// The first pass after a time; the last one if there is none.
    pub(super) fn after(&self, time: u64) -> PassTime {
        let index = self.latest.partition_point(|pass| pass.at <= time);
        self.latest.get(index).copied().unwrap_or_else(|| self.last())
    }

    /// The median time between two of the latest passes; 0 if there is none.
    pub(super) fn period_ns(&self) -> u64 {
        let times = self.latest.iter().rev().take(PERIODS + 1);
        let mut periods: Vec<_> =
            times.clone().zip(times.skip(1)).map(|(later, before)| later.at - before.at).collect();
        periods.sort_unstable();
        periods.get(periods.len() / 2).copied().unwrap_or(0)
    }
}

/// Number of passes from which the median period is taken.
const PERIODS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_count_from_halfway_to_halfway() {
        let mut times = PassTimes::default();
        assert_eq!(times.add(1000, 0), PassTime { number: 0, at: 1000, until: 1000, from: 1000 });
        assert_eq!(times.add(1020, 0), PassTime { number: 1, at: 1020, until: 1010, from: 1010 });
        assert_eq!(times.after(1000).number, 1);
        assert_eq!((times.after(999).number, times.after(5000).number, times.period_ns()), (0, 1, 20));
    }

    #[test]
    fn nobody_knows_what_threads_did_while_the_sampler_was_stopped() {
        let mut times = PassTimes::default();
        for pass in 0..10 {
            times.add(20 * pass, 0);
        }
        let (mut slower, mut in_time) = (times.clone(), times.clone());
        assert_eq!(times.add(3000, 0), PassTime { number: 10, at: 3000, until: 190, from: 2990 });
        let as_intended = PassTime { number: 10, at: 3000, until: 1590, from: 1590 };
        assert_eq!(slower.add(3000, 2000), as_intended);
        assert_eq!(in_time.add(260, 0), PassTime { number: 10, at: 260, until: 220, from: 220 }, "four periods");
    }

    #[test]
    fn the_period_is_the_median_of_the_last_64() {
        let mut times = PassTimes::default();
        let mut at = 0;
        for period in (1..=100).rev() {
            times.add(at, 0);
            at += period;
        }
        times.add(at, 0);
        assert_eq!(times.period_ns(), 33);
    }
}
