//! A command that ctprof runs, and signals meanwhile, by `examples/recorder.rs`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, Uid};

use crate::example::example;
use crate::support::{Missing, copy_program, skipped};

/// A shell that starts the tests in the background ignores SIGINT for them.
const DEFAULTS: [&str; 2] = ["env", "--default-signal"];

/// A recorder, or a wrapper that executes one; what it prints is captured.
fn prepared(wrapper: &[&str], task: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(DEFAULTS[0]);
    command.args(&DEFAULTS[1..]).args(wrapper).arg(example("recorder")).arg(task).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The command by itself, in the same wrapper.
fn direct(wrapper: &[&str]) -> Command {
    let mut command = Command::new(DEFAULTS[0]);
    command.args(&DEFAULTS[1..]).args(wrapper);
    command
}

/// The letter in `/proc/PID/stat`.
fn state(id: u32) -> String {
    fs::read_to_string(format!("/proc/{id}/stat")).unwrap().rsplit(") ").next().unwrap()[..1].to_owned()
}

struct Run {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Run {
    fn start_and_wait(command: &mut Command) -> Self {
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{}: {}", self.status, self.stderr))
    }
}

fn record(command: &[&str]) -> Run {
    Run::start_and_wait(&mut prepared(&[], "command", command))
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
    let direct = Run::start_and_wait(direct(wrapper).args(command));
    let recorded = Run::start_and_wait(&mut prepared(wrapper, "command", command));
    assert_eq!((recorded.code(), &recorded.stdout), (0, &direct.stdout), "{wrapper:?}: {}", recorded.stderr);
    direct.stdout
}

#[test]
fn the_exit_status_of_the_command_is_kept() {
    for status in [0, 3, 255] {
        assert_eq!(record(&["sh", "-c", &format!("exit {status}")]).code(), status);
    }
}

#[test]
fn a_very_long_argument_reaches_the_command_whole_and_the_file_cut() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("window");
    let count = "printf %s \"$0\" | wc -c";
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    recorder.args(["-q", "record", "-o"]).arg(&file).args(["--", "sh", "-c", count, &"ä".repeat(50_000)]);
    let printed = recorder.stdin(Stdio::null()).output().unwrap().stdout;
    assert!(String::from_utf8(printed).unwrap().starts_with("100000\n"));
    let window = ctprof::CtprofSnapshot::load(&file).unwrap().head.window.unwrap();
    let argument = &window.command.unwrap().arguments[3];
    assert!(argument.len() < 20_000 && argument.ends_with("ä… (cut: 100000 bytes)"), "{}", argument.len());
}

#[test]
fn a_killed_command_is_reported_as_by_a_shell() {
    for signal in [9, 15, 40] {
        assert_eq!(record(&["sh", "-c", &format!("kill -{signal} $$")]).code(), 128 + signal);
    }
}

#[test]
fn a_command_that_does_not_start_is_reported_as_by_env() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("from-windows");
    fs::write(&script, "#!/bin/sh\r\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for (command, status, message) in [
        ("no-such-command", 127, "cannot run `no-such-command`: command not found"),
        ("/no/such/file", 127, "cannot run `/no/such/file`: command not found"),
        (script.to_str().unwrap(), 127, "its interpreter (first line) or dynamic loader does not exist"),
        ("/etc/passwd", 126, "cannot execute `/etc/passwd`"),
        ("/", 126, "cannot execute `/`"),
    ] {
        // A directory in PATH that cannot be searched is another error.
        let path = "/usr/bin:/bin";
        let run = Run::start_and_wait(prepared(&[], "command", &[command]).env("PATH", path));
        assert_eq!((run.code(), run.stderr.trim_end().ends_with(message)), (status, true), "{}", run.stderr);
        assert_eq!(Run::start_and_wait(Command::new("env").arg(command).env("PATH", path)).code(), status);
    }
}

#[test]
fn the_command_keeps_streams_directory_environment_and_group() {
    let script = "cat; pwd; echo $VARIABLE; cut -d' ' -f5 /proc/self/stat; echo error >&2";
    let directory = tempfile::tempdir().unwrap();
    let mut command = prepared(&[], "command", &["sh", "-c", script]);
    let mut process = command.process_group(0).current_dir(&directory).env("VARIABLE", "a value").spawn().unwrap();
    process.stdin.take().unwrap().write_all(b"input\n").unwrap();
    let group = process.id();
    let output = process.wait_with_output().unwrap();
    let expected = format!("input\n{}\na value\n{group}\n", directory.path().display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("error\n"));
    assert_unchanged(&["env"], &["ls", "/proc/self/fd"]);
}

#[test]
fn the_command_has_the_signals_that_ctprof_was_started_with() {
    // Without 32 and 33, which belong to the C library: posix_spawn(3) ignores them, and the first thread resets them.
    let status = ["sed", "-n", "/^Sig[BIC]/s/..\\(.\\{7\\}\\)$/xx\\1/p", "/proc/self/status"];
    let changed = ["env", "--block-signal=USR1,INT", "--ignore-signal=HUP,PIPE,CHLD,XFSZ"];
    assert_ne!(assert_unchanged(&["env"], &status), assert_unchanged(&changed, &status));
}

#[test]
fn the_command_has_the_capabilities_that_ctprof_was_started_with() {
    let status = ["grep", "^Cap", "/proc/self/status"];
    assert_unchanged(&["env"], &status);
    if !has_root_and(&["setpriv"]) {
        return;
    }
    let program = AsNobody::new();
    let caps = "+net_raw,+chown,+sys_ptrace";
    let wrapper = ["setpriv", "--reuid=65534", "--inh-caps", caps, "--ambient-caps", caps];
    let direct = Run::start_and_wait(direct(&wrapper).args(status));
    let recorded = Run::start_and_wait(program.recorder(&wrapper).args(status));
    assert_eq!(recorded.stdout, direct.stdout, "{}", recorded.stderr);
    assert!(direct.stdout.contains("CapAmb:\t0000000000082001"), "{}", direct.stdout);
}

#[test]
fn file_capabilities_of_ctprof_change_nothing_for_the_command() {
    if !has_root_and(&["setpriv", "setcap"]) {
        return;
    }
    let program = AsNobody::new();
    let set = ["cap_bpf,cap_perfmon,cap_sys_ptrace,cap_net_admin,cap_dac_read_search+p", &program.path()];
    assert!(Command::new("setcap").args(set).status().unwrap().success());
    let wrapper = ["setpriv", "--reuid=65534", "--clear-groups", "env", "TMPDIR=/kept", "LD_LIBRARY_PATH=/kept"];
    // glibc removes both variables from a program with file capabilities.
    let command = ["sh", "-c", "grep ^Cap /proc/self/status; echo $TMPDIR $LD_LIBRARY_PATH"];
    let direct = Run::start_and_wait(direct(&wrapper).args(command));
    let recorded = Run::start_and_wait(program.recorder(&wrapper).args(command));
    assert_eq!(recorded.stdout, direct.stdout, "{}", recorded.stderr);
    assert!(direct.stdout.contains("CapPrm:\t0000000000000000"), "{}", direct.stdout);
}

/// Whether a tool is installed; a test without it is skipped.
fn has(tool: &str) -> bool {
    let is_there = Command::new(tool).arg("--version").output().is_ok();
    if !is_there {
        skipped(Missing::Tool(tool));
    }
    is_there
}

/// Whether this is root, with these tools; a test without is skipped.
fn has_root_and(tools: &[&str]) -> bool {
    let is_root = Uid::effective().is_root();
    if !is_root {
        skipped(Missing::Privilege("root"));
    }
    is_root && tools.iter().all(|tool| has(tool))
}

/// A copy of this program that any user can execute.
struct AsNobody(tempfile::TempDir);

impl AsNobody {
    fn new() -> Self {
        let copy = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(&copy.0, fs::Permissions::from_mode(0o755)).unwrap();
        copy_program(example("recorder"), copy.path());
        copy
    }

    fn path(&self) -> String {
        self.0.path().join("recorder").to_str().unwrap().to_owned()
    }

    fn recorder(&self, wrapper: &[&str]) -> Command {
        let mut command = direct(wrapper);
        command.arg(self.path()).arg("command").current_dir("/");
        command
    }
}

#[test]
fn the_command_is_a_zombie_until_it_is_reaped() {
    let run = record(&["sleep", "0.2"]);
    let (state, elapsed) = run.stderr.trim().split_once(" elapsed ").unwrap();
    assert_eq!(state, "state Z exists false children none");
    assert!((200..5000).contains(&elapsed.parse::<u32>().unwrap()), "{elapsed} ms");
}

#[test]
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

#[test]
fn an_orphan_that_outlives_the_command_is_left_alone() {
    let run = record(&["sh", "-c", "sleep 100 > /dev/null 2>&1 & echo $!"]);
    assert!(run.stderr.contains("children alive"), "{}", run.stderr);
    let orphan = Pid::from_raw(run.stdout.trim().parse().unwrap());
    let cmdline = fs::read(format!("/proc/{orphan}/cmdline")).unwrap();
    kill(orphan, SIGTERM).unwrap();
    assert_eq!(cmdline, b"sleep\x00100\x00");
}

#[test]
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

#[test]
fn a_signal_is_forwarded_to_a_command_that_has_changed_its_user() {
    if !has_root_and(&["setpriv"]) {
        return;
    }
    let script = "echo ready; exec sleep 10";
    let command = ["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", script];
    let running = Running::start(&mut prepared(&[], "command", &command));
    running.send(SIGTERM);
    assert_eq!(running.finish().0.code(), Some(143));
}

#[test]
fn a_key_of_the_terminal_reaches_the_command_once() {
    if !has("script") {
        return;
    }
    let recorder = example("recorder").display().to_string();
    let press_ctrl_c = |command: &str| {
        let mut terminal = Command::new("script");
        // A shell that waits for it, as dash does, would end by the key itself.
        let record = format!("exec env --default-signal {recorder} command {command}");
        terminal.args(["-qec", &record, "/dev/null"]);
        let mut running = Running::start(terminal.stdin(Stdio::piped()).stdout(Stdio::piped()));
        running.process.stdin.as_ref().unwrap().write_all(b"\x03").unwrap();
        // The input stays open meanwhile: its end is another key.
        let mut output = String::new();
        running.stdout.read_to_string(&mut output).unwrap();
        (running.finish().0.code(), output.matches("interrupted").count(), output.contains("state Z"))
    };
    assert_eq!(press_ctrl_c(&format!("{recorder} survive")), (Some(9), 1, true));
    let killed = press_ctrl_c("sh -c 'echo ready; exec sleep 10'");
    assert_eq!(killed, (Some(130), 0, true), "ctprof survives its command");
}

#[test]
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

#[test]
fn a_signal_before_the_command_starts_prevents_its_start() {
    let mut command = prepared(&[], "command", &["echo", "started"]);
    let running = Running::start(command.env("WAIT_FOR_STDIN", ""));
    running.send(SIGINT);
    let (status, rest) = running.finish();
    assert_eq!((status.code(), rest.as_str()), (Some(130), ""));
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    let mut running = Running::start(&mut prepared(&["env", "--ignore-signal=HUP"], "pause", &["300"]));
    running.send(SIGHUP);
    assert!(running.line().starts_with("Elapsed"));
}

#[test]
fn an_interrupt_that_a_process_sends_counts_even_if_it_was_ignored_as_in_the_background_of_a_script() {
    let mut running = Running::start(&mut prepared(&["env", "--ignore-signal=INT"], "pause", &["100000"]));
    running.send(SIGINT);
    assert!(running.line().starts_with("Signal(2)"));
    running.process.kill().unwrap();
    running.finish();
}

#[test]
fn a_key_of_the_terminal_ends_no_pause_for_which_it_is_ignored() {
    if !has("script") {
        return;
    }
    let mut terminal = Command::new("script");
    let pause = format!("exec env --ignore-signal=INT {} pause 500", example("recorder").display());
    terminal.args(["-qec", &pause, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running::start(&mut terminal);
    running.process.stdin.as_ref().unwrap().write_all(b"\x03").unwrap();
    // The input stays open meanwhile: its end is another key.
    let mut output = String::new();
    running.stdout.read_to_string(&mut output).unwrap();
    assert!(output.contains("Elapsed"), "{output}");
    running.finish();
}

#[test]
fn a_signal_ends_ctprof_while_its_main_thread_waits_for_something_else() {
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let mut command = prepared(&[], "pause", &["100000"]);
        let mut running = Running::start(command.env("WAIT_FOR_STDIN", ""));
        running.send(signal);
        // Its input stays open.
        let mut message = String::new();
        running.process.stderr.as_mut().unwrap().read_to_string(&mut message).unwrap();
        assert!(message.contains("ended by a signal while it waited without end"), "{message}");
        assert_eq!(running.finish().0.code(), Some(1), "{signal}");
    }
}

#[test]
fn any_number_of_signals_loses_no_recording() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..3 {
        let file = directory.path().join(number.to_string());
        let mut command = direct(&[]);
        command.arg(env!("CARGO_BIN_EXE_ctprof")).args(["-q", "record", "-o"]).arg(&file);
        command.args(["--", "sh", "-c", "echo ready; exec sleep 1000"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = Running::start(&mut command);
        while running.process.try_wait().unwrap().is_none() {
            running.send(SIGTERM);
            thread::sleep(Duration::from_millis(1));
        }
        let window = ctprof::CtprofSnapshot::load(&file).unwrap().head.window.unwrap();
        assert_eq!(window.command.unwrap().signal, Some(15));
    }
}

#[test]
fn a_pause_ends_in_time_or_by_a_signal() {
    let waited = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let mut running = Running::start(&mut prepared(&[], "pause", &["200"]));
    let line = running.line();
    assert!(line.starts_with("Elapsed") && (200..5000).contains(&waited(&line)), "{line}");
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let mut running = Running::start(&mut prepared(&[], "pause", &["10000"]));
        running.send(signal);
        let line = running.line();
        assert!(line.starts_with(&format!("Signal({})", signal as i32)) && waited(&line) < 5000, "{line}");
        running.process.kill().unwrap();
        running.finish();
    }
}

#[test]
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

#[test]
fn a_signal_after_the_pause_ends_ctprof() {
    let mut running = Running::start(&mut prepared(&[], "pause", &["10000"]));
    running.send(SIGINT);
    assert!(running.line().starts_with("Signal(2)"));
    running.send(SIGINT);
    assert_eq!(running.finish().0.signal(), Some(2));
}

#[test]
fn without_bpf_the_peak_of_the_memory_of_a_command_is_that_of_its_largest_process() {
    let dir = tempfile::tempdir().unwrap();
    let window = dir.path().join("w.ctprof.zst");
    let peak = |command: &str| {
        let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        record.args(["record", "-q", "--engine", "procfs", "--no-taskstats", "--no-why", "-o"]).arg(&window);
        assert!(record.args(["--", "sh", "-c", command]).status().unwrap().success());
        let mut show = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        show.arg("show").arg(&window).args(["--scope", "command", "-m", "hiwater_rss_bytes", "--format", "json"]);
        let report: serde_json::Value = serde_json::from_slice(&show.output().unwrap().stdout).unwrap();
        report["rows"].as_array().unwrap().iter().filter_map(|row| row["value"].as_u64()).max()
    };
    let large = peak("head -c 100000000 /dev/zero | tail -c 100000000 > /dev/null").unwrap();
    assert!((100_000_000..150_000_000).contains(&large), "{large}");
    assert_eq!(peak("true"), None, "a copy of the memory of ctprof is not the command's");
}

fn ctprof(arguments: &[&str]) -> Run {
    Run::start_and_wait(Command::new(env!("CARGO_BIN_EXE_ctprof")).args(arguments).env_remove("RUST_LOG"))
}

#[test]
fn a_command_runs_on_after_the_time_of_its_recording_and_keeps_its_status() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (file, series, ended) = (path("w.zst"), path("s.zst"), path("ended"));
    let script = format!("sleep 1; touch {ended}; exit 7");
    let recorded = |options: &[&str]| {
        let _ = fs::remove_file(&ended);
        let run = ctprof(&[&["record", "-q", "-d", "300ms"], options, &["--", "sh", "-c", &script]].concat());
        assert_eq!(run.code(), 7, "{}", run.stderr);
        assert!(fs::exists(&ended).unwrap(), "ctprof ends with the command");
    };
    recorded(&["-o", &file]);
    recorded(&["-o", &series, "--every", "100ms"]);
    let shown = ctprof(&["show", "-f", "json", &file]).stdout;
    let report: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let command = &report["snapshot"]["window"]["command"];
    assert!(command["status"].is_null() && command["elapsed_ns"].as_u64() < Some(900_000_000), "{command}");
    assert!(ctprof(&["show", &file]).stdout.contains("still running after "));
    let shorter = ctprof(&["record", "-d", "60s", "--", "sh", "-c", "exit 3"]);
    assert_eq!(shorter.code(), 3, "a command that ends first ends the recording");
    let runs = ctprof(&["record", "--runs", "2", "-o", &path("runs"), "-d", "1s", "--", "true"]);
    assert_eq!(runs.code(), 125, "{}", runs.stderr);
}

#[test]
fn commands_without_a_shell_are_started_by_their_words() {
    let ab = |old: &str| {
        ctprof(&["ab", "-q", "--no-shell", "--runs", "1", "--no-warmup", "--show-output", "-f", "json", old, "true"])
    };
    let run = ab("printf '%s|' 'a b' $HOME");
    assert!(run.stderr.contains("a b|$HOME|"), "{}", run.stderr);
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let groups = report["rows"].as_array().unwrap();
    assert!(groups.iter().all(|row| row["group"] != "sh"), "{}", run.stdout);
    assert_eq!(ab("printf 'a").code(), 2);
}
