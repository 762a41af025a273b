//! The values of one side.

/// Runs per side that an interval needs: of three and three values, even the most extreme order has a probability of
/// 1/20, so that no order is significant on one side at 2.5 %.
pub const MIN_RUNS: usize = 4;

#[derive(Clone, Copy, Debug)]
pub struct Sample<'s> {
    /// One value per run.
    pub values: &'s [f64],
    /// The unit in which the kernel counts it, in the unit of the values: each value may be off by up to this; 0 if
    /// values are exact.
    pub quantum: f64,
}

impl Sample<'_> {
    /// The values, all off by `quanta` of the quantum.
    pub(super) fn shifted(self, quanta: f64) -> impl Iterator<Item = f64> + Clone {
        self.values.iter().map(move |value| value + quanta * self.quantum)
    }

    pub(super) fn is_finite(self) -> bool {
        self.values.iter().all(|value| value.is_finite())
    }

    /// Whether no value is negative, so that ratios have a meaning.
    pub(super) fn is_amount(self) -> bool {
        self.values.iter().all(|value| *value >= 0.0)
    }

    pub(super) fn is_zero(self) -> bool {
        self.values.iter().all(|value| *value == 0.0)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_value_or_the_mean_of_the_middle_two() {
        assert_eq!(median(&[9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0, 4.0, 5.0]), Some(4.5));
        assert_eq!(median(&[]), None);
    }
}
