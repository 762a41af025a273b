//! The walk over processes and threads, by workers that share nothing on the way.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use rayon::{Scope, ThreadPool};

use super::super::Progress;
use super::super::enrich::jemalloc::{self, Probe, Target};
use super::super::enrich::smaps::{self, Smaps};
use super::super::enrich::taskstats::{self, Client, Kept};
use super::folder::{Folder, IdName, Numbered};
use super::tally::{File, Tally};
use super::task::{Reader, Tree};
use crate::model::{CtprofProbeSummary, Name, TaskstatsSummary, ThreadState};

/// A process with more threads than this is shared out between the workers.
const THREADS_AT_ONCE: usize = 256;

/// What the workers have in common, all of it fixed before they start.
pub(in crate::capture) struct Walk<'a> {
    pub(in crate::capture) procfs: &'a Folder,
    pub(in crate::capture) tree: Tree,
    pub(in crate::capture) smaps: Smaps,
    /// What taskstats keeps; `None` not to ask it.
    pub(in crate::capture) taskstats: Option<Kept>,
    /// What files say on allocators; `None` not to read their counters.
    pub(in crate::capture) jemalloc: Option<jemalloc::Files>,
    pub(in crate::capture) page_size: u64,
    pub(in crate::capture) begin: Instant,
    pub(in crate::capture) progress: &'a Progress,
}

/// What one worker keeps to itself.
struct Worker {
    reader: Reader,
    listing: Vec<u8>,
    taskstats: Option<Client>,
    probe: Probe,
    threads: Vec<ThreadState>,
    /// How many of them taskstats was asked for.
    asked: usize,
    tally: Tally,
}

/// What a walk has read.
#[derive(Default)]
pub(in crate::capture) struct Walked {
    /// Ordered by process and thread id.
    pub(in crate::capture) threads: Vec<ThreadState>,
    /// The cgroups that they are in, in all hierarchies with values.
    pub(in crate::capture) cgroups: BTreeSet<Name>,
    pub(in crate::capture) tally: Tally,
    /// `None` if taskstats was not asked.
    pub(in crate::capture) taskstats: Option<TaskstatsSummary>,
    /// `None` if allocators' counters were left out.
    pub(in crate::capture) probe: Option<CtprofProbeSummary>,
    /// Time spent on those, summed over workers.
    pub(in crate::capture) probe_time: Duration,
}

/// One process, by handles that stay with it.
struct Process {
    tgid: u32,
    folder: Folder,
    tasks: Folder,
    /// Where its allocator's counters are.
    target: Option<Target>,
}

impl Walk<'_> {
    /// Reads all threads of `pids`.
    pub(in crate::capture) fn run(&self, pids: &[u32], pool: &ThreadPool) -> Walked {
        let workers: Vec<_> = (0..pool.current_num_threads()).map(|_| Mutex::new(self.worker())).collect();
        self.progress.total.store(pids.len(), Ordering::Relaxed);
        let next = AtomicUsize::new(0);
        pool.scope(|scope| {
            for _ in &workers {
                scope.spawn(|scope| self.take_processes(scope, &workers, pids, &next));
            }
        });
        let mut walked = Walked::default();
        for worker in workers {
            let mut worker = worker.into_inner().unwrap_or_else(PoisonError::into_inner);
            worker.ask_taskstats();
            walked.threads.append(&mut worker.threads);
            walked.cgroups.append(&mut worker.reader.cgroups.seen);
            walked.tally.merge(worker.tally);
            if self.jemalloc.is_some() {
                let (found, time) = worker.probe.finish();
                walked.probe = Some(jemalloc::merge(walked.probe.unwrap_or_default(), found));
                walked.probe_time += time;
            }
            let answers = worker.taskstats.map(Client::summary);
            walked.taskstats = match (walked.taskstats, answers) {
                (Some(a), Some(b)) => Some(taskstats::merge(a, b)),
                (a, b) => a.or(b),
            };
        }
        walked.threads.sort_unstable_by_key(|thread| (thread.tgid, thread.tid));
        name_processes(&mut walked.threads);
        walked
    }

    fn worker(&self) -> Worker {
        Worker {
            reader: Reader::new(self.tree),
            listing: Vec::new(),
            taskstats: self.taskstats.map(Client::open),
            probe: Probe::default(),
            threads: Vec::new(),
            asked: 0,
            tally: Tally::default(),
        }
    }

    fn take_processes<'s>(
        &'s self,
        scope: &Scope<'s>,
        workers: &'s [Mutex<Worker>],
        pids: &'s [u32],
        next: &'s AtomicUsize,
    ) {
        while let Some(&tgid) = pids.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut worker = mine(workers);
            if let Some((mut process, tids)) = worker.open(self.procfs, tgid) {
                process.target = self.jemalloc.as_ref().and_then(|files| worker.attach(files, tgid));
                let process = Arc::new(process);
                let mut parts = tids.chunks(THREADS_AT_ONCE);
                let first = parts.next().unwrap_or_default();
                for part in parts.map(<[u32]>::to_vec) {
                    let process = Arc::clone(&process);
                    scope.spawn(move |_| mine(workers).read(self, &process, &part));
                }
                worker.read(self, &process, first);
            }
            drop(worker);
            // The shares of a large process hold its handles open: done now, few are open at a time.
            while rayon::yield_local() == Some(rayon::Yield::Executed) {}
            self.progress.done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The state of the worker that this code runs on; nobody else ever locks it at the same time.
fn mine(workers: &[Mutex<Worker>]) -> std::sync::MutexGuard<'_, Worker> {
    let index = rayon::current_thread_index().expect("the walk runs on the pool");
    workers[index].lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    /// Opens a process and lists its threads; `None` if it has ended or can't be entered.
    fn open(&mut self, procfs: &Folder, tgid: u32) -> Option<(Process, Vec<u32>)> {
        let mut tids = Vec::new();
        let mut listed = || {
            let folder = procfs.folder(IdName::new(tgid).as_c_str())?;
            let tasks = folder.listing(c"task")?;
            tasks.ids(&mut self.listing, &mut tids)?;
            Ok(Process { tgid, folder, tasks, target: None })
        };
        match listed() {
            Ok(process) => Some((process, tids)),
            Err(Errno::ENOENT | Errno::ESRCH) => None,
            // procfs mounted with hidepid=1 lets nobody in.
            Err(errno) => {
                self.tally.failed(File::Stat, errno);
                None
            }
        }
    }

    /// Finds the allocator's counters of a process. This one's own are in the host's context.
    fn attach(&mut self, files: &jemalloc::Files, tgid: u32) -> Option<Target> {
        if tgid == std::process::id() {
            return None;
        }
        let attached = jemalloc::guarded(|| jemalloc::attach(tgid, files));
        self.probe.process(&attached);
        attached.ok()
    }

    fn read(&mut self, walk: &Walk<'_>, process: &Process, tids: &[u32]) {
        for &tid in tids {
            if self.threads.len() - self.asked == taskstats::AT_ONCE {
                self.ask_taskstats();
            }
            self.tally.walked += 1;
            let read_at = u64::try_from(walk.begin.elapsed().as_nanos()).ok();
            let mut files = Numbered::new(&process.tasks, tid);
            let Some(mut read) = self.reader.thread(&mut files, process.tgid, tid, &mut self.tally) else { continue };
            if read.thread.is_leader() {
                smaps::read(walk.smaps, walk.page_size, &process.folder, &mut read, &mut self.tally);
            }
            if let Some(target) = &process.target {
                self.probe.thread(target, process.tgid, tid, &mut read.thread.metrics);
            }
            read.thread.read_at_ns = read_at;
            self.threads.push(read.thread);
        }
    }

    /// Asks taskstats for the threads that it was not asked for yet.
    fn ask_taskstats(&mut self) {
        if let Some(taskstats) = &mut self.taskstats {
            taskstats.read(&mut self.threads[self.asked..]);
        }
        self.asked = self.threads.len();
    }
}

/// Gives all threads of a process the name of its leader, or of its first thread if the leader
/// could not be read.
fn name_processes(threads: &mut [ThreadState]) {
    for process in threads.chunk_by_mut(|a, b| a.tgid == b.tgid) {
        let leader = process.iter().find(|thread| thread.is_leader()).unwrap_or(&process[0]);
        let name = Name::clone(&leader.comm);
        process.iter_mut().for_each(|thread| thread.pcomm = Name::clone(&name));
    }
}
