//! The processes to capture.

use std::path::Path;

use super::super::CaptureError;
use super::folder::{Folder, IdName};
use super::text;
use crate::model::ThreadId;

/// All processes that `procfs`, opened at `path`, lists; or those in `chosen`, which must exist.
pub(in crate::capture) fn to_capture(path: &Path, procfs: &Folder, chosen: &[u32]) -> Result<Vec<u32>, CaptureError> {
    let mut pids = chosen.to_vec();
    if chosen.is_empty() {
        let listing = procfs.listing(c".").map_err(|errno| CaptureError::no_procfs(path, errno))?;
        listing.ids(&mut Vec::new(), &mut pids).map_err(|errno| CaptureError::no_procfs(path, errno))?;
        if pids.is_empty() {
            return Err(CaptureError::NoProcesses(path.to_owned()));
        }
    }
    pids.sort_unstable();
    pids.dedup();
    for &pid in chosen {
        let opened = procfs.folder(IdName::new(pid).as_c_str());
        let folder = opened.map_err(|errno| CaptureError::of_process(pid, path, errno))?;
        match process_of(&folder) {
            Some(tgid) if tgid != pid => return Err(CaptureError::NotAProcess(ThreadId { tgid, tid: pid })),
            _ => {}
        }
    }
    Ok(pids)
}

/// The process of a procfs directory. Threads also have directories there, which are not listed.
fn process_of(folder: &Folder) -> Option<u32> {
    let mut buffer = Vec::new();
    let status = folder.read(c"status", &mut buffer).ok()?;
    let tgid = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"Tgid:"))?;
    u32::try_from(text::unsigned(tgid.trim_ascii())?).ok()
}

/// The id of the calling process in `procfs`, which may be of another pid namespace than its system calls.
pub(in crate::capture) fn own(procfs: &Folder) -> Option<u32> {
    u32::try_from(text::unsigned(&procfs.link(c"self").ok()?)?).ok()
}
