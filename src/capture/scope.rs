//! Scope of a pass, and its result.

use std::collections::BTreeMap;

use super::enrich::smaps::Smaps;
use crate::model::{CtprofSnapshot, SnapshotHead, ThreadId, ThreadState};

/// Threads that a pass reads.
#[derive(Clone, Copy)]
pub enum CaptureScope<'b> {
    /// All threads and the settings of the host, and the memory of processes when this says so.
    All(Smaps),
    /// All threads, without the memory of processes, and with the settings of the host that the pass before has read.
    AllThreads,
    /// The threads that changed since the pass before; all threads if that cannot be told.
    Changed {
        /// The threads of the pass before.
        threads: &'b BTreeMap<ThreadId, ThreadState>,
        /// Everything else of the pass before.
        head: &'b SnapshotHead,
    },
}

/// Result of a pass.
pub struct Pass {
    /// Snapshot of all threads, or of threads that may have changed.
    pub capture: CtprofSnapshot,
    /// Threads that have exited since the pass before; `None` if the pass read all threads.
    pub gone_threads: Option<Vec<ThreadId>>,
}

impl<'b> CaptureScope<'b> {
    /// The pass before; `None` if all threads are read.
    pub(super) fn before(self) -> Option<(&'b BTreeMap<ThreadId, ThreadState>, &'b SnapshotHead)> {
        if let Self::Changed { threads, head } = self { Some((threads, head)) } else { None }
    }

    /// The same for all threads.
    pub(super) fn of_all(self) -> Self {
        if self.before().is_some() { Self::AllThreads } else { self }
    }

    /// When the memory of processes is read.
    pub(super) fn smaps(self) -> Smaps {
        if let Self::All(smaps) = self { smaps } else { Smaps::Never }
    }
}
