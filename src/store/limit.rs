//! Limits on bytes, threads and cgroups.

use std::io::{self, ErrorKind, Read, Write};

/// What a limit on bytes counts.
pub(super) const BYTES: &str = "bytes uncompressed";

/// Maximum number of threads, and of cgroups, in a snapshot of at most `limit` bytes. In memory, each
/// takes up to twice this size even if its text is short.
pub(super) fn max_threads(limit: u64) -> usize {
    const BYTES_PER_THREAD: u64 = 1024;
    usize::try_from(limit / BYTES_PER_THREAD).unwrap_or(usize::MAX)
}

/// A reader or writer that counts its bytes, and fails with [`ErrorKind::FileTooLarge`] above `limit`.
pub(super) struct Metered<T> {
    pub(super) inner: T,
    pub(super) bytes: u64,
    limit: u64,
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
