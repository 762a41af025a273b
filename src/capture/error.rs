//! Errors of a capture.

use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::diagnose::{Finding, fix_of_descriptors, why_no_bpf};
use crate::model::{self, CaptureInfo, CtprofParseSummary, NoBpf, SourceFile, ThreadId, dominant};
use crate::process::{self, CannotDrop};

/// Why nothing could be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The procfs root cannot be opened or listed.
    #[error("cannot list processes in {}: {}{}", .0.display(), .1, fix_of_listing(.0, *.1))]
    NoProcfs(PathBuf, Errno),
    /// A directory without processes: not a procfs.
    #[error("{} lists no process; is procfs mounted there?", .0.display())]
    NoProcesses(PathBuf),
    /// A requested process does not exist.
    #[error("no such process: {} ({}/{} does not exist, or the mount option hidepid hides it)", .0, .1.display(), .0)]
    NoSuchProcess(u32, PathBuf),
    /// The directory of a requested process cannot be opened.
    #[error("cannot open {}/{}: {}", .1.display(), .0, .2)]
    NoAccess(u32, PathBuf, Errno),
    /// The BPF engine was requested, and is not available.
    #[error("the BPF engine is not available: {}", without_bpf(.0))]
    NoBpf(Box<Finding>),
    /// The capabilities of the program's file cannot be set aside.
    #[error(transparent)]
    CannotDrop(#[from] CannotDrop),
    /// There is no file descriptor for a file of the host.
    #[error("cannot read the host's settings: {}{}", .0, fix_of_descriptors(*.0))]
    NoDescriptors(Errno),
    /// No thread could be read: the file that failed most often, and why.
    #[error("no thread could be read{}", why_no_thread(.0.as_ref()))]
    NoThreads(Option<(SourceFile, model::Errno)>),
    /// The requested id belongs to a thread.
    #[error("{} is a thread of process {}: use --pid {}", .0.tid, .0.tgid, .0.tgid)]
    NotAProcess(ThreadId),
}

impl CaptureError {
    /// Whether the next capture may find what was missing for this one.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        let (Self::NoProcfs(_, errno) | Self::NoDescriptors(errno)) = self else {
            return matches!(self, Self::NoThreads(_));
        };
        [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::EIO, Errno::EAGAIN].contains(errno)
    }

    /// The error of a capture that BPF was requested for.
    pub(super) fn no_bpf(no_bpf: &NoBpf) -> Self {
        Self::NoBpf(Box::new(finding_without_bpf(no_bpf)))
    }

    /// The error of a capture without threads.
    pub(super) fn no_threads(parse: &CtprofParseSummary) -> Self {
        let concluded = parse.clone().concluded();
        let most = concluded.dominant_read_failure.and_then(|file| {
            let errno = dominant(concluded.read_failures_by_errno.get(&file)?)?.clone();
            Some((file, errno))
        });
        Self::NoThreads(most)
    }
}

/// Why this process cannot use BPF, and the fix.
pub(super) fn finding_without_bpf(no_bpf: &NoBpf) -> Finding {
    let (euid, confined) = (nix::unistd::geteuid().as_raw(), process::is_confined());
    why_no_bpf(no_bpf, CaptureInfo { euid, capabilities: process::held(), confined, ..CaptureInfo::default() })
}

/// How to fix that procfs cannot be listed.
fn fix_of_listing(path: &Path, errno: Errno) -> String {
    match errno {
        Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM => fix_of_descriptors(errno),
        _ => format!("; is procfs mounted there? mount -t proc proc {}", path.display()),
    }
}

/// Returns why no thread could be read, and the fix; empty if all threads exited.
fn why_no_thread(most: Option<&(SourceFile, model::Errno)>) -> String {
    let Some((file, errno)) = most else { return ": all of them have exited".to_owned() };
    match *errno == model::Errno::EMFILE {
        true => format!(": {file}: {}{}", Errno::EMFILE, fix_of_descriptors(Errno::EMFILE)),
        false => format!(": {file}: {errno}"),
    }
}

/// Why, the fix, and the engine that remains.
fn without_bpf(finding: &Finding) -> String {
    let reason = finding.reason().unwrap_or_default();
    let fix = finding.fix.as_ref().map(|fix| format!("{fix}; or ")).unwrap_or_default();
    format!("{reason}. Fix: {fix}use --engine auto, which reads the same values from /proc")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BpfObstacle;

    #[test]
    fn a_lack_of_descriptors_or_memory_may_pass_and_what_is_not_there_does_not() {
        let listing = |errno| CaptureError::NoProcfs("/proc".into(), errno).may_pass();
        let host = |errno| CaptureError::NoDescriptors(errno).may_pass();
        assert_eq!([Errno::ENFILE, Errno::ENOMEM, Errno::EIO].map(listing), [true; 3]);
        assert_eq!([Errno::ENOENT, Errno::EACCES].map(listing), [false; 2]);
        assert!(host(Errno::EMFILE) && CaptureError::NoThreads(None).may_pass());
        assert!(!CaptureError::NoProcesses("/proc".into()).may_pass());
    }

    #[test]
    fn a_capture_that_needs_bpf_fails_with_the_cause_the_fix_and_the_other_engine() {
        let error = CaptureError::no_bpf(&NoBpf::with_detail(BpfObstacle::Seccomp, "EPERM")).to_string();
        let expected = "the BPF engine is not available: a seccomp filter denies bpf(2) (EPERM). Fix: allow bpf(2) in the \
                        seccomp profile of the container, or start it with --security-opt seccomp=unconfined; or use \
                        --engine auto, which reads the same values from /proc";
        assert_eq!(error, expected);
        let error = CaptureError::no_bpf(&BpfObstacle::NoBtf.into()).to_string();
        assert!(error.ends_with("vmlinux. Fix: use --engine auto, which reads the same values from /proc"), "{error}");
    }
}
