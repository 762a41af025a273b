//! What procfs adds to threads that BPF has read: values that many threads share are read for one of them.

use std::collections::BTreeSet;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::Hash;

use nix::errno::Errno;

use super::super::context::CaptureContext;
use super::super::procfs::cgroup_paths::CgroupPaths;
use super::super::procfs::directory::Numbered;
use super::super::procfs::parsers::Parsers;
use super::super::thread_flags::{PF_EXITING, PF_WQ_WORKER};
use super::read::ThreadFacts;
use crate::model::{Metrics, Name, SourceFile, ThreadState, may_be_cut, printable};

/// Completes the threads. Returns every cgroup that they are in, in any hierarchy with values.
pub(super) fn complete_threads(
    context: &CaptureContext,
    threads: &mut [ThreadState],
    facts: &[ThreadFacts],
) -> BTreeSet<Name> {
    let mut buffer = Vec::new();
    threads.iter_mut().zip(facts).for_each(|(thread, facts)| name(context, thread, facts.flags, &mut buffer));
    sched_ext(context, threads, facts, &mut buffer);
    cgroups(context, threads, facts, &mut buffer)
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

/// Whether a thread is under sched_ext depends on its scheduling class.
fn sched_ext(context: &CaptureContext, threads: &mut [ThreadState], facts: &[ThreadFacts], buffer: &mut Vec<u8>) {
    let mut parsers = Parsers::new();
    let keys = threads.iter().zip(facts).map(|(thread, facts)| (thread, facts.sched_class));
    let of_class = read_by_key(keys, |thread| {
        let mut metrics = Metrics::default();
        if let Ok(text) = file_of(context, thread.tid, &SourceFile::Sched, buffer)? {
            parsers.put_all(&SourceFile::Sched, text, &mut metrics);
        }
        Some(metrics.ext_enabled)
    });
    let mut of_class = memoized(|class| of_class.get(&class).copied().flatten());
    for (thread, facts) in threads.iter_mut().zip(facts) {
        thread.metrics.ext_enabled = facts.sched_class.and_then(&mut of_class);
    }
}

/// Threads with one `css_set` were in the same cgroups when BPF read them. One of them can have moved since, so two
/// processes have to agree. If they do not, each process has its own.
fn cgroups(
    context: &CaptureContext,
    threads: &mut [ThreadState],
    facts: &[ThreadFacts],
    buffer: &mut Vec<u8>,
) -> BTreeSet<Name> {
    let mut paths = CgroupPaths::default();
    let mut read = |thread: &ThreadState| {
        Some(file_of(context, thread.tid, &SourceFile::Cgroup, buffer)?.map(|text| paths.identify(text)))
    };
    // procfs shows a thread that is exiting in the root of hierarchies of version 1 (`proc_cgroup_show`).
    let key = |facts: &ThreadFacts| Some((facts.cgroups?, facts.flags & PF_EXITING));
    let keyed = || threads.iter().zip(facts).filter_map(|(thread, facts)| Some((thread, key(facts)?)));
    let of_set =
        read_by_key(keyed().map(|(thread, set)| (thread, Some(set))), |thread| Some((thread.tgid, read(thread)?)));
    let mut first_of_set = memoized(|set| of_set.get(&set));
    let others = keyed().rev().filter(|(thread, set)| first_of_set(*set).is_some_and(|(tgid, _)| *tgid != thread.tgid));
    let again = read_by_key(others.map(|(thread, set)| (thread, Some(set))), &mut read);
    let is_certain =
        |set: (u64, u64)| again.get(&set).is_none_or(|again| Some(again) == of_set.get(&set).map(|(_, first)| first));
    let mut is_certain = memoized(is_certain);
    let uncertain =
        keyed().filter(|(_, set)| !is_certain(*set)).map(|(thread, set)| (thread, Some((set, thread.tgid))));
    let of_process = read_by_key(uncertain, &mut read);
    let living = of_set.iter().filter(|(set, _)| set.1 == 0 && is_certain(**set));
    context.css_sets.learn(
        living.filter_map(|((set, _), (_, read))| Some((*set, Name::clone(&read.as_ref().ok()?.as_ref()?.group)))),
    );
    let mut found = memoized(|(set, tgid)| match is_certain(set) {
        true => of_set.get(&set).map(|(_, read)| read),
        false => of_process.get(&(set, tgid)),
    });
    for (thread, facts) in threads.iter_mut().zip(facts) {
        match key(facts).and_then(|set| found((set, thread.tgid))) {
            Some(Ok(cgroups)) => {
                thread.cgroup = cgroups.as_ref().map(|cgroups| Name::clone(&cgroups.group));
                thread.cpu_cgroup = cgroups.as_ref().and_then(|cgroups| cgroups.cpu.clone());
            }
            Some(Err(errno)) => context.tally.failed(SourceFile::Cgroup, *errno, 1),
            None => {}
        }
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

/// Reads a value once for all threads with an equal key: for the first that has not exited.
fn read_by_key<'t, K: Copy + Eq + Hash, T>(
    threads: impl Iterator<Item = (&'t ThreadState, Option<K>)>,
    mut read: impl FnMut(&ThreadState) -> Option<T>,
) -> HashMap<K, T> {
    let (mut known, mut last) = (HashMap::new(), None);
    for (thread, key) in threads {
        let Some(key) = key.filter(|key| last != Some(*key)) else { continue };
        if let Entry::Vacant(unknown) = known.entry(key) {
            let Some(value) = read(thread) else { continue };
            unknown.insert(value);
        }
        last = Some(key);
    }
    known
}

/// Finds a value by its key. Threads that follow each other mostly have equal keys, which are looked up once.
fn memoized<K: Copy + Eq, V: Copy>(mut find: impl FnMut(K) -> V) -> impl FnMut(K) -> V {
    let mut last = None;
    move |key| match last {
        Some((known, value)) if known == key => value,
        _ => last.insert((key, find(key))).1,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::mem;

    use tempfile::TempDir;

    use super::super::super::context::in_context;
    use super::super::super::thread_flags::{PF_KTHREAD, WholeNames};
    use super::super::read::BpfThread;
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
        let take = |thread: &mut BpfThread| (mem::take(&mut thread.state), mem::take(&mut thread.facts));
        let (mut states, facts): (Vec<_>, Vec<_>) = threads.iter_mut().map(take).unzip();
        let whole_names = WholeNames { kthreads: true, workqueue_workers: true };
        let completed = in_context(dir.path(), |context| {
            let cgroups = complete_threads(&CaptureContext { whole_names, ..context.clone() }, &mut states, &facts);
            (cgroups, mem::take(&mut context.tally.lock().parse).concluded())
        });
        threads.iter_mut().zip(states).for_each(|(thread, state)| thread.state = state);
        completed
    }

    fn thread(tid: u32, comm: &str) -> BpfThread {
        BpfThread {
            state: ThreadState { tid, tgid: tid, comm: comm.into(), ..ThreadState::default() },
            facts: ThreadFacts { cgroups: Some(0xc0), sched_class: Some(0x5c), ..ThreadFacts::default() },
        }
    }

    fn with(change: impl FnOnce(&mut ThreadFacts), mut thread: BpfThread) -> BpfThread {
        change(&mut thread.facts);
        thread
    }

    fn kernel_thread(tid: u32, comm: &str, flags: u64) -> BpfThread {
        let mut thread = with(|facts| facts.flags = PF_KTHREAD | flags, thread(tid, comm));
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
        threads.push(with(|facts| facts.cgroups = Some(0xc1), thread(60, "y")));
        threads.push(with(|facts| facts.cgroups = None, thread(61, "unknown")));
        let (cgroups, summary) = completed(&dir, &mut threads);
        let mut expected = vec![Some("/a"); 51];
        expected.extend([Some("/z"), None]);
        assert_eq!(cgroups_of(&threads), expected);
        assert_eq!(cgroups, ["/a", "/z"].map(Name::from).into());
        assert_eq!(summary.read_failures, 0);
    }

    #[test]
    fn a_process_that_moves_takes_no_other_with_it() {
        let of = |tid, tgid| {
            let mut thread = thread(tid, "x");
            thread.state.tgid = tgid;
            thread
        };
        for moving in [[7, 8], [9, 9]] {
            let cgroup = |tid| if moving.contains(&tid) { "0::/new\n" } else { "0::/old\n" };
            let files: Vec<_> = (7..=9).map(|tid| (format!("{tid}/cgroup"), cgroup(tid))).collect();
            let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            let mut threads = [of(7, 7), of(8, 7), of(9, 9), of(10, 10)];
            completed(&recorded(&files), &mut threads);
            let mut expected = [7, 8, 9].map(|tid| Some(cgroup(tid)[3..].trim_end())).to_vec();
            // It has exited, and nobody knows which of the two it was in.
            expected.push(None);
            assert_eq!(cgroups_of(&threads), expected);
        }
    }

    #[test]
    fn an_exiting_thread_does_not_take_the_others_to_the_root() {
        // Linux 6.18: a zombie, and another process of its cgroup.
        let files = [("7/cgroup", "4:memory:/\n0::/\n"), ("8/cgroup", "4:memory:/job/7\n0::/\n")];
        let mut threads = [with(|facts| facts.flags = PF_EXITING, thread(7, "sh")), thread(8, "sh")];
        completed(&recorded(&files), &mut threads);
        assert_eq!(cgroups_of(&threads), [Some("/"), Some("/job/7")]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_counted_for_each_thread_like_by_procfs() {
        let dir = recorded(&[("7/stat", ""), ("8/stat", ""), ("9/stat", ""), ("9/cgroup/is-a-directory", "")]);
        let mut threads = [thread(7, "a"), thread(8, "b"), with(|facts| facts.cgroups = Some(1), thread(9, "c"))];
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
        let of_class = |class, tid| with(|facts| facts.sched_class = Some(class), thread(tid, "x"));
        let mut threads = [of_class(1, 1), of_class(1, 2), of_class(1, 3), of_class(2, 4), of_class(3, 5)];
        completed(&dir, &mut threads);
        let enabled = threads.each_ref().map(|thread| thread.state.metrics.ext_enabled);
        // The last one is of a kernel without this file.
        assert_eq!(enabled, [Some(false), Some(false), Some(false), Some(true), None]);
    }
}
