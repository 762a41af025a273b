//! Threads that have all their names in common: what names decide is decided once for them all.

use std::collections::HashMap;

use super::Sides;
use crate::model::{CtprofSnapshot, Name, ThreadState};

/// Threads of the same process name, thread name and cgroup.
pub(super) struct Namesakes<'s> {
    pub(super) process: &'s Name,
    pub(super) thread: &'s Name,
    pub(super) cgroup: Option<&'s Name>,
    pub(super) threads: Vec<&'s ThreadState>,
}

/// The threads of each snapshot by their names, in the order in which these first occur.
pub(super) fn of_both(snapshots: Sides<Option<&CtprofSnapshot>>) -> Sides<Vec<Namesakes<'_>>> {
    let threads = snapshots.map(|snapshot| snapshot.map_or(&[][..], |snapshot| &snapshot.threads));
    Sides::from(rayon::join(|| of(threads.baseline), || of(threads.candidate)))
}

fn of(threads: &[ThreadState]) -> Vec<Namesakes<'_>> {
    let mut all: Vec<Namesakes<'_>> = Vec::new();
    let mut places = HashMap::new();
    for thread in threads {
        let names = (&thread.comm, &thread.pcomm, thread.cgroup.as_ref());
        let place = *places.entry(names).or_insert(all.len());
        if place == all.len() {
            let (comm, process, cgroup) = names;
            all.push(Namesakes { process, thread: comm, cgroup, threads: Vec::new() });
        }
        all[place].threads.push(thread);
    }
    all
}
