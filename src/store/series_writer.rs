//! Series as files: lines of JSON, the first capture and then each step, in zstd frames of a minute. What has been written can
//! be read at any time, also after ctprof was killed.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::error::StoreError;
use super::format::SnapshotWriter;
use super::limit::{BYTES, Metered, ReadLimits};
use super::target::{OutputTarget, Written};
use crate::model::CtprofSnapshot;
use crate::series::Step;

/// A reader loses at most what it cannot decompress: a frame ends after so long.
const FRAME: Duration = Duration::from_secs(60);
/// Steps repeat each other. Better compression takes some 0.1 ms per step.
const LEVEL: i32 = 3;

/// Writes a series, step by step.
pub struct SeriesWriter {
    path: PathBuf,
    limit: u64,
    json_bytes: usize,
    encoder: zstd::Encoder<'static, Metered<File>>,
    frame_began: Instant,
    /// Whether the file had a name: streams have none.
    is_named: bool,
}

impl SeriesWriter {
    /// Writes the first capture. The file has its name from then on, so that it can be read while it is written.
    ///
    /// # Errors
    /// As [`OutputTarget::write`].
    pub fn create(target: OutputTarget, first: &CtprofSnapshot, limit: u64) -> Result<Self, StoreError> {
        let path = target.path.clone();
        let json = SnapshotWriter::new(first);
        if let Some((what, max)) = json.too_many(ReadLimits::new(limit)) {
            return Err(StoreError::TooLargeToWrite(path, u64::try_from(max).unwrap_or(u64::MAX), what));
        }
        let mut line = Vec::new();
        let written = json.write(&mut line, limit);
        // Newlines are only between values: in texts, JSON escapes them.
        line.retain(|byte| *byte != b'\n');
        let begun = written.and_then(|()| {
            let mut encoder = frame(Metered::new(target.output.file().try_clone()?, u64::MAX))?;
            let json_bytes = line.len();
            write_line(&mut encoder, line)?;
            let path = target.output.publish(&path)?;
            let is_named = has_name(&encoder)?;
            Ok(Self { path, limit, json_bytes, encoder, frame_began: Instant::now(), is_named })
        });
        begun.map_err(|error| StoreError::Write(path, error))
    }

    /// Adds a step. From now on, a reader has it.
    ///
    /// # Errors
    /// [`StoreError::Write`] if the disk is full; [`StoreError::TooLargeToWrite`] if readers would refuse the file.
    pub fn add(&mut self, step: &Step) -> Result<(), StoreError> {
        let line = serde_json::to_vec(step).expect("a step is JSON");
        self.json_bytes = self.json_bytes.saturating_add(line.len());
        if u64::try_from(self.json_bytes).unwrap_or(u64::MAX) >= self.limit {
            return Err(StoreError::TooLargeToWrite(self.path.clone(), self.limit, BYTES));
        }
        self.write(line).map_err(|error| StoreError::Write(self.path.clone(), error))
    }

    fn write(&mut self, line: Vec<u8>) -> io::Result<()> {
        if self.is_named && !has_name(&self.encoder)? {
            return Err(io::Error::other(
                "it was removed or replaced while it was written; does another ctprof write it?",
            ));
        }
        if self.frame_began.elapsed() >= FRAME {
            self.encoder.do_finish()?;
            let file = self.encoder.get_ref();
            self.encoder = frame(Metered { inner: file.inner.try_clone()?, ..*file })?;
            self.frame_began = Instant::now();
        }
        write_line(&mut self.encoder, line)
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.encoder.get_ref().bytes
    }

    /// Ends the file.
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
