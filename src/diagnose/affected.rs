//! How many threads or processes a finding affects.

use std::fmt;

/// How many threads, processes or cgroups are affected, out of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affected {
    pub count: u64,
    /// The total number; `None` if unknown.
    pub total: Option<u64>,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Threads,
    Processes,
    /// Processes that failed as a whole, and single threads of others.
    ProcessesOrThreads,
    Cgroups,
    Metrics,
}

impl Kind {
    /// A count with its noun, such as `1 process`.
    pub fn counted(self, count: u64) -> String {
        format!("{count} {}", self.noun(count))
    }

    fn noun(self, count: u64) -> &'static str {
        let (one, several) = match self {
            Self::Threads => ("thread", "threads"),
            Self::Processes => ("process", "processes"),
            Self::ProcessesOrThreads => ("process or thread", "processes or threads"),
            Self::Cgroups => ("cgroup", "cgroups"),
            Self::Metrics => ("metric", "metrics"),
        };
        if count == 1 { one } else { several }
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
