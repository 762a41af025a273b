//! Whether a change exceeds a bound: p-values of gates, and their correction for the number of gates.

use super::design::{Design, Scale};
use super::sample::{Sample, median};

/// What a gate forbids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    RatioAbove(f64),
    RatioBelow(f64),
    DifferenceAbove(f64),
    DifferenceBelow(f64),
}

impl Bound {
    /// Whether these values are beyond the bound; of two zeros the ratio is 1.
    pub fn is_exceeded(self, baseline: f64, candidate: f64) -> bool {
        self.is_beyond(self.scale().change(candidate, baseline))
    }

    fn is_beyond(self, change: f64) -> bool {
        match self {
            Self::RatioAbove(bound) | Self::DifferenceAbove(bound) => change > bound,
            Self::RatioBelow(bound) | Self::DifferenceBelow(bound) => change < bound,
        }
    }

    fn is_upper(self) -> bool {
        matches!(self, Self::RatioAbove(_) | Self::DifferenceAbove(_))
    }

    fn scale(self) -> Scale {
        match self {
            Self::RatioAbove(_) | Self::RatioBelow(_) => Scale::Ratio,
            Self::DifferenceAbove(_) | Self::DifferenceBelow(_) => Scale::Difference,
        }
    }
}

/// The one-sided p-value of "the change does not exceed the bound"; `None` where [`ratio`](super::ratio) or
/// [`difference`](super::difference) has none. It is at most 0.025 if and only if the 95 % interval lies beyond the
/// bound, and 1 if the medians do not exceed it.
pub fn probability(design: Design, baseline: Sample<'_>, candidate: Sample<'_>, bound: Bound) -> Option<f64> {
    let scale = bound.scale();
    let are_valid = scale == Scale::Difference || (baseline.is_amount() && candidate.is_amount());
    if !design.is_enough(baseline, candidate) || !are_valid {
        return None;
    }
    if !bound.is_exceeded(median(baseline.values)?, median(candidate.values)?) {
        return Some(1.0);
    }
    // Values off by their quantum in the direction that favours no change.
    let quanta = if bound.is_upper() { -1.0 } else { 1.0 };
    let estimates = design.estimates(scale, baseline, candidate, quanta);
    let within = estimates.into_iter().filter(|estimate| !bound.is_beyond(*estimate)).count();
    // By symmetry, as many orders have at least all but these as have at most these.
    Some(design.at_most(within, (baseline.values.len(), candidate.values.len())))
}

/// The smallest p-value that so many runs of the baseline and the candidate can have.
pub fn least_probability(design: Design, runs: (usize, usize)) -> f64 {
    design.at_most(0, runs)
}

/// The p-values of several tests, corrected for their number by Holm's method, in the same order: rejecting those at
/// most α rejects any true hypothesis with a probability of at most α.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, place) in order.into_iter().enumerate() {
        largest = largest.max(p[place] * (p.len() - rank) as f64).min(1.0);
        adjusted[place] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::Design::Independent;
    use super::*;

    fn exact(values: &[f64]) -> Sample<'_> {
        Sample { values, quantum: 0.0 }
    }

    #[test]
    fn the_smallest_probability_is_that_of_one_order_of_all() {
        let (low, high) = ([1.0, 2.0, 3.0, 4.0], [10.0, 11.0, 12.0, 13.0]);
        let of = |bound| probability(Independent, exact(&low), exact(&high), bound).unwrap();
        assert_eq!(of(Bound::RatioAbove(1.1)), 1.0 / 70.0);
        assert_eq!(of(Bound::DifferenceAbove(5.0)), 1.0 / 70.0);
        assert_eq!(of(Bound::RatioBelow(0.9)), 1.0);
        assert_eq!(probability(Independent, exact(&high), exact(&low), Bound::DifferenceBelow(-5.0)), Some(1.0 / 70.0));
        assert_eq!(probability(Independent, exact(&low[1..]), exact(&high), Bound::RatioAbove(1.0)), None);
    }

    #[test]
    fn ties_and_quanta_count_against_the_bound() {
        let of = |quantum| {
            let (baseline, candidate) = ([10.0; 4], [12.0; 4]);
            let side = |values| Sample { values, quantum };
            probability(Independent, side(&baseline), side(&candidate), Bound::RatioAbove(1.05)).unwrap()
        };
        assert_eq!((of(0.0), of(1.0)), (1.0 / 70.0, 1.0));
        let zeros = exact(&[0.0; 4]);
        assert_eq!(probability(Independent, zeros, zeros, Bound::RatioAbove(1.0)), Some(1.0));
    }

    #[test]
    fn the_smallest_probability_is_multiplied_by_the_number_of_tests() {
        assert_eq!(holm(&[0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn a_lower_bound_is_an_upper_one_with_the_sides_swapped() {
        let (low, high) = ([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0]);
        for quantum in [0.0, 0.5, 1.0, 3.0] {
            let [low, high] = [&low, &high].map(|values| Sample { values, quantum });
            for bound in [0.0, 1.0, 2.5] {
                let above = probability(Independent, low, high, Bound::DifferenceAbove(bound));
                assert_eq!(probability(Independent, high, low, Bound::DifferenceBelow(-bound)), above, "{quantum}");
            }
            let above = probability(Independent, low, high, Bound::RatioAbove(1.25));
            assert_eq!(probability(Independent, high, low, Bound::RatioBelow(0.8)), above, "{quantum}");
        }
    }

    #[test]
    fn negative_values_have_a_difference_and_no_ratio() {
        let (negative, positive) = ([-1.0, 2.0, 3.0, 4.0], [10.0, 11.0, 12.0, 13.0]);
        for (baseline, candidate) in [(negative, positive), (positive, negative)] {
            let of = |bound| probability(Independent, exact(&baseline), exact(&candidate), bound);
            assert!(of(Bound::DifferenceAbove(1.0)).is_some());
            assert_eq!([of(Bound::RatioAbove(1.0)), of(Bound::RatioBelow(1.0))], [None; 2]);
        }
    }
}
