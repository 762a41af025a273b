//! The procfs engine: the walk over processes and threads, by independent workers.

use rayon::ThreadPool;
use rayon::prelude::*;

use super::super::context::{CaptureContext, in_all_workers};
use super::super::enrich::taskstats;
use super::super::process::Process;
use super::super::read_threads::ReadThreads;
use super::super::start::nanoseconds;
use super::folder::{Folder, is_gone};
use super::task::Reader;
use super::whole_process;
use crate::model::{ProcessState, SourceFile, read_time};

/// A process with more threads is divided between workers, in parts of this size.
const THREADS_AT_ONCE: usize = 256;

/// Reads all threads of `pids`, in their order.
pub(crate) fn read(context: &CaptureContext<'_>, pids: &[u32], pool: &ThreadPool) -> ReadThreads {
    let of_workers = in_all_workers(pool, pids.iter(), |pids| {
        let (mut reader, mut read) = (Reader::new(context), ReadThreads::default());
        for &pid in pids {
            context.guarded(format_args!("process {pid}"), || read.merge(read_process(context, pid, &mut reader)));
            context.progress.advance(1);
        }
        read
    });
    let mut read = ReadThreads::default();
    of_workers.into_iter().for_each(|of_worker| read.merge(of_worker));
    let mut read = read.in_order();
    taskstats::read(context, &mut read.threads, pool);
    read
}

fn read_process(context: &CaptureContext<'_>, pid: u32, reader: &mut Reader) -> ReadThreads {
    let Some(opened) =
        Process::open(context, pid, SourceFile::Stat).and_then(|process| OpenProcess::new(context, process))
    else {
        return ReadThreads::default();
    };
    let (first, rest) = opened.tids.split_at(opened.tids.len().min(THREADS_AT_ONCE));
    let mut read = opened.read(context, first, reader);
    let parts = rest.par_chunks(THREADS_AT_ONCE);
    let parts: Vec<_> = parts.map(|tids| opened.read(context, tids, &mut Reader::new(context))).collect();
    parts.into_iter().for_each(|part| read.merge(part));
    read
}

/// One process with its counters and its threads.
struct OpenProcess {
    process: Process,
    counters: Option<ProcessState>,
    tasks: Folder,
    tids: Vec<u32>,
}

impl OpenProcess {
    /// Reads the counters of a process and lists its threads; `None` if it has exited or access is denied.
    /// The counters come first: later ones would include work that is not yet in those of the threads.
    fn new(context: &CaptureContext<'_>, process: Process) -> Option<Self> {
        #[cfg(test)]
        process.panic_in("listing");
        let counters = whole_process::read(&process.folder, &mut Vec::new());
        match process.folder.folder("task").and_then(|tasks| Ok((tasks.ids()?, tasks))) {
            Ok((tids, tasks)) => Some(Self { process, counters, tasks, tids }),
            Err(errno) if is_gone(errno) => None,
            // procfs mounted with hidepid=1 denies access to processes of other users.
            Err(errno) => {
                process.unread(process.id, SourceFile::Stat, errno, context.tally);
                None
            }
        }
    }

    /// Reads some of the threads.
    fn read(&self, context: &CaptureContext<'_>, tids: &[u32], reader: &mut Reader) -> ReadThreads {
        context.tally.lock().parse.tids_walked += u64::try_from(tids.len()).unwrap_or(u64::MAX);
        let mut read = ReadThreads { threads: Vec::with_capacity(tids.len()), ..ReadThreads::default() };
        for &tid in tids {
            let read_at = nanoseconds(context.start.elapsed());
            let Some((mut thread, rss_pages)) = reader.thread(&self.process, &self.tasks, tid) else { continue };
            thread.read_at_ns = Some(read_time(read_at));
            if thread.is_leader() {
                thread.process = self.counters.clone().map(Box::new);
                let resident = rss_pages.map(|pages| pages.saturating_mul(context.page_size));
                read.resident_bytes.extend(resident.map(|bytes| (thread.tgid, bytes)));
            }
            read.threads.push(thread);
            #[cfg(test)]
            self.process.panic_in("reader");
        }
        read.cgroups = reader.take_cgroups();
        read
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
        // The reader panics after one thread, the listing before; the other sources when all are read.
        let expected = [7, 107, 4_000_000_002, 4_000_000_102];
        assert_eq!(ids, expected);
        assert!(damaged.threads.iter().all(|thread| thread.metrics.minflt == Some(7.into())));
        assert_eq!(damaged.head.parse_summary.unwrap().worker_panics, 3);
    }
}
