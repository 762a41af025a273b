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
/// Times of windows are precise to this.
const PRECISION_NS: u64 = 5_000_000;

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
    began_unix_ns: u64,
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
    pub(super) fn add(&mut self, step: Step, moment: &Moment, now_unix_ns: u64) -> Result<(), StoreError> {
        let Some(last) = self.segments.back() else { return Ok(()) };
        self.writer.add(step, moment)?;
        let is_long = now_unix_ns.saturating_sub(last.began_unix_ns) >= LONGEST_NS;
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
        Ok((Self { file, began_unix_ns: first.head.captured_at_unix_ns }, writer))
    }
}

/// The path by which this process can open a file again.
fn path(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

impl Past {
    /// The window at a time, in nanoseconds since 1970, if there is one.
    fn at(&self, unix_ns: u64, limit: u64) -> Result<Option<CtprofSnapshot>, StoreError> {
        first_of(|take| self.each([unix_ns, unix_ns.saturating_add(1)], limit, take))
    }

    /// The window after one that ends then.
    pub(super) fn after(&self, end_ns: u64, limit: u64) -> Result<Option<CtprofSnapshot>, StoreError> {
        self.at(end_ns.saturating_add(PRECISION_NS), limit)
    }

    /// The window before one that begins then.
    pub(super) fn before(&self, start_ns: u64, limit: u64) -> Result<Option<CtprofSnapshot>, StoreError> {
        self.at(start_ns.saturating_sub(PRECISION_NS), limit)
    }

    /// The first window of the part that the path of a file names.
    pub(super) fn first(&self, limit: u64) -> Result<Option<CtprofSnapshot>, StoreError> {
        let Self::File(part) = self else { return Ok(None) };
        first_of(|take| each_window(part, limit, take))
    }

    /// Passes on the windows between two times, in nanoseconds since 1970.
    pub(super) fn each(
        &self,
        [from_ns, to_ns]: [u64; 2],
        limit: u64,
        found: &mut dyn FnMut(CtprofSnapshot) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let time = |unix_ns: u64| Timestamp::from_nanosecond(unix_ns.into()).unwrap_or(Timestamp::MAX);
        let range = |from: u64| -> Option<SeriesRange> { format!("{}..{}", time(from), time(to_ns)).parse().ok() };
        match self {
            Self::File(PartPath { file, .. }) => {
                each_window(&PartPath { file: file.clone(), range: range(from_ns) }, limit, found)
            }
            Self::Memory(PastSegments { segments, .. }) => {
                let begun = segments.iter().rposition(|segment| segment.began_unix_ns <= from_ns).unwrap_or(0);
                for segment in segments.iter().skip(begun).filter(|segment| segment.began_unix_ns < to_ns) {
                    let range = range(from_ns.max(segment.began_unix_ns));
                    each_window(&PartPath { file: path(&segment.file), range }, limit, found)?;
                }
                Ok(())
            }
        }
    }
}

/// The first window that `each` passes on.
fn first_of(
    each: impl FnOnce(&mut dyn FnMut(CtprofSnapshot) -> ControlFlow<()>) -> Result<(), StoreError>,
) -> Result<Option<CtprofSnapshot>, StoreError> {
    let mut found = None;
    each(&mut |window| {
        found = Some(window);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

fn each_window(
    part: &PartPath,
    limit: u64,
    found: &mut dyn FnMut(CtprofSnapshot) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let Input::Series(mut series) = part.open(limit, &Arc::default())? else {
        return Err(StoreError::NotASeries(part.file.clone()));
    };
    let mut pass_on = |mut window: CtprofSnapshot, moment: &Moment| {
        moment.add_unchanged(&mut window);
        if found(window).is_break() { Err(NoMore::Enough) } else { Ok(()) }
    };
    match series.each_window(&part.range.clone().unwrap_or_default(), &mut pass_on) {
        Ok(()) | Err(NoMore::Enough | NoMore::Failed(StoreError::NoSuchPart(..) | StoreError::NoStep(_))) => Ok(()),
        Err(NoMore::Failed(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CaptureInfo, HostContext, SERIES_FORMAT_VERSION, SeriesInfo, SnapshotHead, ThreadState};
    use crate::series::StepExits;

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 1_790_000_000 * SECOND;

    /// A host with a thread that runs a second in each second.
    fn capture(second: u64) -> CtprofSnapshot {
        let now = Some(second * SECOND);
        let head = SnapshotHead {
            series: Some(SeriesInfo::default()),
            format_version: Some(SERIES_FORMAT_VERSION),
            captured_at_unix_ns: START + second * SECOND,
            capture: Some(CaptureInfo { monotonic_ns: now, boottime_ns: now, ..CaptureInfo::default() }),
            host: Some(HostContext { boot_id: Some("b".to_owned()), ..HostContext::default() }),
            ..SnapshotHead::default()
        };
        let mut thread = ThreadState { tid: 1, tgid: 1, start_time_clock_ticks: Some(0), ..ThreadState::default() };
        thread.metrics.run_time_ns = Some((second * SECOND).into());
        CtprofSnapshot { head, threads: vec![thread] }
    }

    #[test]
    fn ten_minutes_can_be_gone_through_window_by_window_and_what_is_older_is_forgotten() {
        const LIMIT: u64 = 1 << 20;
        const MINUTES: u64 = 21;
        let mut moment = Moment::new(capture(1));
        let mut segments = PastSegments::begin(&capture(1), LIMIT).unwrap();
        for second in (3..=60 * MINUTES).step_by(2) {
            let step = moment.advance(capture(second), &StepExits::default()).0;
            segments.add(step, &moment, START + second * SECOND).unwrap();
            assert!(segments.segments.len() <= MOST_SEGMENTS);
        }
        let past = Past::Memory(segments);
        let last_ns = START + (60 * MINUTES - 1) * SECOND;
        let (mut start_ns, mut windows) = (last_ns, 0);
        while let Some(window) = past.before(start_ns, LIMIT).unwrap() {
            let info = window.head.window.as_ref().unwrap();
            let times = (info.started_at_unix_ns, info.duration_ns);
            assert_eq!(times, (start_ns - 2 * SECOND, 2 * SECOND), "each window ends where the one after it begins");
            assert_eq!(window.threads[0].metrics.run_time_ns, Some((2 * SECOND).into()));
            let after = past.after(start_ns - 2 * SECOND, LIMIT).unwrap().unwrap();
            assert_eq!(after.head.window.unwrap().started_at_unix_ns, start_ns - 2 * SECOND);
            (start_ns, windows) = (start_ns - 2 * SECOND, windows + 1);
        }
        let seconds = windows * 2;
        assert!((10 * 60..=15 * 60).contains(&seconds), "{seconds} s");
    }
}
