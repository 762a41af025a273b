//! The null distribution of the rank-sum statistic: the number U of pairs of a baseline's and a candidate's run in which
//! the candidate's value is the larger one.

/// Runs of both sides up to which the distribution is exact: the largest number of orders, 128 over 64, fits u128.
pub(super) const MOST_EXACT: usize = 128;

/// The number of orders of the values with each number of pairs: the coefficients of the Gaussian binomial
/// coefficient, the product of (1 - q^(n+i)) / (1 - q^i) for i = 1 to m. The coefficients wrap around in between.
pub(super) fn orders((m, n): (usize, usize)) -> Vec<u128> {
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
pub(super) fn normal((m, n): (usize, usize)) -> (f64, f64) {
    let (m, n) = (m as f64, n as f64);
    (m * n / 2.0, (m * n * (m + n + 1.0) / 12.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_counted_exactly_up_to_the_largest_size() {
        assert_eq!(orders((2, 3)), [1, 1, 2, 2, 2, 1, 1]);
        let orders = orders((64, 64));
        assert_eq!(orders.iter().sum::<u128>(), 23_951_146_041_928_082_866_135_587_776_380_551_750);
        assert!(orders.iter().eq(orders.iter().rev()));
    }
}
