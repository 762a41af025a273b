//! Whatever a system call fails with, a recording has no wrong number, takes no living thread for one that exited, and loses
//! nothing without a word.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use ctprof::CtprofSnapshot;

use crate::attacks_support::attacked;
use crate::mixes::load;
use crate::support::{Missing, copy_program, skipped};

/// Processes that live for longer than the recording.
struct Living(Vec<Child>);

impl Drop for Living {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// System calls of a recording, and an error that each can fail with.
const ERRORS: [(&str, &str); 32] = [
    ("bind", "EPERM"),
    ("bpf", "ENOMEM"),
    ("bpf", "EPERM"),
    ("capget", "EPERM"),
    ("capset", "EPERM"),
    ("clone3", "EAGAIN"),
    ("fsync", "EIO"),
    ("getdents64", "EIO"),
    ("getrandom", "ENOSYS"),
    ("ioctl", "ENOTTY"),
    ("linkat", "EPERM"),
    ("lseek", "ESPIPE"),
    ("mmap", "ENOMEM"),
    ("newfstatat", "EACCES"),
    ("openat", "EACCES"),
    ("openat", "EMFILE"),
    ("openat2", "ENOSYS"),
    ("ppoll", "ENOMEM"),
    ("prctl", "EINVAL"),
    ("pread64", "EIO"),
    ("read", "EIO"),
    ("read", "ENOMEM"),
    ("readlink", "EACCES"),
    ("recvmmsg", "ENOBUFS"),
    ("renameat", "EIO"),
    ("sched_getaffinity", "EPERM"),
    ("sched_setscheduler", "EPERM"),
    ("sendto", "ENOBUFS"),
    ("setpriority", "EACCES"),
    ("setsockopt", "EPERM"),
    ("socket", "EACCES"),
    ("statx", "EACCES"),
];

/// Recordings, each of which meets a third of its errors.
const RECORDINGS: [&[&str]; 3] =
    [&["-d", "150ms"], &["-d", "150ms", "--engine", "procfs"], &["--every", "50ms", "-d", "150ms"]];

/// Records while each fifth call from the third on fails.
fn recorded(window: &Path, (call, error): (&str, &str), recording: &[&str]) -> Output {
    let mut strace = Command::new("timeout");
    strace.args(["-s", "KILL", "100", "strace", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e"]);
    strace.arg(format!("inject={call}:error={error}:when=3+5")).arg(attacked()).args(["record", "-q", "-o"]);
    strace.arg(window).args(recording).stdin(Stdio::null()).output().unwrap()
}

/// For how long a process has run, in nanoseconds.
fn run_ns(process: u32) -> u64 {
    let schedstat = fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap();
    schedstat.split_whitespace().next().unwrap().parse().unwrap()
}

/// What is wrong of a recording during which the first process can have run for so long, and the second one slept.
fn wrong(window: &Path, processes: [u32; 2], most_ns: u64) -> Option<String> {
    let CtprofSnapshot { head, threads } = load(window);
    let failures = head.parse_summary.as_ref().map_or(0, |summary| summary.read_failures);
    let is_said = failures > 0 || head.window.as_ref().is_some_and(|window| window.unread > 0 || window.missed > 0);
    for (process, bounds) in processes.into_iter().zip([1..=most_ns, 0..=most_ns]) {
        let Some(thread) = threads.iter().find(|thread| thread.tid == process) else {
            if is_said {
                continue;
            }
            return Some(format!("{process} is missing"));
        };
        let run_ns = thread.metrics.run_time_ns.map(u64::from);
        if thread.span.is_some_and(|span| span.exited) || run_ns.is_some_and(|run_ns| !bounds.contains(&run_ns)) {
            return Some(format!("{process} {:?}: {run_ns:?} of {bounds:?}", thread.span));
        }
    }
    None
}

#[test]
fn an_error_of_any_system_call_makes_no_wrong_number_and_no_false_exit() {
    if Command::new("strace").arg("-V").output().is_err() {
        return skipped(Missing::Tool("strace"));
    }
    let files = tempfile::tempdir().unwrap();
    let started = |name: &str, program: &str, arguments: &[&str]| {
        copy_program(program, files.path().join(name));
        Command::new(files.path().join(name)).args(arguments).stdout(Stdio::null()).spawn().unwrap()
    };
    let living = Living(vec![
        started("for-spin", "/usr/bin/sha256sum", &["/dev/zero"]),
        started("for-nap", "/bin/sleep", &["1000"]),
    ]);
    let processes = [living.0[0].id(), living.0[1].id()];
    let mut found = Vec::new();
    for (number, error) in ERRORS.into_iter().enumerate() {
        let (window, recording) = (files.path().join(number.to_string()), RECORDINGS[number % RECORDINGS.len()]);
        let before = run_ns(processes[0]);
        let done = recorded(&window, error, recording);
        let most_ns = run_ns(processes[0]) - before;
        let said = String::from_utf8_lossy(&done.stderr);
        let what = match done.status.code() {
            Some(0) => wrong(&window, processes, most_ns),
            Some(_) if said.contains("ctprof: ") => None,
            _ => Some(format!("{}: {said}", done.status)),
        };
        found.extend(what.map(|what| format!("{error:?} {recording:?}: {what}")));
    }
    assert!(found.is_empty(), "{} wrong:\n{}", found.len(), found.join("\n"));
}
