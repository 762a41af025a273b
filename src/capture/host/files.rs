//! Files of the host, below the roots of the kernel's file systems.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;

use nix::errno::Errno;

use super::super::error::CaptureError;
use super::super::options::Roots;
use super::super::procfs::directory::ProcDirectory;
use crate::model::printable;
use crate::sys;

/// Reads files of the host. A file that cannot be read leaves its values absent, but for a lack of descriptors: then it
/// is not known what the host has.
pub(crate) struct HostFiles<'r> {
    pub(crate) roots: &'r Roots,
    lacking: OnceLock<Errno>,
}

impl<'r> HostFiles<'r> {
    pub(crate) fn new(roots: &'r Roots) -> Self {
        Self { roots, lacking: OnceLock::new() }
    }

    /// Whether there was a descriptor for every file so far.
    pub(crate) fn check_descriptors(&self) -> Result<(), CaptureError> {
        self.lacking.get().map_or(Ok(()), |&errno| Err(CaptureError::NoDescriptors(errno)))
    }

    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        self.noting(File::open(path))
    }

    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A directory, for many files in it.
    pub(super) fn directory(&self, path: &Path) -> Option<ProcDirectory> {
        self.noting(ProcDirectory::open(path).map_err(io::Error::from)).ok()
    }

    /// The content of a file in a directory, in `buffer`.
    pub(super) fn read_in<'b>(&self, from: &ProcDirectory, name: &str, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        self.noting(from.read(name, buffer).map_err(io::Error::from)).ok()
    }

    /// A file's text without the white space around it.
    pub(crate) fn line(&self, path: &Path) -> Option<String> {
        Some(printable(self.read(path).ok()?.trim_ascii()).into_owned())
    }

    pub(crate) fn line_of_procfs(&self, name: &str) -> Option<String> {
        self.line(&self.roots.procfs.join(name))
    }

    pub(crate) fn line_of_sysfs(&self, name: &str) -> Option<String> {
        self.line(&self.roots.sysfs.join(name))
    }

    pub(crate) fn entries(&self, directory: &Path) -> io::Result<fs::ReadDir> {
        self.noting(fs::read_dir(directory))
    }

    fn noting<T>(&self, opened: io::Result<T>) -> io::Result<T> {
        if let Err(errno @ (Errno::EMFILE | Errno::ENFILE)) = opened.as_ref().map_err(sys::errno) {
            let _ = self.lacking.set(errno);
        }
        opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_an_error_and_a_missing_file_is_not() {
        let roots = Roots::default();
        let files = HostFiles::new(&roots);
        assert!(files.line(Path::new("/nonexistent")).is_none() && files.check_descriptors().is_ok());
        for errno in [Errno::ENFILE, Errno::EMFILE] {
            let files = HostFiles::new(&roots);
            assert!(files.noting(Err::<(), _>(errno.into())).is_err());
            let error = files.check_descriptors().unwrap_err().to_string();
            let advice = error.contains("raise the limit of open files: ulimit -n");
            assert_eq!((error.contains(errno.desc()), advice), (true, errno == Errno::EMFILE), "{error}");
        }
    }
}
