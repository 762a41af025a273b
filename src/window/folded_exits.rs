//! Records of exited threads, as a recorder passes them. Threads that started and exited in a window are folded while their
//! records arrive: at its end, only their names are left.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::Fold;
use crate::model::{ExitRecords, ExitedThread, Name, ThreadSpan, ThreadState};

/// Calls its argument for each record, in the order of the exits.
pub type EachExit<'r> = &'r dyn Fn(&mut dyn FnMut(ExitedThread));

#[derive(Default)]
pub struct Exits<'r> {
    /// Where they came from, and how many there are; `None` without records.
    pub summary: Option<ExitRecords>,
    /// Those that were kept.
    pub each: Option<EachExit<'r>>,
    /// The others.
    pub folded: FoldedExits,
    /// The name of the cgroup of folded threads.
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
/// most.
const REMEMBERED: usize = 1 << 16;

/// Exited threads by the process that counts them as long as it lives: that of which they were threads, or the nearest
/// ancestor of their process.
#[derive(Debug, Default)]
pub struct FoldedExits {
    folds: BTreeMap<(u32, FoldedPart), Fold>,
    gone: HashMap<u32, Gone>,
    /// Threads with equal names of a process are one.
    pub(crate) rows: usize,
    /// Number of threads with delays that are longer than they lived.
    pub impossible_delays: u64,
}

/// Which exited threads of a process were folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldedPart {
    /// Its own.
    Threads,
    /// Those of its children.
    Children,
    /// Those of processes below its children, whose parents have exited too.
    Descendants,
}

/// A process that was freed.
#[derive(Debug)]
struct Gone {
    exited_monotonic_ns: u64,
    ppid: u32,
}

impl FoldedExits {
    /// Whether threads with other names keep them.
    pub(crate) fn has_room(&self) -> bool {
        self.rows < MOST_ROWS
    }

    /// Adds a thread.
    pub fn add(&mut self, mut exited: ExitedThread) {
        let ExitedThread { started_monotonic_ns, elapsed_ns, ppid, .. } = exited;
        let impossible = u64::from(exited.state.metrics.remove_impossible_delays(elapsed_ns));
        self.impossible_delays = self.impossible_delays.saturating_add(impossible);
        let span = ThreadSpan { alive_ns: elapsed_ns, started: true, exited: true, ..ThreadSpan::default() };
        exited.state.span = Some(span);
        let tgid = exited.state.tgid;
        // The first thread is freed when the whole process has exited.
        let counted = if exited.state.is_leader() && exited.replaced_by.is_none() {
            let parent = self.counting(ppid, started_monotonic_ns);
            self.end(tgid, parent, started_monotonic_ns.saturating_add(elapsed_ns));
            // If the parent has exited, it may have waited for this one before, or another process has adopted it.
            let part = if parent == ppid { FoldedPart::Children } else { FoldedPart::Descendants };
            (parent, part)
        } else {
            let counting = self.counting(tgid, started_monotonic_ns);
            let part = if counting == tgid { FoldedPart::Threads } else { FoldedPart::Descendants };
            (counting, part)
        };
        if !self.has_room() && !self.folds.get(&counted).is_some_and(|fold| fold.has(&exited)) {
            let ThreadState { pcomm, comm, program, parent, .. } = &mut exited.state;
            (*pcomm, *comm, *program, *parent) = (OTHERS.into(), OTHERS.into(), None, None);
        }
        self.add_row(counted.0, counted.1, exited);
    }

    /// The threads with equal names as one each, with the process that counts them. `cgroup` knows cgroups by their number.
    pub fn rows(&self, cgroup: impl Fn(u64) -> Option<Name>) -> impl Iterator<Item = (u32, FoldedPart, ExitedThread)> {
        self.folds.iter().flat_map(move |((tgid, part), fold)| {
            let rows = fold.clone().into_rows().map(|mut row| {
                let known = row.cgroups.take().and_then(&cgroup);
                row.state.cgroup = row.state.cgroup.or(known);
                (*tgid, *part, row)
            });
            rows.collect::<Vec<_>>()
        })
    }

    /// Adds threads that were folded before, of an earlier time than all others.
    pub fn add_row(&mut self, tgid: u32, part: FoldedPart, row: ExitedThread) {
        self.rows += usize::from(self.folds.entry((tgid, part)).or_default().add(row));
    }

    /// The process with this id, or its nearest ancestor that has not exited.
    pub(super) fn counting(&self, mut tgid: u32, started_monotonic_ns: u64) -> u32 {
        for _ in 0..MOST_ANCESTORS {
            match self.gone.get(&tgid) {
                Some(gone) if started_monotonic_ns <= gone.exited_monotonic_ns => tgid = gone.ppid,
                _ => break,
            }
        }
        tgid
    }

    /// Gives what a process counted to its parent, which waited for it.
    fn end(&mut self, tgid: u32, ppid: u32, exited_monotonic_ns: u64) {
        if self.gone.len() >= REMEMBERED {
            self.gone.clear();
        }
        self.gone.insert(tgid, Gone { exited_monotonic_ns, ppid });
        let parts = [FoldedPart::Threads, FoldedPart::Children, FoldedPart::Descendants];
        let [threads, children, descendants] = parts.map(|part| self.folds.remove(&(tgid, part)).unwrap_or_default());
        self.rows = self.rows.saturating_sub(threads.len() + children.len() + descendants.len());
        threads.into_rows().for_each(|row| self.add_row(ppid, FoldedPart::Children, row));
        let below = children.into_rows().chain(descendants.into_rows());
        below.for_each(|row| self.add_row(ppid, FoldedPart::Descendants, row));
    }
}
