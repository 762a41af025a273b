//! One thread that exited.

use super::super::bpf::exit_decoder::Exit;
use crate::model::ThreadState;

/// A thread that exited.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExitedThread {
    /// Its ids, its name and its values since its start. A value that records lack is absent. Records of taskstats also
    /// lack the process's name, the cgroup and the start time in ticks.
    pub state: ThreadState,
    /// Its process; `None` before version 12 of taskstats (Linux 5.19), where `state.tgid` is the thread's
    /// own id, which is right for processes with one thread.
    pub tgid: Option<u32>,
    /// The process id of its parent; 0 if it is unknown.
    pub ppid: u32,
    /// `CLOCK_MONOTONIC` at its start, in nanoseconds. From taskstats a little later: the listener receives records some
    /// milliseconds after they are sent, later if it has to wait for a CPU.
    pub started_monotonic_ns: u64,
    /// How long the thread lived, in nanoseconds.
    pub elapsed_ns: u64,
}

impl From<Exit> for ExitedThread {
    fn from(exit: Exit) -> Self {
        let Exit { state, ppid, started_ns, ended_ns } = exit;
        Self {
            tgid: Some(state.tgid),
            state,
            ppid,
            started_monotonic_ns: started_ns,
            elapsed_ns: ended_ns.saturating_sub(started_ns),
        }
    }
}
