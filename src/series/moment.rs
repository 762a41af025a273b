//! The capture at a moment of a series.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::change;
use super::error::SeriesError;
use super::step::{Step, StepExits};
use super::table::ThreadTable;
use crate::model::{CtprofSnapshot, SnapshotHead, ThreadId, ThreadState};

/// A capture that steps lead on to the next one.
#[derive(Clone, Debug)]
pub struct Moment {
    head: Json,
    threads: BTreeMap<ThreadId, ThreadState>,
}

/// The threads that a step has changed, and what exited in it.
#[derive(Debug, Default)]
pub struct Applied {
    /// Threads that changed or are gone, as they were before.
    pub before: Vec<ThreadState>,
    /// The ids of threads that changed.
    pub changed: Vec<ThreadId>,
    /// Threads that exited.
    pub exits: StepExits,
}

impl Moment {
    /// The first capture.
    #[must_use]
    pub fn new(capture: CtprofSnapshot) -> Self {
        let CtprofSnapshot { head, threads } = capture;
        let threads = threads.into_iter().map(|thread| (thread.id(), thread)).collect();
        Self { head: json_of(&head), threads }
    }

    /// Becomes a later capture. Returns what changed, with what exited meanwhile.
    pub fn advance(&mut self, later: CtprofSnapshot, exits: &StepExits) -> (Step, Applied) {
        let is_listed = |id: &ThreadId| later.threads.binary_search_by_key(id, ThreadState::id).is_ok();
        let gone: Vec<_> = self.threads.keys().copied().filter(|id| !is_listed(id)).collect();
        self.advance_by(later, gone, exits)
    }

    /// As [`Moment::advance`], with a capture of the threads that may have changed, and those that are gone.
    pub fn advance_by(&mut self, later: CtprofSnapshot, gone: Vec<ThreadId>, exits: &StepExits) -> (Step, Applied) {
        let CtprofSnapshot { head, threads: later } = later;
        let head = json_of(&head);
        let table = ThreadTable::of(later.iter().map(|thread| (self.threads.get(&thread.id()), thread)));
        let changed: Vec<_> = table.ids().collect();
        let mut before: Vec<_> = gone.iter().filter_map(|id| self.threads.remove(id)).collect();
        let is_changed = |thread: &ThreadState| changed.binary_search(&thread.id()).is_ok();
        let threads = later.into_iter().filter(is_changed);
        before.extend(threads.filter_map(|thread| self.threads.insert(thread.id(), thread)));
        let step = Step::of(change::change(&self.head, &head), table, gone, exits);
        self.head = head;
        (step, Applied { before, changed, exits: StepExits::default() })
    }

    /// Becomes the capture after a step.
    ///
    /// # Errors
    /// [`SeriesError`] if the step is not of this capture. It is then neither of them.
    pub fn apply(&mut self, step: &mut Step) -> Result<Applied, SeriesError> {
        let exits = step.take_exits()?;
        if let Some(head) = step.head.take() {
            change::apply(&mut self.head, head).ok_or(SeriesError::Change)?;
        }
        let mut before = Vec::new();
        for (tgid, tid) in step.gone.drain(..) {
            before.push(self.threads.remove(&ThreadId { tgid, tid }).ok_or(SeriesError::UnknownThread)?);
        }
        let threads = std::mem::take(&mut step.threads).threads(|id| self.threads.get(&id))?;
        let changed = threads.iter().map(ThreadState::id).collect();
        before.extend(threads.into_iter().filter_map(|thread| self.threads.insert(thread.id(), thread)));
        Ok(Applied { before, changed, exits })
    }

    /// Everything but the threads.
    ///
    /// # Errors
    /// [`SeriesError::Json`] if steps have made something else of it.
    pub fn head(&self) -> Result<SnapshotHead, SeriesError> {
        Ok(SnapshotHead::deserialize(&self.head)?)
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

    /// The whole capture.
    ///
    /// # Errors
    /// As [`Moment::head`].
    pub fn capture(&self) -> Result<CtprofSnapshot, SeriesError> {
        Ok(CtprofSnapshot { head: self.head()?, threads: self.threads.values().cloned().collect() })
    }

    /// All threads.
    pub fn threads(&self) -> &BTreeMap<ThreadId, ThreadState> {
        &self.threads
    }

    /// Some of the threads.
    pub fn some_threads(&self, ids: &[ThreadId]) -> Vec<ThreadState> {
        ids.iter().filter_map(|id| self.threads.get(id)).cloned().collect()
    }
}

fn json_of(head: &SnapshotHead) -> Json {
    serde_json::to_value(head).expect("a head is JSON")
}
