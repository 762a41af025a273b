//! The threads of each process together: counters of the process, and the values of other sources.

use std::sync::{Mutex, PoisonError};

use rayon::ThreadPool;

use super::super::enrich::Enricher;
use super::super::process::Process;
use super::super::procfs::folder::is_gone;
use super::super::procfs::parsers::Parsers;
use super::super::procfs::walk::Walk;
use super::super::tally::{File, Tally};
use super::super::walked::Walked;
use super::read::ThreadFacts;
use crate::model::{FieldForm, METRICS, Metric, Metrics, Party, ThreadState};

/// The threads of one process, in the order of ids.
struct ProcessThreads<'t> {
    threads: &'t mut [ThreadState],
    facts: &'t mut [ThreadFacts],
}

/// Divides threads in the order of ids into processes.
fn processes<'t>(
    threads: &'t mut [ThreadState],
    mut facts: &'t mut [ThreadFacts],
) -> impl Iterator<Item = ProcessThreads<'t>> {
    threads.chunk_by_mut(|one, other| one.tgid == other.tgid).map(move |threads| {
        let facts = facts.split_off_mut(..threads.len()).expect("each thread has facts");
        ProcessThreads { threads, facts }
    })
}

/// Completes threads in the order of ids, in all workers. Returns what these have counted.
pub(super) fn complete(
    walk: &Walk<'_>,
    threads: &mut [ThreadState],
    facts: &mut [ThreadFacts],
    pool: &ThreadPool,
) -> Vec<Walked> {
    let processes = Mutex::new(processes(threads, facts));
    let next = || processes.lock().unwrap_or_else(PoisonError::into_inner).next();
    pool.broadcast(|_| {
        let mut enricher = Enricher::without_taskstats(walk.sources);
        let mut memory = ResidentMemory::new();
        while let Some(process) = next() {
            process.complete(walk, &mut memory, &mut enricher);
            walk.progress.advance(1);
        }
        enricher.release();
        enricher.finish()
    })
}

/// Reads the kinds of resident memory that BPF cannot read, from `status`.
struct ResidentMemory {
    metrics: Vec<&'static Metric>,
    parsers: Parsers,
    buffer: Vec<u8>,
}

impl ResidentMemory {
    fn new() -> Self {
        let is_of_memory =
            |metric: &&Metric| metric.sources.bpf.is_some_and(|field| field.form == FieldForm::PageCounter);
        let metrics = METRICS.iter().filter(is_of_memory).collect();
        Self { metrics, parsers: Parsers::new(), buffer: Vec::new() }
    }

    /// Fills what a leader lacks. A process that is exiting has released its memory.
    fn complete(&mut self, process: &Process, leader: &mut Metrics, tally: &mut Tally) {
        if self.metrics.iter().all(|metric| metric.get(leader).is_some()) {
            return;
        }
        let mut read = Metrics::default();
        match process.folder.read(File::Status.name(), &mut self.buffer) {
            Ok(text) => self.parsers.put_all(File::Status, text, &mut read),
            Err(errno) if is_gone(errno) => {}
            Err(errno) => process.unread(process.id, File::Status, errno, tally),
        }
        for metric in &self.metrics {
            if let Some(value) = metric.get(&read) {
                metric.set(leader, value).expect("a metric holds its own values");
            }
        }
    }
}

impl ProcessThreads<'_> {
    fn complete(self, walk: &Walk<'_>, memory: &mut ResidentMemory, enricher: &mut Enricher<'_>) {
        let Self { threads, facts } = self;
        let Some((tgid, kernel_thread)) = threads.first().map(|first| (first.tgid, first.kernel_thread)) else {
            return;
        };
        let leader = facts.iter().position(|facts| facts.process.is_some());
        if let Some(leader) = leader {
            let living = threads.iter().map(|thread| &*thread.metrics).zip(facts.iter().map(|facts| facts.cpu_time));
            let living: Vec<_> = living.collect();
            let process = facts[leader].process.as_ref().map(|process| process.with_threads(&living));
            threads[leader].process = process.map(Box::new);
        }
        if Some(tgid) == walk.capturing_process {
            threads.iter_mut().for_each(|thread| thread.party = Some(Party::Ctprof));
        }
        // Kernel threads have no memory of their own. A process that has exited meanwhile has none left.
        let process = if kernel_thread { None } else { Process::open(walk.procfs, tgid).ok() };
        if let Some(leader) = leader {
            // Below Linux 6.2, a lockdown keeps the counters from BPF. An exiting process has released its memory.
            let pages = || process.as_ref().and_then(Process::resident_pages).unwrap_or(0);
            facts[leader].resident_bytes.get_or_insert_with(|| pages().saturating_mul(walk.page_size));
        }
        let Some(process) = process else { return };
        if let Some(leader) = leader {
            memory.complete(&process, &mut threads[leader].metrics, enricher.tally());
        }
        if let Some(leader) = threads.iter().find(|thread| thread.is_leader()) {
            process.learn_name(&leader.comm);
        }
        let pointers: Vec<_> = facts.iter().map(|facts| facts.thread_pointer).collect();
        enricher.complete(&process, threads, &pointers);
    }
}
