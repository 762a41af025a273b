//! The function that is shown for a wait: the one that its author would look at, with the time that was spent in it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::host::Killed;
use crate::root::attacks_support::attacked;
use crate::root::stacks::{compiled, has_stacks};
use crate::support::{Missing, skipped};

/// Recordings on a busy host, of which one has to show what is wanted.
const ATTEMPTS: usize = 12;

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
    assert_waits_in_any(process, &[], places);
}

/// Checks the same of a process and others.
fn assert_waits_in_any(process: &Killed, others: &[&str], places: &[&str]) {
    let mut seen = String::new();
    for _ in 0..ATTEMPTS {
        seen = recorded(process, others, &[]);
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
    let (mut seen, mut slept, mut told) = (Vec::new(), [0.0; 2], [0.0; 2]);
    for _ in 0..ATTEMPTS {
        let before = read();
        let folded = recorded(&program, recorded_by, &["--format", "folded"]);
        let after = read();
        let amount = |function: &str| {
            let of = |line: &&str| line.contains(&format!(";{function}"));
            folded.lines().filter(of).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum::<f64>()
        };
        let share = |[longer, shorter]: [f64; 2]| 100.0 * longer / (longer + shorter);
        // On a busy host, one recording has few samples.
        slept = [0, 1].map(|number| slept[number] + after[number] - before[number]);
        told = [0, 1].map(|number| told[number] + amount(functions[number]));
        let [truth, shown] = [slept, told].map(share);
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

#[test]
fn what_is_not_known_of_a_stack_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let without_tables = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    for (options, function, caller) in
        [(&["-s"][..], "[stacks: stripped]", ""), (&without_tables[..], "nap", "[stacks: no unwind tables]")]
    {
        let Some(program) = compiled("cc", "stacks.c", options, directory.path()) else { return };
        let program = started(Command::new(program).arg("sleeps").arg(directory.path().join("times"))).unwrap();
        if !has_stacks(&program.0) {
            return;
        }
        let arrow = if caller.is_empty() { "" } else { " ← " };
        assert_waits_in(&program, &[&format!("clock_nanosleep in {function}{arrow}{caller}")]);
        let json = recorded(&program, &[], &["--format", "json"]);
        assert!(json.contains(&format!("\"function\":\"{function}\"")), "{json}");
    }
}

#[test]
fn a_static_program_waits_in_its_own_functions() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("cc", "stacks.c", &["-static"], directory.path()) else { return };
    let program = started(Command::new(program).arg("sleeps").arg(directory.path().join("times"))).unwrap();
    if has_stacks(&program.0) {
        assert_waits_in(&program, &["clock_nanosleep in nap ← "]);
    }
}

#[test]
fn a_script_of_python_waits_in_its_own_functions_if_python_writes_their_names_and_else_in_a_runtime_without_frames() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("service.py");
    let text = "import time\ndef nap(): time.sleep(0.04)\ndef load_config(): nap()\nprint('ready', flush=True)\n\
        while True: load_config()\n";
    fs::write(&script, text).unwrap();
    let Some(python) = started(Command::new("python3").arg(&script)) else {
        return skipped(Missing::Tool("python3"));
    };
    if !has_stacks(&python.0) {
        return;
    }
    assert_waits_in(&python, &["[runtime without frames]"]);
    let version = Command::new("python3").args(["-c", "import sys; assert sys.version_info >= (3, 12)"]).status();
    if !version.is_ok_and(|status| status.success()) {
        return skipped(Missing::Kernel("Python 3.12, which writes the names of functions"));
    }
    let python = started(Command::new("python3").args(["-X", "perf"]).arg(&script)).unwrap();
    assert_waits_in(&python, &[" ← nap"]);
    let _ = fs::remove_file(Path::new("/tmp").join(format!("perf-{}.map", python.0.id())));
}

#[test]
fn a_library_that_is_loaded_while_its_process_is_recorded_has_names() {
    let [directory, of_library] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let library = compiled("cc", "loads_late.c", &["-DLIBRARY", "-shared", "-fPIC"], of_library.path());
    let Some((program, library)) = compiled("cc", "loads_late.c", &["-ldl"], directory.path()).zip(library) else {
        return;
    };
    let start = || started(Command::new(&program).arg(&library)).unwrap();
    if !has_stacks(&start().0) {
        return;
    }
    let shows_it = || recorded(&start(), &[], &[]).contains("late_wait");
    assert!((0..ATTEMPTS).any(|_| shows_it()), "not in one recording");
}

#[test]
fn a_program_of_go_waits_in_the_function_that_makes_the_system_call() {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("main.go"), directory.path().join("server"));
    let text = "package main\nimport (\"fmt\"; \"syscall\")\n//go:noinline\nfunc askDevice() { \
        syscall.Nanosleep(&syscall.Timespec{Nsec: 40000000}, nil) }\nfunc main() { fmt.Println(\"ready\"); for { askDevice() } }\n";
    fs::write(&source, text).unwrap();
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(&source).env("GOCACHE", directory.path().join("cache"));
    let Ok(status) = build.env("GO111MODULE", "off").status() else { return skipped(Missing::Tool("go")) };
    assert!(status.success());
    let server = started(&mut Command::new(&program)).unwrap();
    if has_stacks(&server.0) {
        assert_waits_in(&server, &["nanosleep in main.askDevice ← main.main"]);
    }
}

/// Stops a server of PostgreSQL, which has processes of its own.
struct Postgres(Killed);

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-QUIT", &self.0.0.id().to_string()]).status();
        let _ = self.0.0.wait();
    }
}

#[test]
fn clients_of_postgres_wait_for_the_transaction_that_has_their_row() {
    let directories = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let Some(programs) = directories.map(|version| version.path().join("bin")).max() else {
        return skipped(Missing::Tool("postgresql"));
    };
    let directory = tempfile::tempdir().unwrap();
    let as_postgres = |program: &Path| {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program).current_dir(directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let owner = Command::new("chown").arg("postgres").arg(directory.path()).status();
    assert!(owner.unwrap().success());
    let data = directory.path().join("data");
    let initialized = as_postgres(&programs.join("initdb")).args(["-A", "trust", "-N", "-D"]).arg(&data).status();
    assert!(initialized.unwrap().success());
    let mut server = Command::new("setpriv");
    server.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(programs.join("postgres"));
    server.args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"]).arg(directory.path()).arg("-D").arg(&data);
    let server = server.current_dir(directory.path()).stderr(Stdio::null()).spawn().unwrap();
    let server = Postgres(Killed(server));
    let sql = |text: &str| {
        let mut client = as_postgres(&programs.join("psql"));
        client.arg("-h").arg(directory.path()).args(["-q", "-d", "postgres", "-c", text]);
        client
    };
    let is_ready = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        sql("create table t as select 1 as id, 0 as n").status().is_ok_and(|status| status.success())
    });
    assert!(is_ready);
    let script = "begin;\nupdate t set n = n + 1 where id = 1;\n\\sleep 5 ms\ncommit;\n";
    fs::write(directory.path().join("row.sql"), script).unwrap();
    let mut bench = as_postgres(&programs.join("pgbench"));
    bench.arg("-h").arg(directory.path()).args(["-n", "-f", "row.sql", "-c", "6", "-T", "600", "postgres"]);
    let _bench = Killed(bench.spawn().unwrap());
    if !has_stacks(&server.0.0) {
        return;
    }
    let children = || {
        let id = server.0.0.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        children.split_ascii_whitespace().collect::<Vec<_>>().join(",")
    };
    assert_waits_in_any(&server.0, &["-p", &children()], &["epoll_wait in XactLockTableWait ← "]);
}
