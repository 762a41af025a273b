//! The walk over all threads by a BPF iterator.

use std::collections::HashSet;
use std::sync::mpsc::{TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use rayon::ThreadPool;

use super::super::context::CaptureContext;
use super::super::procfs::directory::ProcDirectory;
use super::super::procfs::{self, text};
use super::super::read_threads::{ReadThreads, processes_of, reduced};
use super::super::tally::Tally;
use super::change_tracker::LastChange;
use super::host_parameters::HostParameters;
use super::layout::records;
use super::read::{BpfThread, RecordReader};
use super::setup::BpfEngine;
use super::{complete, processes};
use crate::model::{METRICS, SourceFile};
use crate::process::lock;

impl BpfEngine {
    /// All threads, and how many processes procfs had to read. `pids` are the processes that procfs has listed before.
    /// After an error of the iterator, any process can lack threads: it visits them in the order of their ids.
    pub(in crate::capture) fn walk(
        &self,
        context: &CaptureContext,
        parameters: &HostParameters,
        pids: &[u32],
        pool: &ThreadPool,
    ) -> Result<(ReadThreads, u64), Errno> {
        let mut changes = self.changes.as_ref().map(|changes| lock(changes));
        changes.iter_mut().for_each(|changes| changes.tracker.forget());
        lock(&self.walk).forget();
        let mut threads = in_order(self.threads(context, parameters, pool)?);
        changes.iter_mut().for_each(|changes| changes.tracker.end_pass(LastChange::each(&threads), &[]));
        let number = u64::try_from(threads.len()).unwrap_or(u64::MAX);
        context.tally.lock().parse.tids_walked = number;
        lock(&self.walk).end_pass(threads.len());
        count_missing_files(&RecordReader::new(&self.layout, parameters), number, &context.tally);
        let cgroups = complete::complete_threads(context, &mut threads);
        let missed = missed(pids, &threads);
        context.progress.advance(u64::try_from(pids.len() - missed.len()).unwrap_or(u64::MAX));
        processes::add_process_values(context, &mut threads, &|_| Vec::new(), pool);
        let mut read = ReadThreads { threads: reduced(threads), cgroups, ..ReadThreads::default() };
        let by_procfs =
            if missed.is_empty() { ReadThreads::default() } else { procfs::walk::read(context, &missed, pool) };
        let processes = processes_of(&by_procfs.threads).count();
        read.merge(by_procfs);
        Ok((read.in_order(), u64::try_from(processes).unwrap_or(u64::MAX)))
    }

    /// The threads of one pass. Workers parse records while the kernel writes the next ones. A panic loses the threads of
    /// its part of the pass, and is counted.
    fn threads(
        &self,
        context: &CaptureContext,
        host: &HostParameters,
        pool: &ThreadPool,
    ) -> Result<Vec<BpfThread>, Errno> {
        let (parts, queue) = sync_channel::<Vec<u64>>(MAX_QUEUED);
        let queue = Mutex::new(queue);
        let all = Mutex::new(Vec::with_capacity(number_of_threads(&context.procfs)));
        let new_reader = || (RecordReader::new(&self.layout, host), Vec::new());
        let parse = |(reader, read): &mut (RecordReader, Vec<BpfThread>), words: &[u64]| {
            context.guarded(format_args!("records of the BPF iterator"), || {
                read.clear();
                read.extend(records(words).filter_map(|record| reader.thread(record)));
                lock(&all).append(read);
            });
        };
        pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, _| {
                let mut reader = new_reader();
                let next = || lock(&queue).recv().ok();
                while let Some(words) = next() {
                    parse(&mut reader, &words);
                }
            });
            // A pool of the calling thread alone takes no part before the end of the pass.
            let (parts, mut reader) = (parts, new_reader());
            self.read(|words| match parts.try_send(words) {
                Ok(()) => {}
                Err(TrySendError::Full(words) | TrySendError::Disconnected(words)) => parse(&mut reader, &words),
            })
        })?;
        Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sorts threads by process and id. Of two with one id, which was reused meanwhile or had no room and was read again, the
/// later one remains.
pub(super) fn in_order(mut threads: Vec<BpfThread>) -> Vec<BpfThread> {
    // They are large: this moves their places, then each of them once.
    threads.sort_by_cached_key(|thread| (thread.state.id(), thread.state.start_time_clock_ticks));
    threads.dedup_by(|later, earlier| {
        let is_reused = later.state.id() == earlier.state.id();
        if is_reused {
            std::mem::swap(later, earlier);
        }
        is_reused
    });
    threads
}

/// The number of threads on this host, from `/proc/loadavg`: the last of `runnable/all`.
fn number_of_threads(procfs: &ProcDirectory) -> usize {
    let mut buffer = Vec::new();
    let text = procfs.read("loadavg", &mut buffer).unwrap_or_default();
    let all = text.split(|&byte| byte == b' ').nth(3).and_then(|field| field.split(|&byte| byte == b'/').nth(1));
    all.and_then(text::unsigned).and_then(|threads| usize::try_from(threads).ok()).unwrap_or(0).min(MAX_RESERVED)
}

/// Parts of a pass, of [`CHUNK`](crate::sys::bpf::iterator::CHUNK) bytes, that may wait for a worker.
const MAX_QUEUED: usize = 4;

/// Room for more threads is made when they are read.
const MAX_RESERVED: usize = 1 << 20;

/// The processes that procfs lists and the iterator did not visit. Some kernels hide threads from iterators.
fn missed(pids: &[u32], threads: &[BpfThread]) -> Vec<u32> {
    let visited: HashSet<u32> = threads.iter().map(|thread| thread.state.tgid).collect();
    pids.iter().copied().filter(|pid| !visited.contains(pid)).collect()
}

/// Counts the files of procfs with values that the kernel does not have, as procfs does, so that the same causes
/// are found.
fn count_missing_files(reader: &RecordReader, threads: u64, tally: &Tally) {
    for file in [SourceFile::Stat, SourceFile::Schedstat, SourceFile::Io, SourceFile::Status, SourceFile::Sched] {
        let mut of_file = METRICS.iter().filter(|metric| metric.file() == file.name() && metric.sources.bpf.is_some());
        if !of_file.any(|metric| reader.has(metric)) {
            tally.failed(file, Errno::ENOENT, threads);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::skip::{Missing, skipped};
    use std::io::{Seek, Write};
    use std::time::Duration;

    use super::super::super::context::in_context;
    use super::super::super::options::Tree;
    use super::super::setup::Passes;
    use super::super::tests::record_builder::RecordBuilder;
    use super::*;
    use crate::process::workers;
    use crate::sys::bpf::iterator::CHUNK;

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
        let ids = |BpfThread { state, .. }: &BpfThread| (state.tgid, state.tid, state.start_time_clock_ticks);
        let expected = [(7, 7, Some(1)), (7, 8, Some(40)), (9, 9, Some(1))];
        assert_eq!(in_order(threads).iter().map(ids).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn processes_that_were_not_visited_are_missed() {
        let visited = thread(7, 8, 1);
        assert_eq!(missed(&[1, 7, 8, 9], &[visited]), [1, 8, 9]);
    }

    #[test]
    fn a_file_without_any_of_its_fields_is_missing_for_every_thread() {
        let missing = |is_absent: fn(&str) -> bool| {
            let mut layout = RecordBuilder::new().layout;
            let absent = (0..).zip(&layout.columns).filter(|(_, column)| is_absent(column.path));
            layout.dropped = absent.map(|(number, _)| number).collect();
            let tally = Tally::default();
            count_missing_files(&RecordReader::new(&layout, &HostParameters::default()), 3, &tally);
            std::mem::take(&mut tally.lock().parse).concluded().read_failures_by_file
        };
        assert!(missing(|_| false).is_empty());
        assert!(missing(|path| path == "ioac.rchar").is_empty());
        assert_eq!(missing(|path| path.starts_with("ioac.")), [(SourceFile::Io, 3)].into());
    }

    #[test]
    fn a_pool_without_threads_of_its_own_parses_a_long_pass() {
        let engine = match BpfEngine::load(1, Passes::OfAll) {
            Ok(engine) => engine,
            Err(no_bpf) => return skipped(Missing::Privilege(format!("BPF: {no_bpf:?}"))),
        };
        let record = [5u64, 0, 0, 0, 0].map(u64::to_ne_bytes).concat();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&record.repeat((MAX_QUEUED + 2) * CHUNK / record.len())).unwrap();
        file.rewind().unwrap();
        engine.replace_iterators(file.into());
        let (send, received) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().unwrap();
            in_context("/proc".as_ref(), |context| {
                send.send(engine.threads(context, &HostParameters::default(), &pool).is_ok()).unwrap();
            });
        });
        assert_eq!(received.recv_timeout(Duration::from_secs(30)), Ok(true));
    }

    #[test]
    fn processes_that_the_iterator_hides_are_read_by_procfs_and_counted() {
        let engine = match BpfEngine::load(1, Passes::OfAll) {
            Ok(engine) => engine,
            Err(no_bpf) => return skipped(Missing::Privilege(format!("BPF: {no_bpf:?}"))),
        };
        // An iterator that visits no thread.
        engine.replace_iterators(tempfile::tempfile().unwrap().into());
        let mut sleep = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        // The second process does not exist.
        let pids = [sleep.id(), u32::MAX >> 1];
        in_context("/proc".as_ref(), |context| {
            let context = CaptureContext { tree: Tree::Live, ..context.clone() };
            let (read, missed_processes) =
                engine.walk(&context, &HostParameters::default(), &pids, &workers(2)).unwrap();
            assert!(read.states().all(|thread| thread.tgid == pids[0] && thread.metrics.run_time_ns.is_some()));
            let ghosts = context.tally.lock().parse.ghosts;
            assert_eq!((missed_processes, read.threads.len(), ghosts), (1, 1, 0));
        });
        sleep.kill().and_then(|()| sleep.wait()).unwrap();
    }
}
