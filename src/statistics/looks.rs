//! Runs that are judged while more runs could follow: when, and at which level.
//!
//! Whoever looks at runs again and again, and ends them once a change is found, finds one sooner or later. So each look has a
//! level of its own, and the levels add up to the level of one look (Bonferroni): whatever the values are, and however the looks
//! depend on each other, an interval that is used at whichever look ends the runs misses the true change with at most the
//! probability of a single one. The early looks get little, so that the last one finds nearly what it would find alone. Holm's
//! correction for several gates is made within each look.

use super::TAIL;
use super::design::Design;

/// When runs are judged early, as shares of the runs.
const EARLY: [f64; 2] = [0.4, 0.6];
/// The share of the level that an early look takes.
const SHARE: f64 = 0.2;

/// When to judge runs of two sides in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looks {
    /// Pairs of runs before the early looks, in ascending order.
    early: Vec<usize>,
}

impl Looks {
    /// Looks once, at the end.
    pub fn once() -> Self {
        Self { early: Vec::new() }
    }

    /// Looks also before so many pairs of runs are made, where these could decide a value, and so many gates. With few runs, there
    /// is no such look.
    pub fn early(pairs: usize, gates: usize) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a number of runs")]
        let places = EARLY.map(|share| (pairs as f64 * share).ceil() as usize);
        let tail = TAIL * SHARE;
        let can_decide = |pairs: &usize| {
            let can = |design: Design, tests| design.can_decide(tests, (*pairs, *pairs), tail);
            can(Design::Paired, 1) && (can(Design::Paired, gates) || can(Design::Independent, gates))
        };
        Self { early: places.into_iter().filter(can_decide).collect() }
    }

    /// Whether to look after so many pairs, before the last one.
    pub fn is_early(&self, pairs: usize) -> bool {
        self.early.contains(&pairs)
    }

    /// The probability that an interval of runs that end after so many pairs misses the true change on one side, at most: what an
    /// early look takes, and later what the looks before it have left. Runs can end at any number of pairs, if that number does
    /// not depend on which side had more.
    pub fn tail(&self, pairs: usize) -> f64 {
        if self.is_early(pairs) {
            return TAIL * SHARE;
        }
        let before = self.early.iter().filter(|early| **early < pairs).count();
        TAIL * (1.0 - SHARE * before as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_of_all_looks_are_together_that_of_one() {
        let looks = Looks::early(20, 1);
        assert_eq!((1..20).filter(|pairs| looks.is_early(*pairs)).collect::<Vec<_>>(), [8, 12]);
        let sum: f64 = [8, 12, 20].map(|pairs| looks.tail(pairs)).iter().sum();
        assert!((sum - TAIL).abs() < 1e-12);
        assert_eq!((looks.tail(5), Looks::once().tail(20)), (TAIL, TAIL), "nothing was looked at before");
        assert_eq!(looks.tail(10), looks.tail(11), "what the look before has left");
    }

    #[test]
    fn a_look_that_cannot_decide_takes_nothing_from_the_last_one() {
        for (pairs, gates, early) in [(10, 1, 0), (14, 1, 1), (20, 1, 2), (20, 60, 2), (20, 1000, 1), (20, 1 << 20, 0)]
        {
            let looks = Looks::early(pairs, gates);
            let count = (1..pairs).filter(|pairs| looks.is_early(*pairs)).count();
            assert_eq!(count, early, "{pairs} {gates}");
            assert_eq!(looks.tail(pairs), TAIL * (1.0 - 0.2 * early as f64));
        }
    }
}
