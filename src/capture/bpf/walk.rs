//! The walk over all threads by a BPF iterator.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use rayon::ThreadPool;

use super::super::enrich::guarded;
use super::super::procfs::folder::{Folder, IdName};
use super::super::procfs::text;
use super::super::procfs::walk::Walk;
use super::super::tally::{File, Tally};
use super::super::walked::Walked;
use super::facts::Facts;
use super::layout::records;
use super::read::{ReadThread, Reader, ThreadFacts};
use super::setup::Engine;
use super::{complete, processes};
use crate::model::{METRICS, SourceFile, ThreadState};

/// All threads, and how many processes procfs had to read.
pub(in crate::capture) struct BpfWalked {
    pub(in crate::capture) walked: Walked,
    pub(in crate::capture) missed_processes: u64,
}

impl Engine {
    /// Reads all threads of `pids`, which procfs has listed before, or of every process that there is.
    ///
    /// # Errors
    /// Errors of the iterator, which visits threads in the order of their ids, so that any process can lack some.
    pub(in crate::capture) fn walk(
        &self,
        walk: &Walk<'_>,
        facts: &Facts,
        pids: &[u32],
        which: Which,
        pool: &ThreadPool,
    ) -> Result<BpfWalked, Errno> {
        let reader = || Reader::new(&self.layout, &self.dropped, self.level, facts);
        let wanted: HashSet<u32> = pids.iter().copied().collect();
        let is_wanted = |thread: &ThreadState| which == Which::All || wanted.contains(&thread.tgid);
        let mut tally = Tally::default();
        let parser = Parser::new(&reader, &is_wanted, number_of_threads(walk.procfs));
        let only = if let [process] = *pids { Some(process) } else { None };
        let before = only.map(|process| tids(walk.procfs, process)).unwrap_or_default();
        let (mut threads, mut thread_facts) = self.threads(parser, pool, &mut tally)?;
        if only.is_some_and(|process| is_cut(&threads, &before, &tids(walk.procfs, process))) {
            // procfs reads the whole process instead.
            threads.clear();
            thread_facts.clear();
        }
        tally.walked = u64::try_from(threads.len()).unwrap_or(u64::MAX);
        count_missing_files(&reader(), threads.len(), &mut tally);
        let cgroups = complete::all(walk, &mut threads, &thread_facts, &mut tally);
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

    /// The threads of one pass in the order of processes, and what later steps need of each. Workers parse records while
    /// the kernel writes the next ones.
    fn threads(
        &self,
        parser: Parser<'_>,
        pool: &ThreadPool,
        tally: &mut Tally,
    ) -> Result<(Vec<ThreadState>, Vec<ThreadFacts>), Errno> {
        let shared = &parser;
        pool.in_place_scope(|scope| {
            self.read(|words| {
                if shared.queued.fetch_add(1, Ordering::Relaxed) < MAX_QUEUED {
                    scope.spawn(move |_| shared.parse(&words));
                } else {
                    shared.parse(&words);
                }
            })
        })?;
        let Parser { threads, tally: counts, .. } = parser;
        tally.merge(counts.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(in_order(threads.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Parses the records of a pass, in any number of workers.
struct Parser<'a> {
    reader: &'a (dyn Fn() -> Reader + Sync),
    is_wanted: &'a (dyn Fn(&ThreadState) -> bool + Sync),
    /// Readers that no worker uses.
    readers: Mutex<Vec<Reader>>,
    threads: Mutex<Vec<ReadThread>>,
    tally: Mutex<Tally>,
    /// Parts of the pass that are not parsed yet.
    queued: AtomicUsize,
}

impl<'a> Parser<'a> {
    fn new(
        reader: &'a (dyn Fn() -> Reader + Sync),
        is_wanted: &'a (dyn Fn(&ThreadState) -> bool + Sync),
        expected_threads: usize,
    ) -> Self {
        Self {
            reader,
            is_wanted,
            readers: Mutex::default(),
            threads: Mutex::new(Vec::with_capacity(expected_threads)),
            tally: Mutex::default(),
            queued: AtomicUsize::new(0),
        }
    }

    /// Parses a part of the pass. A panic loses its threads, and is counted.
    fn parse(&self, words: &[u64]) {
        let mut counts = Tally::default();
        guarded(format_args!("records of the BPF iterator"), &mut counts, |_| {
            let free = lock(&self.readers).pop();
            let mut reader = free.unwrap_or_else(self.reader);
            let read = records(words).filter_map(|record| reader.thread(record));
            let read: Vec<_> = read.filter(|thread| (self.is_wanted)(&thread.state)).collect();
            lock(&self.threads).extend(read);
            lock(&self.readers).push(reader);
        });
        lock(&self.tally).merge(counts);
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sorts threads by process and id. Of two with one id, which was reused meanwhile, the later one remains.
fn in_order(mut threads: Vec<ReadThread>) -> (Vec<ThreadState>, Vec<ThreadFacts>) {
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

/// Parts of a pass, of [`CHUNK`](crate::sys::bpf::iterator::CHUNK) bytes, that may wait for a worker. The next ones are
/// parsed by the thread that reads.
const MAX_QUEUED: usize = 16;

/// Room for more threads is made when they are read.
const MAX_RESERVED: usize = 1 << 20;

/// Which processes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum Which {
    /// Every process, also one that procfs did not list.
    All,
    /// Those that were selected.
    Selected,
}

/// The ids of the threads of a process; none if it has exited.
fn tids(procfs: &Folder, process: u32) -> Vec<u32> {
    let mut tids = Vec::new();
    let folder = procfs.folder(IdName::new(process).as_c_str()).and_then(|folder| folder.listing(c"task"));
    let _ = folder.and_then(|folder| folder.ids(&mut Vec::new(), &mut tids));
    tids
}

/// Whether the iterator left out a thread that lived before and after. One over a single process ends where a thread
/// exits that it is about to leave (`task_group_seq_get_next` of `kernel/bpf/task_iter.c`).
fn is_cut(threads: &[ThreadState], before: &[u32], after: &[u32]) -> bool {
    let visited: HashSet<u32> = threads.iter().map(|thread| thread.tid).collect();
    let mut lived = before.iter().filter(|tid| after.binary_search(tid).is_ok());
    lived.any(|tid| !visited.contains(tid))
}

/// The processes that procfs lists and the iterator did not visit. Some kernels hide threads from iterators.
fn missed(pids: &[u32], threads: &[ThreadState]) -> Vec<u32> {
    let visited: HashSet<u32> = threads.iter().map(|thread| thread.tgid).collect();
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

#[cfg(test)]
mod tests {
    use crate::skip::{Missing, skipped};
    use std::collections::BTreeSet;
    use std::time::Instant;

    use super::super::super::css_sets::CssSets;
    use super::super::super::enrich::Sources;
    use super::super::super::options::Tree;
    use super::super::super::procfs::folder::Folder;
    use super::super::super::procfs::task::WholeNames;
    use super::super::columns::Level;
    use super::super::record_builder::RecordBuilder;
    use super::*;
    use crate::process::{Progress, workers};

    /// A thread that started at a tick.
    fn thread(tgid: u32, tid: u32, start: u64) -> ReadThread {
        let fields = [("pid", tid.into()), ("tgid", tgid.into())];
        let record = RecordBuilder::new(Level(0)).with(fields);
        let mut reader = Reader::new(&record.layout, &BTreeSet::new(), Level(0), &Facts::default());
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
        let record = RecordBuilder::new(Level(0));
        let missing = |is_absent: fn(&str) -> bool| {
            let absent = (0..).zip(&record.layout.columns).filter(|(_, column)| is_absent(&column.path));
            let dropped: BTreeSet<_> = absent.map(|(number, _)| number).collect();
            let mut tally = Tally::default();
            count_missing_files(&Reader::new(&record.layout, &dropped, Level(0), &Facts::default()), 3, &mut tally);
            tally.summary().read_failures_by_file
        };
        assert!(missing(|_| false).is_empty());
        assert!(missing(|path| path == "ioac.rchar").is_empty());
        assert_eq!(missing(|path| path.starts_with("ioac.")), [(SourceFile::Io, 3)].into());
    }

    /// The threads of these processes by a program for this process only, and how many processes it missed; `None`
    /// prints why the test is skipped.
    fn walked(pids: &[u32]) -> Option<BpfWalked> {
        let engine = Engine::load(Some(std::process::id()), 1);
        let engine = engine.map_err(|no_bpf| skipped(Missing::Privilege(format!("BPF: {no_bpf:?}")))).ok()?;
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
        let facts = Facts { online: vec![0], page_size: 4096, ..Facts::default() };
        Some(engine.walk(&walk, &facts, pids, Which::Selected, &workers(2)).unwrap())
    }

    #[test]
    fn processes_that_the_iterator_hides_are_read_by_procfs_and_counted() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // The last process does not exist.
        let pids = [std::process::id(), child.id(), u32::MAX >> 1];
        let walked = walked(&pids);
        child.kill().unwrap();
        child.wait().unwrap();
        let Some(BpfWalked { walked, missed_processes }) = walked else { return };
        let found: BTreeSet<_> = walked.threads.iter().map(|thread| thread.tgid).collect();
        assert_eq!(found, pids[..2].iter().copied().collect());
        assert!(walked.threads.iter().all(|thread| thread.metrics.run_time_ns.is_some()));
        // Before Linux 6.1, the iterator visits all processes.
        assert!(missed_processes <= 1, "{missed_processes}");
        assert_eq!(walked.tally.ghosts, 0);
    }

    #[test]
    fn a_thread_that_exited_under_the_iterator_hid_all_later_ones() {
        let visited = [7, 9].map(|tid| thread(7, tid, 1).state);
        assert!(is_cut(&visited, &[7, 8, 9], &[7, 8, 9]));
        assert!(!is_cut(&visited, &[7, 8, 9], &[7, 9, 10]), "one exited, one started");
    }

    #[test]
    fn threads_of_processes_that_are_not_selected_are_left_out() {
        let Some(BpfWalked { walked, missed_processes }) = walked(&[]) else { return };
        assert_eq!((walked.threads.len(), missed_processes), (0, 0));
    }
}
