//! Sources that add values to the threads of any engine. Reading them can block for as long as a process holds its memory
//! lock, so it is done in threads that can be abandoned.
//!
//! Each is a function over one process. taskstats is none of them: the BPF engine reads its values itself, and the procfs
//! engine asks for many processes at once.

mod io;
pub(super) mod jemalloc;
pub(super) mod names;
pub(super) mod program;
pub(super) mod rollup;
pub(super) mod smaps;
pub(super) mod taskstats;

use std::time::{Duration, Instant};

use nix::errno::Errno;
use rayon::ThreadPool;

use self::io::IoTexts;
use self::jemalloc::{HeapCounters, Probe, ProbedThread};
use super::context::{CaptureContext, in_all_workers};
use super::options::Tree;
use super::process::Process;
use super::procfs::parsers::Parsers;
use super::read_threads::ReadThreads;
use crate::model::{CtprofProbeSummary, Name, Owner, ProbeFailure, SourceFile, ThreadState};
use crate::process::map_patiently;

/// What is read of one process.
struct ProcessRequest {
    id: u32,
    /// `None` if the leader was not read.
    leader: Option<Name>,
    /// The threads whose `io` is read.
    io: Vec<u32>,
    /// The threads with memory.
    probed: Vec<ProbedThread>,
}

/// What was read of one process.
#[derive(Default)]
struct ProcessValues {
    /// Whether a name of 15 bytes is whole.
    whole_name: bool,
    /// What its interpreter runs.
    program: Option<Name>,
    euid: Option<u32>,
    io: IoTexts,
    heap: Vec<HeapCounters>,
    probe: CtprofProbeSummary,
    probe_time: Duration,
}

/// Adds the values of all sources.
pub(super) fn complete(context: &CaptureContext, read: &mut ReadThreads, pool: &ThreadPool) {
    let own = read.threads.iter_mut().filter(|thread| Some(thread.tgid) == context.capturing_process);
    own.for_each(|thread| thread.owner = Some(Owner::Ctprof));
    let requests = requests(read);
    let asked: Vec<u32> = requests.iter().map(|request| request.id).collect();
    let processes = read.threads.chunk_by(|one, other| one.tgid == other.tgid).count();
    context.progress.advance(u64::try_from(processes - asked.len()).unwrap_or(u64::MAX));
    let own = context.clone();
    let values = map_patiently(pool.current_num_threads(), requests, move |(), request| {
        own.progress.advance(1);
        let mut values = ProcessValues::default();
        own.guarded(format_args!("process {}", request.id), || values.read(&own, request));
        values
    });
    let ReadThreads { threads, without_io, .. } = read;
    let processes = threads.chunk_by_mut(|one, other| one.tgid == other.tgid);
    let processes = processes.filter(|threads| asked.binary_search(&threads[0].tgid).is_ok());
    in_all_workers(pool, processes.zip(values), |processes| {
        let mut parsers = Parsers::new();
        processes.for_each(|(threads, values)| match values {
            Some(values) => values.store(context, threads, &mut parsers),
            None => {
                give_up(context, threads);
                if without_io.contains(&threads[0].tgid) {
                    count_missing_io(context, threads);
                }
            }
        });
    });
}

/// The processes in the order of ids. Each kernel thread is a process, and of these sources only `io` has values for it.
fn requests(read: &ReadThreads) -> Vec<ProcessRequest> {
    let processes = read.threads.chunk_by(|one, other| one.tgid == other.tgid);
    let request = |threads: &[ThreadState]| {
        let id = threads[0].tgid;
        let is_without_io = read.without_io.contains(&id);
        let probed = |thread: &ThreadState| {
            let pointer = read.pointers.get(&thread.tid).copied();
            ProbedThread { tid: thread.tid, state: thread.metrics.state, pointer }
        };
        // After process ids have wrapped around, the leader can have a larger id than others.
        let leader = threads.iter().find(|thread| thread.is_leader() && !thread.kernel_thread);
        ProcessRequest {
            id,
            leader: leader.map(|leader| Name::clone(&leader.comm)),
            io: threads.iter().filter(|_| is_without_io).map(|thread| thread.tid).collect(),
            probed: threads.iter().filter(|thread| thread.has_memory()).map(probed).collect(),
        }
    };
    let is_asked = |threads: &&[ThreadState]| {
        let id = threads[0].tgid;
        !threads[0].kernel_thread && !read.known.contains(&id) || read.without_io.contains(&id)
    };
    processes.filter(is_asked).map(request).collect()
}

impl ProcessValues {
    fn read(&mut self, context: &CaptureContext, request: &ProcessRequest) {
        let Some(process) = Process::open(context, request.id, SourceFile::Stat).read() else { return };
        #[cfg(test)]
        process.panic_in("sources");
        // Of the directory itself, whether it is dumpable or not (`task_dump_owner` of fs/proc/base.c). The owner of a copy
        // is that of the copy.
        self.euid =
            process.directory.stat(".").ok().filter(|_| context.tree == Tree::Live).map(|directory| directory.st_uid);
        if let Some(name) = &request.leader {
            process.learn_name(name);
            self.whole_name = names::is_whole(&process, name);
            self.program = program::of(&process, name);
        }
        if !request.io.is_empty() {
            self.io = IoTexts::read(&process, request.io.iter().copied(), &context.tally);
        }
        if let Some(files) = &context.jemalloc {
            let begin = Instant::now();
            let mut probe = Probe::new(files);
            self.heap = probe.process(&process, &request.probed);
            self.probe = probe.finish();
            self.probe_time = begin.elapsed();
        }
    }

    fn store(self, context: &CaptureContext, threads: &mut [ThreadState], parsers: &mut Parsers) {
        self.io.store(threads, parsers);
        let mut heap = self.heap.into_iter().peekable();
        for thread in threads {
            thread.name_complete |= self.whole_name && thread.is_leader();
            thread.program.clone_from(&self.program);
            thread.euid = self.euid.filter(|_| thread.is_leader() && !thread.kernel_thread);
            if let Some(counters) = heap.next_if(|counters| counters.tid == thread.tid) {
                thread.metrics.allocated_bytes = Some(counters.allocated.into());
                thread.metrics.deallocated_bytes = Some(counters.deallocated.into());
            }
        }
        if context.jemalloc.is_some() {
            let mut counts = context.tally.lock();
            jemalloc::add(counts.probe.get_or_insert_default(), self.probe);
            counts.probe_time += self.probe_time;
        }
    }
}

/// Counts a process whose reads blocked for too long, and logs its name.
fn give_up(context: &CaptureContext, threads: &[ThreadState]) {
    let process = &threads[0];
    tracing::warn!(
        "reading process {} ({}) blocked for too long: it holds its memory lock, or is in execve(2); some of its values are missing",
        process.tgid,
        process.pcomm
    );
    if context.jemalloc.is_some() {
        let failures = [(ProbeFailure::TimedOut, 1)].into();
        let summary = CtprofProbeSummary { tgids_walked: 1, failures, ..CtprofProbeSummary::default() };
        jemalloc::add(context.tally.lock().probe.get_or_insert_default(), summary);
    }
}

fn count_missing_io(context: &CaptureContext, threads: &[ThreadState]) {
    context.tally.failed(SourceFile::Io, Errno::ETIMEDOUT, u64::try_from(threads.len()).unwrap_or(u64::MAX));
    context.tally.name_unread(SourceFile::Io, &threads[0].pcomm, || true);
}
