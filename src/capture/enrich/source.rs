//! Sources of values: what each reads, when, and with which privileges.

use rayon::ThreadPool;

use super::super::context::CaptureContext;
use super::super::process::Process;
use super::super::procfs::parsers::Parsers;
use super::super::read_threads::{ReadThread, ReadThreads};
use super::process_request::ProcessRequest;

/// A source of values of threads and processes. What it keeps from pass to pass is in [`Lasting`](super::super::lasting::Lasting).
pub(in crate::capture) struct ValueSource {
    /// The name in messages.
    pub(super) name: &'static str,
    pub(super) reads: Reads,
}

/// Processes for which a source of single processes is read in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Processes whose `io` the engine has left.
    WithoutIo,
    /// Processes that started or executed a program since the pass before.
    NewProcesses,
}

impl When {
    fn includes(self, process: &ProcessRequest) -> bool {
        match self {
            Self::WithoutIo => !process.io.is_empty(),
            Self::NewProcesses => process.is_new,
        }
    }
}

/// Unit that a source reads at a time.
pub(super) enum Reads {
    /// All threads of a pass, in each pass.
    Threads(fn(&CaptureContext, &mut ReadThreads, &ThreadPool)),
    /// A single process, in a thread that can be given up.
    Process {
        when: When,
        read: fn(&CaptureContext, &Process, &ProcessRequest) -> Option<Addition>,
        /// Counts what is missing of a process whose reader was given up.
        count_missing: fn(&CaptureContext, &[ReadThread]),
    },
}

/// Adds what a source has read of a process to its threads.
pub(super) type Addition = Box<dyn FnOnce(&CaptureContext, &mut [ReadThread], &mut Parsers) + Send>;

impl ValueSource {
    /// Whether it is a source of single processes that is read for this one.
    pub(super) fn is_for(&self, process: &ProcessRequest) -> bool {
        matches!(self.reads, Reads::Process { when, .. } if when.includes(process))
    }

    /// Counts what is missing of a process whose reader was given up.
    pub(super) fn count_missing(&self, context: &CaptureContext, threads: &[ReadThread]) {
        if let Reads::Process { count_missing, .. } = self.reads {
            count_missing(context, threads);
        }
    }
}
