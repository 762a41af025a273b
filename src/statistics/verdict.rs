//! The verdict on a ratio.

use super::estimate::{Estimate, Interval};

/// What an interval of ratios says about a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The candidate has more: the interval lies above 1 + threshold.
    More,
    /// The candidate has less: the interval lies below 1 / (1 + threshold).
    Less,
    Unclear,
    /// The interval lies within the threshold.
    Same,
}

impl Verdict {
    /// The verdict against a relative threshold, such as 0.05.
    pub fn new(estimate: Estimate, threshold: f64) -> Self {
        let Interval { low, high } = estimate.interval;
        let (least, most) = (1.0 / (1.0 + threshold), 1.0 + threshold);
        match () {
            () if low > most => Self::More,
            () if high < least => Self::Less,
            () if low >= least && high <= most => Self::Same,
            () => Self::Unclear,
        }
    }

    /// Name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Less => "less",
            Self::Unclear => "unclear",
            Self::Same => "same",
        }
    }
}

/// Most runs that are a useful answer.
const MOST_RUNS: f64 = 1e6;

/// About how many runs a side an interval of ±`wanted_half_width` (relative, such as 0.05) needs, if runs vary as those
/// of this interval: its width on a logarithmic scale falls with the square root of the number of runs. `None` if the
/// interval has no end, nothing is wanted, or more than a million runs are needed.
pub fn runs_needed(runs_per_side: usize, interval: Interval, wanted_half_width: f64) -> Option<usize> {
    let times = (1.0 + interval.half_width()?).ln() / (1.0 + wanted_half_width).ln();
    let runs = (runs_per_side as f64 * times * times).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to a million")]
    (0.0..=MOST_RUNS).contains(&runs).then_some(runs as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_as_a_whole_decides() {
        let verdict = |low, high| Verdict::new(Estimate { ratio: 1.0, interval: Interval { low, high } }, 0.05);
        assert_eq!(verdict(1.06, f64::INFINITY), Verdict::More);
        assert_eq!(verdict(0.0, 0.95), Verdict::Less);
        assert_eq!(verdict(0.96, 1.05), Verdict::Same);
        assert_eq!(verdict(1.04, 1.06), Verdict::Unclear);
        assert_eq!(verdict(0.0, f64::INFINITY), Verdict::Unclear);
    }

    #[test]
    fn four_times_the_runs_halve_the_interval() {
        let interval = |half: f64| Interval { low: 1.0 / half, high: half };
        assert_eq!(runs_needed(10, interval(1.1), 1.1_f64.sqrt() - 1.0), Some(40));
        assert_eq!(runs_needed(10, interval(1.31), 0.05), Some(307));
        assert_eq!(runs_needed(10, Interval { low: 0.0, high: 1.0 }, 0.05), None);
        assert_eq!(runs_needed(10, interval(2.0), 0.0), None);
    }
}
