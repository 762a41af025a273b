//! Sources that add values to threads that an engine has read.
//!
//! An engine passes the threads of each process to an [`Enricher`], which keeps them. Sources find
//! everything else they need in the [`Process`].

pub(super) mod jemalloc;
pub(super) mod names;
pub(super) mod rollup;
pub(super) mod smaps;
pub(super) mod taskstats;

use std::fmt::Arguments;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::jemalloc::Probe;
use self::taskstats::{Client, Kept};
use super::process::Process;
use super::tally::Tally;
use super::walked::Walked;
use crate::model::ThreadState;

/// The sources of one capture.
pub(super) struct Sources<'f> {
    /// The families that taskstats provides; `None` to disable taskstats.
    pub(super) taskstats: Option<Kept>,
    /// jemalloc layouts by file; `None` to disable the probe.
    pub(super) jemalloc: Option<&'f jemalloc::Files>,
}

/// Threads of one process, or of a part of a large process, as read by an engine.
#[derive(Default)]
pub(super) struct Part {
    /// The threads, ascending by id.
    pub(super) threads: Vec<ThreadState>,
    /// Resident bytes of the process; `None` where they are unknown or the leader is not among the threads.
    pub(super) resident_bytes: Option<u64>,
}

/// The sources of one worker, and the threads it has processed.
pub(super) struct Enricher<'s> {
    taskstats: Option<Client>,
    probe: Option<Probe<'s>>,
    walked: Walked,
    /// Number of threads that taskstats was queried for.
    asked: usize,
}

impl<'s> Enricher<'s> {
    pub(super) fn new(sources: &Sources<'s>) -> Self {
        Self { taskstats: sources.taskstats.map(Client::open), ..Self::without_taskstats(sources) }
    }

    /// For an engine that reads the values of taskstats itself.
    pub(super) fn without_taskstats(sources: &Sources<'s>) -> Self {
        Self { taskstats: None, probe: sources.jemalloc.map(Probe::new), walked: Walked::default(), asked: 0 }
    }

    /// The counts of files that the engine could not read.
    pub(super) fn tally(&mut self) -> &mut Tally {
        &mut self.walked.tally
    }

    /// Adds the threads of a process, with the values of its own sources.
    pub(super) fn add(&mut self, process: &Process, part: Part) {
        let Self { walked, .. } = self;
        let first = walked.threads.len();
        walked.threads.extend(part.threads);
        walked.resident_bytes.extend(part.resident_bytes.map(|bytes| (process.id, bytes)));
        complete_name(process, &mut walked.threads[first..], &mut walked.tally);
        self.probe(process, first);
        if self.walked.threads.len() - self.asked >= taskstats::AT_ONCE {
            self.ask_taskstats();
        }
    }

    /// Reads the jemalloc counters of the threads from `first`. The probe stops them, which the kernel counts
    /// as delay, so taskstats is queried before.
    fn probe(&mut self, process: &Process, first: usize) {
        let Self { probe: Some(probe), walked, .. } = self else { return };
        if !probe.finds_jemalloc(process, &walked.threads[first..]) {
            return;
        }
        self.ask_taskstats();
        let Self { probe: Some(probe), walked, .. } = self else { return };
        let (threads, tally) = (&mut walked.threads[first..], &mut walked.tally);
        guarded(format_args!("process {}", process.id), tally, |_| probe.process(process, threads, &[]));
    }

    /// Completes threads of a process that the caller keeps. Their thread pointers are in the same order: the jemalloc
    /// probe reads a thread with a known one without stopping it.
    pub(super) fn complete(&mut self, process: &Process, threads: &mut [ThreadState], pointers: &[Option<u64>]) {
        let Self { probe, walked: Walked { tally, .. }, .. } = self;
        complete_name(process, threads, tally);
        let Some(probe) = probe else { return };
        if probe.finds_jemalloc(process, threads) {
            guarded(format_args!("process {}", process.id), tally, |_| probe.process(process, threads, pointers));
        }
    }

    /// Queries taskstats for the remaining threads, with many processes in one message.
    fn ask_taskstats(&mut self) {
        let Self { taskstats: Some(taskstats), walked, asked, .. } = self else { return };
        let threads = &mut walked.threads[*asked..];
        *asked += threads.len();
        guarded(format_args!("taskstats"), &mut walked.tally, |_| {
            threads.chunks_mut(taskstats::AT_ONCE).for_each(|batch| taskstats.read(batch));
        });
    }

    /// Resumes the threads that did not stop in time, on the worker that attached to them.
    pub(super) fn release(&self) {
        if self.probe.is_some() {
            jemalloc::Probe::release();
        }
    }

    /// The threads with all values, and the counts of failures.
    pub(super) fn finish(mut self) -> Walked {
        self.ask_taskstats();
        let Self { taskstats, probe, mut walked, .. } = self;
        walked.taskstats = taskstats.map(Client::summary);
        if let Some(probe) = probe {
            let (summary, time) = probe.finish();
            (walked.probe, walked.probe_time) = (Some(summary), time);
        }
        walked
    }
}

/// Completes the name of the leader, if it is among the threads. After process ids have wrapped around, it can have a
/// larger id than others.
fn complete_name(process: &Process, threads: &mut [ThreadState], tally: &mut Tally) {
    let Some(leader) = threads.iter_mut().find(|thread| thread.is_leader()) else { return };
    guarded(format_args!("process {}", process.id), tally, |_| {
        #[cfg(test)]
        process.panic_in("enricher");
        names::complete(process, leader);
    });
}

/// Runs code that reads `what`. If it panics, its values are lost and the panic is counted.
pub(super) fn guarded(what: Arguments<'_>, tally: &mut Tally, work: impl FnOnce(&mut Tally)) {
    if catch_unwind(AssertUnwindSafe(|| work(tally))).is_err() {
        tracing::error!("a panic while reading {what}: some values are missing; please report it");
        tally.panics += 1;
    }
}
