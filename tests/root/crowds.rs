//! Beside thousands of threads that are ready to run, threads of ctprof do not wait for their turns, and commands do.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::root::attacks_support::{attacked, id};
use crate::support::{Missing, skipped};

const CROWDED: &str = "5000.00 5000.00 5000.00 5000/5100 1\n";
const QUIET: &str = "0.00 0.00 0.00 1/100 1\n";
/// Longer than anything takes on a busy host.
const LONGEST: Duration = Duration::from_secs(30);

/// A recorder that reads this file as `/proc/loadavg`; `None` where nothing can be mounted.
fn recorder(load: &Path, options: &[&str]) -> Option<Command> {
    let mounted = "mount --bind \"$0\" /proc/loadavg && exec \"$@\"";
    let unshared = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", mounted]).arg(load).arg(program).stdin(Stdio::null());
        command
    };
    let is_raised = unshared("chrt").args(["-f", "1", "true"]).status().is_ok_and(|status| status.success());
    if !is_raised {
        skipped(Missing::Privilege("root, with unshare, mount and a real-time policy"));
        return None;
    }
    let mut command = unshared(attacked().to_str().unwrap());
    command.args(options);
    Some(command)
}

/// Whether each thread of a process runs before usual ones, or has the lowest nice value.
fn are_first(process: u32) -> Vec<bool> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    let is_first = |stat: String| {
        let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').map(str::to_owned).collect();
        fields[38] == "1" || fields[16] == "-20"
    };
    stats.map(is_first).collect()
}

fn await_threads(recorder: &Child, what: &str, is_seen: impl Fn(&[bool]) -> bool) {
    let begin = Instant::now();
    while !is_seen(&are_first(recorder.id())) {
        assert!(begin.elapsed() < LONGEST, "{what}: {:?}", are_first(recorder.id()));
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn on_a_crowded_host_all_threads_of_ctprof_run_first_and_its_command_runs_in_its_turn() {
    let directory = tempfile::tempdir().unwrap();
    let [load, window, seen] = ["load", "window", "seen"].map(|name| directory.path().join(name));
    fs::write(&load, CROWDED).unwrap();
    let seen_text = seen.to_str().unwrap();
    let command = ["--", "sh", "-c", "cat /proc/self/stat > $0; sleep 1", seen_text];
    let options = [&["record", "-q", "-o", window.to_str().unwrap()], &command[..]].concat();
    let Some(mut recorder) = recorder(&load, &options) else { return };
    let mut recorder = recorder.spawn().unwrap();
    let begin = Instant::now();
    while fs::read_to_string(&seen).unwrap_or_default().is_empty() {
        assert!(begin.elapsed() < LONGEST, "the command does not run");
        thread::sleep(Duration::from_millis(1));
    }
    let threads = are_first(recorder.id());
    assert!(threads.len() > 1 && threads.iter().all(|is_first| *is_first), "{threads:?}");
    assert!(recorder.wait().unwrap().success());
    let command = fs::read_to_string(&seen).unwrap();
    let fields: Vec<_> = command.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!((fields[38], fields[16]), ("0", "0"), "policy and nice value");
}

#[test]
fn threads_of_a_recorder_run_first_while_it_captures_a_crowded_host_and_in_their_turns_after_that() {
    let directory = tempfile::tempdir().unwrap();
    let [load, series] = ["load", "series"].map(|name| directory.path().join(name));
    // Also one that is started in a crowd does not keep it for weeks.
    fs::write(&load, CROWDED).unwrap();
    let options = ["record", "-q", "--every", "50ms", "--no-why", "-o", series.to_str().unwrap()];
    let Some(mut recorder) = recorder(&load, &options) else { return };
    let mut recorder = recorder.spawn().unwrap();
    let is_crowd = |threads: &[bool]| threads.len() > 2 && threads.iter().all(|is_first| *is_first);
    // The listener of exits runs first at all times.
    let is_quiet = |threads: &[bool]| threads.len() > 2 && threads.iter().filter(|is_first| !**is_first).count() > 1;
    for _ in 0..2 {
        fs::write(&load, CROWDED).unwrap();
        await_threads(&recorder, "crowded", is_crowd);
        fs::write(&load, QUIET).unwrap();
        await_threads(&recorder, "after", is_quiet);
    }
    nix::sys::signal::kill(id(&recorder), nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(recorder.wait().unwrap().success());
}
