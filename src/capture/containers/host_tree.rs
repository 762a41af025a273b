//! Files of the host's programs, opened below the root of its file system.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{Mode, SFlag, fstat};

use super::super::options::{Roots, Tree};

/// Entries of a directory that are looked at, at most.
const MAX_ENTRIES: usize = 1 << 16;

/// The root of the file system that container runtimes of the host use.
pub(super) struct HostTree(OwnedFd);

/// A directory of it, whose files are read without following links.
pub(super) struct HostFolder {
    folder: OwnedFd,
    /// Files of others are not read.
    owner: Option<u32>,
}

impl HostTree {
    /// That of the process 1 where this one has another, or of the tree that the procfs is in.
    pub(super) fn open(roots: &Roots) -> Option<Self> {
        let root = match roots.tree() {
            Tree::Elsewhere => roots.procfs.parent()?.to_owned(),
            Tree::Live if has_own_mounts() => PathBuf::from("/proc/1/root"),
            Tree::Live => PathBuf::from("/"),
        };
        open(&root, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).map(Self).ok()
    }

    /// A directory by its path from the root. The administrator may have moved it, so links are followed within the tree.
    pub(super) fn folder(&self, path: &str) -> Option<HostFolder> {
        let inside = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let folder = open_below(&self.0, Path::new(path), OFlag::O_PATH | OFlag::O_DIRECTORY, inside).ok()?;
        Some(HostFolder { folder, owner: None })
    }
}

/// Whether this process has another mount namespace than the process 1.
fn has_own_mounts() -> bool {
    let namespace = |id: &str| fs::metadata(format!("/proc/{id}/ns/mnt")).map(|namespace| namespace.ino());
    matches!((namespace("self"), namespace("1")), (Ok(own), Ok(first)) if own != first)
}

impl HostFolder {
    /// With files of this user only.
    pub(super) fn owned_by(self, owner: u32) -> Self {
        Self { owner: Some(owner), ..self }
    }

    /// The names of its entries.
    pub(super) fn entries(&self) -> Vec<String> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let folder = open_below(&self.folder, Path::new("."), flags, ResolveFlag::RESOLVE_BENEATH);
        let Ok(folder) = folder.and_then(Dir::from_fd) else { return Vec::new() };
        let names = folder.into_iter().map_while(Result::ok).take(MAX_ENTRIES);
        let names = names.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names.filter(|name| !matches!(&**name, "." | "..")).collect()
    }

    /// The content of a file below it, if that is a file of at most so many bytes, without a link on the way.
    pub(super) fn read(&self, path: &str, limit: u64) -> Option<Vec<u8>> {
        let beneath =
            ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        // A FIFO without a writer would block.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = open_below(&self.folder, Path::new(path), flags, beneath).ok()?;
        let status = fstat(&file).ok()?;
        let is_file = SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
        if !is_file || self.owner.is_some_and(|owner| owner != status.st_uid) {
            return None;
        }
        let mut bytes = Vec::new();
        File::from(file).take(limit + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= limit).then_some(bytes)
    }
}

fn open_below(folder: &OwnedFd, path: &Path, flags: OFlag, resolve: ResolveFlag) -> Result<OwnedFd, Errno> {
    openat2(folder, path, OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve))
}
