//! Records of exited threads, as a recorder passes them.

use super::folded_exits::FoldedExits;
use crate::model::{ExitRecords, ExitedThread, Name};

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
