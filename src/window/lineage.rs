//! Descendants of the recorder: processes that belong to the recorded command.

use std::sync::Arc;

use super::Parents;
use crate::model::Owner;

/// The descendants of the recorder. Orphans of the command have the recorder as their parent, if it is their
/// subreaper.
#[derive(Debug)]
pub(super) struct Lineage {
    pub(super) parents: Arc<Parents>,
    recorder: u32,
    /// Whether each process is of the command, as far as it was asked.
    is_of_command: Vec<Option<bool>>,
}

impl Lineage {
    pub(super) fn new(recorder: u32, parents: Parents) -> Self {
        Self { recorder, is_of_command: vec![None; parents.0.len()], parents: Arc::new(parents) }
    }

    /// The owner of processes that a process of the end of the window, or one that exited late in it, had as children.
    pub(super) fn owner_of_child(&mut self, ppid: u32) -> Option<Owner> {
        if ppid == self.recorder { Some(Owner::Command) } else { self.owner(ppid, u64::MAX) }
    }

    /// The owner of a thread that started at this time; `None` if it has nothing to do with the recorder.
    pub(super) fn owner(&mut self, tgid: u32, start_ns: u64) -> Option<Owner> {
        if tgid == self.recorder {
            return Some(Owner::Ctprof);
        }
        let mut path = Vec::new();
        let mut next = self.parents.find(tgid, start_ns);
        let is_of_command = loop {
            let Some(place) = next else { break false };
            if let Some(answer) = self.is_of_command[place] {
                break answer;
            }
            let process = self.parents.0[place];
            // A corrupt snapshot can have a circle.
            self.is_of_command[place] = Some(false);
            path.push(place);
            // The command starts after the earlier capture, which has children of an earlier command, or of the shell
            // that the recorder replaced.
            if process.is_in_earlier {
                break false;
            }
            if process.ppid == self.recorder {
                break true;
            }
            next = self.parents.find(process.ppid, process.start_ns);
        };
        path.into_iter().for_each(|place| self.is_of_command[place] = Some(is_of_command));
        is_of_command.then_some(Owner::Command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn descendants_of_the_recorder_are_the_command_and_a_circle_ends() {
        let later = [(1, 0, 0), (9, 1, 1), (10, 300, 9), (11, 300, 10), (20, 300, 21), (21, 300, 20)];
        let mut lineage = Lineage::new(9, Parents::of_ids(&[(1, 0, 0), (9, 1, 1)], &later, &[(12, 300, 11)]));
        let owners = [1, 9, 10, 11, 12, 20].map(|tgid| lineage.owner(tgid, 5 * SECOND));
        let command = Some(Owner::Command);
        assert_eq!(owners, [None, Some(Owner::Ctprof), command, command, command, None]);
    }

    #[test]
    fn a_child_that_an_earlier_command_left_is_not_of_the_command() {
        let before = [(9, 1, 1), (10, 2, 9), (11, 2, 10)];
        let later = [(9, 1, 1), (10, 2, 9), (11, 2, 9), (12, 300, 9), (13, 300, 10)];
        let mut lineage = Lineage::new(9, Parents::of_ids(&before, &later, &[(10, 2, 9)]));
        let owners = [10, 11, 12, 13].map(|tgid| lineage.owner(tgid, 5 * SECOND));
        assert_eq!(owners, [None, None, Some(Owner::Command), None]);
    }

    #[test]
    fn an_exit_of_the_command_under_a_reused_id_is_of_the_command() {
        // Process 30 of the earlier capture exited, and its id is that of a child of the command later.
        let before = [(9, 1, 1), (30, 2, 1)];
        let later = [(9, 1, 1), (10, 300, 9)];
        let mut lineage =
            Lineage::new(9, Parents::of_ids(&before, &later, &[(30, 2, 1), (30, 500, 10), (31, 600, 30)]));
        let mut owner = |tgid, second: u64| lineage.owner(tgid, second * SECOND);
        let command = Some(Owner::Command);
        assert_eq!([owner(30, 0), owner(30, 5), owner(31, 6)], [None, command, command]);
    }
}
