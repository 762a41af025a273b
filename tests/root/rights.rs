//! A recorder keeps no right to load BPF programs: none of its threads, whoever started it and whatever it records.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ctprof::CtprofSnapshot;
use nix::sys::signal::{Signal, killpg};

use crate::root::attacks_support::{Granted, as_nobody, attacked, directory, id};
use crate::support::{Missing, copy_program, skipped};

/// By their numbers in include/uapi/linux/capability.h: sys_admin, sys_resource, perfmon, bpf.
const LOAD_BPF: u64 = 1 << 21 | 1 << 24 | 1 << 38 | 1 << 39;
const SETS: [&str; 4] = ["CapInh:\t", "CapPrm:\t", "CapEff:\t", "CapAmb:\t"];
/// Longer than loading takes on a busy host.
const LONGEST: Duration = Duration::from_secs(30);

/// The name of each thread of a process, and those sets of it that have a right to load programs.
fn threads(process: u32) -> Vec<(String, Vec<String>)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let loads = |line: &&str| {
        let mask = SETS.iter().find_map(|set| line.strip_prefix(set));
        mask.is_some_and(|mask| u64::from_str_radix(mask, 16).unwrap() & LOAD_BPF != 0)
    };
    let thread = |status: String| {
        let name = status.lines().next().unwrap_or_default().to_owned();
        (name, status.lines().filter(loads).map(str::to_owned).collect())
    };
    statuses.map(thread).collect()
}

/// Whether a process has started another one.
fn has_child(process: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    children.any(|children| !children.trim().is_empty())
}

/// Runs a recorder for a second after its threads have dropped these rights, and asserts that none has them again.
fn assert_rights_are_dropped(mut recorder: Command, recording: &[&str], window: &Path) {
    let what = format!("{recorder:?}");
    let recorder = recorder.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    let mut recorder: Child = recorder.spawn().unwrap();
    let (begin, mut dropped) = (Instant::now(), None::<Instant>);
    while dropped.is_none_or(|dropped| dropped.elapsed() < Duration::from_secs(1)) {
        assert!(recorder.try_wait().unwrap().is_none(), "{what}: it has ended");
        let threads = threads(recorder.id());
        let names = ["ctprof-exits", "ctprof-samples"];
        let has_begun = names.iter().all(|name| threads.iter().any(|of| of.0.contains(name)))
            && (!recording.contains(&"--") || has_child(recorder.id()));
        let left: Vec<_> = threads.iter().filter(|(_, sets)| !sets.is_empty()).collect();
        if dropped.is_none() && has_begun && left.is_empty() {
            dropped = Some(Instant::now());
        }
        assert!(dropped.is_none() || left.is_empty(), "{what}: {left:?}");
        assert!(dropped.is_some() || begin.elapsed() < LONGEST, "{what}: {threads:?}");
        thread::sleep(Duration::from_millis(1));
    }
    // As Ctrl-C in a terminal: a recorder waits for its command.
    killpg(id(&recorder), Signal::SIGINT).unwrap();
    recorder.wait().unwrap();
    let capture = CtprofSnapshot::load(window).unwrap().head.capture.unwrap();
    assert_eq!(capture.engine, "bpf", "{what}: {:?}", capture.no_bpf);
}

/// What is recorded: a window and a series, for some time and until a command exits.
const RECORDINGS: [&[&str]; 4] = [
    &["-d", "60s"],
    &["--every", "50ms", "-d", "60s"],
    &["--", "sleep", "60"],
    &["--every", "50ms", "--", "sleep", "60"],
];

/// Records with a program that another one starts.
fn record_all(start: impl Fn(&Path) -> Command, (program, files): (&Path, &Path)) {
    for (number, recording) in RECORDINGS.iter().enumerate() {
        let window = files.join(number.to_string());
        let mut recorder = start(program);
        recorder.args(["record", "-o"]).arg(&window).args(*recording);
        assert_rights_are_dropped(recorder, recording, &window);
    }
}

/// Whether root may load programs here; says so if not.
fn has_bpf(files: &Path) -> bool {
    let window = files.join("first");
    let record = ["record", "-q", "--engine", "bpf", "-d", "10ms", "-o"];
    let done = Command::new(attacked()).args(record).arg(&window).output().unwrap();
    if !done.status.success() {
        skipped(Missing::Privilege(String::from_utf8_lossy(&done.stderr)));
    }
    done.status.success()
}

#[test]
fn no_thread_of_a_recorder_that_root_started_can_load_programs() {
    let files = tempfile::tempdir().unwrap();
    if has_bpf(files.path()) {
        record_all(|program| Command::new(program), (&attacked(), files.path()));
    }
}

#[test]
fn no_thread_of_a_recorder_with_file_capabilities_can_load_programs() {
    let Some(granted) = Granted::new() else { return };
    if has_bpf(granted.directory()) {
        record_all(|program| as_nobody(program), (&granted.program, &granted.writable("own")));
    }
}

/// The capabilities that the packaged service of a recorder has, as setpriv takes them.
fn of_service() -> String {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/ctprof-record.service");
    let unit = fs::read_to_string(unit).unwrap();
    let setting = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_lowercase();
    let ambient = setting("AmbientCapabilities=");
    assert_eq!(ambient, setting("CapabilityBoundingSet="));
    ambient.split(' ').fold("-all".to_owned(), |set, name| format!("{set},+{}", name.strip_prefix("cap_").unwrap()))
}

#[test]
fn no_thread_of_a_recorder_with_the_ambient_capabilities_of_its_service_can_load_programs() {
    let files = tempfile::tempdir().unwrap();
    let (program, own) = (files.path().join("ctprof"), files.path().join("own"));
    fs::set_permissions(files.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    copy_program(attacked(), &program);
    let (set, own): (String, PathBuf) = (of_service(), directory(&own, 0o777));
    let start = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args([format!("--inh-caps={set}"), format!("--ambient-caps={set}")]).arg(program);
        command
    };
    if !has_bpf(files.path()) {
        return;
    }
    if !start(Path::new("true")).status().is_ok_and(|status| status.success()) {
        return skipped(Missing::Privilege("root, with setpriv"));
    }
    record_all(start, (&program, &own));
}
