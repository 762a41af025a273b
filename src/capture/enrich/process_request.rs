//! Requests for processes: facts that sources need before they read a process.

use super::super::read_threads::{Lacks, ReadThread};
use super::jemalloc::ProbedThread;
use crate::model::Name;
use crate::process::{CanHang, Subject};

/// A process that sources read.
pub(super) struct ProcessRequest {
    pub(super) id: u32,
    /// When its first thread started, in ticks.
    pub(super) start: Option<u64>,
    /// Name of the leader; `None` if the leader was not read, or is a kernel thread.
    pub(super) leader: Option<Name>,
    /// Whether it is a new process, or may have executed a program since the pass before. A kernel thread is none.
    pub(super) is_new: bool,
    /// The threads whose `io` is read.
    pub(super) io: Vec<u32>,
    /// The threads with memory of a new process.
    pub(super) probed: Vec<ProbedThread>,
}

impl CanHang for ProcessRequest {
    fn subject(&self) -> Subject {
        Subject::Process { what: "names, I/O and heap", id: self.id, start: self.start }
    }
}

impl ProcessRequest {
    /// The request for a process with these threads.
    pub(super) fn new(process: &[ReadThread]) -> Self {
        let first = &process[0];
        let is_new = !first.state.kernel_thread && !first.is_of_known_process;
        // After process ids have wrapped around, the leader can have a larger id than others.
        let mut states = process.iter().map(|thread| &thread.state);
        let leader = states.find(|thread| thread.is_leader() && !thread.kernel_thread);
        Self {
            id: first.state.tgid,
            start: leader.and_then(|leader| leader.start_time_clock_ticks),
            leader: leader.map(|leader| Name::clone(&leader.comm)),
            is_new,
            io: process.iter().filter(|thread| lacks_io(thread)).map(|thread| thread.state.tid).collect(),
            probed: process.iter().filter(|thread| is_new && thread.state.has_memory()).map(probed).collect(),
        }
    }
}

fn probed(ReadThread { state, thread_pointer, .. }: &ReadThread) -> ProbedThread {
    ProbedThread { tid: state.tid, state: state.metrics.state, pointer: *thread_pointer }
}

/// Whether `io` of a thread is still to be read.
pub(super) fn lacks_io(thread: &ReadThread) -> bool {
    thread.lacks == Lacks::TaskstatsAndIo
}
