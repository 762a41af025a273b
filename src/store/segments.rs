//! A directory with the last time of a series, in files that follow each other: segments. The oldest are removed.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::directory_lock::DirectoryLock;
use super::error::StoreError;
use super::pending::Lifetime;
use super::place::{create_directory, names_in};
use super::series_writer::SeriesWriter;
use super::target::{EXTENSION, OutputTarget, Written};
use crate::model::CtprofSnapshot;
use crate::series::{Moment, SeriesError, SeriesRange, Step};

/// How much of a series is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Keeps the last part of this length.
    Time(Duration),
    /// Keeps the last part up to this size.
    Bytes(u64),
}

/// Minimum number of segments of a series. One more segment is kept while it is written.
const SEGMENTS: u32 = 12;
/// A part of a series is read from the start of its segment.
const LONGEST_NS: u64 = 600_000_000_000;
const LONGEST: Duration = Duration::from_nanos(LONGEST_NS);
/// Names of segments sort like the times at which they begin.
const NAME: &str = "%Y%m%dT%H%M%S%.3fZ";
/// File name extension of segments, by which they differ from runs.
const ENDING: &str = ".segment";

/// Writes a series into a directory.
pub struct SegmentWriter {
    path: PathBuf,
    directory: OwnedFd,
    keep: Keep,
    limit: u64,
    writer: SeriesWriter,
    /// All segments, with the time at which they begin.
    segments: VecDeque<SeriesSegment>,
    /// Nobody else writes here while it is locked.
    _lock: DirectoryLock,
}

/// A file of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesSegment {
    /// When it begins, by the clock of the directory: the clock of the host, which goes on here where it was set back.
    pub time: Timestamp,
    /// File name of the segment.
    pub name: String,
    /// The first characters of the boot's id; without an id, equal for the segments of one recording.
    boot: String,
    /// Time since boot when it begins; `None` if another process wrote it. The clock may have been set since.
    boottime_ns: Option<u64>,
}

impl SeriesSegment {
    fn from_file_name(name: String) -> Option<Self> {
        let (time, boot) = name.strip_suffix(EXTENSION)?.strip_suffix(ENDING)?.split_once('-')?;
        let time = DateTime::strptime(NAME, time).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
        Some(Self { time, boot: boot.to_owned(), boottime_ns: None, name })
    }

    pub(super) fn of_path(path: &Path) -> Option<Self> {
        Self::from_file_name(path.file_name()?.to_str()?.to_owned())
    }

    /// When it begins, in nanoseconds since 1970.
    pub(super) fn unix_ns(&self) -> u64 {
        u64::try_from(self.time.as_nanosecond()).unwrap_or(0)
    }

    /// Time from when it begins to this time since boot.
    fn age(&self, boottime_ns: Option<u64>) -> Option<Duration> {
        Some(Duration::from_nanos(boottime_ns?.saturating_sub(self.boottime_ns?)))
    }
}

/// The segments of a directory that are of the last boot, the oldest first.
///
/// # Errors
/// If the directory cannot be read.
pub fn segments_in(directory: &Path) -> io::Result<Vec<SeriesSegment>> {
    // Reading a FIFO would wait for whoever writes it. A directory, or a link that leads nowhere, is an error when it is read.
    let may_be_segment = |path: &Path| path.metadata().map_or(true, |found| found.is_file() || found.is_dir());
    let name = |entry: fs::DirEntry| entry.file_name().into_string().ok().filter(|_| may_be_segment(&entry.path()));
    let names = fs::read_dir(directory)?.map(|entry| Ok(name(entry?)));
    let names: io::Result<Vec<_>> = names.filter_map(Result::transpose).collect();
    let mut segments = sorted(names?);
    let boot = segments.last().map(|last| last.boot.clone());
    segments.retain(|segment| Some(&segment.boot) == boot.as_ref());
    Ok(segments)
}

/// When the first of these segments of a directory begins and the last one was written, in nanoseconds since 1970, and the segments in
/// which a part of their series is.
pub(super) fn of_part(
    directory: &Path,
    segments: &[SeriesSegment],
    part: &SeriesRange,
) -> Option<([u64; 2], Range<usize>)> {
    let [start, last] = [segments.first()?, segments.last()?].map(SeriesSegment::unix_ns);
    // Copies can be written at any time, with any time.
    let written = fs::metadata(directory.join(&segments.last()?.name)).and_then(|file| file.modified()).ok();
    let written = written.and_then(|time| u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok());
    let written = written.filter(|written| *written >= last);
    let ends = [start, written.unwrap_or(u64::MAX).clamp(last, last.saturating_add(LONGEST_NS))];
    let begun = |time_ns| segments.partition_point(|segment| segment.unix_ns() - start <= time_ns);
    let [from, to] = part.since(ends).map(begun);
    Some((ends, from.saturating_sub(1)..to))
}

fn sorted(names: Vec<String>) -> Vec<SeriesSegment> {
    let mut segments: Vec<_> = names.into_iter().filter_map(SeriesSegment::from_file_name).collect();
    segments.sort();
    segments
}

impl SegmentWriter {
    /// Begins a series in a directory, which is made if needed. Segments that are there already count.
    ///
    /// # Errors
    /// [`StoreError::Write`] if another process writes there, or the first segment cannot be written.
    pub fn create(path: &Path, keep: Keep, limit: u64, first: &CtprofSnapshot) -> Result<Self, StoreError> {
        let failed = |error| StoreError::Write(path.to_owned(), error);
        let directory = create_directory(path).map_err(failed)?;
        let lock = DirectoryLock::acquire(&directory).map_err(failed)?;
        let mut segments = sorted(names_in(&directory).map_err(failed)?).into();
        remove_old(&directory, keep, &mut segments, first).map_err(failed)?;
        let writer = begin(&directory, path, limit, (first, &mut segments))?;
        if writer.bytes() >= largest(keep) {
            let kib = writer.bytes().div_ceil(1024);
            tracing::warn!(
                "{}: --keep is too small for a host whose capture takes {kib} KiB: each step is kept as a capture, and the \
                 directory can become larger; keep {}KiB or more",
                path.display(),
                kib * 2 * u64::from(SEGMENTS)
            );
        }
        Ok(Self { path: path.to_owned(), directory, keep, limit, writer, segments, _lock: lock })
    }

    /// Adds a step, after which the host is as at this moment.
    ///
    /// # Errors
    /// [`StoreError`] if the disk is full.
    pub fn add(&mut self, step: Step, moment: &Moment) -> Result<(), StoreError> {
        let is_written = match self.writer.add(step, moment) {
            Err(error @ StoreError::TooLargeToWrite(..)) => {
                tracing::warn!("{error}; what exited in this step is left out");
                false
            }
            added => added.map(|()| true)?,
        };
        let failed = |error: SeriesError| StoreError::Write(self.path.clone(), io::Error::other(error));
        // What follows needs the state after the step.
        if !is_written || self.is_full(moment) {
            let first = moment.capture().map_err(failed)?;
            let next = begin(&self.directory, &self.path, self.limit, (&first, &mut self.segments))?;
            std::mem::replace(&mut self.writer, next).finish()?;
            let removed = remove_old(&self.directory, self.keep, &mut self.segments, &first);
            removed.map_err(|error| StoreError::Write(self.path.clone(), error))?;
        }
        Ok(())
    }

    /// Ends the last segment.
    ///
    /// # Errors
    /// As [`SeriesWriter::finish`].
    pub fn finish(self) -> Result<Written, StoreError> {
        self.writer.finish().map(|written| Written { path: self.path, ..written })
    }

    fn is_full(&self, moment: &Moment) -> bool {
        let longest = match self.keep {
            Keep::Time(time) => LONGEST.min(time / SEGMENTS),
            Keep::Bytes(_) => LONGEST,
        };
        let age = self.segments.back().and_then(|segment| segment.age(moment.boottime_ns()));
        self.writer.bytes() >= largest(self.keep) || age.is_some_and(|age| age >= longest)
    }
}

/// The size from which on a segment is full.
fn largest(keep: Keep) -> u64 {
    match keep {
        Keep::Time(_) => u64::MAX,
        Keep::Bytes(bytes) => bytes / u64::from(SEGMENTS),
    }
}

/// Removes the segments that are older than the kept part. A segment ends where the next one begins.
fn remove_old(
    directory: &OwnedFd,
    keep: Keep,
    segments: &mut VecDeque<SeriesSegment>,
    now: &CtprofSnapshot,
) -> io::Result<()> {
    let mut sizes = Vec::new();
    for segment in &*segments {
        let there = fstatat(directory, &*segment.name, AtFlags::AT_SYMLINK_NOFOLLOW);
        sizes.push(there.map_or(0, |there| u64::try_from(there.st_size).unwrap_or(0)));
    }
    let mut all: u64 = sizes.iter().sum();
    let boottime_ns = now.head.capture.as_ref().and_then(|capture| capture.boottime_ns);
    for bytes in sizes {
        // The last segment can have no step yet.
        let is_old = match (keep, segments.get(1).filter(|_| segments.len() > 2)) {
            (_, None) => false,
            (Keep::Time(time), Some(next)) => {
                // Times of another recording are off by as much as the clock was set ahead since.
                let newest = segments.back().map_or(next.time, |newest| newest.time).max(time_of(now));
                let since = || newest.duration_since(next.time).unsigned_abs();
                next.age(boottime_ns).unwrap_or_else(since) > time
            }
            (Keep::Bytes(most), Some(_)) => all > most,
        };
        let Some(segment) = segments.front().filter(|_| is_old) else { break };
        match unlinkat(directory, &*segment.name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        all -= bytes;
        segments.pop_front();
    }
    Ok(())
}

fn time_of(capture: &CtprofSnapshot) -> Timestamp {
    Timestamp::from_nanosecond(capture.head.captured_at_unix_ns.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Begins a segment with this capture.
fn begin(
    directory: &OwnedFd,
    path: &Path,
    limit: u64,
    (first, segments): (&CtprofSnapshot, &mut VecDeque<SeriesSegment>),
) -> Result<SeriesWriter, StoreError> {
    let boottime_ns = first.head.capture.as_ref().and_then(|capture| capture.boottime_ns);
    // Where the clock was set back, segments are in order all the same, and as far from each other as they are in time.
    let after = segments.back().and_then(|last| {
        let elapsed = last.age(boottime_ns).unwrap_or_default().max(Duration::from_millis(1));
        last.time.checked_add(elapsed).ok()
    });
    let time = time_of(first).max(after.unwrap_or(Timestamp::UNIX_EPOCH));
    let id = first.head.host.as_ref().and_then(|host| host.boot_id.as_deref());
    // Without an id, only segments of this process are known to be of this boot.
    let own = segments.back().filter(|last| last.boottime_ns.is_some());
    let boot: String = match (id, own) {
        (Some(id), _) => id.chars().filter(char::is_ascii_alphanumeric).take(8).collect(),
        (None, Some(last)) => last.boot.clone(),
        (None, None) => format!("{:08x}", time.as_second()),
    };
    let name = format!("{}-{boot}{ENDING}{EXTENSION}", time.strftime(NAME));
    let writer =
        SeriesWriter::create(OutputTarget::create_in(directory, &path.join(&name), Lifetime::Lasting)?, first, limit)?;
    segments.push_back(SeriesSegment { time, name, boot, boottime_ns });
    Ok(writer)
}
