//! The function that is shown for a wait: the one that its author would look at, with the time that was spent in it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::attacks_support::attacked;
use crate::host::Killed;
use crate::stacks::{compiled, has_stacks};
use crate::support::{Missing, skipped};

/// Recordings on a busy host, of which one has to show what is wanted.
const ATTEMPTS: usize = 5;

/// Starts a program that prints lines, and waits for the first one.
fn started(command: &mut Command) -> Option<Killed> {
    let mut child = Killed(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().ok()?);
    let mut lines = BufReader::new(child.0.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    // It goes on to print.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    Some(child)
}

/// Records a process for some seconds with some options, and returns its report in this format.
fn recorded(process: &Killed, options: &[&str], format: &[&str]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut record = Command::new(attacked());
    record.args(["-q", "record", "-d", "4s", "-p", &process.0.id().to_string(), "-o"]).arg(file.path()).args(options);
    assert!(record.status().unwrap().success());
    let shown = Command::new(attacked()).arg("show").arg(file.path()).args(format).env("COLUMNS", "200").output();
    String::from_utf8(shown.unwrap().stdout).unwrap()
}

/// Checks that a recording of a process says that it waits there.
fn assert_waits_in(process: &Killed, places: &[&str]) {
    let mut seen = String::new();
    for _ in 0..ATTEMPTS {
        seen = recorded(process, &[], &[]);
        if places.iter().all(|place| seen.contains(place)) {
            return;
        }
    }
    panic!("{places:?}: {seen}");
}

/// Compares the shares of two functions with what their program measured.
fn assert_shares(does: &str, recorded_by: &[&str], functions: [&str; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("cc", "stacks.c", &[], directory.path()) else { return };
    let times = directory.path().join("times");
    let program = started(Command::new(program).arg(does).arg(&times)).unwrap();
    if !has_stacks(&program.0) {
        return;
    }
    let read = || {
        let bytes = fs::read(&times).unwrap();
        [0, 8].map(|at| i64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap()) as f64)
    };
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let before = read();
        let folded = recorded(&program, recorded_by, &["--format", "folded"]);
        let after = read();
        let amount = |function: &str| {
            let of = |line: &&str| line.contains(&format!(";{function}"));
            folded.lines().filter(of).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum::<f64>()
        };
        let share = |[longer, shorter]: [f64; 2]| 100.0 * longer / (longer + shorter);
        let [truth, shown] = [[after[0] - before[0], after[1] - before[1]], functions.map(amount)].map(share);
        seen.push(format!("{shown:.1} instead of {truth:.1}"));
        if (truth - shown).abs() < 5.0 {
            return;
        }
    }
    panic!("{seen:?}");
}

#[test]
fn functions_have_the_time_that_their_program_slept_in_them() {
    assert_shares("sleeps", &[], ["longer", "shorter"]);
}

#[test]
fn functions_have_the_time_that_their_program_ran_in_them() {
    assert_shares("runs", &["--on-cpu"], ["count_longer", "count_shorter"]);
}

#[test]
fn a_server_of_commands_waits_in_the_command() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let mut server = Command::new("redis-server");
    server.args(["--port", "0", "--save", "", "--enable-debug-command", "yes", "--unixsocket"]).arg(&socket);
    let Some(server) = started(server.current_dir(directory.path())) else {
        return skipped(Missing::Tool("redis-server"));
    };
    if !has_stacks(&server.0) {
        return;
    }
    let script = "while :; do redis-cli -s \"$0\" debug sleep 0.05; done";
    let client =
        Command::new("sh").args(["-c", script]).arg(&socket).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _client = Killed(client.unwrap());
    assert_waits_in(&server, &["nanosleep in debugCommand ← call"]);
}

#[test]
fn a_script_of_node_waits_in_its_own_functions_if_node_writes_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("service.js");
    fs::write(
        &script,
        "const words = new Int32Array(new SharedArrayBuffer(4));\n\
        function nap() { Atomics.wait(words, 0, 0, 40); }\n\
        function loadConfig() { nap(); }\n\
        function runTool() { require('child_process').execFileSync('sleep', ['0.03']); }\n\
        console.log('ready');\n\
        for (;;) { loadConfig(); runTool(); }\n",
    )
    .unwrap();
    let mut node = Command::new("node");
    node.args(["--perf-basic-prof", "--interpreted-frames-native-stack"]).arg(&script).current_dir(directory.path());
    let Some(node) = started(&mut node) else { return skipped(Missing::Tool("node")) };
    if has_stacks(&node.0) {
        assert_waits_in(&node, &["futex in nap ← loadConfig", " in runTool"]);
    }
    let _ = fs::remove_file(Path::new("/tmp").join(format!("perf-{}.map", node.0.id())));
}
