//! Reading: decompressed and parsed as a stream, never beyond the limit.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::Deserializer as _;
use serde_json::error::Category;
use serde_path_to_error::Track;

use super::error::{SnapshotRefusal, StoreError};
use super::format::SnapshotReader;
use super::limit::{BYTES, ContentLimit, LimitedContent, MemoryBudget, Metered, ReadLimits};
use super::lines::{BegunLines, NotRead};
use crate::model::{CtprofSnapshot, SnapshotHead, Threads};
use crate::process::Progress;
use crate::series::SeriesRange;

const ZSTD_MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
const BUFFER: usize = 128 * 1024;

/// Reads a snapshot whose JSON has at most `limit` bytes. The path `-` is standard input.
///
/// # Errors
/// [`StoreError`], with the path and what is wrong.
pub fn load(path: &Path, limit: u64) -> Result<CtprofSnapshot, StoreError> {
    let stored = Stored::open(path, limit, &Arc::default())?;
    if let Some(mut series) = stored.series()? {
        return series.part(&SeriesRange::default());
    }
    let (head, threads) = stored.load_into(&Vec::new())?;
    Ok(CtprofSnapshot { head, threads })
}

/// An open snapshot file.
pub struct Stored {
    input: SnapshotInput,
    pub(super) path: PathBuf,
    pub(super) limits: ReadLimits,
    pub(super) progress: Arc<Progress>,
    memory: Arc<MemoryBudget>,
    /// `None` before anything has been read.
    begun: Option<BegunSnapshot>,
}

/// A file, or the bytes of what cannot be read again.
#[derive(Clone)]
enum SnapshotInput {
    File(Arc<File>),
    Bytes(Arc<[u8]>),
}

/// A snapshot that has been read up to its threads, or to its end.
enum BegunSnapshot {
    Lines(Box<BegunLines<SnapshotJson>>),
    Whole(Box<CtprofSnapshot>),
}

pub(super) type SnapshotJson = Metered<Box<dyn Read + Send>>;

impl Stored {
    /// Opens a snapshot whose JSON has at most `limit` bytes. The path `-` is standard input. The bytes of the file are
    /// counted as they are read.
    ///
    /// # Errors
    /// [`StoreError`], with the path and what is wrong.
    pub fn open(path: &Path, limit: u64, progress: &Arc<Progress>) -> Result<Self, StoreError> {
        let opened = if path == Path::new("-") { in_memory(io::stdin().lock(), limit) } else { open(path, limit) };
        let path = path.to_owned();
        match opened {
            Ok((input, bytes)) => {
                progress.announce(bytes);
                let memory = Arc::new(MemoryBudget::new(limit));
                Ok(Self {
                    input,
                    path,
                    limits: ReadLimits::new(limit),
                    progress: Arc::clone(progress),
                    memory,
                    begun: None,
                })
            }
            Err(error) if error.kind() == ErrorKind::FileTooLarge && error.raw_os_error().is_none() => {
                Err(StoreError::Refused(path, SnapshotRefusal::TooLarge(limit, BYTES)))
            }
            Err(error) => Err(StoreError::Read(path, error)),
        }
    }

    /// The same, as one of several files that share their memory.
    #[must_use]
    pub fn within(self, memory: &Arc<MemoryBudget>) -> Self {
        Self { memory: Arc::clone(memory), ..self }
    }

    /// Returns the same file, from its beginning.
    pub(super) fn again(&self) -> Self {
        Self {
            input: self.input.clone(),
            path: self.path.clone(),
            limits: self.limits,
            progress: Arc::clone(&self.progress),
            memory: Arc::clone(&self.memory),
            begun: None,
        }
    }

    /// Wraps a snapshot that was computed from the series in a file.
    #[must_use]
    pub fn of_snapshot(path: &Path, snapshot: CtprofSnapshot, limit: u64) -> Self {
        Self {
            input: SnapshotInput::Bytes(Arc::new([])),
            path: path.to_owned(),
            limits: ReadLimits::new(limit),
            progress: Arc::default(),
            memory: Arc::new(MemoryBudget::new(limit)),
            begun: Some(BegunSnapshot::Whole(Box::new(snapshot))),
        }
    }

    /// Everything but the threads; of files that ctprof wrote, what precedes them: capture, window and host. A file of
    /// another layout is held whole from here on.
    ///
    /// # Errors
    /// [`StoreError`], with the path and what is wrong.
    pub fn head(&mut self) -> Result<&SnapshotHead, StoreError> {
        let begun = match self.begun.take() {
            Some(begun) => begun,
            None => match BegunLines::begin(self.json(&self.progress)?, self.limits) {
                Ok(lines) => BegunSnapshot::Lines(Box::new(lines)),
                Err(NotRead::Otherwise) => BegunSnapshot::Whole(Box::new(self.whole()?)),
                Err(NotRead::Refused(refusal)) => return Err(StoreError::Refused(self.path.clone(), refusal)),
            },
        };
        Ok(match self.begun.insert(begun) {
            BegunSnapshot::Lines(lines) => &lines.head,
            BegunSnapshot::Whole(snapshot) => &snapshot.head,
        })
    }

    /// Reads the snapshot without its threads, and these into a collection like `empty`. If ctprof wrote the
    /// file, only the threads being parsed are in memory beside it.
    ///
    /// # Errors
    /// [`StoreError`], with the path and what is wrong.
    pub fn load_into<T: Threads>(mut self, empty: &T) -> Result<(SnapshotHead, T), StoreError> {
        self.head()?;
        let memory = Arc::clone(&self.memory);
        let path = self.path.clone();
        let max = memory.of_file();
        let (head, threads) = self.load_within(empty, max)?;
        let bytes = threads.bytes().saturating_add(in_memory_of(&head));
        if bytes > max {
            return Err(StoreError::Refused(path, SnapshotRefusal::in_memory(max)));
        }
        memory.take(bytes);
        Ok((head, threads))
    }

    fn load_within<T: Threads>(mut self, empty: &T, max: usize) -> Result<(SnapshotHead, T), StoreError> {
        let CtprofSnapshot { head, threads: all } = match self.begun.take() {
            Some(BegunSnapshot::Lines(lines)) => match lines.read(empty, max) {
                Ok(read) => return Ok(read),
                Err(NotRead::Refused(refusal)) => return Err(StoreError::Refused(self.path, refusal)),
                Err(NotRead::Otherwise) => self.whole()?,
            },
            Some(BegunSnapshot::Whole(snapshot)) => *snapshot,
            None => self.whole()?,
        };
        let mut threads = empty.first();
        for thread in all {
            threads.add(thread);
            if threads.bytes() > max {
                return Err(StoreError::Refused(self.path, SnapshotRefusal::in_memory(max)));
            }
        }
        Ok((head, threads))
    }

    /// The JSON from its start.
    fn json(&self, progress: &Arc<Progress>) -> Result<SnapshotJson, StoreError> {
        self.json_from(0, progress)
    }

    /// The JSON in the frames from this byte of the file on.
    pub(super) fn json_from(&self, byte: u64, progress: &Arc<Progress>) -> Result<SnapshotJson, StoreError> {
        let unread = |error| StoreError::Read(self.path.clone(), error);
        let mut input = BufReader::with_capacity(BUFFER, self.input.start(byte, progress));
        let start = input.fill_buf().map_err(unread)?;
        let refused = |why| StoreError::Refused(self.path.clone(), SnapshotRefusal::NotASnapshot(why));
        let json: Box<dyn Read + Send> = match start[..start.len().min(ZSTD_MAGIC.len())].trim_ascii_start() {
            _ if start.is_empty() => return Err(refused("empty")),
            _ if start.starts_with(&ZSTD_MAGIC) => {
                // A new decoder takes memory, and nothing of the file.
                Box::new(zstd::Decoder::with_buffer(input).map_err(|_| unread(ErrorKind::OutOfMemory.into()))?)
            }
            [] | [b'{', ..] => Box::new(input),
            _ => return Err(refused("neither zstd nor a JSON object")),
        };
        Ok(Metered::new(json, self.limits.bytes))
    }

    /// The bytes of the file from this one on, as they are.
    pub(super) fn bytes_from(&self, byte: u64) -> impl Read {
        self.input.start(byte, &self.progress)
    }

    /// How many bytes the file has.
    pub(super) fn length(&self) -> io::Result<u64> {
        match &self.input {
            SnapshotInput::File(file) => Ok(file.metadata()?.len()),
            SnapshotInput::Bytes(bytes) => Ok(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
        }
    }

    /// The sequential reader: one value at a time, in any layout of JSON. Errors name the field.
    fn whole(&self) -> Result<CtprofSnapshot, StoreError> {
        let ReadLimits { bytes, cgroups, .. } = self.limits;
        let text = LimitedContent { inner: self.json(&Arc::default())?, content: Some(ContentLimit::new(bytes)) };
        let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(BUFFER, text));
        let mut track = Track::new();
        let reader = SnapshotReader::new(cgroups, cgroups);
        let snapshot = serde_path_to_error::Deserializer::new(&mut json, &mut track).deserialize_map(&reader);
        // Reading on to the end also checks the frame's checksum.
        let snapshot = snapshot.and_then(|content| json.end().map(|()| content.normalized()));
        drop(json);
        snapshot.map_err(|error| match reader.refusal() {
            Some(refusal) => StoreError::Refused(self.path.clone(), refusal),
            None => self.wrong(error, &track.path()),
        })
    }

    pub(super) fn refused(&self, refusal: SnapshotRefusal) -> StoreError {
        StoreError::Refused(self.path.clone(), refusal)
    }

    pub(super) fn wrong(&self, error: serde_json::Error, field: &serde_path_to_error::Path) -> StoreError {
        let path = self.path.clone();
        match error.classify() {
            Category::Io => match io::Error::from(error) {
                source if source.raw_os_error().is_some() => StoreError::Read(path, source),
                source if source.kind() == ErrorKind::UnexpectedEof => {
                    StoreError::Refused(path, SnapshotRefusal::Truncated)
                }
                source if source.kind() == ErrorKind::FileTooLarge => {
                    StoreError::Refused(path, SnapshotRefusal::TooLarge(self.limits.bytes, BYTES))
                }
                source => match SnapshotRefusal::from_io_error(&source) {
                    Some(refusal) => StoreError::Refused(path, refusal),
                    None => not_decoded(path, source),
                },
            },
            Category::Data if field.iter().next().is_none() => StoreError::WrongType(path, error.to_string()),
            Category::Data => StoreError::WrongType(path, format!("{field}: {error}")),
            Category::Syntax | Category::Eof => StoreError::NotJson(path, error),
        }
    }
}

/// Why zstd could not decode a file: it says by its text alone that it was not the file.
fn not_decoded(path: PathBuf, error: io::Error) -> StoreError {
    if error.to_string().ends_with("not enough memory") {
        StoreError::Read(path, ErrorKind::OutOfMemory.into())
    } else {
        StoreError::Damaged(path, error)
    }
}

impl SnapshotInput {
    /// A reader from this byte on.
    fn start(&self, byte: u64, progress: &Arc<Progress>) -> CountedBytes {
        let source: Box<dyn Read + Send> = match self {
            Self::File(file) => Box::new(FileBytes { file: Arc::clone(file), at: byte }),
            Self::Bytes(bytes) => {
                let mut bytes = Cursor::new(Arc::clone(bytes));
                bytes.set_position(byte);
                Box::new(bytes)
            }
        };
        CountedBytes { source, progress: Arc::clone(progress) }
    }
}

/// About how much memory a head takes, in bytes: a short entry of a map takes eight times its JSON.
fn in_memory_of(head: &SnapshotHead) -> usize {
    let mut json = Metered::new(io::sink(), u64::MAX);
    serde_json::to_writer(&mut json, head).expect("a sink takes everything");
    usize::try_from(json.bytes.saturating_mul(8)).unwrap_or(usize::MAX)
}

fn open(path: &Path, limit: u64) -> io::Result<(SnapshotInput, u64)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((SnapshotInput::File(file.into()), metadata.len())) } else { in_memory(file, limit) }
}

/// The bytes of a source that cannot be read again.
fn in_memory(source: impl Read, limit: u64) -> io::Result<(SnapshotInput, u64)> {
    let mut metered = Metered::new(source, limit);
    let mut bytes = Vec::new();
    metered.read_to_end(&mut bytes)?;
    Ok((SnapshotInput::Bytes(bytes.into()), metered.bytes))
}

/// The bytes of a file from a place on, whatever else reads it.
struct FileBytes {
    file: Arc<File>,
    at: u64,
}

impl Read for FileBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += u64::try_from(read).unwrap_or(0);
        Ok(read)
    }
}

/// A source that reports progress while it is read.
struct CountedBytes {
    source: Box<dyn Read + Send>,
    progress: Arc<Progress>,
}

impl Read for CountedBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.progress.advance(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// JSON in which threads have no lines, as a frame with a checksum.
    fn frame(json: &str) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(json.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn an_error_says_what_is_wrong_with_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let wrong = |bytes: &[u8], limit| {
            std::fs::write(&path, bytes).unwrap();
            load(&path, limit).unwrap_err()
        };
        let json = format!("{{\"threads\":[{{\"tid\":1,\"tgid\":1}}],{:1000}\"captured_at_unix_ns\":7}}", "");
        let whole = frame(&json);
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(load(&path, 1 << 20).unwrap().head.captured_at_unix_ns, 7);
        let refused = |error, expected| matches!(error, StoreError::Refused(_, refusal) if refusal == expected);
        assert!(refused(wrong(&whole[..whole.len() - 2], 1 << 20), SnapshotRefusal::Truncated));
        assert!(refused(wrong(&whole, 500), SnapshotRefusal::TooLarge(500, BYTES)));
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert!(matches!(wrong(&damaged, 1 << 20), StoreError::Damaged(..)));
        let long = frame(&format!("{{\"threads\":[],\"host\":{{\"ostype\":\"{}\"}}}}", "a".repeat(128 << 10)));
        assert!(refused(wrong(&long, 1 << 20), SnapshotRefusal::TooLong(128 << 10, "a text")));
        let of_field = wrong(b"{\"threads\":[{\"tid\":\"one\"}]}", 1 << 20).to_string();
        assert!(of_field.contains(": threads[0].tid: "), "{of_field}");
        let of_whole = wrong(b"{\"threads\":[],\"threads\":[]}", 1 << 20).to_string();
        assert!(of_whole.ends_with("file: duplicate field at line 1 column 24"), "{of_whole}");
    }

    #[test]
    fn of_a_stream_without_end_no_more_is_read_than_is_allowed() {
        let opened = Stored::open(Path::new("/dev/zero"), 1000, &Arc::default()).map(drop);
        assert!(matches!(opened, Err(StoreError::Refused(_, SnapshotRefusal::TooLarge(1000, BYTES)))));
    }
}
