//! The threads of each process together: counters and memory of the process.

use rayon::ThreadPool;

use super::super::context::{CaptureContext, in_all_workers};
use super::super::process::Process;
use super::super::procfs::directory::is_gone;
use super::super::procfs::parsers::Parsers;
use super::super::read_threads::Answer;
use super::cpu_time::CpuTime;
use super::read::BpfThread;
use crate::model::{FieldForm, METRICS, Metric, Metrics, SourceFile};

/// Counters and CPU time of a thread.
pub(super) type ThreadCounters<'t> = (&'t Metrics, Option<CpuTime>);

/// Completes threads in the order of ids, in all workers. `others` are the threads of a process that are not among them.
pub(super) fn add_process_values<'t>(
    context: &CaptureContext,
    threads: &mut [BpfThread],
    others: &(dyn Fn(u32) -> Vec<ThreadCounters<'t>> + Sync),
    pool: &ThreadPool,
) {
    let processes = threads.chunk_by_mut(|one, other| one.state.tgid == other.state.tgid);
    in_all_workers(pool, processes, |processes| {
        let mut memory = ResidentMemory::new();
        processes.for_each(|threads| {
            let others = others(threads[0].state.tgid);
            complete_process(context, &mut memory, threads, &others);
        });
    });
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
    fn add_missing(&mut self, context: &CaptureContext, BpfThread { state: leader, kernel }: &mut BpfThread) {
        let resident_bytes = &mut kernel.resident_bytes;
        if resident_bytes.is_some() && self.metrics.iter().all(|metric| metric.get(&leader.metrics).is_some()) {
            return;
        }
        // Below Linux 6.2, a lockdown keeps the counters from BPF.
        let process = match Process::open(context, leader.tgid, SourceFile::Status) {
            Answer::Read(process) => process,
            Answer::Gone => {
                resident_bytes.get_or_insert(0);
                return;
            }
            Answer::Unread => return,
        };
        let pages = || process.resident_pages().map(|pages| pages.saturating_mul(context.page_size));
        *resident_bytes = resident_bytes.or_else(pages);
        let mut read = Metrics::default();
        match process.directory.read("status", &mut self.buffer) {
            Ok(text) => self.parsers.put_all(&SourceFile::Status, text, &mut read),
            Err(errno) if is_gone(errno) => {}
            Err(errno) => process.unread(process.id, SourceFile::Status, errno, &context.tally),
        }
        for metric in &self.metrics {
            if let Some(value) = metric.get(&read) {
                metric.set(&mut leader.metrics, value).expect("a metric holds its own values");
            }
        }
    }
}

/// Completes the threads of one process, in the order of ids.
fn complete_process(
    context: &CaptureContext,
    memory: &mut ResidentMemory,
    threads: &mut [BpfThread],
    others: &[ThreadCounters<'_>],
) {
    let Some(leader) = threads.iter().position(|thread| thread.kernel.process.is_some()) else { return };
    let living = threads.iter().map(|thread| (&*thread.state.metrics, thread.kernel.cpu_time));
    let living: Vec<_> = living.chain(others.iter().copied()).collect();
    let process = threads[leader].kernel.process.as_ref().map(|process| process.with_threads(&living));
    threads[leader].state.process = process.map(Box::new);
    memory.add_missing(context, &mut threads[leader]);
}
