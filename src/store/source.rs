//! Reading: decompressed and parsed as a stream, never beyond the limit.

use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read, Seek};
use std::path::Path;

use serde_json::error::Category;

use super::{StoreError, lines, most_threads};
use crate::model::{CtprofSnapshot, Threads, with_most_threads};

const ZSTD_MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
const BUFFER: usize = 128 * 1024;

/// Reads a snapshot that decompresses to at most `limit` bytes. The path `-` is standard input.
///
/// # Errors
/// [`StoreError`], with the path, the operation and what was wrong.
pub fn load(path: &Path, limit: u64) -> Result<CtprofSnapshot, StoreError> {
    let (snapshot, threads) = load_into(path, limit)?;
    Ok(CtprofSnapshot { threads, ..snapshot })
}

/// Reads a snapshot without its threads, and these into a `T`. Of a file that ctprof wrote, only the
/// threads that are being parsed are in memory beside the `T`; a file of another layout is held whole.
///
/// # Errors
/// [`StoreError`], with the path, the operation and what was wrong.
pub fn load_into<T: Threads>(path: &Path, limit: u64) -> Result<(CtprofSnapshot, T), StoreError> {
    let unreadable = |source| StoreError::Read { path: path.to_owned(), source };
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
        parse(Cursor::new(bytes), path, limit)
    } else {
        let file = File::open(path).map_err(unreadable)?;
        parse(file, path, limit)
    }
}

fn parse<T: Threads>(
    mut source: impl Read + Seek + Send,
    path: &Path,
    limit: u64,
) -> Result<(CtprofSnapshot, T), StoreError> {
    let unreadable = |source| StoreError::Read { path: path.to_owned(), source };
    let mut magic = Vec::new();
    (&mut source).take(4).read_to_end(&mut magic).map_err(unreadable)?;
    if magic.is_empty() {
        return Err(StoreError::Empty(path.to_owned()));
    }
    if magic != ZSTD_MAGIC {
        return Err(StoreError::NotZstd(path.to_owned()));
    }
    source.rewind().map_err(unreadable)?;
    let fast = decoder(&mut source, limit).ok().and_then(|text| lines::read(text, most_threads(limit)));
    if let Some(read) = fast {
        return Ok(read);
    }
    source.rewind().map_err(unreadable)?;
    let mut snapshot = with_most_threads(most_threads(limit), || whole(source, limit))
        .map_err(|(error, field)| explained(error, field, path, limit))?;
    snapshot.settle();
    let mut threads = T::default();
    std::mem::take(&mut snapshot.threads).into_iter().for_each(|thread| threads.add(thread));
    Ok((snapshot, threads))
}

fn decoder<R: Read>(source: R, limit: u64) -> io::Result<impl Read + use<R>> {
    Ok(Bounded { inner: zstd::Decoder::new(source)?, left: limit })
}

/// The careful way in: one value at a time, whatever the JSON looks like. An error comes with the
/// field that it is in.
fn whole(source: impl Read, limit: u64) -> Result<CtprofSnapshot, (serde_json::Error, String)> {
    let nowhere = |error| (error, ".".to_owned());
    let decoder = decoder(source, limit).map_err(|error| nowhere(serde_json::Error::io(error)))?;
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(BUFFER, decoder));
    let snapshot = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        (error.into_inner(), field)
    })?;
    // Reading on to the end also checks the frame's checksum.
    json.end().map_err(nowhere)?;
    Ok(snapshot)
}

fn explained(error: serde_json::Error, field: String, path: &Path, limit: u64) -> StoreError {
    let path = path.to_owned();
    match error.classify() {
        Category::Io => match io::Error::from(error) {
            source if source.kind() == ErrorKind::UnexpectedEof => StoreError::Truncated(path),
            source if source.kind() == ErrorKind::FileTooLarge => StoreError::TooLarge { path, limit },
            source => StoreError::Damaged { path, source },
        },
        Category::Data => StoreError::WrongType { path, field, reason: error.to_string() },
        Category::Syntax | Category::Eof => {
            StoreError::NotJson { path, line: error.line(), column: error.column(), source: error }
        }
    }
}

/// A reader that fails once it has given `left` bytes and there are more.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let left = self.left.checked_sub(u64::try_from(read).unwrap_or(u64::MAX));
        self.left = left.ok_or_else(|| io::Error::from(ErrorKind::FileTooLarge))?;
        Ok(read)
    }
}
