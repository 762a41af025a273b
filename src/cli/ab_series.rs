//! Two commands that run in turn.

use std::path::Path;

use anyhow::bail;

use super::args::{AbArgs, Messages};
use super::progress::RunProgress;
use super::runs::{RunDirectory, RunTally, RunWriter};
use crate::diagnose::counted;
use crate::process::{Invocation, Streams};
use crate::record::Until;

/// Names of the sides, and of their directories.
pub(super) const BASELINE: &str = "baseline";
pub(super) const CANDIDATE: &str = "candidate";

/// One of the two commands, and its runs.
pub(super) struct AbSide {
    name: &'static str,
    script: String,
    until: Until,
    pub(super) directory: RunDirectory,
    pub(super) tally: RunTally,
}

/// The baseline and the candidate.
pub(super) fn sides(args: &AbArgs, parent: &Path) -> anyhow::Result<[AbSide; 2]> {
    let side = |name, script: &str| {
        let directory = RunDirectory::create(&parent.join(name), args.runs)?;
        let until = shell(args, script);
        anyhow::Ok(AbSide { name, script: script.to_owned(), until, directory, tally: RunTally::default() })
    };
    Ok([side(BASELINE, &args.baseline)?, side(CANDIDATE, &args.candidate)?])
}

fn shell(args: &AbArgs, script: &str) -> Until {
    Until::Exited(Invocation { cpus: args.cpus().to_vec(), ..Invocation::shell(script, args.streams()) })
}

impl AbSide {
    /// `3 runs of the baseline`, without those that failed.
    pub(super) fn counted(&self) -> String {
        format!("{} of the {}", counted(self.tally.successes(), "run"), self.name)
    }
}

/// The side and the number, from 1, of each run. A B B A A B B A …: a host that becomes slower or faster meanwhile does so for
/// both sides.
fn turns(runs: u32) -> impl Iterator<Item = (usize, u32)> {
    let pair = |number: u32| if number % 2 == 1 { [0, 1] } else { [1, 0] }.map(|side| (side, number));
    (1..=runs).flat_map(pair)
}

/// Runs both sides in turn.
pub(super) struct AbSeries<'a> {
    pub(super) args: &'a AbArgs,
    pub(super) writer: RunWriter<'a>,
}

impl AbSeries<'_> {
    /// Runs all. The error of a signal is that of [`interruption`](super::runs::interruption).
    pub(super) fn run(mut self, sides: &mut [AbSide; 2], messages: Messages) -> anyhow::Result<()> {
        let AbArgs { runs, no_warmup, .. } = *self.args;
        let warm_ups = if no_warmup { &[] } else { &sides[..] };
        let steps = runs.saturating_mul(2).saturating_add(if no_warmup { 0 } else { 2 });
        let mut progress = RunProgress::new(steps, self.args.streams(), messages);
        for side in warm_ups {
            progress.start(&format!("warm-up of the {}", side.name));
            self.prepare()?;
            self.writer.unrecorded(&side.until)?;
        }
        for (side, number) in turns(runs) {
            let side = &mut sides[side];
            progress.start(&format!("run {number} of {runs} of the {}", side.name));
            self.prepare()?;
            side.tally.add(number, self.writer.record(&side.until, side.directory.target(number)?)?);
            self.check(side)?;
        }
        Ok(())
    }

    fn prepare(&self) -> anyhow::Result<()> {
        let Some(script) = &self.args.prepare else { return Ok(()) };
        match self.writer.unrecorded(&shell(self.args, script))? {
            Some(end) if !end.is_success() => {
                bail!("`{script}` (--prepare) failed: {end}{}", self.how_to_see())
            }
            _ => Ok(()),
        }
    }

    /// Ends the runs when more than a tenth of a side have failed.
    fn check(&self, AbSide { name, script, tally, .. }: &AbSide) -> anyhow::Result<()> {
        let (failed, runs) = (tally.failures(), tally.recorded);
        match tally.first_failure() {
            Some(end) if failed > self.args.runs / 10 => {
                bail!("{failed} of {runs} runs of the {name} failed: `{script}`: {end}{}", self.how_to_see())
            }
            _ => Ok(()),
        }
    }

    fn how_to_see(&self) -> &'static str {
        match self.args.streams() {
            Streams::Discarded => "; show its output with --show-output",
            Streams::Inherited | Streams::ToStderr => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_of_the_host_is_the_same_for_both_sides() {
        let order: Vec<_> = turns(4).map(|(side, _)| side).collect();
        assert_eq!(order, [0, 1, 1, 0, 0, 1, 1, 0]);
        let time =
            |side| order.iter().enumerate().filter(|(_, which)| **which == side).map(|(at, _)| at).sum::<usize>();
        assert_eq!(time(0), time(1));
    }
}
