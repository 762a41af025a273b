//! The walk over all threads by a BPF iterator.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::vec::IntoIter;

use nix::errno::Errno;
use rayon::ThreadPool;

use super::super::enrich::{Enricher, Part, guarded};
use super::super::process::Process;
use super::super::procfs::walk::Walk;
use super::super::tally::{File, Tally};
use super::super::walked::Walked;
use super::complete;
use super::facts::Facts;
use super::read::{ReadThread, Reader};
use super::setup::Engine;
use crate::model::{METRICS, Party, SourceFile};

/// All threads, and how many processes procfs had to read.
pub(in crate::capture) struct BpfWalked {
    pub(in crate::capture) walked: Walked,
    pub(in crate::capture) missed_processes: u64,
}

impl Engine {
    /// Reads all threads of `pids`, which procfs has listed before, or of every process that there is.
    pub(in crate::capture) fn walk(
        &self,
        walk: &Walk<'_>,
        facts: Facts,
        pids: &[u32],
        which: Which,
        pool: &ThreadPool,
    ) -> BpfWalked {
        walk.progress.announce(u64::try_from(pids.len()).unwrap_or(u64::MAX));
        let mut reader = Reader::new(&self.layout, &self.dropped, self.level, facts);
        let mut threads = self.threads(&mut reader, pids, which);
        let missed = missed(pids, &threads);
        let mut tally = Tally::default();
        tally.walked = u64::try_from(threads.len()).unwrap_or(u64::MAX);
        count_missing_files(&reader, threads.len(), &mut tally);
        let cgroups = complete::all(walk, &mut threads, &mut tally);
        let mut walked = Walked { cgroups, tally, ..Walked::default() };
        enriched(walk, threads, pool).into_iter().for_each(|part| walked.merge(part));
        if !missed.is_empty() {
            walked.merge(walk.run(&missed, pool));
        }
        let missed: HashSet<u32> = missed.into_iter().collect();
        let read = walked.threads.iter().filter(|thread| thread.is_leader() && missed.contains(&thread.tgid));
        let missed_processes = u64::try_from(read.count()).unwrap_or(u64::MAX);
        BpfWalked { walked: walked.in_order(), missed_processes }
    }

    /// The threads of one pass, in the order of processes.
    fn threads(&self, reader: &mut Reader, pids: &[u32], which: Which) -> Vec<ReadThread> {
        let wanted: HashSet<u32> = pids.iter().copied().collect();
        let is_wanted = |thread: &ReadThread| which == Which::All || wanted.contains(&thread.state.tgid);
        let mut threads = Vec::new();
        if let Err(errno) = self.read(|record| threads.extend(reader.thread(record).filter(is_wanted))) {
            tracing::warn!("the BPF iterator failed ({errno}): procfs reads the remaining processes");
        }
        threads.sort_unstable_by_key(|thread| thread.state.id());
        // An id that was reused meanwhile; the later thread has a later start.
        threads.dedup_by_key(|thread| thread.state.id());
        threads
    }
}

/// Which processes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum Which {
    /// Every process, also one that procfs did not list.
    All,
    /// Those that were selected.
    Selected,
}

/// The processes that procfs lists and the iterator did not visit. Some kernels hide threads from iterators.
fn missed(pids: &[u32], threads: &[ReadThread]) -> Vec<u32> {
    let visited: HashSet<u32> = threads.iter().map(|thread| thread.state.tgid).collect();
    pids.iter().copied().filter(|pid| !visited.contains(pid)).collect()
}

/// Counts the files of procfs with values that the kernel does not have, as procfs does, so that the same causes
/// are found.
fn count_missing_files(reader: &Reader, threads: usize, tally: &mut Tally) {
    for file in [File::Stat, File::Schedstat, File::Io, File::Status, File::Sched] {
        let name = SourceFile::from(file);
        let mut of_file = METRICS.iter().filter(|metric| metric.file() == name.name() && metric.sources.bpf.is_some());
        if !of_file.any(|metric| reader.has(metric)) {
            (0..threads).for_each(|_| tally.failed(file, Errno::ENOENT));
        }
    }
}

/// Adds the values of other sources, in all workers.
fn enriched(walk: &Walk<'_>, threads: Vec<ReadThread>, pool: &ThreadPool) -> Vec<Walked> {
    let processes = Mutex::new(Processes { threads: threads.into_iter(), next: None });
    let next = || processes.lock().unwrap_or_else(PoisonError::into_inner).next();
    pool.broadcast(|_| {
        let mut enricher = Enricher::without_taskstats(walk.sources);
        while let Some(threads) = next() {
            add(walk, &mut enricher, threads);
            walk.progress.advance(1);
        }
        enricher.release();
        enricher.finish()
    })
}

/// Threads, process by process.
struct Processes {
    threads: IntoIter<ReadThread>,
    next: Option<ReadThread>,
}

impl Iterator for Processes {
    type Item = Vec<ReadThread>;

    fn next(&mut self) -> Option<Vec<ReadThread>> {
        let first = self.next.take().or_else(|| self.threads.next())?;
        let tgid = first.state.tgid;
        let mut process = vec![first];
        for thread in self.threads.by_ref() {
            if thread.state.tgid != tgid {
                self.next = Some(thread);
                break;
            }
            process.push(thread);
        }
        Some(process)
    }
}

/// Adds the threads of one process.
fn add(walk: &Walk<'_>, enricher: &mut Enricher<'_>, mut threads: Vec<ReadThread>) {
    let Some(first) = threads.first() else { return };
    let (tgid, kernel_thread) = (first.state.tgid, first.state.kernel_thread);
    add_process_counters(&mut threads);
    let party = (Some(tgid) == walk.capturing_process).then_some(Party::Ctprof);
    let part = Part {
        resident_bytes: threads.iter().find_map(|thread| thread.resident_bytes),
        thread_pointers: threads.iter().map(|thread| thread.thread_pointer).collect(),
        threads: threads
            .into_iter()
            .map(|mut thread| {
                thread.state.party = party;
                thread.state
            })
            .collect(),
    };
    // Kernel threads have no memory of their own. A process that has exited meanwhile has none left.
    let process = if kernel_thread { None } else { Process::open(walk.procfs, tgid).ok() };
    let Some(process) = process else { return enricher.keep(part) };
    if let Some(leader) = part.threads.iter().find(|thread| thread.is_leader()) {
        process.learn_name(&leader.comm);
    }
    enricher.add(&process, part);
    guarded(format_args!("the log of process {tgid}"), enricher.tally(), |_| process.log());
}

/// Completes the counters of a process with those of its threads.
fn add_process_counters(threads: &mut [ReadThread]) {
    let Some(leader) = threads.iter().position(|thread| thread.process.is_some()) else { return };
    let Some(process) = threads[leader].process.take() else { return };
    let living: Vec<_> = threads.iter().map(|thread| (&*thread.state.metrics, thread.cpu_time)).collect();
    let process = process.with_threads(&living);
    threads[leader].state.process = Some(Box::new(process));
}
