//! Records of exited threads, from either source.

use super::super::bpf::exits::BpfExits;
use super::decoder::TaskstatsExits;
use super::exited::ExitedThread;

/// Names of sources.
pub(super) const BPF: &str = "bpf";
pub(super) const TASKSTATS: &str = "taskstats";

/// The records of threads that exited while an [`ExitListener`](super::ExitListener) was listening.
///
/// Records take 20 to 100 bytes each, and 256 MiB at most: those beyond that are counted as lost.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exits {
    /// Where the records come from: `bpf` or `taskstats`.
    pub source: &'static str,
    /// Number of records: one per thread.
    pub received: u64,
    /// Number of records that were lost: a buffer of the kernel or the memory for records was full, or the kernel did
    /// not run the program that records.
    pub lost: u64,
    /// Number of lost records for which the kernel did not run the program, because a thread was exiting on the same
    /// CPU.
    pub not_run: u64,
    records: Records,
}

#[derive(Debug)]
pub(super) enum Records {
    Bpf(BpfExits),
    Taskstats(TaskstatsExits),
}

impl Exits {
    pub(super) fn new(records: Records, received: u64, lost: u64) -> Self {
        let (source, not_run) = match &records {
            Records::Bpf(exits) => (BPF, exits.not_run),
            Records::Taskstats(_) => (TASKSTATS, 0),
        };
        Self { source, received, lost, not_run, records }
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
