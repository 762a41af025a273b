//! Locks of directories: one recorder, or one export, at a time.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::geteuid;

/// Whoever may read a directory can lock it, so that its owner could not: only the owner can open this file.
const RECORDER: &str = ".ctprof.lock";
#[cfg(feature = "parquet")]
const EXPORT: &str = ".ctprof-export.lock";
/// Maximum length of the text of a process id, in bytes.
const LONGEST_ID: u64 = 20;

/// A directory in which no other process records meanwhile.
pub(super) struct DirectoryLock {
    _file: HeldLock,
}

impl DirectoryLock {
    /// Locks a directory for one writer.
    ///
    /// # Errors
    /// If another process records there, or the lock is a file that another user made.
    pub(super) fn acquire(directory: &OwnedFd) -> io::Result<Self> {
        let file = open(directory, RECORDER)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Self { _file: held(file) }),
            Err((file, Errno::EWOULDBLOCK)) => {
                Err(io::Error::other(format!("{} records there; name another directory", holder(file))))
            }
            Err((_, errno)) => Err(failed(RECORDER, errno.into())),
        }
    }
}

/// A directory to which no other process exports meanwhile.
#[cfg(feature = "parquet")]
pub(crate) struct ExportLock {
    _file: HeldLock,
}

#[cfg(feature = "parquet")]
impl ExportLock {
    /// Locks a directory, after other exports to it.
    ///
    /// # Errors
    /// If somebody else has made what should be the lock.
    pub(crate) fn wait_for(directory: &OwnedFd) -> io::Result<Self> {
        let locked = Flock::lock(open(directory, EXPORT)?, FlockArg::LockExclusiveNonblock);
        let locked = match locked {
            Err((file, Errno::EWOULDBLOCK)) => {
                tracing::warn!("{} writes to the same directory; waiting until it has ended", holder(file));
                Flock::lock(open(directory, EXPORT)?, FlockArg::LockExclusive)
            }
            locked => locked,
        };
        let file = locked.map_err(|(_, errno)| failed(EXPORT, errno.into()))?;
        Ok(Self { _file: held(file) })
    }
}

fn failed(name: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot lock {name} there: {error}"))
}

/// A lock with the id of this process, while that holds it: after that, other programs can hold it.
struct HeldLock(Flock<File>);

impl Drop for HeldLock {
    fn drop(&mut self) {
        let _ = self.0.set_len(0);
    }
}

/// Writes into a lock who holds it. A full disk has no room for that: what is removed under the lock makes some.
fn held(mut file: Flock<File>) -> HeldLock {
    let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
    HeldLock(file)
}

fn open(directory: &OwnedFd, name: &str) -> io::Result<File> {
    open_own(directory, name).map_err(|error| failed(name, error))
}

fn open_own(directory: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = openat(directory, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let (found, of) = (fstat(&file)?, fstat(directory)?);
    let is_regular = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
    let is_of_owner = [geteuid().as_raw(), of.st_uid].contains(&found.st_uid);
    if is_regular && is_of_owner {
        Ok(file.into())
    } else {
        Err(io::Error::other(format!("user {} has made it; remove it, or name another directory", found.st_uid)))
    }
}

/// The process that holds a lock.
fn holder(file: File) -> String {
    let mut id = String::new();
    match file.take(LONGEST_ID).read_to_string(&mut id).ok().and_then(|_| id.parse::<u32>().ok()) {
        Some(id) => format!("process {id}"),
        None => "another program".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use nix::unistd::mkfifo;

    use super::*;

    fn refusal(directory: &OwnedFd) -> Option<String> {
        DirectoryLock::acquire(directory).err().map(|error| error.to_string())
    }

    #[test]
    fn a_second_recorder_says_which_process_records_there_and_who_may_only_read_cannot_lock() {
        let path = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(File::open(path.path()).unwrap());
        let of_reader = Flock::lock(File::open(path.path()).unwrap(), FlockArg::LockExclusive).unwrap();
        let lock = DirectoryLock::acquire(&directory).expect("a lock of the directory itself stops nobody");
        let mode = path.path().join(RECORDER).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let held = format!("process {} records there; name another directory", std::process::id());
        assert_eq!(refusal(&directory), Some(held));
        drop((lock, of_reader));
        assert_eq!(refusal(&directory), None);
    }

    #[test]
    fn a_lock_that_another_program_holds_names_no_process_that_held_it_before() {
        let path = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(File::open(path.path()).unwrap());
        drop(DirectoryLock::acquire(&directory).unwrap());
        let of_other = File::open(path.path().join(RECORDER)).unwrap();
        let _of_other = Flock::lock(of_other, FlockArg::LockExclusive).unwrap();
        assert_eq!(refusal(&directory).as_deref(), Some("another program records there; name another directory"));
    }

    #[test]
    fn a_lock_that_is_no_file_is_refused_at_once() {
        for make in [
            (|lock| symlink("elsewhere", lock).unwrap()) as fn(&std::path::Path),
            |lock| mkfifo(lock, Mode::S_IRWXU).unwrap(),
            |lock| std::fs::create_dir(lock).unwrap(),
        ] {
            let path = tempfile::tempdir().unwrap();
            make(&path.path().join(RECORDER));
            let refused = refusal(&OwnedFd::from(File::open(path.path()).unwrap()));
            assert!(refused.as_deref().is_some_and(|text| text.starts_with("cannot lock .ctprof.lock")), "{refused:?}");
            assert!(!path.path().join("elsewhere").exists());
        }
    }
}
