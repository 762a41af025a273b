//! Whether a change exceeds a bound: p-values of gates, and their correction for the number of gates.

use super::TAIL;
use super::design::{Design, MIN_RUNS, Samples, Scale};

/// Share of a number below which a difference comes from rounding.
pub(crate) const ROUNDING: f64 = 1e-12;

/// A gate's limit: changes beyond it, on one side, are forbidden.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// How a change is expressed.
    pub scale: Scale,
    /// The side of the limit that is forbidden.
    pub beyond: Beyond,
    /// The limit, in the unit of the scale.
    pub limit: f64,
}

/// A side of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Changes above the limit.
    Above,
    /// Changes below the limit.
    Below,
}

impl Bound {
    /// Returns the value beyond which a change from `baseline` is on the forbidden side.
    pub fn beyond_which(self, baseline: f64) -> f64 {
        match self.scale {
            Scale::Ratio => baseline * self.limit,
            Scale::Difference => baseline + self.limit,
        }
    }

    /// Returns whether a change is on the forbidden side. What differs from the limit by rounding only is at it.
    pub fn is_exceeded(self, change: f64) -> bool {
        let rounding = ROUNDING * self.limit.abs();
        match self.beyond {
            Beyond::Above => change > self.limit + rounding,
            Beyond::Below => change < self.limit - rounding,
        }
    }
}

impl Samples {
    /// The one-sided p-value of "the change does not exceed the bound"; `None` where [`estimate`](Self::estimate) has none.
    /// It is at most 0.025 if and only if the 95 % interval lies beyond the bound, and 1 if the estimate does not exceed it.
    pub fn probability(&self, bound: Bound) -> Option<f64> {
        if !self.are_enough(bound.scale) {
            return None;
        }
        if !bound.is_exceeded(self.change(bound.scale)?) {
            return Some(1.0);
        }
        // Values off by their quantum in the direction that favors no change.
        let quanta = if bound.beyond == Beyond::Above { -1.0 } else { 1.0 };
        let estimates = self.estimates(bound.scale, quanta);
        let within = estimates.into_iter().filter(|estimate| !bound.is_exceeded(*estimate)).count();
        // By symmetry, as many orders have at least all but these as have at most these.
        Some(self.design.at_most(within, self.sizes()))
    }

    /// Whether the runs can decide so many gates, if that many together may fail by chance with the probability `tail`.
    pub(crate) fn can_decide(&self, gates: usize, tail: f64) -> bool {
        self.design.can_decide(gates, self.sizes(), tail)
    }
}

impl Design {
    /// Returns true if this number of runs can decide this number of gates, corrected for their number. If not, no gate can fail.
    pub(crate) fn can_decide(self, gates: usize, sizes: (usize, usize), tail: f64) -> bool {
        self.at_most(0, sizes) * gates as f64 <= tail
    }
}

/// The fewest runs per side that can decide so many gates at this level.
pub fn fewest_runs(gates: usize, tail: f64) -> usize {
    let can_decide = |runs: &usize| Design::Independent.can_decide(gates, (*runs, *runs), tail);
    (MIN_RUNS..usize::MAX).find(can_decide).unwrap_or(usize::MAX)
}

/// A test among several, corrected for their number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Corrected {
    /// Factor that corrects the p-value for the number of gates.
    pub factor: f64,
    /// The tail of the interval that decides the test: the interval lies beyond the bound if and only if the corrected
    /// p-value is at most 0.025.
    pub tail: f64,
    /// How often the interval has the true change in it, at least, all looks together: 0.95 of one test.
    pub level: f64,
}

/// The corrections of tests with these p-values by Holm's method, in the same order: rejecting tests whose corrected p-value
/// is at most 0.025 rejects any true hypothesis with a probability of at most `all`, the level of this look.
pub fn holm(p: &[f64], all: f64) -> Vec<Corrected> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let of_look = TAIL / all;
    let mut corrected = vec![Corrected::default(); p.len()];
    let (mut largest, mut left) = (0.0_f64, p.len());
    for (rank, place) in order.into_iter().enumerate() {
        largest = largest.max(p[place] * (p.len() - rank) as f64);
        let tail = all / left as f64;
        let factor = if p[place] > 0.0 { largest / p[place] * of_look } else { of_look };
        corrected[place] = Corrected { factor, tail, level: 1.0 - 2.0 * tail * of_look };
        // The first test that is not rejected ends the rejections, and decides the level of the rest.
        left -= usize::from(p[place] <= tail);
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::Design::Independent;
    use super::Scale::{Difference, Ratio};
    use super::*;

    fn above(scale: Scale, limit: f64) -> Bound {
        Bound { scale, beyond: Beyond::Above, limit }
    }

    fn below(scale: Scale, limit: f64) -> Bound {
        Bound { scale, beyond: Beyond::Below, limit }
    }

    /// The p-value of independent runs.
    fn probability(baseline: &[f64], candidate: &[f64], quantum: f64, bound: Bound) -> Option<f64> {
        Samples { design: Independent, sides: [baseline.into(), candidate.into()], quantum }.probability(bound)
    }

    #[test]
    fn the_smallest_probability_is_that_of_one_order_of_all() {
        let (low, high) = ([1.0, 2.0, 3.0, 4.0], [10.0, 11.0, 12.0, 13.0]);
        let of = |bound| probability(&low, &high, 0.0, bound).unwrap();
        assert_eq!(of(above(Ratio, 1.1)), 1.0 / 70.0);
        assert_eq!(of(above(Difference, 5.0)), 1.0 / 70.0);
        assert_eq!(of(below(Ratio, 0.9)), 1.0);
        assert_eq!(probability(&high, &low, 0.0, below(Difference, -5.0)), Some(1.0 / 70.0));
        assert_eq!(probability(&low[1..], &high, 0.0, above(Ratio, 1.0)), None);
    }

    #[test]
    fn few_runs_decide_few_gates() {
        assert_eq!([1, 2, 6, 7, 23, 24].map(|gates| fewest_runs(gates, TAIL)), [4, 5, 5, 6, 6, 7]);
        let six_pairs_decide = |gates, tail| Design::Paired.can_decide(gates, (6, 6), tail);
        assert!(six_pairs_decide(1, TAIL) && !six_pairs_decide(2, TAIL) && !six_pairs_decide(1, TAIL / 2.0));
    }

    #[test]
    fn ties_and_quanta_count_against_the_bound() {
        let of = |quantum| probability(&[10.0; 4], &[12.0; 4], quantum, above(Ratio, 1.05)).unwrap();
        assert_eq!((of(0.0), of(1.0)), (1.0 / 70.0, 1.0));
        assert_eq!(probability(&[0.0; 4], &[0.0; 4], 0.0, above(Ratio, 1.0)), Some(1.0));
    }

    #[test]
    fn the_smallest_probability_is_multiplied_by_the_number_of_tests() {
        let p = [0.01, 0.04, 0.03, 0.005];
        let corrected = |p: &[f64]| p.iter().zip(holm(p, TAIL)).map(|(p, of)| p * of.factor).collect::<Vec<_>>();
        assert_eq!(corrected(&p), [0.03, 0.06, 0.06, 0.02]);
        assert_eq!(
            holm(&p, TAIL).iter().map(|of| of.tail).collect::<Vec<_>>(),
            [TAIL / 3.0, TAIL / 3.0, TAIL / 3.0, TAIL / 4.0]
        );
        assert!(holm(&[], TAIL).is_empty());
    }

    #[test]
    fn a_look_of_several_has_a_smaller_level_and_its_interval_covers_as_often_as_one() {
        let [one, of_several] = [TAIL, TAIL / 5.0].map(|tail| holm(&[0.004, 0.03], tail));
        assert_eq!(of_several[0].tail, TAIL / 5.0 / 2.0);
        assert_eq!((one[0].factor, of_several[0].factor), (2.0, 10.0));
        assert!((of_several[0].level - 0.975).abs() < 1e-12 && (one[1].level - 0.95).abs() < 1e-12);
    }

    #[test]
    fn a_lower_bound_is_an_upper_one_with_the_sides_swapped() {
        let (low, high) = ([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0]);
        for quantum in [0.0, 0.5, 1.0, 3.0] {
            for bound in [0.0, 1.0, 2.5] {
                let above = probability(&low, &high, quantum, above(Difference, bound));
                assert_eq!(probability(&high, &low, quantum, below(Difference, -bound)), above, "{quantum}");
            }
            let above = probability(&low, &high, quantum, above(Ratio, 1.25));
            assert_eq!(probability(&high, &low, quantum, below(Ratio, 0.8)), above, "{quantum}");
        }
    }

    #[test]
    fn negative_values_have_a_difference_and_no_ratio() {
        let (negative, positive) = ([-1.0, 2.0, 3.0, 4.0], [10.0, 11.0, 12.0, 13.0]);
        for (baseline, candidate) in [(negative, positive), (positive, negative)] {
            let of = |bound| probability(&baseline, &candidate, 0.0, bound);
            assert!(of(above(Difference, 1.0)).is_some());
            assert_eq!([of(above(Ratio, 1.0)), of(below(Ratio, 1.0))], [None; 2]);
        }
    }
}
