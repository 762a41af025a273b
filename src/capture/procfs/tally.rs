//! Counts of what could not be read during the walk.

use std::ffi::CStr;
use std::time::Duration;

use nix::errno::Errno;

use crate::model::{self, CtprofParseSummary, SourceFile};

/// A file that the walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The name of the kernel's error, as snapshots store it.
pub(in crate::capture) fn stored(errno: Errno) -> model::Errno {
    model::Errno::from(&*format!("{errno:?}"))
}

/// One worker's counts.
#[derive(Debug, Default)]
pub(in crate::capture) struct Tally {
    pub(in crate::capture) walked: u64,
    pub(in crate::capture) ghosts: u64,
    pub(in crate::capture) negative_times: u64,
    pub(in crate::capture) smaps_skipped: u64,
    pub(in crate::capture) smaps_time: Duration,
    /// A few at most: a list is enough.
    failures: Vec<(File, Errno, u64)>,
}

impl Tally {
    pub(in crate::capture) fn failed(&mut self, file: File, errno: Errno) {
        tracing::debug!(?file, %errno, "not read");
        self.count(file, errno, 1);
    }

    /// Counts a thread that could not be read at all: it has exited, unless the error is another.
    pub(in crate::capture) fn lost(&mut self, file: File, errno: Errno) {
        match errno {
            Errno::ENOENT | Errno::ESRCH => self.ghosts += 1,
            _ => self.failed(file, errno),
        }
    }

    fn count(&mut self, file: File, errno: Errno, more: u64) {
        match self.failures.iter_mut().find(|known| (known.0, known.1) == (file, errno)) {
            Some((.., count)) => *count += more,
            None => self.failures.push((file, errno, more)),
        }
    }

    pub(in crate::capture) fn merge(&mut self, other: Self) {
        let Self { walked, ghosts, negative_times, smaps_skipped, smaps_time, failures } = other;
        self.walked += walked;
        self.ghosts += ghosts;
        self.negative_times += negative_times;
        self.smaps_skipped += smaps_skipped;
        self.smaps_time += smaps_time;
        for (file, errno, count) in failures {
            self.count(file, errno, count);
        }
    }

    pub(in crate::capture) fn summary(&self) -> CtprofParseSummary {
        let mut summary = CtprofParseSummary {
            tids_walked: self.walked,
            ghosts: self.ghosts,
            negative_dotted_values: self.negative_times,
            smaps_skipped: self.smaps_skipped,
            ..CtprofParseSummary::default()
        };
        for &(file, errno, count) in &self.failures {
            summary.read_failures_by_errno.entry(file.into()).or_default().insert(stored(errno), count);
        }
        summary.concluded()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_thread_lost_to_a_limit_is_no_ghost() {
        let mut tally = Tally::default();
        tally.lost(File::Stat, Errno::ESRCH);
        tally.lost(File::Stat, Errno::EMFILE);
        let summary = tally.summary();
        assert_eq!(summary.ghosts, 1);
        assert_eq!(summary.read_failures_by_errno[&SourceFile::Stat], BTreeMap::from([(model::Errno::EMFILE, 1)]));
    }

    #[test]
    fn workers_counts_add_up() {
        let mut a = Tally { walked: 2, ghosts: 1, ..Tally::default() };
        a.failed(File::Io, Errno::EACCES);
        let mut b = Tally { walked: 3, negative_times: 4, smaps_skipped: 5, ..Tally::default() };
        b.failed(File::Io, Errno::EACCES);
        b.failed(File::SmapsRollup, Errno::EIO);
        a.merge(b);
        let summary = a.summary();
        assert_eq!((summary.tids_walked, summary.ghosts), (5, 1));
        assert_eq!((summary.negative_dotted_values, summary.smaps_skipped), (4, 5));
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
