//! Counts of a capture: threads, failures, and the answers of other sources.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use nix::errno::Errno;

use crate::model::{self, CtprofParseSummary, CtprofProbeSummary, Name, SourceFile, TaskstatsSummary};
use crate::process::lock;

/// The counts of a capture. Failures are rare, so all workers share them.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) parse: CtprofParseSummary,
    /// `None` if taskstats was not used.
    pub(crate) taskstats: Option<TaskstatsSummary>,
    /// `None` if the jemalloc probe was disabled.
    pub(crate) probe: Option<CtprofProbeSummary>,
    /// Time spent on `smaps_rollup`, summed over workers.
    pub(crate) smaps_time: Duration,
    /// Time spent on the probe, summed over workers.
    pub(crate) probe_time: Duration,
}

/// The name of a kernel error in snapshots.
pub(crate) fn stored(errno: Errno) -> model::Errno {
    model::Errno::from(&*format!("{errno:?}"))
}

impl Tally {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Counts> {
        lock(&self.0)
    }

    /// Counts a file that could not be read, for this many threads.
    pub(crate) fn failed(&self, file: SourceFile, errno: Errno, threads: u64) {
        let by_file = &mut self.lock().parse.read_failures_by_errno;
        *by_file.entry(file).or_default().entry(stored(errno)).or_default() += threads;
    }

    /// Stores the name of a process whose file could not be read, if it is `alive` and the name is among the first.
    pub(crate) fn name_unread(&self, file: SourceFile, name: &Name, alive: impl FnOnce() -> bool) {
        const MAX: usize = CtprofParseSummary::MAX_UNREAD_NAMES;
        let by_file = &mut self.lock().parse.unread_names;
        let names = by_file.get(&file).map_or(&[][..], Vec::as_slice);
        let place = names.binary_search_by(|other| other.as_str().cmp(name));
        if let Err(place @ ..MAX) = place
            && !name.is_empty()
            && alive()
        {
            let names = by_file.entry(file).or_default();
            names.insert(place, name.to_string());
            names.truncate(MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_first_four_names_per_file_are_kept() {
        let tally = Tally::default();
        for name in ["d", "b", "b", "a", "", "g", "f", "e", "h", "c"] {
            tally.name_unread(SourceFile::Io, &name.into(), || true);
        }
        tally.name_unread(SourceFile::Io, &"aa-exited".into(), || false);
        tally.name_unread(SourceFile::Sched, &"exited".into(), || false);
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!(tally.lock().parse.unread_names, BTreeMap::from([(SourceFile::Io, names)]));
    }

    #[test]
    fn failures_are_counted_by_file_and_error() {
        let tally = Tally::default();
        tally.failed(SourceFile::Io, Errno::EACCES, 1);
        tally.failed(SourceFile::Io, Errno::EACCES, 2);
        tally.failed(SourceFile::SmapsRollup, Errno::EIO, 1);
        let by_errno = &tally.lock().parse.read_failures_by_errno;
        assert_eq!(by_errno[&SourceFile::Io], BTreeMap::from([(model::Errno::EACCES, 3)]));
        assert_eq!(by_errno[&SourceFile::SmapsRollup], BTreeMap::from([(model::Errno::EIO, 1)]));
    }
}
