//! The threads that an engine has read.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::procfs::last_schedstats::{KnownThreads, threads_of};
use crate::model::{GaugeBytes, Name, ThreadId, ThreadState};

/// Threads, of one worker or of all.
#[derive(Default)]
pub(crate) struct ReadThreads {
    /// Sorted by process and thread id after [`in_order`](Self::in_order).
    pub(crate) threads: Vec<ReadThread>,
    /// The cgroups of the threads, in all hierarchies with values.
    pub(crate) cgroups: BTreeSet<Name>,
    /// Threads that procfs did not read, because they did not run since they were known.
    pub(crate) slept: HashSet<ThreadId>,
    /// Threads that live but could not be read, by process id: their ids, or none if that is all threads of the process.
    pub(crate) unread: BTreeMap<u32, Vec<u32>>,
}

/// A thread as snapshots have it, and what only its capture needs to know of it.
#[derive(Default)]
pub(crate) struct ReadThread {
    pub(crate) state: ThreadState,
    /// Address of the thread-local storage; `None` if the engine does not know it.
    pub(crate) thread_pointer: Option<u64>,
    /// Resident memory of the process, on its leader; `None` if it is unknown.
    pub(crate) resident_bytes: Option<GaugeBytes>,
    pub(crate) lacks: Lacks,
    /// Whether names and owner of the process are known from the pass before, and it has no allocator with counters.
    pub(crate) is_of_known_process: bool,
}

/// Counters of a thread that its engine leaves to other sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lacks {
    /// No counters: BPF reads them.
    #[default]
    Nothing,
    /// Counters of taskstats. `stat` blocked its reader, and `io` would, too.
    Taskstats,
    /// Counters of taskstats and `io`.
    TaskstatsAndIo,
}

impl From<ThreadState> for ReadThread {
    fn from(state: ThreadState) -> Self {
        Self { state, ..Self::default() }
    }
}

impl From<ReadThread> for ThreadState {
    fn from(thread: ReadThread) -> Self {
        thread.state
    }
}

/// Turns threads into smaller values, in their own memory. What that leaves is freed, but for room for as many threads.
pub(crate) fn reduced<T, U: From<T>>(threads: Vec<T>) -> Vec<U> {
    let capacity = threads.capacity();
    let mut reduced: Vec<U> = threads.into_iter().map(U::from).collect();
    reduced.shrink_to(capacity);
    reduced
}

/// Returns the threads of each process, of threads in order.
pub(crate) fn processes_of(threads: &[ReadThread]) -> impl Iterator<Item = &[ReadThread]> {
    threads.chunk_by(|one, other| one.state.tgid == other.state.tgid)
}

/// Returns the threads of each process, of threads in order.
pub(crate) fn processes_of_mut(threads: &mut [ReadThread]) -> impl Iterator<Item = &mut [ReadThread]> + Send {
    threads.chunk_by_mut(|one, other| one.state.tgid == other.state.tgid)
}

/// Answer of an engine for a listed process or thread.
pub(crate) enum Answer<T> {
    /// The process or thread was read, with these values.
    Read(T),
    /// The process or thread has exited.
    Gone,
    /// It may live, and cannot be read: for another reason than its exit. That is counted.
    Unread,
}

impl<T> Answer<T> {
    /// The values; `None` without any.
    pub(crate) fn read(self) -> Option<T> {
        if let Self::Read(values) = self { Some(values) } else { None }
    }
}

/// Threads that a pass of changes has read.
pub(crate) struct ChangedThreads {
    /// Threads that may have done something since the pass before.
    pub(crate) read: ReadThreads,
    /// Threads that have exited since.
    pub(crate) gone_threads: Vec<ThreadId>,
    /// Processes that have executed another program since.
    pub(crate) executed: HashSet<u32>,
}

impl ReadThreads {
    /// Adds what another worker has read.
    pub(crate) fn merge(&mut self, other: Self) {
        let Self { mut threads, mut cgroups, slept, unread } = other;
        for (tgid, tids) in unread {
            self.add_unread(tgid, &tids);
        }
        self.slept.extend(slept);
        self.threads.append(&mut threads);
        self.cgroups.append(&mut cgroups);
    }

    /// Adds threads of a process that live but could not be read; without ids, all its threads.
    pub(crate) fn add_unread(&mut self, tgid: u32, tids: &[u32]) {
        match self.unread.entry(tgid) {
            Entry::Vacant(none) => drop(none.insert(tids.to_vec())),
            Entry::Occupied(all) if all.get().is_empty() => {}
            Entry::Occupied(mut some) if tids.is_empty() => some.get_mut().clear(),
            Entry::Occupied(mut some) => some.get_mut().extend(tids),
        }
    }

    /// Whether the thread may live although it was not read.
    fn is_unread(&self, id: ThreadId) -> bool {
        self.unread.get(&id.tgid).is_some_and(|tids| tids.is_empty() || tids.contains(&id.tid))
    }

    /// Removes delays that are longer than their thread has lived, if its start is known, where `boottime_ns` is after all threads were read.
    /// Returns the number of threads with such delays.
    pub(crate) fn remove_impossible_delays(&mut self, boottime_ns: u64) -> u64 {
        let has_removed = |thread: &mut ThreadState| {
            let life_ns = boottime_ns.saturating_sub(thread.start_ns()?);
            Some(thread.metrics.remove_impossible_delays(life_ns))
        };
        self.threads.iter_mut().filter_map(|thread| has_removed(&mut thread.state)).map(u64::from).sum()
    }

    /// Returns the cgroups of the threads in hierarchies with values; some cgroups appear several times.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let of_threads =
            self.threads.iter().flat_map(|thread| [&thread.state.cgroup, &thread.state.cpu_cgroup]).flatten();
        of_threads.chain(&self.cgroups).map(|path| &**path)
    }

    /// Takes what other sources have said of processes, unless they are new, have another name or program, or have counters of
    /// an allocator.
    pub(crate) fn take_known(&mut self, last_threads: &KnownThreads, executed: &HashSet<u32>) {
        for process in processes_of_mut(&mut self.threads) {
            let tgid = process[0].state.tgid;
            if executed.contains(&tgid) {
                continue;
            }
            let before = last_threads.get(&ThreadId { tgid, tid: tgid });
            let is_same = |leader: &ThreadState, before: &ThreadState| {
                (leader.start_time_clock_ticks, &leader.comm) == (before.start_time_clock_ticks, &before.comm)
            };
            let leader = process.iter().find(|thread| thread.state.is_leader());
            let before =
                leader.zip(before).filter(|(leader, before)| is_same(&leader.state, before)).map(|(_, before)| before);
            let of_process = last_threads.range(threads_of(tgid));
            let has_counters = |(_, thread): (&ThreadId, &ThreadState)| thread.metrics.allocated_bytes.is_some();
            let Some(before) = before.filter(|_| !of_process.into_iter().any(has_counters)) else { continue };
            for ReadThread { state, is_of_known_process, .. } in process {
                state.program.clone_from(&before.program);
                if state.is_leader() {
                    (state.euid, state.name_complete) = (before.euid, before.name_complete);
                }
                *is_of_known_process = true;
            }
        }
    }

    /// Adds the known threads that slept on in processes with a new name, which is the name of the first thread.
    pub(crate) fn add_renamed(&mut self, last_threads: &KnownThreads, slept: impl Fn(&ThreadId) -> bool) {
        let is_renamed = |leader: &&ThreadState| {
            leader.is_leader() && last_threads.get(&leader.id()).is_some_and(|before| before.comm != leader.comm)
        };
        let renamed: HashSet<u32> = self.states().filter(is_renamed).map(|leader| leader.tgid).collect();
        let others =
            renamed.into_iter().flat_map(|tgid| last_threads.range(threads_of(tgid))).filter(|(id, _)| slept(id));
        let unnamed = |thread: &ThreadState| ThreadState { program: None, ..thread.clone() };
        self.threads.extend(others.map(|(_, thread)| ReadThread::from(unnamed(thread))));
    }

    /// The threads of `ids` that have exited, in order: they were neither read, nor slept on, nor refused to be read.
    pub(crate) fn missing(&self, ids: impl Iterator<Item = ThreadId>) -> impl Iterator<Item = ThreadId> {
        let is_read = |id: &ThreadId| self.threads.binary_search_by_key(id, |thread| thread.state.id()).is_ok();
        ids.filter(move |id| !self.slept.contains(id) && !is_read(id) && !self.is_unread(*id))
    }

    /// The threads as snapshots have them.
    pub(crate) fn states(&self) -> impl Iterator<Item = &ThreadState> {
        self.threads.iter().map(|thread| &thread.state)
    }

    /// The processes of the threads.
    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> {
        self.states().map(|thread| thread.tgid)
    }

    /// Sorts the threads and names their processes.
    pub(crate) fn in_order(mut self) -> Self {
        // Those of an engine are in order, and followed by few others.
        self.threads.sort_by_key(|thread| thread.state.id());
        name_processes(&mut self.threads);
        self
    }
}

/// Gives all threads of a process the name of its leader, or of its first thread if the leader could not be read.
fn name_processes(threads: &mut [ReadThread]) {
    for process in processes_of_mut(threads) {
        let leader = process.iter().find(|thread| thread.state.is_leader()).unwrap_or(&process[0]);
        let (name, complete) = (Name::clone(&leader.state.comm), leader.state.name_complete);
        for ReadThread { state, .. } in process {
            // A new thread inherits the name of the thread that creates it.
            state.name_complete |= complete && state.comm == name;
            state.pcomm = Name::clone(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_longer_than_a_thread_has_lived_are_absent_and_counted() {
        let mut thread = ThreadState { start_time_clock_ticks: Some(100), ..ThreadState::default() };
        thread.metrics.blkio_delay_total_ns = Some(2_000_000_000.into());
        let mut read = ReadThreads { threads: vec![thread.into()], ..ReadThreads::default() };
        assert_eq!(read.remove_impossible_delays(3_000_000_000), 0);
        assert!(read.threads[0].state.metrics.blkio_delay_total_ns.is_some());
        assert_eq!(read.remove_impossible_delays(2_500_000_000), 1);
        assert_eq!(read.threads[0].state.metrics.blkio_delay_total_ns, None);
        // In a time namespace whose clock is younger than the thread, its age is unknown.
        let older = &mut read.threads[0].state;
        older.start_time_clock_ticks = Some((-1_000_000_000_i64).cast_unsigned() / 10_000_000);
        older.metrics.blkio_delay_total_ns = Some(2_000_000_000.into());
        assert_eq!(read.remove_impossible_delays(500_000_000), 0);
        assert!(read.threads[0].state.metrics.blkio_delay_total_ns.is_some());
    }

    #[test]
    fn a_thread_that_kept_its_leaders_whole_name_has_a_whole_name() {
        let thread = |tid, comm: &str| ThreadState { tgid: 7, tid, comm: comm.into(), ..ThreadState::default() };
        let leader = ThreadState { name_complete: true, ..thread(7, "fifteen-bytes-x") };
        let threads = [thread(9, "fifteen-bytes-y"), thread(8, "fifteen-bytes-x"), leader].map(ReadThread::from).into();
        let read = ReadThreads { threads, ..ReadThreads::default() }.in_order();
        let names: Vec<_> = read.states().map(|thread| (thread.tid, thread.name_complete)).collect();
        assert_eq!(names, [(7, true), (8, true), (9, false)]);
        assert!(read.states().all(|thread| &*thread.pcomm == "fifteen-bytes-x"));
    }
}
