//! Files of the host's programs, opened below the root of its file system.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};
use std::sync::Mutex;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{Mode, SFlag, fstat};
use serde::de::DeserializeOwned;

use super::super::options::{Roots, Tree};
use super::super::tally::stored;
use crate::model::{self, HOME_OF_USER};
use crate::process::lock;
use crate::sys::errno;

/// The root of the process 1.
const ROOT_OF_HOST: &str = "/proc/1/root";
/// Entries of a directory that are looked at, at most.
const MAX_ENTRIES: usize = 1 << 16;

/// Failures to read, by error.
pub(super) type Failures = BTreeMap<model::Errno, BTreeSet<String>>;

/// The root of the file system that container runtimes of the host use.
pub(super) struct HostTree {
    root: OwnedFd,
    /// Whether this can be the root of a container instead: nobody may know the mounts of the process 1.
    is_unsure: bool,
    failures: Mutex<Failures>,
}

/// A directory of it, whose files are read without following links.
pub(super) struct HostDirectory<'t> {
    tree: &'t HostTree,
    directory: OwnedFd,
    /// Name of the tree in findings.
    name: String,
    /// Files of others are not read.
    owner: Option<u32>,
}

impl HostTree {
    /// Opens the root of process 1 if it differs from the own root, or the root of the tree with the procfs.
    pub(super) fn open(roots: &Roots) -> Result<Self, Failures> {
        let has_own_mounts = has_own_mounts();
        let (root, name) = match roots.tree() {
            Tree::Elsewhere => (roots.procfs.parent().unwrap_or(&roots.procfs), "/"),
            _ if has_own_mounts == Some(true) => (Path::new(ROOT_OF_HOST), ROOT_OF_HOST),
            _ => (Path::new("/"), "/"),
        };
        let opened = open(root, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty());
        let failed = |errno| Failures::from([(stored(errno), BTreeSet::from([name.to_owned()]))]);
        let is_unsure = roots.tree() != Tree::Elsewhere && has_own_mounts.is_none();
        Ok(Self { root: opened.map_err(failed)?, is_unsure, failures: Mutex::default() })
    }

    /// A directory by its path from the root. The administrator may have moved it, so links are followed within the tree.
    pub(super) fn directory(&self, path: &str) -> Option<HostDirectory<'_>> {
        self.directory_named(path, path.to_owned(), None)
    }

    /// The home directory of a user, with files of that user only. Findings do not have its path, which can be a name.
    pub(super) fn home(&self, path: &str, user: u32) -> Option<HostDirectory<'_>> {
        self.directory_named(path, format!("{HOME_OF_USER} {user}"), Some(user))
    }

    fn directory_named(&self, path: &str, name: String, owner: Option<u32>) -> Option<HostDirectory<'_>> {
        let inside = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let directory = open_below(&self.root, Path::new(path), OFlag::O_PATH | OFlag::O_DIRECTORY, inside);
        let directory = directory.map_err(|errno| self.failed(&name, errno)).ok()?;
        Some(HostDirectory { tree: self, directory, name, owner })
    }

    pub(super) fn failed(&self, name: &str, errno: Errno) {
        let mut failures = lock(&self.failures);
        failures.entry(stored(errno)).or_default().insert(name.to_owned());
    }

    pub(super) fn failures(&self) -> Failures {
        let mut failures = lock(&self.failures).clone();
        if self.is_unsure && failures.remove(&model::Errno::ENOENT).is_some() {
            failures.entry(model::Errno::EACCES).or_default().insert(ROOT_OF_HOST.to_owned());
        }
        failures
    }
}

/// Whether this process has another mount namespace than the process 1; `None` if the kernel does not tell.
fn has_own_mounts() -> Option<bool> {
    let namespace = |id: &str| fs::metadata(format!("/proc/{id}/ns/mnt")).map(|namespace| namespace.ino()).ok();
    Some(namespace("self")? != namespace("1")?)
}

impl HostDirectory<'_> {
    /// The names of its entries.
    pub(super) fn entries(&self) -> Vec<String> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let directory = open_below(&self.directory, Path::new("."), flags, ResolveFlag::RESOLVE_BENEATH);
        let directory = directory.and_then(Dir::from_fd).map_err(|errno| self.tree.failed(&self.name, errno));
        let Ok(directory) = directory else { return Vec::new() };
        let names = directory.into_iter().map_while(Result::ok).take(MAX_ENTRIES);
        let names = names.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names.filter(|name| !matches!(&**name, "." | "..")).collect()
    }

    /// The JSON in a file below it, as [`HostDirectory::read`] reads it.
    pub(super) fn json<T: DeserializeOwned>(&self, path: &str, limit: u64) -> Option<T> {
        let parsed = serde_json::from_slice(&self.read(path, limit)?);
        parsed.map_err(|_| self.tree.failed(&self.name, Errno::EBADMSG)).ok()
    }

    /// The content of a file below it, if that is a file of at most so many bytes, without a link on the way.
    pub(super) fn read(&self, path: &str, limit: u64) -> Option<Vec<u8>> {
        let read = self.try_read(path, limit);
        read.map_err(|errno| (errno != Errno::ENOENT).then(|| self.tree.failed(&self.name, errno))).ok()
    }

    fn try_read(&self, path: &str, limit: u64) -> Result<Vec<u8>, Errno> {
        let beneath =
            ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        // A FIFO without a writer would block.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = open_below(&self.directory, Path::new(path), flags, beneath)?;
        let status = fstat(&file)?;
        let is_file = SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
        if !is_file || self.owner.is_some_and(|owner| owner != status.st_uid) {
            return Err(Errno::EINVAL);
        }
        // Without its size, a file is read in many small parts.
        let size = u64::try_from(status.st_size).unwrap_or(0).min(limit);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        File::from(file).take(limit + 1).read_to_end(&mut bytes).map_err(|error| errno(&error))?;
        if bytes.len() as u64 <= limit { Ok(bytes) } else { Err(Errno::EFBIG) }
    }
}

fn open_below(directory: &OwnedFd, path: &Path, flags: OFlag, resolve: ResolveFlag) -> Result<OwnedFd, Errno> {
    match openat2(directory, path, OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve)) {
        // Linux before 5.6, and services of systemd with DynamicUser=, which filters this system call.
        Err(Errno::ENOSYS) => open_without_links(directory, path, flags),
        opened => opened,
    }
}

/// Opens one part of the path after the other, and follows no link: what `openat2` would have looked up is refused.
fn open_without_links(directory: &OwnedFd, path: &Path, last: OFlag) -> Result<OwnedFd, Errno> {
    let mut parts = path.components().filter(|part| *part != Component::RootDir).peekable();
    let mut opened = None;
    while let Some(part) = parts.next() {
        if part == Component::ParentDir {
            return Err(Errno::EXDEV);
        }
        let flags = if parts.peek().is_some() { OFlag::O_PATH | OFlag::O_DIRECTORY } else { last };
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        opened = Some(openat(opened.as_ref().unwrap_or(directory), part.as_os_str(), flags, Mode::empty())?);
    }
    opened.ok_or(Errno::ENOENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_openat2_files_are_found_and_no_link_is_followed() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("var/lib")).unwrap();
        fs::write(tree.path().join("var/lib/file"), "text").unwrap();
        std::os::unix::fs::symlink("var/lib", tree.path().join("parent")).unwrap();
        std::os::unix::fs::symlink("file", tree.path().join("var/lib/link")).unwrap();
        let root = open(tree.path(), OFlag::O_PATH | OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        let opened = |path: &str| open_without_links(&root, Path::new(path), OFlag::O_RDONLY);
        assert_eq!(std::io::read_to_string(File::from(opened("/var/lib/file").unwrap())).unwrap(), "text");
        assert!(Dir::from_fd(opened(".").unwrap()).is_ok());
        assert_eq!(opened("parent/file").unwrap_err(), Errno::ENOTDIR);
        assert_eq!(opened("var/lib/link").unwrap_err(), Errno::ELOOP);
        assert_eq!(opened("var/../var/lib/file").unwrap_err(), Errno::EXDEV);
        assert_eq!(opened("var/missing").unwrap_err(), Errno::ENOENT);
    }
}
