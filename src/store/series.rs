//! Reads series: files of lines, and directories of such files.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::Deserializer as _;
use serde_path_to_error::Track;

use super::error::{SnapshotRefusal, StoreError};
use super::format::SnapshotReader;
use super::limit::{BYTES, ContentLimit};
use super::segments::{SeriesSegment, of_part, segments_in};
use super::series_writer::FRAME;
use super::source::{SnapshotJson, Stored};
use crate::model::{CtprofSnapshot, RecordedCommand, SnapshotHead};
use crate::process::Progress;
use crate::series::{Applied, Changes, Moment, Part, SeriesRange, Sleepers, Step, StepExits};

mod seek;

/// First bytes of the file of a series.
const START: &[u8] = br#"{"series":"#;

/// Reads a series, step by step.
pub struct StoredSeries {
    lines: BufReader<SnapshotJson>,
    file: Stored,
    /// The segments that follow.
    later: VecDeque<PathBuf>,
    /// When it began, in nanoseconds since 1970: times of parts count from then.
    start_unix_ns: u64,
    /// When the last segment of a directory ends at the latest, in nanoseconds since 1970.
    segments_end_ns: Option<u64>,
    /// Time from the start of the series to the first capture that is read, in nanoseconds: earlier segments of a directory are
    /// left out.
    skipped_ns: u64,
    /// Head of the first capture: everything but its threads.
    first: SnapshotHead,
    moment: Moment,
    /// A step that was read, and not applied yet.
    next: Option<Step>,
    /// Line of the capture in the file, if there is one.
    line: Vec<u8>,
    sleepers: Sleepers,
    /// Reasons that steps do not repeat, so far.
    repeated: u64,
    /// Bytes of the steps since what they made of the head was last counted.
    uncounted: u64,
    /// The step in which a part is, if it is less than one.
    pub whole_step: Option<String>,
    /// Segments that are left out, or end earlier than they were recorded.
    pub damaged: Vec<String>,
    /// Why it ends earlier than it was recorded, if it does: the file is damaged, or still being written.
    pub cut: Option<String>,
}

/// A capture, and the lines that follow.
type BegunSeries = (BufReader<SnapshotJson>, CtprofSnapshot);

impl Stored {
    /// The series that the file has; `None` if it has a capture or a window.
    ///
    /// # Errors
    /// As [`Stored::head`].
    pub fn series(&self) -> Result<Option<StoredSeries>, StoreError> {
        Ok(self.series_from(0)?.map(|begun| self.begun(begun)))
    }

    /// The series from the last repeated capture on that was made up to this time since boot; `None` without one. What was being
    /// written when the recorder was killed is not whole: then, all steps are read.
    fn series_before(&self, boottime_ns: u64) -> Result<Option<StoredSeries>, StoreError> {
        let byte = Some(self.last_capture(boottime_ns)?).filter(|byte| *byte > 0);
        Ok(byte.and_then(|byte| self.series_from(byte).ok()?).map(|begun| self.begun(begun)))
    }

    fn begun(&self, (lines, capture): BegunSeries) -> StoredSeries {
        let (first, moment) = (capture.head.clone(), Moment::new(capture));
        StoredSeries {
            lines,
            file: self.again(),
            later: VecDeque::new(),
            start_unix_ns: first.captured_at_unix_ns,
            segments_end_ns: None,
            skipped_ns: 0,
            first,
            moment,
            next: None,
            line: Vec::new(),
            sleepers: Sleepers::default(),
            repeated: 0,
            uncounted: 0,
            whole_step: None,
            damaged: Vec::new(),
            cut: None,
        }
    }

    /// The series in a segment of a directory; `None` without a whole first capture, as when the host lost power.
    fn segment(path: &Path, limit: u64, progress: &Arc<Progress>) -> Result<Option<StoredSeries>, StoreError> {
        use SnapshotRefusal::{NotASnapshot, Truncated};
        match Self::open(path, limit, progress).and_then(|stored| stored.series()) {
            Err(StoreError::Refused(_, NotASnapshot(_) | Truncated)) => Ok(None),
            Err(StoreError::Damaged(..) | StoreError::NotJson(..) | StoreError::WrongType(..)) => Ok(None),
            read => read,
        }
    }

    /// The capture that a series has at this byte, and the lines that follow.
    fn series_from(&self, byte: u64) -> Result<Option<BegunSeries>, StoreError> {
        let failed = |error| self.wrong(serde_json::Error::io(error), &Track::new().path());
        let mut lines = BufReader::new(self.json_from(byte, &self.progress)?);
        if !lines.fill_buf().map_err(failed)?.starts_with(START) {
            return Ok(None);
        }
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line).map_err(failed)?;
        if line.pop() != Some(b'\n') {
            return Err(self.refused(SnapshotRefusal::Truncated));
        }
        ContentLimit::new(self.limits.bytes).count(&line).map_err(|refusal| self.refused(refusal))?;
        let reader = SnapshotReader::new(self.limits.threads, self.limits.cgroups);
        let first = serde_json::Deserializer::from_slice(&line).deserialize_map(&reader);
        let first = first.map_err(|error| match reader.refusal() {
            Some(refusal) => self.refused(refusal),
            None => StoreError::WrongType(self.path.clone(), error.to_string()),
        })?;
        Ok(Some((lines, first.normalized())))
    }
}

impl StoredSeries {
    /// The series in a directory, from the segment with the start of the part on; `None` if it has no segments. Those without a
    /// whole first capture are left out.
    ///
    /// # Errors
    /// As [`Stored::open`] and [`Stored::head`], and if no segment is left.
    pub fn in_directory(
        directory: &Path,
        range: &SeriesRange,
        limit: u64,
        progress: &Arc<Progress>,
    ) -> Result<Option<Self>, StoreError> {
        let segments = segments_in(directory).map_err(|error| StoreError::Read(directory.to_owned(), error))?;
        let Some(([start_unix_ns, end_ns], of_part)) = of_part(directory, &segments, range) else { return Ok(None) };
        // Between two recordings, the step in which a part ends is that up to the next segment.
        let mut of_part = segments[of_part.start..].iter();
        let mut damaged = Vec::new();
        while let Some(segment) = of_part.next() {
            let path = directory.join(&segment.name);
            match Stored::segment(&path, limit, progress) {
                Ok(Some(series)) => {
                    let later = of_part.map(|later| directory.join(&later.name)).collect();
                    let skipped_ns = segment.unix_ns().saturating_sub(start_unix_ns);
                    let segments_end_ns = Some(end_ns);
                    return Ok(Some(Self { later, start_unix_ns, segments_end_ns, skipped_ns, damaged, ..series }));
                }
                Ok(None) => damaged.push(left_out(&path)),
                // A recorder has removed it since the directory was listed.
                Err(error) if is_gone(&error) && !path.is_symlink() => {
                    return Self::in_directory(directory, range, limit, progress);
                }
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Refused(directory.to_owned(), SnapshotRefusal::NotASnapshot("no segment is whole")))
    }

    /// Whether it loses nothing by having no step: it is whole, or this file is one of several segments.
    pub fn loses_nothing(&self, file: &Path) -> bool {
        SeriesSegment::of_path(file).is_some() || self.cut.is_none() && self.damaged.is_empty()
    }

    /// Returns remarks about a part that is longer than the requested one, or less known than the recording.
    pub fn remarks(&self, file: &str) -> Vec<String> {
        let of_file = |what: &String| format!("{file}: {what}");
        let (whole_step, cut) = (self.whole_step.iter().map(of_file), self.cut.iter().map(of_file));
        whole_step.chain(self.damaged.iter().cloned()).chain(cut).collect()
    }

    /// Returns the head of the first capture: everything but its threads.
    pub fn head(&self) -> &SnapshotHead {
        &self.first
    }

    /// Reads up to the start of a part.
    ///
    /// # Errors
    /// As [`StoredSeries::part`].
    pub fn begin(&mut self, range: &SeriesRange) -> Result<(), StoreError> {
        self.seek(range).map(drop)
    }

    /// The window of a part: between the captures that are next to its ends.
    ///
    /// # Errors
    /// [`StoreError`] as for [`Stored::head`], and if the part has no step.
    pub fn part(&mut self, range: &SeriesRange) -> Result<CtprofSnapshot, StoreError> {
        let to_ns = self.seek(range)?;
        let mut part = Part::begin(&self.moment).map_err(|error| self.wrong(&error))?;
        let mut command = None;
        while let Some((step, Applied { exits, cgroups, .. })) = self.step_before(to_ns)? {
            part.add_cgroups(&cgroups);
            part.add(exits, step.reasons.map(|reasons| *reasons));
            self.check_kept(part.kept())?;
            command = step.command;
        }
        self.end(part, command)
    }

    /// Returns the window of a part, after passing on the windows of a number of smaller parts.
    ///
    /// # Errors
    /// As [`StoredSeries::each_window`].
    pub fn part_in_parts<E: From<StoreError>>(
        &mut self,
        range: &SeriesRange,
        parts: u32,
        found: &mut dyn FnMut(CtprofSnapshot) -> Result<(), E>,
    ) -> Result<CtprofSnapshot, E> {
        let to_ns = self.seek(range)?;
        let length_ns = to_ns.min(self.last_ns()?[0]).saturating_sub(self.since_ns()).div_ceil(parts.into());
        let mut part = Part::begin(&self.moment).map_err(|error| self.wrong(&error))?;
        let mut command = None;
        let mut with_all = |mut window: CtprofSnapshot, moment: &Moment| {
            moment.add_unchanged(&mut window);
            found(window)
        };
        self.each_window_to(to_ns, length_ns.max(1), &mut with_all, &mut |step, applied| {
            part.add_cgroups(&applied.cgroups);
            part.add(applied.exits.clone(), step.reasons.as_deref().cloned());
            command.clone_from(&step.command);
            part.kept()
        })?;
        Ok(self.end(part, command)?)
    }

    /// Passes on the windows of the steps of a part, with the threads that changed, and the captures at their ends.
    ///
    /// # Errors
    /// The errors of [`StoredSeries::part`], and the errors that `found` returns.
    pub fn each_window<E: From<StoreError>>(
        &mut self,
        range: &SeriesRange,
        found: &mut dyn FnMut(CtprofSnapshot, &Moment) -> Result<(), E>,
    ) -> Result<(), E> {
        let to_ns = self.seek(range)?;
        self.each_window_to(to_ns, 0, found, &mut |_, _| 0)
    }

    /// Passes on the windows of the steps of a part that are between two times, with the begin and the end of each window. All times are
    /// in nanoseconds since boot. The windows have all threads.
    ///
    /// # Errors
    /// As [`StoredSeries::each_window`].
    pub fn each_window_between<E: From<StoreError>>(
        &mut self,
        range: &SeriesRange,
        times: [u64; 2],
        found: &mut dyn FnMut(CtprofSnapshot, [u64; 2]) -> Result<(), E>,
    ) -> Result<(), E> {
        let end_ns = self.seek(range)?;
        let first_ns = self.first_ns();
        let [from_ns, to_ns] = times.map(|time| time.saturating_sub(first_ns));
        if to_ns <= self.since_ns() {
            return Ok(());
        }
        if from_ns > self.since_ns() {
            self.skip_to([from_ns, to_ns])?;
        }
        let to_ns = to_ns.max(self.middle_ns()?.unwrap_or(0)).min(end_ns);
        let mut begin_ns = self.moment.boottime_ns().unwrap_or(0);
        let mut with_all = |mut window: CtprofSnapshot, moment: &Moment| {
            moment.add_unchanged(&mut window);
            let end_ns = moment.boottime_ns().unwrap_or(0);
            found(window, [std::mem::replace(&mut begin_ns, end_ns), end_ns])
        };
        self.each_window_to(to_ns, 0, &mut with_all, &mut |_, _| 0)
    }

    /// The windows of steps in the same `length_ns` are one, unless that is 0. `each_step` returns how much it keeps, as [`Part::kept`].
    fn each_window_to<E: From<StoreError>>(
        &mut self,
        to_ns: u64,
        length_ns: u64,
        found: &mut dyn FnMut(CtprofSnapshot, &Moment) -> Result<(), E>,
        each_step: &mut dyn FnMut(&Step, &Applied) -> usize,
    ) -> Result<(), E> {
        let from_ns = self.since_ns();
        let mut earlier = self.head_with(&Changes::default())?;
        let mut changes = Changes::default();
        let place = |middle_ns: Option<u64>| middle_ns?.saturating_sub(from_ns).checked_div(length_ns);
        let mut middle_ns = self.middle_ns()?;
        while let Some((step, applied)) = self.step_before(to_ns)? {
            let kept = each_step(&step, &applied);
            changes.add(step, applied);
            self.check_kept(kept.max(changes.kept()))?;
            let before = std::mem::replace(&mut middle_ns, self.middle_ns()?.filter(|next_ns| *next_ns <= to_ns));
            if place(middle_ns).is_some_and(|next| Some(next) == place(before)) {
                continue;
            }
            let mut head = self.head_with(&changes)?;
            let cgroup_stats = std::mem::take(&mut head.cgroup_stats);
            let before = std::mem::replace(&mut earlier, head.clone());
            let threads = self.moment.some_threads(&changes.ids());
            let later = CtprofSnapshot { head: SnapshotHead { cgroup_stats, ..head }, threads };
            let window = std::mem::take(&mut changes).window(before, later);
            found(window.map_err(|error| self.wrong(&error))?, &self.moment)?;
        }
        self.finish_frame();
        Ok(())
    }

    /// Returns the head of the capture, with the values of the cgroups that changed.
    fn head_with(&mut self, changes: &Changes) -> Result<SnapshotHead, StoreError> {
        let head = self.moment.head_with(changes.cgroups());
        head.map_err(|error| self.wrong(&error))
    }

    /// Ends a part with the last capture that was read.
    fn end(&mut self, part: Part, command: Option<RecordedCommand>) -> Result<CtprofSnapshot, StoreError> {
        self.finish_frame();
        let later = self.moment.capture().map_err(|error| self.wrong(&error))?;
        part.end_with_all(later, command).map_err(|error| self.wrong(&error))
    }

    fn wrong(&self, error: &dyn std::fmt::Display) -> StoreError {
        let after = Duration::from_nanos(self.since_ns());
        StoreError::WrongType(self.file.path.clone(), format!("step after {after:?}: {error}"))
    }

    fn boottime_ns(&self) -> u64 {
        self.moment.boottime_ns().unwrap_or(0)
    }

    /// Time since boot at the first capture that is read.
    fn first_ns(&self) -> u64 {
        self.first.boottime_ns().unwrap_or(0)
    }

    /// The middle of the next step, in nanoseconds since the start.
    fn middle_ns(&mut self) -> Result<Option<u64>, StoreError> {
        if self.next.is_none() {
            self.next = self.read_step()?;
        }
        Ok(self.next.as_ref().map(|next| self.since_ns().saturating_add(next.length_ns().unwrap_or(0) / 2)))
    }

    /// The end of the next step, in nanoseconds since the start.
    fn next_ns(&self) -> u64 {
        self.since_ns().saturating_add(self.next.as_ref().and_then(Step::length_ns).unwrap_or(0))
    }

    fn since_ns(&self) -> u64 {
        self.boottime_ns().saturating_sub(self.first_ns())
    }

    /// Applies the next step.
    fn step(&mut self) -> Result<Option<(Step, Applied)>, StoreError> {
        let Some(mut step) = self.next.take() else { return Ok(None) };
        let applied = self.moment.apply(&mut step).map_err(|error| self.wrong(&error))?;
        let limits = self.file.limits;
        self.check(self.moment.threads().len(), limits.threads, "threads")?;
        self.check(self.moment.entries(), limits.cgroups, "cgroups")?;
        self.uncounted = self.uncounted.saturating_add(u64::try_from(self.line.len()).unwrap_or(u64::MAX));
        // To count after each step would take longer than to apply it.
        if self.uncounted > limits.bytes / 64 {
            let counted = ContentLimit::new(limits.bytes).count(&self.moment.head_json());
            counted.map_err(|refusal| self.file.refused(refusal))?;
            self.uncounted = 0;
        }
        Ok(Some((step, applied)))
    }

    /// Refuses what takes too much memory.
    fn check(&self, number: usize, max: usize, what: &'static str) -> Result<(), StoreError> {
        if number > max { Err(self.file.refused(SnapshotRefusal::too_large(max, what))) } else { Ok(()) }
    }

    /// Limits what is kept of the steps of a part: each entry takes no more memory than a thread.
    fn check_kept(&self, kept: usize) -> Result<(), StoreError> {
        self.check(kept, self.file.limits.threads, "records of exits and reasons")
    }

    /// Reads to the end of the frame with the last step of a part: damage shows only there.
    fn finish_frame(&mut self) {
        let mut length = Duration::ZERO;
        while self.cut.is_none() && length <= FRAME && !self.line.starts_with(START) {
            self.line.clear();
            match self.lines.read_until(b'\n', &mut self.line) {
                Ok(1..) => {}
                Err(error) if error.kind() == ErrorKind::Other => self.cut = Some(damage(&error)),
                // What is still being written has not ended yet.
                _ => return,
            }
            let step = serde_json::from_slice::<Step>(&self.line).ok();
            length += Duration::from_nanos(step.and_then(|step| step.length_ns()).unwrap_or(0));
        }
    }

    /// The next step; `None` after the last whole one.
    fn read_step(&mut self) -> Result<Option<Step>, StoreError> {
        // Where a capture is repeated, it is the one after the step before.
        while !self.read_line()? || self.line.starts_with(START) {
            if !self.line.is_empty() {
                self.sleepers = Sleepers::default();
                continue;
            }
            let Some(path) = self.later.pop_front() else { return Ok(None) };
            if let Some(gap) = self.continue_with(&path)? {
                return Ok(Some(gap));
            }
        }
        let counted = ContentLimit::of_step(self.file.limits.bytes).count(&self.line);
        counted.map_err(|refusal| self.file.refused(refusal))?;
        let mut step: Step = serde_json::from_slice(&self.line).map_err(|error| self.wrong(&error))?;
        let repeated = u64::try_from(step.restore_reasons(&mut self.sleepers)).unwrap_or(u64::MAX);
        self.repeated = self.repeated.saturating_add(repeated);
        // A small file must not take long.
        if self.repeated > self.file.limits.bytes {
            return Err(self.file.refused(SnapshotRefusal::TooLarge(self.file.limits.bytes, "repeated reasons")));
        }
        Ok(Some(step))
    }

    /// Reads on in another segment. If that begins with a later capture, because the recorder was started again, this is a step
    /// without records of exits.
    fn continue_with(&mut self, path: &Path) -> Result<Option<Step>, StoreError> {
        self.repeated = 0;
        let cut = self.cut.take().map(|why| format!("{}: {why}", self.file.path.display()));
        self.damaged.extend(cut);
        let next = match Stored::segment(path, self.file.limits.bytes, &Arc::default()) {
            Ok(Some(next)) => next,
            // A recorder has removed it since the directory was listed.
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
            Ok(None) => {
                self.damaged.push(left_out(path));
                return Ok(None);
            }
        };
        (self.lines, self.file, self.sleepers) = (next.lines, next.file, Sleepers::default());
        if next.moment.boottime_ns() == self.moment.boottime_ns() {
            return Ok(None);
        }
        let first = next.moment.capture().map_err(|error| self.wrong(&error))?;
        Ok(Some(self.moment.clone().advance(first, &StepExits::default()).0))
    }

    /// Reads the next whole line; without one, the line is empty.
    fn read_line(&mut self) -> Result<bool, StoreError> {
        self.line.clear();
        if self.cut.is_some() {
            return Ok(false);
        }
        match self.lines.read_until(b'\n', &mut self.line) {
            Ok(0) => return Ok(false),
            Ok(_) if !self.line.ends_with(b"\n") => self.cut = Some("the last step is not whole".to_owned()),
            Ok(_) => return Ok(true),
            Err(error) if error.raw_os_error().is_some() => {
                return Err(StoreError::Read(self.file.path.clone(), error));
            }
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                return Err(self.file.refused(SnapshotRefusal::TooLarge(self.file.limits.bytes, BYTES)));
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.cut = Some("it is still being written, or its recorder was killed or had a full disk".to_owned());
            }
            Err(error) => self.cut = Some(damage(&error)),
        }
        self.line.clear();
        Ok(false)
    }
}

fn damage(error: &std::io::Error) -> String {
    format!("it is damaged: {error}")
}

fn left_out(segment: &Path) -> String {
    format!("{} is left out: it has no whole capture", segment.display())
}

fn is_gone(error: &StoreError) -> bool {
    matches!(error, StoreError::Read(_, error) if error.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
