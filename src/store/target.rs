//! Writing: to an unnamed file in the target's directory, which is synced and then gets the target's name.
//! A full disk or a kill keeps the old file. Where the file system has unnamed files, a temporary name exists
//! only at the moment of replacing.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, ErrorKind, IntoInnerError, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::linkat;
use serde::Serialize;
use serde_json::ser::Formatter;
use tempfile::NamedTempFile;
use zstd::zstd_safe::CParameter;

use super::error::StoreError;
use super::format::SnapshotWriter;
use super::limit::{Metered, max_threads};
use super::place::{self, FoundOutput, OutputPlace};
use crate::model::CtprofSnapshot;

const LEVEL: i32 = 1;
/// Size of the blocks that zstd compresses, in bytes.
const BLOCK: usize = 128 * 1024;
/// Binary logarithm of the number of places that zstd remembers. What repeats is the text of the lines before: with
/// few places, zstd finds it there. With its default, the file of 20,000 threads is 4.7% larger and takes longer.
const HASH_LOG: u32 = 11;

/// The extension of snapshots.
pub const EXTENSION: &str = ".ctprof.zst";

/// How the names of snapshots in directories end: those of ctprof, and plain JSON. Other files are left alone.
pub const ENDINGS: [&str; 2] = [EXTENSION, ".json"];

/// Whether a file in a directory is a snapshot by its name.
#[must_use]
pub fn is_snapshot_name(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The target of a snapshot, opened before the capture so that a bad path is reported early.
#[derive(Debug)]
pub struct Target {
    /// For messages.
    path: PathBuf,
    kind: OutputFile,
    existing: Existing,
    /// Where the file gets its name, if not at `path`. Dropped last: temporary files are removed through it.
    place: Option<OutputPlace>,
}

/// Where a snapshot was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file; `-` for standard output.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub bytes: u64,
}

#[derive(Debug)]
enum OutputFile {
    /// Standard output, a pipe or a device: written to directly.
    Stream(File),
    /// A file without a name, in the target's directory.
    Unnamed(File),
    /// The same, if the file system has no unnamed files.
    Named(NamedTempFile),
}

/// A file that gets its name when it is whole.
#[cfg(feature = "parquet")]
pub(crate) struct PendingFile(OutputFile);

#[cfg(feature = "parquet")]
impl PendingFile {
    /// Starts a file in the directory of `path`.
    pub(crate) fn beside(path: &Path) -> io::Result<Self> {
        beside(path).map(Self)
    }

    /// The file, to write to.
    pub(crate) fn file(&self) -> &File {
        self.0.file()
    }

    /// Syncs the file and gives it the name `path`. A file or a symbolic link of that name is replaced.
    pub(crate) fn publish(self, path: &Path) -> io::Result<()> {
        self.0.publish(path, Existing::Replace).map(drop)
    }
}

/// What to do with an existing file of that name.
#[derive(Clone, Copy, Debug)]
enum Existing {
    Replace,
    Keep,
}

impl Target {
    /// Opens `path`, and replaces an existing file or a symbolic link in its place; `-` is standard output.
    ///
    /// Links of other users, except root, are not followed. `/dev/stdout`, descriptors of this process, FIFOs and
    /// character devices are written to directly.
    ///
    /// # Errors
    /// [`StoreError::Write`] if it cannot be opened.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let kind = if path == Path::new("-") {
            // As a file, it does not split large writes at newlines.
            io::stdout().as_fd().try_clone_to_owned().map(|fd| OutputFile::Stream(File::from(fd)))
        } else {
            match place::find(path) {
                Ok(FoundOutput::File(place)) => return Self::placed(path, place),
                Ok(FoundOutput::Folder(_)) => Err(ErrorKind::IsADirectory.into()),
                Ok(FoundOutput::Stream(file)) => Ok(OutputFile::Stream(file)),
                Err(error) => Err(error),
            }
        };
        Self::opened(path, kind, Existing::Replace)
    }

    /// Opens a file in a directory that is open; `path` is for messages.
    pub(crate) fn create_in(folder: &OwnedFd, path: &Path) -> Result<Self, StoreError> {
        let place = OutputPlace::within(folder, path.file_name().unwrap_or_default());
        Self::placed(path, place.map_err(|source| StoreError::Write { path: path.to_owned(), source })?)
    }

    fn placed(path: &Path, place: OutputPlace) -> Result<Self, StoreError> {
        let target = Self::opened(path, beside(&place.path()), Existing::Replace)?;
        Ok(Self { place: Some(place), ..target })
    }

    /// Opens `path` for a new file. If a file of that name exists once the snapshot is written, the new
    /// one gets the first free name with `-2`, `-3` … in it.
    ///
    /// # Errors
    /// [`StoreError::Write`] if it cannot be opened.
    pub fn create_new(path: &Path) -> Result<Self, StoreError> {
        Self::opened(path, beside(path), Existing::Keep)
    }

    fn opened(path: &Path, kind: io::Result<OutputFile>, existing: Existing) -> Result<Self, StoreError> {
        let kind = kind.map_err(|source| StoreError::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), kind, existing, place: None })
    }

    /// Writes the snapshot and gives it its name.
    ///
    /// # Errors
    /// [`StoreError::Write`] if that fails, [`StoreError::TooLargeToWrite`] if the snapshot has more
    /// than `limit` bytes before compression, [`StoreError::TooManyToWrite`] if it has more threads or cgroups than
    /// readers allow. An existing file is kept in all cases.
    pub fn write(self, snapshot: &CtprofSnapshot, limit: u64) -> Result<Written, StoreError> {
        let Self { path, kind, existing, place } = self;
        let snapshot = SnapshotWriter::new(snapshot);
        if let Some((what, max)) = snapshot.too_many(max_threads(limit)) {
            return Err(StoreError::TooManyToWrite { path, what, max });
        }
        let bytes = encode(&snapshot, kind.file(), limit);
        let written = bytes.and_then(|bytes| match &place {
            Some(place) => kind.publish(&place.path(), existing).map(|_| Written { path: path.clone(), bytes }),
            None => Ok(Written { path: kind.publish(&path, existing)?, bytes }),
        });
        written.map_err(|source| match source.kind() {
            // The kernel has such an error, too (EFBIG).
            ErrorKind::FileTooLarge if source.raw_os_error().is_none() => StoreError::TooLargeToWrite { path, limit },
            _ => StoreError::Write { path, source },
        })
    }
}

impl OutputFile {
    fn file(&self) -> &File {
        match self {
            Self::Stream(file) | Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file(),
        }
    }

    /// Gives a written file its name, and returns the name.
    fn publish(self, path: &Path, existing: Existing) -> io::Result<PathBuf> {
        match self {
            Self::Stream(_) => Ok(path.to_owned()),
            Self::Unnamed(file) => {
                file.sync_all()?;
                match existing {
                    Existing::Replace => replace(&file, path).map(|()| path.to_owned()),
                    Existing::Keep => {
                        first_free(path, file, |file, name| link(&file, name).map_err(|error| (error, file)))
                    }
                }
            }
            Self::Named(file) => {
                file.as_file().sync_all()?;
                match existing {
                    Existing::Replace => Ok(file.persist(path).map(|_| path.to_owned())?),
                    Existing::Keep => first_free(path, file, |file, name| {
                        file.persist_noclobber(name).map(drop).map_err(|failed| (failed.error, failed.file))
                    }),
                }
            }
        }
    }
}

/// A file in the directory of `path`, unnamed if possible. Names of threads can be private: files
/// written by root have mode 0600.
fn beside(path: &Path) -> io::Result<OutputFile> {
    let directory = directory(path);
    let mode = if nix::unistd::geteuid().is_root() { 0o600 } else { 0o666 };
    let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    match open(directory, flags, Mode::from_bits_truncate(mode)) {
        Ok(file) => Ok(OutputFile::Unnamed(File::from(file))),
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => named(directory, mode).map(OutputFile::Named),
        Err(errno) => Err(errno.into()),
    }
}

/// A file with this mode, less the umask.
fn named(directory: &Path, mode: u32) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".ctprof-").permissions(Permissions::from_mode(mode)).tempfile_in(directory)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Gives an unnamed file the name `path`; fails if a file has that name.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(AT_FDCWD, unnamed.as_str(), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW)?)
}

/// Gives an unnamed file the name `path`, replacing the file that has it.
fn replace(file: &File, path: &Path) -> io::Result<()> {
    match link(file, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        result => return result,
    }
    // linkat(2) cannot replace a file, rename(2) can.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let hidden = directory(path).join(format!(".ctprof-{}-{number}.tmp", std::process::id()));
    match link(file, &hidden) {
        // A process with this id was killed before it renamed its file.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(&hidden)?;
            link(file, &hidden)?;
        }
        result => result?,
    }
    fs::rename(&hidden, path).inspect_err(|_| drop(fs::remove_file(&hidden)))
}

/// Gives `file` the first free name of `path`, `path` with `-2`, with `-3` …, and returns the name. If
/// `publish` fails, it returns the file.
fn first_free<F>(
    path: &Path,
    mut file: F,
    publish: impl Fn(F, &Path) -> Result<(), (io::Error, F)>,
) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extension) = name.strip_suffix(EXTENSION).map_or((&*name, ""), |stem| (stem, EXTENSION));
    let mut candidate = path.to_owned();
    for number in 2.. {
        match publish(file, &candidate) {
            Ok(()) => break,
            Err((error, returned)) if error.kind() == ErrorKind::AlreadyExists => file = returned,
            Err((error, _)) => return Err(error),
        }
        candidate = path.with_file_name(format!("{stem}-{number}{extension}"));
    }
    Ok(candidate)
}

/// Streams the snapshot as JSON through zstd, and returns the number of compressed bytes.
fn encode(snapshot: &SnapshotWriter<'_>, file: &File, limit: u64) -> io::Result<u64> {
    let mut encoder = zstd::Encoder::new(Metered::new(file, u64::MAX), LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.set_parameter(CParameter::HashLog(HASH_LOG))?;
    let mut blocks = BufWriter::with_capacity(BLOCK, Metered::new(encoder, limit));
    snapshot.serialize(&mut serde_json::Serializer::with_formatter(&mut blocks, Lines::default()))?;
    let metered = blocks.into_inner().map_err(IntoInnerError::into_error)?;
    Ok(metered.inner.finish()?.bytes)
}

/// Compact JSON with one line per element of the top-level lists, so that readers can process lines in
/// parallel.
#[derive(Default)]
struct Lines {
    /// Number of open lists and objects.
    depth: usize,
}

impl Lines {
    /// The depth inside a top-level list.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn a_file_that_a_killed_process_left_prevents_writing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ctprof.zst");
        fs::write(&path, "old").unwrap();
        let stale = |number: u32| dir.path().join(format!(".ctprof-{}-{number}.tmp", std::process::id()));
        (0..1000).for_each(|number| fs::write(stale(number), "stale").unwrap());
        let target = Target::create(&path).unwrap();
        if !matches!(target.kind, OutputFile::Unnamed(_)) {
            return skipped(Missing::Kernel("unnamed files in the temporary directory"));
        }
        target.write(&CtprofSnapshot::default(), 1 << 20).unwrap();
        assert_ne!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1000);
    }

    #[test]
    fn without_unnamed_files_existing_files_are_kept_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ctprof.zst");
        let write = |existing| {
            let kind = named(dir.path(), 0o600).map(OutputFile::Named);
            let target = Target::opened(&path, kind, existing).unwrap();
            target.write(&CtprofSnapshot::default(), 1 << 20).unwrap().path
        };
        let second = dir.path().join("a-2.ctprof.zst");
        let written = [Existing::Keep, Existing::Keep, Existing::Replace].map(write);
        assert_eq!(written, [path.clone(), second, path.clone()]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn without_unnamed_files_the_umask_was_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let usual = dir.path().join("usual");
        fs::write(&usual, "").unwrap();
        let file = named(dir.path(), 0o666).unwrap();
        let mode = |metadata: fs::Metadata| metadata.permissions().mode() & 0o777;
        assert_eq!(mode(file.as_file().metadata().unwrap()), mode(fs::metadata(usual).unwrap()));
    }
}
