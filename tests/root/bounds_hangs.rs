//! Processes that wait without end for a file system of a user: whatever locks they hold meanwhile, they delay no
//! capture, and signals end ctprof.

use std::env;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ctprof::model::CtprofSnapshot;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::alone;
use crate::hanging::Hanging;
use crate::host::Killed;
use crate::support::{Missing, skipped};

/// Longer than any capture here on a busy machine, and shorter than without end.
const LONGEST: Duration = Duration::from_secs(8);

fn ctprof() -> OsString {
    env::var_os("CTPROF_ATTACKED").unwrap_or(env!("CARGO_BIN_EXE_ctprof").into())
}

/// Waits for a process; `None` if it does not end so long after that time.
fn wait_for(process: &mut Child, begin: Instant, longest: Duration) -> Option<ExitStatus> {
    while begin.elapsed() < longest {
        if let Some(status) = process.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Kills a process that waits for the file system, and ends that, without which nothing can be killed.
fn end(mut process: Child, hanging: Hanging) {
    let _ = process.kill();
    drop(hanging);
    let _ = process.wait();
}

/// A snapshot as JSON.
fn load(file: &Path) -> serde_json::Value {
    let mut json = Vec::new();
    zstd::Decoder::new(std::fs::File::open(file).unwrap()).unwrap().read_to_end(&mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// What captures with all options do at the same time beside a process of that kind.
fn captures_beside(mode: &str) {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let Some(hanging) = Hanging::start(mode) else { return };
    let start = |(number, options): (usize, &&[&str])| {
        let file = directory.path().join(number.to_string());
        let mut capture = Command::new(ctprof());
        capture.args(["-q", "capture", "-o"]).arg(&file).args(*options).stdin(Stdio::null());
        (capture.spawn().unwrap(), file)
    };
    let begin = Instant::now();
    let captures = Vec::from_iter(ALL.iter().enumerate().map(start));
    for (options, (mut capture, file)) in ALL.iter().zip(captures) {
        let Some(status) = wait_for(&mut capture, begin, LONGEST) else {
            end(capture, hanging);
            panic!("capture {options:?} waits for a process in mode {mode}");
        };
        assert!(status.success(), "{options:?}: {status}");
        let snapshot = load(&file);
        let threads = snapshot["threads"].as_array().unwrap();
        assert!(threads.iter().any(|thread| thread["tgid"] == hanging.pid), "{options:?}: the process is not in it");
        assert!(
            threads.iter().any(|thread| thread["tgid"] == std::process::id()),
            "{options:?}: this one is not in it"
        );
    }
}

const ALL: &[&[&str]] = &[
    &[],
    &["--no-jemalloc"],
    &["--smaps", "never"],
    &["--engine", "procfs"],
    &["--engine", "procfs", "--no-jemalloc", "--smaps", "never"],
    &["--smaps", "always", "--jobs", "1"],
];

#[test]
fn a_process_that_holds_its_mmap_lock_delays_no_capture() {
    captures_beside("unmap");
}

#[test]
fn a_name_that_may_be_cut_is_read_without_waiting_for_the_process() {
    captures_beside("name");
}

#[test]
fn a_page_that_a_user_does_not_provide_delays_no_capture() {
    captures_beside("heap");
}

#[test]
fn a_process_that_waits_in_execve_delays_no_capture() {
    captures_beside("execute");
    captures_beside("leave");
}

#[test]
fn a_process_that_cannot_be_read_is_counted() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshot");
    for mode in ["unmap", "leave"] {
        let Some(hanging) = Hanging::start(mode) else { return };
        let mut capture = Command::new(ctprof());
        capture.args(["-q", "capture", "--pid", &hanging.pid.to_string(), "-o"]).arg(&file).stdin(Stdio::null());
        let mut capture = capture.spawn().unwrap();
        let Some(status) = wait_for(&mut capture, Instant::now(), LONGEST) else {
            end(capture, hanging);
            panic!("the capture waits for a process in mode {mode}");
        };
        assert!(status.success(), "{mode}: {status}");
        let snapshot = load(&file);
        let [files, probes] = ["/parse_summary/read_failures", "/probe_summary/failed"]
            .map(|field| snapshot.pointer(field).and_then(serde_json::Value::as_u64).unwrap_or(0));
        let skipped = snapshot.pointer("/parse_summary/smaps_out_of_time").and_then(serde_json::Value::as_u64);
        assert!(files + probes + skipped.unwrap_or(0) > 0, "{mode}: {}", snapshot["parse_summary"]);
    }
}

#[test]
fn signals_end_ctprof_while_it_reads_a_process_that_waits_without_end() {
    let _alone = alone();
    let Some(hanging) = Hanging::start("unmap") else { return };
    let commands = [&["record"][..], &["record", "--", "sleep", "1000"], &["capture", "--engine", "procfs", "-o", "-"]];
    let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    let start = |(command, signal): (&'static [&str], Signal)| {
        // A shell that starts the tests in the background ignores SIGINT for them.
        let mut started = Command::new("env");
        started.arg("--default-signal").arg(ctprof()).arg("-q").args(command);
        started.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        (command, signal, started.spawn().unwrap())
    };
    let pairs = commands.into_iter().flat_map(|command| signals.map(|signal| (command, signal)));
    let mut started = Vec::from_iter(pairs.map(start));
    // A capture waits for longer until it gives the process up.
    thread::sleep(Duration::from_millis(500));
    for (command, signal, process) in &mut started {
        assert_eq!(process.try_wait().unwrap(), None, "{command:?}");
        kill(Pid::from_raw(process.id().try_into().unwrap()), *signal).unwrap();
    }
    let begin = Instant::now();
    for (command, signal, mut process) in started {
        if wait_for(&mut process, begin, 2 * LONGEST).is_none() {
            end(process, hanging);
            panic!("{signal} does not end {command:?}");
        }
    }
}

#[test]
fn a_process_that_cannot_be_read_makes_no_window_of_cgroups_longer_than_that_of_threads() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let busy = || Killed(Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap());
    let _busy = Vec::from_iter((0..thread::available_parallelism().unwrap().get()).map(|_| busy()));
    let capture = |name: &str| {
        let capture = Command::new(ctprof()).args(["-q", "capture", "-o", name]).current_dir(directory.path()).status();
        assert!(capture.unwrap().success());
        CtprofSnapshot::load(&directory.path().join(name)).unwrap()
    };
    let mut seen = Vec::new();
    // On a busy host, reading the threads takes long at times, and the cgroups are read after them.
    for _ in 0..6 {
        let earlier = capture("earlier");
        thread::sleep(Duration::from_millis(500));
        let Some(_hanging) = Hanging::start("unmap") else { return };
        let window = ctprof::window::between(earlier, capture("later")).unwrap().head;
        let root = window.cgroup_stats.get("/").and_then(|root| root.cpu.usage_usec);
        let (Some(root), Some(cpu)) = (root, window.window.unwrap().cpu) else {
            return skipped(Missing::Kernel("CPU time of the root cgroup, or of the host"));
        };
        let (root, host) = (root.number() as f64 / 1e6, cpu.busy_ns as f64 / 1e9);
        // The root of cgroup version 2 has it in ticks.
        if (root / host - 1.0).abs() < 0.1 {
            return;
        }
        seen.push(format!("{root} s of the cgroup, {host} s of the host"));
    }
    panic!("{seen:?}");
}

#[test]
fn a_window_beside_a_process_that_cannot_be_read_has_the_reasons_of_all_of_it_or_says_that_it_has_none() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("window");
    for (mode, engine) in [("unmap", "auto"), ("leave", "procfs")] {
        let Some(hanging) = Hanging::start(mode) else { return };
        let mut record = Command::new(ctprof());
        record.args(["record", "-d", "1s", "--engine", engine, "-o"]).arg(&file);
        let mut record = record.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let Some(status) = wait_for(&mut record, Instant::now(), 2 * LONGEST) else {
            end(record, hanging);
            panic!("the recording by {engine} waits for a process in mode {mode}");
        };
        let mut messages = String::new();
        record.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        assert!(status.success(), "{mode}: {status} {messages}");
        // In a second, 50 passes at the usual rate, and fewer beside other tests.
        match load(&file).pointer("/reasons/sampling/passes").and_then(serde_json::Value::as_u64) {
            Some(passes) => assert!(passes >= 3, "{mode}: {passes} passes"),
            None => assert!(messages.contains("no reasons: "), "{mode}: {messages}"),
        }
    }
}
