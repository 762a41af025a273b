//! Which processes are descendants of the recorder: the command that it ran.

use std::collections::HashMap;

use super::earlier::Earlier;
use crate::model::{Party, ThreadState};

/// The parents of processes. Orphans of the command have the recorder as their parent, because it is their
/// subreaper.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    parent_of: HashMap<u32, u32>,
    recorder: u32,
}

/// The parent of processes that have none: no process has this id.
const NO_PARENT: u32 = 0;

/// More generations than this are not followed: a corrupt snapshot can have a circle.
const MOST_GENERATIONS: usize = 4096;

impl Lineage {
    /// The processes of both captures. A later parent counts, since orphans get another one. Children that the
    /// recorder had before the window, of an earlier command or of the shell that it replaced, are no descendants.
    pub(super) fn of(recorder: u32, earlier: &Earlier, later: &[ThreadState]) -> Self {
        let before =
            || earlier.threads().iter().filter_map(|thread| Some((thread.id.tgid, thread.process.as_ref()?.ppid?)));
        let after = later.iter().filter_map(|thread| Some((thread.tgid, thread.process.as_ref()?.ppid?)));
        let disowned = before().filter(|(_, ppid)| *ppid == recorder).map(|(tgid, _)| (tgid, NO_PARENT));
        Self { parent_of: before().chain(after).chain(disowned).collect(), recorder }
    }

    /// Learns the parent of an exited process, unless it is known.
    pub(super) fn learn(&mut self, tgid: u32, ppid: u32) {
        self.parent_of.entry(tgid).or_insert(ppid);
    }

    /// The party of a process; `None` if it has nothing to do with the recorder. Each search halves the path to
    /// the ancestors, so that long chains are searched once.
    pub(super) fn party(&mut self, tgid: u32) -> Option<Party> {
        if tgid == self.recorder {
            return Some(Party::Ctprof);
        }
        let mut process = tgid;
        for _ in 0..MOST_GENERATIONS {
            let parent = *self.parent_of.get(&process)?;
            if parent == self.recorder {
                return Some(Party::Command);
            }
            let grandparent = *self.parent_of.get(&parent)?;
            self.parent_of.insert(process, grandparent);
            if grandparent == self.recorder {
                return Some(Party::Command);
            }
            process = grandparent;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProcessState;

    fn process(tgid: u32, ppid: u32) -> ThreadState {
        let state = ProcessState { ppid: Some(ppid), ..ProcessState::default() };
        ThreadState { tid: tgid, tgid, process: Some(Box::new(state)), ..ThreadState::default() }
    }

    #[test]
    fn descendants_of_the_recorder_are_the_command_and_a_circle_ends() {
        let later = [process(1, 0), process(9, 1), process(10, 9), process(11, 10), process(20, 21), process(21, 20)];
        let mut lineage = Lineage::of(9, &Earlier::default(), &later);
        lineage.learn(12, 11);
        let parties = [1, 9, 10, 11, 12, 20].map(|tgid| lineage.party(tgid));
        let command = Some(Party::Command);
        assert_eq!(parties, [None, Some(Party::Ctprof), command, command, command, None]);
    }

    #[test]
    fn a_child_that_an_earlier_command_left_is_not_of_the_command() {
        let before = Earlier::of_threads(vec![process(9, 1), process(10, 9), process(11, 10)]);
        let later = [process(9, 1), process(10, 9), process(11, 10), process(12, 9), process(13, 10)];
        let mut lineage = Lineage::of(9, &before, &later);
        lineage.learn(10, 9);
        assert_eq!([10, 11, 12, 13].map(|tgid| lineage.party(tgid)), [None, None, Some(Party::Command), None]);
    }
}
