//! A command that ctprof runs, and signals meanwhile. Signals and the parent of orphans concern a whole process:
//! each test runs this program again, as a recorder.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod support;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::catch_unwind;
use std::path::Path;
use std::process::{self, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ctprof::process::{Child, Ended, Invocation, Privileges, Signals, fail_writes_beyond_limit};
use nix::errno::Errno;
use nix::sys::signal::Signal::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, Uid};

/// Makes this program a recorder; says what it does.
const RECORDER: &str = "CTPROF_TEST_RECORDER";

/// Value of [`RECORDER`] for the tests, which run with the default dispositions of signals.
const DEFAULTS: &str = "none";

macro_rules! table {
    ($($test:ident)*) => { &[$((stringify!($test), $test)),*] };
}

const TESTS: &[(&str, fn())] = table![
    the_exit_status_of_the_command_is_kept
    a_killed_command_is_reported_as_by_a_shell
    a_command_that_does_not_start_is_reported_as_by_env
    the_command_keeps_streams_folder_environment_and_group
    the_command_has_the_signals_that_ctprof_was_started_with
    the_command_has_the_capabilities_that_ctprof_was_started_with
    file_capabilities_of_ctprof_change_nothing_for_the_command
    the_command_is_a_zombie_until_it_is_reaped
    orphans_of_the_command_become_children_of_ctprof_and_are_reaped
    an_orphan_that_outlives_the_command_is_left_alone
    a_signal_from_a_process_is_forwarded
    a_signal_is_forwarded_to_a_command_that_has_changed_its_user
    a_key_of_the_terminal_reaches_the_command_once
    a_stopped_job_continues
    a_signal_before_the_command_starts_prevents_its_start
    an_ignored_hangup_stays_ignored
    a_pause_ends_in_time_or_by_a_signal
    signals_that_arrive_together_end_a_pause_once
    a_signal_after_the_pause_ends_ctprof
];

fn main() -> ExitCode {
    match env::var(RECORDER).as_deref() {
        Ok(DEFAULTS) => run_tests(),
        Ok(task) => recorder(task),
        // A shell that starts the tests in the background ignores SIGINT for them.
        Err(_) => {
            let this = env::current_exe().unwrap();
            let mut defaults = Command::new("env");
            defaults.arg("--default-signal").arg(this).args(env::args_os().skip(1)).env(RECORDER, DEFAULTS);
            panic!("cannot execute env: {}", defaults.exec())
        }
    }
}

fn run_tests() -> ExitCode {
    let filter = env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let mut failed = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&filter)) {
        let passed = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += u8::from(!passed);
    }
    ExitCode::from(failed)
}

/// What `ctprof record` does, without captures. Facts for the tests go to stderr.
fn recorder(task: &str) -> ExitCode {
    fail_writes_beyond_limit();
    Privileges::Record.keep();
    match task {
        "command" => record_command(),
        "pause" => record_pause(),
        "survive" => survive_interrupts(),
        _ => panic!("{task}"),
    }
}

fn record_command() -> ExitCode {
    let signals = Signals::for_command().unwrap();
    wait_for_stdin();
    let command: Vec<OsString> = env::args_os().skip(1).collect();
    let child = match Child::spawn(&Invocation::new(&command[0], &command[1..]), &signals) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("{error}");
            return error.exit_status().into();
        }
    };
    let end = child.wait_exited(&signals).unwrap();
    drop(signals);
    let id = child.id();
    let state = state(id);
    child.reap().unwrap();
    let children = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        Err(Errno::ECHILD) => "none",
        Ok(WaitStatus::StillAlive) => "alive",
        other => panic!("{other:?}"),
    };
    let exists = Path::new(&format!("/proc/{id}")).exists();
    eprintln!("state {state} exists {exists} children {children} elapsed {}", end.elapsed.as_millis());
    end.exit_status().into()
}

/// With signals blocked, for tests that send some before anything else.
fn wait_for_stdin() {
    if env::var_os("WAIT_FOR_STDIN").is_some() {
        println!("ready");
        let _ = std::io::stdin().read(&mut [0]);
    }
}

/// The letter in `/proc/PID/stat`.
fn state(id: u32) -> String {
    fs::read_to_string(format!("/proc/{id}/stat")).unwrap().rsplit(") ").next().unwrap()[..1].to_owned()
}

fn record_pause() -> ExitCode {
    let signals = Signals::for_pause().unwrap();
    wait_for_stdin();
    println!("ready");
    let begin = Instant::now();
    let ended = signals.pause(env::args().nth(1).unwrap().parse().map(Duration::from_millis).unwrap()).unwrap();
    let waited = begin.elapsed();
    drop(signals);
    println!("{ended:?} {}", waited.as_millis());
    if ended != Ended::Elapsed {
        thread::sleep(Duration::from_secs(10));
    }
    ExitCode::SUCCESS
}

/// A command that SIGINT does not end: counts those until none has arrived for a while.
fn survive_interrupts() -> ExitCode {
    let signals = Signals::for_pause().unwrap();
    println!("ready");
    let mut patience = Duration::from_secs(10);
    while let Ended::Signal(_) = signals.pause(patience).unwrap() {
        println!("interrupted");
        patience = Duration::from_millis(100);
    }
    ExitCode::from(9)
}

/// A recorder, or a wrapper that executes one; what it prints is captured.
fn prepared(wrapper: &[&str], task: &str, arguments: &[&str]) -> Command {
    let this = env::current_exe().unwrap();
    let words = wrapper.iter().map(OsString::from).chain([this.into()]).collect::<Vec<_>>();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(arguments).env(RECORDER, task);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

struct Run {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Run {
    fn of(command: &mut Command) -> Self {
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{}: {}", self.status, self.stderr))
    }
}

fn record(command: &[&str]) -> Run {
    Run::of(&mut prepared(&[], "command", command))
}

/// A running recorder that has printed `ready`.
struct Running {
    process: process::Child,
    stdout: BufReader<process::ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut process = command.spawn().unwrap();
        let mut running = Self { stdout: BufReader::new(process.stdout.take().unwrap()), process };
        while running.line() != "ready" {}
        running
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the output ended");
        line.trim().to_owned()
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().cast_signed()), signal).unwrap();
    }

    fn finish(mut self) -> (ExitStatus, String) {
        drop(self.process.stdin.take());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.process.wait().unwrap(), rest)
    }
}

/// Runs `command` as it is, and with a recorder in between, both in `wrapper`: the outputs must be the same.
fn assert_unchanged(wrapper: &[&str], command: &[&str]) -> String {
    let direct = Run::of(Command::new(wrapper[0]).args(&wrapper[1..]).args(command));
    let recorded = Run::of(&mut prepared(wrapper, "command", command));
    assert_eq!((recorded.code(), &recorded.stdout), (0, &direct.stdout), "{wrapper:?}: {}", recorded.stderr);
    direct.stdout
}

fn the_exit_status_of_the_command_is_kept() {
    for status in [0, 3, 255] {
        assert_eq!(record(&["sh", "-c", &format!("exit {status}")]).code(), status);
    }
}

fn a_killed_command_is_reported_as_by_a_shell() {
    for signal in [9, 15, 40] {
        assert_eq!(record(&["sh", "-c", &format!("kill -{signal} $$")]).code(), 128 + signal);
    }
}

fn a_command_that_does_not_start_is_reported_as_by_env() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("from-windows");
    fs::write(&script, "#!/bin/sh\r\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for (command, status, message) in [
        ("no-such-command", 127, "cannot run `no-such-command`: command not found"),
        ("/no/such/file", 127, "cannot run `/no/such/file`: command not found"),
        (script.to_str().unwrap(), 127, "its interpreter (first line) or dynamic loader does not exist"),
        ("/etc/passwd", 126, "cannot execute `/etc/passwd`"),
        ("/", 126, "cannot execute `/`"),
    ] {
        // A folder in PATH that cannot be searched is another error.
        let path = "/usr/bin:/bin";
        let run = Run::of(prepared(&[], "command", &[command]).env("PATH", path));
        assert_eq!((run.code(), run.stderr.trim_end().ends_with(message)), (status, true), "{}", run.stderr);
        assert_eq!(Run::of(Command::new("env").arg(command).env("PATH", path)).code(), status);
    }
}

fn the_command_keeps_streams_folder_environment_and_group() {
    let script = "cat; pwd; echo $VARIABLE; cut -d' ' -f5 /proc/self/stat; echo error >&2";
    let folder = tempfile::tempdir().unwrap();
    let mut command = prepared(&[], "command", &["sh", "-c", script]);
    let mut process = command.process_group(0).current_dir(&folder).env("VARIABLE", "a value").spawn().unwrap();
    process.stdin.take().unwrap().write_all(b"input\n").unwrap();
    let group = process.id();
    let output = process.wait_with_output().unwrap();
    let expected = format!("input\n{}\na value\n{group}\n", folder.path().display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("error\n"));
    assert_unchanged(&["env"], &["ls", "/proc/self/fd"]);
}

fn the_command_has_the_signals_that_ctprof_was_started_with() {
    let status = ["grep", "^Sig[BIC]", "/proc/self/status"];
    let changed = ["env", "--block-signal=USR1,INT", "--ignore-signal=HUP,PIPE,CHLD,XFSZ"];
    assert_ne!(assert_unchanged(&["env"], &status), assert_unchanged(&changed, &status));
}

fn the_command_has_the_capabilities_that_ctprof_was_started_with() {
    let status = ["grep", "^Cap", "/proc/self/status"];
    assert_unchanged(&["env"], &status);
    if !Uid::effective().is_root() || !has("setpriv") {
        return eprintln!("skipped: not root, or no setpriv");
    }
    let program = AsNobody::new();
    let caps = "+net_raw,+chown,+sys_ptrace";
    let wrapper = ["setpriv", "--reuid=65534", "--inh-caps", caps, "--ambient-caps", caps];
    let direct = Run::of(Command::new(wrapper[0]).args(&wrapper[1..]).args(status));
    let recorded = Run::of(program.recorder(&wrapper).args(status));
    assert_eq!(recorded.stdout, direct.stdout, "{}", recorded.stderr);
    assert!(direct.stdout.contains("CapAmb:\t0000000000082001"), "{}", direct.stdout);
}

fn file_capabilities_of_ctprof_change_nothing_for_the_command() {
    if !Uid::effective().is_root() || !has("setpriv") || !has("setcap") {
        return eprintln!("skipped: not root, or no setpriv or setcap");
    }
    let program = AsNobody::new();
    let set = ["cap_bpf,cap_perfmon,cap_sys_ptrace,cap_net_admin,cap_dac_read_search+ep", &program.path()];
    assert!(Command::new("setcap").args(set).status().unwrap().success());
    let wrapper = ["setpriv", "--reuid=65534", "--clear-groups", "env", "TMPDIR=/kept", "LD_LIBRARY_PATH=/kept"];
    // glibc removes both variables from a program with file capabilities.
    let command = ["sh", "-c", "grep ^Cap /proc/self/status; echo $TMPDIR $LD_LIBRARY_PATH"];
    let direct = Run::of(Command::new(wrapper[0]).args(&wrapper[1..]).args(command));
    let recorded = Run::of(program.recorder(&wrapper).args(command));
    assert_eq!(recorded.stdout, direct.stdout, "{}", recorded.stderr);
    assert!(direct.stdout.contains("CapPrm:\t0000000000000000"), "{}", direct.stdout);
}

fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// A copy of this program that any user can execute.
struct AsNobody(tempfile::TempDir);

impl AsNobody {
    fn new() -> Self {
        let copy = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(&copy.0, fs::Permissions::from_mode(0o755)).unwrap();
        support::copy_program(env::current_exe().unwrap(), copy.path());
        copy
    }

    fn path(&self) -> String {
        self.0.path().join("recorder").to_str().unwrap().to_owned()
    }

    fn recorder(&self, wrapper: &[&str]) -> Command {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(self.path()).env(RECORDER, "command").current_dir("/");
        command
    }
}

fn the_command_is_a_zombie_until_it_is_reaped() {
    let run = record(&["sleep", "0.2"]);
    let (facts, elapsed) = run.stderr.trim().split_once(" elapsed ").unwrap();
    assert_eq!(facts, "state Z exists false children none");
    assert!((200..5000).contains(&elapsed.parse::<u32>().unwrap()), "{elapsed} ms");
}

fn orphans_of_the_command_become_children_of_ctprof_and_are_reaped() {
    let start = "orphan=$( (sleep 0.1 > /dev/null & echo $!) ); cut -d' ' -f4 /proc/$orphan/stat";
    // A zombie can be sent signals.
    let wait = "for i in $(seq 200); do kill -0 $orphan 2> /dev/null || exit 9; sleep 0.02; done";
    let process = prepared(&[], "command", &["sh", "-c", &format!("{start}; {wait}")]).spawn().unwrap();
    let recorder = process.id();
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9), "the orphan is not reaped");
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), recorder.to_string());
}

fn an_orphan_that_outlives_the_command_is_left_alone() {
    let run = record(&["sh", "-c", "sleep 100 > /dev/null 2>&1 & echo $!"]);
    assert!(run.stderr.contains("children alive"), "{}", run.stderr);
    let orphan = Pid::from_raw(run.stdout.trim().parse().unwrap());
    let cmdline = fs::read(format!("/proc/{orphan}/cmdline")).unwrap();
    kill(orphan, SIGTERM).unwrap();
    assert_eq!(cmdline, b"sleep\x00100\x00");
}

fn a_signal_from_a_process_is_forwarded() {
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        let name = &signal.as_str()[3..];
        let script = format!("trap 'echo {name}; exit 9' {name}; echo ready; for i in $(seq 200); do sleep 0.02; done");
        let running = Running::start(&mut prepared(&[], "command", &["sh", "-c", &script]));
        running.send(signal);
        let (status, rest) = running.finish();
        assert_eq!((status.code(), rest), (Some(9), format!("{name}\n")));
    }
}

fn a_signal_is_forwarded_to_a_command_that_has_changed_its_user() {
    if !Uid::effective().is_root() || !has("setpriv") {
        return eprintln!("skipped: not root, or no setpriv");
    }
    let script = "echo ready; exec sleep 10";
    let command = ["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", script];
    let running = Running::start(&mut prepared(&[], "command", &command));
    running.send(SIGTERM);
    assert_eq!(running.finish().0.code(), Some(143));
}

fn a_key_of_the_terminal_reaches_the_command_once() {
    if !has("script") {
        return eprintln!("skipped: no script");
    }
    let this = env::current_exe().unwrap().display().to_string();
    let press_ctrl_c = |command: &str| {
        let mut terminal = Command::new("script");
        // A shell that waits for it, as dash does, would end by the key itself.
        let recorder = format!("exec {this} {command}");
        terminal.args(["-qec", &recorder, "/dev/null"]).env(RECORDER, "command");
        let mut running = Running::start(terminal.stdin(Stdio::piped()).stdout(Stdio::piped()));
        running.process.stdin.as_ref().unwrap().write_all(b"\x03").unwrap();
        // The input stays open meanwhile: its end is another key.
        let mut output = String::new();
        running.stdout.read_to_string(&mut output).unwrap();
        (running.finish().0.code(), output.matches("interrupted").count(), output.contains("state Z"))
    };
    assert_eq!(press_ctrl_c(&format!("env {RECORDER}=survive {this}")), (Some(9), 1, true));
    let killed = press_ctrl_c("sh -c 'echo ready; exec sleep 10'");
    assert_eq!(killed, (Some(130), 0, true), "ctprof survives its command");
}

fn a_stopped_job_continues() {
    let script = "echo ready; echo $$; read line; exit 9";
    let mut running = Running::start(prepared(&[], "command", &["sh", "-c", script]).process_group(0));
    let command = running.line().parse().unwrap();
    let recorder = running.process.id();
    let group = Pid::from_raw(recorder.cast_signed());
    killpg(group, SIGTSTP).unwrap();
    while [state(recorder), state(command)] != ["T", "T"] {
        thread::sleep(Duration::from_millis(1));
    }
    killpg(group, SIGCONT).unwrap();
    assert_eq!(running.finish().0.code(), Some(9));
}

fn a_signal_before_the_command_starts_prevents_its_start() {
    let mut command = prepared(&[], "command", &["echo", "started"]);
    let running = Running::start(command.env("WAIT_FOR_STDIN", ""));
    running.send(SIGINT);
    let (status, rest) = running.finish();
    assert_eq!((status.code(), rest.as_str()), (Some(130), ""));
}

fn an_ignored_hangup_stays_ignored() {
    let mut running = Running::start(&mut prepared(&["env", "--ignore-signal=HUP"], "pause", &["300"]));
    running.send(SIGHUP);
    assert!(running.line().starts_with("Elapsed"));
}

fn a_pause_ends_in_time_or_by_a_signal() {
    let waited = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let mut running = Running::start(&mut prepared(&[], "pause", &["200"]));
    let line = running.line();
    assert!(line.starts_with("Elapsed") && (200..1000).contains(&waited(&line)), "{line}");
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let mut running = Running::start(&mut prepared(&[], "pause", &["10000"]));
        running.send(signal);
        let line = running.line();
        assert!(line.starts_with(&format!("Signal({})", signal as i32)) && waited(&line) < 5000, "{line}");
        running.process.kill().unwrap();
        running.finish();
    }
}

fn signals_that_arrive_together_end_a_pause_once() {
    let mut command = prepared(&[], "pause", &["10000"]);
    let mut running = Running::start(command.env("WAIT_FOR_STDIN", ""));
    running.send(SIGINT);
    running.send(SIGTERM);
    drop(running.process.stdin.take());
    assert_eq!(running.line(), "ready");
    assert!(running.line().starts_with("Signal(2)"));
    thread::sleep(Duration::from_millis(50));
    assert_eq!(running.process.try_wait().unwrap(), None);
    running.process.kill().unwrap();
    running.finish();
}

fn a_signal_after_the_pause_ends_ctprof() {
    let mut running = Running::start(&mut prepared(&[], "pause", &["10000"]));
    running.send(SIGINT);
    assert!(running.line().starts_with("Signal(2)"));
    running.send(SIGINT);
    assert_eq!(running.finish().0.signal(), Some(2));
}
