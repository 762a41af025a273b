//! Limits on bytes, values, threads and cgroups.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use memchr::memchr2;

use super::error::SnapshotRefusal;

/// Name of the unit in errors about the number of bytes.
pub(super) const BYTES: &str = "bytes uncompressed";

/// Maximum length of a text in bytes: `MAX_ARG_STRLEN` of `include/uapi/linux/binfmts.h`. The kernel has no longer ones.
const LONGEST_TEXT: usize = 128 << 10;
/// Maximum length of a name in bytes: `PATH_MAX` of `include/uapi/linux/limits.h`, if each byte is written as `\xNN`. A
/// report repeats names in each row.
pub(super) const LONGEST_NAME: usize = 4 * 4096;

/// The refusal of a longer name.
pub(super) const LONG_NAME: SnapshotRefusal = SnapshotRefusal::TooLong(LONGEST_NAME, "a name");
/// Maximum size of an element of a list in memory, without its text, in bytes.
const BYTES_PER_ELEMENT: usize = 48;
/// Additional size of an entry of a map in memory, in bytes: half of the places in the nodes of a tree can be empty.
const BYTES_PER_ENTRY: usize = 80;

/// The memory that is left for what is read of several files.
#[derive(Debug)]
pub struct MemoryBudget(AtomicUsize);

impl MemoryBudget {
    /// Returns a limit for files of at most this many bytes of JSON, alone or together.
    pub fn new(limit: u64) -> Self {
        Self(usize::try_from(limit).unwrap_or(usize::MAX).into())
    }

    /// Returns the bytes that one file may take: half of the rest, because another file may be read at the same time.
    pub(super) fn of_file(&self) -> usize {
        self.0.load(Ordering::Relaxed) / 2
    }

    pub(super) fn take(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Limits of the readers of a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadLimits {
    /// Maximum number of bytes of JSON.
    pub(super) bytes: u64,
    /// Threads that are read one by one.
    pub(super) threads: usize,
    /// Cgroups; also threads that are in memory together.
    pub(super) cgroups: usize,
}

impl ReadLimits {
    /// Returns the limits for at most this many bytes of JSON.
    pub(super) fn new(bytes: u64) -> Self {
        const BYTES_PER_THREAD: usize = 1024;
        const BYTES_PER_CGROUP: usize = 4096;
        let memory = usize::try_from(bytes).unwrap_or(usize::MAX);
        Self { bytes, threads: memory / BYTES_PER_THREAD, cgroups: memory / BYTES_PER_CGROUP }
    }
}

/// Limits what the JSON of a snapshot takes in memory, whatever its fields are: texts, elements of lists and entries of
/// maps are counted before they are parsed. Single values of threads are not, as the number of threads is limited.
pub(super) struct ContentLimit {
    max: usize,
    /// Bytes of memory that the content takes so far.
    bytes: usize,
    /// Length of the text that is being read; `None` outside of texts.
    text: Option<usize>,
    is_escaped: bool,
    depth: usize,
    /// Whether the last text is the key of the threads so far.
    is_key: bool,
    is_in_threads: bool,
    /// Whether its threads are objects in a list, whose number is limited.
    has_list_of_threads: bool,
}

/// The key of the threads.
const THREADS: &[u8] = b"threads";
/// The depth of the fields of a thread.
const DEPTH_OF_FIELDS: usize = 3;

impl ContentLimit {
    /// A part of the limit: reports have more of each value.
    pub(super) fn new(limit: u64) -> Self {
        let (text, is_escaped, is_key, is_in_threads) = Default::default();
        let max = usize::try_from(limit / 4).unwrap_or(usize::MAX).max(LONGEST_TEXT);
        Self { max, bytes: 0, text, is_escaped, depth: 0, is_key, is_in_threads, has_list_of_threads: true }
    }

    /// Returns the limits for a step of a series, which has columns of its threads, as [`ContentLimit::new`] does for a snapshot.
    pub(super) fn of_step(limit: u64) -> Self {
        Self { has_list_of_threads: false, ..Self::new(limit) }
    }

    /// Counts the next bytes.
    pub(super) fn count(&mut self, mut json: &[u8]) -> Result<(), SnapshotRefusal> {
        while !json.is_empty() {
            if let Some(length) = self.text {
                json = self.count_text(length, json)?;
                continue;
            }
            let is_counted = |byte: &u8| matches!(byte, b'"' | b'[' | b'{' | b']' | b'}' | b',' | b':');
            let Some(place) = json.iter().position(is_counted) else { break };
            self.count_outside_of_text(json[place]);
            json = &json[place + 1..];
        }
        let max = self.max;
        if self.bytes > max { Err(SnapshotRefusal::too_large(max, "bytes of values in memory")) } else { Ok(()) }
    }

    /// Counts a part of a text up to the next character that is not only itself, and returns what follows.
    fn count_text<'j>(&mut self, length: usize, json: &'j [u8]) -> Result<&'j [u8], SnapshotRefusal> {
        let plain = if self.is_escaped { 1 } else { memchr2(b'"', b'\\', json).unwrap_or(json.len()) };
        let (plain, rest) = json.split_at(plain);
        self.is_escaped &= plain.is_empty();
        self.is_key &= THREADS.get(length..).is_some_and(|key| key.starts_with(plain));
        let length = length + plain.len();
        if length >= LONGEST_TEXT {
            return Err(SnapshotRefusal::TooLong(LONGEST_TEXT, "a text"));
        }
        self.text = Some(length);
        match rest.split_first() {
            Some((b'"', rest)) => {
                self.is_key &= length == THREADS.len();
                self.bytes += length;
                self.text = None;
                Ok(rest)
            }
            Some((b'\\', rest)) => {
                (self.text, self.is_escaped, self.is_key) = (Some(length + 1), true, false);
                Ok(rest)
            }
            _ => Ok(rest),
        }
    }

    fn count_outside_of_text(&mut self, byte: u8) {
        match byte {
            b'"' => (self.text, self.is_key) = (Some(0), self.depth == 1),
            b'[' | b'{' => {
                self.depth += 1;
                self.is_in_threads |= self.depth == 2 && self.is_key && self.has_list_of_threads;
            }
            b']' | b'}' => {
                self.depth = self.depth.saturating_sub(1);
                self.is_in_threads &= self.depth >= 2;
            }
            _ => {}
        }
        if !self.is_in_threads || self.depth > DEPTH_OF_FIELDS {
            self.bytes += match byte {
                b'[' | b'{' | b',' => BYTES_PER_ELEMENT,
                b':' => BYTES_PER_ENTRY,
                _ => 0,
            };
        }
    }
}

/// Limits the content of what is read.
pub(super) struct LimitedContent<R> {
    pub(super) inner: R,
    pub(super) content: Option<ContentLimit>,
}

impl<R: Read> Read for LimitedContent<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let content = self.content.as_mut().map_or(Ok(()), |content| content.count(&buffer[..read]));
        content.map_err(io::Error::other)?;
        Ok(read)
    }
}

/// A reader or writer that counts its bytes, and fails with [`ErrorKind::FileTooLarge`] above `limit`.
pub(super) struct Metered<T> {
    pub(super) inner: T,
    pub(super) bytes: u64,
    pub(super) limit: u64,
}

impl<T> Metered<T> {
    pub(super) fn new(inner: T, limit: u64) -> Self {
        Self { inner, bytes: 0, limit }
    }

    fn count(&mut self, bytes: usize) -> io::Result<usize> {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if self.bytes > self.limit { Err(ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count(read)
    }
}

impl<W: Write> Write for Metered<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.count(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufWriter;

    use super::*;

    /// Returns the size in memory of this content, read in two parts.
    fn bytes(json: &str, cut: usize) -> usize {
        let mut content = ContentLimit::new(1 << 30);
        let (first, rest) = json.as_bytes().split_at(cut);
        content.count(first).unwrap();
        content.count(rest).unwrap();
        content.bytes
    }

    #[test]
    fn texts_elements_and_entries_take_memory_but_not_the_values_of_threads() {
        for (json, expected) in [
            (r#"{"host":{"load":[1,2]}}"#, 48 + 4 + 80 + 48 + 4 + 80 + 48 + 48),
            (r#"{"threads":[{"tid":1,"cpus":[1,2]}]}"#, 48 + 7 + 80 + 3 + 4 + 48 + 48),
            (r#"{"threads":[{"tid":1}],"a":[1]}"#, 48 + 7 + 80 + 3 + 48 + 1 + 80 + 48),
            // Other keys.
            (r#"{"thread":[{"a":1}]}"#, 48 + 6 + 80 + 48 + 48 + 1 + 80),
            (r#"{"threadz":[{"a":1}]}"#, 48 + 7 + 80 + 48 + 48 + 1 + 80),
            (r#"{"threads2":[{"a":1}]}"#, 48 + 8 + 80 + 48 + 48 + 1 + 80),
            (r#"{"a\"threads":[{"a":1}]}"#, 48 + 10 + 80 + 48 + 48 + 1 + 80),
            (r#"{"a":{"threads":[{"a":1}]}}"#, 48 + 1 + 80 + 48 + 7 + 80 + 48 + 48 + 1 + 80),
        ] {
            (0..=json.len()).for_each(|cut| assert_eq!(bytes(json, cut), expected, "{json} cut at {cut}"));
        }
    }

    #[test]
    fn content_may_take_the_limit_and_no_byte_more() {
        let count = |text: &str| ContentLimit::new(0).count(format!("[{},\"{text}\"]", ",".repeat(2728)).as_bytes());
        let max = 128 << 10;
        assert_eq!(2730 * 48 + 32, max);
        assert_eq!(count(&"a".repeat(32)), Ok(()));
        let refused = SnapshotRefusal::TooLarge(128 << 10, "bytes of values in memory");
        assert_eq!(count(&"a".repeat(33)), Err(refused));
        let text = |length| ContentLimit::new(1 << 30).count(format!("\"{}\"", "a".repeat(length)).as_bytes());
        assert_eq!(text(max - 1), Ok(()));
        assert_eq!(text(max), Err(SnapshotRefusal::TooLong(max, "a text")));
    }

    #[test]
    fn a_file_may_take_half_of_the_memory_that_others_left() {
        let memory = MemoryBudget::new(1000);
        assert_eq!(memory.of_file(), 500);
        memory.take(400);
        assert_eq!(memory.of_file(), 300);
    }

    #[test]
    fn what_is_metered_may_have_the_limit_and_no_byte_more() {
        let read = |limit| Metered::new(&b"abc"[..], limit).read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert_eq!([read(3), read(2)], [Ok(3), Err(ErrorKind::FileTooLarge)]);
        let mut written = Metered::new(BufWriter::new(Vec::new()), 3);
        written.write_all(b"abc").unwrap();
        assert_eq!(written.inner.get_ref(), b"");
        written.flush().unwrap();
        assert_eq!((&written.inner.get_ref()[..], written.bytes), (&b"abc"[..], 3));
    }
}
