//! What changed in some steps: their window, of the threads and cgroups that changed.

use std::collections::{BTreeMap, BTreeSet};

use super::moment::Applied;
use super::part::Part;
use super::step::{Step, StepExits};
use crate::model::{CgroupStats, CtprofSnapshot, ReasonSums, RecordedCommand, SnapshotHead, ThreadId, ThreadState};
use crate::window::NoWindow;

/// The changes of consecutive steps.
#[derive(Default)]
pub struct Changes {
    /// Threads as they were before.
    before: BTreeMap<ThreadId, ThreadState>,
    /// Threads that changed.
    changed: BTreeSet<ThreadId>,
    /// Cgroups that changed, as they were before; `None` for new ones.
    cgroups: BTreeMap<String, Option<CgroupStats>>,
    steps: Vec<StepExits>,
    reasons: Option<ReasonSums>,
    /// The number of their records of exits.
    exits: usize,
    command: Option<RecordedCommand>,
}

impl Changes {
    /// Adds a step.
    pub fn add(&mut self, step: Step, applied: Applied) {
        let Applied { before, changed, cgroups, exits } = applied;
        for thread in before {
            // A thread that has changed already was different before that, or was not there.
            if !self.changed.contains(&thread.id()) {
                self.before.entry(thread.id()).or_insert(thread);
            }
        }
        self.changed.extend(changed);
        for (path, before) in cgroups {
            self.cgroups.entry(path).or_insert(before);
        }
        self.exits += exits.each.len() + exits.folded.len();
        self.steps.push(exits);
        if let Some(reasons) = step.reasons {
            self.reasons.get_or_insert_default().add(*reasons);
        }
        self.command = step.command;
    }

    /// As [`Part::kept`].
    pub fn kept(&self) -> usize {
        self.exits + self.reasons.as_ref().map_or(0, ReasonSums::entries)
    }

    /// The paths of cgroups that changed.
    pub fn cgroups(&self) -> impl Iterator<Item = &String> {
        self.cgroups.keys()
    }

    /// The threads that changed.
    pub fn ids(&self) -> Vec<ThreadId> {
        self.changed.iter().copied().collect()
    }

    /// The window between two captures, of which the later one has the threads and values of cgroups that changed.
    ///
    /// # Errors
    /// [`NoWindow`] if they are not of one boot.
    pub fn window(self, mut earlier: SnapshotHead, later: CtprofSnapshot) -> Result<CtprofSnapshot, NoWindow> {
        earlier.cgroup_stats = self.cgroups.into_iter().filter_map(|(path, before)| Some((path, before?))).collect();
        let mut part = Part::with(earlier, self.before.into_values());
        self.steps.into_iter().for_each(|exits| part.add(exits, None));
        part.reasons = self.reasons;
        part.end(later, self.command, None)
    }
}
