//! Captures and recordings at the same time do not disturb each other.

use crate::support::{Missing, skipped};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ctprof::CtprofSnapshot;

use crate::alone;
use crate::root::engine_captures::{Threads, has_bpf, threads};
use crate::root::histories::{Histories, compile};

const CTPROF: &str = env!("CARGO_BIN_EXE_ctprof");

/// So many captures by BPF that are started at once.
fn captures_at_once(count: usize, directory: &Path) -> Vec<CtprofSnapshot> {
    let files: Vec<_> = (0..count).map(|number| directory.join(number.to_string())).collect();
    let start = |file| Command::new(CTPROF).args(["-q", "capture", "--engine", "bpf", "-o"]).arg(file).spawn().unwrap();
    for mut capture in files.iter().map(start).collect::<Vec<_>>() {
        assert!(capture.wait().unwrap().success());
    }
    files.iter().map(|file| CtprofSnapshot::load(file).unwrap()).collect()
}

/// What two captures of threads at rest have in common. The kernel takes pages from them when others need memory.
fn comparable(mut threads: Threads) -> Threads {
    let varying =
        ["read_at_ns", "smaps_rollup_kib", "rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes", "swap_bytes"];
    threads.values_mut().for_each(|fields| fields.retain(|field, _| !varying.contains(&&**field)));
    threads
}

/// The lines of `bpf_objects.c`; `None` if the kernel denies it.
fn objects(program: &Path) -> Option<BTreeSet<String>> {
    let listed = Command::new(program).output().unwrap();
    let lines = String::from_utf8(listed.stdout).unwrap();
    listed.status.success().then(|| lines.lines().map(str::to_owned).collect())
}

/// Whether a process has a descriptor of the object.
fn is_held(object: &str) -> bool {
    let [kind, id] = object.split(' ').take(2).collect::<Vec<_>>().try_into().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let directories = processes.filter_map(|process| fs::read_dir(process.path().join("fdinfo")).ok());
    let mut infos = directories.flatten().flatten().filter_map(|info| fs::read_to_string(info.path()).ok());
    infos.any(|info| {
        info.lines().any(|line| line.split_once(':').is_some_and(|(key, value)| (key, value.trim()) == (kind, id)))
    })
}

#[test]
fn captures_at_the_same_time_have_equal_values_and_leave_no_object() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let lister = compile("bpf_objects", directory.path());
    let histories = Histories::start(2, 2);
    let own = |snapshot: &CtprofSnapshot| comparable(histories.own(threads(snapshot, "bpf")));
    let first = captures_at_once(1, directory.path()).remove(0);
    let (before, expected) = (objects(&lister), own(&first));
    assert!(expected.len() >= 100, "{} threads", expected.len());
    let mut overlapping = 0;
    for _ in 0..5 {
        let snapshots = captures_at_once(4, directory.path());
        for snapshot in &snapshots {
            let capture = |of: &CtprofSnapshot| of.head.capture.as_ref().unwrap().bpf.clone().unwrap();
            assert_eq!(capture(snapshot).dropped, capture(&first).dropped);
            let wrong: Vec<_> = differences(&expected, &own(snapshot));
            assert!(wrong.is_empty(), "{wrong:?}");
        }
        let begins = snapshots.iter().map(|snapshot| snapshot.head.captured_at_unix_ns);
        let ends = snapshots.iter().map(|snapshot| {
            snapshot.head.captured_at_unix_ns + snapshot.head.capture.as_ref().unwrap().walk_ns.unwrap()
        });
        overlapping += u32::from(begins.max() < ends.min());
    }
    eprintln!(
        "{} threads equal in 20 captures, 4 at once; in {overlapping} of 5 rounds, all 4 read at the same time",
        expected.len()
    );
    match before {
        Some(before) => check_objects(&lister, &before),
        None => skipped(Missing::Privilege("lists of BPF objects")),
    }
}

fn differences(expected: &Threads, found: &Threads) -> Vec<String> {
    let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let differs = |key| expected.get(key) != found.get(key);
    let text = |key| format!("{:?}, then {:?}", expected.get(key), found.get(key));
    keys.into_iter().filter(|key| differs(*key)).map(text).collect()
}

/// The kernel frees the objects of exited processes with a delay. Other processes of this host may use BPF meanwhile: what
/// remains of theirs is not told apart, since a program may hold a map that no process holds.
fn check_objects(lister: &Path, before: &BTreeSet<String>) {
    let begin = Instant::now();
    loop {
        let left: Vec<_> = objects(lister).unwrap().difference(before).cloned().collect();
        if left.is_empty() {
            return eprintln!("no new BPF object remains after {:?}", begin.elapsed());
        }
        if begin.elapsed() > Duration::from_secs(10) {
            assert!(left.iter().any(|object| is_held(object)), "left: {left:?}");
            return skipped(Missing::Kernel(format!("a moment in which nobody else uses BPF: {left:?}")));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Counters of exited threads that a window has in full.
const COUNTERS: [&str; 6] = ["run_time_ns", "wait_time_ns", "timeslices", "voluntary_csw", "minflt", "syscr"];

/// The number of threads of this name that exited, and the sums of their counters.
fn exited(window: &CtprofSnapshot, name: &str) -> (u64, [u64; COUNTERS.len()]) {
    let records = window.head.window.as_ref().unwrap().exit_records.as_ref().unwrap();
    assert_eq!((&*records.source, records.lost), ("bpf", 0));
    let exited = window.threads.iter().filter(|thread| &*thread.comm == name && thread.exited_work.is_none());
    let count = exited.clone().map(|thread| thread.span.unwrap().count).sum();
    let fields: Vec<_> = exited.map(|thread| serde_json::to_value(thread).unwrap()).collect();
    let sum = |counter| fields.iter().map(|fields| fields[counter].as_u64().unwrap()).sum();
    (count, COUNTERS.map(sum))
}

#[test]
fn two_recordings_at_the_same_time_each_have_all_exits() {
    const EXITS: u64 = 500;
    const NAME: &str = "ctprof-short";
    /// At `CONFIG_HZ=100`.
    const LONGEST_TICK_NS: u64 = 10_000_000;
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [outer, inner, program] = ["outer", "inner", NAME].map(|name| directory.path().join(name));
    crate::support::copy_program("/bin/true", &program);
    let record = |file| [CTPROF, "-q", "record", "--engine", "bpf", "-o", file, "--"];
    let script = format!("i=0; while [ $i -lt {EXITS} ]; do {}; i=$((i + 1)); done", program.display());
    let (outer_file, inner_file) = (outer.display().to_string(), inner.display().to_string());
    let arguments = [&record(&outer_file)[..], &record(&inner_file), &["sh", "-c", &script]].concat();
    let done = Command::new(arguments[0]).args(&arguments[1..]).stdin(Stdio::null()).status().unwrap();
    assert!(done.success());
    let [outer, inner] = [outer, inner].map(|file| exited(&CtprofSnapshot::load(&file).unwrap(), NAME));
    assert_eq!((outer.0, inner.0), (EXITS, EXITS));
    let ([outer_run, outer @ ..], [inner_run, inner_counters @ ..]) = (outer.1, inner.1);
    assert_eq!(outer, inner_counters, "{COUNTERS:?}");
    // Of a thread that the kernel frees without the tracepoint, each window has the record of its exit. If a tick comes between
    // the programs of both recordings there, only the later one has the run time since the thread got its CPU.
    assert!(outer_run.abs_diff(inner_run) <= LONGEST_TICK_NS, "{outer_run} and {inner_run} ns of run time");
    eprintln!("{EXITS} exits in both windows, {COUNTERS:?}: {:?}", inner.1);
}

#[test]
fn no_bpf_object_outlives_a_killed_recording() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let lister = compile("bpf_objects", directory.path());
    let Some(before) = objects(&lister) else {
        return skipped(Missing::Privilege("lists of BPF objects"));
    };
    let window = directory.path().join("window");
    let mut recording = Command::new(CTPROF);
    // The command runs once all programs are attached.
    recording.args(["-q", "record", "--engine", "bpf", "-o"]).arg(&window).args(["--", "sh", "-c", "kill -KILL $PPID"]);
    let status = recording.stdin(Stdio::null()).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
    assert!(!window.exists());
    check_objects(&lister, &before);
}

#[test]
fn a_recording_has_priority_and_its_command_has_not() {
    let _alone = alone();
    // Field 19 of proc_pid_stat(5).
    let nice = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse::<i32>().unwrap()
    };
    let may_be_lower = Command::new("nice").args(["-n", "-20", "nice"]).output();
    if nice(std::process::id()) != 0 || !may_be_lower.is_ok_and(|done| done.stdout == b"-20\n") {
        return skipped(Missing::Privilege("a nice value of -20, from one of 0"));
    }
    for command in [&["-d", "60s"][..], &["--", "sh", "-c", "cut -d' ' -f19 /proc/$$/stat; sleep 60"]] {
        let mut record = Command::new(CTPROF);
        record.args(["-q", "record", "-o", "/dev/null"]).args(command).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut record = record.spawn().unwrap();
        let begin = Instant::now();
        while nice(record.id()) != -20 {
            assert!(begin.elapsed() < Duration::from_secs(10), "the nice value is {}", nice(record.id()));
            thread::sleep(Duration::from_millis(5));
        }
        if command.len() > 2 {
            let mut of_command = String::new();
            BufReader::new(record.stdout.take().unwrap()).read_line(&mut of_command).unwrap();
            assert_eq!(of_command, "0\n");
        }
        record.kill().unwrap();
        record.wait().unwrap();
    }
}
