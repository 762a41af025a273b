//! Directories of procfs as handles: files opened through a handle belong to the process for which the
//! handle was opened, even after the kernel reuses its id.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, readlinkat};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, faccessat, read};

use crate::sys::directory;

/// Initial size of a read buffer: larger than any file of a thread on most hosts.
const BUFFER: usize = 16 * 1024;
/// Longer than an id, a slash and the name of any file of a thread.
const LONGEST_PATH: usize = 32;
/// Longer files are cut at this size.
const MAX_FILE: usize = 16 * 1024 * 1024;

pub(in crate::capture) struct Folder(OwnedFd);

/// The decimal name of an id, NUL-terminated, without an allocation.
pub(in crate::capture) struct IdName([u8; 11]);

impl IdName {
    pub(in crate::capture) fn new(id: u32) -> Self {
        let mut name = [0; 11];
        let mut start = 10;
        let mut rest = id;
        loop {
            start -= 1;
            name[start] = b'0' + u8::try_from(rest % 10).expect("a digit");
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        name.rotate_left(start);
        Self(name)
    }

    pub(in crate::capture) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).expect("ten digits leave room for the NUL")
    }
}

/// Files of a numbered directory in an open one, by relative paths: a handle per thread would cost as much
/// as reading a file. Only another thread of the same process could get the same id meanwhile, and only
/// after all other ids were used.
pub(in crate::capture) struct Numbered<'f> {
    folder: &'f Folder,
    path: [u8; LONGEST_PATH],
    start: usize,
}

impl<'f> Numbered<'f> {
    pub(in crate::capture) fn new(folder: &'f Folder, id: u32) -> Self {
        let mut path = [0; LONGEST_PATH];
        let name = IdName::new(id);
        let digits = name.as_c_str().to_bytes();
        path[..digits.len()].copy_from_slice(digits);
        path[digits.len()] = b'/';
        Self { folder, path, start: digits.len() + 1 }
    }

    /// The content of a file, in `buffer`.
    pub(in crate::capture) fn read<'b>(&mut self, name: &CStr, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Errno> {
        let folder = self.folder;
        folder.read(self.path_to(name), buffer)
    }

    pub(in crate::capture) fn has(&mut self, name: &CStr) -> bool {
        let folder = self.folder;
        folder.has(self.path_to(name))
    }

    fn path_to(&mut self, name: &CStr) -> &CStr {
        let name = name.to_bytes_with_nul();
        self.path[self.start..self.start + name.len()].copy_from_slice(name);
        CStr::from_bytes_until_nul(&self.path).expect("the name brought its NUL")
    }
}

impl Folder {
    /// Opens `path`, for files below it.
    pub(in crate::capture) fn open(path: &Path) -> Result<Self, Errno> {
        open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).map(Self)
    }

    /// Opens a directory of this one, for files below it.
    pub(in crate::capture) fn folder(&self, name: &CStr) -> Result<Self, Errno> {
        self.open_at(name, OFlag::O_PATH | OFlag::O_DIRECTORY).map(Self)
    }

    /// Opens a directory of this one, for files below it and for [`ids`](Self::ids).
    pub(in crate::capture) fn listing(&self, name: &CStr) -> Result<Self, Errno> {
        self.open_at(name, OFlag::O_RDONLY | OFlag::O_DIRECTORY).map(Self)
    }

    fn open_at(&self, name: &CStr, flags: OFlag) -> Result<OwnedFd, Errno> {
        openat(&self.0, name, flags | OFlag::O_CLOEXEC, Mode::empty())
    }

    /// Stores the numeric entries in `ids`, ascending.
    pub(in crate::capture) fn ids(&self, buffer: &mut Vec<u8>, ids: &mut Vec<u32>) -> Result<(), Errno> {
        buffer.resize(buffer.len().max(BUFFER), 0);
        ids.clear();
        directory::numeric_entries(&self.0, buffer, ids)?;
        ids.sort_unstable();
        Ok(())
    }

    /// The content of a file, in `buffer`.
    pub(in crate::capture) fn read<'b>(&self, name: &CStr, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Errno> {
        let file = self.open_at(name, OFlag::O_RDONLY)?;
        let length = read_whole(&file, buffer)?;
        Ok(&buffer[..length])
    }

    pub(in crate::capture) fn link(&self, name: &CStr) -> Result<Vec<u8>, Errno> {
        readlinkat(&self.0, name).map(OsStringExt::into_vec)
    }

    pub(in crate::capture) fn has(&self, name: &CStr) -> bool {
        faccessat(self.0.as_fd(), name, AccessFlags::F_OK, AtFlags::empty()).is_ok()
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
    fn ids_are_spelt_in_decimal() {
        for id in [0, 7, 10, 32768, u32::MAX] {
            assert_eq!(IdName::new(id).as_c_str().to_str().unwrap(), id.to_string());
        }
    }

    #[test]
    fn files_of_numbered_directories_are_found_by_any_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("4294967295")).unwrap();
        for name in ["smaps_rollup", "io"] {
            std::fs::write(dir.path().join("4294967295").join(name), name).unwrap();
        }
        let folder = Folder::open(dir.path()).unwrap();
        let mut files = Numbered::new(&folder, u32::MAX);
        assert_eq!(files.read(c"smaps_rollup", &mut Vec::new()), Ok(&b"smaps_rollup"[..]));
        assert_eq!(files.read(c"io", &mut Vec::new()), Ok(&b"io"[..]));
        assert!(files.has(c"io") && !files.has(c"stat"));
    }

    #[test]
    fn a_file_larger_than_the_buffer_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..=255).cycle().take(3 * BUFFER + 7).collect();
        std::fs::write(dir.path().join("large"), &content).unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(folder.read(c"large", &mut buffer).unwrap(), content);
        std::fs::write(dir.path().join("small"), b"x").unwrap();
        assert_eq!(folder.read(c"small", &mut buffer).unwrap(), b"x");
    }

    #[test]
    fn a_handle_stays_with_its_directory_when_the_name_goes_to_another() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("1"), dir.path().join("2"));
        std::fs::create_dir(&old).unwrap();
        std::fs::write(old.join("stat"), b"first").unwrap();
        let root = Folder::open(dir.path()).unwrap();
        let handle = root.folder(c"1").unwrap();
        std::fs::rename(&old, &new).unwrap();
        std::fs::create_dir(&old).unwrap();
        std::fs::write(old.join("stat"), b"second").unwrap();
        assert_eq!(handle.read(c"stat", &mut Vec::new()).unwrap(), b"first");
    }
}
