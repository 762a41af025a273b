//! Writing: to an unnamed file in the target's directory, which is synced and then gets the target's name.
//! A full disk or a kill keeps the old file. Where the file system has unnamed files, a temporary name exists
//! only at the moment of replacing.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, ErrorKind, IntoInnerError};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::linkat;
use tempfile::{Builder, NamedTempFile};
use zstd::zstd_safe::CParameter;

use super::error::StoreError;
use super::format::SnapshotWriter;
use super::limit::{BYTES, Metered, max_threads};
use super::place::{self, FoundOutput, OutputPlace, through};
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
pub fn is_snapshot_name(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The target of a snapshot, opened before the capture so that a bad path is reported early.
#[derive(Debug)]
pub struct OutputTarget {
    /// For messages, and the name of a new file.
    path: PathBuf,
    output: OutputFile,
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
    /// Replaces a file or a symbolic link in this place. A temporary file is removed through it.
    Replacing(PendingFile, OutputPlace),
    /// Gets a name that no file has.
    New(PendingFile),
}

/// A file that gets its name when it is whole.
#[derive(Debug)]
pub(crate) enum PendingFile {
    /// A file without a name, in the target's directory.
    Unnamed(File),
    /// The same, if the file system has no unnamed files.
    Named(NamedTempFile),
}

impl OutputTarget {
    /// Opens `path`, and replaces an existing file or a symbolic link in its place; `-` is standard output.
    ///
    /// Links of other users, except root, are not followed. `/dev/stdout`, descriptors of this process, FIFOs and
    /// character devices are written to directly.
    ///
    /// # Errors
    /// [`StoreError::Write`] if it cannot be opened.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        Self::opened(path, OutputFile::find(path))
    }

    /// Opens a file in a directory that is open; `path` is for messages.
    pub(crate) fn create_in(folder: &OwnedFd, path: &Path) -> Result<Self, StoreError> {
        let place = OutputPlace::within(folder, path.file_name().unwrap_or_default());
        Self::opened(path, place.and_then(OutputFile::replacing))
    }

    /// Opens `path` for a new file. If a file of that name exists once the snapshot is written, the new
    /// one gets the first free name with `-2`, `-3` … in it.
    ///
    /// # Errors
    /// [`StoreError::Write`] if it cannot be opened.
    pub fn create_new(path: &Path) -> Result<Self, StoreError> {
        Self::opened(path, PendingFile::in_directory_of(path).map(OutputFile::New))
    }

    fn opened(path: &Path, output: io::Result<OutputFile>) -> Result<Self, StoreError> {
        let path = path.to_owned();
        match output {
            Ok(output) => Ok(Self { path, output }),
            Err(error) => Err(StoreError::Write(path, error)),
        }
    }

    /// Writes the snapshot and gives it its name.
    ///
    /// # Errors
    /// [`StoreError::Write`] if that fails, [`StoreError::TooLargeToWrite`] if the snapshot has more than `limit` bytes
    /// before compression, or more threads or cgroups than readers allow. An existing file is kept in all cases.
    pub fn write(self, snapshot: &CtprofSnapshot, limit: u64) -> Result<Written, StoreError> {
        let Self { path, output } = self;
        let snapshot = SnapshotWriter::new(snapshot);
        if let Some((what, max)) = snapshot.too_many(max_threads(limit)) {
            return Err(StoreError::TooLargeToWrite(path, u64::try_from(max).unwrap_or(u64::MAX), what));
        }
        output.write(&path, &snapshot, limit).map_err(|error| match error.kind() {
            // The kernel has such an error, too (EFBIG).
            ErrorKind::FileTooLarge if error.raw_os_error().is_none() => {
                StoreError::TooLargeToWrite(path, limit, BYTES)
            }
            _ => StoreError::Write(path, error),
        })
    }
}

impl OutputFile {
    fn find(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            // As a file, it does not split large writes at newlines.
            return Ok(Self::Stream(File::from(io::stdout().as_fd().try_clone_to_owned()?)));
        }
        match place::find(path)? {
            FoundOutput::File(place) => Self::replacing(place),
            FoundOutput::Folder(_) => Err(ErrorKind::IsADirectory.into()),
            FoundOutput::Stream(file) => Ok(Self::Stream(file)),
        }
    }

    fn replacing(place: OutputPlace) -> io::Result<Self> {
        Ok(Self::Replacing(PendingFile::in_directory_of(&place.path())?, place))
    }

    fn write(self, path: &Path, snapshot: &SnapshotWriter<'_>, limit: u64) -> io::Result<Written> {
        let file = match &self {
            Self::Stream(file) => file,
            Self::Replacing(file, _) | Self::New(file) => file.file(),
        };
        let bytes = encode(snapshot, file, limit)?;
        let path = match self {
            Self::Stream(_) => path.to_owned(),
            Self::Replacing(file, place) => file.publish(&place.path()).map(|()| path.to_owned())?,
            Self::New(file) => file.publish_new(path)?,
        };
        Ok(Written { path, bytes })
    }
}

impl PendingFile {
    /// Starts a file in the directory of `path`, unnamed if possible. Names of threads can be private: files written
    /// by root have mode 0600.
    pub(crate) fn in_directory_of(path: &Path) -> io::Result<Self> {
        let directory = directory(path);
        let mode = if nix::unistd::geteuid().is_root() { 0o600 } else { 0o666 };
        let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        match open(directory, flags, Mode::from_bits_truncate(mode)) {
            Ok(file) => Ok(Self::Unnamed(File::from(file))),
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => named(directory, mode).map(Self::Named),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The file, to write to.
    pub(crate) fn file(&self) -> &File {
        match self {
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file(),
        }
    }

    /// Syncs the file and gives it the name `path`. A file or a symbolic link of that name is replaced.
    pub(crate) fn publish(self, path: &Path) -> io::Result<()> {
        self.file().sync_all()?;
        match self {
            Self::Unnamed(file) => replace(&file, path),
            Self::Named(file) => Ok(file.persist(path).map(drop)?),
        }
    }

    /// Syncs the file, gives it the first free name of `path`, `path` with `-2`, with `-3` …, and returns the name.
    fn publish_new(mut self, path: &Path) -> io::Result<PathBuf> {
        self.file().sync_all()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (stem, extension) = name.strip_suffix(EXTENSION).map_or((&*name, ""), |stem| (stem, EXTENSION));
        let mut candidate = path.to_owned();
        for number in 2.. {
            self = match self.take_name(&candidate) {
                Ok(()) => break,
                Err((error, file)) if error.kind() == ErrorKind::AlreadyExists => file,
                Err((error, _)) => return Err(error),
            };
            candidate = path.with_file_name(format!("{stem}-{number}{extension}"));
        }
        Ok(candidate)
    }

    /// Gives the file a name that no file has; returns it if that fails.
    fn take_name(self, path: &Path) -> Result<(), (io::Error, Self)> {
        match self {
            Self::Unnamed(file) => link(&file, path).map_err(|error| (error, Self::Unnamed(file))),
            Self::Named(file) => match file.persist_noclobber(path) {
                Ok(_) => Ok(()),
                Err(failed) => Err((failed.error, Self::Named(failed.file))),
            },
        }
    }
}

/// A file with this mode, less the umask.
fn named(directory: &Path, mode: u32) -> io::Result<NamedTempFile> {
    hidden().permissions(Permissions::from_mode(mode)).tempfile_in(directory)
}

fn hidden() -> Builder<'static, 'static> {
    let mut hidden = Builder::new();
    hidden.prefix(".ctprof-");
    hidden
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Gives an unnamed file the name `path`; fails if a file has that name.
fn link(file: &File, path: &Path) -> io::Result<()> {
    Ok(linkat(AT_FDCWD, &through(file), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW)?)
}

/// Gives an unnamed file the name `path`, replacing the file that has it.
fn replace(file: &File, path: &Path) -> io::Result<()> {
    match link(file, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        result => return result,
    }
    // linkat(2) cannot replace a file, rename(2) can.
    let hidden = hidden().make_in(directory(path), |hidden| link(file, hidden))?;
    Ok(hidden.persist(path)?)
}

/// Streams the snapshot as JSON through zstd, and returns the number of compressed bytes.
fn encode(snapshot: &SnapshotWriter<'_>, file: &File, limit: u64) -> io::Result<u64> {
    let mut encoder = zstd::Encoder::new(Metered::new(file, u64::MAX), LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.set_parameter(CParameter::HashLog(HASH_LOG))?;
    let mut blocks = BufWriter::with_capacity(BLOCK, Metered::new(encoder, limit));
    snapshot.write(&mut blocks)?;
    let metered = blocks.into_inner().map_err(IntoInnerError::into_error)?;
    Ok(metered.inner.finish()?.bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn without_unnamed_files_existing_files_are_kept_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ctprof.zst");
        let pending = || PendingFile::Named(named(dir.path(), 0o600).unwrap());
        let second = dir.path().join("a-2.ctprof.zst");
        assert_eq!([(); 2].map(|()| pending().publish_new(&path).unwrap()), [path.clone(), second]);
        fs::write(&path, "old").unwrap();
        pending().publish(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn without_unnamed_files_the_umask_counts() {
        let dir = tempfile::tempdir().unwrap();
        let usual = dir.path().join("usual");
        fs::write(&usual, "").unwrap();
        let file = named(dir.path(), 0o666).unwrap();
        let mode = |metadata: fs::Metadata| metadata.permissions().mode() & 0o777;
        assert_eq!(mode(file.as_file().metadata().unwrap()), mode(fs::metadata(usual).unwrap()));
    }
}
