//! Writing: to a file without a name in the target's directory, which is synced and then gets the target's name. A full disk
//! or a kill keeps the old file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IntoInnerError};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use zstd::zstd_safe::CParameter;

use super::error::StoreError;
use super::format::SnapshotWriter;
use super::limit::{BYTES, Metered, ReadLimits};
use super::pending::{Lifetime, PendingFile};
use super::place::{self, FoundOutput, OutputPlace};
use crate::model::CtprofSnapshot;
use crate::process::check_stdout;

const LEVEL: i32 = 1;
/// Size of the blocks that zstd compresses, in bytes.
const BLOCK: usize = 128 * 1024;
/// Binary logarithm of the number of places that zstd remembers. What repeats is the text of the lines before: with
/// few places, zstd finds it there. With its default, the file of 20,000 threads is 4.7% larger and takes longer.
const HASH_LOG: u32 = 11;

/// The extension of snapshots.
pub const EXTENSION: &str = ".ctprof.zst";

/// Endings of the names of snapshots in directories: ctprof's own, and plain JSON. Files with other endings are ignored.
pub const ENDINGS: [&str; 2] = [EXTENSION, ".json"];

/// Whether a file in a directory is a snapshot by its name.
pub fn is_snapshot_name(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The target of a snapshot, opened before the capture so that a bad path is reported early.
#[derive(Debug)]
pub struct OutputTarget {
    /// Path for messages, and for the name of a new file.
    pub(super) path: PathBuf,
    pub(super) output: OutputFile,
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
pub(super) enum OutputFile {
    /// Standard output, a pipe or a device: written to directly.
    Stream(File),
    /// Replaces a file or a symbolic link of this name.
    Replacing(PendingFile, OsString),
    /// Gets a name that no file has.
    New(PendingFile),
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
    pub(crate) fn create_in(directory: &OwnedFd, path: &Path, lifetime: Lifetime) -> Result<Self, StoreError> {
        let place = OutputPlace::within(directory, path.file_name().unwrap_or_default());
        let mut opened = Self::opened(path, place.and_then(OutputFile::replacing))?;
        if let OutputFile::Replacing(file, _) = &mut opened.output {
            file.set_lifetime(lifetime);
        }
        Ok(opened)
    }

    /// Opens `path` for a new file. If a file of that name exists once the snapshot is written, the new
    /// one gets the first free name with `-2`, `-3` … in it.
    ///
    /// # Errors
    /// [`StoreError::Write`] if it cannot be opened.
    pub fn create_new(path: &Path) -> Result<Self, StoreError> {
        Self::opened(
            path,
            OutputPlace::from_path(path).and_then(|place| PendingFile::within(place.directory)).map(OutputFile::New),
        )
    }

    fn opened(path: &Path, output: io::Result<OutputFile>) -> Result<Self, StoreError> {
        let path = path.to_owned();
        match output {
            Ok(output) => Ok(Self { path, output }),
            Err(error) => Err(StoreError::Write(path, error)),
        }
    }

    /// Whether it replaces what has its name, instead of being written to directly.
    pub(crate) fn is_replacing(&self) -> bool {
        matches!(self.output, OutputFile::Replacing(..))
    }

    /// Writes the snapshot and gives it its name.
    ///
    /// # Errors
    /// [`StoreError::Write`] if that fails, [`StoreError::TooLargeToWrite`] if the snapshot has more than `limit` bytes
    /// before compression, or more threads or cgroups than readers allow. An existing file is kept in all cases.
    pub fn write(self, snapshot: &CtprofSnapshot, limit: u64) -> Result<Written, StoreError> {
        let Self { path, output } = self;
        let snapshot = SnapshotWriter::new(snapshot);
        if let Some((what, max)) = snapshot.too_many(ReadLimits::new(limit)) {
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

    /// Writes something else than a snapshot, and gives it its name. If that fails, an existing file is kept.
    pub(crate) fn write_with(self, write: impl FnOnce(&File) -> io::Result<()>) -> Result<(), StoreError> {
        let Self { path, output } = self;
        let written = write(output.file()).and_then(|()| output.publish(&path));
        written.map(drop).map_err(|error| StoreError::Write(path, error))
    }
}

impl OutputFile {
    fn find(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            check_stdout()?;
            // As a file, it does not split large writes at newlines.
            return Ok(Self::Stream(File::from(io::stdout().as_fd().try_clone_to_owned()?)));
        }
        match place::find(path)? {
            FoundOutput::File(place) => Self::replacing(place),
            FoundOutput::Directory(_) => Err(ErrorKind::IsADirectory.into()),
            FoundOutput::Stream(file) => Ok(Self::Stream(file)),
        }
    }

    fn replacing(place: OutputPlace) -> io::Result<Self> {
        Ok(Self::Replacing(PendingFile::within(place.directory)?, place.name))
    }

    fn write(self, path: &Path, snapshot: &SnapshotWriter<'_>, limit: u64) -> io::Result<Written> {
        let bytes = encode(snapshot, self.file(), limit)?;
        let path = self.publish(path)?;
        Ok(Written { path, bytes })
    }

    pub(super) fn file(&self) -> &File {
        match self {
            Self::Stream(file) => file,
            Self::Replacing(file, _) | Self::New(file) => file.file(),
        }
    }

    /// Gives the file its name, and returns its path.
    pub(super) fn publish(self, path: &Path) -> io::Result<PathBuf> {
        Ok(match self {
            Self::Stream(_) => path.to_owned(),
            Self::Replacing(file, name) => file.publish(&name).map(|()| path.to_owned())?,
            Self::New(file) => path.with_file_name(file.publish_new(free_names(path))?),
        })
    }
}

/// `path`, then `path` with `-2`, with `-3` …
fn free_names(path: &Path) -> impl Iterator<Item = OsString> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (stem, extension) = name.strip_suffix(EXTENSION).map_or((&*name, ""), |stem| (stem, EXTENSION));
    let (first, stem) = (OsString::from(&name), stem.to_owned());
    std::iter::once(first).chain((2..).map(move |number: u64| format!("{stem}-{number}{extension}").into()))
}

/// Streams the snapshot as JSON through zstd, and returns the number of compressed bytes.
fn encode(snapshot: &SnapshotWriter<'_>, file: &File, limit: u64) -> io::Result<u64> {
    let mut encoder = zstd::Encoder::new(Metered::new(file, u64::MAX), LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.set_parameter(CParameter::HashLog(HASH_LOG))?;
    let mut blocks = BufWriter::with_capacity(BLOCK, Metered::new(encoder, limit));
    snapshot.write(&mut blocks, limit)?;
    let metered = blocks.into_inner().map_err(IntoInnerError::into_error)?;
    Ok(metered.inner.finish()?.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_readers_would_refuse_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ctprof.zst");
        let write = |limit| OutputTarget::create(&path).unwrap().write(&CtprofSnapshot::default(), limit);
        assert!(matches!(write(10), Err(StoreError::TooLargeToWrite(refused, 10, BYTES)) if refused == path));
        assert!(!path.exists());
        let written = write(1 << 20).unwrap();
        assert_eq!((&written.path, written.bytes), (&path, path.metadata().unwrap().len()));
    }

    #[test]
    fn snapshots_in_directories_have_one_of_two_endings() {
        let names = ["a.ctprof.zst", "a.json", "a.txt", "json"];
        assert_eq!(names.map(is_snapshot_name), [true, true, false, false]);
    }
}
