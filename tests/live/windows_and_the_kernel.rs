//! Windows agree with what the kernel counts for the same processes, whoever asks, and however the work ended.

use crate::support::{Missing, skipped};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use crate::alone;

/// Who runs the load and ctprof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    Current,
    Nobody,
}

const NOBODY: u32 = 65534;
/// `USER_HZ`.
const TICKS_PER_SECOND: f64 = 100.0;

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The current user, and another one if this one may change to it.
fn users() -> &'static [User] {
    if is_root() { &[User::Current, User::Nobody] } else { &[User::Current] }
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// A directory with programs whose names no other process has: tests write `lab-` for what each lab's names begin with.
struct Lab {
    directory: tempfile::TempDir,
    user: User,
    prefix: String,
}

/// Number of labs so far.
static LABS: AtomicUsize = AtomicUsize::new(0);

impl Lab {
    fn new(user: User) -> Self {
        // Numbers in names would make one group of several names.
        let letters = |number: usize| {
            [number / 26 % 26, number % 26].map(|place| char::from(b"abcdefghijklmnopqrstuvwxyz"[place]))
        };
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let prefix = [letters(std::process::id() as usize), letters(number)].concat().iter().chain(&['-']).collect();
        let lab = Self { directory: tempfile::tempdir().unwrap(), user, prefix };
        fs::set_permissions(lab.directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let churn = crate::example::example("churn");
        let programs = [Path::new(env!("CARGO_BIN_EXE_ctprof")), Path::new("/bin/sh"), Path::new("/bin/dd"), &churn];
        for (program, name) in programs.into_iter().zip(["ctprof", "lab-sh", "lab-dd", "lab-churn"]) {
            let program = program.canonicalize().unwrap();
            fs::hard_link(&program, lab.path(name))
                .unwrap_or_else(|_| crate::support::copy_program(&program, lab.path(name)));
        }
        lab
    }

    /// A text of a test with the names of this lab.
    fn own(&self, text: &str) -> String {
        text.replace("lab-", &self.prefix)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(self.own(name))
    }

    /// A program of the directory or of the system with arguments, run by the user in the directory.
    fn command(&self, words: &[&str]) -> Command {
        let (program, arguments) = words.split_first().unwrap();
        let own = self.path(program);
        let mut command = Command::new(if own.exists() { own.as_os_str() } else { program.as_ref() });
        command.args(arguments.iter().map(|word| self.own(word)));
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        // Nobody may not search all directories of the current user.
        let path = match self.user {
            User::Current => std::env::var("PATH").unwrap(),
            User::Nobody => "/usr/local/bin:/usr/bin:/bin".to_owned(),
        };
        command.env("PATH", format!("{}:{path}", self.directory.path().display()));
        if self.user == User::Nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn ctprof(&self, arguments: &[&str]) -> Output {
        self.command(&[&["ctprof"], arguments].concat()).output().unwrap()
    }

    fn capture(&self, file: &str) {
        let output = self.ctprof(&["capture", "-q", "-o", file]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    /// What `ctprof` reports about a window in whole units, after the common checks.
    fn report(&self, arguments: &[&str]) -> Report {
        let output = self.ctprof(&[arguments, &["--per", "run", "--format", "json"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        self.parse(&output.stdout)
    }

    fn parse(&self, report: &[u8]) -> Report {
        Report::parse(&text(report).replace(&self.prefix, "lab-"))
    }

    /// The window of a command, and what the command wrote.
    fn recorded(&self, options: &[&str], command: &[&str]) -> (Report, String) {
        let all = [&["record", "--per", "run", "--format", "json"], options, &["--"], command].concat();
        let output = self.ctprof(&all);
        assert!(output.status.success(), "{}", text(&output.stderr));
        (self.parse(&output.stderr), text(&output.stdout))
    }

    /// The window between two captures, before and after `happens`.
    fn between(&self, happens: impl FnOnce()) -> Report {
        self.capture("a");
        happens();
        self.capture("b");
        self.report(&["show", "a", "b"])
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The overview of a window.
#[derive(Debug)]
struct Report {
    window: Value,
    rows: Vec<Value>,
    /// Length of the later capture, in nanoseconds.
    capture_ns: f64,
}

impl Report {
    fn parse(json: &str) -> Self {
        // On a busy host, a process that executes a program can hold its locks for a second.
        let json: String = json.lines().filter(|line| !line.starts_with("ctprof: warning: reading ")).collect();
        let report: Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        let mut rows = report["rows"].as_array().unwrap().clone();
        let capture = rows.iter().find(|row| row["section"] == "capture" && row["metric"] == "duration");
        let capture_ns = capture.unwrap()["value"].as_f64().unwrap();
        rows.retain(|row| row["section"] == "overview");
        let report = Self { window: report["snapshot"]["window"].clone(), rows, capture_ns };
        report.is_possible();
        report
    }

    /// No CPU time is counted twice, and no counter wraps.
    fn is_possible(&self) {
        let cpu = &self.window["cpu"];
        let of = |name: &str| cpu[name].as_f64().unwrap();
        // Idle time is in ticks, and busy threads run on while others are read, in both captures.
        let slack = (0.02e9 + 2.0 * self.capture_ns) * of("cpus");
        let capacity = self.window["duration_ns"].as_f64().unwrap() * of("cpus");
        let run: Vec<_> = self.groups().into_iter().map(|group| (group, self.value(group, "run"))).collect();
        let sum = |is_counted: &dyn Fn(&str) -> bool| -> f64 {
            run.iter().filter(|(group, _)| is_counted(group)).map(|(_, run)| run).sum()
        };
        let is_own = |group: &str| group.starts_with("lab-") || group == "ctprof";
        let own = sum(&is_own);
        assert!(own <= capacity * 1.01 + slack, "{own} ns of {capacity}: {run:?}");
        // A child of another program that exits while a capture reads it brings work from before the window.
        if sum(&|group| !is_own(group)) < capacity * 0.1 {
            let all = sum(&|_| true);
            assert!(all <= capacity * 1.01 + slack, "{all} ns of {capacity}: {run:?}");
            assert!(of("explained_ns") <= of("busy_ns") * 1.01 + slack, "{cpu}");
        }
        let wraps = |row: &&Value| row["value"].as_f64().is_some_and(|value| value > 2f64.powi(60));
        assert_eq!(self.rows.iter().find(wraps), None);
    }

    /// The groups in the order of the report.
    fn groups(&self) -> Vec<&str> {
        let top = |row: &&Value| row["path"].as_array().unwrap().len() == 1 && row["metric"] == "run";
        self.rows.iter().filter(top).map(|row| row["group"].as_str().unwrap()).collect()
    }

    fn row(&self, path: &[&str], metric: &str) -> Option<&Value> {
        let is_it = |row: &&Value| row["path"] == serde_json::json!(path) && row["metric"] == metric;
        self.rows.iter().find(is_it)
    }

    fn value(&self, group: &str, metric: &str) -> f64 {
        self.row(&[group], metric).and_then(|row| row["value"].as_f64()).unwrap_or(0.0)
    }

    fn seconds(&self) -> f64 {
        self.window["duration_ns"].as_f64().unwrap() / 1e9
    }

    /// How many threads of a group started and exited.
    fn turnover(&self, group: &str) -> (u64, u64) {
        let turnover = &self.row(&[group], "run").unwrap()["turnover"];
        (turnover["started"].as_u64().unwrap(), turnover["exited"].as_u64().unwrap())
    }

    /// CPU-seconds of all groups.
    fn cpu_seconds(&self) -> f64 {
        self.groups().iter().map(|group| self.value(group, "run")).sum::<f64>() / 1e9
    }

    /// Groups that did less than this one are not before it.
    fn is_ranked(&self, group: &str, cpu_seconds: f64) {
        let groups = self.groups();
        let before = groups.iter().take_while(|name| **name != group);
        let run: Vec<_> = before.map(|name| (*name, self.value(name, "run") / 1e9)).collect();
        assert!(run.len() < groups.len(), "{group} is not among {groups:?}");
        assert!(run.iter().all(|(_, run)| *run >= cpu_seconds * 0.95 - 0.02), "{run:?} before {group}: {cpu_seconds}");
    }
}

/// Within 5 %, or two ticks. The kernel rounds each of the four times that are the truth down to a tick.
fn agree(what: &str, shown: f64, truth: f64) {
    let (fewest, most) = (truth - (truth * 0.05).max(0.02), truth + (truth * 0.05).max(0.02) + 0.04);
    assert!((fewest..=most).contains(&shown), "{what}: {shown} s shown, {truth} s counted by the kernel");
}

/// CPU-seconds of a process and of its children that it has waited for.
fn cpu_seconds(stat: &str) -> f64 {
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ');
    fields.skip(11).take(4).map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_SECOND
}

fn stat(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap()
}

/// A process with a process group of its own, which ends with the test.
struct Load {
    process: Child,
    stdout: BufReader<ChildStdout>,
}

impl Load {
    fn start(command: &mut Command) -> Self {
        let mut process = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        Self { process, stdout }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    fn send_line(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    fn stop(&self) {
        kill(self.pid(), Signal::SIGSTOP).unwrap();
        wait_for_state(self.pid(), 'T');
    }

    fn run_for(&self, time: Duration) {
        kill(self.pid(), Signal::SIGCONT).unwrap();
        thread::sleep(time);
        self.stop();
    }

    fn cpu_seconds(&self) -> f64 {
        cpu_seconds(&stat(self.pid()))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = killpg(self.pid(), Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

/// Waits until all threads of a process are in this state.
fn wait_for_state(pid: Pid, state: char) {
    let begin = Instant::now();
    let is_there = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(state));
    let stats = || fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    while !stats().all(|task| fs::read_to_string(task.path().join("stat")).is_ok_and(is_there)) {
        assert!(begin.elapsed() < Duration::from_secs(10), "process {pid} is not in state {state}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A shell script that works after a line of input, prints its `stat`, and stays until the end of its input.
fn script(work: &str) -> String {
    format!("read -r go; {work}\nread -r stat < /proc/$$/stat; echo \"$stat\"; read -r end; exit 0")
}

/// Work of children that are waited for. The captures and the recording of each agree with the kernel.
fn children_are_counted(lab: &Lab, work: &str, check: impl Fn(&Report)) {
    let script = script(work);
    let mut load = Load::start(&mut lab.command(&["lab-sh", "-c", &script]));
    let (before, mut after) = (load.cpu_seconds(), 0.0);
    let report = lab.between(|| {
        load.send_line();
        after = cpu_seconds(&load.line());
    });
    agree("between captures", report.value("lab-sh", "run") / 1e9, after - before);
    report.is_ranked("lab-sh", after - before);
    check(&report);
    let comparison = lab.ctprof(&["compare", "a", "b", "--per", "run", "--format", "json"]);
    let comparison: Value = serde_json::from_slice(&comparison.stdout).unwrap();
    let name = lab.own("lab-sh");
    let rows = comparison["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["path"] == serde_json::json!([name]) && row["metric"] == "run").unwrap();
    agree("compare", row["delta"].as_f64().unwrap() / 1e9, after - before);
    drop(load);

    let (report, printed) = lab.recorded(&["--scope", "command"], &["lab-sh", "-c", &script]);
    agree("recorded", report.cpu_seconds(), cpu_seconds(&printed));
    check(&report);
}

#[test]
fn a_shell_loop_has_the_work_of_its_children() {
    let work = "i=0; while [ $i -lt 25 ]; do (j=0; while [ $j -lt 30000 ]; do j=$((j+1)); done); i=$((i+1)); done";
    for user in users() {
        children_are_counted(&Lab::new(*user), work, |_| ());
    }
}

#[test]
fn a_loop_of_dd_has_every_byte_that_it_writes() {
    let work = "i=0; while [ $i -lt 25 ]; do
        lab-dd if=/dev/zero of=written bs=64k count=4 conv=fsync 2>/dev/null; i=$((i+1)); done";
    for user in users() {
        let lab = Lab::new(*user);
        if nix::sys::statfs::statfs(lab.directory.path()).unwrap().filesystem_type() == nix::sys::statfs::TMPFS_MAGIC {
            return skipped(Missing::Kernel("a temporary directory on a disk"));
        }
        children_are_counted(&lab, work, |report| {
            let written: f64 = ["lab-sh", "lab-dd"].iter().map(|group| report.value(group, "write")).sum();
            let truth = f64::from(64 * 1024 * 4 * 25);
            assert!((written - truth).abs() <= truth * 0.05, "{user:?}: {written} of {truth} bytes");
        });
    }
}

#[test]
fn a_loop_of_compilers_has_their_work() {
    if !has("cc") {
        return skipped(Missing::Tool("cc"));
    }
    for user in users() {
        let lab = Lab::new(*user);
        fs::write(lab.path("small.c"), "#include <stdio.h>\nint main(void) { return puts(\"\"); }\n").unwrap();
        let work = "i=0; while [ $i -lt 12 ]; do cc -O2 -c small.c -o small.o; i=$((i+1)); done";
        children_are_counted(&lab, work, |_| ());
    }
}

#[test]
fn hogs_that_exited_are_counted() {
    let work = "for n in 1 2 3 4 5 6 7 8; do timeout 1 lab-sh -c 'while :; do :; done' & done; wait";
    for user in users() {
        children_are_counted(&Lab::new(*user), work, |_| ());
    }
}

#[test]
fn exited_threads_are_counted() {
    for user in users() {
        let lab = Lab::new(*user);
        let load = Load::start(&mut lab.command(&["lab-churn"]));
        load.stop();
        let before = load.cpu_seconds();
        let report = lab.between(|| load.run_for(Duration::from_secs(1)));
        let truth = load.cpu_seconds() - before;
        agree("between captures", report.value("lab-churn", "run") / 1e9, truth);
        report.is_ranked("lab-churn", truth);
        drop(load);

        // It outlives the command, stopped.
        let work = "lab-churn >/dev/null 2>&1 & sleep 1; kill -STOP $!; sleep 0.05; read -r stat < /proc/$!/stat; echo \"$stat\"";
        let (report, printed) = lab.recorded(&["--scope", "command"], &["lab-sh", "-c", work]);
        let orphan = Orphan::parse(&printed);
        agree("recorded", report.value("lab-churn", "run") / 1e9, cpu_seconds(&printed));
        drop(orphan);
    }
}

#[test]
fn a_busy_loop_is_first_however_old_it_is() {
    for user in users() {
        let lab = Lab::new(*user);
        let _alone = alone();
        let load = Load::start(&mut lab.command(&["lab-sh", "-c", "while :; do :; done"]));
        thread::sleep(Duration::from_millis(500));
        load.stop();
        let before = load.cpu_seconds();
        let report = lab.between(|| load.run_for(Duration::from_secs(1)));
        let truth = load.cpu_seconds() - before;
        agree("between captures", report.value("lab-sh", "run") / 1e9, truth);
        report.is_ranked("lab-sh", truth);

        load.run_for(Duration::ZERO);
        kill(load.pid(), Signal::SIGCONT).unwrap();
        let (begin, before) = (Instant::now(), load.cpu_seconds());
        let report = lab.report(&["record", "-d", "1s"]);
        let (most, elapsed) = (load.cpu_seconds() - before, begin.elapsed().as_secs_f64());
        let shown = report.value("lab-sh", "run") / 1e9;
        let least = most - (elapsed - report.seconds());
        assert!((least - 0.02..most + 0.02).contains(&shown), "{shown} s shown, {least} s to {most} s");
        report.is_ranked("lab-sh", shown);
    }
}

#[test]
fn a_process_that_started_in_the_window_is_ranked_like_any_other() {
    for user in users() {
        let lab = Lab::new(*user);
        let mut load = None;
        let report = lab.between(|| {
            let started = load.insert(Load::start(&mut lab.command(&["lab-sh", "-c", "while :; do :; done"])));
            started.run_for(Duration::from_secs(1));
        });
        let truth = load.unwrap().cpu_seconds();
        agree("between captures", report.value("lab-sh", "run") / 1e9, truth);
        report.is_ranked("lab-sh", truth);
        assert_eq!(report.turnover("lab-sh"), (1, 0));
    }
}

#[test]
fn the_exit_status_is_that_of_the_command_or_says_why_there_is_none() {
    const TABLE: &[(&[&str], i32)] = &[
        (&["record", "--", "sh", "-c", "exit 7"], 7),
        (&["record", "--", "true"], 0),
        (&["record", "--", "sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["record", "--", "sh", "-c", "kill -KILL $$"], 128 + 9),
        (&["record", "--", "ctprof-test-no-such-command"], 127),
        (&["record", "--", "/etc/passwd"], 126),
        (&["record", "--bogus"], 125),
        (&["-q", "record", "--bogus"], 125),
        (&["record", "-m", "delta", "--", "true"], 125),
        (&["record", "-d", "soon"], 125),
        (&["record", "-d", "1m", "--", "true"], 0),
        (&["record", "-o", "/nonexistent/w", "--", "sh", "-c", "exit 7"], 125),
    ];
    for user in users() {
        let lab = Lab::new(*user);
        for (arguments, status) in TABLE {
            let output = lab.ctprof(arguments);
            assert_eq!(output.status.code(), Some(*status), "{user:?} {arguments:?}: {}", text(&output.stderr));
            assert_eq!(text(&output.stdout), "");
        }
    }
}

#[test]
fn the_report_of_a_command_leaves_its_output_alone() {
    let command = ["sh", "-c", "printf 'a\\0b'; printf c >&2"];
    for user in users() {
        let lab = Lab::new(*user);
        let output = lab.ctprof(&[&["record", "-o", "w", "-q", "--"], &command[..]].concat());
        assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("a\0b", "c"));
        let window = lab.report(&["show", "w"]).window;
        assert_eq!(window["command"]["arguments"][0], "sh");
        let stored = ctprof::CtprofSnapshot::load(&lab.path("w")).unwrap();
        assert_eq!(stored.head.format_version, Some(2));
        let output = lab.ctprof(&[&["record", "--scope", "command", "--"], &command[..]].concat());
        let shown = text(&output.stderr);
        assert!(
            text(&output.stdout) == "a\0b" && shown.starts_with("cwindow ") && shown.contains("\ncommand "),
            "{shown}"
        );
    }
}

#[test]
fn the_scope_of_a_command_has_its_processes_only() {
    let lab = Lab::new(User::Current);
    let _other = Load::start(&mut lab.command(&["lab-churn"]));
    let (report, _) = lab.recorded(
        &["--scope", "command"],
        &["lab-sh", "-c", "lab-dd if=/dev/zero of=/dev/null bs=1M count=2000 2>/dev/null"],
    );
    assert!(report.groups().iter().all(|group| ["lab-sh", "lab-dd"].contains(group)), "{:?}", report.groups());
    assert!(report.cpu_seconds() > 0.0);
}

#[test]
fn processes_that_outlive_the_command_belong_to_it() {
    let daemon = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; read -r stat < /proc/$$/stat
        echo \"$stat\" > daemon; kill -STOP $$";
    for user in users() {
        let lab = Lab::new(*user);
        fs::write(lab.path("daemon.sh"), daemon).unwrap();
        let command = "(setsid lab-sh daemon.sh <&- >&- 2>&- &); until [ -s daemon ]; do sleep 0.02; done; sleep 0.05";
        let (report, _) = lab.recorded(&["--scope", "command"], &["sh", "-c", command]);
        let stat = fs::read_to_string(lab.path("daemon")).unwrap();
        let _orphan = Orphan::parse(&stat);
        agree("recorded", report.value("lab-sh", "run") / 1e9, cpu_seconds(&stat));
    }
}

#[test]
fn ctrl_c_ends_a_recording_at_any_moment() {
    for user in users() {
        let lab = Lab::new(*user);
        for milliseconds in [0, 5, 20, 80, 200, 310, 330, 360] {
            let words = ["ctprof", "record", "-d", "300ms", "-o", "w.ctprof.zst", "-q"];
            let mut recording = lab.command(&words).stdout(Stdio::piped()).spawn().unwrap();
            thread::sleep(Duration::from_millis(milliseconds));
            let _ = kill(Pid::from_raw(recording.id().cast_signed()), Signal::SIGINT);
            let status = recording.wait().unwrap();
            let file = lab.path("w.ctprof.zst");
            assert!(status.success() || status.signal() == Some(2), "after {milliseconds} ms: {status}");
            // The report is printed after the file was written.
            if status.success() || file.exists() {
                lab.report(&["show", "w.ctprof.zst"]);
                fs::remove_file(file).unwrap();
            }
            let left: Vec<_> =
                fs::read_dir(lab.directory.path()).unwrap().flatten().map(|file| file.file_name()).collect();
            assert_eq!(left.len(), 4, "{left:?}");
        }
    }
}

#[test]
fn a_pause_without_end_ends_with_ctrl_c_and_a_report() {
    let lab = Lab::new(User::Current);
    // A shell that starts the tests in the background ignores SIGINT for them.
    let words = ["env", "--default-signal", env!("CARGO_BIN_EXE_ctprof"), "record", "--format", "json"];
    let mut command = lab.command(&words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let recording = command.spawn().unwrap();
    let pid = Pid::from_raw(recording.id().cast_signed());
    wait_for_state(pid, 'S');
    thread::sleep(Duration::from_millis(500));
    kill(pid, Signal::SIGINT).unwrap();
    let output = recording.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    lab.parse(&output.stdout);
}

#[test]
fn a_full_disk_does_not_lose_the_result() {
    let lab = Lab::new(User::Current);
    let full = lab.path("full");
    fs::create_dir(&full).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=4k", "none"];
    let is_mounted =
        is_root() && Command::new("mount").args(mount).arg(&full).status().is_ok_and(|status| status.success());
    if !is_mounted {
        eprintln!("only /dev/full is tried: only root may mount a small file system");
    }
    let target = if is_mounted { "full/w.ctprof.zst" } else { "/dev/full" };
    let of_time = lab.ctprof(&["record", "-d", "10ms", "-o", target]);
    let of_command = lab.ctprof(&["record", "-o", target, "--", "echo", "done"]);
    let is_empty = fs::read_dir(&full).unwrap().next().is_none();
    if is_mounted {
        Command::new("umount").arg(&full).status().unwrap();
    }
    for (output, report) in [(&of_time, &of_time.stdout), (&of_command, &of_command.stderr)] {
        assert_eq!(output.status.code(), Some(125));
        assert!(text(report).contains("window ") && text(report).contains("\ngroup "), "{}", text(report));
        assert!(text(&output.stderr).contains("No space left on device"), "{}", text(&output.stderr));
    }
    assert_eq!(text(&of_command.stdout), "done\n");
    assert!(is_empty, "a part of the file is left");
}

#[test]
fn a_closed_pipe_does_not_hide_the_status_of_a_recorded_command() {
    let lab = Lab::new(User::Current);
    for options in [&[][..], &["-o", "w"]] {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        drop(reader);
        let words = [&["ctprof", "record"], options, &["--", "sh", "-c", "exit 7"]].concat();
        let mut record = lab.command(&words);
        assert_eq!(record.stderr(writer).status().unwrap().code(), Some(7), "{options:?}");
    }
}

/// `tests/programs/threads.c`; `None` without a compiler.
fn threads(lab: &Lab) -> Option<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/threads.c");
    let built = Command::new("cc").arg("-pthread").arg("-o").arg(lab.path("lab-threads")).arg(source).status();
    if built.is_err() {
        skipped(Missing::Tool("cc"));
    }
    built.ok().map(|status| assert!(status.success()))
}

#[test]
fn work_before_the_window_is_not_shown_after_another_thread_executes_a_program() {
    for user in users() {
        let lab = Lab::new(*user);
        if threads(&lab).is_none() {
            return;
        }
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo; read -r end";
        let mut load = Load::start(&mut lab.command(&["lab-threads", "exec", "./lab-sh", "-c", work]));
        assert_eq!(load.line(), "ready\n");
        let (before, mut after) = (load.cpu_seconds(), 0.0);
        assert!(before >= 0.28, "{before}");
        let report = lab.between(|| {
            load.send_line();
            load.line();
            after = load.cpu_seconds();
        });
        agree("between captures", report.value("lab-sh", "run") / 1e9, after - before);
    }
}

/// The exact run time of a process's children, in seconds.
fn run_of_children(pid: Pid) -> f64 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let schedstat = |child: &str| fs::read_to_string(format!("/proc/{child}/schedstat")).unwrap();
    let run_ns = |child: &str| schedstat(child).split(' ').next().unwrap().parse::<f64>().unwrap();
    children.split_whitespace().map(run_ns).sum::<f64>() / 1e9
}

#[test]
fn what_children_had_done_before_the_window_in_which_they_exit_is_not_shown() {
    let children = format!("/proc/self/task/{}/children", std::process::id());
    if ["/proc/self/schedstat", &children].iter().any(|file| !Path::new(file).exists()) {
        return skipped(Missing::Kernel("CONFIG_SCHED_INFO and CONFIG_PROC_CHILDREN".to_owned()));
    }
    for user in users() {
        let lab = Lab::new(*user);
        let child = "(i=0; while [ $i -lt 6000 ]; do i=$((i+1)); done; exec sleep 60) >/dev/null & all=\"$all $!\";";
        let work = format!(
            "n=0; while [ $n -lt 50 ]; do {child} n=$((n+1)); done; sleep 2; echo ready; read -r go; kill $all; wait; \
             echo; read -r end"
        );
        let mut load = Load::start(&mut lab.command(&["lab-sh", "-c", &work]));
        assert_eq!(load.line(), "ready\n");
        let (before, of_children) = (run_of_children(load.pid()), load.cpu_seconds());
        let mut counted = 0.0;
        let report = lab.between(|| {
            load.send_line();
            load.line();
            counted = load.cpu_seconds() - of_children;
        });
        let shown = report.value("lab-sh", "run") / 1e9;
        eprintln!("{user:?}: children ran {before:.3} s, the shell counts {counted:.2} s more, {shown:.3} s are shown");
        assert!(before > 0.1 && counted > before - 0.05, "{before} s before, {counted} s counted");
        assert!(shown < counted - before + 0.05, "{shown} s shown, {counted} s counted, {before} s of it before");
    }
}

#[test]
fn threads_whose_leader_exited_are_counted() {
    for user in users() {
        let lab = Lab::new(*user);
        if threads(&lab).is_none() {
            return;
        }
        let mut load = Load::start(&mut lab.command(&["lab-threads", "exit"]));
        assert_eq!(load.line(), "ready\n");
        let before = load.cpu_seconds();
        let mut after = 0.0;
        let report = lab.between(|| {
            load.send_line();
            thread::sleep(Duration::from_millis(500));
            kill(load.pid(), Signal::SIGSTOP).unwrap();
            thread::sleep(Duration::from_millis(50));
            after = load.cpu_seconds();
        });
        agree("between captures", report.value("lab-threads", "run") / 1e9, after - before);
        kill(load.pid(), Signal::SIGCONT).unwrap();
        lab.report(&["record", "-d", "200ms"]);
    }
}

#[test]
fn a_process_id_that_is_used_again_is_another_process() {
    if !is_root() {
        return skipped(Missing::Privilege("root"));
    }
    let lab = Lab::new(User::Current);
    let _alone = alone();
    let busy = || Load::start(&mut lab.command(&["lab-sh", "-c", "while :; do :; done"]));
    let first = busy();
    thread::sleep(Duration::from_millis(500));
    first.stop();
    let pid = first.pid();
    let mut second = None;
    let report = lab.between(|| {
        drop(first);
        // The start time of a process is in ticks.
        thread::sleep(Duration::from_millis(20));
        for _ in 0..100 {
            if fs::write("/proc/sys/kernel/ns_last_pid", (pid.as_raw() - 1).to_string()).is_err() {
                break;
            }
            let started = second.insert(busy());
            if started.pid() == pid {
                return started.run_for(Duration::from_millis(200));
            }
        }
        second = None;
    });
    let Some(second) = second else { return skipped(Missing::Privilege("to choose a process id (ns_last_pid)")) };
    agree("between captures", report.value("lab-sh", "run") / 1e9, second.cpu_seconds());
    assert_eq!(report.turnover("lab-sh"), (1, 1));
}

#[test]
fn a_fork_storm_is_explained() {
    if !is_root() {
        return skipped(Missing::Privilege("root"));
    }
    for engine in ["auto", "procfs"] {
        explains_a_fork_storm(engine);
    }
}

fn explains_a_fork_storm(engine: &str) {
    let lab = Lab::new(User::Current);
    let _alone = alone();
    let storm = "storm() { i=0; while [ $i -lt 5000 ]; do (:); i=$((i+1)); done; }
        storm & storm & storm & storm & wait";
    let (report, _) = lab.recorded(&["--engine", engine], &["lab-sh", "-c", storm]);
    let cpu = &report.window["cpu"];
    let (explained, busy) = (cpu["explained_ns"].as_f64().unwrap(), cpu["busy_ns"].as_f64().unwrap());
    assert!(cpu["started"].as_u64().unwrap() >= 20_000);
    eprintln!("{engine}: {:.1} % of {:.2} CPU-seconds accounted for", explained / busy * 100.0, busy / 1e9);
    if report.window["exit_records"].is_object() {
        assert!(explained >= 0.97 * busy, "{explained} of {busy}");
        let (started, exited) = report.turnover("lab-sh");
        assert!(started >= 20_000, "{started} started, {exited} exited; {:?}", report.window["exit_records"]);
    }
}

/// A process that outlived the command, and ends with the test.
struct Orphan(Pid);

impl Orphan {
    fn parse(stat: &str) -> Self {
        Self(Pid::from_raw(stat.split(' ').next().unwrap().parse().unwrap()))
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGKILL);
    }
}
