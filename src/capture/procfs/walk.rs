//! The walk over processes and threads, by independent workers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rayon::{Scope, ThreadPool};

use super::super::css_sets::CssSets;
use super::super::enrich::{Enricher, Part, Sources, guarded};
use super::super::options::Tree;
use super::super::process::Process;
use super::super::start::nanoseconds;
use super::super::tally::{File, Tally};
use super::super::walked::Walked;
use super::folder::{Folder, is_gone};
use super::task::{Reader, WholeNames};
use super::whole_process;
use crate::model::{Party, ProcessState, read_time};
use crate::process::Progress;

/// A process with more threads is divided between workers, in parts of this size.
const THREADS_AT_ONCE: usize = 256;

/// Constants of a walk, shared by the workers.
pub(in crate::capture) struct Walk<'a> {
    pub(in crate::capture) procfs: &'a Folder,
    pub(in crate::capture) tree: Tree,
    pub(in crate::capture) whole_names: WholeNames,
    pub(in crate::capture) sources: &'a Sources<'a>,
    /// In bytes.
    pub(in crate::capture) page_size: u64,
    /// Times of threads count from this moment.
    pub(in crate::capture) start: Instant,
    /// The id of the capturing process, if it is among the processes.
    pub(in crate::capture) capturing_process: Option<u32>,
    pub(in crate::capture) progress: &'a Progress,
    pub(in crate::capture) css_sets: &'a CssSets,
}

struct Worker<'a> {
    reader: Reader,
    buffer: Vec<u8>,
    enricher: Enricher<'a>,
}

/// One process with its counters and the directory of its threads.
struct Tasks {
    process: Process,
    counters: Option<ProcessState>,
    folder: Folder,
}

impl<'a> Walk<'a> {
    /// Reads all threads of `pids`.
    pub(in crate::capture) fn run(&self, pids: &[u32], pool: &ThreadPool) -> Walked {
        let workers: Vec<_> = (0..pool.current_num_threads()).map(|_| Mutex::new(Worker::new(self))).collect();
        self.progress.announce(u64::try_from(pids.len()).unwrap_or(u64::MAX));
        let next = AtomicUsize::new(0);
        pool.scope(|scope| {
            for _ in &workers {
                scope.spawn(|scope| self.take_processes(scope, &workers, pids, &next));
            }
        });
        // Parts of a process can reach a worker after it has taken its last process.
        pool.broadcast(|_| this_worker(&workers).enricher.release());
        let mut walked = Walked::default();
        for worker in workers {
            let worker = worker.into_inner().unwrap_or_else(PoisonError::into_inner);
            walked.merge(worker.finish());
        }
        walked.in_order()
    }

    fn take_processes<'s>(
        &'s self,
        scope: &Scope<'s>,
        workers: &'s [Mutex<Worker<'a>>],
        pids: &'s [u32],
        next: &'s AtomicUsize,
    ) {
        while let Some(&pid) = pids.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut worker = this_worker(workers);
            if let Some((tasks, tids)) = worker.guarded_open(self.procfs, pid) {
                let tasks = Arc::new(tasks);
                let mut parts = tids.chunks(THREADS_AT_ONCE);
                let first = parts.next().unwrap_or_default();
                for part in parts.map(<[u32]>::to_vec) {
                    let tasks = Arc::clone(&tasks);
                    scope.spawn(move |_| this_worker(workers).read(self, tasks, &part));
                }
                worker.read(self, tasks, first);
            }
            drop(worker);
            // Parts of a large process keep its handles open, so they come before the next process.
            while rayon::yield_local() == Some(rayon::Yield::Executed) {}
            self.progress.advance(1);
        }
        this_worker(workers).enricher.release();
    }
}

/// The state of the worker that runs this code. No other thread locks it during the walk.
fn this_worker<'w, 'a>(workers: &'w [Mutex<Worker<'a>>]) -> MutexGuard<'w, Worker<'a>> {
    let index = rayon::current_thread_index().expect("the walk runs on the pool");
    workers[index].lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Worker<'a> {
    fn new(walk: &Walk<'a>) -> Self {
        Self {
            reader: Reader::new(walk.tree, walk.whole_names),
            buffer: Vec::new(),
            enricher: Enricher::new(walk.sources),
        }
    }

    fn finish(self) -> Walked {
        Walked { cgroups: self.reader.into_cgroups(), ..self.enricher.finish() }
    }

    /// [`open`](Self::open), where a panic costs this process only.
    fn guarded_open(&mut self, procfs: &Folder, pid: u32) -> Option<(Tasks, Vec<u32>)> {
        let mut opened = None;
        let mut panics = Tally::default();
        guarded(format_args!("process {pid}"), &mut panics, |_| opened = self.open(procfs, pid));
        self.enricher.tally().merge(panics);
        opened
    }

    /// Opens a process, reads its counters and lists its threads; `None` if it has exited or access is denied.
    /// The counters come first: later ones would include work that is not yet in those of the threads.
    fn open(&mut self, procfs: &Folder, pid: u32) -> Option<(Tasks, Vec<u32>)> {
        let mut tids = Vec::new();
        let tally = self.enricher.tally();
        let process = Process::open(procfs, pid).map_err(|errno| match errno {
            errno if is_gone(errno) => {}
            _ => {
                tracing::debug!(pid, ?errno, "cannot open the process's directory");
                tally.failed(File::Stat, errno);
            }
        });
        let process = process.ok()?;
        #[cfg(test)]
        process.panic_in("listing");
        let counters = whole_process::read(&process.folder, &mut self.buffer);
        let mut list = || {
            let folder = process.folder.listing(c"task")?;
            folder.ids(&mut self.buffer, &mut tids)?;
            Ok(folder)
        };
        match list() {
            Ok(folder) => Some((Tasks { process, counters, folder }, tids)),
            Err(errno) if is_gone(errno) => None,
            // procfs mounted with hidepid=1 denies access to processes of other users.
            Err(errno) => {
                process.unread(pid, File::Stat, errno, tally);
                None
            }
        }
    }

    /// Reads the threads `tids` of a process, and adds the other sources to them.
    fn read(&mut self, walk: &Walk<'_>, tasks: Arc<Tasks>, tids: &[u32]) {
        let Self { reader, enricher, .. } = self;
        let Tasks { process, counters, folder } = &*tasks;
        let party = (walk.capturing_process == Some(process.id)).then_some(Party::Ctprof);
        let mut part = Part { threads: Vec::with_capacity(tids.len()), ..Part::default() };
        guarded(format_args!("process {}", process.id), enricher.tally(), |tally| {
            for &tid in tids {
                tally.walked += 1;
                let read_at = nanoseconds(walk.start.elapsed());
                let Some(mut thread) = reader.thread(process, folder, tid, tally) else { continue };
                thread.state.read_at_ns = Some(read_time(read_at));
                thread.state.party = party;
                if thread.state.is_leader() {
                    thread.state.process = counters.clone().map(Box::new);
                    part.resident_bytes = thread.rss_pages.map(|pages| pages.saturating_mul(walk.page_size));
                }
                part.threads.push(thread.state);
                #[cfg(test)]
                process.panic_in("reader");
            }
        });
        enricher.add(process, part);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Options, Smaps, capture_with};
    use crate::model::{CtprofSnapshot, SourceFile};

    /// Captures a recorded tree with processes of two threads each.
    fn captured(pids: &[u32]) -> CtprofSnapshot {
        let dir = tempfile::tempdir().unwrap();
        for (pid, tid) in pids.iter().flat_map(|&pid| [(pid, pid), (pid, pid + 100)]) {
            let thread = dir.path().join(format!("{pid}/task/{tid}"));
            std::fs::create_dir_all(&thread).unwrap();
            std::fs::write(thread.join("stat"), format!("{tid} (x) S 0 0 0 0 -1 0 7 0")).unwrap();
        }
        let mut options = Options::default();
        options.roots.procfs = dir.path().to_owned();
        capture_with(&options).unwrap()
    }

    #[test]
    fn a_process_whose_leader_has_the_largest_id_has_its_counters_and_memory_once() {
        let dir = tempfile::tempdir().unwrap();
        let stat = |tid| format!("{tid} (x) S 1 0 0 0 -1 0 7 0 0 0 5 0");
        let process = dir.path().join("1000");
        for tid in 700..=1000 {
            let thread = process.join(format!("task/{tid}"));
            std::fs::create_dir_all(&thread).unwrap();
            std::fs::write(thread.join("stat"), stat(tid)).unwrap();
        }
        std::fs::write(process.join("stat"), stat(1000).replace(" 7 ", " 2107 ")).unwrap();
        std::fs::write(process.join("smaps_rollup"), "Rss: 4 kB\n").unwrap();
        let mut options = Options { smaps: Smaps::Always, ..Options::default() };
        options.roots.procfs = dir.path().to_owned();
        let snapshot = capture_with(&options).unwrap();
        assert_eq!(snapshot.threads.len(), 301);
        let (leader, others) = snapshot.threads.split_last().unwrap();
        assert_eq!(leader.process.as_ref().unwrap().minflt, Some(2107.into()));
        assert_eq!(leader.smaps_rollup_kib.as_ref().unwrap()["Rss"], 4);
        assert!(others.iter().all(|thread| thread.process.is_none() && thread.smaps_rollup_kib.is_none()));
        let failures = snapshot.head.parse_summary.unwrap().read_failures_by_file;
        assert_eq!(failures[&SourceFile::Io], 301, "of threads, none of the process");
    }

    #[test]
    fn a_panic_costs_values_of_one_process_only() {
        let whole = captured(&[7, 4_000_000_000]);
        assert_eq!((whole.threads.len(), whole.head.parse_summary.unwrap().worker_panics), (4, 0));
        let damaged = captured(&[7, 4_000_000_001, 4_000_000_002, 4_000_000_003]);
        let ids: Vec<_> = damaged.threads.iter().map(|thread| thread.tid).collect();
        // The reader panics after one thread; the enricher when it has all; the listing before.
        let expected = [7, 107, 4_000_000_001, 4_000_000_002, 4_000_000_102];
        assert_eq!(ids, expected);
        assert!(damaged.threads.iter().all(|thread| thread.metrics.minflt == Some(7.into())));
        assert_eq!(damaged.head.parse_summary.unwrap().worker_panics, 3);
    }
}
