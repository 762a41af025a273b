//! A part of a series: the window between two of its captures.

use std::collections::{BTreeMap, BTreeSet};

use super::error::SeriesError;
use super::moment::Moment;
use super::step::StepExits;
use crate::model::{
    CgroupStats, CtprofSnapshot, ExitRecords, ExitedThread, ReasonSums, Reasons, RecordedCommand, SnapshotHead,
    ThreadState,
};
use crate::window::{self, EarlierThreads, Exits, FoldedExits, NoWindow, Recording};

/// The values of a cgroup take as much memory as so many threads.
const THREADS_PER_CGROUP: usize = 4;

/// A part of a series that has begun.
pub struct Part {
    earlier: SnapshotHead,
    threads: EarlierThreads,
    records: Option<ExitRecords>,
    folded: FoldedExits,
    /// Threads that were there when it began.
    each: Vec<ExitedThread>,
    /// Programs that processes left by execve(2), by process id and start in ticks, of processes that have not exited since.
    left: BTreeMap<(u32, Option<u64>), Vec<ExitedThread>>,
    pub(super) reasons: Option<ReasonSums>,
    /// Cgroups that were first read at the end of the last step that was added.
    new_cgroups: BTreeMap<String, CgroupStats>,
    /// Paths of those that are not in the capture with which it began.
    came: BTreeSet<String>,
    /// The last values of cgroups that were removed.
    removed: BTreeMap<String, CgroupStats>,
}

impl Part {
    /// Begins with a capture.
    ///
    /// # Errors
    /// As [`Moment::head`].
    pub fn begin(moment: &Moment) -> Result<Self, SeriesError> {
        Ok(Self::with(moment.head()?, moment.threads().values().cloned()))
    }

    /// Begins with some threads of a capture, in any order.
    pub fn with(earlier: SnapshotHead, threads: impl IntoIterator<Item = ThreadState>) -> Self {
        let mut threads: Vec<_> = threads.into_iter().collect();
        threads.sort_by_key(ThreadState::id);
        Self {
            earlier,
            threads: EarlierThreads::of_threads(threads),
            records: None,
            folded: FoldedExits::default(),
            each: Vec::new(),
            left: BTreeMap::new(),
            reasons: None,
            new_cgroups: BTreeMap::new(),
            came: BTreeSet::new(),
            removed: BTreeMap::new(),
        }
    }

    /// Adds the cgroups that a step changed, as they were before and after it. What a cgroup did before it was first read, and
    /// after it was last read, is unknown.
    pub fn add_cgroups(&mut self, changed: &BTreeMap<String, [Option<CgroupStats>; 2]>) {
        for (path, first) in std::mem::take(&mut self.new_cgroups) {
            let known = self.earlier.cgroup_stats.entry(path.clone()).or_default();
            if known.has_no_values() {
                *known = first;
                self.came.insert(path);
            }
        }
        for (path, ends) in changed {
            match ends.each_ref().map(|stats| stats.as_ref().filter(|stats| !stats.has_no_values())) {
                [None, Some(first)] => drop(self.new_cgroups.insert(path.clone(), first.clone())),
                [Some(last), None] if self.earlier.cgroup_stats.get(path) != Some(last) => {
                    self.removed.insert(path.clone(), last.clone());
                }
                _ => {}
            }
        }
    }

    /// Adds what exited in a step, and why its threads waited.
    pub fn add(&mut self, exits: StepExits, reasons: Option<Reasons>) {
        let StepExits { records, each, folded, impossible_delays } = exits;
        if let Some(more) = records {
            let all = self.records.get_or_insert_default();
            all.source = more.source;
            all.received = all.received.saturating_add(more.received);
            all.lost = all.lost.saturating_add(more.lost);
            all.not_run = all.not_run.saturating_add(more.not_run);
            all.execs_lost = all.execs_lost.saturating_add(more.execs_lost);
        }
        self.folded.impossible_delays = self.folded.impossible_delays.saturating_add(impossible_delays);
        folded.into_iter().for_each(|(tgid, part, row)| self.folded.add_row(tgid, part, row));
        let capture = self.earlier.capture.as_ref();
        let read_ns = capture.and_then(|capture| capture.monotonic_ns?.checked_add(capture.walk_ns?));
        let read_ns = read_ns.unwrap_or(u64::MAX);
        for exit in each {
            let process = (exit.state.tgid, exit.state.start_time_clock_ticks);
            if exit.executed {
                self.left.entry(process).or_default().push(exit);
                continue;
            }
            // Only names are left of threads that started in the part: they can be many. The capture can have those that
            // started while it was made.
            let is_new = exit.started_monotonic_ns >= read_ns && exit.replaced_by.is_none();
            let left = self.left.get(&process);
            let is_of_first = left.is_none_or(|left| left.iter().all(|left| left.state.is_leader()));
            if is_new && is_of_first {
                let left = exit.state.is_leader().then(|| self.left.remove(&process)).flatten().unwrap_or_default();
                self.folded.add_after(left, exit);
            } else {
                self.each.push(exit);
            }
        }
        if let Some(reasons) = reasons {
            self.reasons.get_or_insert_default().add(reasons);
        }
    }

    /// The number of records of exits and of programs that were left, and of reasons and what has them, that are kept.
    pub fn kept(&self) -> usize {
        let left: usize = self.left.values().map(Vec::len).sum();
        let cgroups = THREADS_PER_CGROUP * (self.came.len() + self.removed.len());
        self.each.len() + left + self.folded.rows + cgroups + self.reasons.as_ref().map_or(0, ReasonSums::entries)
    }

    /// Ends with a later capture: the window between both.
    ///
    /// # Errors
    /// [`NoWindow`] if the captures are not of one boot.
    pub fn end(
        self,
        mut later: CtprofSnapshot,
        command: Option<RecordedCommand>,
        requested_ns: Option<u64>,
    ) -> Result<CtprofSnapshot, NoWindow> {
        let Self { earlier, threads, records, folded, mut each, left, reasons, new_cgroups: _, came, removed } = self;
        let cgroups = &mut later.head.cgroup_stats;
        for (path, last) in removed {
            let known = cgroups.entry(path).or_default();
            if known.has_no_values() {
                *known = last.removed();
            }
        }
        cgroups.iter_mut().for_each(|(path, stats)| stats.partial |= came.contains(path));
        each.extend(left.into_values().flatten());
        let for_each = |add: &mut dyn FnMut(ExitedThread)| each.iter().cloned().for_each(add);
        let exits = Exits { summary: records, each: Some(&for_each), folded, cgroup: None };
        let recorder = earlier.series.as_ref().map(|series| series.recorder);
        let recording = Recording { exits, recorder, command, requested_ns };
        let mut window = window::recorded(&earlier, threads, later, recording)?;
        window.head.series = None;
        window.head.reasons = reasons.map(|sums| Box::new(sums.finish()));
        window::leave_out_lost(&mut window);
        Ok(window)
    }

    /// Returns the window that a capture of all threads ends.
    ///
    /// # Errors
    /// [`NoWindow`] if the captures are not of one boot.
    pub fn end_with_all(
        self,
        later: CtprofSnapshot,
        command: Option<RecordedCommand>,
    ) -> Result<CtprofSnapshot, NoWindow> {
        let mut window = self.end(later, command, None)?;
        window::leave_out_unlisted(&mut window);
        Ok(window)
    }
}
