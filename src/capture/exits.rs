//! Records of threads that exit, for work between two captures that neither of them sees.

use super::bpf::exits::{BpfExits, BpfListener};
use super::bpf::host_parameters::HostParameters;
use super::capturer::Capturer;
use super::error::finding_without_bpf;
use super::options::{Engine, Options, Tree};
use super::start::Start;
use crate::diagnose::Finding;
use crate::model::{BpfObstacle, ExitRecords, ExitedThread, HostContext};

/// Size of the ring buffer of an [`ExitListener`]: room for 5,000 threads.
pub const DEFAULT_RING_BYTES: u32 = 8 << 20;

/// Receives the records of all threads that exit on this host, in a thread of its own.
#[derive(Debug)]
pub struct ExitListener(BpfListener);

/// Why there are no records of exited threads. Without them, windows show the work of exited threads by process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoExitRecords {
    /// The options demand the engine that has none.
    #[error("no exit records: only BPF has them. Fix: use --engine auto")]
    Procfs,
    /// BPF is not available.
    #[error("no exit records: {0}")]
    NoBpf(Box<Finding>),
}

impl ExitListener {
    /// Starts to listen, with a ring buffer of at least `ring_bytes`. Every thread that exits from now on has a record.
    ///
    /// # Errors
    /// [`NoExitRecords`] if the options demand procfs, or BPF is not available.
    pub fn start(options: &Options, ring_bytes: u32) -> Result<Self, NoExitRecords> {
        let without = |no_bpf| NoExitRecords::NoBpf(Box::new(finding_without_bpf(&no_bpf)));
        if options.engine == Engine::Procfs {
            return Err(NoExitRecords::Procfs);
        }
        if options.roots.tree() != Tree::Live {
            return Err(without(BpfObstacle::NotLive.into()));
        }
        BpfListener::start(ring_bytes).map(Self).map_err(without)
    }

    /// Forgets the threads that have exited before the call.
    ///
    /// # Panics
    /// If the listening thread panicked.
    pub fn restart(&mut self) {
        self.0.restart();
    }

    /// The records of the threads that have exited before the call, and were not drained before. Listens on.
    ///
    /// `host` says what the kernel counts. Threads are in the cgroups that the captures of `capturer` have seen.
    ///
    /// # Panics
    /// If the listening thread panicked.
    #[must_use]
    pub fn drain(&mut self, host: &HostContext, capturer: &Capturer) -> RecordedExits {
        RecordedExits(self.0.drain(HostParameters::read(host, Start::now(Tree::Live)), capturer.css_sets()))
    }
}

/// Records of threads that exited, from an [`ExitListener`].
///
/// Records take 20 to 100 bytes each, and 256 MiB at most: those beyond that are counted as lost.
#[derive(Debug)]
pub struct RecordedExits(BpfExits);

impl RecordedExits {
    /// How many there are, and how many were lost.
    #[must_use]
    pub fn summary(&self) -> ExitRecords {
        let BpfExits { received, lost, not_run, .. } = self.0;
        ExitRecords { source: "bpf".to_owned(), received, lost, not_run }
    }

    /// The threads, in the order in which they were freed.
    pub fn threads(&self) -> impl Iterator<Item = ExitedThread> {
        self.0.threads()
    }
}
