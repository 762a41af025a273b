//! The capture at a moment of a series.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::change;
use super::error::SeriesError;
use super::step::{Step, StepExits};
use super::table::ThreadTable;
use crate::model::{CgroupStats, CtprofSnapshot, SnapshotHead, ThreadId, ThreadState};
use crate::window;

/// A capture that steps lead on to the next one.
#[derive(Clone, Debug)]
pub struct Moment {
    head: Json,
    threads: BTreeMap<ThreadId, ThreadState>,
}

/// The threads and cgroups that a step has changed, and what exited in it.
#[derive(Debug, Default)]
pub struct Applied {
    /// Threads that changed or are gone, as they were before.
    pub before: Vec<ThreadState>,
    /// The ids of threads that changed.
    pub changed: Vec<ThreadId>,
    /// Cgroups that changed, as they were before and after it; `None` where they were not there.
    pub cgroups: BTreeMap<String, [Option<CgroupStats>; 2]>,
    /// Threads that exited since the start.
    pub exits: StepExits,
}

/// The member of a head that has the cgroups.
const CGROUPS: &str = "cgroup_stats";

impl Moment {
    /// Starts with the first capture.
    #[must_use]
    pub fn new(capture: CtprofSnapshot) -> Self {
        let CtprofSnapshot { head, threads } = capture;
        let threads = threads.into_iter().map(|thread| (thread.id(), thread)).collect();
        Self { head: json_of(&head), threads }
    }

    /// Becomes a later capture. Returns what changed, with what exited meanwhile.
    pub fn advance(&mut self, later: CtprofSnapshot, exits: &StepExits) -> (Step, Applied) {
        let is_listed = |id: &ThreadId| later.threads.binary_search_by_key(id, ThreadState::id).is_ok();
        let is_gone = |id: &ThreadId| !is_listed(id) && !later.head.is_unread(*id);
        let gone_threads: Vec<_> = self.threads.keys().copied().filter(is_gone).collect();
        self.advance_by(later, gone_threads, exits)
    }

    /// Advances as [`Moment::advance`] does, with a capture of the threads that may have changed, and the ids of threads that are
    /// gone.
    pub fn advance_by(
        &mut self,
        later: CtprofSnapshot,
        gone_threads: Vec<ThreadId>,
        exits: &StepExits,
    ) -> (Step, Applied) {
        let CtprofSnapshot { head, threads: later } = later;
        let head = json_of(&head);
        let table = ThreadTable::from_changes(later.iter().map(|thread| (self.threads.get(&thread.id()), thread)));
        let changed: Vec<_> = table.ids().collect();
        let mut before: Vec<_> = gone_threads.iter().filter_map(|id| self.threads.remove(id)).collect();
        let is_changed = |thread: &ThreadState| changed.binary_search(&thread.id()).is_ok();
        let threads = later.into_iter().filter(is_changed);
        before.extend(threads.filter_map(|thread| self.threads.insert(thread.id(), thread)));
        let step = Step::new(change::change(&self.head, &head), table, gone_threads, exits);
        self.head = head;
        (step, Applied { before, changed, ..Applied::default() })
    }

    /// Changes this capture into the one after a step.
    ///
    /// # Errors
    /// [`SeriesError`] if the step does not belong to this capture, which is then damaged.
    pub fn apply(&mut self, step: &mut Step) -> Result<Applied, SeriesError> {
        let exits = std::mem::take(&mut step.exits).exits(step.exit_records.take())?;
        let mut cgroups = BTreeMap::new();
        if let Some(head) = step.head.take() {
            for path in head.get(CGROUPS).and_then(Json::as_object).into_iter().flat_map(Map::keys) {
                cgroups.insert(path.clone(), [self.cgroup(path)?, None]);
            }
            change::apply(&mut self.head, head).ok_or(SeriesError::Change)?;
            for (path, [_, after]) in &mut cgroups {
                *after = self.cgroup(path)?;
            }
        }
        let mut before = Vec::new();
        for (tgid, tid) in step.gone_threads.drain(..) {
            before.push(self.threads.remove(&ThreadId { tgid, tid }).ok_or(SeriesError::UnknownThread)?);
        }
        let table = std::mem::take(&mut step.threads);
        // A row copies a thread, so that many of one would take more memory than any host's threads.
        if !table.ids().is_sorted_by(|one, next| one < next) {
            return Err(SeriesError::Columns);
        }
        let threads = table.threads(|id| self.threads.get(&id))?;
        let changed = threads.iter().map(ThreadState::id).collect();
        before.extend(threads.into_iter().filter_map(|thread| self.threads.insert(thread.id(), thread)));
        Ok(Applied { before, changed, cgroups, exits })
    }

    /// Everything but the threads.
    ///
    /// # Errors
    /// [`SeriesError::Json`] if steps have made something else of it.
    pub fn head(&self) -> Result<SnapshotHead, SeriesError> {
        Ok(SnapshotHead::deserialize(&self.head)?)
    }

    /// Returns the head as [`Moment::head`] does, but with the values of only these cgroups.
    ///
    /// # Errors
    /// The errors of [`Moment::head`].
    pub fn head_with<'p>(&mut self, cgroups: impl Iterator<Item = &'p String>) -> Result<SnapshotHead, SeriesError> {
        let all = self.head.as_object_mut().and_then(|members| members.remove(CGROUPS));
        let head = self.head();
        if let (Some(members), Some(all)) = (self.head.as_object_mut(), all) {
            members.insert(CGROUPS.to_owned(), all);
        }
        let mut head = head?;
        let all = self.head.get(CGROUPS).and_then(Json::as_object).into_iter().flatten();
        let unchanged = |(path, stats): (&String, &Json)| {
            let without_threads = stats.get("without_threads").and_then(Json::as_bool).unwrap_or(false);
            (path.clone(), CgroupStats { without_threads, ..CgroupStats::default() })
        };
        head.cgroup_stats = all.map(unchanged).collect();
        for path in cgroups {
            head.cgroup_stats.extend(self.cgroup(path)?.map(|stats| (path.clone(), stats)));
        }
        Ok(head)
    }

    /// A cgroup, if it is there.
    fn cgroup(&self, path: &str) -> Result<Option<CgroupStats>, SeriesError> {
        let stats = self.head.get(CGROUPS).and_then(|all| all.get(path));
        Ok(stats.map(CgroupStats::deserialize).transpose()?)
    }

    /// Everything but the threads, as JSON.
    pub fn head_json(&self) -> Vec<u8> {
        self.head.to_string().into_bytes()
    }

    /// The number of cgroups, or of what else there is most of beside threads.
    pub fn entries(&self) -> usize {
        let members = self.head.as_object().into_iter().flat_map(Map::values);
        members.filter_map(Json::as_object).map(Map::len).max().unwrap_or(0)
    }

    /// Time since boot, in nanoseconds.
    pub fn boottime_ns(&self) -> Option<u64> {
        self.head.get("capture")?.get("boottime_ns")?.as_u64()
    }

    /// Wall clock of the capture, in nanoseconds since 1970.
    pub fn unix_ns(&self) -> Option<u64> {
        self.head.get("captured_at_unix_ns")?.as_u64()
    }

    /// Returns the whole capture, with its threads.
    ///
    /// # Errors
    /// The errors of [`Moment::head`].
    pub fn capture(&self) -> Result<CtprofSnapshot, SeriesError> {
        Ok(CtprofSnapshot { head: self.head()?, threads: self.threads.values().cloned().collect() })
    }

    /// Returns all threads, sorted by id.
    pub fn threads(&self) -> &BTreeMap<ThreadId, ThreadState> {
        &self.threads
    }

    /// Adds the unchanged threads to a window that ends here and has only the changed ones.
    pub fn add_unchanged(&self, window: &mut CtprofSnapshot) {
        let duration_ns = window.head.window.as_ref().map_or(0, |window| window.duration_ns);
        let changed: BTreeSet<_> = window.threads.iter().map(ThreadState::id).collect();
        let others = self.threads.iter().filter(|(id, _)| !changed.contains(id));
        let others = others.map(|(_, thread)| window::unchanged(thread, duration_ns));
        window.threads.extend(others.collect::<Vec<_>>());
        window.threads.sort_by_key(ThreadState::id);
        window::leave_out_unlisted(window);
        // A parent that has not changed either is no thread of the step.
        let recorder = self.head.get("series").and_then(|series| series.get("recorder")?.as_u64());
        let all: Vec<_> = self.threads.values().collect();
        let mut parents = window::parents_of_zombies(&all, recorder.and_then(|recorder| recorder.try_into().ok()));
        let listed = window.threads.iter_mut().filter(|thread| self.threads.contains_key(&thread.id()));
        listed.for_each(|thread| thread.parent = parents.remove(&thread.id()));
    }

    /// Some of the threads.
    pub fn some_threads(&self, ids: &[ThreadId]) -> Vec<ThreadState> {
        ids.iter().filter_map(|id| self.threads.get(id)).cloned().collect()
    }
}

fn json_of(head: &SnapshotHead) -> Json {
    serde_json::to_value(head).expect("a head is JSON")
}
