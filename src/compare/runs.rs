//! The runs of one side.

use serde::Serialize;

use super::digest::Digest;
use super::options::GroupBy;
use super::sides::Sides;
use crate::statistics::{Design, MIN_PAIRS};

/// The runs of one side.
#[derive(Debug)]
pub struct Runs {
    pub(super) digests: Vec<Digest>,
    /// How many runs were left out because their command failed.
    excluded: usize,
    /// Whether they are repetitions of one another, not one capture or window, whatever its command did.
    are_repeated: bool,
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
        Self { digests: vec![digest], excluded: 0, are_repeated: false }
    }
}

impl Default for Runs {
    /// Repeated runs, none yet.
    fn default() -> Self {
        Self { digests: Vec::new(), excluded: 0, are_repeated: true }
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
        self.are_repeated.then(|| RunCount::new(&self.digests, self.excluded))
    }
}

/// Pairs the runs of both sides if they were recorded in turn, as `ab` does: no run of a pair after one of the next pair.
/// Sorts them by time then.
pub(super) fn pair(sides: &mut Sides<Vec<Digest>>) -> Design {
    let time = |digest: &Digest| digest.head.captured_at_unix_ns;
    let times = sides.as_ref().map(|side| {
        let mut times: Vec<u64> = side.iter().map(time).collect();
        times.sort_unstable();
        times
    });
    let Some((baseline, candidate)) = times.both() else { return Design::Independent };
    let pairs: Vec<_> = baseline.iter().zip(&candidate).map(|(a, b)| (a.min(b), a.max(b))).collect();
    let are_in_turn = pairs.windows(2).all(|pairs| pairs[0].1 < pairs[1].0);
    if baseline.len() != candidate.len() || pairs.len() < MIN_PAIRS || !are_in_turn {
        return Design::Independent;
    }
    sides.as_mut().into_iter().for_each(|side| side.sort_by_key(time));
    Design::Paired
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RunCount {
    /// Number of runs that are compared.
    pub(crate) runs: usize,
    /// Number of runs left out because their command failed.
    pub(crate) excluded: usize,
    /// How long they took, in nanoseconds: the commands, or the windows without a command; `None` for snapshots.
    pub(crate) elapsed_ns: Option<Elapsed>,
    /// Number of runs in which exit records were lost.
    pub(crate) lost_exit_records: usize,
}

/// How long runs took, in nanoseconds. The median is the lower one of an even number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Elapsed {
    pub(crate) least: u64,
    pub(crate) median: u64,
    pub(crate) most: u64,
}

impl RunCount {
    fn new(digests: &[Digest], excluded: usize) -> Self {
        let windows = || digests.iter().filter_map(|digest| digest.head.window.as_ref());
        let elapsed = windows().map(|window| window.command.as_ref().map_or(window.duration_ns, |ran| ran.elapsed_ns));
        let mut elapsed: Vec<u64> = elapsed.collect();
        elapsed.sort_unstable();
        let elapsed_ns = elapsed.first().zip(elapsed.last()).map(|(&least, &most)| Elapsed {
            least,
            median: elapsed[(elapsed.len() - 1) / 2],
            most,
        });
        let lost = windows().filter_map(|window| window.exit_records.as_ref()).filter(|records| records.lost > 0);
        Self { runs: digests.len(), excluded, elapsed_ns, lost_exit_records: lost.count() }
    }
}
