//! The value of a group that explains why commands take longer or shorter.
//!
//! The rule is in docs/compare.md. Time is in nanoseconds per run, and the slower side is called so whichever it is.

use super::score::{LEAST_OF_SLOWDOWN, PREFERRED_OF_SLOWDOWN, TIMES_OF_SLOWDOWN};
use super::{RUN, Row, WAIT, sum};
use crate::statistics::Verdict;

/// How much longer the commands of the slower side take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slowdown {
    /// Verdict on a value that grew with it.
    verdict: Verdict,
    /// Elapsed time of the slower side, and how much longer that is.
    slower: f64,
    longer: f64,
    /// How many CPUs all groups used at a time, at least 1: so much of their run time passes at once.
    parallel: f64,
}

/// A time of a group on both sides, such as its run time, in nanoseconds per run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimeOfSides {
    /// The place of its row.
    place: usize,
    faster: f64,
    slower: f64,
    /// Whether several runs clearly say that it grew.
    grew: bool,
}

impl TimeOfSides {
    fn gained(self) -> f64 {
        self.slower - self.faster
    }
}

/// The times of a group, in the order of [`TIMES_OF_SLOWDOWN`].
pub(super) type GroupTimes = [TimeOfSides; TIMES_OF_SLOWDOWN.len()];

/// The place of the value that explains most, and how much of the longer time it explains.
pub(super) type Explanation = (usize, f64);

/// The faster side first.
fn sorted(verdict: Verdict, [before, after]: [f64; 2]) -> [f64; 2] {
    if verdict == Verdict::More { [before, after] } else { [after, before] }
}

impl Slowdown {
    /// `None` unless several runs say that elapsed time changed. `all` are the times of all groups together.
    pub(super) fn new(elapsed: &Row, all: &[(usize, &Row)]) -> Option<Self> {
        let verdict = elapsed.verdict().filter(|verdict| verdict.is_clear())?;
        let [faster, slower] = sorted(verdict, elapsed.numbers());
        let slowdown = Self { verdict, slower, longer: slower - faster, parallel: 1.0 };
        let [run, ..] = slowdown.times(all);
        Some(Self { parallel: (run.faster / faster).max(run.slower / slower).max(1.0), ..slowdown })
    }

    /// The times of a group with these rows and their places.
    pub(super) fn times(&self, rows: &[(usize, &Row)]) -> GroupTimes {
        TIMES_OF_SLOWDOWN.map(|time| {
            let Some((place, row)) = rows.iter().find(|(_, row)| row.name == time) else {
                return TimeOfSides::default();
            };
            let [faster, slower] = sorted(self.verdict, row.numbers());
            TimeOfSides { place: *place, faster, slower, grew: row.verdict() == Some(self.verdict) }
        })
    }

    /// The value that explains most of the change.
    pub(super) fn explained(&self, times: &GroupTimes) -> Option<Explanation> {
        let explained = times.iter().zip(self.explained_by(*times));
        let explained = explained.map(|(of, time)| (of.place, if of.grew { time.min(self.longer) } else { 0.0 }));
        let most = explained.clone().fold(0.0, |most: f64, (_, time)| most.max(time));
        let least = (most * PREFERRED_OF_SLOWDOWN).max(LEAST_OF_SLOWDOWN * self.longer);
        explained.into_iter().find(|(_, time)| *time >= least)
    }

    /// The time asleep of a group, where no group has another explanation.
    pub(super) fn slept(&self, [_, _, sleep, _]: &GroupTimes) -> Option<Explanation> {
        let time = sleep.gained().min(self.longer);
        (sleep.grew && time >= LEAST_OF_SLOWDOWN * self.longer).then_some((sleep.place, time))
    }

    /// How much of the longer time each time of a group explains.
    fn explained_by(&self, times: GroupTimes) -> [f64; 4] {
        let [run, block, sleep, wait] = times;
        // Who runs longer waits longer for CPUs: so much of the wait comes with the run time.
        let per_run = if run.faster > 0.0 { wait.faster / run.faster } else { 0.0 };
        let with_run = (run.gained() * per_run).min(wait.gained()).max(0.0);
        // A thread that waits for work sleeps longer because the command takes longer. What counts is how much longer an average
        // thread sleeps than one that sleeps for the same share of its time. A group of the slower side alone may only sleep.
        let faster: f64 = times.iter().map(|time| time.faster).sum();
        let slower: f64 = times.iter().map(|time| time.slower).sum();
        let share = if faster > 0.0 { sleep.faster / faster } else { 1.0 };
        let not_idle = (sleep.slower - share * slower) / (slower / self.slower).max(1.0);
        [(run.gained() + with_run) / self.parallel, block.gained(), not_idle, wait.gained() - with_run]
    }
}

/// Whether the threads of a group want more CPUs than there are, on either side: then they wait for each other. If not,
/// they wait because of other load.
pub(super) fn has_more_threads(elapsed: &Row, rows: &[(usize, &Row)], cpus: f64) -> bool {
    let runnable = sum(rows.iter().map(|(_, row)| *row).filter(|row| [RUN, WAIT].contains(&&*row.name)));
    runnable.into_iter().zip(elapsed.numbers()).any(|(runnable, elapsed)| runnable > cpus * elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::runs::tests::of_all;
    use crate::compare::{Judge, Measurement, ReportSection, SLEEP, SideGroup, SideSection, Sides, Threshold};
    use crate::model::{Cell, Section, Unit};
    use crate::statistics::Design;
    use crate::statistics::TAIL;

    /// Elapsed time, and times of a group on both sides: run, block, sleep, wait.
    type Side = (f64, [f64; 4]);

    /// The name of the time that explains most, of a group that is all that there is.
    fn explained_time(faster: Side, slower: Side, parallel: f64) -> Option<&'static str> {
        let (slowdown, times) = both(faster, slower, parallel);
        slowdown.explained(&times).map(|(place, _)| TIMES_OF_SLOWDOWN[place])
    }

    fn both((before, faster): Side, (after, slower): Side, parallel: f64) -> (Slowdown, GroupTimes) {
        let times = std::array::from_fn(|place| {
            let (faster, slower) = (faster[place], slower[place]);
            TimeOfSides { place, faster, slower, grew: slower > faster * 1.05 }
        });
        (Slowdown { verdict: Verdict::More, slower: after, longer: after - before, parallel }, times)
    }

    /// Five threads on two CPUs: one waits for the others.
    #[test]
    fn threads_that_wait_for_a_lock_are_slower_because_they_sleep() {
        let [free, locked] = [(0.393, [0.78, 0.0, 0.405, 0.78]), (0.952, [0.95, 0.0, 3.5, 0.31])];
        assert_eq!(explained_time(free, locked, 2.0), Some("sleep"));
    }

    #[test]
    fn more_work_is_run_time_however_long_it_waits_for_cpus() {
        assert_eq!(explained_time((0.6, [0.5, 0.0, 0.0, 0.1]), (1.75, [1.45, 0.0, 0.0, 0.285]), 1.0), Some("run"));
        assert_eq!(
            explained_time((0.7, [0.3, 0.0, 0.0, 0.4]), (2.01, [0.87, 0.0, 0.0, 1.14]), 1.0),
            Some("run"),
            "on a busy host"
        );
        assert_eq!(
            explained_time((1.0, [2.0, 0.0, 1.0, 2.0]), (1.1, [2.2, 0.0, 1.1, 2.2]), 2.0),
            Some("run"),
            "four threads"
        );
    }

    #[test]
    fn the_same_work_that_waits_longer_for_cpus_is_slower_because_of_the_wait() {
        assert_eq!(explained_time((1.0, [1.0, 0.0, 0.0, 0.0]), (1.8, [1.0, 0.0, 0.0, 0.8]), 1.0), Some("wait"));
    }

    #[test]
    fn a_disk_that_is_slower_is_block_time() {
        assert_eq!(explained_time((1.0, [0.2, 0.8, 0.0, 0.0]), (2.0, [0.25, 1.75, 0.0, 0.0]), 1.0), Some("block"));
    }

    #[test]
    fn a_group_that_waits_for_work_explains_nothing_unless_all_do() {
        let [before, after] = [(0.1, [0.001, 0.0, 0.099, 0.0]), (0.3, [0.001, 0.0, 0.299, 0.0])];
        assert_eq!(explained_time(before, after, 1.0), None);
        let (slowdown, times) = both(before, after, 1.0);
        assert_eq!(slowdown.slept(&times).map(|(place, _)| TIMES_OF_SLOWDOWN[place]), Some("sleep"));
    }

    #[test]
    fn a_new_process_that_sleeps_explains_only_what_no_other_does() {
        let (slowdown, times) = both((0.1, [0.0; 4]), (0.6, [0.001, 0.0, 0.5, 0.0]), 1.0);
        assert!(slowdown.explained(&times).is_none() && slowdown.slept(&times).is_some());
    }

    #[test]
    fn what_several_runs_do_not_clearly_say_explains_nothing() {
        assert_eq!(explained_time((1.0, [1.0, 0.0, 0.0, 0.0]), (1.2, [1.04, 0.0, 0.0, 0.0]), 1.0), None);
    }

    #[test]
    fn the_wait_that_comes_with_more_run_time_is_explained_by_it() {
        let (slowdown, times) = both((1.0, [1.0, 0.0, 0.0, 0.5]), (3.0, [2.0, 0.25, 0.0, 1.25]), 2.0);
        assert_eq!(
            slowdown.explained_by(times),
            [0.75, 0.25, 0.0, 0.25],
            "1 s of run time and 0.5 of 0.75 s of wait, on two CPUs"
        );
        let (slowdown, times) = both((1.0, [0.0, 0.0, 0.0, 0.5]), (3.0, [2.0, 0.0, 0.0, 1.25]), 1.0);
        let [run, .., wait] = slowdown.explained_by(times);
        assert_eq!([run, wait], [2.0, 0.75], "no run time before");
    }

    #[test]
    fn a_thread_that_sleeps_for_the_same_share_of_a_longer_time_is_not_slower() {
        let (slowdown, times) = both((1.0, [0.5, 0.0, 1.5, 0.0]), (2.0, [0.5, 0.0, 5.5, 0.0]), 1.0);
        let [_, _, asleep, _] = slowdown.explained_by(times);
        assert!((asleep - 1.0 / 3.0).abs() < 1e-9, "{asleep}: 1 s beyond three quarters of 6 s, of three threads");
        let (slowdown, times) = both((1.0, [0.0; 4]), (2.0, [0.5, 0.0, 0.5, 0.0]), 1.0);
        assert_eq!(slowdown.explained_by(times)[2], -0.5, "a new group may only sleep");
    }

    #[test]
    fn what_explains_less_than_a_twentieth_of_the_change_does_not_matter() {
        let blocked = |time| explained_time((1.0, [1.0, 0.0, 0.0, 0.0]), (2.0, [1.0, time, 0.0, 0.0]), 1.0);
        assert_eq!([blocked(0.04), blocked(0.05), blocked(0.06)], [None, Some("block"), Some("block")]);
        let slept = |faster, slower| {
            let (slowdown, times) = both((1.0, [0.0, 0.0, faster, 0.0]), (3.0, [0.0, 0.0, slower, 0.0]), 1.0);
            slowdown.slept(&times).map(|(_, time)| time)
        };
        assert_eq!(slept(1.0, 1.5), Some(0.5));
        assert_eq!(slept(4.0, 4.19), None, "several runs do not say that it grew");
        assert_eq!(slept(1.0, 1.06), None);
        assert_eq!(slept(1.0, 9.0), Some(2.0), "no more than all of it");
    }

    #[test]
    fn a_group_wants_more_cpus_if_it_runs_and_waits_longer_than_all_of_them_on_either_side() {
        let rows = |times: [(&'static str, [u64; 2]); 2]| {
            let side = |side: usize| {
                let measured =
                    times.map(|(name, sides)| Measurement::new(name, Unit::Ns, Cell::Number(sides[side]), 1));
                of_all(vec![SideSection::from([(Vec::new(), SideGroup::new(1, measured.to_vec()))])])
            };
            let judge = Judge { design: Design::Independent, threshold: Threshold(0.05), tail: TAIL };
            ReportSection::new(Section::Overview, Sides::two(0, 1).map(side), &[], judge).rows
        };
        let elapsed = &rows([("elapsed", [10, 20]), (SLEEP, [0, 0])])[0];
        let has_more = |run: [u64; 2], wait: [u64; 2]| {
            let rows = rows([(RUN, run), (WAIT, wait)]);
            has_more_threads(elapsed, &rows.iter().enumerate().collect::<Vec<_>>(), 2.0)
        };
        assert!(has_more([15, 0], [6, 0]) && has_more([0, 20], [0, 21]));
        assert!(!has_more([15, 35], [5, 5]) && !has_more([0, 25], [20, 0]));
        let asleep = rows([(RUN, [15, 0]), (SLEEP, [60, 60])]);
        assert!(!has_more_threads(elapsed, &asleep.iter().enumerate().collect::<Vec<_>>(), 2.0));
    }
}
