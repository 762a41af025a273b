//! Records of exited threads, as a recorder passes them. Threads that started and exited in a window are folded while their
//! records arrive: at its end, only their names are left.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::Fold;
use super::left_programs::take;
use crate::model::{ExitRecords, ExitedThread, Name, ThreadSpan, ThreadState};

/// Calls its argument for each record, in the order of the exits.
pub type EachExit<'r> = &'r dyn Fn(&mut dyn FnMut(ExitedThread));

/// The threads that exited in a window.
#[derive(Default)]
pub struct Exits<'r> {
    /// Where they came from, and how many there are; `None` without records.
    pub summary: Option<ExitRecords>,
    /// Exited threads that were kept one by one.
    pub each: Option<EachExit<'r>>,
    /// Exited threads that were folded.
    pub folded: FoldedExits,
    /// Names cgroups of folded threads that had no name.
    pub cgroup: Option<&'r dyn Fn(u64) -> Option<Name>>,
}

impl Exits<'_> {
    /// Calls `found` for each record that was kept. Its parent is the nearest ancestor that was not folded.
    pub(super) fn for_each(&self, mut found: impl FnMut(ExitedThread)) {
        if let Some(each) = self.each {
            each(&mut |exited| {
                let ppid = self.folded.counting(exited.ppid, exited.started_monotonic_ns);
                found(ExitedThread { ppid, ..exited });
            });
        }
    }
}

/// More generations of exited ancestors than this are not followed: a corrupt snapshot can have a circle.
pub(super) const MOST_ANCESTORS: usize = 64;
/// Beyond these, threads that equal no row get one name: programs can make any number of names.
const MOST_ROWS: usize = 50_000;
const OTHERS: &str = "(others)";
/// The kernel frees a process and its children in any order within some milliseconds. This many processes exit in a second at
/// most, so that the last ones that were freed are remembered, at least so many.
const REMEMBERED: usize = 1 << 16;

/// Exited threads, keyed by the process whose counters include them as long as it lives: the process of the thread, or the
/// nearest living ancestor of that process.
#[derive(Debug, Default)]
pub struct FoldedExits {
    folds: BTreeMap<(u32, FoldedPart), Fold>,
    freed: FreedProcesses,
    /// Threads with equal names of a process are one.
    pub(crate) rows: usize,
    /// Number of threads with delays that are longer than they lived.
    pub impossible_delays: u64,
}

/// Kind of a process's exited threads that were folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldedPart {
    /// Threads of the process itself.
    Threads,
    /// Threads of its children, and of deeper descendants whose parents have exited too.
    #[serde(alias = "descendants")]
    Children,
}

/// The processes that were freed last, by their ids.
#[derive(Debug, Default)]
struct FreedProcesses {
    latest: HashMap<u32, FreedProcess>,
    before: HashMap<u32, FreedProcess>,
}

#[derive(Debug)]
struct FreedProcess {
    exited_monotonic_ns: u64,
    ppid: u32,
}

impl FreedProcesses {
    fn add(&mut self, tgid: u32, freed: FreedProcess) {
        if self.latest.len() >= REMEMBERED {
            self.before = std::mem::take(&mut self.latest);
        }
        self.latest.insert(tgid, freed);
    }

    fn get(&self, tgid: u32) -> Option<&FreedProcess> {
        self.latest.get(&tgid).or_else(|| self.before.get(&tgid))
    }
}

impl FoldedExits {
    /// Adds an exited thread to its fold.
    pub fn add(&mut self, exited: ExitedThread) {
        self.add_after(Vec::new(), exited);
    }

    /// Adds a thread, with what it was and had done each time that it executed another program before.
    pub fn add_after(&mut self, left: Vec<ExitedThread>, exited: ExitedThread) {
        let counted = self.counted(&exited);
        let mut before: Option<ExitedThread> = None;
        for mut whole in left.into_iter().chain([exited]) {
            let impossible = u64::from(whole.state.metrics.remove_impossible_delays(whole.elapsed_ns));
            self.impossible_delays = self.impossible_delays.saturating_add(impossible);
            let (alive_ns, count) = (whole.elapsed_ns, u64::from(!whole.executed));
            whole.state.span = Some(ThreadSpan { alive_ns, zombie_ns: 0, count, started: true, exited: true });
            let mut part = whole.clone();
            // Another thread that calls execve(2) has done only what it did itself.
            before.iter().filter(|_| whole.state.is_leader()).for_each(|before| take(before, &mut part));
            self.add_row(counted.0, counted.1, part);
            before = Some(whole);
        }
    }

    /// The process that counts a thread.
    fn counted(&mut self, exited: &ExitedThread) -> (u32, FoldedPart) {
        let (tgid, started_monotonic_ns) = (exited.state.tgid, exited.started_monotonic_ns);
        // The first thread is freed when the whole process has exited.
        if exited.state.is_leader() && exited.replaced_by.is_none() {
            let parent = self.counting(exited.ppid, started_monotonic_ns);
            self.end(tgid, parent, exited.exited_monotonic_ns());
            (parent, FoldedPart::Children)
        } else {
            let counting = self.counting(tgid, started_monotonic_ns);
            let part = if counting == tgid { FoldedPart::Threads } else { FoldedPart::Children };
            (counting, part)
        }
    }

    /// The threads with equal names as one each, with the process that counts them. `cgroup` names cgroups that had no name.
    pub fn rows(&self, cgroup: impl Fn(u64) -> Option<Name>) -> impl Iterator<Item = (u32, FoldedPart, ExitedThread)> {
        self.folds.iter().flat_map(move |((tgid, part), fold)| {
            let rows = fold.clone().into_rows().map(|mut row| {
                let name = row.unnamed_cgroup.take().and_then(&cgroup);
                row.state.cgroup = row.state.cgroup.or(name);
                (*tgid, *part, row)
            });
            rows.collect::<Vec<_>>()
        })
    }

    /// Adds a thread, or threads that were folded before, under their names if there is room.
    pub fn add_row(&mut self, tgid: u32, part: FoldedPart, mut row: ExitedThread) {
        let fold = self.folds.entry((tgid, part)).or_default();
        if self.rows >= MOST_ROWS && !fold.has(&row) {
            let ThreadState { pcomm, comm, program, parent, cgroup, .. } = &mut row.state;
            (*pcomm, *comm, *program, *parent, *cgroup) = (OTHERS.into(), OTHERS.into(), None, None, None);
            row.unnamed_cgroup = None;
        }
        self.rows += usize::from(fold.add(row));
    }

    /// The process with this id, or its nearest ancestor that has not exited.
    pub(super) fn counting(&self, mut tgid: u32, started_monotonic_ns: u64) -> u32 {
        for _ in 0..MOST_ANCESTORS {
            match self.freed.get(tgid) {
                Some(freed) if started_monotonic_ns <= freed.exited_monotonic_ns => tgid = freed.ppid,
                _ => break,
            }
        }
        tgid
    }

    /// Gives what a process counted to its parent, which waited for it.
    fn end(&mut self, tgid: u32, ppid: u32, exited_monotonic_ns: u64) {
        self.freed.add(tgid, FreedProcess { exited_monotonic_ns, ppid });
        for part in [FoldedPart::Threads, FoldedPart::Children] {
            let fold = self.folds.remove(&(tgid, part)).unwrap_or_default();
            self.rows = self.rows.saturating_sub(fold.len());
            fold.into_rows().for_each(|row| self.add_row(ppid, FoldedPart::Children, row));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_freed_late_is_counted_by_the_ancestor_of_its_freed_parent() {
        const PARENT: u32 = 7;
        let process = |tid, ppid| {
            let state = ThreadState { tid, tgid: tid, pcomm: "job".into(), ..ThreadState::default() };
            ExitedThread { state, ppid, elapsed_ns: 1, ..ExitedThread::default() }
        };
        let mut exits = FoldedExits::default();
        let most = u32::try_from(REMEMBERED).unwrap();
        // The parent is the last one that fits.
        (100..most + 99).for_each(|tid| exits.add(process(tid, 1)));
        [(PARENT, 1), (8, 1), (9, PARENT)].into_iter().for_each(|(tid, ppid)| exits.add(process(tid, ppid)));
        let counted: Vec<_> = exits.rows(|_| None).map(|(tgid, part, row)| (tgid, part, row.state.span)).collect();
        let [(1, FoldedPart::Children, Some(all))] = counted[..] else { panic!("{counted:?}") };
        assert_eq!(all.count, u64::from(most) + 2);
    }
}
