//! What ctprof knows of the threads of a pass, so that the next one can return only what changed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use nix::errno::Errno;

use super::super::thread_flags::PF_EXITING;
use super::change_filter::{SLOTS, start_bits, was_met};
use super::cpu_time::CpuTime;
use super::processes::ThreadCounters;
use super::read::ThreadFacts;
use crate::model::{ThreadId, ThreadState};
use crate::sys::bpf::map::SharedWords;

/// Threads by their ids, as captures have them.
pub(super) type KnownThreads = BTreeMap<ThreadId, ThreadState>;

/// The threads of the passes so far.
pub(super) struct ChangeTracker {
    /// What the filter of the program knows of them.
    pub(super) slots: SharedWords,
    /// By thread id.
    threads: HashMap<u32, LastChange>,
}

/// A thread as it was when it last did something.
pub(super) struct LastChange {
    id: ThreadId,
    start_bits: u64,
    cpu_time: Option<CpuTime>,
    /// `struct css_set`; `None` for a thread that is exiting, too, which procfs shows in other cgroups.
    cgroups: Option<u64>,
    /// Another one after the thread has executed a program.
    thread_pointer: Option<u64>,
}

/// What a pass says of the threads that it did not return.
#[derive(Default)]
pub(super) struct NotReturned {
    pub(super) gone: BTreeSet<ThreadId>,
    /// Processes that the iterator does not visit: that of some kernels hides them.
    pub(super) hidden: BTreeSet<u32>,
}

impl LastChange {
    fn new(thread: &ThreadState, facts: &ThreadFacts) -> Self {
        let cgroups = facts.cgroups.filter(|_| facts.flags & PF_EXITING == 0);
        let start_bits = start_bits(facts.start_ns.unwrap_or(0));
        let ThreadFacts { cpu_time, thread_pointer, .. } = *facts;
        Self { id: thread.id(), start_bits, cpu_time, cgroups, thread_pointer }
    }

    /// The changes of a pass.
    pub(super) fn each(threads: &[ThreadState], facts: &[ThreadFacts]) -> Vec<Self> {
        threads.iter().zip(facts).map(|(thread, facts)| Self::new(thread, facts)).collect()
    }

    fn is_in_cgroups_of(&self, before: &Self) -> bool {
        self.start_bits == before.start_bits && self.cgroups.is_some() && self.cgroups == before.cgroups
    }
}

impl ChangeTracker {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self { slots: SharedWords::new(SLOTS)?, threads: HashMap::new() })
    }

    /// Makes the next pass return all threads.
    pub(super) fn forget(&mut self) {
        self.slots.clear();
        self.threads.clear();
    }

    /// Makes the next pass say of each thread whether it met it.
    pub(super) fn begin_pass(&self) {
        self.threads.keys().for_each(|tid| self.slots.keep_bits(slot_of(*tid), !1));
    }

    /// What the pass says of the threads of `known` that have not changed.
    pub(super) fn not_returned(&self, known: &KnownThreads, changed: &HashSet<ThreadId>) -> NotReturned {
        let mut not_returned = NotReturned::default();
        // A thread that shares the slot, and was written after this one was met, took the mark.
        let taken: HashSet<usize> = changed.iter().map(|id| slot_of(id.tid)).collect();
        for id in known.keys().filter(|id| !changed.contains(id)) {
            match self.last_change(*id) {
                None => {
                    not_returned.hidden.insert(id.tgid);
                }
                Some(last) if was_met(self.slots.get(slot_of(id.tid)), last.start_bits) => {}
                Some(_) if taken.contains(&slot_of(id.tid)) => {}
                Some(_) => {
                    not_returned.gone.insert(*id);
                }
            }
        }
        not_returned
    }

    /// Gives threads that are in the cgroups of before the paths of before, so that no file is read for them.
    pub(super) fn take_cgroups(
        &self,
        known: &KnownThreads,
        changes: &[LastChange],
        (threads, facts): (&mut [ThreadState], &mut [ThreadFacts]),
    ) {
        for ((thread, facts), change) in threads.iter_mut().zip(facts).zip(changes) {
            let before = self.last_change(change.id).filter(|before| change.is_in_cgroups_of(before));
            if let Some(same) = before.and_then(|_| known.get(&change.id)) {
                (thread.cgroup, thread.cpu_cgroup) = (same.cgroup.clone(), same.cpu_cgroup.clone());
                facts.cgroups = None;
            }
        }
    }

    /// The processes whose first threads have executed another program, as far as that can be told.
    pub(super) fn executed(&self, changes: &[LastChange]) -> HashSet<u32> {
        let leaders = changes.iter().filter(|change| change.id.tid == change.id.tgid);
        let is_other = |change: &&LastChange| {
            self.last_change(change.id).is_some_and(|before| before.thread_pointer != change.thread_pointer)
        };
        leaders.filter(is_other).map(|change| change.id.tgid).collect()
    }

    /// The counters of those threads of a process that slept on.
    pub(super) fn counters<'t>(
        &self,
        known: &'t KnownThreads,
        tgid: u32,
        slept: impl Fn(&ThreadId) -> bool,
    ) -> Vec<ThreadCounters<'t>> {
        let process = known.range(ThreadId { tgid, tid: 0 }..=ThreadId { tgid, tid: u32::MAX });
        let slept = process.filter(|(id, _)| slept(id));
        slept.map(|(id, thread)| (&*thread.metrics, self.last_change(*id).and_then(|last| last.cpu_time))).collect()
    }

    /// Adds the changes of a pass, and forgets threads that are gone.
    pub(super) fn end_pass(&mut self, changes: Vec<LastChange>, gone: &[ThreadId]) {
        for id in gone {
            self.threads.remove(&id.tid);
        }
        self.threads.extend(changes.into_iter().map(|change| (change.id.tid, change)));
    }

    fn last_change(&self, id: ThreadId) -> Option<&LastChange> {
        self.threads.get(&id.tid).filter(|last| last.id == id)
    }
}

fn slot_of(tid: u32) -> usize {
    usize::try_from(tid % SLOTS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn a_thread_whose_slot_another_one_took_in_the_same_pass_is_not_gone() {
        let mut tracker = match ChangeTracker::new() {
            Ok(tracker) => tracker,
            Err(errno) => return skipped(Missing::Privilege(format!("BPF maps: {errno}"))),
        };
        let thread = |tid| ThreadState { tgid: tid, tid, ..ThreadState::default() };
        let known: KnownThreads = [5, 6].map(|tid| (thread(tid).id(), thread(tid))).into();
        let facts = || ThreadFacts { start_ns: Some(1 << 20), ..ThreadFacts::default() };
        tracker.end_pass(LastChange::each(&[thread(5), thread(6)], &[facts(), facts()]), &[]);
        tracker.begin_pass();
        // The pass has marked neither; the slot of the first one is that of a new thread.
        let NotReturned { gone, hidden } = tracker.not_returned(&known, &[thread(5 + SLOTS).id()].into());
        assert_eq!((gone, hidden), ([thread(6).id()].into(), BTreeSet::new()));
    }
}
