//! The listener to exits, from the best source.

use std::sync::Arc;

use super::super::bpf::exits::BpfListener;
use super::super::bpf::facts::Facts;
use super::super::options::{Ask, Engine, Options, Tree};
use super::super::start::Start;
use super::exits::{BPF, Exits, Records, TASKSTATS};
use super::listener_error::ExitListenerError;
use super::taskstats::TaskstatsListener;
use crate::model::{BpfObstacle, HostContext, NoBpf};

/// Size of the ring buffer of an [`ExitListener`]: room for 5,000 threads.
pub const DEFAULT_RING_BYTES: u32 = 8 << 20;

/// Receives the records of all threads that exit on this host, in a thread of its own.
#[derive(Debug)]
pub struct ExitListener(Source);

#[derive(Debug)]
enum Source {
    Bpf(BpfListener),
    Taskstats(TaskstatsListener),
}

impl ExitListener {
    /// Starts to listen. Every thread that exits from now on has a record: from BPF programs with a ring buffer of at
    /// least `ring_bytes`, unless the options select procfs; else from taskstats.
    ///
    /// Captures with clones of these options teach the listener the cgroups of threads.
    ///
    /// # Errors
    /// [`ExitListenerError`]: without `CAP_NET_ADMIN`, in a container, or if the kernel has no taskstats.
    pub fn start(options: &Options, host: &HostContext, ring_bytes: u32) -> Result<Self, ExitListenerError> {
        match Self::bpf(options, host, ring_bytes) {
            Ok(listener) => return Ok(Self(Source::Bpf(listener))),
            Err(Some(no_bpf)) => tracing::info!("no exit records from BPF: {}", no_bpf.cause),
            Err(None) => {}
        }
        if options.taskstats == Ask::No {
            return Err(ExitListenerError::Disabled);
        }
        TaskstatsListener::start(host).map(|listener| Self(Source::Taskstats(listener)))
    }

    /// The listener with BPF programs; why there is none, unless the options say so.
    fn bpf(options: &Options, host: &HostContext, ring_bytes: u32) -> Result<BpfListener, Option<NoBpf>> {
        if options.engine == Engine::Procfs {
            return Err(None);
        }
        if options.roots.tree() != Tree::Live {
            return Err(Some(BpfObstacle::NotLive.into()));
        }
        let facts = Facts::read(host, Start::now(Tree::Live));
        BpfListener::start(ring_bytes, facts, Arc::clone(&options.css_sets)).map_err(Some)
    }

    /// Where the records come from: `bpf` or `taskstats`.
    #[must_use]
    pub fn source(&self) -> &'static str {
        match self.0 {
            Source::Bpf(_) => BPF,
            Source::Taskstats(_) => TASKSTATS,
        }
    }

    /// Stops, and returns the records of all threads that have exited before the call.
    ///
    /// # Panics
    /// If the listening thread panicked.
    #[must_use]
    pub fn finish(self) -> Exits {
        match self.0 {
            Source::Bpf(listener) => {
                let exits = listener.finish();
                let (received, lost) = (exits.received, exits.lost);
                Exits::new(Records::Bpf(exits), received, lost)
            }
            Source::Taskstats(listener) => listener.finish(),
        }
    }
}
