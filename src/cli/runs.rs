//! Several runs: windows recorded one after the other, each into a file of a directory.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::after_command;
use crate::process::{CommandEnd, Signals, SpawnError};
use crate::record::{RecordError, Recorder, Until, WindowEnd};
use crate::store::{EXTENSION, Lifetime, OutputTarget, StoreError, create_directory, is_snapshot_name, names_in};

pub(super) struct RunWriter<'s> {
    pub(super) recorder: Recorder,
    pub(super) signals: &'s Signals,
    pub(super) redact_key: Option<String>,
    pub(super) max_snapshot_bytes: u64,
}

/// A signal arrived that ends a series of runs.
#[derive(Debug, thiserror::Error)]
#[error("interrupted by signal {0}")]
struct Interrupted(i32);

/// The signal that ended a series of runs, if one did.
pub(super) fn interruption(series: anyhow::Result<()>) -> anyhow::Result<Option<i32>> {
    let Err(error) = series else { return Ok(None) };
    let before_start = match error.downcast_ref() {
        Some(RecordError::NotStarted(SpawnError::Interrupted(signal))) => Some(*signal),
        _ => None,
    };
    let meanwhile = error.downcast_ref().map(|Interrupted(signal)| *signal);
    before_start.or(meanwhile).map(Some).ok_or(error)
}

impl RunWriter<'_> {
    /// Records one run. Returns how its command ended, if it has one. A run that is interrupted has no file.
    pub(super) fn record(&mut self, until: &Until, target: OutputTarget) -> anyhow::Result<Option<CommandEnd>> {
        let window = self.recorder.open()?;
        let end = uninterrupted(window.wait(until, self.signals)?)?;
        let ended = end.of_command;
        let written = window.close(end).map_err(Into::into).and_then(|mut window| {
            self.redact_key.iter().for_each(|key| window.redact(key));
            Ok(target.write(&window, self.max_snapshot_bytes)?)
        });
        after_command(ended, written)?;
        Ok(ended)
    }

    /// Waits, or runs the command, without recording it.
    pub(super) fn unrecorded(&self, until: &Until) -> anyhow::Result<Option<CommandEnd>> {
        let end = uninterrupted(until.wait(self.signals)?)?;
        let ended = end.of_command;
        end.discard()?;
        Ok(ended)
    }
}

fn uninterrupted(end: WindowEnd) -> anyhow::Result<WindowEnd> {
    match end.interrupted {
        None => Ok(end),
        Some(signal) => {
            end.discard()?;
            Err(Interrupted(signal).into())
        }
    }
}

pub(super) struct RunDirectory {
    pub(super) path: PathBuf,
    directory: OwnedFd,
    runs: u32,
    /// How long its files are needed.
    lifetime: Lifetime,
}

impl RunDirectory {
    /// Creates the directory if needed. It must not have runs, which would be compared together with the new ones.
    pub(super) fn create(path: &Path, runs: u32, lifetime: Lifetime) -> anyhow::Result<Self> {
        let directory =
            create_directory(path).with_context(|| format!("cannot create the directory {}", path.display()))?;
        let names = names_in(&directory).with_context(|| format!("cannot read the directory {}", path.display()))?;
        if let Some(run) = names.into_iter().filter(|name| is_snapshot_name(name)).min() {
            bail!("{} already has runs ({run}): name another directory, or remove them", path.display());
        }
        Ok(Self { path: path.to_owned(), directory, runs, lifetime })
    }

    /// Opens the file of a run, counted from 1.
    pub(super) fn target(&self, number: u32) -> Result<OutputTarget, StoreError> {
        OutputTarget::create_in(&self.directory, &self.file(number), self.lifetime)
    }

    /// Names sort like numbers.
    fn file(&self, number: u32) -> PathBuf {
        let width = self.runs.to_string().len().max(2);
        self.path.join(format!("run-{number:0width$}{EXTENSION}"))
    }
}

/// The time that a series of runs may take (`--max-time`).
pub(super) struct TimeLimit {
    /// `None` for any time.
    end: Option<Instant>,
    /// When the last turn began; `None` before the first one.
    turn: Option<Instant>,
    /// The longest turn so far.
    longest: Duration,
}

impl TimeLimit {
    /// Starts the time limit now.
    pub(super) fn new(time: Option<Duration>) -> Self {
        let end = time.and_then(|time| Instant::now().checked_add(time));
        Self { end, turn: None, longest: Duration::ZERO }
    }

    /// Whether the next turn (a run, or one of each side) would end in time if it takes as long as the longest one so far. The
    /// first turn begins in any case. What is asked is how long both sides of a pair take together, not which one is slower, so
    /// that an end by time raises no rate of false alarms.
    pub(super) fn allows_another(&mut self) -> bool {
        let now = Instant::now();
        let Some(began) = self.turn.replace(now) else { return true };
        self.longest = self.longest.max(now - began);
        self.end.is_none_or(|end| now + self.longest <= end)
    }
}

#[derive(Default)]
pub(super) struct RunTally {
    /// Runs that have a file.
    pub(super) recorded: u32,
    /// Runs whose command failed, with their numbers.
    pub(super) failed: Vec<(u32, CommandEnd)>,
}

impl RunTally {
    pub(super) fn add(&mut self, number: u32, end: Option<CommandEnd>) {
        self.recorded += 1;
        self.failed.extend(end.filter(|end| !end.is_success()).map(|end| (number, end)));
    }

    pub(super) fn successes(&self) -> u32 {
        self.recorded - self.failures()
    }

    pub(super) fn failures(&self) -> u32 {
        u32::try_from(self.failed.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn first_failure(&self) -> Option<&CommandEnd> {
        self.failed.first().map(|(_, end)| end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_begins_only_if_the_longest_one_would_end_in_time() {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        let left = |seconds| Some(Instant::now() + Duration::from_secs(seconds));
        let mut limit = TimeLimit { end: ago(1), turn: None, longest: Duration::ZERO };
        assert!(limit.allows_another(), "without any run there is nothing to report");
        assert!(!limit.allows_another());
        let allows =
            |end, longest| TimeLimit { end, turn: ago(10), longest: Duration::from_secs(longest) }.allows_another();
        assert_eq!([allows(left(60), 20), allows(left(60), 90), allows(left(5), 0)], [true, false, false]);
        assert!(allows(None, 1 << 40));
    }

    #[test]
    fn names_of_runs_sort_like_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        for (runs, first, last) in [(1, "run-01", "run-01"), (10, "run-01", "run-10"), (100, "run-001", "run-100")] {
            let directory = RunDirectory::create(dir.path(), runs, Lifetime::Process).unwrap();
            let name = |number| directory.file(number).file_name().unwrap().to_string_lossy().into_owned();
            assert_eq!([name(1), name(runs)], [first, last].map(|stem| format!("{stem}.ctprof.zst")));
        }
    }
}
