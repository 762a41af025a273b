//! What captures do to the threads of others: they are not interrupted where that can be avoided, and never left stopped.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use ctprof::CtprofSnapshot;
use nix::sys::signal::{Signal, kill};

use crate::alone;
use crate::host::Killed;
use crate::root::attacks_support::{Granted, as_nobody, attacked, finished, id, said};
use crate::support::{Missing, skipped};

const LIMIT: Duration = Duration::from_secs(20);

/// Threads that wait for events, of `attack_threads.c`.
struct Waiting {
    process: Killed,
    lines: Receiver<String>,
}

impl Waiting {
    /// `kind`: `pthread`, or `bare` threads that no library knows.
    fn start(program: &Path, kind: &str, count: usize, user: fn(&Path) -> Command) -> Self {
        let mut command = user(program);
        command.args([kind, &count.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Killed(command.spawn().unwrap());
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(process.0.stdout.take().unwrap());
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let waiting = Self { process, lines };
        let threads = std::iter::from_fn(|| waiting.lines.recv_timeout(LIMIT).ok());
        assert_eq!(threads.take_while(|line| line != "ready").count(), count);
        waiting
    }

    fn id(&self) -> String {
        self.process.0.id().to_string()
    }

    /// How many waits were interrupted since this was asked.
    fn interruptions(&mut self) -> usize {
        self.process.0.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        let lines = std::iter::from_fn(|| Some(self.lines.recv_timeout(LIMIT).expect("a thread does not run")));
        lines.take_while(|line| line != "done").filter(|line| line == "interrupted").count()
    }

    /// Whether a wait is interrupted before `other` ends.
    fn is_interrupted_before(&self, other: &mut Child) -> bool {
        while other.try_wait().unwrap().is_none() {
            if self.lines.recv_timeout(Duration::from_millis(1)).is_ok() {
                return true;
            }
        }
        false
    }

    /// The threads that a tracer has stopped.
    fn stopped(&self) -> Vec<u32> {
        in_state(self.process.0.id(), 't')
    }
}

/// The threads of a process in a state of `stat`.
fn in_state(process: u32, state: char) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let is_in = |path: &Path| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(state))
    };
    threads
        .filter(|thread| is_in(&thread.path()))
        .filter_map(|thread| thread.file_name().to_str()?.parse().ok())
        .collect()
}

fn compile(directory: &Path) -> std::path::PathBuf {
    let program = directory.join("attack_threads");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/attack_threads.c");
    let compiled = Command::new("cc").args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(source).output();
    assert!(compiled.as_ref().is_ok_and(|compiled| compiled.status.success()), "{compiled:?}");
    program
}

fn as_root(program: &Path) -> Command {
    Command::new(program)
}

fn as_user(program: &Path) -> Command {
    as_nobody(program)
}

/// Captures a process by procfs.
fn capture(command: &mut Command, process: &str, snapshot: &Path) {
    command.args(["capture", "-q", "--engine", "procfs", "--smaps", "never", "--pid", process, "-o"]).arg(snapshot);
}

/// Of how many threads the counters are in a snapshot.
fn counted(snapshot: &Path) -> usize {
    let snapshot = CtprofSnapshot::load(snapshot).unwrap();
    let counters = snapshot.threads.iter().filter_map(|thread| thread.metrics.allocated_bytes.as_ref());
    counters.filter(|bytes| bytes.number() > 1_000_000).count()
}

#[test]
fn file_capabilities_stop_no_thread_of_another_user() {
    let _alone = alone();
    let Some(granted) = Granted::new() else { return };
    let snapshot = granted.writable("out").join("snapshot");
    let program = compile(granted.directory());
    for kind in ["bare", "pthread"] {
        let mut waiting = Waiting::start(&program, kind, 50, as_root);
        let mut command = as_nobody(&granted.program);
        capture(&mut command, &waiting.id(), &snapshot);
        let output = finished(&mut command).expect("ctprof hangs");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(waiting.interruptions(), 0, "{kind}: waits of another user's threads were interrupted");
        fs::remove_file(&snapshot).unwrap();
    }
}

#[test]
fn file_capabilities_read_the_threads_of_the_caller() {
    let _alone = alone();
    let Some(granted) = Granted::new() else { return };
    let snapshot = granted.writable("out").join("snapshot");
    let program = compile(granted.directory());
    let waiting = Waiting::start(&program, "pthread", 50, as_user);
    let mut command = as_nobody(&granted.program);
    capture(&mut command, &waiting.id(), &snapshot);
    let output = finished(&mut command).expect("ctprof hangs");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(counted(&snapshot), 50);
}

#[test]
fn waits_for_events_of_the_librarys_threads_are_not_interrupted() {
    let _alone = alone();
    if cfg!(not(target_env = "gnu")) {
        return skipped(Missing::Kernel("glibc, which tells where its threads are"));
    }
    let directory = tempfile::tempdir().unwrap();
    let snapshot = directory.path().join("snapshot");
    let mut waiting = Waiting::start(&compile(directory.path()), "pthread", 50, as_root);
    for _ in 0..10 {
        let mut command = Command::new(attacked());
        capture(&mut command, &waiting.id(), &snapshot);
        let output = finished(&mut command).expect("ctprof hangs");
        assert!(output.status.success(), "{output:?}");
        if counted(&snapshot) == 0 {
            return skipped(Missing::Privilege("reading the memory of other processes"));
        }
        assert_eq!(counted(&snapshot), 50);
    }
    assert_eq!(waiting.interruptions(), 0, "waits in 10 captures of 50 threads");
}

#[test]
fn a_thread_that_the_library_has_not_started_is_paused_and_read() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let snapshot = directory.path().join("snapshot");
    let mut waiting = Waiting::start(&compile(directory.path()), "bare", 50, as_root);
    // On a busy host, some may not stop in time.
    for attempt in 1.. {
        let mut command = Command::new(attacked());
        capture(&mut command, &waiting.id(), &snapshot);
        let output = finished(&mut command).expect("ctprof hangs");
        assert!(output.status.success(), "{output:?}");
        // Other tests rely on that their threads would say so.
        let (counted, interrupted) = (counted(&snapshot), waiting.interruptions());
        if (counted, interrupted) == (50, 50) {
            break;
        }
        assert!(attempt < 5, "{counted} threads read, {interrupted} waits interrupted");
    }
}

#[test]
fn memory_that_a_program_withholds_is_not_waited_for() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (program, snapshot) = (compile(directory.path()), directory.path().join("snapshot"));
    if !Command::new(&program).args(["absent", "0"]).stdin(Stdio::null()).status().unwrap().success() {
        return skipped(Missing::Privilege("userfaultfd"));
    }
    let waiting = Waiting::start(&program, "absent", 3, as_root);
    let mut command = Command::new(attacked());
    capture(&mut command, &waiting.id(), &snapshot);
    let output = finished(&mut command).expect("ctprof hangs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(counted(&snapshot), 0);
}

/// A capture that is stopped while it reads threads, and what it has left stopped.
fn left_stopped(waiting: &mut Waiting, mut command: Command, signal: Signal) -> Vec<u32> {
    // Those of the capture before.
    waiting.interruptions();
    // A stop by the terminal is ignored in a group without a parent in the same session.
    let mut child = Killed(command.process_group(0).spawn().unwrap());
    if !waiting.is_interrupted_before(&mut child.0) || kill(id(&child.0), signal).is_err() {
        return Vec::new();
    }
    if !stops(&mut child.0) {
        return Vec::new();
    }
    let mut stopped = waiting.stopped();
    // One of them may be about to run.
    for _ in 0..10 {
        if stopped.is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(5));
        stopped = waiting.stopped();
    }
    kill(id(&child.0), Signal::SIGCONT).unwrap();
    let begin = Instant::now();
    while child.0.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < LIMIT, "a capture that was stopped does not continue");
        thread::sleep(Duration::from_millis(1));
    }
    stopped
}

/// Waits until a process is stopped; whether it is, rather than at its end.
fn stops(child: &mut Child) -> bool {
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        let threads = fs::read_dir(format!("/proc/{}/task", child.id())).map_or(0, Iterator::count);
        if threads > 0 && in_state(child.id(), 'T').len() == threads {
            return true;
        }
        assert!(begin.elapsed() < LIMIT, "ctprof does not stop");
        thread::yield_now();
    }
    false
}

fn check_stops(waiting: &mut Waiting, signal: Signal, capture: impl Fn(&str) -> Command) {
    let process = waiting.id();
    let attempts = (0..10).map(|_| left_stopped(waiting, capture(&process), signal));
    let stopped: Vec<_> = attempts.filter(|stopped| !stopped.is_empty()).collect();
    // On a busy host, a thread can stop later than ctprof waits for it, and runs on with ctprof.
    assert!(stopped.len() <= 1, "{signal}: {stopped:?} stay stopped");
}

#[test]
fn a_stopped_ctprof_with_file_capabilities_leaves_no_thread_of_another_user_stopped() {
    let _alone = alone();
    let Some(granted) = Granted::new() else { return };
    let snapshot = granted.writable("out").join("snapshot");
    let mut waiting = Waiting::start(&compile(granted.directory()), "bare", 500, as_root);
    check_stops(&mut waiting, Signal::SIGSTOP, |process| {
        let mut command = as_nobody(&granted.program);
        capture(&mut command, process, &snapshot);
        command
    });
}

#[test]
fn a_stop_by_the_terminal_resumes_every_thread_first() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let snapshot = directory.path().join("snapshot");
    let mut waiting = Waiting::start(&compile(directory.path()), "bare", 500, as_root);
    check_stops(&mut waiting, Signal::SIGTSTP, |process| {
        let mut command = Command::new(attacked());
        capture(&mut command, process, &snapshot);
        command
    });
    assert!(counted(&snapshot) > 0, "on a busy host, some may not stop in time");
}
