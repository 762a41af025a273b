//! How likely counts of estimates are if the sides do not differ.

use std::cell::Cell;

use super::design::Design;
use super::{TAIL, rank_sum, signed_rank};

/// Numbers of runs of the baseline and of the candidate.
pub(super) type Sizes = (usize, usize);

impl Design {
    /// The number of estimates that so many runs have.
    fn estimates_of(self, sizes: Sizes) -> usize {
        match self {
            Self::Independent => sizes.0 * sizes.1,
            Self::Paired => sizes.0 * (sizes.0 + 1) / 2,
        }
    }

    /// How many of all equally likely orders have each count; `None` if they are too many to count.
    fn orders(self, sizes: Sizes) -> Option<Vec<u128>> {
        match self {
            Self::Independent => (sizes.0 + sizes.1 <= rank_sum::MOST_EXACT).then(|| rank_sum::orders(sizes)),
            Self::Paired => (sizes.0 <= signed_rank::MOST_EXACT).then(|| signed_rank::orders(sizes.0)),
        }
    }

    fn normal(self, sizes: Sizes) -> (f64, f64) {
        match self {
            Self::Independent => rank_sum::normal(sizes),
            Self::Paired => signed_rank::normal(sizes.0),
        }
    }

    /// The probability that at most so many estimates are on one side of no change, if there is none.
    pub(super) fn at_most(self, count: usize, sizes: Sizes) -> f64 {
        if count >= self.estimates_of(sizes) {
            return 1.0;
        }
        match self.orders(sizes) {
            Some(orders) => orders[..=count].iter().sum::<u128>() as f64 / orders.iter().sum::<u128>() as f64,
            None => {
                let (mean, deviation) = self.normal(sizes);
                normal_below((count as f64 + 0.5 - mean) / deviation)
            }
        }
    }

    /// The 1-based places of the interval's ends among the sorted estimates, counted from either end; 0 if there are too
    /// few runs for an interval.
    pub(super) fn place_of_end(self, sizes: Sizes) -> usize {
        thread_local! {
            /// Rows of a comparison have the same numbers of runs.
            static LATEST: Cell<((Design, Sizes), usize)> = const { Cell::new(((Design::Independent, (0, 0)), 0)) };
        }
        let (known, place) = LATEST.get();
        if known == (self, sizes) {
            return place;
        }
        let place = self.computed_place_of_end(sizes);
        LATEST.set(((self, sizes), place));
        place
    }

    fn computed_place_of_end(self, sizes: Sizes) -> usize {
        let Some(orders) = self.orders(sizes) else {
            let counts: Vec<usize> = (0..self.estimates_of(sizes)).collect();
            return counts.partition_point(|count| self.at_most(*count, sizes) <= TAIL);
        };
        let total: u128 = orders.iter().sum();
        let mut below = 0;
        let is_rare = |count: &&u128| {
            below += **count;
            below as f64 / total as f64 <= TAIL
        };
        orders.iter().take_while(is_rare).count()
    }
}

/// The normal distribution, by formula 26.2.17 of Abramowitz and Stegun, Handbook of Mathematical Functions: off by
/// less than 7.5e-8.
fn normal_below(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let polynomial = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let tail = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * polynomial;
    if z < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::Design::{Independent, Paired};
    use super::*;

    /// The two-sided critical values at 5 %, as tabled since Mann and Whitney, and Wilcoxon, plus 1.
    #[test]
    fn interval_ends_are_those_of_published_tables() {
        let tabled =
            [((3, 3), 0), ((4, 4), 1), ((5, 5), 3), ((4, 10), 6), ((8, 8), 14), ((10, 10), 24), ((20, 20), 128)];
        for (sizes, place) in tabled {
            assert_eq!(Independent.place_of_end(sizes), place, "{sizes:?}");
            assert_eq!(Independent.place_of_end((sizes.1, sizes.0)), place, "{sizes:?}");
        }
        for (pairs, place) in [(5, 0), (6, 1), (7, 3), (8, 4), (10, 9), (20, 53), (50, 435)] {
            assert_eq!(Paired.place_of_end((pairs, pairs)), place, "{pairs} pairs");
        }
    }

    #[test]
    fn the_approximation_continues_the_exact_distribution() {
        for (design, exact, approximate) in [(Independent, 64, 65), (Paired, 120, 121)] {
            let sizes = (exact, exact);
            let place = design.place_of_end(sizes);
            let (mean, deviation) = design.normal(sizes);
            let approximation = normal_below((place as f64 + 0.5 - mean) / deviation);
            let tail = design.at_most(place, sizes);
            assert!((tail - approximation).abs() < 2e-4, "{design:?}: {tail} {approximation}");
            let sizes = (approximate, approximate);
            let place = design.place_of_end(sizes);
            assert!(design.at_most(place - 1, sizes) <= TAIL && design.at_most(place, sizes) > TAIL, "{design:?}");
        }
        assert!((normal_below(-1.959_964) - 0.025).abs() < 1e-6 && (normal_below(1.0) - 0.841_345).abs() < 1e-6);
    }

    #[test]
    fn probabilities_of_counts_are_those_of_published_formulas() {
        let near = |design: Design, count, sizes, expected: f64, error: f64| {
            let found = design.at_most(count, sizes);
            assert!((found - expected).abs() < error, "{design:?} {count} of {sizes:?}: {found}");
        };
        // One of the 5151 ways to choose 2 of 102, and one of the 64 signs of six pairs.
        near(Independent, 0, (2, 100), 1.0 / 5151.0, 1e-12);
        near(Paired, 0, (6, 6), 1.0 / 64.0, 1e-12);
        near(Paired, 20, (6, 6), 63.0 / 64.0, 1e-12);
        // 1.96 deviations below the mean: 2112.5 − 1.96 × 214.76, and 10050 − 1.96 × 819.56.
        near(Independent, 1691, (65, 65), 0.024_98, 5e-5);
        near(Paired, 8443, (200, 200), 0.024_98, 5e-5);
    }

    #[test]
    fn as_many_orders_have_few_estimates_on_one_side_as_on_the_other() {
        for (design, size, estimates) in
            [(Independent, 5, 25), (Paired, 9, 45), (Independent, 65, 65 * 65), (Paired, 121, 121 * 61)]
        {
            let sizes = (size, size);
            for count in [0, estimates / 3, estimates / 2] {
                let both = design.at_most(count, sizes) + design.at_most(estimates - 1 - count, sizes);
                assert!((both - 1.0).abs() < 1e-8, "{design:?} {count} of {estimates}: {both}");
            }
            assert!(design.at_most(estimates - 1, sizes) < 1.0 || size > 9, "all but one");
            assert_eq!([estimates, estimates + 1, 9 * estimates].map(|all| design.at_most(all, sizes)), [1.0; 3]);
        }
    }
}
