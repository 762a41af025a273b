//! Captures of this process's own threads, which do known amounts of work.

use crate::support::{Missing, skipped};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ctprof::model::{ClockTicks, MonotonicCount, MonotonicNs, Owner, ProcessState};
use ctprof::{CtprofSnapshot, ThreadState, capture_pid};
use nix::unistd::gettid;

/// A thread that does some work and then waits until it is dropped.
struct Worker {
    tid: u32,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn after(name: &str, work: impl FnOnce() + Send + 'static) -> Self {
        let (done, is_done) = channel();
        let (end, is_end): (_, Receiver<()>) = channel();
        let body = move || {
            work();
            done.send(u32::try_from(gettid().as_raw()).unwrap()).unwrap();
            let _ = is_end.recv();
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body).unwrap();
        let tid = is_done.recv().unwrap();
        wait_until_asleep(tid);
        Self { tid, end: Some(end), thread: Some(thread) }
    }

    fn state(&self) -> ThreadState {
        thread_of(&capture_pid(std::process::id()).unwrap(), self.tid)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end.take();
        let _ = self.thread.take().unwrap().join();
    }
}

fn wait_until_asleep(tid: u32) {
    let stat = || fs::read(format!("/proc/self/task/{tid}/stat")).unwrap();
    let asleep = || stat().windows(4).any(|text| text == b") S ");
    while !asleep() {
        thread::sleep(Duration::from_millis(1));
    }
}

fn thread_of(snapshot: &CtprofSnapshot, tid: u32) -> ThreadState {
    snapshot.threads.iter().find(|thread| thread.tid == tid).unwrap().clone()
}

#[test]
fn io_is_counted_to_the_byte() {
    let worker = Worker::after("writer", || {
        let mut null = File::create("/dev/null").unwrap();
        (0..10).for_each(|_| null.write_all(&[0; 1000]).unwrap());
    });
    let metrics = worker.state().metrics;
    if metrics.wchar.is_none() {
        return skipped(Missing::Kernel("/proc/<pid>/io"));
    }
    assert_eq!((metrics.wchar, metrics.syscw), (Some(10_000.into()), Some(10.into())));
}

#[test]
fn sleeps_are_voluntary_switches() {
    let worker = Worker::after("sleeper", || (0..50).for_each(|_| thread::sleep(Duration::from_millis(1))));
    let metrics = worker.state().metrics;
    assert!(metrics.voluntary_csw >= Some(MonotonicCount::from(50)), "{:?}", metrics.voluntary_csw);
    match metrics.timeslices {
        None => skipped(Missing::Kernel("/proc/<pid>/schedstat")),
        timeslices => assert!(timeslices >= Some(MonotonicCount::from(50)), "{timeslices:?}"),
    }
    assert_eq!((metrics.state, metrics.policy.unwrap().0.as_ref()), (Some('S'), "SCHED_OTHER"));
}

#[test]
fn cpu_time_is_counted() {
    let burn = || {
        let begin = cpu_time();
        while cpu_time() - begin < Duration::from_millis(50) {}
    };
    let metrics = Worker::after("burner", burn).state().metrics;
    match metrics.run_time_ns {
        None => skipped(Missing::Kernel("/proc/<pid>/schedstat")),
        run_time => assert!(run_time >= Some(MonotonicNs::from(50_000_000)), "{run_time:?}"),
    }
    let ticks = metrics.utime_clock_ticks.unwrap().number() + metrics.stime_clock_ticks.unwrap().number();
    assert!(ticks >= 2, "{ticks} ticks");
}

fn cpu_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

#[test]
fn affinity_is_the_threads_own() {
    let pin = || {
        let mut one = nix::sched::CpuSet::new();
        one.set(0).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &one).unwrap();
    };
    let metrics = Worker::after("pinned", pin).state().metrics;
    assert_eq!((&*metrics.cpu_affinity.unwrap().0, metrics.processor), (&[0][..], Some(0.into())));
}

#[test]
fn names_that_break_parsers_are_kept_whole() {
    for (name, expected) in [
        (&b"a) R 1 (b"[..], "a) R 1 (b"),
        (b"caf\xc3", "caf\\xc3"),
        (b"x\nwait_max:9", "x\nwait_max:9"),
        (b"\x1b[31mred", "\x1b[31mred"),
        (b"back\\slash", "back\\slash"),
        (b" ", " "),
        (b"fifteen-bytes-x", "fifteen-bytes-x"),
    ] {
        let rename = move || fs::write(format!("/proc/self/task/{}/comm", gettid()), name).unwrap();
        let worker = Worker::after("before", rename);
        let state = worker.state();
        assert_eq!(&*state.comm, expected);
        assert!(state.metrics.nr_migrations.is_some() && state.metrics.minflt.is_some(), "{expected:?}");
        assert_ne!(state.metrics.wait_max.map(u64::from), Some(9));
    }
}

#[test]
fn a_process_name_of_15_bytes_is_complete_only_if_its_program_has_that_name() {
    let dir = tempfile::tempdir().unwrap();
    for (program, complete) in [("fifteen-bytes-x", true), ("fifteen-bytes-xy", false), ("short", false)] {
        let path = dir.path().join(program);
        crate::support::copy_program("/bin/sleep", &path);
        let mut sleeper = Command::new(&path).arg("100").spawn().unwrap();
        let snapshot = capture_pid(sleeper.id());
        sleeper.kill().and_then(|()| sleeper.wait()).unwrap();
        let thread = &snapshot.unwrap().threads[0];
        assert_eq!((&*thread.comm, thread.name_complete), (&program[..program.len().min(15)], complete));
    }
}

#[test]
fn a_thread_is_known_by_its_process_and_its_start() {
    let worker = Worker::after("a-worker", || ());
    let snapshot = capture_pid(std::process::id()).unwrap();
    let (leader, worker) = (thread_of(&snapshot, std::process::id()), thread_of(&snapshot, worker.tid));
    assert_eq!((worker.tgid, &worker.pcomm), (leader.tid, &leader.comm));
    assert!(worker.start_time_clock_ticks >= leader.start_time_clock_ticks);
    let threads = snapshot.threads.iter().filter(|thread| thread.tgid == leader.tid).count();
    assert!(leader.metrics.nr_threads.unwrap().number().abs_diff(u64::try_from(threads).unwrap()) <= 8);
    assert!(leader.smaps_rollup_bytes().any(|(key, bytes)| key == "Rss" && bytes > 4096));
}

#[test]
fn a_thread_asked_for_as_a_process_is_an_error_that_names_the_process() {
    let worker = Worker::after("no-process", || ());
    let error = capture_pid(worker.tid).unwrap_err().to_string();
    let pid = std::process::id();
    assert_eq!(error, format!("{} is a thread of process {pid}: use --pid {pid}", worker.tid));
}

#[test]
fn threads_that_start_and_exit_do_not_fail_a_capture() {
    let begin = Instant::now();
    let churn = thread::spawn(move || {
        while begin.elapsed() < Duration::from_millis(400) {
            let threads: Vec<_> = (0..8).map(|_| thread::spawn(|| ())).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
    while begin.elapsed() < Duration::from_millis(300) {
        let snapshot = capture_pid(std::process::id()).unwrap();
        let summary = snapshot.head.parse_summary.unwrap();
        let kept = u64::try_from(snapshot.threads.len()).unwrap();
        assert_eq!(kept + summary.ghosts, summary.tids_walked);
        assert_eq!(summary.read_failures_by_file.get(&"stat".into()), None);
        assert!(!summary.kernel_config_dominant);
    }
    churn.join().unwrap();
}

#[test]
fn a_whole_host_has_its_first_process_and_this_one() {
    let snapshot = ctprof::capture().unwrap();
    assert!(snapshot.threads.is_sorted_by_key(|thread| (thread.tgid, thread.tid)));
    for pid in [1, std::process::id()] {
        assert!(snapshot.threads.iter().any(|thread| thread.tgid == pid), "{pid}");
    }
    let host = snapshot.head.host.unwrap();
    assert!(host.boot_id.is_some() && host.uptime_ns > Some(0) && host.kernel_release.is_some());
    let cost = snapshot.head.capture.unwrap().self_cost.unwrap();
    assert!(cost.peak_rss_bytes > Some(0) && cost.system_ns.is_some());
}

/// The CPU time in ticks that the whole process has, and that its children have.
fn ticks(process: &ProcessState) -> (u64, u64) {
    let sum = |user: Option<ClockTicks>, system: Option<ClockTicks>| user.unwrap().number() + system.unwrap().number();
    (
        sum(process.utime_clock_ticks, process.stime_clock_ticks),
        sum(process.cutime_clock_ticks, process.cstime_clock_ticks),
    )
}

fn own_process() -> ProcessState {
    let snapshot = capture_pid(std::process::id()).unwrap();
    *thread_of(&snapshot, std::process::id()).process.unwrap()
}

#[test]
fn work_of_exited_threads_is_in_the_process() {
    let burn = || {
        let begin = cpu_time();
        while cpu_time() - begin < Duration::from_millis(100) {}
        fs::write("/dev/null", [0; 5000]).unwrap();
    };
    let before = own_process();
    (0..3).for_each(|_| thread::spawn(burn).join().unwrap());
    let after = own_process();
    // USER_HZ is 100.
    let (increase, tolerance) = (ticks(&after).0 - ticks(&before).0, 2);
    assert!(increase + tolerance >= 30, "{increase} ticks");
    if let (Some(before), Some(after)) = (before.wchar, after.wchar) {
        assert!(after.number() - before.number() >= 15_000, "{before:?} to {after:?}");
    }
}

#[test]
fn children_that_a_shell_waited_for_are_in_its_counters() {
    let script = "for n in 1 2 3 4; do (i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done); done; echo; read end";
    let mut shell =
        Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let snapshot = capture_pid(shell.id()).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", shell.id())).unwrap();
    shell.wait().unwrap();
    let process = snapshot.threads[0].process.as_ref().unwrap();
    let field = |number: usize| stat.rsplit_once(") ").unwrap().1.split(' ').nth(number - 3).unwrap().parse().unwrap();
    let (own, children) = ticks(process);
    assert!(own.abs_diff(field(14) + field(15)) <= 1);
    assert_eq!(children, field(16) + field(17));
    assert!(children >= 5, "{children} ticks of four loops");
    assert_eq!((process.cminflt.unwrap().number(), process.ppid), (field(11), Some(std::process::id())));
}

#[test]
fn a_process_that_exited_and_was_not_waited_for_keeps_its_counters() {
    let mut child =
        Command::new("sh").args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"]).spawn().unwrap();
    while !fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap().contains(") Z ") {
        thread::sleep(Duration::from_millis(1));
    }
    let snapshot = capture_pid(child.id()).unwrap();
    child.wait().unwrap();
    let process = snapshot.threads[0].process.as_ref().unwrap();
    assert!(ticks(process).0 >= 2 && process.ppid == Some(std::process::id()), "{process:?}");
}

#[test]
fn the_cpu_time_of_the_host_contains_that_of_a_thread() {
    let before = ctprof::capture().unwrap();
    let worker = Worker::after("busy", || {
        let begin = cpu_time();
        while cpu_time() - begin < Duration::from_millis(200) {}
    });
    let after = ctprof::capture().unwrap();
    drop(worker);
    let clock = |snapshot: &CtprofSnapshot| snapshot.head.capture.as_ref().unwrap().monotonic_ns.unwrap();
    let elapsed_ticks = (clock(&after) - clock(&before)) / 10_000_000;
    let [before, after] = [before, after].map(|snapshot| snapshot.head.cpu_time.unwrap());
    let cpus = after.cpus.unwrap();
    assert_eq!(before.cpus, Some(cpus));
    let idle = after.idle_ticks.unwrap() - before.idle_ticks.unwrap();
    assert!(idle <= cpus * (elapsed_ticks + 2) - 18, "{idle} idle ticks of {cpus} times {elapsed_ticks}");
    assert!(after.started.unwrap() > before.started.unwrap());
    if let (Some(before), Some(after)) = (before.run_ns, after.run_ns) {
        assert!(after - before >= 200_000_000);
    }
}

#[test]
fn times_of_threads_count_from_the_clocks_of_the_capture() {
    let monotonic = || Duration::from(nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap());
    let begin = monotonic();
    let snapshot = capture_pid(std::process::id()).unwrap();
    let end = monotonic();
    let info = snapshot.head.capture.unwrap();
    let start = Duration::from_nanos(info.monotonic_ns.unwrap());
    assert!(begin <= start && info.boottime_ns >= info.monotonic_ns);
    for thread in &snapshot.threads {
        assert!(start + Duration::from_nanos(thread.read_at_ns.unwrap()) <= end);
    }
    assert!(Duration::from_nanos(info.duration_ns) <= end - begin);
}

#[test]
fn threads_of_the_capturing_process_are_marked() {
    let snapshot = ctprof::capture().unwrap();
    for thread in &snapshot.threads {
        assert_eq!(thread.owner == Some(Owner::Ctprof), thread.tgid == std::process::id(), "{}", thread.comm);
    }
}

#[test]
fn a_script_is_known_by_its_name_and_nothing_else_of_its_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("nightly-job.sh");
    fs::write(&script, "read line\n").unwrap();
    let shell = |arguments: &[&str]| {
        Command::new("sh").args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    };
    let named = shell(&["-e", script.to_str().unwrap(), "--password=geheim"]);
    let unnamed = shell(&["-c", "read line # geheim"]);
    let program = |child: &std::process::Child| {
        thread::sleep(Duration::from_millis(50));
        let snapshot = capture_pid(child.id()).unwrap();
        assert!(!serde_json::to_string(&snapshot).unwrap().contains("geheim"));
        let program = thread_of(&snapshot, child.id()).program;
        program.map(|name| name.to_string())
    };
    let found = [&named, &unnamed].map(program);
    for mut child in [named, unnamed] {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
    assert_eq!(found, [Some("nightly-job.sh".to_owned()), None]);
}

#[test]
fn a_process_has_its_user_by_name_and_redacted_none() {
    let directory = tempfile::tempdir().unwrap();
    let ctprof = |arguments: &[&str]| {
        let mut ctprof = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        let out = ctprof.args(arguments).current_dir(directory.path()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let id = std::process::id().to_string();
    ctprof(&["capture", "-p", &id, "-o", "a"]);
    ctprof(&["capture", "-p", &id, "-o", "b", "--redact"]);
    let shown = |file| {
        let table = ctprof(&["show", file, "--group-by", "pid", "-u"]);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<_> = table.lines().skip_while(|line| !line.starts_with("group")).map(words).collect();
        lines[0].iter().position(|head| head == "user").map(|place| lines[1][place].clone())
    };
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap();
    assert_eq!((shown("a"), shown("b")), (Some(user.name), None));
    let named = ctprof(&["capture", "-p", &id, "--redact"]);
    assert!(named.starts_with("ctprof-redacted-"), "without the name of the host: {named}");
}

#[test]
fn processes_that_write_a_title_are_grouped_by_it_without_what_differs_between_clients() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("nginx");
    crate::support::copy_program("/bin/sleep", &program);
    let start = |title: &str| Command::new(&program).arg0(title).arg("100").spawn().unwrap();
    let titles = ["nginx: worker process 1", "nginx: worker process 2", "nginx: cache (7) secret", "nginx"];
    let mut children = titles.map(start);
    let file = dir.path().join("a.ctprof.zst");
    let run = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_ctprof")).args(args).arg(&file).output().unwrap().stdout;
    let pids = children.each_ref().map(|child| child.id().to_string()).join(",");
    run(&["capture", "-q", "-p", &pids, "-o"]);
    let report: serde_json::Value =
        serde_json::from_slice(&run(&["show", "-f", "json", "-m", "thread_count"])).unwrap();
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["path"][0].is_string());
    let mut groups: Vec<_> =
        rows.map(|row| (row["group"].as_str().unwrap(), row["members"].as_u64().unwrap())).collect();
    groups.sort_unstable();
    assert_eq!(groups, [("nginx", 1), ("nginx: cache", 1), ("nginx: worker process", 2)]);
}
