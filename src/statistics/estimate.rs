//! How much two sides differ, with an interval, and what the interval says.

use super::design::{Samples, Scale};

/// A confidence interval of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end; infinite if a ratio has no upper limit, because the baseline can be 0.
    pub high: f64,
}

impl Interval {
    /// Half the width of an interval of ratios, relative to its middle on a logarithmic scale: 0.1 from 1/1.1 to 1.1;
    /// `None` if it has no end.
    pub fn half_width(self) -> Option<f64> {
        let is_bounded = self.low > 0.0 && self.high.is_finite();
        is_bounded.then(|| (self.high / self.low).sqrt() - 1.0)
    }
}

/// An estimated change and its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The change by `Samples::change`. A ratio is infinite if mostly only the baseline is 0, 1 if both sides are 0, and never
    /// NaN.
    pub change: f64,
    /// The interval of the change, which contains it.
    pub interval: Interval,
}

impl Samples {
    /// The change with an interval whose ends each miss the true change with a probability of at most `tail`. `None` with
    /// fewer than [`MIN_RUNS`](super::MIN_RUNS) values on a side, of paired runs with fewer than
    /// [`MIN_PAIRS`](super::MIN_PAIRS), with too few runs for the tail, and with values that are not finite or, for ratios,
    /// negative.
    ///
    /// Of a pair of zeros the ratio is 1. Where all values are zero on both sides, so it is whatever the quantum is:
    /// nothing was counted on either side.
    pub fn estimate(&self, scale: Scale, tail: f64) -> Option<Estimate> {
        if !self.are_enough(scale) {
            return None;
        }
        if scale == Scale::Ratio && self.sides.iter().flatten().all(|value| *value == 0.0) {
            return Some(Estimate { change: 1.0, interval: Interval { low: 1.0, high: 1.0 } });
        }
        let change = self.change(scale)?;
        let place = Some(self.design.place_of_end(self.sizes(), tail)).filter(|place| *place > 0)?;
        let [mut lowest, mut highest] = [-1.0, 1.0].map(|quanta| self.estimates(scale, quanta));
        let last = highest.len() - place;
        let low = *lowest.select_nth_unstable_by(place - 1, f64::total_cmp).1;
        let high = *highest.select_nth_unstable_by(last, f64::total_cmp).1;
        Some(Estimate { change, interval: Interval { low: low.min(change), high: high.max(change) } })
    }
}

/// Relation of an interval of ratios to a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The candidate has more: the interval lies above 1 + threshold.
    More,
    /// The candidate has less: the interval lies below 1 / (1 + threshold).
    Less,
    /// The interval reaches across the threshold.
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

    /// Whether the change is beyond the threshold.
    pub fn is_clear(self) -> bool {
        matches!(self, Self::More | Self::Less)
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

#[cfg(test)]
mod tests {
    use super::super::TAIL;
    use super::super::design::Design::{self, Independent, Paired};
    use super::*;

    fn samples(design: Design, baseline: &[f64], candidate: &[f64]) -> Samples {
        Samples { design, sides: [baseline.into(), candidate.into()], quantum: 0.0 }
    }

    fn ratio(design: Design, baseline: &[f64], candidate: &[f64]) -> Option<Estimate> {
        samples(design, baseline, candidate).estimate(Scale::Ratio, TAIL)
    }

    fn estimate(baseline: &[f64], candidate: &[f64]) -> (f64, f64, f64) {
        let Estimate { change: ratio, interval } = ratio(Independent, baseline, candidate).unwrap();
        (ratio, interval.low, interval.high)
    }

    #[test]
    fn of_four_runs_a_side_the_change_and_its_interval_are_those_of_all_pairs() {
        // The middle two of 16 ratios are 2 and 2.4.
        let middle = 2.0_f64.sqrt() * 2.4_f64.sqrt();
        assert_eq!(estimate(&[10.0, 8.0, 10.0, 16.0], &[20.0, 16.0, 24.0, 40.0]), (middle, 1.0, 5.0));
        assert_eq!(ratio(Independent, &[1.0; 3], &[1.0; 9]), None);
    }

    #[test]
    fn one_outlier_does_not_move_the_interval_of_ten_runs() {
        let mut runs: Vec<f64> = (0..10).map(|run| 100.0 + f64::from(run)).collect();
        let baseline = [100.0; 10];
        let expected = (1.04_f64.sqrt() * 1.05_f64.sqrt(), 1.02, 1.07);
        assert_eq!(estimate(&baseline, &runs), expected);
        runs[9] = 1e9;
        assert_eq!(estimate(&baseline, &runs), expected);
    }

    #[test]
    fn a_side_of_constant_values_has_an_interval_without_width() {
        assert_eq!(estimate(&[5.0; 4], &[10.0; 4]), (2.0, 2.0, 2.0));
        assert_eq!(estimate(&[5.0; 4], &[5.0; 5]), (1.0, 1.0, 1.0));
    }

    #[test]
    fn zeros_are_no_change_against_zeros_and_have_no_upper_limit_as_a_baseline() {
        assert_eq!(estimate(&[0.0; 4], &[0.0; 4]), (1.0, 1.0, 1.0));
        assert_eq!(estimate(&[0.0; 4], &[3.0; 4]), (f64::INFINITY, f64::INFINITY, f64::INFINITY));
        assert_eq!(estimate(&[3.0; 4], &[0.0; 4]), (0.0, 0.0, 0.0));
        assert_eq!(estimate(&[0.0, 0.0, 0.0, 3.0], &[0.0, 0.0, 0.0, 3.0]), (1.0, 0.0, f64::INFINITY));
    }

    #[test]
    fn a_quantum_widens_the_interval_by_what_each_value_can_be_off() {
        let estimate = |baseline: f64, candidate: f64| {
            let samples = samples(Independent, &[baseline; 4], &[candidate; 4]);
            Samples { quantum: 1.0, ..samples }.estimate(Scale::Ratio, TAIL).unwrap()
        };
        assert_eq!(estimate(9.0, 10.0).interval, Interval { low: 0.9, high: 11.0 / 8.0 });
        assert_eq!(estimate(1.0, 1.0).interval, Interval { low: 0.0, high: f64::INFINITY });
        assert_eq!(estimate(0.0, 0.0).interval, Interval { low: 1.0, high: 1.0 });
    }

    #[test]
    fn values_that_no_ratio_can_have_get_none() {
        assert_eq!(ratio(Independent, &[-1.0, 1.0, 1.0, 1.0], &[1.0; 4]), None);
        assert_eq!(ratio(Independent, &[f64::NAN; 4], &[1.0; 4]), None);
        let samples = samples(Independent, &[-1.0, 0.0, 1.0, 2.0], &[4.0; 4]);
        let change = samples.estimate(Scale::Difference, TAIL).unwrap();
        assert_eq!((change.change, change.interval), (3.5, Interval { low: 2.0, high: 5.0 }));
    }

    #[test]
    fn the_ratio_of_the_medians_is_in_the_interval() {
        // The medians differ by a factor of 100, though most pairs are equal.
        let (ratio, low, high) =
            estimate(&[1.0, 1.0, 1.0, 1.0, 100.0, 100.0, 100.0], &[1.0, 1.0, 1.0, 100.0, 100.0, 100.0, 100.0]);
        assert!(low <= ratio && ratio <= high, "{ratio} {low} {high}");
    }

    #[test]
    fn what_the_machine_does_to_both_runs_of_a_pair_does_not_widen_the_interval() {
        let baseline = [100.0, 140.0, 80.0, 120.0, 60.0, 160.0, 110.0, 90.0];
        let candidate = baseline.map(|run| run * 1.1);
        let width = |design| {
            let Interval { low, high } = ratio(design, &baseline, &candidate).unwrap().interval;
            high / low
        };
        assert!(width(Paired) < 1.000_001 && width(Independent) > 1.5, "{} {}", width(Paired), width(Independent));
        assert_eq!(ratio(Paired, &baseline[..5], &candidate[..5]), None, "too few pairs");
        assert_eq!(ratio(Paired, &baseline, &candidate[1..]), None);
    }

    #[test]
    fn pairs_without_a_ratio_widen_the_interval() {
        let (baseline, candidate) = ([0.0, 5.0, 0.0, 5.0, 0.0, 5.0], [5.0, 0.0, 5.0, 0.0, 5.0, 0.0]);
        let estimate = ratio(Paired, &baseline, &candidate).unwrap();
        assert_eq!(estimate.interval, Interval { low: 0.0, high: f64::INFINITY });
    }

    #[test]
    fn an_interval_without_an_end_has_no_width() {
        let half_width = |low, high| Interval { low, high }.half_width();
        assert_eq!(half_width(1.0, 1.21).map(|width| (width * 1e9).round()), Some(1e8));
        assert_eq!([half_width(0.0, 2.0), half_width(1.0, f64::INFINITY)], [None; 2]);
    }

    #[test]
    fn the_interval_as_a_whole_decides() {
        let verdict = |low, high| Verdict::new(Estimate { change: 1.0, interval: Interval { low, high } }, 0.05);
        assert_eq!(verdict(1.06, f64::INFINITY), Verdict::More);
        assert_eq!(verdict(0.0, 0.95), Verdict::Less);
        assert_eq!(verdict(0.96, 1.05), Verdict::Same);
        assert_eq!(verdict(1.04, 1.06), Verdict::Unclear);
        assert_eq!(verdict(0.0, f64::INFINITY), Verdict::Unclear);
    }
}
