//! The walk over all threads by a BPF iterator.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use rayon::ThreadPool;

use super::super::enrich::guarded;
use super::super::procfs::folder::Folder;
use super::super::procfs::text;
use super::super::procfs::walk::Walk;
use super::super::tally::{File, Tally};
use super::super::walked::Walked;
use super::host_parameters::HostParameters;
use super::layout::records;
use super::read::{BpfThread, RecordReader, ThreadFacts};
use super::setup::BpfEngine;
use super::{complete, processes};
use crate::model::{METRICS, SourceFile, ThreadState};

/// All threads, and how many processes procfs had to read.
pub(in crate::capture) struct BpfWalked {
    pub(in crate::capture) walked: Walked,
    pub(in crate::capture) missed_processes: u64,
}

impl BpfEngine {
    /// Reads all threads. `pids` are the processes that procfs has listed before.
    ///
    /// # Errors
    /// Errors of the iterator, which visits threads in the order of their ids, so that any process can lack some.
    pub(in crate::capture) fn walk(
        &self,
        walk: &Walk<'_>,
        facts: &HostParameters,
        pids: &[u32],
        pool: &ThreadPool,
    ) -> Result<BpfWalked, Errno> {
        let (threads, mut tally) = self.threads(facts, number_of_threads(walk.procfs), pool)?;
        let (mut threads, mut thread_facts) = in_order(threads);
        tally.walked = u64::try_from(threads.len()).unwrap_or(u64::MAX);
        count_missing_files(&RecordReader::new(&self.layout, facts), threads.len(), &mut tally);
        let cgroups = complete::complete_threads(walk, &mut threads, &thread_facts, &mut tally);
        let missed = missed(pids, &threads);
        // The walk by procfs announces those that it reads itself.
        walk.progress.announce(u64::try_from(pids.len() - missed.len()).unwrap_or(u64::MAX));
        let counts = processes::complete(walk, &mut threads, &mut thread_facts, pool);
        let resident =
            threads.iter().zip(&thread_facts).filter_map(|(thread, facts)| Some((thread.tgid, facts.resident_bytes?)));
        let resident_bytes = resident.collect();
        let mut walked = Walked { threads, cgroups, resident_bytes, tally, ..Walked::default() };
        counts.into_iter().for_each(|counts| walked.merge(counts));
        let by_procfs = if missed.is_empty() { Walked::default() } else { walk.run(&missed, pool) };
        let processes = by_procfs.threads.chunk_by(|one, other| one.tgid == other.tgid).count();
        walked.merge(by_procfs);
        let missed_processes = u64::try_from(processes).unwrap_or(u64::MAX);
        Ok(BpfWalked { walked: walked.in_order(), missed_processes })
    }

    /// The threads of one pass. Workers parse records while the kernel writes the next ones. A panic loses the threads of
    /// its part of the pass, and is counted.
    fn threads(
        &self,
        facts: &HostParameters,
        expected_threads: usize,
        pool: &ThreadPool,
    ) -> Result<(Vec<BpfThread>, Tally), Errno> {
        let (parts, queue) = sync_channel(MAX_QUEUED);
        let queue = Mutex::new(queue);
        let all = Mutex::new((Vec::with_capacity(expected_threads), Tally::default()));
        pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, _| {
                let (mut reader, mut tally) = (RecordReader::new(&self.layout, facts), Tally::default());
                while let Some(words) = next(&queue) {
                    guarded(format_args!("records of the BPF iterator"), &mut tally, |_| {
                        let read: Vec<_> = records(&words).filter_map(|record| reader.thread(record)).collect();
                        lock(&all).0.extend(read);
                    });
                }
                lock(&all).1.merge(tally);
            });
            let parts = parts;
            self.read(|words| parts.send(words).expect("workers take parts until there are no more"))
        })?;
        Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The next part of a pass, once it is read.
fn next(queue: &Mutex<Receiver<Vec<u64>>>) -> Option<Vec<u64>> {
    lock(queue).recv().ok()
}

/// Sorts threads by process and id. Of two with one id, which was reused meanwhile, the later one remains.
fn in_order(mut threads: Vec<BpfThread>) -> (Vec<ThreadState>, Vec<ThreadFacts>) {
    threads.sort_unstable_by_key(|thread| (thread.state.id(), Reverse(thread.state.start_time_clock_ticks)));
    threads.dedup_by_key(|thread| thread.state.id());
    let facts = threads.iter_mut().map(|thread| std::mem::take(&mut thread.facts)).collect();
    // In the memory of the threads that were read.
    (threads.into_iter().map(|thread| thread.state).collect(), facts)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of threads on this host, from `/proc/loadavg`: the last of `runnable/all`.
fn number_of_threads(procfs: &Folder) -> usize {
    let mut buffer = Vec::new();
    let text = procfs.read(c"loadavg", &mut buffer).unwrap_or_default();
    let all = text.split(|&byte| byte == b' ').nth(3).and_then(|field| field.split(|&byte| byte == b'/').nth(1));
    all.and_then(text::unsigned).and_then(|threads| usize::try_from(threads).ok()).unwrap_or(0).min(MAX_RESERVED)
}

/// Parts of a pass, of [`CHUNK`](crate::sys::bpf::iterator::CHUNK) bytes, that may wait for a worker.
const MAX_QUEUED: usize = 16;

/// Room for more threads is made when they are read.
const MAX_RESERVED: usize = 1 << 20;

/// The processes that procfs lists and the iterator did not visit. Some kernels hide threads from iterators.
fn missed(pids: &[u32], threads: &[ThreadState]) -> Vec<u32> {
    let visited: HashSet<u32> = threads.iter().map(|thread| thread.tgid).collect();
    pids.iter().copied().filter(|pid| !visited.contains(pid)).collect()
}

/// Counts the files of procfs with values that the kernel does not have, as procfs does, so that the same causes
/// are found.
fn count_missing_files(reader: &RecordReader, threads: usize, tally: &mut Tally) {
    for file in [File::Stat, File::Schedstat, File::Io, File::Status, File::Sched] {
        let name = SourceFile::from(file);
        let mut of_file = METRICS.iter().filter(|metric| metric.file() == name.name() && metric.sources.bpf.is_some());
        if !of_file.any(|metric| reader.has(metric)) {
            (0..threads).for_each(|_| tally.failed(file, Errno::ENOENT));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::skip::{Missing, skipped};
    use std::time::Instant;

    use super::super::super::css_sets::CssSets;
    use super::super::super::enrich::Sources;
    use super::super::super::options::Tree;
    use super::super::super::procfs::folder::Folder;
    use super::super::super::procfs::task::WholeNames;
    use super::super::tests::record_builder::RecordBuilder;
    use super::*;
    use crate::process::{Progress, workers};

    /// A thread that started at a tick.
    fn thread(tgid: u32, tid: u32, start: u64) -> BpfThread {
        let fields = [("pid", tid.into()), ("tgid", tgid.into())];
        let record = RecordBuilder::new().with(fields);
        let mut reader = RecordReader::new(&record.layout, &HostParameters::default());
        let mut thread = reader.thread(record.record()).unwrap();
        thread.state.start_time_clock_ticks = Some(start);
        thread
    }

    #[test]
    fn of_two_threads_with_one_id_the_later_one_remains() {
        let threads = vec![thread(9, 9, 1), thread(7, 8, 30), thread(7, 7, 1), thread(7, 8, 40), thread(7, 8, 20)];
        let ids = |thread: &ThreadState| (thread.tgid, thread.tid, thread.start_time_clock_ticks);
        let expected = [(7, 7, Some(1)), (7, 8, Some(40)), (9, 9, Some(1))];
        assert_eq!(in_order(threads).0.iter().map(ids).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn processes_that_were_not_visited_are_missed() {
        let visited = thread(7, 8, 1).state;
        assert_eq!(missed(&[1, 7, 8, 9], &[visited]), [1, 8, 9]);
    }

    #[test]
    fn a_file_without_any_of_its_fields_is_missing_for_every_thread() {
        let missing = |is_absent: fn(&str) -> bool| {
            let mut layout = RecordBuilder::new().layout;
            let absent = (0..).zip(&layout.columns).filter(|(_, column)| is_absent(column.path));
            layout.dropped = absent.map(|(number, _)| number).collect();
            let mut tally = Tally::default();
            count_missing_files(&RecordReader::new(&layout, &HostParameters::default()), 3, &mut tally);
            tally.summary().read_failures_by_file
        };
        assert!(missing(|_| false).is_empty());
        assert!(missing(|path| path == "ioac.rchar").is_empty());
        assert_eq!(missing(|path| path.starts_with("ioac.")), [(SourceFile::Io, 3)].into());
    }

    #[test]
    fn processes_that_the_iterator_hides_are_read_by_procfs_and_counted() {
        let engine = match BpfEngine::load(1) {
            Ok(engine) => engine,
            Err(no_bpf) => return skipped(Missing::Privilege(format!("BPF: {no_bpf:?}"))),
        };
        // An iterator that visits no thread.
        engine.replace_iterators(tempfile::tempfile().unwrap().into());
        let walk = Walk {
            procfs: &Folder::open("/proc".as_ref()).unwrap(),
            tree: Tree::Live,
            whole_names: WholeNames::default(),
            sources: &Sources { taskstats: None, jemalloc: None },
            page_size: 4096,
            start: Instant::now(),
            capturing_process: None,
            progress: &Progress::default(),
            css_sets: &CssSets::default(),
        };
        // The second process does not exist.
        let pids = [std::process::id(), u32::MAX >> 1];
        let BpfWalked { walked, missed_processes } =
            engine.walk(&walk, &HostParameters::default(), &pids, &workers(2)).unwrap();
        assert!(walked.threads.iter().all(|thread| thread.tgid == pids[0] && thread.metrics.run_time_ns.is_some()));
        assert_eq!((missed_processes, walked.threads.is_empty(), walked.tally.ghosts), (1, false, 0));
    }
}
