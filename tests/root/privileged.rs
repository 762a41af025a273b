//! Tests that need root: delay accounting, cgroups, other users. Skipped with the reason otherwise.

use crate::support::{Missing, skipped};
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use ctprof::capture::{Engine, Options, capture_with};
use ctprof::model::{Limit, LimitBytes, LimitUs, Metrics, PeriodUs, SourceFile};
use ctprof::{CtprofSnapshot, capture_pid};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{Pid, gettid};

use crate::alone::alone;
use crate::example::example;
use crate::host::{CgroupDirectory, Killed, Sysctl};

/// The values of a thread of this process after it has done `work`, from procfs and taskstats.
fn metrics_after(work: impl FnOnce() + Send) -> (CtprofSnapshot, Metrics) {
    let (done, is_done) = channel();
    let (end, is_end) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            work();
            done.send(u32::try_from(gettid().as_raw()).unwrap()).unwrap();
            let _ = is_end.recv();
        });
        let tid = is_done.recv().unwrap();
        let mut options = Options::default();
        // BPF needs no taskstats.
        options.engine = Engine::Procfs;
        options.pids = vec![std::process::id()];
        let snapshot = capture_with(&options).unwrap();
        drop(end);
        let thread = snapshot.threads.iter().find(|thread| thread.tid == tid).unwrap();
        let metrics = (*thread.metrics).clone();
        (snapshot, metrics)
    })
}

/// Whether taskstats is available; prints the reason if not.
fn taskstats_answers(snapshot: &CtprofSnapshot) -> bool {
    let summary = snapshot.head.taskstats_summary.as_ref().unwrap();
    if summary.ok_count == 0 {
        skipped(Missing::Privilege(format!("taskstats: {summary:?}")));
    }
    summary.ok_count > 0
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {}
}

#[test]
fn two_spinners_on_one_cpu_wait_for_it() {
    let _alone = alone();
    let pinned = || {
        let mut one = CpuSet::new();
        one.set(0).unwrap();
        sched_setaffinity(Pid::from_raw(0), &one).unwrap();
        spin(Duration::from_millis(400));
    };
    let (snapshot, metrics) = metrics_after(|| {
        thread::scope(|scope| {
            scope.spawn(pinned);
            pinned();
        });
    });
    if !taskstats_answers(&snapshot) {
        return;
    }
    let waited = metrics.cpu_delay_total_ns.unwrap().number();
    assert!(waited > 50_000_000, "{waited} ns");
    // The thread can wait for other programs between the two reads.
    let counted = metrics.wait_time_ns.map_or(0, u64::from);
    assert!(waited.abs_diff(counted) < waited / 5, "the scheduler's own count: {counted}, not {waited}");
    assert!(metrics.cpu_delay_count.unwrap().number() > 3);
    if snapshot.head.taskstats_summary.unwrap().struct_version >= Some(15) {
        assert!(metrics.cpu_delay_max_ns.unwrap().number() > metrics.cpu_delay_min_ns.unwrap().number());
    }
}

/// Captures as another user than this one, without privileges; the messages and the snapshot.
fn captured_as_nobody(options: &[&str]) -> Option<(String, CtprofSnapshot)> {
    let dir = tempfile::tempdir().unwrap();
    let (program, file) = (dir.path().join("ctprof"), dir.path().join("snapshot"));
    crate::support::copy_program(env!("CARGO_BIN_EXE_ctprof"), &program);
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let mut capture = Command::new("setpriv");
    let capture = capture.args(["--reuid", "65534", "--clear-groups"]).arg(&program).arg("capture").args(options);
    let done = capture.arg("-o").arg(&file).output().ok().filter(|done| done.status.success());
    if done.is_none() {
        skipped(Missing::Privilege("root, with setpriv and a temporary directory that all may enter"));
    }
    Some((String::from_utf8_lossy(&done?.stderr).into_owned(), CtprofSnapshot::load(&file).unwrap()))
}

/// Runs ctprof as another user than this one, with file capabilities as README.md grants them.
fn with_file_capabilities(dir: &Path, arguments: &[&str]) -> Option<String> {
    let program = dir.join("ctprof");
    crate::support::copy_program(env!("CARGO_BIN_EXE_ctprof"), &program);
    fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    let grant = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_net_admin,cap_dac_read_search+p";
    let granted = Command::new("setcap").arg(grant).arg(&program).status().is_ok_and(|status| status.success());
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups"]).arg(&program).args(arguments);
    let done = granted.then(|| command.stdin(Stdio::null()).output().ok()).flatten();
    if done.is_none() {
        skipped(Missing::Privilege("root, with setpriv and setcap"));
    }
    let done = done?;
    Some(String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
}

fn private(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

#[test]
fn file_capabilities_open_no_snapshot_that_the_user_may_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("snapshot");
    private(&file, br#"{"format_version": 2, "threads": "secret"}"#);
    let Some(said) = with_file_capabilities(dir.path(), &["show", file.to_str().unwrap()]) else { return };
    assert!(said.contains("Permission denied") && !said.contains("secret"), "{said}");
}

#[test]
fn file_capabilities_follow_no_link_in_a_tree_of_the_users_own() {
    let dir = tempfile::tempdir().unwrap();
    let (secret, task) = (dir.path().join("secret"), dir.path().join("proc/7/task/7"));
    private(&secret, b"secret word");
    fs::create_dir_all(&task).unwrap();
    // A backslash, for which the name is read from `comm`.
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let stat = format!("7 (a\\b) {}", stat.rsplit_once(") ").unwrap().1);
    for file in [task.join("stat"), dir.path().join("proc/7/stat")] {
        fs::write(file, &stat).unwrap();
    }
    std::os::unix::fs::symlink(&secret, task.join("comm")).unwrap();
    let other = dir.path().join("proc/8/task/8");
    fs::create_dir_all(&other).unwrap();
    for file in [other.join("stat"), dir.path().join("proc/8/stat")] {
        fs::write(file, stat.replacen("7 (a\\b)", "8 (other)", 1)).unwrap();
    }
    let snapshot = dir.path().join("out/snapshot");
    fs::create_dir(snapshot.parent().unwrap()).unwrap();
    fs::set_permissions(snapshot.parent().unwrap(), PermissionsExt::from_mode(0o777)).unwrap();
    let tree = dir.path().join("proc");
    let capture = ["capture", "--procfs", tree.to_str().unwrap(), "-o", snapshot.to_str().unwrap()];
    let Some(said) = with_file_capabilities(dir.path(), &capture) else { return };
    let captured = CtprofSnapshot::load(&snapshot).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(captured.head.parse_summary.as_ref().unwrap().tids_walked, 2, "{said}");
    let names: Vec<_> = captured.threads.iter().map(|thread| &*thread.comm).collect();
    assert_eq!(names, ["other"], "the thread whose name is behind a link is not read: {said}");
    assert!(!format!("{captured:?}").contains("secret word"), "{captured:?}");
}

#[test]
fn kernel_threads_count_as_failed_attachments() {
    let Some((_, snapshot)) = captured_as_nobody(&[]) else { return };
    let users = snapshot.threads.iter().filter(|thread| thread.is_leader() && !thread.kernel_thread).count();
    let summary = snapshot.head.probe_summary.unwrap();
    let users = u64::try_from(users).unwrap();
    assert!(summary.tgids_walked <= users && summary.failed <= users, "{users} processes: {summary:?}");
}

#[test]
fn verbose_messages_say_whose_files_could_not_be_read() {
    let sleeper = Killed(Command::new("sleep").arg("100").spawn().unwrap());
    let pid = sleeper.0.id();
    let Some((debug, snapshot)) = captured_as_nobody(&["-vv", "--pid", &pid.to_string()]) else { return };
    let line = format!(r#"cannot read file="io" pid={pid} tid={pid} process="sleep" errno=EACCES"#);
    assert!(debug.contains(&line), "{debug}");
    assert_eq!(snapshot.head.parse_summary.unwrap().unread_names[&SourceFile::Io], ["sleep"]);
    let (info, _) = captured_as_nobody(&["-v", "--pid", &pid.to_string()]).unwrap();
    assert!(info.contains("jemalloc: processes examined: 1, with jemalloc: 0, threads read: 0"), "{info}");
    assert!(!info.contains("cannot read file"), "{info}");
}

#[test]
fn memory_high_water_marks_are_those_of_status() {
    let _alone = alone();
    let (snapshot, metrics) = metrics_after(|| drop(black_box(vec![1u8; 32 << 20])));
    if !taskstats_answers(&snapshot) {
        return;
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    let read = metrics.hiwater_vm_bytes.unwrap().number() / 1024;
    assert!(read > 32 << 10 && read.abs_diff(peak) < 128 << 10, "{read} KiB, VmPeak {peak} KiB");
}

#[test]
fn a_thread_that_waits_for_the_disk_shows_it() {
    let _alone = alone();
    let Some(switch) = Sysctl::set("/proc/sys/kernel/task_delayacct", "1") else {
        return skipped(Missing::Privilege("to set kernel.task_delayacct"));
    };
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("data");
    fs::write(&path, vec![7; 8 << 20]).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    // Now and then the kernel counts a delay that is longer than the thread has lived: ctprof drops it.
    let is_possible = |snapshot: &CtprofSnapshot| snapshot.head.parse_summary.as_ref().unwrap().impossible_delays == 0;
    let mut attempts = (0..10).map(|_| metrics_after(|| read_past_the_cache(&path)));
    let (snapshot, metrics) = attempts.find(|(snapshot, _)| is_possible(snapshot)).unwrap();
    drop(switch);
    if !taskstats_answers(&snapshot) {
        return;
    }
    let reads = metrics.read_bytes.map_or(0, u64::from);
    if reads == 0 {
        return skipped(Missing::Kernel("O_DIRECT in the target directory"));
    }
    assert!(metrics.blkio_delay_count.unwrap().number() > 0 && metrics.blkio_delay_total_ns.unwrap().number() > 0);
}

fn read_past_the_cache(path: &Path) {
    let Ok(mut file) = OpenOptions::new().read(true).custom_flags(nix::libc::O_DIRECT).open(path) else { return };
    let mut memory = vec![0; 2 << 20];
    let aligned = memory.as_ptr().align_offset(4096);
    while file.read(&mut memory[aligned..aligned + (1 << 20)]).is_ok_and(|read| read > 0) {}
}

/// A cgroup in every hierarchy that the test needs, removed at the end.
struct Cgroup {
    name: String,
    directories: Vec<CgroupDirectory>,
}

impl Cgroup {
    /// In version 2 if it has the controllers, otherwise in the hierarchies of version 1.
    fn new() -> Option<Self> {
        let name = format!("ctprof-test-{}", std::process::id());
        let unified = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(unified.join("cgroup.controllers")).unwrap_or_default();
        let parents: Vec<PathBuf> = if controllers.contains("memory") && controllers.contains("cpu") {
            fs::write(unified.join("cgroup.subtree_control"), "+cpu +memory +pids").ok()?;
            vec![unified.to_owned()]
        } else {
            ["cpu", "cpuacct", "memory", "pids"]
                .map(|one| unified.join(one))
                .into_iter()
                .filter(|p| p.is_dir())
                .collect()
        };
        let directories = parents.iter().map(|parent| CgroupDirectory::create(parent, &name));
        let directories = directories.collect::<Option<Vec<_>>>()?;
        (!directories.is_empty()).then_some(Self { name, directories })
    }

    /// Writes to the first of the given files that exists.
    fn set(&self, files: &[(&str, &str)]) {
        let written = files.iter().any(|(file, value)| {
            let paths = self.directories.iter().map(|directory| directory.0.join(file));
            paths.filter(|path| path.exists()).any(|path| fs::write(path, value).is_ok())
        });
        assert!(written, "{files:?}");
    }

    fn take(&self, pid: u32) {
        self.directories
            .iter()
            .for_each(|directory| fs::write(directory.0.join("cgroup.procs"), pid.to_string()).unwrap());
    }
}

/// What `examples/burn.rs` fills.
const FILLED: usize = 64 << 20;

#[test]
fn a_cgroup_has_its_usage_its_limits_and_its_throttling() {
    let _alone = alone();
    let Some(cgroup) = Cgroup::new() else {
        return skipped(Missing::Kernel("a cgroup with limits that may be created"));
    };
    cgroup.set(&[("cpu.max", "20000 100000"), ("cpu.cfs_quota_us", "20000")]);
    cgroup.set(&[("memory.max", "536870912"), ("memory.limit_in_bytes", "536870912")]);
    let mut burn = Command::new(example("burn"));
    let mut child = Killed(burn.arg("600000").stdin(Stdio::piped()).spawn().unwrap());
    cgroup.take(child.0.id());
    std::io::Write::write_all(child.0.stdin.as_mut().unwrap(), b"x").unwrap();
    thread::sleep(Duration::from_millis(1500));

    let snapshot = capture_pid(child.0.id()).unwrap();
    let stats = &snapshot.head.cgroup_stats[&format!("/{}", cgroup.name)];
    let used = stats.cpu.usage_usec.unwrap().number();
    assert!((100_000..700_000).contains(&used), "{used} µs of CPU at a fifth of 1.5 s");
    assert!(
        stats.cpu.nr_throttled.unwrap().number() > 3 && stats.cpu.throttled_usec.unwrap().number() > 200_000,
        "{:?}",
        stats.cpu
    );
    let (quota, period) = (LimitUs::from(Limit::Number(20_000)), PeriodUs::from(100_000));
    assert_eq!((stats.cpu.max_quota_us, stats.cpu.max_period_us), (Some(quota), Some(period)));
    let filled = u64::try_from(FILLED).unwrap();
    let memory = stats.memory.current.unwrap().number();
    assert!((filled..2 * filled).contains(&memory), "{memory} bytes");
    assert!(stats.memory.peak.is_none_or(|peak| peak.number() >= filled));
    assert_eq!(stats.memory.max, Some(LimitBytes::from(Limit::Number(536_870_912))));
    assert!(stats.pids.current.is_none_or(|threads| threads.number() >= 1));
    assert!(snapshot.head.cgroup_stats.contains_key("/"), "quotas of those above it apply, too");
}

#[test]
fn a_quota_in_another_hierarchy_than_the_threads_group_is_captured() {
    let _alone = alone();
    let name = format!("ctprof-test-quota-{}", std::process::id());
    let directory = CgroupDirectory::create(Path::new("/sys/fs/cgroup/cpu"), &name);
    let Some(directory) = directory.filter(|directory| directory.0.join("cpu.cfs_quota_us").exists()) else {
        return skipped(Missing::Kernel("a CPU hierarchy of cgroup version 1"));
    };
    let cgroup = Cgroup { name, directories: vec![directory] };
    cgroup.set(&[("cpu.cfs_quota_us", "20000")]);
    let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let child = Killed(child);
    cgroup.take(child.0.id());
    let throttled = || {
        let stat = fs::read_to_string(cgroup.directories[0].0.join("cpu.stat")).unwrap();
        stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse::<u64>().ok()).unwrap()
    };
    // On a busy host, it takes long to use up the quota twice.
    let begin = Instant::now();
    while throttled() < 2 && begin.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(50));
    }

    let snapshot = capture_pid(child.0.id()).unwrap();
    let stats = &snapshot.head.cgroup_stats[&format!("/{}", cgroup.name)];
    assert!(stats.cpu.nr_throttled.unwrap().number() > 1, "{:?}", stats.cpu);
    let group = snapshot.threads[0].cgroup.as_deref().unwrap();
    assert!(snapshot.head.cgroup_stats.contains_key(group), "{group}");
}
