//! How likely counts of estimates are if the sides do not differ.
//!
//! Of independent runs, the statistic U is the number of pairs of a baseline's and a candidate's run in which the
//! candidate's value is the larger one (rank sum). Of paired runs, the statistic W is the number of pairs of differences,
//! each also with itself, whose average is positive (signed rank).

use std::cell::Cell;

use super::design::Design;

/// Numbers of runs of the baseline and of the candidate.
pub(super) type Sizes = (usize, usize);

/// Runs of both sides up to which U is exact: the largest number of orders, 128 over 64, fits u128.
const MOST_RANKED: usize = 128;

/// Pairs of runs up to which W is exact: the number of all signs fits u128.
const MOST_SIGNED: usize = 120;

/// The number of orders of the values with each U: the coefficients of the Gaussian binomial coefficient, the product of
/// (1 - q^(n+i)) / (1 - q^i) for i = 1 to m. The coefficients wrap around in between.
fn rank_sums((m, n): Sizes) -> Vec<u128> {
    let mut orders = vec![0_u128; m * n + 1];
    orders[0] = 1;
    for i in 1..=m {
        for place in (n + i..orders.len()).rev() {
            orders[place] = orders[place].wrapping_sub(orders[place - n - i]);
        }
        for place in i..orders.len() {
            orders[place] = orders[place].wrapping_add(orders[place - i]);
        }
    }
    orders
}

/// The number of signs of the differences with each W: the subsets of the ranks 1 to n with that sum.
fn signed_ranks(n: usize) -> Vec<u128> {
    let mut orders = vec![0_u128; n * (n + 1) / 2 + 1];
    orders[0] = 1;
    for rank in 1..=n {
        for sum in (rank..orders.len()).rev() {
            orders[sum] += orders[sum - rank];
        }
    }
    orders
}

impl Design {
    /// The number of estimates that so many runs have.
    fn estimates_of(self, (m, n): Sizes) -> usize {
        match self {
            Self::Independent => m * n,
            Self::Paired => m * (m + 1) / 2,
        }
    }

    /// How many of all equally likely orders have each count; `None` if they are too many to count.
    fn orders(self, sizes @ (m, n): Sizes) -> Option<Vec<u128>> {
        match self {
            Self::Independent => (m + n <= MOST_RANKED).then(|| rank_sums(sizes)),
            Self::Paired => (m <= MOST_SIGNED).then(|| signed_ranks(m)),
        }
    }

    /// Mean and standard deviation of the count; without the correction for ties, which would lower it.
    fn normal(self, (m, n): Sizes) -> (f64, f64) {
        let (m, n) = (m as f64, n as f64);
        match self {
            Self::Independent => (m * n / 2.0, (m * n * (m + n + 1.0) / 12.0).sqrt()),
            Self::Paired => (m * (m + 1.0) / 4.0, (m * (m + 1.0) * (2.0 * m + 1.0) / 24.0).sqrt()),
        }
    }

    /// The probability that at most so many estimates are on one side of no change, if there is none. At most 0 is the
    /// smallest p-value that so many runs can have.
    pub(crate) fn at_most(self, count: usize, sizes: Sizes) -> f64 {
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
    /// `tail` is the probability that an end misses the true value.
    pub(super) fn place_of_end(self, sizes: Sizes, tail: f64) -> usize {
        type Asked = (Design, Sizes, f64);
        thread_local! {
            /// Rows of a comparison have the same numbers of runs.
            static LATEST: Cell<(Asked, usize)> = const { Cell::new(((Design::Independent, (0, 0), 0.0), 0)) };
        }
        if LATEST.get().0 != (self, sizes, tail) {
            LATEST.set(((self, sizes, tail), self.computed_place_of_end(sizes, tail)));
        }
        LATEST.get().1
    }

    fn computed_place_of_end(self, sizes: Sizes, tail: f64) -> usize {
        let Some(orders) = self.orders(sizes) else {
            let counts: Vec<usize> = (0..self.estimates_of(sizes)).collect();
            return counts.partition_point(|count| self.at_most(*count, sizes) <= tail);
        };
        let total: u128 = orders.iter().sum();
        let mut below = 0;
        let is_rare = |count: &&u128| {
            below += **count;
            below as f64 / total as f64 <= tail
        };
        orders.iter().take_while(is_rare).count()
    }
}

/// The normal distribution, by formula 26.2.17 of Abramowitz and Stegun, Handbook of Mathematical Functions: off by
/// less than 7.5e-8.
pub(super) fn normal_below(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let polynomial = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let tail = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * polynomial;
    if z < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::super::TAIL;
    use super::Design::{Independent, Paired};
    use super::*;

    /// The two-sided critical values at 5 %, as tabled since Mann and Whitney, and Wilcoxon, plus 1.
    #[test]
    fn interval_ends_are_those_of_published_tables() {
        let tabled =
            [((3, 3), 0), ((4, 4), 1), ((5, 5), 3), ((4, 10), 6), ((8, 8), 14), ((10, 10), 24), ((20, 20), 128)];
        for (sizes, place) in tabled {
            assert_eq!(Independent.place_of_end(sizes, TAIL), place, "{sizes:?}");
            assert_eq!(Independent.place_of_end((sizes.1, sizes.0), TAIL), place, "{sizes:?}");
        }
        for (pairs, place) in [(5, 0), (6, 1), (7, 3), (8, 4), (10, 9), (20, 53), (50, 435)] {
            assert_eq!(Paired.place_of_end((pairs, pairs), TAIL), place, "{pairs} pairs");
        }
    }

    #[test]
    fn the_approximation_continues_the_exact_distribution() {
        for (design, exact, approximate) in [(Independent, 64, 65), (Paired, 120, 121)] {
            let sizes = (exact, exact);
            let place = design.place_of_end(sizes, TAIL);
            let (mean, deviation) = design.normal(sizes);
            let approximation = normal_below((place as f64 + 0.5 - mean) / deviation);
            let tail = design.at_most(place, sizes);
            assert!((tail - approximation).abs() < 2e-4, "{design:?}: {tail} {approximation}");
            let sizes = (approximate, approximate);
            let place = design.place_of_end(sizes, TAIL);
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

    #[test]
    fn orders_are_counted_exactly_up_to_the_largest_size() {
        assert_eq!(rank_sums((2, 3)), [1, 1, 2, 2, 2, 1, 1]);
        let orders = rank_sums((64, 64));
        assert_eq!(orders.iter().sum::<u128>(), 23_951_146_041_928_082_866_135_587_776_380_551_750);
        assert!(orders.iter().eq(orders.iter().rev()));
    }

    #[test]
    fn every_sign_is_counted_once() {
        assert_eq!(signed_ranks(3), [1, 1, 1, 2, 1, 1, 1]);
        let orders = signed_ranks(MOST_SIGNED);
        assert_eq!(orders.iter().sum::<u128>(), 1 << MOST_SIGNED);
        assert!(orders.iter().eq(orders.iter().rev()));
    }
}
