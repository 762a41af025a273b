//! Reading: decompressed and parsed as a stream, never beyond the limit.

use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use serde::de::DeserializeSeed;
use serde_json::error::Category;
use serde_path_to_error::Track;

use super::error::StoreError;
use super::format::{SnapshotReader, SnapshotRefusal};
use super::limit::{Metered, max_threads};
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
    let (head, threads) = load_into(path, limit, &Vec::new(), &Progress::default())?;
    Ok(CtprofSnapshot { head, threads })
}

/// Reads a snapshot without its threads, and these into a collection like `empty`; see [`Stored::load_into`].
///
/// # Errors
/// [`StoreError`], with the path and what is wrong.
pub fn load_into<T: Threads>(
    path: &Path,
    limit: u64,
    empty: &T,
    progress: &Progress,
) -> Result<(SnapshotHead, T), StoreError> {
    Stored::open(path, limit)?.load_into(empty, progress)
}

/// An open snapshot file.
#[derive(Debug)]
pub struct Stored {
    source: InputBytes,
    path: PathBuf,
    limit: u64,
}

#[derive(Debug)]
enum InputBytes {
    File(File),
    /// What cannot be rewound.
    Memory(Cursor<Vec<u8>>),
}

impl Read for InputBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Memory(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for InputBytes {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(to),
            Self::Memory(bytes) => bytes.seek(to),
        }
    }
}

impl Stored {
    /// Opens a snapshot whose JSON has at most `limit` bytes. The path `-` is standard input.
    ///
    /// # Errors
    /// [`StoreError`], with the path and what is wrong.
    pub fn open(path: &Path, limit: u64) -> Result<Self, StoreError> {
        let unreadable = |source| StoreError::Read { path: path.to_owned(), source };
        let source = if path == Path::new("-") {
            InputBytes::Memory(in_memory(io::stdin().lock(), path, limit)?)
        } else {
            let file = File::open(path).map_err(unreadable)?;
            if file.metadata().map_err(unreadable)?.is_file() {
                InputBytes::File(file)
            } else {
                InputBytes::Memory(in_memory(file, path, limit)?)
            }
        };
        Ok(Self { source, path: path.to_owned(), limit })
    }

    /// What precedes the threads: capture, window and host. `None` if ctprof did not write the file, or if it
    /// is damaged.
    pub fn head(&mut self) -> Option<SnapshotHead> {
        let Self { source, path, limit } = self;
        let mut text = SnapshotText { source, path, limit: *limit };
        let form = text.form().ok()?;
        let max = max_threads(text.limit);
        lines::head(text.json(form).ok()?, max)
    }

    /// Reads the snapshot without its threads, and these into a collection like `empty`. If ctprof wrote the
    /// file, only the threads being parsed are in memory beside it. Files of another layout are held
    /// whole. The bytes of the file are counted as they are read.
    ///
    /// # Errors
    /// [`StoreError`], with the path and what is wrong.
    pub fn load_into<T: Threads>(self, empty: &T, progress: &Progress) -> Result<(SnapshotHead, T), StoreError> {
        let Self { source, path, limit } = self;
        if let InputBytes::File(file) = &source {
            let metadata = file.metadata().map_err(|source| StoreError::Read { path: path.clone(), source })?;
            progress.announce(metadata.len());
        }
        SnapshotText { source: Watched { source, progress, counted: 0 }, path: &path, limit }.load(empty)
    }
}

/// A file that reports progress while it is read.
struct Watched<'p> {
    source: InputBytes,
    progress: &'p Progress,
    /// Bytes counted since the start of the file.
    counted: u64,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        let bytes = u64::try_from(read).unwrap_or(u64::MAX);
        self.progress.advance(bytes);
        self.counted += bytes;
        Ok(read)
    }
}

impl Seek for Watched<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.progress.retract(std::mem::take(&mut self.counted));
        self.source.seek(to)
    }
}

/// The bytes of a source that cannot be rewound.
fn in_memory(source: impl Read, path: &Path, limit: u64) -> Result<Cursor<Vec<u8>>, StoreError> {
    let mut bytes = Vec::new();
    let path = path.to_owned();
    match Metered::new(source, limit).read_to_end(&mut bytes) {
        Ok(_) => Ok(Cursor::new(bytes)),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(StoreError::TooLarge { path, limit }),
        Err(source) => Err(StoreError::Read { path, source }),
    }
}

/// How the JSON of a snapshot is stored.
#[derive(Clone, Copy)]
enum Encoding {
    Zstd,
    Plain,
}

/// The bytes of a snapshot.
struct SnapshotText<'p, S> {
    source: S,
    path: &'p Path,
    limit: u64,
}

type Json<'s> = Metered<Box<dyn Read + Send + 's>>;

impl<S: Read + Seek + Send> SnapshotText<'_, S> {
    fn load<T: Threads>(mut self, empty: &T) -> Result<(SnapshotHead, T), StoreError> {
        let form = self.form()?;
        let max = max_threads(self.limit);
        if let Some(read) = lines::read(self.json(form)?, max, empty) {
            return Ok(read);
        }
        let snapshot = self.whole(form, &SnapshotReader::new(max))?;
        let mut threads = empty.first();
        snapshot.threads.into_iter().for_each(|thread| threads.add(thread));
        Ok((snapshot.head, threads))
    }

    fn unreadable(&self, source: io::Error) -> StoreError {
        StoreError::Read { path: self.path.to_owned(), source }
    }

    fn form(&mut self) -> Result<Encoding, StoreError> {
        self.source.rewind().map_err(|error| self.unreadable(error))?;
        let mut start = Vec::new();
        (&mut self.source).take(4).read_to_end(&mut start).map_err(|error| self.unreadable(error))?;
        match start.trim_ascii_start() {
            _ if start.is_empty() => Err(StoreError::Empty(self.path.to_owned())),
            _ if start == ZSTD_MAGIC => Ok(Encoding::Zstd),
            [] | [b'{', ..] => Ok(Encoding::Plain),
            _ => Err(StoreError::NotZstd(self.path.to_owned())),
        }
    }

    /// The JSON from its start.
    fn json(&mut self, form: Encoding) -> Result<Json<'_>, StoreError> {
        self.source.rewind().map_err(|error| self.unreadable(error))?;
        let json: Box<dyn Read + Send> = match form {
            Encoding::Plain => Box::new(&mut self.source),
            Encoding::Zstd => match zstd::Decoder::new(&mut self.source) {
                Ok(decoder) => Box::new(decoder),
                Err(source) => return Err(StoreError::Damaged { path: self.path.to_owned(), source }),
            },
        };
        Ok(Metered::new(json, self.limit))
    }

    /// The sequential reader: one value at a time, in any layout of JSON. Errors name the field.
    fn whole(&mut self, form: Encoding, reader: &SnapshotReader) -> Result<CtprofSnapshot, StoreError> {
        let text = BufReader::with_capacity(BUFFER, self.json(form)?);
        let mut json = serde_json::Deserializer::from_reader(text);
        let mut track = Track::new();
        let snapshot = reader.deserialize(serde_path_to_error::Deserializer::new(&mut json, &mut track));
        // Reading on to the end also checks the frame's checksum.
        let snapshot = snapshot.and_then(|content| json.end().map(|()| content.normalized()));
        drop(json);
        snapshot.map_err(|error| match reader.refusal() {
            Some(refusal) => self.refused(refusal),
            None => self.wrong(error, &track.path()),
        })
    }

    fn refused(&self, refusal: SnapshotRefusal) -> StoreError {
        let path = self.path.to_owned();
        match refusal {
            SnapshotRefusal::NewerFormat(version) => StoreError::NewerFormat { path, version },
            SnapshotRefusal::NoThreads => StoreError::NoThreads(path),
            SnapshotRefusal::TooMany { what, max } => StoreError::TooMany { path, what, max },
        }
    }

    fn wrong(&self, error: serde_json::Error, field: &serde_path_to_error::Path) -> StoreError {
        let (path, limit) = (self.path.to_owned(), self.limit);
        match error.classify() {
            Category::Io => match io::Error::from(error) {
                source if source.raw_os_error().is_some() => StoreError::Read { path, source },
                source if source.kind() == ErrorKind::UnexpectedEof => StoreError::Truncated(path),
                source if source.kind() == ErrorKind::FileTooLarge => StoreError::TooLarge { path, limit },
                source => StoreError::Damaged { path, source },
            },
            Category::Data => StoreError::WrongType { path, field: field.to_string(), reason: error.to_string() },
            Category::Syntax | Category::Eof => {
                StoreError::NotJson { path, line: error.line(), column: error.column(), source: error }
            }
        }
    }
}
