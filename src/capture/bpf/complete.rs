//! What procfs adds to threads that BPF has read: values that many threads share are read for one of them.

use std::collections::{BTreeSet, HashMap};

use super::super::procfs::cgroup_paths::CgroupPaths;
use super::super::procfs::folder::{Numbered, is_gone};
use super::super::procfs::parsers::Parsers;
use super::super::procfs::task::PF_WQ_WORKER;
use super::super::procfs::walk::Walk;
use super::super::tally::{File, Tally};
use super::read::ReadThread;
use crate::model::{Metrics, Name, may_be_cut, printable};

/// How many threads are asked for a value that they share, if the others have exited.
const CANDIDATES: usize = 8;

/// Completes the threads. Returns every cgroup that they are in, in any hierarchy with values.
pub(super) fn all(walk: &Walk<'_>, threads: &mut [ReadThread], tally: &mut Tally) -> BTreeSet<Name> {
    let mut buffer = Vec::new();
    threads.iter_mut().for_each(|thread| name(walk, thread, &mut buffer));
    sched_ext(walk, threads, &mut buffer);
    cgroups(walk, threads, &mut buffer, tally)
}

/// Kernel threads have longer names in procfs than in the kernel's `comm` (`proc_task_name` of fs/proc/array.c).
fn name(walk: &Walk<'_>, thread: &mut ReadThread, buffer: &mut Vec<u8>) {
    let state = &mut thread.state;
    if state.kernel_thread
        && (thread.flags & PF_WQ_WORKER != 0 || may_be_cut(&state.comm))
        && let Ok(text) = Numbered::new(walk.procfs, state.tid).read(c"comm", buffer)
    {
        state.comm = printable(text.strip_suffix(b"\n").unwrap_or(text)).into();
    }
    state.name_complete = walk.whole_names.include(thread.flags, &state.comm);
}

/// Whether a thread is under sched_ext depends on its scheduling class.
fn sched_ext(walk: &Walk<'_>, threads: &mut [ReadThread], buffer: &mut Vec<u8>) {
    let mut parsers = Parsers::new();
    let mut read = |thread: &ReadThread| {
        let text = Numbered::new(walk.procfs, thread.state.tid).read(File::Sched.name(), buffer).ok()?;
        let mut metrics = Metrics::default();
        parsers.put_all(File::Sched, text, &mut metrics);
        Some(metrics.ext_enabled)
    };
    let of_class = by_key(threads, |thread| thread.sched_class, |thread| read(thread));
    for thread in threads {
        let class = thread.sched_class.and_then(|class| of_class.get(&class));
        thread.state.metrics.ext_enabled = class.copied().flatten();
    }
}

fn cgroups(walk: &Walk<'_>, threads: &mut [ReadThread], buffer: &mut Vec<u8>, tally: &mut Tally) -> BTreeSet<Name> {
    let mut paths = CgroupPaths::default();
    let read = |thread: &ReadThread| {
        let mut files = Numbered::new(walk.procfs, thread.state.tid);
        match files.read(File::Cgroup.name(), buffer) {
            Ok(text) => Some(Ok(paths.identify(text))),
            Err(errno) if is_gone(errno) && !files.has(File::Stat.name()) => None,
            Err(errno) => Some(Err(errno)),
        }
    };
    let of_set = by_key(threads, |thread| thread.cgroups, read);
    for thread in threads {
        match thread.cgroups.and_then(|set| of_set.get(&set)) {
            Some(Ok(cgroup)) => thread.state.cgroup = cgroup.clone(),
            Some(Err(errno)) => tally.failed(File::Cgroup, *errno),
            None => {}
        }
    }
    paths.seen
}

/// Reads a value once for all threads with an equal key: for the first that has not exited. Threads are in the order
/// of ids, so it is mostly an old one, whose key has hardly changed since it was read.
fn by_key<T>(
    threads: &[ReadThread],
    key: impl Fn(&ReadThread) -> Option<u64>,
    mut read: impl FnMut(&ReadThread) -> Option<T>,
) -> HashMap<u64, T> {
    let mut tried: HashMap<u64, usize> = HashMap::new();
    let mut known = HashMap::new();
    for thread in threads {
        let Some(key) = key(thread) else { continue };
        let tries = tried.entry(key).or_default();
        if *tries < CANDIDATES && !known.contains_key(&key) {
            *tries += 1;
            known.extend(read(thread).map(|value| (key, value)));
        }
    }
    known
}
