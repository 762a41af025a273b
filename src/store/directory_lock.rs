//! One recorder per directory.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::geteuid;

/// Whoever may read a directory can lock it, so that its owner could not: only the owner can open this file.
const NAME: &str = ".ctprof.lock";
/// Of the text of a process id.
const LONGEST_ID: u64 = 20;

/// A directory in which no other process records meanwhile.
pub(super) struct DirectoryLock {
    _file: Flock<File>,
}

impl DirectoryLock {
    /// Locks a directory.
    ///
    /// # Errors
    /// If another process records there, or somebody else has made what should be the lock.
    pub(super) fn of(directory: &OwnedFd) -> io::Result<Self> {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("cannot lock {NAME} there: {error}"));
        let file = open(directory).map_err(failed)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(failed)?;
                Ok(Self { _file: file })
            }
            Err((file, Errno::EWOULDBLOCK)) => Err(is_held(file)),
            Err((_, errno)) => Err(failed(errno.into())),
        }
    }
}

fn open(directory: &OwnedFd) -> io::Result<File> {
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = openat(directory, NAME, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let (found, of) = (fstat(&file)?, fstat(directory)?);
    let is_regular = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
    let is_of_owner = [geteuid().as_raw(), of.st_uid].contains(&found.st_uid);
    if is_regular && is_of_owner {
        Ok(file.into())
    } else {
        Err(io::Error::other(format!("user {} has made it; remove it, or name another directory", found.st_uid)))
    }
}

fn is_held(file: File) -> io::Error {
    let mut id = String::new();
    let holder = match file.take(LONGEST_ID).read_to_string(&mut id).ok().and_then(|_| id.parse::<u32>().ok()) {
        Some(id) => format!("process {id}"),
        None => "another ctprof".to_owned(),
    };
    io::Error::other(format!("{holder} records there; name another directory"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use nix::unistd::mkfifo;

    use super::*;

    fn refusal(directory: &OwnedFd) -> Option<String> {
        DirectoryLock::of(directory).err().map(|error| error.to_string())
    }

    #[test]
    fn a_second_recorder_says_which_process_records_there_and_who_may_only_read_cannot_lock() {
        let path = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(File::open(path.path()).unwrap());
        let of_reader = Flock::lock(File::open(path.path()).unwrap(), FlockArg::LockExclusive).unwrap();
        let lock = DirectoryLock::of(&directory).expect("a lock of the directory itself stops nobody");
        let mode = path.path().join(NAME).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let held = format!("process {} records there; name another directory", std::process::id());
        assert_eq!(refusal(&directory), Some(held));
        drop((lock, of_reader));
        assert_eq!(refusal(&directory), None);
    }

    #[test]
    fn a_lock_that_is_no_file_is_refused_at_once() {
        for make in [
            (|lock| symlink("elsewhere", lock).unwrap()) as fn(&std::path::Path),
            |lock| mkfifo(lock, Mode::S_IRWXU).unwrap(),
            |lock| std::fs::create_dir(lock).unwrap(),
        ] {
            let path = tempfile::tempdir().unwrap();
            make(&path.path().join(NAME));
            let refused = refusal(&OwnedFd::from(File::open(path.path()).unwrap()));
            assert!(refused.as_deref().is_some_and(|text| text.starts_with("cannot lock .ctprof.lock")), "{refused:?}");
            assert!(!path.path().join("elsewhere").exists());
        }
    }
}
