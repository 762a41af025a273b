//! The null distribution of the rank-sum statistic: the number U of pairs in which the candidate's value is the
//! larger one.

use std::cell::Cell;

use super::TAIL;

/// Runs of both sides up to which the distribution is exact: the largest number of orders, 128 over 64, fits u128.
const MOST_EXACT: usize = 128;

/// The probability of at most `pairs` pairs, if both sides have the same distribution.
pub(super) fn at_most(pairs: usize, sizes: (usize, usize)) -> f64 {
    let all = sizes.0 * sizes.1;
    if pairs >= all {
        return 1.0;
    }
    if sizes.0 + sizes.1 > MOST_EXACT {
        let (mean, deviation) = normal(sizes);
        return normal_below((pairs as f64 + 0.5 - mean) / deviation);
    }
    let orders = orders(sizes);
    let total: u128 = orders.iter().sum();
    orders[..=pairs].iter().sum::<u128>() as f64 / total as f64
}

/// The 1-based places of the interval's ends among the sorted values of all pairs, counted from either end; 0 if
/// there are too few values for an interval.
pub(super) fn place_of_end(sizes: (usize, usize)) -> usize {
    thread_local! {
        /// Rows of a comparison have the same numbers of runs.
        static LATEST: Cell<((usize, usize), usize)> = const { Cell::new(((0, 0), 0)) };
    }
    let (known, place) = LATEST.get();
    if known == sizes {
        return place;
    }
    let place = new_place_of_end(sizes);
    LATEST.set((sizes, place));
    place
}

fn new_place_of_end(sizes: (usize, usize)) -> usize {
    if sizes.0 + sizes.1 > MOST_EXACT {
        return (0..sizes.0 * sizes.1).collect::<Vec<_>>().partition_point(|pairs| at_most(*pairs, sizes) <= TAIL);
    }
    let orders = orders(sizes);
    let total: u128 = orders.iter().sum();
    let mut below = 0;
    let is_rare = |count: &&u128| {
        below += **count;
        below as f64 / total as f64 <= TAIL
    };
    orders.iter().take_while(is_rare).count()
}

/// The number of orders of the values with each number of pairs: the coefficients of the Gaussian binomial
/// coefficient, the product of (1 - q^(n+i)) / (1 - q^i) for i = 1 to m. The coefficients wrap around in between.
fn orders((m, n): (usize, usize)) -> Vec<u128> {
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

/// Mean and standard deviation of the number of pairs; without the correction for ties, which would lower it.
fn normal((m, n): (usize, usize)) -> (f64, f64) {
    let (m, n) = (m as f64, n as f64);
    (m * n / 2.0, (m * n * (m + n + 1.0) / 12.0).sqrt())
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
    use super::*;

    /// The two-sided critical values of U at 5 %, as tabled since Mann and Whitney, plus 1.
    #[test]
    fn interval_ends_are_those_of_published_tables() {
        let tabled =
            [((3, 3), 0), ((4, 4), 1), ((5, 5), 3), ((4, 10), 6), ((8, 8), 14), ((10, 10), 24), ((20, 20), 128)];
        for (sizes, place) in tabled {
            assert_eq!(place_of_end(sizes), place, "{sizes:?}");
            assert_eq!(place_of_end((sizes.1, sizes.0)), place, "{sizes:?}");
        }
    }

    #[test]
    fn orders_are_counted_exactly_up_to_the_largest_size() {
        assert_eq!(orders((2, 3)), [1, 1, 2, 2, 2, 1, 1]);
        let orders = orders((64, 64));
        assert_eq!(orders.iter().sum::<u128>(), 23_951_146_041_928_082_866_135_587_776_380_551_750);
        assert!(orders.iter().eq(orders.iter().rev()));
    }

    #[test]
    fn the_approximation_continues_the_exact_distribution() {
        let exact = |sizes| (at_most(place_of_end(sizes), sizes), normal(sizes));
        let (tail, (mean, deviation)) = exact((64, 64));
        let approximate = normal_below((place_of_end((64, 64)) as f64 + 0.5 - mean) / deviation);
        assert!((tail - approximate).abs() < 2e-4, "{tail} {approximate}");
        assert!((normal_below(-1.959_964) - 0.025).abs() < 1e-6 && (normal_below(1.0) - 0.841_345).abs() < 1e-6);
        let place = place_of_end((65, 65));
        assert!(at_most(place - 1, (65, 65)) <= TAIL && at_most(place, (65, 65)) > TAIL);
    }
}
