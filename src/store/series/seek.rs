//! Finds the places in a series where its parts begin and end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::super::error::StoreError;
use super::super::segments::SeriesSegment;
use super::super::source::Stored;
use super::StoredSeries;
use crate::series::{Applied, PartEnd, SeriesRange, Sleepers, Step};

impl StoredSeries {
    /// Reads up to the capture that is nearest to the start of a part, and returns the end of the part, which has a step.
    pub(super) fn seek(&mut self, range: &SeriesRange) -> Result<u64, StoreError> {
        let end_ns = match self.segments_end_ns {
            Some(end_ns) => end_ns,
            None if range.has_time_of_day() => self.last_ns()?[1],
            None => u64::MAX,
        };
        // A directory is read from the segment with the start of the part.
        let skipped_ns = self.skipped_ns;
        let since = |end| match end {
            PartEnd::Since(since_ns) => Ok(since_ns.saturating_sub(skipped_ns)),
            PartEnd::Shown(unix_ns) => self.shown_at(unix_ns),
        };
        let [from, to] = range.ends([self.start_unix_ns, end_ns]);
        let (from_ns, to_ns) = (since(from)?, since(to)?);
        if from_ns >= to_ns {
            return Err(self.no_such_part(range));
        }
        self.skip_to([from_ns, to_ns])?;
        let Some(middle_ns) = self.middle_ns()? else { return Err(self.no_such_part(range)) };
        let step_ns = self.next_ns().saturating_sub(self.since_ns());
        // Steps differ a little from the length that was asked for, and so do parts of that length.
        let is_shorter = to_ns.saturating_sub(from_ns) < step_ns - step_ns / 10;
        if is_shorter || middle_ns <= from_ns || middle_ns > to_ns {
            let seconds = |ns: u64| Duration::from_nanos(ns.saturating_add(skipped_ns)).as_secs_f64();
            let [begin, end] = [self.since_ns(), self.next_ns()].map(seconds);
            self.whole_step =
                Some(format!("{range} is less than a step; the whole step {begin:.1}s..{end:.1}s is shown"));
        }
        Ok(to_ns.max(middle_ns))
    }

    pub(super) fn no_such_part(&self, range: &SeriesRange) -> StoreError {
        let path = self.file.path.clone();
        match self.last_ns() {
            Ok([0, _]) if self.skipped_ns == 0 => StoreError::NoStep(path),
            Ok([last_ns, shown_ns]) => {
                let end_ns = self.start_unix_ns.saturating_add(self.skipped_ns).saturating_add(last_ns);
                StoreError::NoSuchPart(path, range.clone(), [self.start_unix_ns, end_ns, shown_ns])
            }
            Err(error) => error,
        }
    }

    /// When the clock showed a time, in nanoseconds since the first capture that is read. Between two captures, it goes on as after the
    /// first one, but not beyond the second one, up to which it may have been set.
    fn shown_at(&self, unix_ns: u64) -> Result<u64, StoreError> {
        let Some(mut at) = self.capture_before(unix_ns)? else { return Ok(0) };
        if at.start_unix_ns > unix_ns {
            // The clock shows that only if it was set back. It was as at the end.
            let [last_ns, last_unix_ns] = self.last_ns()?;
            return Ok(last_ns.saturating_sub(last_unix_ns.saturating_sub(unix_ns)));
        }
        while at.middle_ns()?.is_some() && at.is_shown_later(unix_ns) {
            at.step()?;
        }
        let length_ns = at.next.as_ref().and_then(Step::length_ns).unwrap_or(u64::MAX);
        let boottime_ns = at.boottime_when(unix_ns).min(at.boottime_ns().saturating_add(length_ns));
        Ok(boottime_ns.saturating_sub(self.first_ns()))
    }

    /// The series from a capture on that was made before the clock showed a time, and not long before.
    fn capture_before(&self, unix_ns: u64) -> Result<Option<StoredSeries>, StoreError> {
        /// Enough for a clock that was set so many times.
        const GUESSES: usize = 8;
        let Some(mut at) = self.file.series()? else { return Ok(None) };
        at.later.clone_from(&self.later);
        // Names of segments are never earlier than the clock: one with such a name had begun by then.
        let has_begun = |path: &PathBuf| SeriesSegment::of_path(path).is_some_and(|begun| begun.unix_ns() <= unix_ns);
        if let Some(place) = at.later.iter().rposition(has_begun)
            && let Some(begun) = self.segment(&at.later[place])
        {
            at = StoredSeries { later: at.later.split_off(place + 1), ..begun };
        }
        while let Some(path) = at.later.pop_front() {
            let is_later =
                |next: &Self| next.start_unix_ns <= unix_ns && next.boottime_ns() <= at.boottime_when(unix_ns);
            match self.segment(&path).filter(is_later) {
                Some(next) => at = StoredSeries { later: at.later, ..next },
                None => {
                    at.later.push_front(path);
                    break;
                }
            }
        }
        // If the clock was never set, the time since boot follows from the first capture, else from a later one.
        let mut guess_ns = at.boottime_when(unix_ns);
        for _ in 0..GUESSES {
            let Some(found) = at.file.series_before(guess_ns)? else { break };
            let is_again = found.boottime_ns() == at.boottime_ns();
            guess_ns = found.boottime_when(unix_ns);
            if found.start_unix_ns <= unix_ns {
                at = StoredSeries { later: at.later, ..found };
            }
            if is_again {
                break;
            }
        }
        Ok(Some(at))
    }

    /// The time since boot when the clock shows a time, if it is not set after the last capture that was read.
    fn boottime_when(&self, unix_ns: u64) -> u64 {
        let shown_ns = self.moment.unix_ns().unwrap_or(0);
        let later_ns = self.boottime_ns().saturating_add(unix_ns.saturating_sub(shown_ns));
        later_ns.saturating_sub(shown_ns.saturating_sub(unix_ns))
    }

    /// Whether the clock shows a time neither in the next step nor in one before, as it was then.
    fn is_shown_later(&self, unix_ns: u64) -> bool {
        self.next.as_ref().is_some_and(|next| {
            let end_ns = self.boottime_ns().saturating_add(next.length_ns().unwrap_or(0));
            let shown_ns = self.moment.unix_ns().unwrap_or(0).saturating_add_signed(next.clock_ns().unwrap_or(0));
            shown_ns <= unix_ns && end_ns <= self.boottime_when(unix_ns)
        })
    }

    /// Reads up to the capture that is nearest to the start of a part, or before the step that has all of the part.
    pub(super) fn skip_to(&mut self, [from_ns, to_ns]: [u64; 2]) -> Result<(), StoreError> {
        let boottime_ns = self.first_ns().saturating_add(from_ns);
        if from_ns > 0
            && let Some(begun) = self.file.series_before(boottime_ns)?
        {
            (self.lines, self.moment, self.next) = (begun.lines, begun.moment, None);
            self.sleepers = Sleepers::default();
        }
        while self.middle_ns()?.is_some() && self.next_ns() < to_ns && self.step_before(from_ns)?.is_some() {}
        Ok(())
    }

    /// The next step, if the capture after it is nearer to this time than the one before.
    pub(super) fn step_before(&mut self, to_ns: u64) -> Result<Option<(Step, Applied)>, StoreError> {
        if self.middle_ns()?.is_some_and(|middle_ns| middle_ns <= to_ns) { self.step() } else { Ok(None) }
    }

    /// When the series ends, in nanoseconds since its start, and since 1970.
    pub(super) fn last_ns(&self) -> Result<[u64; 2], StoreError> {
        let file = self
            .later
            .iter()
            .rev()
            .find_map(|path| self.segment(path))
            .map_or_else(|| self.file.again(), |last| last.file);
        let last = file.series_before(u64::MAX)?.map_or_else(|| file.series(), |last| Ok(Some(last)));
        let Some(mut last) = last? else { return Ok([0, self.start_unix_ns]) };
        while last.step_before(u64::MAX)?.is_some() {}
        let since_ns = last.boottime_ns().saturating_sub(self.first_ns());
        Ok([since_ns, last.moment.unix_ns().unwrap_or(0)])
    }

    /// A later segment from its first capture on, if it can be read.
    fn segment(&self, path: &Path) -> Option<StoredSeries> {
        Stored::segment(path, self.file.limits.bytes, &Arc::default()).ok().flatten()
    }
}
