//! The procfs engine: the walk over processes and threads, by workers that can be given up.

use std::sync::Arc;

use nix::errno::Errno;
use rayon::ThreadPool;

use super::super::context::CaptureContext;
use super::super::options::Use;
use super::super::process::Process;
use super::super::read_threads::{Answer, Lacks, ReadThread, ReadThreads};
use super::super::start::nanoseconds;
use super::directory::{ProcDirectory, is_gone};
use super::last_schedstats::{KnownThreads, LastSchedstats};
use super::task::Reader;
use super::whole_process;
use crate::model::{Name, ProcessState, SourceFile, ThreadId, read_time};
use crate::process::{CanHang, Subject};

/// A process with more threads is divided between workers, in parts of this size.
const THREADS_AT_ONCE: usize = 256;

/// Reads all threads of `pids`, in their order.
pub(crate) fn read(context: &CaptureContext, pids: &[u32], pool: &ThreadPool) -> ReadThreads {
    read_changed(context, pids, &KnownThreads::new(), pool)
}

/// Reads the threads of `pids` that ran since `last_threads` was read, and the first thread of each process in which one did.
pub(in crate::capture) fn read_changed(
    context: &CaptureContext,
    pids: &[u32],
    last_threads: &KnownThreads,
    pool: &ThreadPool,
) -> ReadThreads {
    let mut read = ReadThreads::default();
    let part = |&pid| ProcessPart {
        pid,
        start: last_threads.get(&ThreadId { tgid: pid, tid: pid }).and_then(|leader| leader.start_time_clock_ticks),
        stat: Use::Enabled,
        last_schedstats: LastSchedstats::of_process(last_threads, pid).map(Arc::new),
        rest: None,
    };
    let mut parts: Vec<_> = pids.iter().map(part).collect();
    while !parts.is_empty() {
        let own = context.clone();
        let results = context.readers.map(pool.current_num_threads(), parts.clone(), move |reader, part| {
            // A panic says nothing of whether they live.
            let mut values = (ReadThreads::default(), Vec::new());
            values.0.add_unread(part.pid, part.tids());
            own.guarded(format_args!("process {}", part.pid), || {
                let mut read = ReadThreads::default();
                let rest = part.read(&own, reader, &mut read);
                values = (read, rest);
            });
            own.progress.advance(u64::from(part.rest.is_none()));
            values
        });
        let mut next = Vec::new();
        for (part, result) in parts.into_iter().zip(results) {
            match result {
                Some((of_part, rest)) => {
                    read.merge(of_part);
                    next.extend(rest);
                }
                // `stat` blocks while the process is in execve(2).
                None if part.stat == Use::Enabled => next.push(ProcessPart { stat: Use::Disabled, ..part }),
                None => {
                    count_without_stat(context, part.tids().len().max(1), &Name::default());
                    read.add_unread(part.pid, part.tids());
                }
            }
        }
        parts = next;
    }
    let slept = std::mem::take(&mut read.slept);
    read.add_renamed(last_threads, |id| slept.contains(id));
    ReadThreads { slept, ..read }.in_order()
}

/// The first threads of a process, or some of the others.
#[derive(Clone)]
struct ProcessPart {
    pid: u32,
    /// When the process started, in ticks; `None` if that is not known yet.
    start: Option<u64>,
    /// Whether `stat` is read.
    stat: Use,
    /// `None` if all threads are read.
    last_schedstats: Option<Arc<LastSchedstats>>,
    rest: Option<(Arc<OpenedProcess>, Vec<u32>)>,
}

impl ProcessPart {
    /// Reads the part, and returns the parts that are left.
    fn read(&self, context: &CaptureContext, reader: &mut Reader, read: &mut ReadThreads) -> Vec<Self> {
        if let Some((process, tids)) = &self.rest {
            process.read(context, reader, (tids, self.stat), read);
            return Vec::new();
        }
        let Some(process) = self.known_as(Process::open(context, self.pid, SourceFile::Stat), read) else {
            return Vec::new();
        };
        if let Some(last) = self.last_schedstats.as_ref().filter(|last| last.slept(&process.directory)) {
            read.slept.extend(last.ids());
            return Vec::new();
        }
        let opened = OpenedProcess::new(context, process, self.stat);
        let Some((process, mut tids)) = self.known_as(opened, read) else { return Vec::new() };
        tids.retain(|&tid| tid == self.pid || !self.has_slept(&process, tid, read));
        let (first, others) = tids.split_at(tids.len().min(THREADS_AT_ONCE));
        process.read(context, reader, (first, self.stat), read);
        let process = Arc::new(process);
        let part = |tids: &[u32]| Self { rest: Some((Arc::clone(&process), tids.to_vec())), ..self.clone() };
        others.chunks(THREADS_AT_ONCE).map(part).collect()
    }

    /// The values of the process; `None` without any. If it may live, that is kept in mind.
    fn known_as<T>(&self, answer: Answer<T>, read: &mut ReadThreads) -> Option<T> {
        if matches!(answer, Answer::Unread) {
            read.add_unread(self.pid, &[]);
        }
        answer.read()
    }

    /// Returns the threads of the part; none if the process's threads are not listed yet.
    fn tids(&self) -> &[u32] {
        self.rest.as_ref().map_or(&[], |(_, tids)| tids)
    }

    /// Whether the thread did not run since it was known. Then it is kept in mind.
    fn has_slept(&self, process: &OpenedProcess, tid: u32, read: &mut ReadThreads) -> bool {
        let id = ThreadId { tgid: self.pid, tid };
        let slept =
            self.last_schedstats.as_ref().is_some_and(|last| last.thread_slept(&process.tasks, id, &mut Vec::new()));
        read.slept.extend(slept.then_some(id));
        slept
    }
}

impl CanHang for ProcessPart {
    fn subject(&self) -> Subject {
        let what = if self.stat == Use::Enabled { "stat" } else { "status" };
        Subject::Process { what, id: self.pid, start: self.start }
    }
}

/// Counts threads whose `stat` and `io` cannot be read, because reading blocks.
fn count_without_stat(context: &CaptureContext, threads: usize, process: &Name) {
    for file in [SourceFile::Stat, SourceFile::Io] {
        context.tally.failed(file.clone(), Errno::ETIMEDOUT, u64::try_from(threads).unwrap_or(u64::MAX));
        context.tally.name_unread(file, process, || true);
    }
}

/// A process with its counters.
struct OpenedProcess {
    process: Process,
    counters: Option<ProcessState>,
    tasks: ProcDirectory,
}

impl OpenedProcess {
    /// Reads the counters of a process and lists its threads. The counters come first: later counters would include work that is
    /// missing in the threads' counters.
    fn new(context: &CaptureContext, process: Process, stat: Use) -> Answer<(Self, Vec<u32>)> {
        #[cfg(test)]
        process.panic_in("listing");
        let counters = match stat {
            Use::Enabled => whole_process::read(&process.directory, &mut Vec::new()),
            Use::Disabled => None,
        };
        match process.directory.directory("task").and_then(|tasks| Ok((tasks.ids()?, tasks))) {
            Ok((tids, tasks)) => Answer::Read((Self { process, counters, tasks }, tids)),
            Err(errno) if is_gone(errno) => Answer::Gone,
            // procfs mounted with hidepid=1 denies access to processes of other users.
            Err(errno) => {
                process.unread(process.id, SourceFile::Stat, errno, &context.tally);
                Answer::Unread
            }
        }
    }

    /// Reads some of the threads, with `stat` or without.
    fn read(&self, context: &CaptureContext, reader: &mut Reader, (tids, stat): (&[u32], Use), read: &mut ReadThreads) {
        context.tally.lock().parse.tids_walked += u64::try_from(tids.len()).unwrap_or(u64::MAX);
        if stat == Use::Disabled {
            count_without_stat(context, tids.len(), self.process.name());
        }
        for &tid in tids {
            let read_at = nanoseconds(context.start.elapsed());
            let (mut thread, rss_pages) = match reader.thread(context, (&self.process, &self.tasks), tid, stat) {
                Answer::Read(read) => read,
                Answer::Gone => continue,
                Answer::Unread => {
                    read.add_unread(self.process.id, &[tid]);
                    continue;
                }
            };
            thread.read_at_ns = Some(read_time(read_at));
            let mut resident = None;
            if thread.is_leader() {
                thread.process = self.counters.clone().map(Box::new);
                resident = rss_pages.map(|pages| pages.saturating_mul(context.page_size).into());
            }
            let lacks = if stat == Use::Enabled { Lacks::TaskstatsAndIo } else { Lacks::Taskstats };
            read.threads.push(ReadThread { resident_bytes: resident, lacks, ..thread.into() });
            #[cfg(test)]
            self.process.panic_in("reader");
        }
        read.cgroups.append(&mut reader.take_cgroups());
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::context::in_context;
    use super::super::super::{Options, Smaps, capture_with};
    use super::*;
    use crate::model::{CtprofSnapshot, ThreadState};
    use crate::process::no_workers;

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
    fn a_process_whose_threads_cannot_be_listed_is_unread_and_has_not_exited() {
        let dir = tempfile::tempdir().unwrap();
        for pid in [7, 8] {
            std::fs::create_dir(dir.path().join(pid.to_string())).unwrap();
        }
        // Not a directory.
        std::fs::write(dir.path().join("7/task"), b"").unwrap();
        in_context(dir.path(), |context| {
            let id = |pid| ThreadId { tgid: pid, tid: pid };
            let thread = |pid| ThreadState { tgid: pid, tid: pid, ..ThreadState::default() };
            let last_threads: KnownThreads = [7, 8, 9].map(|pid| (id(pid), thread(pid))).into();
            let read = read_changed(context, &[7, 8], &last_threads, &no_workers());
            assert_eq!(read.unread, [(7, vec![])].into());
            assert_eq!(read.missing(last_threads.keys().copied()).collect::<Vec<_>>(), [id(8), id(9)]);
            let failures = &context.tally.lock().parse.read_failures_by_errno[&SourceFile::Stat];
            assert_eq!(
                failures.iter().map(|(errno, count)| (errno.to_string(), *count)).collect::<Vec<_>>(),
                [("ENOTDIR".to_owned(), 1)]
            );
        });
    }

    #[test]
    fn a_panic_costs_values_of_one_process_only() {
        let whole = captured(&[7, 4_000_000_000]);
        assert_eq!((whole.threads.len(), whole.head.parse_summary.unwrap().worker_panics), (4, 0));
        let damaged = captured(&[7, 4_000_000_001, 4_000_000_002, 4_000_000_003]);
        let ids: Vec<_> = damaged.threads.iter().map(|thread| thread.tid).collect();
        // The reader panics after one thread, the listing before; the other sources when all are read.
        let expected = [7, 107, 4_000_000_002, 4_000_000_102];
        assert_eq!(ids, expected);
        assert!(damaged.threads.iter().all(|thread| thread.metrics.minflt == Some(7.into())));
        assert_eq!(damaged.head.parse_summary.unwrap().worker_panics, 3);
        assert_eq!(damaged.head.unread_threads.into_keys().collect::<Vec<_>>(), [4_000_000_001, 4_000_000_003]);
    }
}
