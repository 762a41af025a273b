//! The directories of a dataset. Symbolic links in it are not followed, so that nothing is written outside of it.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use parquet::file::metadata::ParquetMetaDataReader;

use super::{CAPTURES, ExportError};
use crate::store::{create_directory, names_in};

/// An open directory: it stays the same if its name is replaced by a link.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) fd: OwnedFd,
    /// For messages.
    pub(super) path: PathBuf,
}

const DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_RDONLY).union(OFlag::O_CLOEXEC);

impl Directory {
    /// Opens the directory that the user named, and creates it if necessary.
    pub(super) fn create(path: &Path) -> Result<Self, ExportError> {
        let failed = |source| ExportError::output(path, source);
        let directory = create_directory(path).map_err(failed)?;
        let fd = openat(directory, ".", DIRECTORY, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens a directory in this one, and creates it if necessary.
    pub(super) fn child(&self, name: &str) -> Result<Self, ExportError> {
        let path = self.path.join(name);
        match mkdirat(&self.fd, name, Mode::from_bits_truncate(0o777)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(ExportError::output(&path, errno.into())),
        }
        match openat(self.fd.as_fd(), name, DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path }),
            Err(Errno::ELOOP | Errno::ENOTDIR) => Err(ExportError::NotADirectory(path)),
            Err(errno) => Err(ExportError::output(&path, errno.into())),
        }
    }

    /// The ids of the captures in each file that ctprof wrote here.
    pub(super) fn exported(&self) -> Result<Vec<Vec<String>>, ExportError> {
        let mut exported = Vec::new();
        let names = names_in(&self.fd).map_err(|source| ExportError::output(&self.path, source))?;
        let is_part = |name: &&String| name.starts_with("ctprof-") && name.ends_with(".parquet");
        for name in names.iter().filter(is_part) {
            let captures = self.captures(name);
            exported.push(captures.ok_or_else(|| ExportError::ForeignFile(self.path.join(name)))?);
        }
        exported.sort();
        Ok(exported)
    }

    fn captures(&self, name: &str) -> Option<Vec<String>> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = File::from(openat(self.fd.as_fd(), name, flags, Mode::empty()).ok()?);
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).ok()?;
        let mut pairs = metadata.file_metadata().key_value_metadata()?.iter();
        let ids = pairs.find(|pair| pair.key == CAPTURES)?.value.as_ref()?;
        Some(ids.lines().map(str::to_owned).collect())
    }
}

/// The name of a file with these captures: the same for the same ones.
pub(super) fn part_name(captures: &[&str]) -> String {
    let mut captures = captures.to_vec();
    captures.sort_unstable();
    let hash = blake3::hash(captures.join("\n").as_bytes()).to_hex();
    format!("ctprof-{}.parquet", &hash[..32])
}
