//! Rate of samples, and the threads of each pass: as often as requested, within a part of the time of one CPU.

use std::time::Duration;

use crate::model::PassScope;

/// Passes may take this part of the time of one CPU: 1 %.
const LARGEST_SHARE: u32 = 100;
/// How often all threads are sampled where that takes long. The last pass of a step of a second has all, too, and no other one.
const ALL_SAMPLED: Duration = Duration::from_millis(1200);
/// Passes that take longer wait for their turn, as do the first and the last one, which have all threads: others need not wait
/// for them.
const LONGEST_HOLD: Duration = Duration::from_millis(5);

/// Whether other windows follow one that is sampled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SampledAs {
    /// The first and the last pass are over all threads.
    OneWindow,
    /// It begins where the one before has ended.
    Step,
}

/// When passes are due, by what those before have cost.
#[derive(Default)]
pub(super) struct PassRate {
    /// The period that was asked for.
    shortest: Duration,
    /// Period between passes now.
    pub(super) period: Duration,
    /// Costs of a pass over all threads, with its evaluation, and of a pass over active threads; smoothed.
    costs: [Duration; 2],
    /// Costs of the latest passes of both kinds.
    latest_costs: [Duration; 2],
    /// Cost of reading the stacks of a pass, which does not depend on the threads of its scope; smoothed.
    stacks_cost: Duration,
    /// When all threads are due again.
    all_due: Duration,
    /// Whether there was a pass.
    has_passed: bool,
    /// The state of the numbers that move passes.
    jitter: u64,
}

impl PassRate {
    /// Starts with one pass per period. The seed determines the place of each pass within its period.
    pub(super) fn new(shortest: Duration, seed: u64) -> Self {
        Self { shortest, period: shortest, jitter: seed | 1, ..Self::default() }
    }

    /// When the next pass is due: at any time of its period, which begins with `turn`. So passes do not meet what happens at
    /// regular times always, or never.
    pub(super) fn due(&mut self, turn: Duration) -> Duration {
        // xorshift64 of Marsaglia.
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        turn + self.period * u32::try_from(self.jitter >> 48).unwrap_or(0) / (1 << 16)
    }

    /// Returns the scope of a pass that is due: all threads, unless that takes too much of the time since all threads were last
    /// sampled, and at least `narrowest`.
    pub(super) fn scope(&self, narrowest: PassScope, due: Duration) -> PassScope {
        let is_due = due >= self.all_due || !self.follows_active(narrowest);
        if is_due { PassScope::All } else { PassScope::Active }
    }

    /// Returns the scope of the last pass of a window: all threads, except in short steps.
    pub(super) fn last_scope(&self, sampled_as: SampledAs, narrowest: PassScope, now: Duration) -> PassScope {
        match sampled_as {
            SampledAs::OneWindow => PassScope::All,
            SampledAs::Step => self.scope(narrowest, now + ALL_SAMPLED / 2),
        }
    }

    /// Whether a pass takes so little time that others can wait for it.
    pub(super) fn is_short(&self, scope: PassScope) -> bool {
        let scope = scope as usize;
        self.latest_costs[scope].max(self.costs[scope]) < LONGEST_HOLD
    }

    /// Whether passes over all threads cost twice as much as the shortest period allows, and others can be made that cost less.
    fn follows_active(&self, narrowest: PassScope) -> bool {
        let [all, active] = self.costs;
        all * LARGEST_SHARE > 2 * self.shortest && all > 2 * active && narrowest == PassScope::Active
    }

    /// Adapts the period to what reading stacks has cost since the last pass.
    pub(super) fn note_stacks(&mut self, spent: Duration) {
        self.stacks_cost = (self.stacks_cost * 7 + spent) / 8;
    }

    /// Adapts the period to what a pass has cost that ends now.
    pub(super) fn note(&mut self, scope: PassScope, spent: Duration, narrowest: PassScope, now: Duration) {
        self.latest_costs[scope as usize] = spent;
        // The first pass has all threads, and says little about the others.
        if std::mem::replace(&mut self.has_passed, true) {
            let cost = &mut self.costs[scope as usize];
            *cost = if cost.is_zero() { spent } else { (*cost * 7 + spent) / 8 };
        }
        let [all, active] = self.costs.map(|cost| cost * LARGEST_SHARE);
        if scope == PassScope::All {
            self.all_due = now + ALL_SAMPLED.max(2 * all);
            // A cost from long ago says little.
            self.costs[1] = self.costs[1] * 7 / 8;
        }
        // Passes over all threads then have one half of the share, those over active ones the other half.
        let passes = if self.follows_active(narrowest) { 2 * active } else { all };
        let least = passes + self.stacks_cost * LARGEST_SHARE;
        self.period = self.period.mul_f64(0.9).max(least).max(self.shortest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PERIOD: Duration = Duration::from_millis(20);
    use PassScope::{Active, All};

    /// Simulates passes with these costs, over all threads and over active ones, during `total`. Returns their total cost, their
    /// number by scope, and the longest time between two passes over all threads.
    fn simulated(total: Duration, costs: [Duration; 2], narrowest: PassScope) -> (Duration, [u32; 2], Duration) {
        let mut rate = PassRate::new(PERIOD, 7);
        let (mut now, mut spent, mut counts) = (Duration::ZERO, Duration::ZERO, [0; 2]);
        let (mut all_at, mut longest) = (now, now);
        let mut scope = rate.scope(narrowest, now);
        while now < total {
            let cost = costs[scope as usize];
            (now, spent) = (now + cost, spent + cost);
            counts[scope as usize] += 1;
            if scope == All {
                longest = longest.max(now - all_at);
                all_at = now;
            }
            rate.note(scope, cost, narrowest, now);
            now += rate.period;
            scope = rate.scope(narrowest, now);
        }
        (spent, counts, longest)
    }

    #[test]
    fn passes_that_cost_little_are_as_frequent_as_asked_for() {
        let (_, counts, _) = simulated(60_000 * MS, [MS / 10, MS / 20], Active);
        assert_eq!(counts[1], 0, "all threads each time");
        assert!((2_970..=3_000).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn passes_and_their_stacks_together_take_a_hundredth_of_one_cpu_at_most() {
        let mut rate = PassRate::new(PERIOD, 7);
        for _ in 0..100 {
            rate.note_stacks(MS);
            rate.note(All, MS, All, Duration::ZERO);
        }
        assert!(rate.period >= 195 * MS && rate.period <= 200 * MS, "{:?}", rate.period);
    }

    #[test]
    fn passes_take_a_hundredth_of_one_cpu_at_most() {
        for (all, active) in [(2, 2), (10, 1), (40, 2), (40, 39)] {
            for narrowest in [All, Active] {
                let total = 600_000 * MS;
                let (spent, counts, _) = simulated(total, [all * MS, active * MS], narrowest);
                let share = spent.as_secs_f64() / total.as_secs_f64();
                let message = format!("{all} and {active} ms, {narrowest:?}: {share} in {counts:?}");
                assert!((0.005..=0.0105).contains(&share), "{message}");
                assert!(narrowest == Active || counts[1] == 0, "{message}");
                assert!(narrowest == All || all <= 2 * active || counts[1] > counts[0], "{message}");
            }
        }
    }

    #[test]
    fn all_threads_are_sampled_every_1200_ms_or_as_often_as_their_half_of_the_share_allows() {
        let longest = |all| simulated(600_000 * MS, [all, MS / 10], Active).2;
        let [soon, late] = [MS * 2, MS * 40].map(longest);
        assert!((1_200 * MS..1_300 * MS).contains(&soon), "{soon:?}");
        assert!((8_000 * MS..8_200 * MS).contains(&late), "{late:?}");
    }

    #[test]
    fn a_period_gets_shorter_again_when_passes_do() {
        let mut rate = PassRate::new(PERIOD, 7);
        let periods = [50, 50, 1, 1].map(|cost| {
            (0..60).for_each(|_| rate.note(All, cost * MS / 10, All, Duration::ZERO));
            rate.period
        });
        assert_eq!(periods, [500 * MS, 500 * MS, PERIOD, PERIOD]);
    }

    #[test]
    fn the_first_pass_says_nothing_of_what_others_cost() {
        let mut rate = PassRate::new(PERIOD, 7);
        rate.note(All, 100 * MS, All, Duration::ZERO);
        assert_eq!((rate.period, rate.is_short(All)), (PERIOD, false), "though others need not wait for one like it");
        rate.note(All, MS, All, Duration::ZERO);
        assert_eq!((rate.period, rate.is_short(All)), (100 * MS, true));
    }

    #[test]
    fn one_pass_that_took_long_is_enough_not_to_let_others_wait() {
        let mut rate = PassRate::new(PERIOD, 7);
        for (cost, is_short) in [(1, true), (1, true), (6, false), (1, true)] {
            rate.note(Active, cost * MS, Active, Duration::ZERO);
            assert_eq!((rate.is_short(Active), rate.is_short(All)), (is_short, true), "{cost} ms");
        }
    }

    #[test]
    fn the_last_pass_has_all_threads_in_a_window_and_in_a_step_if_they_are_due_within_half_a_second() {
        let mut rate = PassRate::new(PERIOD, 7);
        (0..9).for_each(|_| rate.note(All, 2 * MS, Active, 1_000 * MS));
        assert_eq!([2_199, 2_200].map(|now| rate.scope(Active, now * MS)), [Active, All]);
        let last_scopes = |sampled_as| [1_599, 1_600].map(|now| rate.last_scope(sampled_as, Active, now * MS));
        assert_eq!(last_scopes(SampledAs::Step), [Active, All]);
        assert_eq!(last_scopes(SampledAs::OneWindow), [All, All]);
        assert_eq!(rate.scope(All, Duration::ZERO), All, "where only those can be sampled");
    }

    #[test]
    fn passes_are_at_any_place_of_their_period() {
        let mut rate = PassRate::new(1_000 * MS, 7);
        let mut tenths = [0; 10];
        for _ in 0..10_000 {
            let place = rate.due(3_000 * MS) - 3_000 * MS;
            tenths[usize::try_from(place.as_millis() / 100).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (850..1_150).contains(count)), "{tenths:?}");
    }
}
