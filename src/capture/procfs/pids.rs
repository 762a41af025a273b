//! The processes to capture.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::CaptureError;
use super::super::options::Options;
use super::directory::{ProcDirectory, is_gone};
use super::text;
use crate::model::ThreadId;

/// The processes to read, ascending: the selected ones, or all.
pub(in crate::capture) fn to_read(
    options: &Options,
    procfs: &ProcDirectory,
    selected: &SelectedProcesses,
) -> Result<Vec<u32>, CaptureError> {
    if options.pids.is_empty() { all(&options.roots.procfs, procfs) } else { Ok(remaining(selected)) }
}

/// All processes that `procfs`, opened at `path`, lists, ascending.
fn all(path: &Path, procfs: &ProcDirectory) -> Result<Vec<u32>, CaptureError> {
    let pids = procfs.ids().map_err(|errno| CaptureError::NoProcfs(path.to_owned(), errno))?;
    if pids.is_empty() { Err(CaptureError::NoProcesses(path.to_owned())) } else { Ok(pids) }
}

/// The selected processes, ascending, each with a handle that no later process with its id has.
pub(in crate::capture) type SelectedProcesses = BTreeMap<u32, ProcDirectory>;

/// Finds the processes with these ids, which must exist.
pub(in crate::capture) fn selected(
    path: &Path,
    procfs: &ProcDirectory,
    pids: &[u32],
) -> Result<SelectedProcesses, CaptureError> {
    let process = |&pid: &u32| {
        let directory = procfs.directory(&pid.to_string()).map_err(|errno| match is_gone(errno) {
            true => CaptureError::NoSuchProcess(pid, path.to_owned()),
            false => CaptureError::NoAccess(pid, path.to_owned(), errno),
        })?;
        match process_of(&directory).filter(|&tgid| tgid != pid) {
            Some(tgid) => Err(CaptureError::NotAProcess(ThreadId { tgid, tid: pid })),
            None => Ok((pid, directory)),
        }
    };
    pids.iter().map(process).collect()
}

/// Returns the ids of processes that have not exited.
pub(in crate::capture) fn remaining(selected: &SelectedProcesses) -> Vec<u32> {
    selected.iter().filter(|(_, directory)| directory.has("status")).map(|(pid, _)| *pid).collect()
}

/// The process of a procfs directory. Threads also have directories there, which are not listed.
fn process_of(directory: &ProcDirectory) -> Option<u32> {
    let mut buffer = Vec::new();
    let status = directory.read("status", &mut buffer).ok()?;
    let tgid = text::lines(status).find_map(|line| line.strip_prefix(b"Tgid:"))?;
    u32::try_from(text::unsigned(tgid.trim_ascii())?).ok()
}

/// The id of the calling process in `procfs`, which may be of another pid namespace than its system calls.
pub(in crate::capture) fn own(procfs: &ProcDirectory) -> Option<u32> {
    u32::try_from(text::unsigned(&procfs.link("self").ok()?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_ids_are_those_of_processes_that_exist() {
        let dir = tempfile::tempdir().unwrap();
        for (id, status) in [("5", "Name:\tx\nTgid:\t5\nPid:\t5\n"), ("6", "Name:\tx\nTgid:\t5\nPid:\t6\n"), ("8", "")]
        {
            std::fs::create_dir(dir.path().join(id)).unwrap();
            std::fs::write(dir.path().join(id).join("status"), status).unwrap();
        }
        std::os::unix::fs::symlink("77", dir.path().join("self")).unwrap();
        let procfs = ProcDirectory::open(dir.path()).unwrap();
        let chosen = |ids: &[u32]| selected(dir.path(), &procfs, ids);
        assert_eq!(all(dir.path(), &procfs).unwrap(), [5, 6, 8]);
        let two = chosen(&[8, 5, 8]).unwrap();
        assert_eq!(remaining(&two), [5, 8], "one without a readable status can be a process");
        std::fs::remove_dir_all(dir.path().join("5")).unwrap();
        std::fs::create_dir(dir.path().join("5")).unwrap();
        std::fs::write(dir.path().join("5/status"), "Name:\ty\nTgid:\t5\nPid:\t5\n").unwrap();
        assert_eq!(remaining(&two), [8], "a later process with the same id is another one");
        let of_a_thread = chosen(&[5, 6]).err();
        assert!(
            matches!(of_a_thread, Some(CaptureError::NotAProcess(ThreadId { tgid: 5, tid: 6 }))),
            "{of_a_thread:?}"
        );
        assert!(chosen(&[5, 7]).is_err());
        assert_eq!(own(&procfs), Some(77));
    }
}
