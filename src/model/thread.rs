//! Threads of a snapshot, and collections of threads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::name::Name;
use super::process::ProcessState;
use super::table::Metrics;
use super::unit::NS_PER_TICK;

/// The ids of a thread. The kernel reuses ids: within one boot, the start time is part of the identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// Process id (thread group id).
    pub tgid: u32,
    /// Id of the thread.
    pub tid: u32,
}

/// The part of a window in which a thread was alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSpan {
    /// How long it was alive in the window, in nanoseconds.
    pub alive_ns: u64,
    /// How long it was a zombie in the window, in nanoseconds: from its exit until its parent waits for it.
    pub zombie_ns: u64,
    /// How many threads it stands for. Exited threads with equal names are one, with the sum of their values. What processes did in
    /// programs that they left is of no thread: 0.
    pub count: u64,
    /// Whether it started in the window.
    pub started: bool,
    /// Whether it exited in the window, or its process left the program that it was in.
    pub exited: bool,
}

impl Default for ThreadSpan {
    fn default() -> Self {
        Self { alive_ns: 0, zombie_ns: 0, count: 1, started: false, exited: false }
    }
}

named! {
    /// Work of threads that exited before they could be read, as far as their process or its parent shows it.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ExitedWork {
        /// Work of exited threads of the process.
        Threads = "exited threads",
        /// Work of exited processes that the process waited for.
        Children = "exited children",
    }
}

/// Owner of a thread that reports treat in a special way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The capturing process itself.
    Ctprof,
    /// The command that `record` ran, or one of its descendants.
    Command,
}

/// A thread with its identity and its values. In a window, the values are increases.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ThreadState {
    /// Id of the thread.
    pub tid: u32,
    /// Process id (thread group id).
    pub tgid: u32,
    /// Name of the process: the name of its leader.
    pub pcomm: Name,
    /// Name of the thread.
    pub comm: Name,
    /// Name of the script, module, main class or program that the process runs; `None` if the name of the process says it, or
    /// if it could not be read.
    pub program: Option<Name>,
    /// In a window, the nearest ancestor that is alive at the end, with the program of its interpreter, for processes that started
    /// and exited; for zombies, the parent that has not waited for them.
    pub parent: Option<Name>,
    /// Effective user id of its process, on the leader only.
    pub euid: Option<u32>,
    /// Path of its cgroup, as the capturing process's cgroup namespace shows it.
    pub cgroup: Option<Name>,
    /// Path of the cgroup with its CPU quota, if that is another one but the root: hierarchies of version 1 can differ.
    pub cpu_cgroup: Option<Name>,
    /// Start time in `USER_HZ` ticks since boot. With tid and tgid, the identity of a thread within one
    /// boot.
    pub start_time_clock_ticks: Option<u64>,
    /// Whether it is a kernel thread: `PF_KTHREAD` in field 9 of `stat`.
    pub kernel_thread: bool,
    /// Whether it is the first thread of a process that has not called execve(2): its memory began as a copy of its parent's, with
    /// the parent's counters of the allocator. `PF_FORKNOEXEC` in field 9 of `stat`.
    pub forked: bool,
    /// Whether `comm` has 15 bytes, the length at which the kernel cuts names, and is known to be complete.
    /// Always false for shorter names.
    pub name_complete: bool,
    /// Nanoseconds from [`captured_at_unix_ns`](super::SnapshotHead::captured_at_unix_ns) until this thread was read.
    /// Captures have it in steps of 10 µs.
    pub read_at_ns: Option<u64>,
    /// Values of all metrics.
    pub metrics: Box<Metrics>,
    /// `CLOCK_MONOTONIC` at its exit in nanoseconds, of a zombie in a capture; `None` if nobody saw it exit.
    pub exited_monotonic_ns: Option<u64>,
    /// The part of the window in which it was alive; `None` outside of windows.
    pub span: Option<ThreadSpan>,
    /// The kind of exited work, if it is not a thread but exited work of the process. Its `tid` is 0.
    pub exited_work: Option<ExitedWork>,
    /// Owner of the thread, if it is ctprof or the recorded command.
    pub owner: Option<Owner>,
    /// Counters of the whole process, on the leader only.
    pub process: Option<Box<ProcessState>>,
    /// The same after all threads were read, if the process waited for children meanwhile.
    pub process_after: Option<Box<ProcessState>>,
    /// `/proc/<tgid>/smaps_rollup` in KiB, on the leader only.
    pub smaps_rollup_kib: Option<BTreeMap<String, u64>>,
}

/// The time at which a thread was read, in steps of 10 µs: rates need no more, and round numbers take less space in
/// files.
pub(crate) fn read_time(ns: u64) -> u64 {
    ns / READ_STEP_NS * READ_STEP_NS
}

const READ_STEP_NS: u64 = 10_000;

/// Time since boot of a start in ticks, in nanoseconds; `None` for a thread that is older than the clock of this time
/// namespace: the kernel prints its negative start as an unsigned number (`timens_add_boottime_ns` of
/// include/linux/time_namespace.h).
pub(crate) fn start_ns(ticks: u64) -> Option<u64> {
    ticks.checked_mul(NS_PER_TICK).filter(|ns| i64::try_from(*ns).is_ok())
}

impl ThreadState {
    /// Returns the ids of the thread and its process.
    pub fn id(&self) -> ThreadId {
        ThreadId { tgid: self.tgid, tid: self.tid }
    }

    /// Time since boot at which it started, in nanoseconds; `None` if unknown, as for threads that are older than their time
    /// namespace.
    pub fn start_ns(&self) -> Option<u64> {
        start_ns(self.start_time_clock_ticks?)
    }

    /// When the thread was read, in nanoseconds after the capture began; 0 if the file does not say, as files of other programs.
    pub fn read_after_ns(&self) -> u64 {
        self.read_at_ns.unwrap_or(0)
    }

    /// Whether it has user memory. Kernel threads have none, and neither have threads that exited but are
    /// still listed (states `Z` and `X`).
    pub fn has_memory(&self) -> bool {
        !self.kernel_thread && !self.has_exited()
    }

    /// Returns true for a zombie: an exited thread that is listed until its parent waits for it, such as a recorded command.
    pub fn has_exited(&self) -> bool {
        matches!(self.metrics.state, Some('Z' | 'X'))
    }

    /// Whether this is its process's first thread.
    pub fn is_leader(&self) -> bool {
        self.tid == self.tgid
    }

    /// The keys of `smaps_rollup` with their values in bytes, saturating.
    pub fn smaps_rollup_bytes(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self.smaps_rollup_kib.iter().flatten();
        all.map(|(key, kib)| (key.as_str(), kib.saturating_mul(1024)))
    }
}

/// A thread that exited, or executed another program, as it was recorded; or several with equal names, with the sums of their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExitedThread {
    /// Ids, names and start of the thread, and its values since that start.
    pub state: ThreadState,
    /// Process id of its parent; 0 if it is unknown.
    pub ppid: u32,
    /// Start of its process in `USER_HZ` ticks since boot; `None` if it is unknown.
    pub process_started: Option<u64>,
    /// `CLOCK_MONOTONIC` at its start, in nanoseconds.
    pub started_monotonic_ns: u64,
    /// How long it was alive, in nanoseconds.
    pub elapsed_ns: u64,
    /// User and system time that ticks of the clock found, in nanoseconds: how its run time is divided.
    pub cpu_time_ns: Option<[u64; 2]>,
    /// Id of the cgroup in the kernel, if the path is not yet known.
    pub unnamed_cgroup: Option<u64>,
    /// Former id of the thread that continued under these ids. A thread that calls execve(2) gets the ids of the first thread
    /// (`de_thread` in fs/exec.c).
    pub replaced_by: Option<u32>,
    /// True if the process goes on with another program after execve(2): the values are the work before. The id is the id of the
    /// thread that called execve(2), the start is the start of the process.
    pub executed: bool,
}

impl ExitedThread {
    /// `CLOCK_MONOTONIC` at its exit, in nanoseconds.
    #[must_use]
    pub fn exited_monotonic_ns(&self) -> u64 {
        self.started_monotonic_ns.saturating_add(self.elapsed_ns)
    }

    /// Whether a process executed a program before a capture read it. The capture began at this time.
    pub(crate) fn is_before_read<'t>(
        &self,
        began_monotonic_ns: u64,
        listed: impl FnOnce(ThreadId) -> Option<&'t ThreadState>,
    ) -> bool {
        let ThreadState { tgid, start_time_clock_ticks, .. } = self.state;
        let leader = listed(ThreadId { tgid, tid: tgid });
        let same = leader.filter(|leader| leader.start_time_clock_ticks == start_time_clock_ticks);
        // What no capture lists has exited before.
        let read_ns = same.and_then(|leader| leader.read_at_ns);
        read_ns.is_none_or(|at| self.exited_monotonic_ns() < began_monotonic_ns.saturating_add(at))
    }

    /// Whether `listed`, which a capture read under the ids of this thread, is the thread that continued with them. The capture
    /// began at this time, and has another thread if `has_thread`. Until the ids change, it has both threads.
    pub(crate) fn is_replaced_by(
        &self,
        listed: &ThreadState,
        began_monotonic_ns: u64,
        has_thread: impl Fn(ThreadId) -> bool,
    ) -> bool {
        let read_ns = listed.read_at_ns.map_or(u64::MAX, |at| began_monotonic_ns.saturating_add(at + READ_STEP_NS));
        let other = self.replaced_by.map(|tid| ThreadId { tid, ..listed.id() });
        listed.start_time_clock_ticks == self.state.start_time_clock_ticks
            && self.exited_monotonic_ns() < read_ns
            && other.is_some_and(|other| !has_thread(other))
    }
}

/// A collection that takes the threads of a snapshot in order, ascending by process id, then thread
/// id, and need not keep them. Parts of it are filled at the same time and appended to each other.
pub trait Threads: Send + Sync {
    /// An empty collection of the same kind.
    fn another(&self) -> Self;

    /// An empty collection for the first threads of the snapshot. The others are appended to it, so that it can
    /// pass threads on as soon as they are in their order. A second one means that they are read again from the first on.
    fn first(&self) -> Self
    where
        Self: Sized,
    {
        self.another()
    }

    /// Adds the next thread.
    fn add(&mut self, thread: ThreadState);

    /// Appends `later`, whose threads follow the threads of `self`.
    fn append(&mut self, later: Self);

    /// About how much memory it takes, in bytes; 0 if that is in proportion to the number of threads.
    fn bytes(&self) -> usize {
        0
    }
}

impl Threads for Vec<ThreadState> {
    fn another(&self) -> Self {
        Self::new()
    }

    fn add(&mut self, thread: ThreadState) {
        self.push(thread);
    }

    fn append(&mut self, mut later: Self) {
        Self::append(self, &mut later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_are_bytes_and_saturate() {
        let kib = BTreeMap::from([("Pss".to_owned(), 3), ("Rss".to_owned(), u64::MAX)]);
        let thread = ThreadState { smaps_rollup_kib: Some(kib), ..ThreadState::default() };
        assert_eq!(thread.smaps_rollup_bytes().collect::<Vec<_>>(), [("Pss", 3072), ("Rss", u64::MAX)]);
        assert_eq!(ThreadState::default().smaps_rollup_bytes().count(), 0);
    }
}
