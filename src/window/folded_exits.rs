//! Threads that started and exited in a window, folded while their records arrive: at its end, only their names are left.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::fold::Fold;
use crate::model::{ExitedThread, Name, ThreadSpan};

/// More generations of exited ancestors than this are not followed: a corrupt snapshot can have a circle.
pub(super) const MOST_ANCESTORS: usize = 64;
/// Threads with more different names than this are kept elsewhere.
const MOST_ROWS: usize = 50_000;
/// The kernel frees a process and its children in any order within some milliseconds. This many processes exit in a second at
/// most.
const REMEMBERED: usize = 1 << 16;

/// Exited threads by the process that counts them as long as it lives: that of which they were threads, or the nearest
/// ancestor of their process.
#[derive(Debug, Default)]
pub struct FoldedExits {
    pub(super) processes: BTreeMap<u32, ExitedOf>,
    gone: HashMap<u32, Gone>,
    rows: usize,
    /// Number of threads with delays that are longer than they lived.
    pub impossible_delays: u64,
}

/// Which exited threads of a process were folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldedPart {
    /// Its own.
    Threads,
    /// Those of its children.
    Children,
    /// Those of processes below its children, whose parents have exited too.
    Descendants,
}

/// What exited of one process.
#[derive(Debug, Default)]
pub(super) struct ExitedOf {
    threads: Fold,
    children: Fold,
    descendants: Fold,
}

impl ExitedOf {
    pub(super) fn parts(&self) -> [(FoldedPart, &Fold); 3] {
        let Self { threads, children, descendants } = self;
        [(FoldedPart::Threads, threads), (FoldedPart::Children, children), (FoldedPart::Descendants, descendants)]
    }

    fn part(&mut self, part: FoldedPart) -> &mut Fold {
        match part {
            FoldedPart::Threads => &mut self.threads,
            FoldedPart::Children => &mut self.children,
            FoldedPart::Descendants => &mut self.descendants,
        }
    }
}

/// A process that was freed.
#[derive(Debug)]
struct Gone {
    exited_monotonic_ns: u64,
    ppid: u32,
}

impl FoldedExits {
    /// Adds a thread; false if it has a name for which there is no room.
    pub fn add(&mut self, mut exited: ExitedThread) -> bool {
        if self.rows >= MOST_ROWS {
            return false;
        }
        let ExitedThread { started_monotonic_ns, elapsed_ns, ppid, .. } = exited;
        self.impossible_delays += u64::from(exited.state.metrics.remove_impossible_delays(elapsed_ns));
        let span = ThreadSpan { alive_ns: elapsed_ns, started: true, exited: true, ..ThreadSpan::default() };
        exited.state.span = Some(span);
        let tgid = exited.state.tgid;
        // The first thread is freed when the whole process has exited.
        let is_new = if exited.state.is_leader() && exited.replaced_by.is_none() {
            let parent = self.counting(ppid, started_monotonic_ns);
            let exited_monotonic_ns = started_monotonic_ns.saturating_add(elapsed_ns);
            self.end(tgid, parent, exited_monotonic_ns);
            self.processes.entry(parent).or_default().children.add(exited)
        } else {
            match self.counting(tgid, started_monotonic_ns) {
                process if process == tgid => self.processes.entry(tgid).or_default().threads.add(exited),
                ancestor => self.processes.entry(ancestor).or_default().children.add(exited),
            }
        };
        self.rows += usize::from(is_new);
        true
    }

    /// The threads with equal names as one each, with the process that counts them. `cgroup` knows cgroups by their number.
    pub fn rows(&self, cgroup: impl Fn(u64) -> Option<Name>) -> impl Iterator<Item = (u32, FoldedPart, ExitedThread)> {
        let parts = self.processes.iter().flat_map(|(tgid, of)| of.parts().map(|(part, fold)| (*tgid, part, fold)));
        parts.flat_map(move |(tgid, part, fold)| {
            let rows = fold.clone().into_rows().map(|mut row| {
                let known = row.cgroups.take().and_then(&cgroup);
                row.state.cgroup = row.state.cgroup.or(known);
                (tgid, part, row)
            });
            rows.collect::<Vec<_>>()
        })
    }

    /// Adds threads that were folded before, of an earlier time than all others.
    pub fn add_row(&mut self, tgid: u32, part: FoldedPart, row: ExitedThread) {
        self.rows += usize::from(self.processes.entry(tgid).or_default().part(part).add(row));
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
        let Some(ExitedOf { threads, children, descendants }) = self.processes.remove(&tgid) else { return };
        self.rows = self.rows.saturating_sub(threads.len() + children.len() + descendants.len());
        let parent = self.processes.entry(ppid).or_default();
        let new_children = threads.into_rows().map(|row| parent.children.add(row)).filter(|is_new| *is_new).count();
        let below = children.into_rows().chain(descendants.into_rows());
        let new_descendants = below.map(|row| parent.descendants.add(row)).filter(|is_new| *is_new).count();
        self.rows += new_children + new_descendants;
    }
}
