//! Records of exited threads. These tests need root; otherwise they print why they are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ctprof::capture::{Capturer, DEFAULT_RING_BYTES, ExitListener, Options, RecordedExits, Smaps};
use ctprof::model::{CtprofSnapshot, ExitRecords, ExitedThread, HostContext};
use nix::time::{ClockId, clock_gettime};

use crate::alone::{Alone, alone};
use crate::example::example;
use crate::hanging::Hanging;
use crate::host::{CgroupDirectory, Killed};
use crate::root::histories::cgroup_roots;
use crate::support::{Missing, skipped};

/// A listener; `None` with the reason printed if this user or this host cannot have one.
fn listener(options: &Options, ring_bytes: u32) -> Option<(ExitListener, Alone)> {
    let alone = alone();
    match ExitListener::start(options, ring_bytes) {
        Ok(listener) => Some((listener, alone)),
        Err(error) => {
            skipped(Missing::Privilege(error));
            None
        }
    }
}

fn default_listener() -> Option<(ExitListener, Alone)> {
    listener(&Options::default(), DEFAULT_RING_BYTES)
}

/// The records of a listener, without cgroups.
fn drained(mut listener: ExitListener) -> RecordedExits {
    listener.drain(&HostContext::default(), &[])
}

/// A shell, and what the kernel counts for its children. (The children of this process are those of all tests.)
struct Shell {
    pid: u32,
    children_cpu_us: u64,
    children_page_faults: u64,
}

impl Shell {
    fn run(script: &str) -> Self {
        let script = format!("{script}\nread -r stat < /proc/$$/stat; echo \"$stat\"");
        let out = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
        let stat = String::from_utf8(out.stdout).unwrap();
        let (pid, rest) = stat.split_once(' ').unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&out.stderr)));
        let fields: Vec<&str> = rest.rsplit_once(") ").unwrap().1.split(' ').collect();
        // proc_pid_stat(5) counts from 1: the state is field 3, then cminflt 11, cutime 16, cstime 17.
        let field = |number: usize| fields[number - 3].parse::<u64>().unwrap();
        let children_cpu_us = (field(16) + field(17)) * 10_000;
        Self { pid: pid.parse().unwrap(), children_cpu_us, children_page_faults: field(11) }
    }

    fn children(&self, exits: &RecordedExits) -> Vec<ExitedThread> {
        exits.threads().filter(|thread| thread.ppid == self.pid).collect()
    }
}

fn run_us<'t>(threads: impl IntoIterator<Item = &'t ExitedThread>) -> u64 {
    threads.into_iter().map(|thread| thread.state.metrics.run_time_ns.unwrap().number()).sum::<u64>() / 1000
}

/// The records of these processes.
fn of_processes(exits: &RecordedExits, pids: &BTreeSet<u32>) -> Vec<ExitedThread> {
    exits.threads().filter(|thread| pids.contains(&thread.state.tgid)).collect()
}

fn burn(milliseconds: u32) -> Child {
    let mut burn = Command::new(example("burn"));
    burn.arg(milliseconds.to_string()).stdin(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_process_that_exits_leaves_its_cpu_time_and_page_faults() {
    let Some((listener, _alone)) = default_listener() else { return };
    let shell = Shell::run(&format!("{} 400", example("burn").display()));
    let threads = shell.children(&drained(listener));
    assert!(threads.len() >= 2, "two threads: {threads:?}");
    let (run, truth) = (run_us(&threads), shell.children_cpu_us);
    assert!(run.abs_diff(truth) < 20_000 + truth / 20, "{run} µs in records, {truth} µs of CPU time");
    let ticks = threads.iter().map(|thread| {
        let metrics = &thread.state.metrics;
        metrics.utime_clock_ticks.unwrap().number() + metrics.stime_clock_ticks.unwrap().number()
    });
    assert!(ticks.sum::<u64>().abs_diff(truth / 10_000) <= 5);
    let faults = threads.iter().map(|thread| thread.state.metrics.minflt.unwrap().number()).sum::<u64>();
    let truth = shell.children_page_faults;
    assert!(faults.abs_diff(truth) <= 50 + truth / 20, "{faults} page faults in records, {truth} in truth");
    let leader = threads.iter().find(|thread| thread.state.is_leader()).unwrap();
    assert_eq!(leader.ppid, shell.pid);
    assert!((300_000_000..30_000_000_000).contains(&leader.elapsed_ns), "{} ns", leader.elapsed_ns);
    match leader.state.metrics.hiwater_rss_bytes {
        Some(peak) => assert!(peak.number() > 64 << 20),
        None => skipped(Missing::Kernel("peak memory in exit records, of Linux 6.16")),
    }
}

#[test]
fn each_thread_that_exits_leaves_one_record() {
    let Some((listener, _alone)) = default_listener() else { return };
    for number in 0..20 {
        let cpu_time = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
        let spin = move || while cpu_time() < Duration::from_millis(10) {};
        thread::Builder::new().name(format!("exiting-{number}")).spawn(spin).unwrap().join().unwrap();
    }
    let mut child = burn(50);
    child.wait().unwrap();
    let exits = drained(listener);
    let own: Vec<_> = exits.threads().filter(|thread| thread.state.comm.starts_with("exiting-")).collect();
    assert_eq!((own.len(), exits.summary.lost), (20, 0));
    assert!(own.iter().all(|thread| thread.state.tgid == std::process::id()));
    assert!((190_000..260_000).contains(&run_us(&own)), "{} µs of 200 ms", run_us(&own));
    let of_child = of_processes(&exits, &[child.id()].into());
    let tids: BTreeSet<_> = of_child.iter().map(|thread| thread.state.tid).collect();
    assert_eq!(tids.len(), of_child.len(), "one record per thread");
    let process = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert!(own.iter().all(|thread| *thread.state.pcomm == *process.trim_end()), "{own:?}");
    let parent = std::os::unix::process::parent_id();
    assert!(own.iter().all(|thread| thread.ppid == parent && thread.state.start_time_clock_ticks.is_some()));
}

#[test]
fn of_2000_short_processes_each_leaves_a_record() {
    let Some((listener, _alone)) = default_listener() else { return };
    let shell = Shell::run("n=0; while [ $n -lt 2000 ]; do /bin/true; n=$((n + 1)); done");
    let exits = drained(listener);
    let threads = shell.children(&exits);
    let found = u64::try_from(threads.len()).unwrap();
    let ExitRecords { received, lost, .. } = exits.summary;
    assert!(found + lost >= 2000, "{found} records, {lost} lost");
    assert!(received >= found);
    let (run, truth) = (run_us(&threads), shell.children_cpu_us);
    assert!(run <= truth + truth / 20, "{run} µs in records, {truth} µs of CPU time");
    assert!(lost > 0 || run >= truth - truth / 20, "{run} µs in records, {truth} µs of CPU time");
}

#[test]
fn a_process_that_waits_while_it_exits_has_one_record_when_it_has_ended() {
    let Some((mut listener, _alone)) = default_listener() else { return };
    let Some(hanging) = Hanging::start("exit") else { return };
    let pids = [hanging.pid].into();
    let mut records = || of_processes(&listener.drain(&HostContext::default(), &[]), &pids).len();
    assert_eq!(records(), 0);
    let begin = Instant::now();
    (0..100).for_each(|_| assert_eq!(records(), 0));
    assert!(begin.elapsed() < Duration::from_secs(15), "it is waited for each time");
    drop(hanging);
    let begin = Instant::now();
    let mut found = 0;
    while found == 0 && begin.elapsed() < Duration::from_secs(60) {
        found = records();
    }
    assert_eq!([found, records()], [1, 0]);
}

#[test]
fn a_process_that_still_exits_when_recording_ends_has_the_record_of_its_exit() {
    let Some((mut listener, _alone)) = default_listener() else { return };
    let Some(hanging) = Hanging::start("exit") else { return };
    let of_process = |exits: &RecordedExits| of_processes(exits, &[hanging.pid].into()).len();
    assert_eq!(of_process(&listener.drain(&HostContext::default(), &[])), 0);
    assert_eq!(of_process(&listener.drain_last(&HostContext::default(), &[])), 1);
}

/// Runs a shell that forks so many processes, two at a time.
fn fork(processes: u32) {
    let script = "storm() { i=0; while [ $i -lt $1 ]; do (:); i=$((i+1)); done; }; storm $1 & storm $1 & wait";
    let shell = Command::new("sh").args(["-c", script, "sh", &(processes / 2).to_string()]).status().unwrap();
    assert!(shell.success());
}

#[test]
fn of_20000_forks_the_default_ring_loses_none() {
    let Some((listener, _alone)) = default_listener() else { return };
    let begin = Instant::now();
    fork(20_000);
    let elapsed = begin.elapsed();
    let ExitRecords { received, lost, .. } = drained(listener).summary;
    eprintln!("{received} records of 20,003 processes in {elapsed:?}, {lost} lost");
    assert!(received >= 20_003);
    assert_eq!(lost, 0);
}

#[test]
fn what_a_small_ring_has_no_room_for_is_counted() {
    let Some((listener, _alone)) = listener(&Options::default(), 4096) else { return };
    fork(5000);
    let ExitRecords { received, lost, .. } = drained(listener).summary;
    assert!(lost > 0 && received > 0, "{received} records, {lost} lost");
    assert!(received + lost >= 5003, "{received} records, {lost} lost");
}

#[test]
fn an_exited_process_is_in_the_cgroup_that_captures_know() {
    let Some((mut listener, _alone)) = default_listener() else { return };
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let mut capturer = Capturer::new(Options::default(), 1).unwrap();
    capturer.share_cgroups(&listener);
    let snapshot = capturer.capture(Smaps::Never).unwrap();
    let own = snapshot.threads.iter().find(|thread| thread.tgid == std::process::id()).unwrap();
    let exits = listener.drain(&HostContext::default(), &[]);
    let [exited] = of_processes(&exits, &[child.id()].into()).try_into().unwrap();
    assert!(own.cgroup.is_some());
    assert_eq!(exited.state.cgroup, own.cgroup);
}

#[test]
fn a_job_whose_cgroup_is_made_and_removed_while_it_is_recorded_has_its_name() {
    let Some((mut listener, _alone)) = default_listener() else { return };
    let mut tried = 0;
    for root in cgroup_roots().into_iter().filter(|root| has_values(root)) {
        let Some(job) = Job::create(&root, tried) else { continue };
        let shell = job.run();
        let path = job.path.clone();
        drop(job);
        assert_in(&path, shell, &listener.drain(&HostContext::default(), &[]));
        tried += 1;
    }
    if tried == 0 {
        skipped(Missing::Privilege("to create cgroups"));
    }
}

#[test]
fn a_job_has_the_name_of_its_cgroup_though_that_was_empty_when_threads_were_read() {
    let roots = cgroup_roots().into_iter().filter(|root| has_values(root) && is_writable(root));
    let jobs: Vec<_> = roots.zip(100..).filter_map(|(root, number)| Job::create(&root, number)).collect();
    let Some((mut listener, _alone)) = default_listener() else { return };
    if jobs.is_empty() {
        return skipped(Missing::Privilege("to create cgroups"));
    }
    let mut capturer = Capturer::new(Options::default(), 1).unwrap();
    capturer.share_cgroups(&listener);
    capturer.capture(Smaps::Never).unwrap();
    let shells: Vec<_> = jobs.iter().map(Job::run).collect();
    let exits = listener.drain(&HostContext::default(), &[]);
    jobs.iter().zip(shells).for_each(|(job, shell)| assert_in(&job.path, shell, &exits));
}

/// A cgroup, deeper than this process is in any hierarchy: a thread is grouped by its deepest cgroup.
struct Job {
    path: String,
    directories: Vec<CgroupDirectory>,
}

impl Job {
    fn create(root: &Path, number: u32) -> Option<Self> {
        let name = format!("ctprof-job-{}-{number}", std::process::id());
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let depth = own.lines().map(|line| line.matches('/').count()).max().unwrap() + 1;
        let path = (0..depth).map(|_| "/step").fold(format!("/{name}"), |path, step| path + step);
        let parts = path.match_indices('/').skip(1).map(|(end, _)| &path[1..end]).chain([&path[1..]]);
        let directories = parts.map(|part| CgroupDirectory::create(root, part)).collect::<Option<_>>()?;
        Some(Self { path, directories })
    }

    /// Runs two processes in it. Returns the id of the parent.
    fn run(&self) -> u32 {
        let script = "echo 0 >\"$1/cgroup.procs\"; true & wait; exec true";
        let deepest = &self.directories.last().unwrap().0;
        let mut shell = Command::new("bash").args(["-c", script, "bash"]).arg(deepest).spawn().unwrap();
        assert!(shell.wait().unwrap().success());
        shell.id()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        while self.directories.pop().is_some() {}
    }
}

fn assert_in(path: &str, shell: u32, exits: &RecordedExits) {
    let of_job = exits.threads().filter(|exit| exit.state.tgid == shell || exit.ppid == shell);
    let cgroups: Vec<_> = of_job.map(|exit| exit.state.cgroup).collect();
    assert_eq!(cgroups.len(), 2);
    assert!(cgroups.iter().all(|cgroup| cgroup.as_deref() == Some(path)), "{cgroups:?} in {path}");
}

#[test]
fn each_of_many_jobs_has_the_name_of_its_own_cgroup_though_the_kernel_uses_memory_again() {
    let Some((mut listener, _alone)) = default_listener() else { return };
    let Some(root) = deciding_root() else { return skipped(Missing::Privilege("to create cgroups")) };
    let jobs: BTreeMap<u32, String> = (0..200)
        .map(|job| {
            let name = format!("ctprof-jobs-{}-{job}", std::process::id());
            let directory = CgroupDirectory::create(&root, &name).unwrap();
            let script = "echo 0 >\"$1/cgroup.procs\" && exec true";
            let mut shell = Command::new("sh").args(["-c", script, "sh"]).arg(&directory.0).spawn().unwrap();
            assert!(shell.wait().unwrap().success());
            (shell.id(), format!("/{name}"))
        })
        .collect();
    let exits = listener.drain(&HostContext::default(), &[]);
    let named: BTreeMap<u32, String> = exits
        .threads()
        .filter(|exit| jobs.contains_key(&exit.state.tgid))
        .map(|exit| (exit.state.tgid, exit.state.cgroup.unwrap_or_default().to_string()))
        .collect();
    assert_eq!(named, jobs);
}

#[test]
fn a_container_that_starts_and_exits_while_it_is_recorded_has_its_name() {
    let _alone = alone();
    let path = format!("/lxc.payload.ctprof-test-{}", std::process::id());
    let Some(root) = deciding_root() else { return skipped(Missing::Privilege("to create cgroups")) };
    let file = tempfile::tempdir().unwrap();
    let file = file.path().join("window");
    let script = r#"mkdir "$1" && (echo 0 >"$1/cgroup.procs"; exec true); until rmdir "$1"; do :; done 2>/dev/null"#;
    let recorded = Command::new(env!("CARGO_BIN_EXE_ctprof"))
        .args(["record", "-q", "-o", file.to_str().unwrap(), "--", "bash", "-c", script, "bash"])
        .arg(format!("{}{path}", root.display()))
        .status();
    assert!(recorded.unwrap().success());
    let window = CtprofSnapshot::load(&file).unwrap();
    if window.head.window.unwrap().exit_records.is_none_or(|records| records.source != "bpf") {
        return skipped(Missing::Privilege("for records of exits"));
    }
    assert!(!window.head.cgroup_stats.contains_key(&path), "no capture has seen it");
    assert_eq!(window.head.containers[&path].name.as_deref(), path.strip_prefix("/lxc.payload."));
}

/// The hierarchy by which threads are grouped that are as deep in another: of memory, if it is one of version 1.
fn deciding_root() -> Option<PathBuf> {
    let roots = cgroup_roots().into_iter().filter(|root| has_values(root) && is_writable(root));
    roots.min_by_key(|root| !root.ends_with("memory"))
}

fn is_writable(root: &Path) -> bool {
    nix::unistd::access(root, nix::unistd::AccessFlags::W_OK).is_ok()
}

/// Whether threads can be grouped by their cgroup in a hierarchy.
fn has_values(root: &Path) -> bool {
    let of_controllers = ["memory", "cpu", "cpuacct", "blkio", "pids"].iter().any(|name| root.ends_with(name));
    of_controllers || root.join("cgroup.controllers").exists()
}

#[test]
fn a_listener_stops_when_it_is_dropped() {
    let is_listening = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        threads.map(name).any(|name| name.trim_end() == "ctprof-exits")
    };
    let Some((listener, _alone)) = default_listener() else { return };
    drop(listener);
    let begin = Instant::now();
    while is_listening() {
        assert!(begin.elapsed() < Duration::from_secs(10), "the thread still runs");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_listener_that_goes_on_has_each_exit_once() {
    let Some((mut listener, _alone)) = default_listener() else { return };
    let run = |listener: &mut ExitListener| {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let exits = listener.drain(&HostContext::default(), &[]);
        (child.id(), exits.threads().map(|thread| thread.state.tgid).collect::<Vec<_>>())
    };
    let (first, exits) = run(&mut listener);
    assert!(exits.contains(&first));
    let (second, exits) = run(&mut listener);
    assert!(exits.contains(&second) && !exits.contains(&first), "{exits:?} after {first}");
    Command::new("true").status().unwrap();
    listener.restart();
    let (third, exits) = run(&mut listener);
    assert!(exits.contains(&third) && !exits.contains(&second));
}

/// How often the threads of this name have left a CPU by themselves.
fn switches(name: &str) -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let text = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let of = threads.filter(|task| text(task.path().join("comm")).trim_end() == name);
    let count = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    of.filter_map(|task| count(text(task.path().join("status")))).sum()
}

#[test]
fn a_listener_sleeps_while_no_thread_exits() {
    let Some((_listener, _alone)) = default_listener() else { return };
    // Other threads of the host may exit meanwhile, as many as start or a few more: the quietest second counts.
    let started = || {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        stat.lines().find_map(|line| line.strip_prefix("processes ")?.parse::<u64>().ok()).unwrap()
    };
    let in_a_second = || {
        let before = (switches("ctprof-exits"), started());
        thread::sleep(Duration::from_secs(1));
        (switches("ctprof-exits") - before.0, started() - before.1)
    };
    let quietest = (0..10).map(|_| in_a_second()).find(|(switches, started)| *switches < 100 + started);
    assert!(quietest.is_some(), "polling every 5 ms would be 200 switches per second");
}

#[test]
fn a_recording_of_selected_processes_has_only_those_and_closes_what_exits() {
    let Some(alone) = default_listener().map(|(_, alone)| alone) else { return };
    let script = format!("read line; {} 1500; exec {} 300", example("burn").display(), example("burn").display());
    let mut shell = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
    let mut ctprof = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    ctprof.args(["record", "-d", "6s", "--per", "run", "--format", "json", "-p"]).arg(format!("1,{}", shell.id()));
    let recording = ctprof.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_secs(2));
    drop(shell.stdin.take());
    assert!(shell.wait().unwrap().success());
    let out = recording.wait_with_output().unwrap();
    drop(alone);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let runs: Vec<_> = rows
        .iter()
        .filter(|row| row["section"] == "overview" && row["metric"] == "run" && row["path"] != serde_json::json!([]))
        .map(|row| (row["group"].as_str().unwrap(), row["value"].as_f64().unwrap_or(0.0) / 1e6))
        .collect();
    let burn = runs.iter().find(|(group, _)| *group == "burn").unwrap_or_else(|| panic!("{runs:?}"));
    assert!((60.0..400.0).contains(&burn.1), "300 ms of real time, without the 1.5 s of the child: {runs:?}");
    assert!(runs.iter().all(|(group, _)| !group.contains("exited") && *group != "ctprof"), "{runs:?}");
}

/// Starts a process with this id, which must be free; `None` if other processes are always faster, or this user may not choose ids.
fn started_as(pid: u32, command: &mut Command) -> Option<Killed> {
    let start = |_| {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        Some(Killed(command.spawn().unwrap())).filter(|started| started.0.id() == pid)
    };
    (0..100).find_map(start)
}

#[test]
fn a_later_process_with_the_id_of_a_selected_one_is_in_no_recording() {
    let Some(_alone) = default_listener().map(|(_, alone)| alone) else { return };
    let [mut first, other] = [(); 2].map(|()| Killed(Command::new("sleep").arg("100").spawn().unwrap()));
    let pid = first.0.id();
    let recordings = [&[][..], &["--every", "1s"], &["--engine", "procfs"]].map(|options| {
        let mut ctprof = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        ctprof.args(["record", "-d", "5s", "-p"]).arg(format!("{pid},{}", other.0.id())).args(options);
        ctprof.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    });
    thread::sleep(Duration::from_secs(2));
    first.0.kill().and_then(|()| first.0.wait()).unwrap();
    let later = started_as(pid, Command::new(example("burn")).arg("1000").stdin(Stdio::null()));
    let Some(mut later) = later else { return skipped(Missing::Privilege("to choose a process id (ns_last_pid)")) };
    assert!(later.0.wait().unwrap().success());
    for recording in recordings {
        let out = String::from_utf8(recording.wait_with_output().unwrap().stdout).unwrap();
        assert!(out.contains("(0 started, 1 exited)"), "{out}");
        assert!(!out.lines().any(|line| line.trim_start().starts_with("burn")), "{out}");
    }
}

#[test]
fn a_zombie_has_the_peak_of_its_memory() {
    let Some((_, _alone)) = default_listener() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("window");
    let dd = "dd bs=64M count=2 if=/dev/zero of=/dev/null";
    // The command until it is reaped, and a child that nobody waits for.
    for script in [format!("exec {dd}"), format!("{dd} & exec sleep 0.5")] {
        for every in [&[][..], &["--every", "50ms"]] {
            let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
            record.args(["record", "-q", "-o"]).arg(&file).args(every).args(["--", "sh", "-c", &script]);
            assert!(record.stderr(Stdio::null()).status().unwrap().success());
            let mut show = Command::new(env!("CARGO_BIN_EXE_ctprof"));
            let options = ["--scope", "command", "--metrics", "hiwater_rss_bytes", "-u", "-f", "json"];
            let shown = show.arg("show").arg(&file).args(options).output().unwrap();
            let report: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
            let dd = report["rows"].as_array().unwrap().iter().find(|row| row["group"] == "dd").expect("dd");
            let bytes = dd["value"].as_u64().unwrap_or_else(|| panic!("{script} {every:?}: {dd}"));
            assert!((64 << 20..80 << 20).contains(&bytes), "{script} {every:?}: {bytes}");
        }
    }
}

#[test]
fn a_script_that_is_gone_before_the_next_capture_has_its_name() {
    let Some((listener, _alone)) = default_listener() else { return };
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("short-lived.sh");
    let mut listener = listener;
    // Where others keep the thread that reads names waiting, a longer life helps.
    for seconds in ["0.05", "0.2", "1", "5"] {
        std::fs::write(&script, format!("sleep {seconds}\ntrue\n")).unwrap();
        listener.restart();
        let shell = Command::new("sh").arg(&script).spawn().unwrap();
        let id = shell.id();
        { shell }.wait().unwrap();
        let exits = listener.drain(&HostContext::default(), &[]);
        let of_shell: Vec<_> = exits.threads().filter(|exit| exit.state.tgid == id).collect();
        assert_eq!(of_shell.len(), 1);
        if of_shell[0].state.program.as_deref() == Some("short-lived.sh") {
            return;
        }
    }
    panic!("no script of up to 5 s had its name");
}
