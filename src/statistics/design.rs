//! The runs of both sides, how they belong together, and the estimates of the change that they give.

/// Runs per side that an interval needs: of three and three values, even the most extreme order has a probability of
/// 1/20, so that no order is significant on one side at 2.5 %.
pub const MIN_RUNS: usize = 4;

/// Pairs of runs that an interval needs: of five pairs, even equal signs have a probability of 1/32 on one side.
pub const MIN_PAIRS: usize = 6;

/// The values of the runs of both sides, the baseline's first, and how they belong together.
#[derive(Clone, Debug)]
pub struct Samples {
    /// How the runs of both sides belong together.
    pub design: Design,
    /// One value per run, the baseline first.
    pub sides: [Vec<f64>; 2],
    /// The unit in which the kernel counts the values, in their unit: each value may be off by up to this; 0 if values are
    /// exact.
    pub quantum: f64,
}

/// The median: of an even number of values, the mean of the middle two; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper))
}

/// How the runs of both sides belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Design {
    /// Runs of one side, independent of the runs of the other side.
    #[default]
    Independent,
    /// Each run of the baseline and the candidate's with the same index were next to each other, so that what the
    /// machine did at that time is in both.
    Paired,
}

impl Design {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Paired => "paired",
        }
    }
}

impl Samples {
    /// The number of values of each side.
    pub fn sizes(&self) -> (usize, usize) {
        self.sides.each_ref().map(Vec::len).into()
    }

    /// The number of values of the side that has fewer.
    pub fn fewest(&self) -> usize {
        let (m, n) = self.sizes();
        m.min(n)
    }

    /// Whether an interval of such changes is possible: there are enough values, all finite and, for ratios, none of
    /// them negative.
    pub(super) fn are_enough(&self, scale: Scale) -> bool {
        let are_enough = match (self.design, self.sizes()) {
            (Design::Independent, (m, n)) => m >= MIN_RUNS && n >= MIN_RUNS,
            (Design::Paired, (m, n)) => m == n && n >= MIN_PAIRS,
        };
        let is_valid = |value: &f64| value.is_finite() && (scale == Scale::Difference || *value >= 0.0);
        are_enough && self.sides.iter().flatten().all(is_valid)
    }

    /// The change by Hodges and Lehmann: the median of its known [estimates](Self::estimates), which is the middle of every
    /// interval. `None` without values.
    pub(super) fn change(&self, scale: Scale) -> Option<f64> {
        let mut estimates = self.estimates(scale, 0.0);
        estimates.retain(|estimate| !estimate.is_nan());
        estimates.sort_by(f64::total_cmp);
        let upper = *estimates.get(estimates.len() / 2)?;
        let middle = scale.average(estimates[(estimates.len() - 1) / 2], upper, 0.0);
        Some(if middle.is_nan() { 1.0 } else { middle })
    }

    /// Every estimate of the change, with values off by `quanta` of their quantum in its favor: of all pairs of runs;
    /// of paired runs the averages of two changes, each also with itself.
    pub(super) fn estimates(&self, scale: Scale, quanta: f64) -> Vec<f64> {
        let change = |(candidate, baseline)| scale.change(candidate, baseline);
        let shift = quanta * self.quantum;
        let [baseline, candidate] = &self.sides;
        let baseline = baseline.iter().map(|value| value - shift);
        let candidate = candidate.iter().map(|value| value + shift);
        match self.design {
            Design::Independent => {
                candidate.flat_map(|value| baseline.clone().map(move |other| (value, other))).map(change).collect()
            }
            Design::Paired => {
                let changes: Vec<f64> = candidate.zip(baseline).map(change).collect();
                let mut averages = Vec::with_capacity(changes.len() * (changes.len() + 1) / 2);
                for (at, one) in changes.iter().enumerate() {
                    averages.extend(changes[at..].iter().map(|other| scale.average(*one, *other, quanta)));
                }
                averages
            }
        }
    }
}

/// How a change between two values is expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Ratio of candidate to baseline.
    Ratio,
    /// Difference of candidate minus baseline.
    Difference,
}

impl Scale {
    /// The change; the ratio of two zeros is 1.
    pub(crate) fn change(self, candidate: f64, baseline: f64) -> f64 {
        match (self, candidate.max(0.0), baseline.max(0.0)) {
            (Self::Difference, ..) => candidate - baseline,
            (Self::Ratio, candidate, baseline) if candidate == baseline => 1.0,
            (Self::Ratio, candidate, baseline) => candidate / baseline,
        }
    }

    /// The geometric mean of ratios, the mean of differences. The mean of 0 and infinity is unknown: it is the value that
    /// widens the interval, and NaN without quanta.
    fn average(self, one: f64, other: f64, quanta: f64) -> f64 {
        match self {
            Self::Ratio if one == other => one,
            Self::Ratio => {
                let average = one.sqrt() * other.sqrt();
                match quanta {
                    _ if !average.is_nan() => average,
                    ..0.0 => 0.0,
                    0.0 => f64::NAN,
                    _ => f64::INFINITY,
                }
            }
            Self::Difference => f64::midpoint(one, other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_of_zero_and_infinity_is_what_widens_the_interval() {
        let average = |one, other, quanta| Scale::Ratio.average(one, other, quanta);
        assert!((average(2.0, 8.0, 1.0) - 4.0).abs() < 1e-9);
        assert_eq!([2.0, 3.0, 0.0].map(|ratio| average(ratio, ratio, 1.0)), [2.0, 3.0, 0.0], "exactly");
        assert_eq!([average(0.0, f64::INFINITY, -1.0), average(0.0, f64::INFINITY, 1.0)], [0.0, f64::INFINITY]);
        assert_eq!([average(0.0, 5.0, 1.0), average(f64::INFINITY, 5.0, -1.0)], [0.0, f64::INFINITY]);
        assert_eq!(Scale::Difference.average(-1.0, 4.0, 1.0), 1.5);
    }

    #[test]
    fn pairs_are_as_many_on_both_sides_and_all_values_are_numbers() {
        let (six, seven, nan) = ([1.0; 6], [1.0; 7], [1.0, 1.0, 1.0, 1.0, 1.0, f64::NAN]);
        let is_enough = |design: Design, a: &[f64], b: &[f64]| {
            Samples { design, sides: [a.into(), b.into()], quantum: 0.0 }.are_enough(Scale::Difference)
        };
        assert!(is_enough(Design::Paired, &six, &six) && is_enough(Design::Independent, &six, &seven));
        assert!(!is_enough(Design::Paired, &six, &seven) && !is_enough(Design::Paired, &six[1..], &six[1..]));
        for design in [Design::Paired, Design::Independent] {
            assert!(!is_enough(design, &six, &nan) && !is_enough(design, &nan, &six), "{design:?}");
        }
        assert!(!is_enough(Design::Independent, &six[3..], &six) && !is_enough(Design::Independent, &six, &six[3..]));
        assert!(is_enough(Design::Independent, &six[2..], &six[2..]));
    }

    #[test]
    fn a_median_is_the_middle_value_or_the_mean_of_the_middle_two() {
        assert_eq!(median(&[9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0, 4.0, 5.0]), Some(4.5));
        assert_eq!(median(&[]), None);
    }
}
