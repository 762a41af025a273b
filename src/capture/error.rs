//! Errors of a capture.

use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::model::ThreadId;

/// Why nothing could be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The procfs root cannot be opened or listed.
    #[error("cannot list processes in {}: {errno}; is procfs mounted there? mount -t proc proc {}", path.display(), path.display())]
    NoProcfs {
        /// The root.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// A directory without processes: not a procfs.
    #[error("{} lists no process; is procfs mounted there?", .0.display())]
    NoProcesses(PathBuf),
    /// A requested process does not exist.
    #[error("no such process: {pid} ({}/{pid} does not exist)", path.display())]
    NoSuchProcess {
        /// The id.
        pid: u32,
        /// The root.
        path: PathBuf,
    },
    /// The directory of a requested process cannot be opened.
    #[error("cannot open {}/{pid}: {errno}", path.display())]
    NoAccess {
        /// The id.
        pid: u32,
        /// The root.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// The requested id belongs to a thread.
    #[error("{} is a thread of process {}: ask for --pid {}", .0.tid, .0.tgid, .0.tgid)]
    NotAProcess(ThreadId),
}

impl CaptureError {
    pub(super) fn of_process(pid: u32, path: &Path, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::ENOENT | Errno::ESRCH => Self::NoSuchProcess { pid, path },
            errno => Self::NoAccess { pid, path, errno },
        }
    }

    pub(super) fn no_procfs(path: &Path, errno: Errno) -> Self {
        Self::NoProcfs { path: path.to_owned(), errno }
    }
}
