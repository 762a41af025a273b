//! Many exits in a window: their records are folded while they arrive, not at its end.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ctprof::CtprofSnapshot;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::alone;
use crate::root::engine_captures::has_bpf;
use crate::root::histories::compile;

/// State and CPU time of a process in ticks; also of one that has exited and nobody has waited for.
fn state(pid: u32) -> Option<(char, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?;
    Some((fields[0].chars().next()?, ticks))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// CPU time of a process in ticks, as soon as it does nearly nothing: it has read all records.
fn ticks_at_rest(pid: u32) -> u64 {
    let ticks = || state(pid).map_or(0, |(_, ticks)| ticks);
    let mut before = 0;
    wait_until("the records are read", || {
        thread::sleep(Duration::from_millis(300));
        let now = ticks();
        now <= std::mem::replace(&mut before, now) + 3
    });
    before
}

/// CPU time in ticks that a recording takes after its end, if so many threads exited in it.
fn ticks_after_the_end(program: &Path, exits: u64, file: &Path) -> u64 {
    let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    // With room for all: of a thread whose last record is lost, that of its exit is read at the end.
    let options = ["-q", "record", "--no-jemalloc", "--smaps", "never", "--ring", "256M", "-o"];
    record.args(options).arg(file).stdin(Stdio::null());
    let mut record = record.spawn().unwrap();
    let pid = record.id();
    let waits = || fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|place| place.contains("poll"));
    wait_until("the recording begins", waits);
    assert!(Command::new(program).arg(exits.to_string()).status().unwrap().success());
    let before = ticks_at_rest(pid);
    kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGTERM).unwrap();
    wait_until("the recording ends", || state(pid).is_none_or(|(state, _)| state == 'Z'));
    let (_, after) = state(pid).unwrap();
    assert!(record.wait().unwrap().success());
    let window = CtprofSnapshot::load(file).unwrap();
    let records = window.head.window.unwrap().exit_records.unwrap();
    let shown = window.threads.iter().filter(|thread| &*thread.pcomm == "exits" && thread.exited_work.is_none());
    let shown: u64 = shown.map(|thread| thread.span.unwrap().count).sum();
    assert_eq!(shown + records.lost, exits + 1, "each exit is in the window, or said to be lost");
    after - before
}

#[test]
fn the_end_of_a_recording_takes_no_longer_after_many_exits() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (program, file) = (compile("exits", directory.path()), directory.path().join("window"));
    let [few, many] = [10_000, 100_000].map(|exits| ticks_after_the_end(&program, exits, &file));
    eprintln!("{few} ticks after 10,000 exits, {many} after 100,000");
    assert!(many <= 2 * few + 20, "{few} ticks after 10,000 exits, {many} after 100,000");
}
