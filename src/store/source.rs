//! Reading: decompressed and parsed as a stream, never beyond the limit.

use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use serde::de::Deserializer as _;
use serde_json::error::Category;
use serde_path_to_error::Track;

use super::error::{SnapshotRefusal, StoreError};
use super::format::SnapshotReader;
use super::limit::{BYTES, Metered, max_threads};
use super::lines;
use crate::model::{CtprofSnapshot, SnapshotHead, Threads};
use crate::process::Progress;

const ZSTD_MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
const BUFFER: usize = 128 * 1024;

/// Reads a snapshot whose JSON has at most `limit` bytes. The path `-` is standard input.
///
/// # Errors
/// [`StoreError`], with the path and what is wrong.
pub fn load(path: &Path, limit: u64) -> Result<CtprofSnapshot, StoreError> {
    let (head, threads) = Stored::open(path, limit)?.load_into(&Vec::new(), &Progress::default())?;
    Ok(CtprofSnapshot { head, threads })
}

/// An open snapshot file.
pub struct Stored {
    source: Box<dyn Rewindable>,
    /// Size of the source.
    bytes: u64,
    path: PathBuf,
    limit: u64,
}

/// A file, or the bytes of what cannot be rewound.
trait Rewindable: Read + Seek + Send {}
impl<T: Read + Seek + Send> Rewindable for T {}

impl Stored {
    /// Opens a snapshot whose JSON has at most `limit` bytes. The path `-` is standard input.
    ///
    /// # Errors
    /// [`StoreError`], with the path and what is wrong.
    pub fn open(path: &Path, limit: u64) -> Result<Self, StoreError> {
        let opened = if path == Path::new("-") { in_memory(io::stdin().lock(), limit) } else { open(path, limit) };
        let path = path.to_owned();
        match opened {
            Ok((source, bytes)) => Ok(Self { source, bytes, path, limit }),
            Err(error) if error.kind() == ErrorKind::FileTooLarge && error.raw_os_error().is_none() => {
                Err(StoreError::Refused(path, SnapshotRefusal::TooLarge(limit, BYTES)))
            }
            Err(error) => Err(StoreError::Read(path, error)),
        }
    }

    /// What precedes the threads: capture, window and host. `None` if ctprof did not write the file, or if it
    /// is damaged.
    pub fn head(&mut self) -> Option<SnapshotHead> {
        let max = max_threads(self.limit);
        lines::head(self.json(&Progress::default()).ok()?, max)
    }

    /// Reads the snapshot without its threads, and these into a collection like `empty`. If ctprof wrote the
    /// file, only the threads being parsed are in memory beside it. Files of another layout are held
    /// whole. The bytes of the file are counted as they are read.
    ///
    /// # Errors
    /// [`StoreError`], with the path and what is wrong.
    pub fn load_into<T: Threads>(mut self, empty: &T, progress: &Progress) -> Result<(SnapshotHead, T), StoreError> {
        progress.announce(self.bytes);
        let max = max_threads(self.limit);
        if let Some(read) = lines::read(self.json(progress)?, max, empty) {
            return Ok(read);
        }
        let snapshot = self.whole(&SnapshotReader::new(max))?;
        let mut threads = empty.first();
        snapshot.threads.into_iter().for_each(|thread| threads.add(thread));
        Ok((snapshot.head, threads))
    }

    /// The JSON from its start.
    fn json<'s>(&'s mut self, progress: &'s Progress) -> Result<Metered<Box<dyn Read + Send + 's>>, StoreError> {
        let Self { source, path, limit, .. } = self;
        let mut start = Vec::new();
        let read = source.rewind().and_then(|()| source.take(4).read_to_end(&mut start)).and_then(|_| source.rewind());
        read.map_err(|error| StoreError::Read(path.clone(), error))?;
        let refused = |why| StoreError::Refused(path.clone(), SnapshotRefusal::NotASnapshot(why));
        let counted = CountedBytes { source, progress };
        let json: Box<dyn Read + Send> = match start.trim_ascii_start() {
            _ if start.is_empty() => return Err(refused("empty")),
            _ if start == ZSTD_MAGIC => {
                Box::new(zstd::Decoder::new(counted).map_err(|error| StoreError::Damaged(path.clone(), error))?)
            }
            [] | [b'{', ..] => Box::new(counted),
            _ => return Err(refused("neither zstd nor a JSON object")),
        };
        Ok(Metered::new(json, *limit))
    }

    /// The sequential reader: one value at a time, in any layout of JSON. Errors name the field.
    fn whole(&mut self, reader: &SnapshotReader) -> Result<CtprofSnapshot, StoreError> {
        let uncounted = Progress::default();
        let text = BufReader::with_capacity(BUFFER, self.json(&uncounted)?);
        let mut json = serde_json::Deserializer::from_reader(text);
        let mut track = Track::new();
        let snapshot = serde_path_to_error::Deserializer::new(&mut json, &mut track).deserialize_map(reader);
        // Reading on to the end also checks the frame's checksum.
        let snapshot = snapshot.and_then(|content| json.end().map(|()| content.normalized()));
        drop(json);
        snapshot.map_err(|error| match reader.refusal() {
            Some(refusal) => StoreError::Refused(self.path.clone(), refusal),
            None => self.wrong(error, &track.path()),
        })
    }

    fn wrong(&self, error: serde_json::Error, field: &serde_path_to_error::Path) -> StoreError {
        let path = self.path.clone();
        match error.classify() {
            Category::Io => match io::Error::from(error) {
                source if source.raw_os_error().is_some() => StoreError::Read(path, source),
                source if source.kind() == ErrorKind::UnexpectedEof => {
                    StoreError::Refused(path, SnapshotRefusal::Truncated)
                }
                source if source.kind() == ErrorKind::FileTooLarge => {
                    StoreError::Refused(path, SnapshotRefusal::TooLarge(self.limit, BYTES))
                }
                source => StoreError::Damaged(path, source),
            },
            Category::Data if field.iter().next().is_none() => StoreError::WrongType(path, error.to_string()),
            Category::Data => StoreError::WrongType(path, format!("{field}: {error}")),
            Category::Syntax | Category::Eof => StoreError::NotJson(path, error),
        }
    }
}

fn open(path: &Path, limit: u64) -> io::Result<(Box<dyn Rewindable>, u64)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((Box::new(file), metadata.len())) } else { in_memory(file, limit) }
}

/// The bytes of a source that cannot be rewound.
fn in_memory(source: impl Read, limit: u64) -> io::Result<(Box<dyn Rewindable>, u64)> {
    let mut metered = Metered::new(source, limit);
    let mut bytes = Vec::new();
    metered.read_to_end(&mut bytes)?;
    Ok((Box::new(Cursor::new(bytes)), metered.bytes))
}

/// A source that reports progress while it is read.
struct CountedBytes<'s> {
    source: &'s mut dyn Rewindable,
    progress: &'s Progress,
}

impl Read for CountedBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.progress.advance(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }
}
