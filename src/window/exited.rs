//! Records of exited threads, as a recorder passes them.

use crate::model::{ExitRecords, ThreadState};

/// The record of an exited thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExitedThread {
    /// Its ids, its name and its values since it started. With a start time in ticks, its values and times are exact,
    /// and a cgroup that it lacks is unknown. Without, names of process and cgroup are filled in.
    pub state: ThreadState,
    /// Process id of its parent; 0 if it is unknown.
    pub ppid: u32,
    /// `CLOCK_MONOTONIC` at its start, in nanoseconds, not earlier than it was.
    pub started_monotonic_ns: u64,
    /// How long it was alive, in nanoseconds.
    pub elapsed_ns: u64,
}

/// Calls its argument for each record, in the order of the exits.
pub type EachExit<'r> = &'r dyn Fn(&mut dyn FnMut(ExitedThread));

/// Records of exited threads.
#[derive(Default)]
pub struct Exits<'r> {
    /// Where they came from, and how many there are; `None` without records.
    pub summary: Option<ExitRecords>,
    /// The records.
    pub each: Option<EachExit<'r>>,
}

impl ExitedThread {
    /// A record.
    #[must_use]
    pub fn new(state: ThreadState, ppid: u32, started_monotonic_ns: u64, elapsed_ns: u64) -> Self {
        Self { state, ppid, started_monotonic_ns, elapsed_ns }
    }
}

impl Exits<'_> {
    /// Calls `found` for each record.
    pub(super) fn for_each(&self, mut found: impl FnMut(ExitedThread)) {
        if let Some(each) = self.each {
            each(&mut found);
        }
    }
}
