//! Directories of procfs as handles: files opened through a handle belong to the process for which the
//! handle was opened, even after the kernel reuses its id.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::NixPath;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};
use nix::unistd::{AccessFlags, faccessat, read};

use super::text::unsigned;

/// Initial size of a read buffer: larger than any file of a thread on most hosts.
const BUFFER: usize = 16 * 1024;
/// Longer files are cut at this size.
const MAX_FILE: usize = 16 * 1024 * 1024;

pub(crate) struct ProcDirectory(OwnedFd);

/// Files of a numbered directory in an open one, by relative paths: a handle per thread would cost as much
/// as reading a file. Only another thread of the same process could get the same id meanwhile, and only
/// after all other ids were used.
pub(crate) struct Numbered<'f> {
    directory: &'f ProcDirectory,
    path: String,
    start: usize,
}

impl<'f> Numbered<'f> {
    pub(crate) fn new(directory: &'f ProcDirectory, id: u32) -> Self {
        let path = format!("{id}/");
        Self { directory, start: path.len(), path }
    }

    /// The content of a file, in `buffer`.
    pub(crate) fn read<'b>(&mut self, name: &str, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Errno> {
        self.directory.read(self.path_to(name), buffer)
    }

    pub(crate) fn has(&mut self, name: &str) -> bool {
        self.directory.has(self.path_to(name))
    }

    fn path_to(&mut self, name: &str) -> &str {
        self.path.truncate(self.start);
        self.path.push_str(name);
        &self.path
    }
}

impl ProcDirectory {
    /// Returns the inode of the directory.
    pub(crate) fn inode(&self) -> Option<u64> {
        fstat(&self.0).ok().map(|status| status.st_ino)
    }

    /// Opens `path`, for files below it.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).map(Self)
    }

    /// Opens a directory of this one, for files below it.
    pub(crate) fn directory(&self, name: &str) -> Result<Self, Errno> {
        self.open_at(name, OFlag::O_PATH | OFlag::O_DIRECTORY).map(Self)
    }

    /// Opens a file of this directory for reading.
    pub(crate) fn file(&self, name: &str) -> Result<File, Errno> {
        self.open_at(name, OFlag::O_RDONLY).map(File::from)
    }

    pub(crate) fn open_at(&self, name: &(impl NixPath + ?Sized), flags: OFlag) -> Result<OwnedFd, Errno> {
        openat(&self.0, name, flags | OFlag::O_CLOEXEC, Mode::empty())
    }

    /// Returns the status of the file with this name.
    pub(crate) fn stat(&self, name: &str) -> Result<FileStat, Errno> {
        fstatat(&self.0, name, AtFlags::empty())
    }

    /// The entries that are numbers, ascending.
    pub(crate) fn ids(&self) -> Result<Vec<u32>, Errno> {
        let mut ids = Vec::new();
        for entry in Dir::from_fd(self.open_at(".", OFlag::O_RDONLY | OFlag::O_DIRECTORY)?)? {
            let number = unsigned(entry?.file_name().to_bytes());
            ids.extend(number.and_then(|number| u32::try_from(number).ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// The content of a file, in `buffer`.
    pub(crate) fn read<'b>(&self, name: &str, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Errno> {
        let file = self.open_at(name, OFlag::O_RDONLY)?;
        let length = read_whole(&file, buffer)?;
        Ok(&buffer[..length])
    }

    pub(crate) fn link(&self, name: &str) -> Result<Vec<u8>, Errno> {
        readlinkat(&self.0, name).map(OsStringExt::into_vec)
    }

    /// Whether the file is there, as far as that can be told: an error that is not its absence says nothing.
    pub(crate) fn has(&self, name: &str) -> bool {
        !faccessat(self.0.as_fd(), name, AccessFlags::F_OK, AtFlags::empty()).is_err_and(is_gone)
    }
}

/// Whether files of an exited process or thread return this errno.
pub(in crate::capture) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ESRCH)
}

/// Fills `buffer` from its start and returns the length of the content. A short read is the end of the
/// file, because the kernel prints files of a thread as single records (`single_open`).
fn read_whole(file: &OwnedFd, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
    buffer.resize(buffer.len().max(BUFFER), 0);
    let mut length = 0;
    loop {
        match read(file, &mut buffer[length..]) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
            Ok(more) => {
                length += more;
                if length < buffer.len() || length >= MAX_FILE {
                    return Ok(length);
                }
                buffer.resize(length * 2, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_that_are_numbers_are_ids() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["31337", "7", "self", "12a", "+5", "4294967296"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert_eq!(ProcDirectory::open(dir.path()).unwrap().ids(), Ok(vec![7, 31337]));
    }

    #[test]
    fn files_of_numbered_directories_are_found_by_any_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("4294967295")).unwrap();
        for name in ["smaps_rollup", "io"] {
            std::fs::write(dir.path().join("4294967295").join(name), name).unwrap();
        }
        let directory = ProcDirectory::open(dir.path()).unwrap();
        let mut files = Numbered::new(&directory, u32::MAX);
        assert_eq!(files.read("smaps_rollup", &mut Vec::new()), Ok(&b"smaps_rollup"[..]));
        assert_eq!(files.read("io", &mut Vec::new()), Ok(&b"io"[..]));
        assert!(files.has("io") && !files.has("stat"));
    }

    #[test]
    fn a_file_larger_than_the_buffer_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..=255).cycle().take(3 * BUFFER + 7).collect();
        std::fs::write(dir.path().join("large"), &content).unwrap();
        let directory = ProcDirectory::open(dir.path()).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(directory.read("large", &mut buffer).unwrap(), content);
        std::fs::write(dir.path().join("small"), b"x").unwrap();
        assert_eq!(directory.read("small", &mut buffer).unwrap(), b"x");
    }

    #[test]
    fn a_handle_stays_with_its_directory_when_the_name_goes_to_another() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("1"), dir.path().join("2"));
        std::fs::create_dir(&old).unwrap();
        std::fs::write(old.join("stat"), b"first").unwrap();
        let root = ProcDirectory::open(dir.path()).unwrap();
        let handle = root.directory("1").unwrap();
        std::fs::rename(&old, &new).unwrap();
        std::fs::create_dir(&old).unwrap();
        std::fs::write(old.join("stat"), b"second").unwrap();
        assert_eq!(handle.read("stat", &mut Vec::new()).unwrap(), b"first");
    }

    #[test]
    fn started_programs_inherit_no_handle() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("7"), b"").unwrap();
        let root = ProcDirectory::open(dir.path()).unwrap();
        let file = root.file("7").unwrap();
        let same = root.directory(".").unwrap();
        for handle in [root.0.as_fd(), same.0.as_fd(), file.as_fd()] {
            let flags = nix::fcntl::fcntl(handle, nix::fcntl::FcntlArg::F_GETFD).unwrap();
            assert_eq!(flags, nix::libc::FD_CLOEXEC);
        }
        assert!(ProcDirectory::open(&dir.path().join("7")).is_err() && root.directory("7").is_err(), "no directory");
    }

    #[test]
    fn directories_are_told_apart_by_their_inodes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("7")).unwrap();
        let root = ProcDirectory::open(dir.path()).unwrap();
        let inode = |name| root.directory(name).unwrap().inode().unwrap();
        assert!(root.inode() == Some(inode(".")) && inode(".") != inode("7"));
    }
}
