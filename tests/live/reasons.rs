//! Causes that are planted are the reasons of a window.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ctprof::CtprofSnapshot;
use ctprof::model::{Owner, Reason, ReasonClass, Reasons};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::alone::alone;
use crate::example::example;
use crate::support::{Missing, copy_program, skipped};

/// Where others have thousands of threads, passes are seconds apart: such a window is recorded again.
const FEWEST_PASSES: u64 = 8;
const ATTEMPTS: usize = 5;

/// The reasons of a window in which a shell runs a script, with more arguments for `record`. `None` prints why the test is
/// skipped.
fn reasons_of(arguments: &[&str], script: &str) -> Option<Reasons> {
    let mut attempts = (0..ATTEMPTS).map(|_| reasons_of_one(arguments, script));
    let is_known =
        |reasons: &Option<Reasons>| reasons.as_ref().is_none_or(|found| found.sampling.passes >= FEWEST_PASSES);
    let found = attempts.find(is_known);
    if found.is_none() {
        skipped(Missing::Kernel(format!("a host on which {FEWEST_PASSES} passes are made")));
    }
    found.flatten()
}

fn reasons_of_one(arguments: &[&str], script: &str) -> Option<Reasons> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    command.args(["-q", "record", "-o"]).arg(&file).args(arguments);
    let status = command.args(["--", "sh", "-c", script]).current_dir(directory.path()).status().unwrap();
    assert!(status.success(), "{status}");
    let reasons = *CtprofSnapshot::load(&file).unwrap().head.reasons.expect("a window has reasons");
    if reasons.sampling.source == "procfs" && arguments.is_empty() {
        skipped(Missing::Privilege("BPF".to_owned()));
        return None;
    }
    Some(reasons)
}

/// The time of each reason of the processes with this name, in seconds, the longest first.
fn times<'r>(reasons: &'r Reasons, pcomm: &str) -> Vec<(f64, &'r Reason)> {
    let place = |number: u64| usize::try_from(number).unwrap();
    let of_process = reasons.times.iter().filter(|time| &*reasons.threads[place(time.threads)].pcomm == pcomm);
    let mut times: Vec<_> = of_process
        .map(|time| (std::time::Duration::from_nanos(time.ns).as_secs_f64(), &reasons.reasons[place(time.reason)]))
        .collect();
    times.sort_by(|one, other| other.0.total_cmp(&one.0));
    times
}

#[test]
fn a_process_that_sleeps_says_so_with_bpf_and_without() {
    for engine in ["auto", "procfs"] {
        // Others may run sleep(1) too.
        let script = "cp \"$(command -v sleep)\" napping; ./napping 3; true";
        let Some(reasons) = reasons_of(&["--engine", engine], script) else { return };
        let (seconds, reason) = times(&reasons, "napping")[0];
        assert_eq!((reason.class, reason.entry.as_deref()), (ReasonClass::Sleep, Some("clock_nanosleep")), "{engine}");
        assert!((1.5..3.8).contains(&seconds), "{engine}: {seconds} s");
    }
}

#[test]
fn a_process_that_writes_through_waits_for_its_file() {
    let script = "timeout 2 dd if=/dev/zero of=written bs=4k count=1000000 oflag=dsync conv=notrunc 2>/dev/null; true";
    let Some(reasons) = reasons_of(&[], script) else { return };
    let times = times(&reasons, "dd");
    let blocked: Vec<_> = times.iter().filter(|(_, reason)| reason.class == ReasonClass::Block).collect();
    let Some((_, first)) = blocked.first() else {
        return skipped(Missing::Kernel("a file system that waits for a disk"));
    };
    assert_eq!(first.entry.as_deref(), Some("write"), "{times:#?}");
    assert!(first.object.as_deref().is_some_and(|object| object.ends_with("/written")), "{times:#?}");
}

/// What the processes of `causes.c` wait for: the names of their system calls on one architecture or the other.
const CAUSES: [(&str, ReasonClass, &[&str]); 23] = [
    ("slept", ReasonClass::Sleep, &["clock_nanosleep"]),
    ("locked", ReasonClass::Sleep, &["futex"]),
    ("signalled", ReasonClass::Sleep, &["futex"]),
    ("piped", ReasonClass::Sleep, &["read"]),
    ("received", ReasonClass::Sleep, &["recvfrom"]),
    ("accepted", ReasonClass::Sleep, &["accept"]),
    ("epolled", ReasonClass::Sleep, &["epoll_wait", "epoll_pwait"]),
    ("polled", ReasonClass::Sleep, &["poll", "ppoll"]),
    ("selected", ReasonClass::Sleep, &["select", "pselect6"]),
    ("reaped", ReasonClass::Sleep, &["wait4"]),
    ("vforked", ReasonClass::Block, &["vfork", "clone"]),
    ("synced", ReasonClass::Block, &["fsync"]),
    ("datasynced", ReasonClass::Block, &["fdatasync"]),
    ("through", ReasonClass::Block, &["pwrite64"]),
    ("flocked", ReasonClass::Sleep, &["flock"]),
    ("regions", ReasonClass::Sleep, &["fcntl"]),
    ("awaited", ReasonClass::Sleep, &["rt_sigtimedwait"]),
    ("semaphore", ReasonClass::Sleep, &["semtimedop"]),
    ("messages", ReasonClass::Sleep, &["msgrcv"]),
    ("timed", ReasonClass::Sleep, &["read"]),
    ("asynchronou", ReasonClass::Sleep, &["io_getevents"]),
    ("stopped", ReasonClass::Stopped, &[""]),
    ("traced", ReasonClass::Traced, &[""]),
];

/// Whether a process of `causes.c` waits for what it should. How long it waits for a CPU depends on who else is here.
fn is_first(reasons: &Reasons, (name, class, calls): &(&str, ReasonClass, &[&str])) -> bool {
    let times = times(reasons, &format!("for-{name}"));
    let first = times.iter().find(|(_, reason)| !matches!(reason.class, ReasonClass::Run | ReasonClass::Wait));
    first.is_some_and(|(_, found)| found.class == *class && calls.contains(&found.entry.as_deref().unwrap_or("")))
}

#[test]
fn each_planted_cause_is_the_first_one_of_its_group_with_bpf_and_without() {
    // Four of its threads fill a CPU.
    let _alone = alone();
    // Its files have to wait for a disk, which those in the directory for temporary files may not.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = directory.path().join("causes");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/causes.c");
    if Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status().is_err() {
        return skipped(Missing::Tool("cc"));
    }
    for engine in ["auto", "procfs"] {
        let script = format!("cd {} && ./causes 5; true", directory.path().display());
        let is_of_disk = |(name, class, _): &&_| *name != "vforked" && *class == ReasonClass::Block;
        let waits_for_disk = |reasons: &Reasons| CAUSES.iter().filter(is_of_disk).all(|cause| is_first(reasons, cause));
        // A disk that others keep busy, or a CPU, leaves few of these waits in one recording.
        let mut recordings = (0..3).map_while(|_| reasons_of(&["--engine", engine], &script)).peekable();
        let Some(first) = recordings.peek().cloned() else { return };
        let reasons = recordings.find(waits_for_disk).unwrap_or_else(|| {
            skipped(Missing::Kernel("a file system that waits for a disk"));
            first
        });
        for cause in CAUSES.iter().filter(|cause| !is_of_disk(cause)) {
            assert!(
                is_first(&reasons, cause),
                "{engine}, {}: {:#?}",
                cause.0,
                times(&reasons, &format!("for-{}", cause.0))
            );
        }
        let locked = times(&reasons, "for-locked");
        let is_held = |reason: &Reason| reason.class == ReasonClass::Sleep && reason.by.is_some();
        let owners = locked.iter().filter(|(_, reason)| is_held(reason)).flat_map(|(_, reason)| &reason.by);
        let owners: Vec<_> = owners.map(|by| &*by.pcomm).collect();
        assert!(!owners.is_empty() && owners.iter().all(|owner| *owner == "for-locked"), "{engine}: {locked:#?}");
        for (waiter, call) in [("for-flocked", "flock"), ("for-regions", "fcntl")] {
            let times = times(&reasons, waiter);
            let of_call = times.iter().filter(|(_, reason)| reason.entry.as_deref() == Some(call));
            let mut holders = of_call.filter_map(|(_, reason)| Some(&*reason.by.as_ref()?.pcomm));
            // It has the name of its parent when it starts.
            assert_eq!(holders.next(), Some("feeder"), "{engine}: {times:#?}");
        }
        let pinned = times(&reasons, "for-pinned");
        let of_class =
            |class| pinned.iter().filter(|(_, reason)| reason.class == class).map(|(time, _)| time).sum::<f64>();
        let [wait, run] = [ReasonClass::Wait, ReasonClass::Run].map(of_class);
        assert!(wait > run, "{engine}: four threads have one CPU: {pinned:#?}");
        let spin = times(&reasons, "for-spin");
        let awake = spin.iter().filter(|(_, reason)| matches!(reason.class, ReasonClass::Run | ReasonClass::Wait));
        let [awake, all] = [awake.map(|(time, _)| time).sum::<f64>(), spin.iter().map(|(time, _)| time).sum()];
        assert!(awake > 0.8 * all, "{engine}: {spin:#?}");
    }
}

#[test]
fn two_programs_on_one_cpu_wait_for_each_other() {
    let _alone = alone();
    // Others may use that CPU too, and have it whenever one of these two waits: root has it before them.
    let script = "alone() { taskset -c 0 nice -n -10 timeout 2 \"$@\" >/dev/null 2>&1; }; \
                  alone sha256sum /dev/zero & alone gzip -c /dev/zero; wait; true";
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let Some(reasons) = reasons_of(&[], script) else { return };
        let is_named = |(victim, culprit): (&str, &str)| {
            let mut times = times(&reasons, victim).into_iter();
            times.any(|(_, reason)| reason.by.as_ref().is_some_and(|by| &*by.pcomm == culprit))
        };
        if [("gzip", "sha256sum"), ("sha256sum", "gzip")].into_iter().all(is_named) {
            return;
        }
        seen.push(reasons);
    }
    panic!("{seen:#?}");
}

#[test]
fn a_window_without_samples_has_no_reasons() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    assert!(command.args(["-q", "record", "--no-why", "-d", "50ms", "-o"]).arg(&file).status().unwrap().success());
    assert_eq!(CtprofSnapshot::load(&file).unwrap().head.reasons, None);
}

#[test]
fn an_exited_command_has_its_reasons_and_the_name_of_its_script() {
    let directory = tempfile::tempdir().unwrap();
    let [file, script] = ["w", "job.sh"].map(|name| directory.path().join(name));
    std::fs::write(&script, "> started\nread line < pipe\n").unwrap();
    nix::unistd::mkfifo(&directory.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    command.args(["-q", "record", "-o"]).arg(&file).args(["--", "sh"]).arg(&script);
    let mut recorder = command.current_dir(directory.path()).spawn().unwrap();
    while !directory.path().join("started").exists() {
        assert_eq!(recorder.try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    std::thread::sleep(std::time::Duration::from_secs(2));
    std::fs::write(directory.path().join("pipe"), "go\n").unwrap();
    assert!(recorder.wait().unwrap().success());
    let window = CtprofSnapshot::load(&file).unwrap();
    let reasons = window.head.reasons.as_ref().unwrap();
    if reasons.sampling.source == "procfs" {
        return skipped(Missing::Privilege("BPF".to_owned()));
    }
    let owners: Vec<_> = reasons.threads.iter().filter(|of| &*of.pcomm == "sh").map(|of| of.owner).collect();
    assert!(owners.contains(&Some(Owner::Command)), "{owners:?}");
    let of_command = window.threads.iter().find(|thread| thread.owner == Some(Owner::Command)).unwrap();
    assert_eq!(of_command.program.as_deref(), Some("job.sh"));
}

#[test]
fn threads_that_procfs_saw_exit_give_their_reasons_to_no_other() {
    let script = "sh -c 'read line < pipe' & sleep 3; echo > pipe; wait; head -c 300000000 /dev/zero > /dev/null";
    let Some(reasons) = reasons_of_one(&["--engine", "procfs"], &format!("mkfifo pipe; {script}")) else { return };
    let opened: Vec<_> =
        times(&reasons, "sh").into_iter().filter(|(_, reason)| reason.entry.as_deref() == Some("openat")).collect();
    assert!(opened.is_empty(), "the other shell waited: {opened:?}");
}

#[test]
fn threads_of_another_user_say_that_they_are_not_readable() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (file, program) = (directory.path().join("w"), directory.path().join("for-unread"));
    copy_program("/bin/sleep", &program);
    let mut sleeper = Command::new(&program).arg("100").spawn().unwrap();
    let mut recorder = Command::new("setpriv");
    recorder.args([
        "--reuid",
        "65534",
        "--clear-groups",
        env!("CARGO_BIN_EXE_ctprof"),
        "-q",
        "record",
        "-d",
        "300ms",
        "-o",
    ]);
    let recorded = recorder.arg(&file).output().unwrap();
    sleeper.kill().and_then(|()| sleeper.wait()).unwrap();
    if !recorded.status.success() {
        return skipped(Missing::Privilege("root, with setpriv, and a directory that all may enter".to_owned()));
    }
    let reasons = CtprofSnapshot::load(&file).unwrap().head.reasons.unwrap();
    let classes: Vec<_> = times(&reasons, "for-unread").into_iter().map(|(_, reason)| reason.class).collect();
    assert_eq!(classes, [ReasonClass::Unread]);
}

/// A process that spins on a CPU with this nice value, and says at its end how long it was kept from running at most.
struct Spinner(Child);

impl Spinner {
    fn start(cpu: usize, nice: &str) -> Self {
        let mut command = Command::new("nice");
        command.args(["-n", nice]).arg(example("spin")).arg(cpu.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; b"ready\n".len()];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        Self(child)
    }

    fn stop(self) -> Duration {
        let output = self.0.wait_with_output().unwrap();
        Duration::from_nanos(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap())
    }
}

/// The longest wait of all threads of a window, in nanoseconds, and whether it is exact.
fn longest_wait(file: &Path) -> Option<(u64, bool)> {
    let mut show = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    let output = show.args(["show", "-m", "longest", "--format", "json"]).arg(file).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let value = &rows.iter().find(|row| row["metric"] == "longest" && row["path"] == json!([]))?["value"];
    value.as_u64().map(|ns| (ns, true)).or_else(|| Some((value["at_least"].as_u64()?, false)))
}

#[test]
fn the_longest_wait_of_a_process_is_at_most_what_it_noticed_itself() {
    let _alone = alone();
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cpu = (0..CpuSet::count()).rfind(|cpu| allowed.is_set(*cpu).unwrap()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w");
    // The other process comes before the window or in it: the longest wait of all may be older than the window or not.
    for is_before in [false, true] {
        let victim = Spinner::start(cpu, "19");
        let before = is_before.then(|| Spinner::start(cpu, "0"));
        std::thread::sleep(Duration::from_secs(2));
        let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        record.args(["-q", "record", "-d", "4s", "-p", &victim.0.id().to_string(), "-o"]).arg(&file);
        let mut recorder = record.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let other = before.unwrap_or_else(|| Spinner::start(cpu, "0"));
        assert!(recorder.wait().unwrap().success());
        let (_, noticed) = (other.stop(), victim.stop());
        let sampling = CtprofSnapshot::load(&file).unwrap().head.reasons.unwrap().sampling;
        let longest = longest_wait(&file);
        if sampling.source != "bpf" || (longest.is_none_or(|(_, exact)| !exact) && sampling.passes < FEWEST_PASSES) {
            return skipped(Missing::Privilege("BPF, and time for samples".to_owned()));
        }
        let (ns, exact) = longest.unwrap();
        let found = Duration::from_nanos(ns);
        assert!(found <= noticed + Duration::from_millis(1), "{found:?}, exact: {exact}, noticed: {noticed:?}");
        assert!(found > noticed / 20, "{found:?}, exact: {exact}, noticed: {noticed:?}");
    }
}
