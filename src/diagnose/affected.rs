//! How many threads or processes a finding affects.

use std::fmt;

/// How many threads, processes or cgroups are affected, out of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affected {
    /// How many are affected.
    pub count: u64,
    /// The total number; `None` if unknown.
    pub total: Option<u64>,
    /// What is counted.
    pub kind: Kind,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Threads.
    Threads,
    /// Processes.
    Processes,
    /// Processes that failed as a whole, and single threads of others.
    ProcessesOrThreads,
    /// Cgroups.
    Cgroups,
    /// Metrics.
    Metrics,
}

impl Kind {
    /// A count with its noun, such as `1 process`.
    #[must_use]
    pub fn counted(self, count: u64) -> String {
        format!("{count} {}", self.noun(count))
    }

    fn noun(self, count: u64) -> &'static str {
        match (self, count) {
            (Self::Threads, 1) => "thread",
            (Self::Threads, _) => "threads",
            (Self::Processes, 1) => "process",
            (Self::Processes, _) => "processes",
            (Self::ProcessesOrThreads, 1) => "process or thread",
            (Self::ProcessesOrThreads, _) => "processes or threads",
            (Self::Cgroups, 1) => "cgroup",
            (Self::Cgroups, _) => "cgroups",
            (Self::Metrics, 1) => "metric",
            (Self::Metrics, _) => "metrics",
        }
    }
}

impl fmt::Display for Affected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, total, kind } = *self;
        match total {
            Some(total) => write!(f, "{count} of {total} {}", kind.noun(total)),
            None => f.write_str(&kind.counted(count)),
        }
    }
}
