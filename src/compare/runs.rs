//! The runs of one side.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Digest, GroupBy, Sides};
use crate::statistics::{Design, MIN_PAIRS};

/// The runs of one side; by default repeated runs, none yet.
#[derive(Debug, Default)]
pub struct Runs {
    pub(super) digests: Vec<Digest>,
    /// How many runs were left out because their command failed.
    excluded: usize,
    /// How many runs were left out because they are in no pair.
    unpaired: usize,
    /// Whether it is one capture or window, whatever its command did, and no repetition.
    is_single: bool,
}

/// Why the runs of a side cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// There is no run.
    #[error("no runs")]
    None,
    /// More than a tenth of the commands failed: so many, and the number of all runs.
    #[error("the command failed in {0} of {1} runs; at most a tenth may fail")]
    Failed(usize, usize),
}

/// One run in so many may fail.
const RUNS_PER_FAILURE: usize = 10;

impl From<Digest> for Runs {
    fn from(digest: Digest) -> Self {
        Self { digests: vec![digest], is_single: true, ..Self::default() }
    }
}

impl Runs {
    /// Adds a run. If its command failed, it is only counted.
    pub fn add(&mut self, run: Digest) {
        let command = run.head.window.as_ref().and_then(|window| window.command.as_ref());
        if command.is_some_and(|command| command.status != Some(0)) {
            self.excluded += 1;
        } else {
            self.digests.push(run);
        }
    }

    /// Runs made for [`GroupBy::All`], as they would be if they had been made for this axis.
    pub fn narrowed(&self, axis: GroupBy) -> Self {
        Self { digests: self.digests.iter().map(|digest| digest.narrowed(axis)).collect(), ..*self }
    }

    /// Whether they are windows, and not snapshots; `None` before the first run.
    pub fn is_of_windows(&self) -> Option<bool> {
        let first = self.digests.first().map(|run| run.head.window.is_some());
        // Only windows have commands, which can fail.
        first.or((self.excluded > 0).then_some(true))
    }

    /// The runs, if there are any and enough of them succeeded.
    pub fn checked(self) -> Result<Self, RunsError> {
        let (failed, all) = (self.excluded, self.excluded + self.digests.len());
        match () {
            () if all == 0 => Err(RunsError::None),
            () if failed * RUNS_PER_FAILURE > all => Err(RunsError::Failed(failed, all)),
            () => Ok(self),
        }
    }

    /// How many runs there are; `None` for a single capture.
    pub(super) fn count(&self) -> Option<RunCount> {
        (!self.is_single).then(|| RunCount::new(self))
    }
}

/// Of so many runs, at most one may lack a partner: a tenth of the commands of each side may fail.
const RUNS_PER_UNPAIRED: usize = 8;

/// Pairs the runs of both sides if they were recorded in turn, as `ab` does: each run with the next one, of the other side.
/// Sorts them by time then, and leaves out those without a partner, such as the partner of one that failed.
pub(super) fn pair(sides: &mut Sides<Runs>) -> Design {
    let Some((baseline, candidate)) = sides.as_mut().both() else { return Design::Independent };
    let time = |digest: &Digest| digest.head.captured_at_unix_ns;
    let [before, after] = [&*baseline, &*candidate].map(|side| {
        let mut times: Vec<u64> = side.digests.iter().map(time).collect();
        times.sort_unstable();
        times
    });
    let (kept, all) = (in_turn(&before, &after), before.len() + after.len());
    let unpaired = all - 2 * kept.len();
    if kept.len() < MIN_PAIRS || unpaired * RUNS_PER_UNPAIRED > all {
        return Design::Independent;
    }
    let (first, second): (BTreeSet<usize>, BTreeSet<usize>) = kept.into_iter().unzip();
    for (side, kept) in [(baseline, first), (candidate, second)] {
        let mut places = 0..;
        side.digests.sort_by_key(time);
        side.unpaired = side.digests.len() - kept.len();
        side.digests.retain(|_| places.next().is_some_and(|place| kept.contains(&place)));
    }
    Design::Paired
}

/// The places of the runs that form pairs, by their times in ascending order. Runs at one time have no order.
fn in_turn(baseline: &[u64], candidate: &[u64]) -> Vec<(usize, usize)> {
    let of_side = |side: usize, times: &[u64]| -> Vec<(u64, usize, usize)> {
        times.iter().enumerate().map(|(at, time)| (*time, side, at)).collect()
    };
    let mut runs = [of_side(0, baseline), of_side(1, candidate)].concat();
    runs.sort_unstable();
    if runs.windows(2).any(|runs| runs[0].0 == runs[1].0) {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    let mut waiting: Option<(usize, usize)> = None;
    for (_, side, at) in runs {
        match waiting.take() {
            Some((0, other)) if side == 1 => pairs.push((other, at)),
            Some((1, other)) if side == 0 => pairs.push((at, other)),
            _ => waiting = Some((side, at)),
        }
    }
    pairs
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RunCount {
    pub(crate) runs: usize,
    /// Number of runs left out because their command failed.
    pub(crate) excluded: usize,
    /// Number of runs left out because the run next to them failed or is missing, so that they are in no pair.
    pub(crate) unpaired: usize,
    /// How long they took, in nanoseconds: the commands, or the windows without a command; `None` for snapshots.
    pub(crate) elapsed_ns: Option<Elapsed>,
    /// Number of runs in which exit records were lost.
    pub(crate) lost_exit_records: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Elapsed {
    pub(crate) least: u64,
    pub(crate) median: u64,
    pub(crate) most: u64,
}

impl RunCount {
    fn new(Runs { digests, excluded, unpaired, .. }: &Runs) -> Self {
        let windows = || digests.iter().filter_map(|digest| digest.head.window.as_ref());
        let elapsed = windows().map(|window| window.command.as_ref().map_or(window.duration_ns, |ran| ran.elapsed_ns));
        let mut elapsed: Vec<u64> = elapsed.collect();
        elapsed.sort_unstable();
        let elapsed_ns = elapsed.first().zip(elapsed.last()).map(|(&least, &most)| Elapsed {
            least,
            median: elapsed[(elapsed.len() - 1) / 2].midpoint(elapsed[elapsed.len() / 2]),
            most,
        });
        let lost = windows().filter_map(|window| window.exit_records.as_ref()).filter(|records| records.lost > 0);
        let (excluded, unpaired) = (*excluded, *unpaired);
        Self { runs: digests.len(), excluded, unpaired, elapsed_ns, lost_exit_records: lost.count() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs of runs in this order: `a` of the baseline, `b` of the candidate.
    fn pairs(order: &str) -> Vec<(usize, usize)> {
        let times =
            |side| order.char_indices().filter(|(_, run)| *run == side).map(|(at, _)| at as u64).collect::<Vec<_>>();
        in_turn(&times('a'), &times('b'))
    }

    #[test]
    fn pairs_that_are_whole_stay_pairs_whatever_else_failed() {
        assert_eq!(pairs("abbaab"), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(pairs("abb_abba"), [(0, 0), (1, 1), (2, 3)], "one run of the candidate has no partner");
        assert_eq!(pairs("abbaa"), [(0, 0), (1, 1)], "interrupted");
        assert_eq!(pairs("aaabbb"), [(2, 0)]);
        assert_eq!(in_turn(&[0, 5], &[0, 6]), [], "at one time");
    }
}
