//! Reading: decompressed and parsed as a stream, never beyond the limit.

use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read, Seek};
use std::path::Path;

use serde_json::error::Category;

use super::{StoreError, lines};
use crate::model::CtprofSnapshot;

const ZSTD_MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
const BUFFER: usize = 128 * 1024;

/// Reads a snapshot that decompresses to at most `limit` bytes. The path `-` is standard input.
///
/// # Errors
/// [`StoreError`], with the path, the operation and what was wrong.
pub fn load(path: &Path, limit: u64) -> Result<CtprofSnapshot, StoreError> {
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

fn parse(mut source: impl Read + Seek + Send, path: &Path, limit: u64) -> Result<CtprofSnapshot, StoreError> {
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
    if let Some(mut snapshot) = decoder(&mut source, limit).ok().and_then(lines::read) {
        snapshot.settle();
        return Ok(snapshot);
    }
    source.rewind().map_err(unreadable)?;
    let error = match whole(&mut source, limit) {
        Ok(mut snapshot) => {
            snapshot.settle();
            return Ok(snapshot);
        }
        Err(error) => error,
    };
    let field = || field_of_the_error(&mut source, limit);
    Err(explained(error, field, path, limit))
}

fn decoder<R: Read>(source: R, limit: u64) -> io::Result<impl Read + use<R>> {
    Ok(Bounded { inner: zstd::Decoder::new(source)?, left: limit })
}

fn json<R: Read>(source: R, limit: u64) -> io::Result<serde_json::Deserializer<serde_json::de::IoRead<impl Read>>> {
    let decoder = BufReader::with_capacity(BUFFER, decoder(source, limit)?);
    Ok(serde_json::Deserializer::from_reader(decoder))
}

fn whole(source: impl Read, limit: u64) -> Result<CtprofSnapshot, serde_json::Error> {
    let mut json = json(source, limit).map_err(serde_json::Error::io)?;
    let snapshot = serde::Deserialize::deserialize(&mut json)?;
    // Reading on to the end also checks the frame's checksum.
    json.end()?;
    Ok(snapshot)
}

/// Reads again, this time noting the way to the field where it fails.
fn field_of_the_error(source: &mut (impl Read + Seek), limit: u64) -> Option<String> {
    source.rewind().ok()?;
    let mut json = json(source, limit).ok()?;
    let result: Result<CtprofSnapshot, _> = serde_path_to_error::deserialize(&mut json);
    Some(result.err()?.path().to_string())
}

fn explained(error: serde_json::Error, field: impl FnOnce() -> Option<String>, path: &Path, limit: u64) -> StoreError {
    let path = path.to_owned();
    match error.classify() {
        Category::Io => match io::Error::from(error) {
            source if source.kind() == ErrorKind::UnexpectedEof => StoreError::Truncated(path),
            source if source.kind() == ErrorKind::FileTooLarge => StoreError::TooLarge { path, limit },
            source => StoreError::Damaged { path, source },
        },
        Category::Data => {
            let field = field().unwrap_or_else(|| ".".to_owned());
            StoreError::WrongType { path, field, reason: error.to_string() }
        }
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
