//! Records of threads that exited.

use super::thread::ThreadState;

/// A thread that exited, as it was recorded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExitedThread {
    /// Its ids, its start in ticks, its names and its values since it started.
    pub state: ThreadState,
    /// Process id of its parent; 0 if it is unknown.
    pub ppid: u32,
    /// `CLOCK_MONOTONIC` at its start, in nanoseconds.
    pub started_monotonic_ns: u64,
    /// How long it was alive, in nanoseconds.
    pub elapsed_ns: u64,
}

impl ExitedThread {
    /// A record.
    pub fn new(state: ThreadState, ppid: u32, started_monotonic_ns: u64, elapsed_ns: u64) -> Self {
        Self { state, ppid, started_monotonic_ns, elapsed_ns }
    }
}
