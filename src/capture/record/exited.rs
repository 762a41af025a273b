//! Threads that exited.

use super::super::bpf::exit_decoder::Exit;
use super::super::bpf::exits::BpfExits;
use super::decoder::TaskstatsExits;
use crate::model::ThreadState;

/// Names of sources.
pub(super) const BPF: &str = "bpf";
pub(super) const TASKSTATS: &str = "taskstats";

/// The records of threads that exited while an [`ExitListener`](super::ExitListener) was listening.
///
/// Records take 100 to 600 bytes each, and 256 MiB at most: those beyond that are counted as lost.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exits {
    /// Where the records come from: `bpf` or `taskstats`.
    pub source: &'static str,
    /// Number of records: one per thread.
    pub received: u64,
    /// Number of records that were lost because a buffer of the kernel or the memory for records was full.
    pub lost: u64,
    records: Records,
}

#[derive(Debug)]
pub(super) enum Records {
    Bpf(BpfExits),
    Taskstats(TaskstatsExits),
}

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

impl Exits {
    pub(super) fn new(records: Records, received: u64, lost: u64) -> Self {
        let source = match records {
            Records::Bpf(_) => BPF,
            Records::Taskstats(_) => TASKSTATS,
        };
        Self { source, received, lost, records }
    }

    /// The threads, in the order in which their records were received.
    pub fn threads(&self) -> impl Iterator<Item = ExitedThread> {
        let (bpf, taskstats) = match &self.records {
            Records::Bpf(exits) => (Some(exits.threads().map(ExitedThread::from)), None),
            Records::Taskstats(exits) => (None, Some(exits.threads())),
        };
        bpf.into_iter().flatten().chain(taskstats.into_iter().flatten())
    }
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
