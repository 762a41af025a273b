//! Whatever a system call fails with, a recording has no wrong number, takes no living thread for one that exited, and loses
//! nothing without a word.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ctprof::CtprofSnapshot;
use ctprof::model::SourceFile;

use crate::root::attacks_support::{Granted, as_nobody, attacked, copied_for_all, directory};
use crate::root::mixes::load;
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
const RECORDINGS: [&[&str]; 3] = [
    &["record", "-d", "150ms"],
    &["record", "-d", "150ms", "--engine", "procfs"],
    &["record", "--every", "50ms", "-d", "150ms"],
];

/// The first call that fails: before that, the loader of programs and the runtime of Rust make calls of some kinds.
fn first(call: &str) -> u32 {
    match call {
        "mmap" | "newfstatat" | "openat" | "read" => 40,
        "getrandom" | "munmap" | "poll" | "pread64" | "prlimit64" => 3,
        _ => 1,
    }
}

/// Runs this while each fifth call of a kind fails.
fn recorded(mut strace: Command, program: &Path, file: &Path, (call, error): (&str, &str), run: &[&str]) -> Output {
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e"]);
    strace
        .arg(format!("inject={call}:error={error}:when={}+5", first(call)))
        .arg(program)
        .args(run)
        .arg("-q")
        .arg("-o")
        .arg(file);
    strace.stdin(Stdio::null()).output().unwrap()
}

/// `strace`, which is killed if what it traces hangs.
fn strace() -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "100", "strace"]);
    command
}

/// For how long a process has run, in nanoseconds.
fn run_ns(process: u32) -> u64 {
    let schedstat = fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap();
    schedstat.split_whitespace().next().unwrap().parse().unwrap()
}

/// What a run came to.
enum Outcome {
    Complete,
    Counted,
    Refused,
}

/// What a run came to during which the first process can have run for so long, and the second one slept; or what is wrong.
fn outcome(done: &Output, file: &Path, processes: [u32; 2], most_ns: u64) -> Result<Outcome, String> {
    let said = String::from_utf8_lossy(&done.stderr);
    match done.status.code() {
        Some(0) => {}
        Some(127) if said.contains("error while loading shared libraries") => return Ok(Outcome::Refused),
        Some(_) if said.contains("ctprof: ") && !said.contains("a fault of ctprof") => return Ok(Outcome::Refused),
        _ => return Err(format!("{}: {said}", done.status)),
    }
    let CtprofSnapshot { head, threads } = load(file);
    // Of the files that have what is checked here: of others, some cannot be read on any host.
    let counted = |file: &SourceFile| {
        head.parse_summary.as_ref().is_some_and(|summary| summary.read_failures_by_file.contains_key(file))
    };
    let is_said = [SourceFile::Stat, SourceFile::Schedstat].iter().any(counted)
        || head.window.as_ref().is_some_and(|window| window.unread > 0 || window.missed > 0);
    for (process, bounds) in processes.into_iter().zip([1..=most_ns, 0..=most_ns]) {
        let thread = threads.iter().find(|thread| thread.tid == process);
        let run_ns = thread.and_then(|thread| thread.metrics.run_time_ns).map(u64::from);
        if run_ns.is_none() && !is_said {
            return Err(format!("{process} or its run time is missing"));
        }
        let exited = thread.is_some_and(|thread| thread.span.is_some_and(|span| span.exited));
        if exited || run_ns.is_some_and(|run_ns| !bounds.contains(&run_ns)) {
            return Err(format!("{process} exited: {exited}, ran {run_ns:?} of {bounds:?}"));
        }
    }
    Ok(if is_said { Outcome::Counted } else { Outcome::Complete })
}

/// A process that computes, and one that sleeps.
fn living(files: &Path) -> Living {
    let started = |name: &str, program: &str, arguments: &[&str]| {
        copy_program(program, files.join(name));
        // Other tests need the CPUs more.
        Command::new("nice").arg(files.join(name)).args(arguments).stdout(Stdio::null()).spawn().unwrap()
    };
    Living(vec![
        started("for-spin", "/usr/bin/sha256sum", &["/dev/zero"]),
        started("for-nap", "/bin/sleep", &["infinity"]),
    ])
}

#[test]
fn an_error_of_any_system_call_makes_no_wrong_number_and_no_false_exit() {
    if Command::new("strace").arg("-V").output().is_err() {
        return skipped(Missing::Tool("strace"));
    }
    let files = tempfile::tempdir().unwrap();
    let living = living(files.path());
    let processes = [living.0[0].id(), living.0[1].id()];
    let mut found = Vec::new();
    for (number, error) in ERRORS.into_iter().enumerate() {
        let (window, run) = (files.path().join(number.to_string()), RECORDINGS[number % RECORDINGS.len()]);
        let attempt = || {
            let before = run_ns(processes[0]);
            let done = recorded(strace(), &attacked(), &window, error, run);
            outcome(&done, &window, processes, run_ns(processes[0]) - before)
        };
        // On a busy host, a process may not run in one short window.
        let outcome = attempt().or_else(|_| attempt());
        found.extend(outcome.err().map(|what| format!("{error:?} {run:?}: {what}")));
    }
    assert!(found.is_empty(), "{} wrong:\n{}", found.len(), found.join("\n"));
}

/// The system calls of captures, windows and series that can fail. futex(2) and clock_nanosleep(2) are not among them: libraries
/// end a process in which they fail as the kernel never lets them. Neither is close(2), which closes whatever it returns.
const CALLS: &str = "\
    bind bpf capget capset clock_gettime clone3 faccessat2 fcntl fstatfs fsync get_robust_list getdents64 getpriority \
    getrandom getrusage ioctl linkat lseek madvise mmap munmap newfstatat openat openat2 pipe2 poll ppoll prctl pread64 \
    prlimit64 ptrace read readlink readlinkat recvmmsg rt_sigprocmask sched_getaffinity sched_setscheduler sendto setpriority \
    setsockopt signalfd4 socket write";

/// Without EBADF, with which calls fail of which the program has lost count of its own descriptors.
const ERRNOS: [&str; 11] =
    ["EACCES", "EAGAIN", "EINTR", "EINVAL", "EIO", "EMFILE", "ENOENT", "ENOMEM", "ENOSPC", "ENOSYS", "EPERM"];

/// What meets the errors in turn.
const RUNS: [&[&str]; 5] =
    [RECORDINGS[0], RECORDINGS[1], RECORDINGS[2], &["capture"], &["capture", "--engine", "procfs"]];

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/verification.md");

/// Takes five minutes. `CTPROF_TURN` chooses who runs what with which error.
#[test]
#[ignore = "it is made before a release: UPDATE_ERRORS=1 writes the table in docs/verification.md"]
fn each_error_of_each_system_call_is_an_error_or_counted() {
    let Some(granted) = Granted::new() else { return };
    let turn = std::env::var("CTPROF_TURN").map_or(0, |turn| turn.parse().unwrap());
    let plain = copied_for_all(granted.directory());
    let living = living(granted.directory());
    let processes = [living.0[0].id(), living.0[1].id()];
    let calls: Vec<_> = CALLS.split(' ').collect();
    let files = directory(&granted.directory().join("files"), 0o777);
    let [next, found] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let cells = Mutex::new(vec![String::new(); calls.len() * ERRNOS.len()]);
    let fill = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let (row, column) = (place / ERRNOS.len(), place % ERRNOS.len());
            let Some(call) = calls.get(row) else { return };
            let user = (row + column / 2 + turn) % 3;
            let (strace, program) = match user {
                0 => (strace(), attacked()),
                1 => {
                    let mut command = strace();
                    command.args(["-u", "nobody"]);
                    (command, granted.program.clone())
                }
                _ => {
                    let mut command = as_nobody("timeout");
                    command.args(["-s", "KILL", "100", "strace"]);
                    (command, plain.clone())
                }
            };
            let (run, file) = (RUNS[(row + column + turn) % RUNS.len()], files.join(place.to_string()));
            let before = if run[0] == "record" { run_ns(processes[0]) } else { 0 };
            let done = recorded(strace, &program, &file, (call, ERRNOS[column]), run);
            let letter = match outcome(&done, &file, processes, run_ns(processes[0]) - before) {
                Ok(Outcome::Complete) => "\u{b7}",
                Ok(Outcome::Counted) => "c",
                Ok(Outcome::Refused) => "e",
                // To every program, ENOENT says that a process has exited.
                Err(what) if ERRNOS[column] == "ENOENT" && what.contains("exited: true") => "x",
                Err(what) => {
                    found.fetch_add(1, Ordering::Relaxed);
                    eprintln!("{call} {} {run:?} user {user}: {what}", ERRNOS[column]);
                    "wrong"
                }
            };
            let _ = fs::remove_file(&file);
            letter.clone_into(&mut cells.lock().unwrap()[place]);
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(fill))));
    let cells = cells.into_inner().unwrap();
    let rows = calls.iter().zip(cells.chunks(ERRNOS.len()));
    let rows = rows.map(|(call, cells)| format!("| {call} | {} |\n", cells.join(" | ")));
    let table =
        format!("| | {} |\n|---|{}\n{}", ERRNOS.join(" | "), "---|".repeat(ERRNOS.len()), rows.collect::<String>());
    if std::env::var_os("UPDATE_ERRORS").is_some() {
        let text = fs::read_to_string(TABLE).unwrap();
        let at = text.find("| | EACCES").unwrap();
        let rest = text[at..].find("\n\n").map_or("", |end| &text[at + end + 1..]);
        fs::write(TABLE, format!("{}{table}{rest}", &text[..at])).unwrap();
    }
    assert_eq!(found.into_inner(), 0, "wrong:\n{table}");
}
