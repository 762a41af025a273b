//! Counts of what could not be read.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::time::Duration;

use nix::errno::Errno;

use crate::model::{self, CtprofParseSummary, Name, SourceFile};

/// A file that the walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::capture) enum File {
    Stat,
    Schedstat,
    Io,
    Status,
    Sched,
    Cgroup,
    SmapsRollup,
}

impl File {
    pub(in crate::capture) fn name(self) -> &'static CStr {
        match self {
            Self::Stat => c"stat",
            Self::Schedstat => c"schedstat",
            Self::Io => c"io",
            Self::Status => c"status",
            Self::Sched => c"sched",
            Self::Cgroup => c"cgroup",
            Self::SmapsRollup => c"smaps_rollup",
        }
    }
}

impl From<File> for SourceFile {
    fn from(file: File) -> Self {
        Self::from(&*file.name().to_string_lossy())
    }
}

/// The name of a kernel error in snapshots.
pub(in crate::capture) fn stored(errno: Errno) -> model::Errno {
    model::Errno::from(&*format!("{errno:?}"))
}

/// One worker's counts.
#[derive(Debug, Default)]
pub(in crate::capture) struct Tally {
    pub(in crate::capture) walked: u64,
    pub(in crate::capture) ghosts: u64,
    pub(in crate::capture) negative_times: u64,
    pub(in crate::capture) impossible_delays: u64,
    pub(in crate::capture) smaps_too_large: u64,
    pub(in crate::capture) smaps_out_of_time: u64,
    pub(in crate::capture) smaps_time: Duration,
    /// A list, because there are only a few.
    failures: Vec<(File, Errno, u64)>,
    unread_names: BTreeMap<File, BTreeSet<Name>>,
    pub(in crate::capture) panics: u64,
}

impl Tally {
    pub(in crate::capture) fn failed(&mut self, file: File, errno: Errno) {
        self.count(file, errno, 1);
    }

    /// Stores the name of a process whose file could not be read, if it is `alive` and its name is among the
    /// first in alphabetical order.
    pub(in crate::capture) fn name_unread(&mut self, file: File, name: &Name, alive: impl FnOnce() -> bool) {
        let names = self.unread_names.entry(file).or_default();
        let full = names.len() >= CtprofParseSummary::MAX_UNREAD_NAMES;
        let is_among_the_first = !full || names.last().is_some_and(|last| name < last);
        if is_among_the_first && !name.is_empty() && !names.contains(name) && alive() {
            names.insert(Name::clone(name));
            if full {
                names.pop_last();
            }
        }
    }

    fn count(&mut self, file: File, errno: Errno, more: u64) {
        match self.failures.iter_mut().find(|known| (known.0, known.1) == (file, errno)) {
            Some((.., count)) => *count += more,
            None => self.failures.push((file, errno, more)),
        }
    }

    pub(in crate::capture) fn merge(&mut self, other: Self) {
        let Self {
            walked,
            ghosts,
            negative_times,
            impossible_delays,
            smaps_too_large,
            smaps_out_of_time,
            smaps_time,
            failures,
            unread_names,
            panics,
        } = other;
        self.walked += walked;
        self.ghosts += ghosts;
        self.negative_times += negative_times;
        self.impossible_delays += impossible_delays;
        self.smaps_too_large += smaps_too_large;
        self.smaps_out_of_time += smaps_out_of_time;
        self.smaps_time += smaps_time;
        for (file, errno, count) in failures {
            self.count(file, errno, count);
        }
        for (file, names) in unread_names {
            self.unread_names.entry(file).or_default().extend(names);
        }
        self.panics += panics;
    }

    pub(in crate::capture) fn summary(&self) -> CtprofParseSummary {
        let mut summary = CtprofParseSummary {
            tids_walked: self.walked,
            ghosts: self.ghosts,
            negative_dotted_values: self.negative_times,
            impossible_delays: self.impossible_delays,
            smaps_skipped: self.smaps_too_large,
            smaps_out_of_time: self.smaps_out_of_time,
            worker_panics: self.panics,
            ..CtprofParseSummary::default()
        };
        for &(file, errno, count) in &self.failures {
            summary.read_failures_by_errno.entry(file.into()).or_default().insert(stored(errno), count);
        }
        for (&file, names) in self.unread_names.iter().filter(|(_, names)| !names.is_empty()) {
            let names = names.iter().take(CtprofParseSummary::MAX_UNREAD_NAMES).map(ToString::to_string);
            summary.unread_names.insert(file.into(), names.collect());
        }
        summary.concluded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_four_names_per_file_are_kept() {
        let (mut a, mut b) = (Tally::default(), Tally::default());
        for name in ["d", "b", "b", "a", ""] {
            a.name_unread(File::Io, &name.into(), || true);
        }
        b.name_unread(File::Io, &"exited".into(), || false);
        for name in ["g", "f", "e", "h", "c"] {
            b.name_unread(File::Io, &name.into(), || true);
        }
        a.merge(b);
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!(a.summary().unread_names, BTreeMap::from([(SourceFile::Io, names)]));
    }

    #[test]
    fn workers_counts_add_up() {
        let mut a = Tally { walked: 2, ghosts: 1, ..Tally::default() };
        a.failed(File::Io, Errno::EACCES);
        let mut b =
            Tally { walked: 3, negative_times: 4, smaps_too_large: 5, smaps_out_of_time: 6, ..Tally::default() };
        b.failed(File::Io, Errno::EACCES);
        b.failed(File::SmapsRollup, Errno::EIO);
        a.merge(b);
        let summary = a.summary();
        assert_eq!((summary.tids_walked, summary.ghosts), (5, 1));
        assert_eq!((summary.negative_dotted_values, summary.smaps_skipped, summary.smaps_out_of_time), (4, 5, 6));
        let by_file = BTreeMap::from([(SourceFile::Io, 2), (SourceFile::SmapsRollup, 1)]);
        assert_eq!(summary.read_failures_by_file, by_file);
        let by_errno = BTreeMap::from([(model::Errno::EIO, 1)]);
        assert_eq!(summary.read_failures_by_errno[&SourceFile::SmapsRollup], by_errno);
    }

    #[test]
    fn every_file_of_the_walk_has_a_stored_name() {
        use File::{Cgroup, Io, Sched, Schedstat, SmapsRollup, Stat, Status};
        for file in [Stat, Schedstat, Io, Status, Sched, Cgroup, SmapsRollup] {
            assert!(!matches!(SourceFile::from(file), SourceFile::Other(_)), "{file:?}");
        }
    }
}
