//! Where an output goes: found without following links of other users, and held by its directory, so that it stays
//! the same whatever happens to the path.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open, openat, readlinkat};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

use crate::process::check_stdout;
use crate::sys;

/// Maximum number of links to follow, the same as the kernel's.
const MAX_LINKS: usize = 40;
const HANDLE: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Why an output is not written where its path leads.
#[derive(Debug, thiserror::Error)]
enum RefusedOutput {
    #[error("a symbolic link of user {0} is on the path; name its target instead")]
    LinkOfAnother(u32),
    #[error("it is a FIFO of user {0}")]
    FifoOfAnother(u32),
    #[error("it leads to a file of a process; name the file itself")]
    LinkOfProcfs,
    #[error("it is a block device or a socket")]
    NotWritable,
}

impl From<RefusedOutput> for io::Error {
    fn from(refused: RefusedOutput) -> Self {
        Self::other(refused)
    }
}

/// A name in an open directory.
#[derive(Debug)]
pub(crate) struct OutputPlace {
    pub(crate) directory: OwnedFd,
    pub(crate) name: OsString,
}

/// Place to which a path leads.
pub(crate) enum FoundOutput {
    /// A file, or nothing yet.
    File(OutputPlace),
    Directory(OwnedFd),
    /// A descriptor of this process, a FIFO or a character device: written to directly.
    Stream(File),
}

impl OutputPlace {
    pub(crate) fn within(directory: &OwnedFd, name: &OsStr) -> io::Result<Self> {
        Ok(Self { directory: directory.try_clone()?, name: name.to_owned() })
    }

    /// The place of a file that replaces whatever has its name.
    pub(crate) fn from_path(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(Errno::EISDIR)?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        Ok(Self { directory: directory(parent, WalkPurpose::Directory)?, name: name.to_owned() })
    }
}

/// The path of an open file or directory of this process.
pub(crate) fn through(handle: &impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd()).into()
}

/// Finds the target of an output. A link in its place is replaced, unless root or the caller made it and it leads
/// to something that cannot be replaced.
pub(crate) fn find(path: &Path) -> io::Result<FoundOutput> {
    match (OutputWalk { links: 0, purpose: WalkPurpose::File }).find(path)? {
        FoundOutput::File(_) if path.as_os_str().as_bytes().ends_with(b"/") => Err(Errno::EISDIR.into()),
        found => Ok(found),
    }
}

/// Opens a directory, and creates what is missing of it.
pub(crate) fn create_directory(path: &Path) -> io::Result<OwnedFd> {
    directory(path, WalkPurpose::NewDirectory)
}

fn directory(path: &Path, purpose: WalkPurpose) -> io::Result<OwnedFd> {
    match (OutputWalk { links: 0, purpose }).find(path)? {
        FoundOutput::Directory(directory) => Ok(directory),
        FoundOutput::File(_) | FoundOutput::Stream(_) => Err(ErrorKind::NotADirectory.into()),
    }
}

/// The names in an open directory that are text.
pub(crate) fn names_in(directory: &OwnedFd) -> io::Result<Vec<String>> {
    let listed = Dir::openat(directory, ".", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let names = listed.into_iter().map(|entry| Ok(entry?.file_name().to_str().ok().map(str::to_owned)));
    names.filter_map(Result::transpose).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WalkPurpose {
    File,
    Directory,
    /// Missing directories are created.
    NewDirectory,
}

struct OutputWalk {
    links: usize,
    purpose: WalkPurpose,
}

impl OutputWalk {
    fn find(&mut self, path: &Path) -> io::Result<FoundOutput> {
        if let Some(number) = own_descriptor(path) {
            return stream(number);
        }
        let start = if path.is_absolute() { "/" } else { "." };
        let directory = open(start, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        self.below(directory, path)
    }

    fn below(&mut self, mut directory: OwnedFd, path: &Path) -> io::Result<FoundOutput> {
        let mut rest = path.components();
        while let Some(component) = rest.next() {
            let name = match component {
                Component::Normal(name) => name,
                Component::ParentDir => OsStr::new(".."),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
            };
            let is_last = rest.as_path().as_os_str().is_empty();
            let handle = match openat(&directory, name, HANDLE, Mode::empty()) {
                Err(Errno::ENOENT) if self.purpose == WalkPurpose::NewDirectory => made(&directory, name)?,
                Err(Errno::ENOENT) if is_last && self.purpose == WalkPurpose::File => {
                    return Ok(FoundOutput::File(OutputPlace { directory, name: name.to_owned() }));
                }
                handle => handle?,
            };
            let there = fstat(&handle)?;
            let kind = kind(&there);
            if kind == SFlag::S_IFLNK && is_last && self.purpose == WalkPurpose::File {
                return self.replaced(OutputPlace { directory, name: name.to_owned() }, &handle, &there);
            }
            if kind == SFlag::S_IFLNK {
                return self.follow(directory, &handle, &there, rest.as_path());
            }
            match (kind == SFlag::S_IFDIR, is_last) {
                (true, _) => directory = handle,
                (false, true) => return last(OutputPlace { directory, name: name.to_owned() }, &handle, &there),
                (false, false) => return Err(ErrorKind::NotADirectory.into()),
            }
        }
        Ok(FoundOutput::Directory(directory))
    }

    /// A link in the place of a file.
    fn replaced(&mut self, place: OutputPlace, link: &OwnedFd, there: &FileStat) -> io::Result<FoundOutput> {
        if !is_trusted(there) {
            return Ok(FoundOutput::File(place));
        }
        match self.follow(place.directory.try_clone()?, link, there, Path::new("")) {
            Ok(FoundOutput::File(_)) => Ok(FoundOutput::File(place)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(FoundOutput::File(place)),
            found => found,
        }
    }

    fn follow(&mut self, directory: OwnedFd, link: &OwnedFd, there: &FileStat, rest: &Path) -> io::Result<FoundOutput> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::ELOOP.into());
        }
        if !is_trusted(there) {
            return Err(RefusedOutput::LinkOfAnother(there.st_uid).into());
        }
        if fstatfs(link)?.filesystem_type() == PROC_SUPER_MAGIC {
            return Err(RefusedOutput::LinkOfProcfs.into());
        }
        let to = PathBuf::from(readlinkat(link, "")?);
        let path = if rest.as_os_str().is_empty() { to } else { to.join(rest) };
        if path.is_absolute() { self.find(&path) } else { self.below(directory, &path) }
    }
}

fn kind(there: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(there.st_mode) & SFlag::S_IFMT
}

/// Whether root or the caller made it.
fn is_trusted(there: &FileStat) -> bool {
    there.st_uid == 0 || there.st_uid == nix::unistd::geteuid().as_raw()
}

/// A new directory. Another user may replace it before it is opened: then it is not used. What another process has made meanwhile
/// is looked at like all that was there before.
fn made(directory: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match mkdirat(directory, name, Mode::from_bits_truncate(0o777)) {
        Err(Errno::EEXIST) => return Ok(openat(directory, name, HANDLE, Mode::empty())?),
        made => made?,
    }
    let handle = openat(directory, name, HANDLE | OFlag::O_DIRECTORY, Mode::empty())?;
    let is_own = fstat(&handle)?.st_uid == nix::unistd::geteuid().as_raw();
    if is_own { Ok(handle) } else { Err(Errno::EEXIST.into()) }
}

/// Returns the place of an existing file that is not a link.
fn last(place: OutputPlace, handle: &OwnedFd, there: &FileStat) -> io::Result<FoundOutput> {
    match kind(there) {
        SFlag::S_IFREG => return Ok(FoundOutput::File(place)),
        SFlag::S_IFIFO if !is_trusted(there) => return Err(RefusedOutput::FifoOfAnother(there.st_uid).into()),
        SFlag::S_IFIFO | SFlag::S_IFCHR => {}
        _ => return Err(RefusedOutput::NotWritable.into()),
    }
    // The handle, not the path: what is opened is what was looked at.
    let flags = OFlag::O_WRONLY | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    Ok(FoundOutput::Stream(File::from(open(&through(handle), flags, Mode::empty())?)))
}

/// A descriptor of this process. A path through /proc would open its file again, which a socket cannot, and lose the
/// place in it.
fn stream(number: i32) -> io::Result<FoundOutput> {
    if number == libc::STDOUT_FILENO {
        check_stdout()?;
    }
    let own = sys::duplicate(number)?;
    let mode = OFlag::from_bits_retain(fcntl(&own, FcntlArg::F_GETFL)?) & OFlag::O_ACCMODE;
    if mode == OFlag::O_RDONLY { Err(Errno::EBADF.into()) } else { Ok(FoundOutput::Stream(File::from(own))) }
}

/// The number of a descriptor of this process that a path names.
fn own_descriptor(path: &Path) -> Option<i32> {
    let path = path.to_str()?;
    match path {
        "/dev/stdout" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let directories = ["/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"];
    directories.iter().find_map(|directory| path.strip_prefix(directory))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// The name of the file to which an output goes; `None` for a stream.
    fn file(path: &Path) -> Result<Option<OsString>, io::Error> {
        match find(path)? {
            FoundOutput::File(place) => Ok(Some(place.name)),
            FoundOutput::Stream(_) => Ok(None),
            FoundOutput::Directory(_) => Err(ErrorKind::IsADirectory.into()),
        }
    }

    #[test]
    fn a_link_to_a_file_or_to_nothing_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "").unwrap();
        for (link, target) in [("a", "file"), ("b", "missing"), ("c", "missing/missing")] {
            symlink(target, path(link)).unwrap();
            assert_eq!(file(&path(link)).unwrap(), Some(link.into()), "to {target}");
        }
        symlink(dir.path(), path("d")).unwrap();
        assert_eq!(file(&path("d")).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(file(&path("d/new")).unwrap(), Some("new".into()), "in the directory to which it leads");
    }

    #[test]
    fn as_many_links_are_followed_as_the_kernel_follows() {
        let dir = tempfile::tempdir().unwrap();
        let path = |number: usize| dir.path().join(number.to_string());
        fs::create_dir(path(0)).unwrap();
        (1..=41).for_each(|number| symlink((number - 1).to_string(), path(number)).unwrap());
        for number in [1, 40, 41] {
            let found = file(&path(number).join("new"));
            assert_eq!(found.is_ok(), fs::read_dir(path(number)).is_ok(), "{number} links");
        }
        symlink("circle", dir.path().join("circle")).unwrap();
        let circle = file(&dir.path().join("circle")).unwrap_err();
        assert_eq!(circle.raw_os_error(), Some(Errno::ELOOP as i32));
    }

    #[test]
    fn a_path_of_a_directory_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/");
        assert_eq!(file(&path).unwrap_err().kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn descriptors_of_this_process_are_written_to_if_they_are_open_for_that() {
        let numbers = ["/dev/stdout", "/dev/stderr", "/dev/fd/7", "/proc/self/fd/8", "/dev/fd/x", "/dev/null"];
        let numbers = numbers.map(|path| own_descriptor(Path::new(path)));
        assert_eq!(numbers, [Some(1), Some(2), Some(7), Some(8), None, None]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let new = File::create(&path).unwrap();
        assert_eq!(file(&through(&new)).unwrap(), None);
        let read = File::open(&path).unwrap();
        assert_eq!(file(&through(&read)).unwrap_err().raw_os_error(), Some(Errno::EBADF as i32));
    }

    #[test]
    fn a_directory_that_several_create_at_once_is_there_for_each() {
        let tree = tempfile::tempdir().unwrap();
        let start = std::sync::Barrier::new(4);
        for number in 0..100 {
            let path = tree.path().join(format!("{number}/below"));
            let create = || {
                start.wait();
                create_directory(&path).unwrap();
            };
            std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(create))));
        }
    }
}
