//! Threads that neither run, wait, block nor sleep: zombies, and those that are stopped.

use std::fs;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::states;
use crate::support::copy_program;

/// The share of a window by which a busy host delays the reading of a thread.
const BUSY_HOST: f64 = 0.2;

/// Processes that end with the test.
struct Started(Vec<Child>);

impl Drop for Started {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn zombies_and_stopped_threads_do_not_sleep_and_all_states_are_the_time_of_the_threads() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for name in ["dead-states", "stop-states", "slow-states"] {
        copy_program("/bin/sleep", path(name));
    }
    let start = |name: &str, seconds: &str| Command::new(path(name)).arg(seconds).spawn().unwrap();
    let dead: Vec<_> = (0..3).map(|_| start("dead-states", "0")).collect();
    let [stopped, slow] = ["stop-states", "slow-states"].map(|name| start(name, "100"));
    let state = |child: &Child| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next()
    };
    let wait_for = |child: &Child, expected: char| {
        while state(child) != Some(expected) {
            thread::sleep(Duration::from_millis(5));
        }
    };
    let started = Started(dead.into_iter().chain([stopped, slow]).collect());
    started.0[..3].iter().for_each(|child| wait_for(child, 'Z'));
    wait_for(&started.0[4], 'S');
    let id = i32::try_from(started.0[3].id()).unwrap();
    kill(Pid::from_raw(id), Signal::SIGSTOP).unwrap();
    wait_for(&started.0[3], 'T');
    let pids = started.0.iter().map(|child| child.id().to_string()).collect::<Vec<_>>().join(",");
    for engine in ["auto", "procfs"] {
        let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        record.args(["record", "-q", "-d", "2s", "-f", "json", "--engine", engine, "--group-by", "process"]);
        record.arg("-p").arg(&pids);
        let printed = record.output().unwrap();
        let report: Value = serde_json::from_slice(&printed.stdout).unwrap();
        assert_eq!(states::assert_states_add_up(&report, BUSY_HOST), 4, "{engine}: three groups, and all of them");
        let value = |group: &str, column: &str| {
            let rows = report["rows"].as_array().unwrap();
            let row = rows.iter().find(|row| row["group"] == group && row["metric"] == column);
            (row.and_then(|row| row["value"].as_f64()).unwrap_or(0.0) / 50.0).round() * 50.0
        };
        let of = |group: &str| ["sleep", "stopped", "zombie"].map(|column| value(group, column));
        let found = ["dead-states", "stop-states", "slow-states"].map(of);
        assert_eq!(found, [[0.0, 0.0, 300.0], [0.0, 100.0, 0.0], [100.0, 0.0, 0.0]], "{engine}");
    }
}

#[test]
fn a_process_that_exits_in_a_window_is_a_zombie_from_its_exit_on() {
    let dir = tempfile::tempdir().unwrap();
    let [program, file] = ["late-exits", "w"].map(|name| dir.path().join(name));
    copy_program("/bin/sleep", &program);
    let show = |arguments: &[&str]| {
        let mut show = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        let printed = show.arg("show").arg(&file).args(["-f", "json"]).args(arguments).output();
        serde_json::from_slice::<Value>(&printed.unwrap().stdout).unwrap()
    };
    for (engine, steps) in [("auto", &[][..]), ("procfs", &[]), ("auto", &["--every", "500ms"])] {
        let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        record.args(["record", "-q", "-d", "6s", "--engine", engine, "-o"]).arg(&file).args(steps);
        let mut started = Started(vec![Command::new(&program).arg("100").spawn().unwrap()]);
        // The parent has a name if it is captured too.
        let pids = format!("{},{}", started.0[0].id(), std::process::id());
        started.0.push(record.arg("-p").arg(pids).spawn().unwrap());
        thread::sleep(Duration::from_secs(3));
        let died = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        kill(Pid::from_raw(started.0[0].id().cast_signed()), Signal::SIGKILL).unwrap();
        assert!(started.0[1].wait().unwrap().success());
        assert_eq!(states::assert_states_add_up(&show(&["--only", "late-exits"]), BUSY_HOST), 1, "{engine} {steps:?}");
        let report = show(&["--per", "total"]);
        let rows = report["rows"].as_array().unwrap();
        let of = |metric: &str| rows.iter().find(|row| row["group"] == "late-exits" && row["metric"] == metric);
        let zombie = of("zombie").and_then(|row| row["value"].as_f64()).unwrap_or(0.0) / 1e9;
        let snapshot = &report["snapshot"];
        let length = snapshot["window"]["duration_ns"].as_f64().unwrap() / 1e9;
        let dead = (snapshot["captured_at_unix_ns"].as_f64().unwrap() / 1e9 - died).min(length);
        // On a busy host, the signal comes late, samples notice the exit later, and the thread is read after others.
        assert!((zombie - dead).abs() < 1.4, "{engine} {steps:?}: {zombie} s, dead for {dead} s");
        let run = of("run").unwrap();
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        let parent = format!("zombie: not waited for by {}", own.trim_end());
        let is_named = |row: &Value| row["group"] == "late-exits" && row["metric"] == parent;
        assert!(rows.iter().any(is_named), "{engine} {steps:?}: {parent}");
        assert_eq!((&run["members"], &run["turnover"]["exited"]), (&1.into(), &0.into()), "{engine} {steps:?}");
    }
}
