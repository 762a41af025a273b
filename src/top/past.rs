//! Windows of the past: in the file of a series, or in memory, where the last ten minutes are kept as such a file has them.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::model::CtprofSnapshot;
use crate::series::{Moment, SeriesRange, Step};
use crate::store::{Input, OutputTarget, PartPath, SeriesWriter, StoreError};

const NAME: &CStr = c"ctprof-top";
/// A segment ends when it is older or larger.
const LONGEST_NS: u64 = 5 * 60 * 1_000_000_000;
const LARGEST: u64 = 16 << 20;
/// Two whole segments are kept beside the one that is being written: ten minutes, and 48 MiB.
const MOST_SEGMENTS: usize = 3;

/// A window, and when it begins and ends.
#[cfg_attr(test, derive(Clone))]
pub(super) struct TimedWindow {
    pub(super) window: CtprofSnapshot,
    /// In nanoseconds since boot, by a clock that nobody sets and that goes on while the host sleeps.
    pub(super) times: [u64; 2],
}

/// Where windows of the past are.
pub(super) enum Past {
    File(PartPath),
    Memory(PastSegments),
}

/// The last minutes of a series that is being recorded.
pub(super) struct PastSegments {
    segments: VecDeque<PastSegment>,
    /// Writer of the last segment: it takes more memory than its output.
    writer: SeriesWriter,
    limit: u64,
}

struct PastSegment {
    /// File of the segment, kept open: its path goes through the descriptor.
    file: File,
    /// Begin of the segment, in nanoseconds since boot.
    began_ns: u64,
}

/// Why windows are read no further.
enum NoMore {
    Enough,
    Failed(StoreError),
}

impl From<StoreError> for NoMore {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl PastSegments {
    pub(super) fn begin(first: &CtprofSnapshot, limit: u64) -> Result<Self, StoreError> {
        let (segment, writer) = PastSegment::begin(first, limit)?;
        Ok(Self { segments: [segment].into(), writer, limit })
    }

    /// Adds a step, after which the host is as at this moment.
    pub(super) fn add(&mut self, step: Step, moment: &Moment) -> Result<(), StoreError> {
        let Some(last) = self.segments.back() else { return Ok(()) };
        self.writer.add(step, moment)?;
        let is_long = moment.boottime_ns().unwrap_or(0).saturating_sub(last.began_ns) >= LONGEST_NS;
        if is_long || last.file.metadata().is_ok_and(|file| file.len() >= LARGEST) {
            let failed = |error| StoreError::Write(path(&last.file), std::io::Error::other(error));
            let first = moment.capture().map_err(failed)?;
            let (segment, writer) = PastSegment::begin(&first, self.limit)?;
            std::mem::replace(&mut self.writer, writer).finish()?;
            self.segments.push_back(segment);
            if self.segments.len() > MOST_SEGMENTS {
                self.segments.pop_front();
            }
        }
        Ok(())
    }
}

impl PastSegment {
    fn begin(first: &CtprofSnapshot, limit: u64) -> Result<(Self, SeriesWriter), StoreError> {
        let file = memfd_create(NAME, MFdFlags::MFD_CLOEXEC);
        let file =
            File::from(file.map_err(|errno| StoreError::Write(NAME.to_string_lossy().as_ref().into(), errno.into()))?);
        let writer = SeriesWriter::create(OutputTarget::create(&path(&file))?, first, limit)?;
        Ok((Self { file, began_ns: first.head.boottime_ns().unwrap_or(0) }, writer))
    }
}

/// The path by which this process can open a file again.
fn path(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

impl Past {
    /// The window after this one: the next one that is left, where a recorder has removed what followed.
    pub(super) fn after(&self, window: &TimedWindow, limit: u64) -> Result<Option<TimedWindow>, StoreError> {
        let [_, end_ns] = window.times;
        let until = |to_ns| first_of(|take| self.each(window, [end_ns, to_ns], limit, take));
        until(end_ns.saturating_add(1))?.map_or_else(|| until(u64::MAX), |next| Ok(Some(next)))
    }

    /// The window before this one.
    pub(super) fn before(&self, window: &TimedWindow, limit: u64) -> Result<Option<TimedWindow>, StoreError> {
        let [begin_ns, _] = window.times;
        first_of(|take| self.each(window, [begin_ns.saturating_sub(1), begin_ns], limit, take))
    }

    /// The first window of the part that the path of a file names.
    pub(super) fn first(&self, limit: u64) -> Result<Option<TimedWindow>, StoreError> {
        let Self::File(part) = self else { return Ok(None) };
        first_of(|take| each_window(part, part.range.as_ref(), [0, u64::MAX], limit, take))
    }

    /// Passes on the windows between two `times`, in nanoseconds since boot. The first of these times is not after the window `known`
    /// ends.
    pub(super) fn each(
        &self,
        known: &TimedWindow,
        times: [u64; 2],
        limit: u64,
        found: &mut dyn FnMut(TimedWindow) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        match self {
            Self::File(PartPath { file, range }) => {
                // Segments of a directory are found by the time at which they begin, in whole milliseconds.
                let started_ns = known.window.head.window.as_ref().map_or(0, |window| window.started_at_unix_ns);
                let near_ns = started_ns.saturating_sub(known.times[0].saturating_sub(times[0]) + 1_000_000);
                let near = Timestamp::from_nanosecond(near_ns.into()).unwrap_or(Timestamp::MAX);
                let near = PartPath { file: file.clone(), range: format!("{near}..").parse().ok() };
                each_window(&near, range.as_ref(), times, limit, found)
            }
            Self::Memory(PastSegments { segments, .. }) => {
                let begun = segments.iter().rposition(|segment| segment.began_ns <= times[0]).unwrap_or(0);
                for segment in segments.iter().skip(begun).filter(|segment| segment.began_ns < times[1]) {
                    each_window(&PartPath { file: path(&segment.file), range: None }, None, times, limit, found)?;
                }
                Ok(())
            }
        }
    }
}

/// The first window that `each` passes on.
fn first_of(
    each: impl FnOnce(&mut dyn FnMut(TimedWindow) -> ControlFlow<()>) -> Result<(), StoreError>,
) -> Result<Option<TimedWindow>, StoreError> {
    let mut found = None;
    each(&mut |window| {
        found = Some(window);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Passes on the windows of a part that are between two times. A directory is read from the segment with the start of `path` on.
fn each_window(
    path: &PartPath,
    part: Option<&SeriesRange>,
    times: [u64; 2],
    limit: u64,
    found: &mut dyn FnMut(TimedWindow) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let Input::Series(mut series) = path.open(limit, &Arc::default())? else {
        return Err(StoreError::NotASeries(path.file.clone()));
    };
    let mut pass_on = |window, times| {
        if found(TimedWindow { window, times }).is_break() { Err(NoMore::Enough) } else { Ok(()) }
    };
    match series.each_window_between(part.unwrap_or(&SeriesRange::default()), times, &mut pass_on) {
        Ok(()) | Err(NoMore::Enough | NoMore::Failed(StoreError::NoSuchPart(..) | StoreError::NoStep(_))) => Ok(()),
        Err(NoMore::Failed(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{CaptureInfo, HostContext, SERIES_FORMAT_VERSION, SeriesInfo, SnapshotHead, ThreadState};
    use crate::series::StepExits;
    use crate::store::{Keep, SegmentWriter, segments_in};

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 1_790_000_000 * SECOND;

    const LIMIT: u64 = 1 << 20;

    /// A host with a thread that runs a second in each second.
    fn capture(second: u64) -> CtprofSnapshot {
        capture_by_clocks([second; 3])
    }

    /// A host when its clocks have these seconds: the one that stands while it sleeps, the one since boot, and the one that can be set.
    fn capture_by_clocks([awake, second, set]: [u64; 3]) -> CtprofSnapshot {
        let [monotonic_ns, boottime_ns] = [awake, second].map(|second| Some(second * SECOND));
        let head = SnapshotHead {
            series: Some(SeriesInfo::default()),
            format_version: Some(SERIES_FORMAT_VERSION),
            captured_at_unix_ns: START + set * SECOND,
            capture: Some(CaptureInfo { monotonic_ns, boottime_ns, ..CaptureInfo::default() }),
            host: Some(HostContext { boot_id: Some("b".to_owned()), ..HostContext::default() }),
            ..SnapshotHead::default()
        };
        let mut thread = ThreadState { tid: 1, tgid: 1, start_time_clock_ticks: Some(0), ..ThreadState::default() };
        thread.metrics.run_time_ns = Some((second * SECOND).into());
        CtprofSnapshot { head, threads: vec![thread] }
    }

    /// The seconds since boot at which windows end, from this one on, until there is none.
    fn ends(first: TimedWindow, next: impl Fn(&TimedWindow) -> Option<TimedWindow>) -> Vec<u64> {
        let windows = std::iter::successors(Some(first), next).take(100);
        windows.map(|window| window.times[1] / SECOND).collect()
    }

    /// Whether both ways lead over all windows that end in these seconds, from the first one on.
    fn goes_both_ways(past: &Past, first: TimedWindow, seconds: &[u64]) {
        let after = |window: &TimedWindow| past.after(window, LIMIT).unwrap();
        let before = |window: &TimedWindow| past.before(window, LIMIT).unwrap();
        assert_eq!(ends(first.clone(), after), seconds);
        let last = std::iter::successors(Some(first), after).take(100).last().unwrap();
        assert_eq!(ends(last, before), seconds.iter().rev().copied().collect::<Vec<_>>());
    }

    #[test]
    fn each_window_is_passed_once_whether_the_clock_was_set_or_the_host_slept() {
        for clocks in [
            [[1, 1, 1], [3, 3, 3], [5, 65, 65], [7, 67, 67], [9, 69, 69]],
            [[1, 1, 1], [3, 3, 3], [5, 5, 9], [7, 7, 11], [9, 9, 13]],
            [[1, 1, 9], [3, 3, 11], [5, 5, 6], [7, 7, 8], [9, 9, 10]],
        ] {
            let dir = tempfile::tempdir().unwrap();
            let (file, first) = (dir.path().join("series"), capture_by_clocks(clocks[0]));
            let mut stored = SeriesWriter::create(OutputTarget::create(&file).unwrap(), &first, LIMIT).unwrap();
            let directory = dir.path().join("directory");
            let keep = Keep::Time(Duration::from_secs(60));
            let mut flight = SegmentWriter::create(&directory, keep, LIMIT, &first).unwrap();
            let mut segments = PastSegments::begin(&first, LIMIT).unwrap();
            let mut moment = Moment::new(first);
            for clocks in &clocks[1..] {
                let before = moment.clone();
                moment.advance(capture_by_clocks(*clocks), &StepExits::default());
                let step = || before.clone().advance(capture_by_clocks(*clocks), &StepExits::default()).0;
                segments.add(step(), &moment).unwrap();
                stored.add(step(), &moment).unwrap();
                flight.add(step(), &moment).unwrap();
            }
            stored.finish().unwrap();
            flight.finish().unwrap();
            assert!(segments_in(&directory).unwrap().len() > 1);
            let [file, directory] = [file, directory].map(|file| Past::File(PartPath { file, range: None }));
            let seconds: Vec<_> = clocks[1..].iter().map(|[_, second, _]| *second).collect();
            let first = file.first(LIMIT).unwrap().unwrap();
            goes_both_ways(&file, first.clone(), &seconds);
            goes_both_ways(&directory, first.clone(), &seconds);
            goes_both_ways(&Past::Memory(segments), first, &seconds);
        }
    }

    #[test]
    fn nothing_outside_of_a_part_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("series");
        let mut moment = Moment::new(capture(100));
        let mut file = SeriesWriter::create(OutputTarget::create(&path).unwrap(), &capture(100), LIMIT).unwrap();
        for second in 101..120 {
            let step = moment.advance(capture(second), &StepExits::default()).0;
            file.add(step, &moment).unwrap();
        }
        file.finish().unwrap();
        let part = Past::File(PartPath { file: path, range: "4s..8s".parse().ok() });
        goes_both_ways(&part, part.first(LIMIT).unwrap().unwrap(), &[105, 106, 107, 108]);
    }

    #[test]
    fn where_a_recorder_removes_what_is_shown_the_rest_of_the_same_part_follows() {
        let dir = tempfile::tempdir().unwrap();
        let keep = Keep::Time(Duration::from_secs(60));
        let mut flight = SegmentWriter::create(dir.path(), keep, LIMIT, &capture(100)).unwrap();
        let mut moment = Moment::new(capture(100));
        for second in 101..120 {
            flight.add(moment.advance(capture(second), &StepExits::default()).0, &moment).unwrap();
        }
        flight.finish().unwrap();
        let parts = ["..", "3s..12s"].map(|range| {
            let part = PartPath { file: dir.path().to_owned(), range: range.parse().ok() };
            let part = Past::File(part.dated().unwrap());
            let first = part.first(LIMIT).unwrap().unwrap();
            (part, first)
        });
        std::fs::remove_file(dir.path().join(&segments_in(dir.path()).unwrap()[0].name)).unwrap();
        let left = parts.map(|(part, first)| ends(first, |window| part.after(window, LIMIT).unwrap()));
        let from =
            |first: u64, rest: std::ops::RangeInclusive<u64>| std::iter::once(first).chain(rest).collect::<Vec<_>>();
        assert_eq!(left, [from(101, 106..=119), from(104, 106..=112)]);
    }

    #[test]
    fn ten_minutes_can_be_gone_through_window_by_window_and_what_is_older_is_forgotten() {
        const MINUTES: u64 = 21;
        let mut moment = Moment::new(capture(1));
        let mut segments = PastSegments::begin(&capture(1), LIMIT).unwrap();
        for second in (3..=60 * MINUTES).step_by(2) {
            let step = moment.advance(capture(second), &StepExits::default()).0;
            segments.add(step, &moment).unwrap();
            assert!(segments.segments.len() <= MOST_SEGMENTS);
        }
        let past = Past::Memory(segments);
        let last_ns = (60 * MINUTES - 1) * SECOND;
        let next = TimedWindow { window: CtprofSnapshot::default(), times: [last_ns, last_ns + 2 * SECOND] };
        let before = |window: &TimedWindow| past.before(window, LIMIT).unwrap();
        let mut windows = 0;
        let mut after = next.clone();
        for window in std::iter::successors(before(&next), before) {
            assert_eq!(window.times[1], after.times[0], "each window ends where the one after it begins");
            assert_eq!(window.window.threads[0].metrics.run_time_ns, Some((2 * SECOND).into()));
            let again = past.after(&window, LIMIT).unwrap();
            assert_eq!(again.map(|again| again.times), Some(after.times).filter(|_| windows > 0));
            (after, windows) = (window, windows + 1);
        }
        let seconds = windows * 2;
        assert!((10 * 60..=15 * 60).contains(&seconds), "{seconds} s");
    }
}
