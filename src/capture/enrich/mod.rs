//! Sources that add values to the threads of any engine.
//!
//! Each is a function over the threads of one process. taskstats is none of them: the BPF engine reads its values itself,
//! and the procfs engine asks for many processes at once.

pub(super) mod jemalloc;
pub(super) mod names;
pub(super) mod rollup;
pub(super) mod smaps;
pub(super) mod taskstats;

use std::collections::HashMap;

use rayon::ThreadPool;

use self::jemalloc::Probe;
use super::context::{CaptureContext, in_all_workers};
use super::process::Process;
use super::read_threads::ReadThreads;
use crate::model::{Owner, SourceFile, ThreadState};

/// Adds the values of all sources, one process after the other, in all workers.
pub(super) fn complete(context: &CaptureContext<'_>, read: &mut ReadThreads, pool: &ThreadPool) {
    let ReadThreads { threads, pointers, .. } = read;
    let processes = threads.chunk_by_mut(|one, other| one.tgid == other.tgid);
    in_all_workers(pool, processes, |processes| {
        let mut probe = context.jemalloc.map(Probe::new);
        for threads in processes {
            let tgid = threads[0].tgid;
            context
                .guarded(format_args!("process {tgid}"), || complete_process(context, threads, &mut probe, pointers));
        }
        if let Some(probe) = probe {
            Probe::release();
            let (summary, time) = probe.finish();
            let mut counts = context.tally.lock();
            counts.probe = Some(jemalloc::merge(counts.probe.take().unwrap_or_default(), summary));
            counts.probe_time += time;
        }
    });
}

fn complete_process(
    context: &CaptureContext<'_>,
    threads: &mut [ThreadState],
    probe: &mut Option<Probe<'_>>,
    pointers: &HashMap<u32, u64>,
) {
    context.progress.advance(1);
    let tgid = threads[0].tgid;
    if Some(tgid) == context.capturing_process {
        threads.iter_mut().for_each(|thread| thread.owner = Some(Owner::Ctprof));
    }
    // Each kernel thread is a process, and none of these sources has values for it.
    if threads[0].kernel_thread {
        return;
    }
    let Some(process) = Process::open(context, tgid, SourceFile::Stat) else { return };
    // After process ids have wrapped around, the leader can have a larger id than others.
    if let Some(leader) = threads.iter_mut().find(|thread| thread.is_leader()) {
        process.learn_name(&leader.comm);
        #[cfg(test)]
        process.panic_in("sources");
        names::complete(&process, leader);
    }
    let Some(probe) = probe else { return };
    if probe.finds_jemalloc(&process, threads) {
        let pointers: Vec<_> = threads.iter().map(|thread| pointers.get(&thread.tid).copied()).collect();
        probe.process(&process, threads, &pointers);
    }
}
