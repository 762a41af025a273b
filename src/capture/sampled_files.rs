//! The files that sampled threads wait for.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::fcntl::readlink;

use crate::model::{Activity, KernelEntry, Name, ThreadSample, printable};
use crate::process::as_caller;

/// Links that are read per pass, at most: each takes 10 to 30 µs. Threads that are blocked come first.
const MAX_LINKS: usize = 16;
/// Longer paths are left out: samples keep many.
const LONGEST_PATH: usize = 512;

/// Adds the files that the system calls of `samples` work on. `descriptor` says which descriptor that is, if any.
///
/// Nothing is remembered: between two samples, a descriptor can become another file.
pub(crate) fn add_files(samples: &mut [ThreadSample], descriptor: impl Fn(KernelEntry) -> Option<u32>) {
    let mut left = MAX_LINKS;
    for activity in [Activity::Blocked, Activity::Asleep] {
        for sample in samples.iter_mut().filter(|sample| sample.activity == activity) {
            let Some(number) = descriptor(sample.entry) else { continue };
            let Some(rest) = left.checked_sub(1) else { return };
            left = rest;
            sample.object = file(sample.tgid, number);
        }
    }
}

/// Returns the file behind a descriptor of a process: a path that the caller may know, or a kind of file. Connections are not
/// told apart.
fn file(tgid: u32, number: u32) -> Option<Name> {
    let descriptor = format!("/proc/{tgid}/fd/{number}");
    let read = || readlink(descriptor.as_str()).ok().map(PathBuf::from);
    let link = read()?;
    match link.as_os_str().as_bytes() {
        link if link.starts_with(b"socket:[") => Some("socket".into()),
        link if link.len() > LONGEST_PATH => None,
        // With file capabilities: a path can be in a directory that the caller cannot enter.
        link if link.starts_with(b"/") && as_caller(read).ok().flatten().is_none() => None,
        link => Some(printable(link).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_first_links_of_a_pass_are_those_of_blocked_threads() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let sample = |activity, file: i32| {
            let entry = KernelEntry::SystemCall(file.cast_unsigned(), [0; 2]);
            ThreadSample { tgid: std::process::id(), activity, entry, ..ThreadSample::default() }
        };
        let mut samples = vec![sample(Activity::Asleep, socket.as_raw_fd()); MAX_LINKS];
        samples.push(sample(Activity::Blocked, null.as_raw_fd()));
        samples.push(sample(Activity::Running, null.as_raw_fd()));
        add_files(&mut samples, |entry| match entry {
            KernelEntry::SystemCall(number, _) => Some(number),
            _ => None,
        });
        let files: Vec<_> = samples.iter().map(|sample| sample.object.as_deref()).collect();
        let mut expected = vec![Some("socket"); MAX_LINKS - 1];
        expected.extend([None, Some("/dev/null"), None]);
        assert_eq!(files, expected);
    }
}
