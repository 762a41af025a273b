//! Additions of procfs to threads that BPF has read: values that many threads share are read for one thread.

use std::collections::BTreeSet;
use std::collections::hash_map::{Entry, HashMap};

use nix::errno::Errno;

use super::super::cgroup_ids::CgroupIds;
use super::super::context::CaptureContext;
use super::super::procfs::cgroup_paths::{CgroupPaths, ThreadCgroups};
use super::super::procfs::directory::Numbered;
use super::super::procfs::parsers::Parsers;
use super::super::thread_flags::{PF_EXITING, PF_WQ_WORKER};
use super::read::BpfThread;
use crate::model::{Metrics, Name, SourceFile, ThreadState, may_be_cut, printable};

/// Completes the threads. Returns every cgroup that they are in, in any hierarchy with values.
pub(super) fn complete_threads(context: &CaptureContext, threads: &mut [BpfThread]) -> BTreeSet<Name> {
    let mut buffer = Vec::new();
    threads.iter_mut().for_each(|thread| name(context, &mut thread.state, thread.kernel.flags, &mut buffer));
    sched_ext(context, threads, &mut buffer);
    cgroups(context, threads, &mut buffer)
}

/// Kernel threads have longer names in procfs than in the kernel's `comm` (`proc_task_name` of fs/proc/array.c).
fn name(context: &CaptureContext, thread: &mut ThreadState, flags: u64, buffer: &mut Vec<u8>) {
    let may_be_longer = flags & PF_WQ_WORKER != 0 || may_be_cut(&thread.comm);
    if thread.kernel_thread
        && may_be_longer
        && let Ok(text) = Numbered::new(&context.procfs, thread.tid).read("comm", buffer)
    {
        thread.comm = printable(text.strip_suffix(b"\n").unwrap_or(text)).into();
    }
    thread.name_complete = context.whole_names.include(flags, &thread.comm);
}

/// Whether a thread is under sched_ext depends on its scheduling class: the file of one that has not exited says it for all.
fn sched_ext(context: &CaptureContext, threads: &mut [BpfThread], buffer: &mut Vec<u8>) {
    let (mut parsers, mut of_class) = (Parsers::new(), HashMap::new());
    for BpfThread { state: thread, kernel } in &*threads {
        if let Some(class) = kernel.sched_class
            && let Entry::Vacant(unknown) = of_class.entry(class)
            && let Some(file) = file_of(context, thread.tid, &SourceFile::Sched, buffer)
        {
            let mut metrics = Metrics::default();
            file.into_iter().for_each(|text| parsers.put_all(&SourceFile::Sched, text, &mut metrics));
            unknown.insert(metrics.ext_enabled);
        }
    }
    for BpfThread { state: thread, kernel } in &mut *threads {
        thread.metrics.ext_enabled = kernel.sched_class.and_then(|class| of_class.get(&class).copied().flatten());
    }
}

/// Gives threads in the same cgroups the paths from the file of one thread. A thread that has moved since BPF read it has the
/// paths of its own file. The file of an exiting thread has the roots of hierarchies of version 1: what no other file says is
/// unknown then.
fn cgroups(context: &CaptureContext, threads: &mut [BpfThread], buffer: &mut Vec<u8>) -> BTreeSet<Name> {
    let names = &context.cgroup_names;
    let mut paths = CgroupPaths::default();
    let mut paths_by_ids = HashMap::<CgroupIds, ThreadCgroups>::new();
    // Most threads are in the cgroups of the one before.
    let mut last = CgroupIds::default();
    let take = |thread: &mut ThreadState, cgroups: &ThreadCgroups| {
        (thread.cgroup, thread.cpu_cgroup) = (Some(Name::clone(&cgroups.group)), cgroups.cpu.clone());
    };
    let (exiting, living): (Vec<_>, Vec<_>) =
        threads.iter_mut().partition(|thread| thread.kernel.flags & PF_EXITING != 0);
    for BpfThread { state: thread, kernel } in living.into_iter().chain(exiting) {
        let keys = &kernel.cgroups;
        if keys.group.is_none() || *keys == last || paths_by_ids.contains_key(keys) {
            continue;
        }
        let mut cgroups = names.of_living(keys, &mut paths.seen);
        if cgroups.is_none() && (kernel.flags & PF_EXITING == 0 || keys.are_shown_of_exiting()) {
            match file_of(context, thread.tid, &SourceFile::Cgroup, buffer) {
                Some(Ok(text)) => {
                    names.learn(keys, text);
                    cgroups = names.of_living(keys, &mut paths.seen);
                    if cgroups.is_none() {
                        paths.identify(text).iter().for_each(|own| take(thread, own));
                    }
                }
                Some(Err(errno)) => context.tally.failed(SourceFile::Cgroup, errno, 1),
                None => {}
            }
        }
        if let Some(cgroups) = cgroups {
            paths_by_ids.insert(*keys, cgroups);
            last = *keys;
        }
    }
    let (mut last, mut of_last) = (CgroupIds::default(), None);
    for BpfThread { state: thread, kernel } in threads.iter_mut().filter(|thread| thread.state.cgroup.is_none()) {
        if kernel.cgroups != last {
            (last, of_last) = (kernel.cgroups, paths_by_ids.get(&kernel.cgroups));
        }
        of_last.into_iter().for_each(|cgroups| take(thread, cgroups));
    }
    paths.seen
}

/// A file of a thread; `None` if the thread has exited.
fn file_of<'b>(
    context: &CaptureContext,
    tid: u32,
    file: &SourceFile,
    buffer: &'b mut Vec<u8>,
) -> Option<Result<&'b [u8], Errno>> {
    let mut files = Numbered::new(&context.procfs, tid);
    match files.read(file.name(), buffer) {
        Err(Errno::ESRCH) => None,
        Err(Errno::ENOENT) if !files.has("stat") => None,
        result => Some(result),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::mem;
    use std::os::unix::fs::MetadataExt;

    use tempfile::TempDir;

    use super::super::super::cgroup_ids::{UNIFIED, key};
    use super::super::super::context::in_context;
    use super::super::super::host::files::HostFiles;
    use super::super::super::host::mounts::Mounts;
    use super::super::super::options::Roots;
    use super::super::super::thread_flags::{PF_KTHREAD, WholeNames};
    use super::super::read::KernelFields;
    use super::*;
    use crate::model::CtprofParseSummary;

    /// A recorded procfs with these files.
    fn recorded(files: &[(&str, &str)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn completed(dir: &TempDir, threads: &mut [BpfThread]) -> (BTreeSet<Name>, CtprofParseSummary) {
        completed_in(dir, threads, &Mounts::default())
    }

    fn completed_in(dir: &TempDir, threads: &mut [BpfThread], mounts: &Mounts) -> (BTreeSet<Name>, CtprofParseSummary) {
        let whole_names = WholeNames { kthreads: true, workqueue_workers: true };
        in_context(dir.path(), |context| {
            context.cgroup_names.forget(mounts);
            let cgroups = complete_threads(&CaptureContext { whole_names, ..context.clone() }, threads);
            (cgroups, mem::take(&mut context.tally.lock().parse).concluded())
        })
    }

    /// In the cgroup of version 2 with this id.
    fn unified(id: u64) -> CgroupIds {
        let key = Some(key(UNIFIED, id));
        CgroupIds { group: key, below_root: [None, None, None, None, None, key] }
    }

    fn thread(tid: u32, comm: &str) -> BpfThread {
        BpfThread {
            state: ThreadState { tid, tgid: tid, comm: comm.into(), ..ThreadState::default() },
            kernel: KernelFields { cgroups: unified(0xc0), sched_class: Some(0x5c), ..KernelFields::default() },
        }
    }

    fn with(change: impl FnOnce(&mut KernelFields), mut thread: BpfThread) -> BpfThread {
        change(&mut thread.kernel);
        thread
    }

    fn kernel_thread(tid: u32, comm: &str, flags: u64) -> BpfThread {
        let mut thread = with(|kernel| kernel.flags = PF_KTHREAD | flags, thread(tid, comm));
        thread.state.kernel_thread = true;
        thread
    }

    fn cgroups_of(threads: &[BpfThread]) -> Vec<Option<&str>> {
        threads.iter().map(|thread| thread.state.cgroup.as_deref()).collect()
    }

    #[test]
    fn threads_of_one_set_have_the_cgroup_of_those_that_have_not_exited() {
        let dir =
            recorded(&[("50/cgroup", "0::/a\n"), ("50/stat", ""), ("51/cgroup", "0::/a\n"), ("60/cgroup", "0::/z\n")]);
        // More threads have exited than live.
        let mut threads: Vec<_> = (1..=51).map(|tid| thread(tid, "x")).collect();
        threads.push(with(|kernel| kernel.cgroups = unified(0xc1), thread(60, "y")));
        threads.push(with(|kernel| kernel.cgroups = CgroupIds::default(), thread(61, "unknown")));
        let (cgroups, summary) = completed(&dir, &mut threads);
        let mut expected = vec![Some("/a"); 51];
        expected.extend([Some("/z"), None]);
        assert_eq!(cgroups_of(&threads), expected);
        assert_eq!(cgroups, ["/a", "/z"].map(Name::from).into());
        assert_eq!(summary.read_failures, 0);
    }

    /// A cgroup file system with these cgroups, and their ids.
    fn cgroupfs<const N: usize>(names: [&str; N]) -> (TempDir, [u64; N]) {
        let dir = tempfile::tempdir().unwrap();
        let ids = names.map(|name| {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::metadata(dir.path().join(name)).unwrap().ino()
        });
        (dir, ids)
    }

    fn mounts(cgroupfs: &TempDir) -> Mounts {
        Mounts::read(&HostFiles::new(&Roots { cgroupfs: Some(cgroupfs.path().to_owned()), ..Roots::default() }))
    }

    #[test]
    fn a_thread_that_moves_takes_no_other_with_it() {
        let (cgroupfs, [old, _]) = cgroupfs(["old", "new"]);
        let of = |tid, cgroup| (format!("{tid}/cgroup"), format!("0::/{cgroup}\n"));
        let files = [of(7, "new"), of(8, "new"), of(9, "old"), of(10, "new")];
        let files = files.each_ref().map(|(path, text)| (path.as_str(), text.as_str()));
        let mut threads = [7, 8, 9, 10, 11].map(|tid| with(|kernel| kernel.cgroups = unified(old), thread(tid, "x")));
        completed_in(&recorded(&files), &mut threads, &mounts(&cgroupfs));
        // The last ones have moved, or exited, after they were in this one: no file has to be read for them.
        assert_eq!(cgroups_of(&threads), ["/new", "/new", "/old", "/old", "/old"].map(Some));
    }

    #[test]
    fn an_exiting_thread_does_not_take_the_others_to_the_root() {
        // Linux 6.18: a zombie, and another process of its cgroup.
        let files = [("7/cgroup", "4:memory:/\n0::/\n"), ("8/cgroup", "4:memory:/job/7\n0::/\n")];
        let of_memory = Some(key(0, 40));
        let keys = CgroupIds { group: of_memory, below_root: [of_memory, None, None, None, None, None] };
        let of = |flags, tid| with(|kernel| (kernel.cgroups, kernel.flags) = (keys, flags), thread(tid, "sh"));
        let mut threads = [of(PF_EXITING, 7), of(0, 8)];
        completed(&recorded(&files), &mut threads);
        assert_eq!(cgroups_of(&threads), [Some("/job/7"); 2]);
        let mut threads = [of(PF_EXITING, 7)];
        completed(&recorded(&files[..1]), &mut threads);
        assert_eq!(cgroups_of(&threads), [None], "the root that its file has is not its cgroup");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_counted_for_each_thread_like_by_procfs() {
        let dir = recorded(&[("7/stat", ""), ("8/stat", ""), ("9/stat", ""), ("9/cgroup/is-a-directory", "")]);
        let mut threads = [thread(7, "a"), thread(8, "b"), with(|kernel| kernel.cgroups = unified(1), thread(9, "c"))];
        let (_, summary) = completed(&dir, &mut threads);
        let failures = &summary.read_failures_by_errno[&SourceFile::Cgroup];
        let counts: Vec<_> = failures.iter().map(|(errno, count)| (errno.to_string(), *count)).collect();
        assert_eq!(counts, [("EISDIR".to_owned(), 1), ("ENOENT".to_owned(), 2)]);
    }

    #[test]
    fn kernel_threads_have_the_names_of_procfs() {
        let dir = recorded(&[
            ("11/comm", "kworker/0:1-events\n"),
            ("12/comm", "rcu_tasks_trace_kthread\n"),
            ("13/comm", "not read\n"),
            ("14/comm", "not read\n"),
        ]);
        let mut threads = [
            kernel_thread(11, "kworker/0:1", PF_WQ_WORKER),
            kernel_thread(12, "rcu_tasks_trace", 0),
            kernel_thread(13, "kthreadd", 0),
            thread(14, "fifteen-bytes-x"),
            kernel_thread(15, "fifteen-bytes-y", 0),
        ];
        completed(&dir, &mut threads);
        let names: Vec<_> = threads.iter().map(|thread| (&*thread.state.comm, thread.state.name_complete)).collect();
        let expected = [
            ("kworker/0:1-events", false),
            ("rcu_tasks_trace_kthread", false),
            ("kthreadd", false),
            ("fifteen-bytes-x", false),
            ("fifteen-bytes-y", true),
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn threads_of_one_scheduling_class_are_all_under_sched_ext_or_none_is() {
        let sched = |enabled| format!("x (1, #threads: 1)\n-----\next.enabled : {enabled}\n");
        let dir = recorded(&[("2/sched", &sched(0)), ("3/sched", &sched(1)), ("4/sched", &sched(1)), ("5/stat", "")]);
        let of_class = |class, tid| with(|kernel| kernel.sched_class = Some(class), thread(tid, "x"));
        let mut threads = [of_class(1, 1), of_class(1, 2), of_class(1, 3), of_class(2, 4), of_class(3, 5)];
        completed(&dir, &mut threads);
        let enabled = threads.each_ref().map(|thread| thread.state.metrics.ext_enabled);
        // The last one is of a kernel without this file.
        assert_eq!(enabled, [Some(false), Some(false), Some(false), Some(true), None]);
    }
}
