//! How many runs decide, and what so many runs find, where runs vary like log-normal values.

use super::design::Design;
use super::distribution::normal_below;

/// How often a number of runs decides that is said to be enough.
pub const POWER: f64 = 0.8;

/// Most runs that are a useful answer.
const MOST_RUNS: f64 = 1e6;

/// How far an estimate is from the bounds that its interval has to leave, or to stay within.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Margin {
    /// Distance to the bound that the interval must not contain.
    One(f64),
    /// Distances to both bounds, the nearer one first.
    Two(f64, f64),
}

/// Estimates the runs per side that decide in [`POWER`] of cases, if the change is as estimated and runs vary as they did. The
/// half width of the interval with this tail, on the scale of the margin, falls with the square root of the number of runs.
/// `None` if this number of runs is enough, or if more than a million are needed.
pub fn runs_needed(runs_per_side: usize, half_width: f64, margin: Margin, tail: f64) -> Option<usize> {
    let beyond = quantile(1.0 - tail);
    let (distance, found) = match margin {
        Margin::One(distance) => (distance, POWER),
        // Missing either bound leaves it undecided.
        Margin::Two(near, far) if far < 2.0 * near => (near, f64::midpoint(1.0, POWER)),
        Margin::Two(near, _) => (near, POWER),
    };
    let times = half_width * (1.0 + quantile(found) / beyond) / distance;
    let runs = (runs_per_side as f64 * times * times).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to a million")]
    (runs > runs_per_side as f64 && runs <= MOST_RUNS).then_some(runs as usize)
}

/// The least rise that so many runs a side find to be beyond a threshold in [`POWER`] of cases, as ratios such as 0.1, if
/// runs vary by `deviation` independently, and so many gates are decided at the level `tail`.
pub fn least_found(runs: usize, gates: usize, tail: f64, threshold: f64, deviation: f64) -> f64 {
    let gates = gates.max(1);
    let is_paired = Design::Paired.can_decide(gates, (runs, runs), tail);
    let freedom = if is_paired { runs as f64 - 1.0 } else { 2.0 * runs as f64 - 2.0 };
    let design = if is_paired { Design::Paired } else { Design::Independent };
    let normal = quantile(1.0 - attained(design, runs, tail / gates as f64));
    // Student's distribution, by the first term of its expansion.
    let beyond = normal * (1.0 + (normal * normal + 1.0) / (4.0 * freedom));
    (1.0 + threshold) * ((beyond + quantile(POWER)) * deviation * (2.0 / runs as f64).sqrt()).exp() - 1.0
}

/// Largest number of runs for which the distribution differs from its limit.
const FEW_RUNS: usize = 30;

/// The largest p-value up to this level that a few runs a side can have.
fn attained(design: Design, runs: usize, level: f64) -> f64 {
    let possible = (0..if runs < FEW_RUNS { runs * runs } else { 0 }).map(|count| design.at_most(count, (runs, runs)));
    possible.take_while(|p| *p <= level).last().unwrap_or(level)
}

/// The value below which a standard normal one is with this probability.
fn quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        *(if normal_below(middle) < probability { &mut low } else { &mut high }) = middle;
    }
    low
}

#[cfg(test)]
mod tests {
    use super::super::TAIL;
    use super::*;

    #[test]
    fn four_times_the_runs_halve_the_interval() {
        let needed = |half_width| runs_needed(10, half_width, Margin::One(0.1), TAIL).unwrap();
        // (1.96 + 0.84) / 1.96, squared, is 2.04.
        assert_eq!([needed(0.1), needed(0.2), needed(0.4)], [21, 82, 327]);
        assert_eq!(runs_needed(10, 0.1, Margin::Two(0.1, 0.1), TAIL), Some(28), "two ends to miss");
        assert_eq!(runs_needed(10, 0.1, Margin::Two(0.1, 0.9), TAIL), Some(21));
        assert_eq!(
            [runs_needed(10, 0.1, Margin::One(0.0), TAIL), runs_needed(10, f64::INFINITY, Margin::One(0.1), TAIL)],
            [None; 2]
        );
    }

    #[test]
    fn more_runs_find_less_and_more_gates_find_more() {
        let found = |runs, gates| least_found(runs, gates, TAIL, 0.05, 0.05);
        assert!(found(6, 1) > found(10, 1) && found(10, 1) > found(20, 1) && found(10, 5) > found(10, 1));
        assert!((0.09..0.11).contains(&found(20, 1)), "{}", found(20, 1));
    }
}
