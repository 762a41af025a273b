//! The null distribution of the signed-rank statistic: the number W of pairs of differences, each also with itself, whose
//! average is positive.

/// Pairs of runs up to which the distribution is exact: the number of all signs fits u128.
pub(super) const MOST_EXACT: usize = 120;

/// The number of signs of the differences with each W: the subsets of the ranks 1 to n with that sum.
pub(super) fn orders(n: usize) -> Vec<u128> {
    let mut orders = vec![0_u128; n * (n + 1) / 2 + 1];
    orders[0] = 1;
    for rank in 1..=n {
        for sum in (rank..orders.len()).rev() {
            orders[sum] += orders[sum - rank];
        }
    }
    orders
}

/// Mean and standard deviation of W.
pub(super) fn normal(n: usize) -> (f64, f64) {
    let n = n as f64;
    (n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sign_is_counted_once() {
        assert_eq!(orders(3), [1, 1, 1, 2, 1, 1, 1]);
        let orders = orders(MOST_EXACT);
        assert_eq!(orders.iter().sum::<u128>(), 1 << MOST_EXACT);
        assert!(orders.iter().eq(orders.iter().rev()));
    }
}
