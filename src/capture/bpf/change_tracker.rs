//! Knowledge about the threads of a pass, so that the next pass can return only changes.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use nix::errno::Errno;

use super::super::procfs::last_schedstats::{KnownThreads, threads_of};
use super::change_filter::{start_bits, was_met};
use super::cpu_time::CpuTime;
use super::processes::ThreadCounters;
use super::read::{BpfThread, KernelFields};
use crate::model::ThreadId;
use crate::sys::bpf::map::SharedWords;

/// The threads of the passes so far.
pub(super) struct ChangeTracker {
    /// Slots of the program's filter, one word per thread.
    pub(super) slots: SharedWords,
    threads: BTreeMap<ThreadId, LastChange>,
    /// The number of the pass.
    pass: u32,
    /// Processes that no pass meets, since all threads were read.
    hidden: Option<BTreeSet<u32>>,
    /// Threads that the last pass may or may not have met, because another thread took their slot.
    unsure: BTreeSet<ThreadId>,
}

/// A thread as it was when it last did something.
pub(super) struct LastChange {
    id: ThreadId,
    start_bits: u64,
    cpu_time: Option<CpuTime>,
    /// Another one after the thread has executed a program.
    thread_pointer: Option<u64>,
}

/// Result of a pass for the threads that it did not return.
#[derive(Default)]
pub(super) struct NotReturned {
    pub(super) gone_threads: BTreeSet<ThreadId>,
    /// Processes that the iterator does not visit, because some kernels hide them.
    pub(super) hidden: BTreeSet<u32>,
}

impl LastChange {
    /// The changes of a pass.
    pub(super) fn each(threads: &[BpfThread]) -> Vec<Self> {
        threads.iter().map(Self::new).collect()
    }

    fn new(BpfThread { state, kernel }: &BpfThread) -> Self {
        let start_bits = start_bits(kernel.start_ns.unwrap_or(0));
        let KernelFields { cpu_time, thread_pointer, .. } = *kernel;
        Self { id: state.id(), start_bits, cpu_time, thread_pointer }
    }
}

impl ChangeTracker {
    /// A tracker whose filter has so many words, the last one for the number of the pass.
    pub(super) fn new(words: u32) -> Result<Self, Errno> {
        let slots = SharedWords::new(words)?;
        Ok(Self { slots, threads: BTreeMap::new(), pass: 0, hidden: None, unsure: BTreeSet::new() })
    }

    /// The number of threads of the passes so far.
    pub(super) fn entries(&self) -> usize {
        self.threads.len()
    }

    /// Makes the next pass return all threads.
    pub(super) fn forget(&mut self) {
        self.slots.clear();
        self.threads.clear();
        self.hidden = None;
        self.unsure.clear();
        self.begin_pass();
    }

    /// Makes the next pass say of each thread whether it met it.
    pub(super) fn begin_pass(&mut self) {
        self.pass = self.pass.wrapping_add(1);
        self.slots.set(self.pass_word(), u64::from(self.pass) << 32);
    }

    /// Returns the result of the pass for the threads of `last_threads` that are not among `changed`, which is sorted.
    pub(super) fn not_returned(&mut self, last_threads: &KnownThreads, changed: &[ThreadId]) -> NotReturned {
        // Of thousands of threads, none has exited in most passes.
        let met = self.slots.get(self.pass_word()) & u64::from(u32::MAX);
        let new = changed.iter().filter(|id| !self.threads.contains_key(id)).count();
        match &self.hidden {
            Some(hidden) if u64::try_from(self.threads.len() + new) == Ok(met) => {
                self.unsure.clear();
                NotReturned { hidden: hidden.clone(), gone_threads: BTreeSet::new() }
            }
            _ => {
                let not_returned = self.look_at_each(last_threads, changed);
                self.hidden = Some(not_returned.hidden.clone());
                not_returned
            }
        }
    }

    fn look_at_each(&mut self, last_threads: &KnownThreads, changed: &[ThreadId]) -> NotReturned {
        let mut not_returned = NotReturned::default();
        // A thread that shares the slot, and was written after this one was met, took the mark. The next pass writes this one.
        let taken: HashSet<usize> = changed.iter().map(|id| self.slot_of(id.tid)).collect();
        let unsure_before = std::mem::take(&mut self.unsure);
        let reused: HashSet<u32> = changed.iter().map(|id| id.tid).collect();
        let mut last_changes = self.threads.iter().peekable();
        for id in last_threads.keys() {
            while last_changes.next_if(|(other, _)| *other < id).is_some() {}
            let last = last_changes.next_if(|(other, _)| *other == id).map(|(_, last)| last);
            let slot = self.slot_of(id.tid);
            if last.is_some_and(|last| was_met(self.slots.get(slot), last.start_bits, self.pass))
                || changed.binary_search(id).is_ok()
            {
                continue;
            }
            if last.is_none() {
                not_returned.hidden.insert(id.tgid);
            } else if reused.contains(&id.tid) || !taken.contains(&slot) || unsure_before.contains(id) {
                not_returned.gone_threads.insert(*id);
            } else {
                self.unsure.insert(*id);
            }
        }
        not_returned
    }

    /// The processes whose first threads have executed another program, as far as that can be told.
    pub(super) fn executed(&self, changes: &[LastChange]) -> HashSet<u32> {
        let leaders = changes.iter().filter(|change| change.id.tid == change.id.tgid);
        let is_other = |change: &&LastChange| {
            self.last_change(change.id).is_some_and(|before| before.thread_pointer != change.thread_pointer)
        };
        leaders.filter(is_other).map(|change| change.id.tgid).collect()
    }

    /// Returns the counters of the threads of a process that slept on.
    pub(super) fn counters<'t>(
        &self,
        last_threads: &'t KnownThreads,
        tgid: u32,
        slept: impl Fn(&ThreadId) -> bool,
    ) -> Vec<ThreadCounters<'t>> {
        let process = last_threads.range(threads_of(tgid));
        let slept = process.filter(|(id, _)| slept(id));
        slept.map(|(id, thread)| (&*thread.metrics, self.last_change(*id).and_then(|last| last.cpu_time))).collect()
    }

    /// Adds the changes of a pass, and forgets threads that are gone.
    pub(super) fn end_pass(&mut self, changes: Vec<LastChange>, gone_threads: &[ThreadId]) {
        for id in gone_threads {
            self.threads.remove(id);
        }
        self.threads.extend(changes.into_iter().map(|change| (change.id, change)));
    }

    fn last_change(&self, id: ThreadId) -> Option<&LastChange> {
        self.threads.get(&id)
    }

    /// Where passes have their number, and count threads.
    fn pass_word(&self) -> usize {
        self.slots.length() - 1
    }

    fn slot_of(&self, tid: u32) -> usize {
        usize::try_from(tid).map_or(0, |tid| tid % self.pass_word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ThreadState;
    use crate::skip::{Missing, skipped};

    const SLOTS: u32 = 1 << 10;

    fn thread(tid: u32) -> BpfThread {
        BpfThread {
            state: ThreadState { tgid: tid, tid, ..ThreadState::default() },
            kernel: KernelFields { start_ns: Some(1 << 20), ..KernelFields::default() },
        }
    }

    fn id(tid: u32) -> ThreadId {
        thread(tid).state.id()
    }

    #[test]
    fn a_thread_whose_slot_another_one_took_in_the_same_pass_is_gone_if_the_next_pass_does_not_write_it() {
        let mut tracker = match ChangeTracker::new(SLOTS + 1) {
            Ok(tracker) => tracker,
            Err(errno) => return skipped(Missing::Privilege(format!("BPF maps: {errno}"))),
        };
        let last_threads: KnownThreads = [5, 6].map(|tid| (id(tid), thread(tid).state)).into();
        tracker.end_pass(LastChange::each(&[thread(5), thread(6)]), &[]);
        // Passes that meet one thread, which is new and has the slot of 5, and mark no other.
        let mut gone_in_pass = |gone_before: &[ThreadId]| {
            tracker.begin_pass();
            tracker.slots.set(tracker.pass_word(), tracker.slots.get(tracker.pass_word()) + 1);
            let NotReturned { gone_threads, hidden } = tracker.not_returned(&last_threads, &[id(5 + SLOTS)]);
            assert_eq!(hidden, BTreeSet::new());
            tracker.end_pass(Vec::new(), gone_before);
            gone_threads
        };
        assert_eq!(gone_in_pass(&[]), [id(6)].into(), "5 may have been met before its slot was taken");
        assert_eq!(gone_in_pass(&[]), [5, 6].map(id).into(), "this pass would have written 5");
    }
}
