//! The parents of processes, and which capture had a process. Ids of processes are reused, so that a process is known
//! by its id and its start.

use super::{Clocks, EarlierThreads, Exits};
use crate::model::{ExitedThread, ThreadState};

/// Facts about a process, from captures and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownProcess {
    pub(super) tgid: u32,
    /// The id of its parent; 0 if it is unknown.
    pub(super) ppid: u32,
    /// Time since boot at its start, in nanoseconds.
    pub(super) start_ns: u64,
    /// Whether the earlier capture had it.
    pub(super) is_in_earlier: bool,
    /// Whether the later capture has it.
    pub(super) is_living: bool,
}

/// Processes of both captures and of exit records, ascending by id and start.
#[derive(Debug, Default)]
pub(super) struct Parents(pub(super) Vec<KnownProcess>);

/// A process of the later capture: its id, its start in ticks, and its parent.
pub(super) type Living = (u32, Option<u64>, Option<u32>);

impl Parents {
    /// The processes of both captures and of the records of their leaders.
    pub(super) fn new(
        earlier: &EarlierThreads,
        living: impl Iterator<Item = Living>,
        exits: &Exits<'_>,
        clocks: &Clocks,
    ) -> Self {
        let known_process = |(tgid, ticks, ppid): Living| KnownProcess {
            tgid,
            ppid: ppid.unwrap_or(0),
            start_ns: clocks.boot_ns(ticks),
            is_in_earlier: false,
            is_living: false,
        };
        let mut all: Vec<_> =
            living.map(|process| KnownProcess { is_living: true, ..known_process(process) }).collect();
        let before = earlier.threads.iter().filter(|thread| thread.is_leader()).map(self::living);
        all.extend(before.map(|process| KnownProcess { is_in_earlier: true, ..known_process(process) }));
        exits.for_each(|exited| {
            let ExitedThread { state, ppid, executed, .. } = exited;
            if state.is_leader() && !executed {
                all.push(known_process((state.tgid, state.start_time_clock_ticks, Some(ppid))));
            }
        });
        all.sort_by_key(|process| (process.tgid, process.start_ns));
        all.dedup_by(|later, first| first.absorb(later));
        Self(all)
    }

    /// The index of the process that had this id when a thread of it, or its child, started.
    pub(super) fn find(&self, tgid: u32, start_ns: u64) -> Option<usize> {
        let after = self.0.partition_point(|process| (process.tgid, process.start_ns) <= (tgid, start_ns));
        after.checked_sub(1).filter(|place| self.0[*place].tgid == tgid)
    }

    /// The process that had this id when a thread of it, or its child, started.
    pub(super) fn get(&self, tgid: u32, start_ns: u64) -> Option<&KnownProcess> {
        self.find(tgid, start_ns).map(|place| &self.0[place])
    }

    /// The process with this id when its child started, then its parent, and so on.
    pub(super) fn ancestors(&self, ppid: u32, start_ns: u64) -> impl Iterator<Item = &KnownProcess> {
        std::iter::successors(self.get(ppid, start_ns), |child| self.get(child.ppid, child.start_ns))
    }
}

/// The process of a first thread.
pub(super) fn living(leader: &ThreadState) -> Living {
    (leader.tgid, leader.start_time_clock_ticks, leader.process.as_ref().and_then(|process| process.ppid))
}

impl KnownProcess {
    /// Adds what is known of the same process from elsewhere; false if the other is another process.
    fn absorb(&mut self, other: &Self) -> bool {
        let is_same = (self.tgid, self.start_ns) == (other.tgid, other.start_ns);
        if is_same {
            if self.ppid == 0 || (other.ppid > 0 && other.rank() > self.rank()) {
                self.ppid = other.ppid;
            }
            self.is_in_earlier |= other.is_in_earlier;
            self.is_living |= other.is_living;
        }
        is_same
    }

    /// Returns the rank of the source of a parent. Orphans get another parent, so the latest source counts: the later capture,
    /// then a record.
    fn rank(&self) -> u8 {
        match (self.is_living, self.is_in_earlier) {
            (true, _) => 2,
            (false, false) => 1,
            (false, true) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NS_PER_TICK, ProcessState};

    impl Parents {
        /// Processes with their id, their start in ticks and their parent, of both captures and of records.
        pub(in crate::window) fn of_ids(
            before: &[(u32, u64, u32)],
            after: &[(u32, u64, u32)],
            records: &[(u32, u64, u32)],
        ) -> Self {
            let leader = |(tgid, ticks, ppid): &(u32, u64, u32)| ThreadState {
                tid: *tgid,
                tgid: *tgid,
                start_time_clock_ticks: Some(*ticks),
                process: Some(Box::new(ProcessState { ppid: Some(*ppid), ..ProcessState::default() })),
                ..ThreadState::default()
            };
            let living = after.iter().map(|(tgid, ticks, ppid)| (*tgid, Some(*ticks), Some(*ppid)));
            let clocks = Clocks::default();
            let record = |process: &(u32, u64, u32)| ExitedThread {
                state: leader(process),
                ppid: process.2,
                started_monotonic_ns: 0,
                elapsed_ns: NS_PER_TICK,
                ..ExitedThread::default()
            };
            let each = |add: &mut dyn FnMut(ExitedThread)| records.iter().map(record).for_each(add);
            let exits = Exits { each: Some(&each), ..Exits::default() };
            Self::new(&EarlierThreads::of_threads(before.iter().map(leader)), living, &exits, &clocks)
        }
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn of_processes_with_one_id_the_last_that_had_started_is_meant() {
        let parents = Parents::of_ids(&[(7, 100, 1)], &[(7, 900, 3)], &[(7, 500, 2)]);
        let parent = |second: u64| parents.get(7, second * SECOND).map(|process| process.ppid);
        assert_eq!(
            [parent(0), parent(1), parent(4), parent(5), parent(8), parent(10)],
            [None, Some(1), Some(1), Some(2), Some(2), Some(3)]
        );
        assert_eq!(parents.get(6, SECOND), None);
    }

    #[test]
    fn a_process_that_a_capture_and_a_record_have_is_one_with_its_last_parent() {
        let parents = Parents::of_ids(&[(7, 100, 3), (8, 100, 3)], &[(8, 100, 1)], &[(7, 100, 2), (8, 100, 2)]);
        let process = |tgid| *parents.get(tgid, 2 * SECOND).unwrap();
        assert_eq!(parents.0.len(), 2);
        assert_eq!((process(7).ppid, process(7).is_in_earlier, process(7).is_living), (2, true, false));
        assert_eq!((process(8).ppid, process(8).is_in_earlier, process(8).is_living), (1, true, true));
    }

    #[test]
    fn ancestors_are_those_of_the_time_when_the_child_started() {
        let parents = Parents::of_ids(&[(5, 100, 1)], &[(5, 800, 2)], &[(6, 300, 5)]);
        let starts: Vec<_> =
            parents.ancestors(6, 4 * SECOND).map(|process| (process.tgid, process.start_ns / SECOND)).collect();
        assert_eq!(starts, [(6, 3), (5, 1)]);
    }
}
