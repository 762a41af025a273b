//! What procfs adds to threads that BPF has read: values that many threads share are read for one of them.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use nix::errno::Errno;

use super::super::procfs::cgroup_paths::CgroupPaths;
use super::super::procfs::folder::Numbered;
use super::super::procfs::parsers::Parsers;
use super::super::procfs::task::PF_WQ_WORKER;
use super::super::procfs::walk::Walk;
use super::super::tally::{File, Tally};
use super::read::ThreadFacts;
use crate::model::{Metrics, Name, ThreadState, may_be_cut, printable};

/// Flag of `include/linux/sched.h`.
const PF_EXITING: u64 = 0x4;

/// Completes the threads. Returns every cgroup that they are in, in any hierarchy with values.
pub(super) fn all(
    walk: &Walk<'_>,
    threads: &mut [ThreadState],
    facts: &[ThreadFacts],
    tally: &mut Tally,
) -> BTreeSet<Name> {
    let mut buffer = Vec::new();
    threads.iter_mut().zip(facts).for_each(|(thread, facts)| name(walk, thread, facts.flags, &mut buffer));
    sched_ext(walk, threads, facts, &mut buffer);
    cgroups(walk, threads, facts, &mut buffer, tally)
}

/// Kernel threads have longer names in procfs than in the kernel's `comm` (`proc_task_name` of fs/proc/array.c).
fn name(walk: &Walk<'_>, thread: &mut ThreadState, flags: u64, buffer: &mut Vec<u8>) {
    let may_be_longer = flags & PF_WQ_WORKER != 0 || may_be_cut(&thread.comm);
    if thread.kernel_thread
        && may_be_longer
        && let Ok(text) = Numbered::new(walk.procfs, thread.tid).read(c"comm", buffer)
    {
        thread.comm = printable(text.strip_suffix(b"\n").unwrap_or(text)).into();
    }
    thread.name_complete = walk.whole_names.include(flags, &thread.comm);
}

/// Whether a thread is under sched_ext depends on its scheduling class.
fn sched_ext(walk: &Walk<'_>, threads: &mut [ThreadState], facts: &[ThreadFacts], buffer: &mut Vec<u8>) {
    let mut parsers = Parsers::new();
    let keys = threads.iter().zip(facts).map(|(thread, facts)| (thread.tid, facts.sched_class));
    let of_class = read_by_key(keys, |tid| {
        let mut metrics = Metrics::default();
        if let Ok(text) = file_of(walk, tid, File::Sched, buffer)? {
            parsers.put_all(File::Sched, text, &mut metrics);
        }
        Some(metrics.ext_enabled)
    });
    for (thread, facts) in threads.iter_mut().zip(facts) {
        let class = facts.sched_class.and_then(|class| of_class.get(&class));
        thread.metrics.ext_enabled = class.copied().flatten();
    }
}

fn cgroups(
    walk: &Walk<'_>,
    threads: &mut [ThreadState],
    facts: &[ThreadFacts],
    buffer: &mut Vec<u8>,
    tally: &mut Tally,
) -> BTreeSet<Name> {
    let mut paths = CgroupPaths::default();
    // procfs shows a thread that is exiting in the root of hierarchies of version 1 (`proc_cgroup_show`).
    let key = |facts: &ThreadFacts| Some((facts.cgroups?, facts.flags & PF_EXITING));
    let keys = threads.iter().zip(facts).map(|(thread, facts)| (thread.tid, key(facts)));
    let of_set =
        read_by_key(keys, |tid| Some(file_of(walk, tid, File::Cgroup, buffer)?.map(|text| paths.identify(text))));
    let living = of_set.iter().filter(|((_, exiting), _)| *exiting == 0);
    walk.css_sets.learn(living.filter_map(|((set, _), read)| Some((*set, read.as_ref().ok()?.clone()?))));
    for (thread, facts) in threads.iter_mut().zip(facts) {
        match key(facts).and_then(|set| of_set.get(&set)) {
            Some(Ok(cgroup)) => thread.cgroup.clone_from(cgroup),
            Some(Err(errno)) => tally.failed(File::Cgroup, *errno),
            None => {}
        }
    }
    paths.seen
}

/// A file of a thread; `None` if the thread has exited.
fn file_of<'b>(walk: &Walk<'_>, tid: u32, file: File, buffer: &'b mut Vec<u8>) -> Option<Result<&'b [u8], Errno>> {
    let mut files = Numbered::new(walk.procfs, tid);
    match files.read(file.name(), buffer) {
        Err(Errno::ESRCH) => None,
        Err(Errno::ENOENT) if !files.has(File::Stat.name()) => None,
        result => Some(result),
    }
}

/// Reads a value once for all threads with an equal key: for the first that has not exited. Threads are in the order
/// of ids, so it is mostly an old one, whose key has hardly changed since it was read.
fn read_by_key<K: Copy + Eq + Hash, T>(
    threads: impl Iterator<Item = (u32, Option<K>)>,
    mut read: impl FnMut(u32) -> Option<T>,
) -> HashMap<K, T> {
    let mut known = HashMap::new();
    for (tid, key) in threads {
        if let Some(key) = key.filter(|key| !known.contains_key(key)) {
            known.extend(read(tid).map(|value| (key, value)));
        }
    }
    known
}
