//! Writing: to an unnamed file beside the target, synced, then put in the target's place. A full
//! disk or a kill leaves the old file whole and no debris.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::linkat;
use serde::Serialize;
use serde_json::ser::Formatter;
use tempfile::NamedTempFile;

use super::{StoreError, most_threads};
use crate::model::CtprofSnapshot;

const LEVEL: i32 = 3;
const BUFFER: usize = 128 * 1024;

/// A place to write one snapshot to, opened beforehand so that a bad path is found early.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Standard output, a pipe or a device: written to as it is.
    Stream(File),
    /// A file without a name, in the target's directory.
    Unnamed(File),
    /// The same where the file system has no unnamed files.
    Named(NamedTempFile),
}

impl Target {
    /// Opens the place that `path` names; `-` is standard output.
    ///
    /// # Errors
    /// [`StoreError::Write`] if it can't be opened.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let kind = if path == Path::new("-") {
            // As a file it takes large writes without splitting them at newlines.
            io::stdout().as_fd().try_clone_to_owned().map(|fd| Kind::Stream(File::from(fd)))
        } else {
            match fs::metadata(path) {
                Ok(there) if there.is_dir() => Err(io::Error::from(ErrorKind::IsADirectory)),
                Ok(there) if !there.is_file() => OpenOptions::new().write(true).open(path).map(Kind::Stream),
                _ => beside(path),
            }
        };
        let kind = kind.map_err(|source| StoreError::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), kind })
    }

    /// Writes the snapshot and puts it in its place. How many bytes it has there.
    ///
    /// # Errors
    /// [`StoreError::Write`] if that fails, [`StoreError::TooLargeToWrite`] if the snapshot has more
    /// than `limit` bytes before compression. The old file stays in both cases.
    pub fn write(self, snapshot: &CtprofSnapshot, limit: u64) -> Result<u64, StoreError> {
        let Self { path, kind } = self;
        let result = match kind {
            Kind::Stream(file) => encode(snapshot, &file, limit),
            Kind::Unnamed(file) => encode(snapshot, &file, limit).and_then(|bytes| {
                file.sync_all()?;
                name(&file, &path).map(|()| bytes)
            }),
            Kind::Named(file) => encode(snapshot, file.as_file(), limit).and_then(|bytes| {
                file.as_file().sync_all()?;
                file.persist(&path).map(|_| bytes).map_err(|error| error.error)
            }),
        };
        result.map_err(|source| match source.kind() {
            ErrorKind::FileTooLarge => StoreError::TooLargeToWrite { path, limit },
            _ => StoreError::Write { path, source },
        })
    }
}

/// A file in the directory of `path`, unnamed if that can be had. Names of threads can be private:
/// what root writes is for root.
fn beside(path: &Path) -> io::Result<Kind> {
    let directory = directory(path);
    let mode = if nix::unistd::geteuid().is_root() { 0o600 } else { 0o666 };
    let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    match open(directory, flags, Mode::from_bits_truncate(mode)) {
        Ok(file) => Ok(Kind::Unnamed(File::from(file))),
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => {
            NamedTempFile::with_prefix_in(".ctprof-", directory).map(Kind::Named)
        }
        Err(errno) => Err(errno.into()),
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Gives an unnamed file the name `path`, in place of what has it now.
fn name(file: &File, path: &Path) -> io::Result<()> {
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |to: &Path| linkat(AT_FDCWD, unnamed.as_str(), AT_FDCWD, to, AtFlags::AT_SYMLINK_FOLLOW);
    match link(path) {
        Err(Errno::EEXIST) => {}
        result => return result.map_err(Into::into),
    }
    // A link can't replace a file, a rename can.
    let mut hidden = OsString::from(".ctprof-");
    hidden.push(std::process::id().to_string());
    hidden.push(".tmp");
    let hidden = directory(path).join(hidden);
    link(&hidden)?;
    fs::rename(&hidden, path).inspect_err(|_| drop(fs::remove_file(&hidden)))
}

/// Streams the snapshot as JSON through zstd. How many bytes came out.
fn encode(snapshot: &CtprofSnapshot, file: &File, limit: u64) -> io::Result<u64> {
    if snapshot.threads.len() > most_threads(limit) {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let mut encoder = zstd::Encoder::new(Counted { inner: file, bytes: 0 }, LEVEL)?;
    encoder.include_checksum(true)?;
    let bounded = Bounded { inner: encoder, left: limit };
    let mut writer = BufWriter::with_capacity(BUFFER, bounded);
    let mut json = serde_json::Serializer::with_formatter(&mut writer, Lines::default());
    snapshot.serialize(&mut json)?;
    let bounded = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(bounded.inner.finish()?.bytes)
}

/// Compact JSON with a line for each element of the lists at the top: for readers that work line by
/// line, this tool's among them.
#[derive(Default)]
struct Lines {
    /// Lists and objects that are open.
    depth: usize,
}

impl Lines {
    /// The depth in a list at the top.
    const LISTED: usize = 2;

    fn newline<W: Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        if self.depth == Self::LISTED { writer.write_all(b"\n") } else { Ok(()) }
    }
}

impl Formatter for Lines {
    fn begin_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.newline(writer)?;
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.newline(writer)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }
}

struct Counted<'f> {
    inner: &'f File,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += u64::try_from(written).unwrap_or(u64::MAX);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A writer that refuses to take more than `left` bytes.
struct Bounded<W> {
    inner: W,
    left: u64,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        let left = self.left.checked_sub(u64::try_from(written).unwrap_or(u64::MAX));
        self.left = left.ok_or_else(|| io::Error::from(ErrorKind::FileTooLarge))?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
