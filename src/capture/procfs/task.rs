//! A thread in procfs: each of its files is opened, read and closed once.

use std::collections::BTreeSet;

use nix::errno::Errno;

use super::super::context::CaptureContext;
use super::super::options::{Tree, Use};
use super::super::process::Process;
use super::super::read_threads::Answer;
use super::super::thread_flags::{PF_EXITING, PF_KTHREAD, is_forked};
use super::cgroup_paths::CgroupPaths;
use super::directory::{Numbered, ProcDirectory, is_gone};
use super::parsers::Parsers;
use crate::model::{CpuSet, METRICS, Metrics, Name, SourceFile, ThreadId, ThreadState};
use crate::sys::affinity;

/// Reads threads, with the buffers and parsers of one worker.
#[derive(Default)]
pub(crate) struct Reader {
    input: ThreadInput,
    parsers: Parsers,
    cpu_mask: Vec<u64>,
}

/// Reads all files into one buffer.
#[derive(Default)]
struct ThreadInput {
    buffer: Vec<u8>,
    /// Failures of the current thread: they count only if it is still alive at the end.
    failures: Vec<(SourceFile, Errno)>,
}

impl ThreadInput {
    fn read(&mut self, files: &mut Numbered<'_>, file: SourceFile) -> Option<&[u8]> {
        let Self { buffer, failures } = self;
        files.read(file.name(), buffer).map_err(|errno| failures.push((file, errno))).ok()
    }
}

impl Reader {
    /// Reads thread `tid` of a process and its `task` directory, and the resident pages of the process.
    pub(crate) fn thread(
        &mut self,
        context: &CaptureContext,
        (process, tasks): (&Process, &ProcDirectory),
        tid: u32,
        stat: Use,
    ) -> Answer<(ThreadState, Option<u64>)> {
        let id = ThreadId { tgid: process.id, tid };
        let mut files = Numbered::new(tasks, tid);
        let mut metrics = Box::new(Metrics::default());
        self.input.failures.clear();
        // Before `stat`, which then says whether the thread was exiting.
        let cgroup = self.input.read(&mut files, SourceFile::Cgroup).map(<[u8]>::to_vec);
        let stat = if stat == Use::Enabled { self.input.read(&mut files, SourceFile::Stat) } else { None };
        let (comm, stat) = stat.map(|text| self.parsers.stat(text, &mut metrics)).unwrap_or_default();
        let Some(comm) = comm.or_else(|| self.comm(&mut files)) else {
            return self.without_name(context, process, tid);
        };
        if tid == process.id {
            process.learn_name(&comm);
        }
        self.fill(context.tree, id, &mut files, &mut metrics);
        self.settle_failures(context, process, tid, &mut files);
        let flags = stat.flags.unwrap_or(0);
        let paths = &mut self.parsers.cgroups;
        let identify = if flags & PF_EXITING == 0 { CgroupPaths::identify } else { CgroupPaths::identify_exiting };
        let cgroups = cgroup.and_then(|text| identify(paths, &text));
        let state = ThreadState {
            tid,
            tgid: id.tgid,
            name_complete: context.whole_names.include(flags, &comm),
            comm,
            cpu_cgroup: cgroups.as_ref().and_then(|cgroups| cgroups.cpu.clone()),
            cgroup: cgroups.map(|cgroups| cgroups.group),
            start_time_clock_ticks: stat.start,
            kernel_thread: flags & PF_KTHREAD != 0,
            forked: tid == id.tgid && is_forked(flags),
            metrics,
            ..ThreadState::default()
        };
        Answer::Read((state, stat.rss_pages))
    }

    /// The cgroups of the threads read since the last call, in any hierarchy with values.
    pub(crate) fn take_cgroups(&mut self) -> BTreeSet<Name> {
        std::mem::take(&mut self.parsers.cgroups.seen)
    }

    fn comm(&mut self, files: &mut Numbered<'_>) -> Option<Name> {
        let ThreadInput { buffer, failures } = &mut self.input;
        // It is no source of values, whose failures are counted by file.
        let text = files.read("comm", buffer).map_err(|errno| failures.push((SourceFile::Stat, errno))).ok()?;
        Some(self.parsers.name(text.strip_suffix(b"\n").unwrap_or(text)))
    }

    /// Stores the values of all files but `stat` and `io`.
    fn fill(&mut self, tree: Tree, id: ThreadId, files: &mut Numbered<'_>, metrics: &mut Metrics) {
        if tree == Tree::Live {
            metrics.cpu_affinity = affinity::cpus(id.tid, &mut self.cpu_mask).ok().map(|cpus| CpuSet(cpus.into()));
        }
        for file in [SourceFile::Status, SourceFile::Schedstat, SourceFile::Sched] {
            if let Some(text) = self.input.read(files, file.clone()) {
                self.parsers.put_all(&file, text, metrics);
            }
        }
        if id.tid != id.tgid {
            METRICS.iter().filter(|metric| metric.is_leader_only()).for_each(|metric| metric.clear(metrics));
        }
    }

    /// Counts a thread whose name cannot be read: it has exited, unless the error of `stat` or `comm` says otherwise.
    fn without_name<T>(&self, context: &CaptureContext, process: &Process, tid: u32) -> Answer<T> {
        let failures = self.input.failures.iter().filter(|(file, _)| *file == SourceFile::Stat);
        match failures.map(|(_, errno)| *errno).find(|errno| !is_gone(*errno)) {
            Some(errno) => {
                process.unread(tid, SourceFile::Stat, errno, &context.tally);
                Answer::Unread
            }
            None => {
                context.tally.lock().parse.ghosts += 1;
                Answer::Gone
            }
        }
    }

    /// Counts the failures of the thread, unless it has exited meanwhile, and its negative times.
    fn settle_failures(&mut self, context: &CaptureContext, process: &Process, tid: u32, files: &mut Numbered<'_>) {
        let tally = &context.tally;
        if self.parsers.negative_times > 0 {
            tally.lock().parse.negative_dotted_values += std::mem::take(&mut self.parsers.negative_times);
        }
        let failures = &mut self.input.failures;
        if failures.iter().any(|&(_, errno)| is_gone(errno)) && !files.has("stat") {
            return;
        }
        failures.retain(|&(_, errno)| errno != Errno::ESRCH);
        failures.drain(..).for_each(|(file, errno)| process.unread(tid, file, errno, tally));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::thread_flags::WholeNames;
    use super::*;
    use crate::capture::context::in_context;
    use crate::model::{self, CtprofParseSummary};

    /// Reads thread `tid` of process 7 from a recorded tree with the given files.
    fn read_with(
        whole_names: WholeNames,
        tid: u32,
        files: &[(&str, &[u8])],
    ) -> (Option<ThreadState>, CtprofParseSummary) {
        let dir = tempfile::tempdir().unwrap();
        let thread = dir.path().join(tid.to_string());
        std::fs::create_dir(&thread).unwrap();
        for (name, content) in files {
            std::fs::write(thread.join(name), content).unwrap();
        }
        let tasks = ProcDirectory::open(dir.path()).unwrap();
        let process = Process::new(7, ProcDirectory::open(&thread).unwrap());
        in_context(dir.path(), |context| {
            let context = CaptureContext { whole_names, ..context.clone() };
            let read = Reader::default().thread(&context, (&process, &tasks), tid, Use::Enabled);
            (read.read().map(|(thread, _)| thread), context.tally.lock().parse.clone().concluded())
        })
    }

    fn read(tid: u32, files: &[(&str, &[u8])]) -> (Option<ThreadState>, CtprofParseSummary) {
        read_with(WholeNames::default(), tid, files)
    }

    const STAT: &[u8] = b"7 (init) S 0 0 0 0 -1 4194560 73 936 5 0 2 96 1 13 20 -5 1 0 42 2392064 417";

    #[test]
    fn an_exited_thread_is_a_ghost_and_its_failures_do_not_count() {
        let (thread, summary) = read(7, &[]);
        assert!(thread.is_none());
        assert_eq!((summary.ghosts, summary.read_failures), (1, 0));
    }

    #[test]
    fn an_exiting_thread_is_not_in_the_root_that_version_1_shows() {
        let cgroup = |flags: u32, text: &[u8]| {
            let stat = format!("7 (init) R 0 0 0 0 -1 {flags} 73");
            read(7, &[("stat", stat.as_bytes()), ("cgroup", text)]).0.unwrap().cgroup
        };
        let exiting = 4_194_560 | 4;
        assert_eq!(cgroup(4_194_560, b"4:memory:/\n0::/\n").as_deref(), Some("/"), "it is there");
        assert_eq!(cgroup(exiting, b"4:memory:/\n0::/\n"), None);
        assert_eq!(cgroup(exiting, b"0::/a.service\n").as_deref(), Some("/a.service"));
    }

    #[test]
    fn negative_times_of_threads_are_counted_together() {
        let sched = b"wait_max : -5.000001\nwait_sum : -0.000001\n";
        let (_, summary) = read(7, &[("stat", STAT), ("sched", sched)]);
        assert_eq!(summary.negative_dotted_values, 2);
    }

    #[test]
    fn a_thread_that_a_limit_keeps_from_being_read_has_not_exited() {
        let dir = tempfile::tempdir().unwrap();
        let process = Process::new(7, ProcDirectory::open(dir.path()).unwrap());
        in_context(dir.path(), |context| {
            let mut reader = Reader::default();
            let answers = [Errno::ESRCH, Errno::EMFILE].map(|errno| {
                reader.input.failures = vec![(SourceFile::Stat, errno)];
                reader.without_name::<()>(context, &process, 8)
            });
            assert!(matches!(answers, [Answer::Gone, Answer::Unread]));
            let summary = &context.tally.lock().parse;
            assert_eq!(summary.ghosts, 1);
            assert_eq!(summary.read_failures_by_errno[&SourceFile::Stat], [(model::Errno::EMFILE, 1)].into());
        });
    }

    #[test]
    fn missing_files_of_a_live_thread_are_counted_with_their_errno() {
        let (_, summary) = read(7, &[("stat", STAT), ("status", b""), ("sched", b""), ("cgroup", b"0::/\n")]);
        assert_eq!(summary.read_failures_by_file, [("schedstat".into(), 1)].into());
        assert!(summary.kernel_config_dominant);
        assert_eq!(summary.unread_names[&SourceFile::Schedstat], ["init"]);
    }

    #[test]
    fn the_number_of_threads_is_a_value_of_the_leader_only() {
        let files: &[(&str, &[u8])] = &[("stat", STAT), ("status", b"State:\tS (sleeping)\nThreads:\t9\n")];
        assert_eq!(read(7, files).0.unwrap().metrics.nr_threads, Some(9.into()));
        let other = read(8, files).0.unwrap().metrics;
        assert_eq!((other.nr_threads, other.state), (None, Some('S')));
    }

    #[test]
    fn names_that_are_not_text_are_kept_byte_by_byte() {
        let name = |stat: &[u8], comm: &[u8]| read(7, &[("stat", stat), ("comm", comm)]).0.unwrap().comm;
        assert_eq!(&*name(b"7 (caf\xc3) S 1", b""), "caf\\xc3");
        assert_eq!(&*name(b"7 (a\nb)c) S 1", b""), "a\nb)c");
        assert_eq!(&*name(b"7 (\x1b[31m) S 1", b""), "\x1b[31m");
        // Before Linux 4.18 `stat` escapes a newline, so `comm` decides.
        assert_eq!(&*name(b"7 (a\\nb) S 1", b"a\nb\n"), "a\nb");
    }

    #[test]
    fn a_kernel_threads_whole_name_of_15_bytes_counts_as_cut() {
        // Linux 6.18; flags of a kernel thread, and of a workqueue worker.
        let complete = |whole_names, comm: &str, flags: u32| {
            let stat = format!("7 ({comm}) S 2 0 0 0 -1 {flags} 0 0");
            read_with(whole_names, 7, &[("stat", stat.as_bytes())]).0.unwrap().name_complete
        };
        let linux_5_17 = WholeNames { kthreads: true, workqueue_workers: false };
        let linux_6_11 = WholeNames { kthreads: true, workqueue_workers: true };
        for (comm, flags, complete_on_5_17, complete_on_6_11) in [
            ("rcu_tasks_trace", 2_129_984, true, true),
            ("kworker/R-netns", 69_238_880, false, true),
            ("kthreadd", 2_129_984, false, false),
            ("rcu_tasks_trace_kthread", 2_129_984, false, false),
            ("fifteen-bytes-x", 4_194_560, false, false),
        ] {
            assert!(!complete(WholeNames::default(), comm, flags), "{comm}, Linux 5.10");
            assert_eq!(complete(linux_5_17, comm, flags), complete_on_5_17, "{comm}, Linux 5.17");
            assert_eq!(complete(linux_6_11, comm, flags), complete_on_6_11, "{comm}, Linux 6.11");
        }
    }
}
