//! Series as files: lines of JSON, the first capture and then each step, in zstd frames of a minute. What has been written can
//! be read at any time, also after ctprof was killed. A capture is repeated from time to time, so that a part is read without
//! most of the steps before it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::error::{SnapshotRefusal, StoreError};
use super::format::SnapshotWriter;
use super::limit::{BYTES, ContentLimit, Metered, ReadLimits};
use super::target::{OutputFile, OutputTarget, Written};
use crate::model::CtprofSnapshot;
use crate::series::{Moment, Sleepers, Step};

/// A reader loses at most what it cannot decompress: a frame ends after so long.
pub(super) const FRAME: Duration = Duration::from_secs(60);
/// Steps repeat each other. Better compression takes some 0.1 ms per step.
const LEVEL: i32 = 3;
/// A capture is repeated after steps with so many times its bytes. It is compressed less than they are: files grow by an eighth.
const STEPS_PER_CAPTURE: usize = 12;
/// Begins a skippable frame of zstd with 8 bytes: time since boot, in nanoseconds, of the capture in the frame that follows.
pub(super) const CAPTURE_FOLLOWS: [u8; 8] = [0x5C, 0x2A, 0x4D, 0x18, 8, 0, 0, 0];

/// Writes a series, step by step.
pub struct SeriesWriter {
    path: PathBuf,
    limit: u64,
    json_bytes: usize,
    /// When a capture is repeated, in bytes of JSON.
    next_capture: usize,
    sleepers: Sleepers,
    encoder: zstd::Encoder<'static, Metered<File>>,
    frame_began: Instant,
    /// Whether the file had a name: streams have none.
    is_named: bool,
}

/// Whether a process still writes the series in a file: only who may write a file can hold a lock that keeps readers away.
pub fn is_recorded(path: &Path) -> bool {
    let mut lock = whole_file(libc::F_RDLCK);
    let asked = File::open(path).is_ok_and(|file| fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock)).is_ok());
    asked && i32::from(lock.l_type) != libc::F_UNLCK
}

/// A lock of fcntl(2) on all of a file, of this type.
fn whole_file(lock_type: i32) -> libc::flock {
    let [l_type, l_whence] = [lock_type, libc::SEEK_SET].map(|value| value.try_into().unwrap_or_default());
    libc::flock { l_type, l_whence, l_start: 0, l_len: 0, l_pid: 0 }
}

impl SeriesWriter {
    /// Writes the first capture. The file has its name from then on, so that it can be read while it is written.
    ///
    /// # Errors
    /// As [`OutputTarget::write`].
    pub fn create(target: OutputTarget, first: &CtprofSnapshot, limit: u64) -> Result<Self, StoreError> {
        let path = target.path.clone();
        let line = line_of(first, limit, &path)?;
        let json_bytes = line.len();
        let begun = target.output.file().try_clone().and_then(|file| {
            let mut encoder = frame(Metered::new(file, u64::MAX))?;
            write_line(&mut encoder, line)?;
            if !matches!(target.output, OutputFile::Stream(_)) {
                // The lock says that the file grows, until it is closed. Some file systems have none.
                let _ = fcntl(target.output.file(), FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK)));
            }
            let (path, next_capture) = (target.output.publish(&path)?, json_bytes * (STEPS_PER_CAPTURE + 1));
            let is_named = has_name(&encoder)?;
            let (sleepers, frame_began) = (Sleepers::default(), Instant::now());
            Ok(Self { path, limit, json_bytes, next_capture, sleepers, encoder, frame_began, is_named })
        });
        begun.map_err(|error| StoreError::Write(path, error))
    }

    /// Adds a step, after which the host is as at this moment. From now on, a reader has it.
    ///
    /// # Errors
    /// [`StoreError::Write`] if the disk is full; [`StoreError::TooLargeToWrite`] if readers would refuse the file.
    pub fn add(&mut self, mut step: Step, moment: &Moment) -> Result<(), StoreError> {
        let failed = |error| StoreError::Write(self.path.clone(), error);
        if self.is_named && !has_name(&self.encoder).map_err(failed)? {
            return Err(failed(io::Error::other(
                "it was removed or replaced while it was written; does another ctprof write it?",
            )));
        }
        step.shorten(&mut self.sleepers);
        let line = serde_json::to_vec(&step).expect("a step is JSON");
        if let Err(SnapshotRefusal::TooLarge(max, what)) = ContentLimit::of_step(self.limit).count(&line) {
            return Err(StoreError::TooLargeToWrite(self.path.clone(), max, what));
        }
        if self.frame_began.elapsed() >= FRAME {
            self.begin_frame(&[])?;
        }
        self.write(line)?;
        if self.json_bytes >= self.next_capture {
            let capture =
                moment.capture().map_err(|error| StoreError::Write(self.path.clone(), io::Error::other(error)))?;
            let line = line_of(&capture, self.limit, &self.path)?;
            let bytes = line.len();
            let time = moment.boottime_ns().unwrap_or(0).to_le_bytes();
            self.begin_frame(&[CAPTURE_FOLLOWS, time].concat())?;
            self.write(line)?;
            self.next_capture = self.json_bytes.saturating_add(bytes * STEPS_PER_CAPTURE);
            // Reading begins here.
            self.sleepers = Sleepers::default();
        }
        Ok(())
    }

    fn write(&mut self, line: Vec<u8>) -> Result<(), StoreError> {
        self.json_bytes = self.json_bytes.saturating_add(line.len());
        if u64::try_from(self.json_bytes).unwrap_or(u64::MAX) >= self.limit {
            return Err(StoreError::TooLargeToWrite(self.path.clone(), self.limit, BYTES));
        }
        write_line(&mut self.encoder, line).map_err(|error| StoreError::Write(self.path.clone(), error))
    }

    /// Ends the frame, writes these bytes as they are, and begins the next one.
    fn begin_frame(&mut self, between: &[u8]) -> Result<(), StoreError> {
        let begun = self.encoder.do_finish().and_then(|()| {
            let file = self.encoder.get_mut();
            file.write_all(between)?;
            frame(Metered { inner: file.inner.try_clone()?, ..*file })
        });
        self.encoder = begun.map_err(|error| StoreError::Write(self.path.clone(), error))?;
        self.frame_began = Instant::now();
        Ok(())
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.encoder.get_ref().bytes
    }

    /// Finishes the file of the series.
    ///
    /// # Errors
    /// [`StoreError::Write`] if the disk is full.
    pub fn finish(self) -> Result<Written, StoreError> {
        let Self { path, encoder, .. } = self;
        match encoder.finish() {
            Ok(file) => Ok(Written { path, bytes: file.bytes }),
            Err(error) => Err(StoreError::Write(path, error)),
        }
    }
}

fn has_name(encoder: &zstd::Encoder<'static, Metered<File>>) -> io::Result<bool> {
    Ok(encoder.get_ref().inner.metadata()?.nlink() > 0)
}

/// The line of a capture.
fn line_of(capture: &CtprofSnapshot, limit: u64, path: &Path) -> Result<Vec<u8>, StoreError> {
    let json = SnapshotWriter::new(capture);
    if let Some((what, max)) = json.too_many(ReadLimits::new(limit)) {
        return Err(StoreError::TooLargeToWrite(path.to_owned(), u64::try_from(max).unwrap_or(u64::MAX), what));
    }
    let mut line = Vec::new();
    json.write(&mut line, limit).map_err(|error| StoreError::Write(path.to_owned(), error))?;
    // Newlines are only between values: in texts, JSON escapes them.
    line.retain(|byte| *byte != b'\n');
    Ok(line)
}

fn frame(file: Metered<File>) -> io::Result<zstd::Encoder<'static, Metered<File>>> {
    let mut encoder = zstd::Encoder::new(file, LEVEL)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}

fn write_line(encoder: &mut impl Write, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    encoder.write_all(&line)?;
    encoder.flush()
}
