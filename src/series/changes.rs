//! Changes of several steps: their window, with only the threads and cgroups that changed.

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
    /// Ids of threads that changed.
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
    /// Adds a step to the changes.
    pub fn add(&mut self, step: Step, applied: Applied) {
        let Applied { before, changed, cgroups, exits } = applied;
        for thread in before {
            // A thread that has changed already was different before that, or was not there.
            if !self.changed.contains(&thread.id()) {
                self.before.entry(thread.id()).or_insert(thread);
            }
        }
        self.changed.extend(changed);
        for (path, [before, _]) in cgroups {
            self.cgroups.entry(path).or_insert(before);
        }
        self.exits += exits.each.len() + exits.folded.len();
        self.steps.push(exits);
        if let Some(reasons) = step.reasons {
            self.reasons.get_or_insert_default().add(*reasons);
        }
        self.command = step.command;
    }

    /// Returns the number of kept threads, as [`Part::kept`] does.
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

    /// Returns the window between two captures. `later` has only the threads and values of cgroups that changed.
    ///
    /// # Errors
    /// [`NoWindow`] if the captures are not of one boot.
    pub fn window(self, mut earlier: SnapshotHead, later: CtprofSnapshot) -> Result<CtprofSnapshot, NoWindow> {
        earlier.cgroup_stats = self.cgroups.into_iter().filter_map(|(path, before)| Some((path, before?))).collect();
        let mut part = Part::with(earlier, self.before.into_values());
        self.steps.into_iter().for_each(|exits| part.add(exits, None));
        part.reasons = self.reasons;
        part.end(later, self.command, None)
    }
}
