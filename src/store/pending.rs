//! Files that get their name when they are whole. Where the file system has unnamed files, a temporary name exists only at
//! the moment of replacing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, UnlinkatFlags, access, linkat, unlinkat};

use super::place::through;
use crate::sys::rename_new;

/// A file in the directory of an output.
#[derive(Debug)]
pub(crate) struct PendingFile {
    file: File,
    directory: OwnedFd,
    temporary: Option<OsString>,
    lifetime: Lifetime,
}

/// How long a file is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Beyond a crash of the host: it is synced before it gets its name.
    Lasting,
    /// Until the process ends: the file is not synced, because that would take most of the time of writing it.
    Process,
}

impl PendingFile {
    /// Starts a file in this directory, unnamed if possible. Names of threads can be private: files written by root have
    /// mode 0600.
    pub(crate) fn within(directory: OwnedFd) -> io::Result<Self> {
        let mode = Mode::from_bits_truncate(if nix::unistd::geteuid().is_root() { 0o600 } else { 0o666 });
        let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        match openat(&directory, ".", flags, mode) {
            // It is given a name through procfs.
            Ok(file) if access(&through(&file), AccessFlags::F_OK).is_ok() => {
                Ok(Self { file: file.into(), directory, temporary: None, lifetime: Lifetime::Lasting })
            }
            Ok(_) | Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => Self::named(directory, mode),
            Err(errno) => Err(errno.into()),
        }
    }

    fn named(directory: OwnedFd, mode: Mode) -> io::Result<Self> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let (name, file) = temporarily(|name| openat(&directory, name, flags, mode))?;
        Ok(Self { file: file.into(), directory, temporary: Some(name), lifetime: Lifetime::Lasting })
    }

    /// Sets how long the file is needed.
    pub(crate) fn set_lifetime(&mut self, lifetime: Lifetime) {
        self.lifetime = lifetime;
    }

    fn sync(&self) -> io::Result<()> {
        if self.lifetime == Lifetime::Lasting { self.file.sync_all() } else { Ok(()) }
    }

    /// The file, to write to.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file and gives it this name. A file or a symbolic link of that name is replaced.
    pub(crate) fn publish(mut self, name: &OsStr) -> io::Result<()> {
        self.sync()?;
        if self.temporary.is_none() {
            match self.link(name) {
                Err(Errno::EEXIST) => {}
                result => return Ok(result?),
            }
            // linkat(2) cannot replace a file, renameat(2) can.
            self.temporary = Some(temporarily(|temporary| self.link(temporary))?.0);
        }
        let temporary = self.temporary.take().unwrap_or_default();
        renameat(&self.directory, &*temporary, &self.directory, name)
            .inspect_err(|_| self.temporary = Some(temporary))?;
        Ok(())
    }

    /// Syncs the file, gives it the first of these names that no file has, and returns it.
    pub(crate) fn publish_new(mut self, names: impl Iterator<Item = OsString>) -> io::Result<OsString> {
        self.sync()?;
        for name in names {
            match self.take_name(&name) {
                Err(Errno::EEXIST) => {}
                taken => return Ok(taken.map(|()| name)?),
            }
        }
        Err(Errno::EEXIST.into())
    }

    /// Gives the file a name that no file has.
    fn take_name(&mut self, name: &OsStr) -> Result<(), Errno> {
        let Some(temporary) = &self.temporary else { return self.link(name) };
        match rename_new(&self.directory, temporary, name) {
            // NFS cannot do that. The file gets a second name there, and loses the first one when this is dropped.
            Err(Errno::EINVAL) => linkat(&self.directory, &**temporary, &self.directory, name, AtFlags::empty()),
            renamed => renamed.map(|()| self.temporary = None),
        }
    }

    /// Gives an unnamed file a name that no file has.
    fn link(&self, name: &OsStr) -> Result<(), Errno> {
        linkat(AT_FDCWD, &through(&self.file), &self.directory, name, AtFlags::AT_SYMLINK_FOLLOW)
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if let Some(name) = &self.temporary
            && let Err(errno) = unlinkat(&self.directory, &**name, UnlinkatFlags::NoRemoveDir)
        {
            tracing::warn!("cannot remove the temporary file {}: {errno}", name.display());
        }
    }
}

/// Makes something with a temporary name that nothing has.
fn temporarily<T>(make: impl Fn(&OsStr) -> Result<T, Errno>) -> Result<(OsString, T), Errno> {
    loop {
        let name = OsString::from(format!(".ctprof-{:016x}", RandomState::new().hash_one(0)));
        match make(&name) {
            Err(Errno::EEXIST) => {}
            made => return Ok((name, made?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn named(dir: &tempfile::TempDir, mode: u32) -> PendingFile {
        PendingFile::named(File::open(dir).unwrap().into(), Mode::from_bits_truncate(mode)).unwrap()
    }

    #[test]
    fn without_unnamed_files_existing_files_are_kept_too() {
        let dir = tempfile::tempdir().unwrap();
        let names = || ["a", "b"].map(OsString::from).into_iter();
        assert_eq!([(); 2].map(|()| named(&dir, 0o600).publish_new(names()).unwrap()), ["a", "b"]);
        let path = dir.path().join("a");
        fs::write(&path, "old").unwrap();
        let new = named(&dir, 0o600);
        new.file().write_all(b"new").unwrap();
        new.publish("a".as_ref()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        drop(named(&dir, 0o600));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn without_unnamed_files_the_umask_counts() {
        let dir = tempfile::tempdir().unwrap();
        let reference = dir.path().join("reference");
        fs::write(&reference, "").unwrap();
        let mode = |metadata: fs::Metadata| metadata.permissions().mode() & 0o777;
        assert_eq!(mode(named(&dir, 0o666).file().metadata().unwrap()), mode(fs::metadata(reference).unwrap()));
    }
}
