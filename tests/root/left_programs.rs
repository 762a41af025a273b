//! Processes that execute another program while they are recorded: what they did before is of the program that they left.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ctprof::CtprofSnapshot;
use ctprof::series::Moment;
use ctprof::store::{StoreError, Stored};

use crate::alone;
use crate::root::engine_captures::has_bpf;
use crate::root::histories::compile;

/// CPU time in milliseconds, by the name of the process.
type Times = BTreeMap<String, f64>;

/// Two copies of a program: the first one executes the second one.
struct Copies {
    directory: tempfile::TempDir,
    paths: [PathBuf; 2],
}

impl Copies {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = compile("executes", directory.path());
        let paths = ["left", "next"].map(|name| directory.path().join(format!("{name}-{}", std::process::id())));
        paths.iter().for_each(|path| assert!(fs::copy(&program, path).is_ok()));
        Self { directory, paths }
    }

    /// The CPU time of both.
    fn times(&self, windows: &[CtprofSnapshot]) -> [f64; 2] {
        let mut times = Times::new();
        for thread in windows.iter().flat_map(|window| &window.threads) {
            let ms = thread.metrics.run_time_ns.map_or(0, u64::from) as f64 / 1e6;
            *times.entry(thread.pcomm.to_string()).or_default() += ms;
        }
        self.paths.each_ref().map(|path| times.get(path.file_name().unwrap().to_str().unwrap()).copied().unwrap_or(0.0))
    }

    fn record(&self, options: &[&str]) -> (PathBuf, Command) {
        let file = self.directory.path().join("recorded");
        let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        record.args(["record", "-q", "--no-why", "-o"]).arg(&file).args(options).stdin(Stdio::null());
        (file, record)
    }
}

/// The window in a file, or the whole series and its steps.
fn load(file: &Path) -> (CtprofSnapshot, Vec<CtprofSnapshot>) {
    let series = || Stored::open(file, 1 << 30, &Arc::default()).unwrap().series().unwrap();
    let Some(mut whole) = series() else { return (CtprofSnapshot::load(file).unwrap(), Vec::new()) };
    let mut steps = Vec::new();
    let mut found = |step: CtprofSnapshot, _: &Moment| {
        steps.push(step);
        Ok::<_, StoreError>(())
    };
    series().unwrap().each_window(&"..".parse().unwrap(), &mut found).unwrap();
    (whole.part(&"..".parse().unwrap()).unwrap(), steps)
}

/// Until the next tick, the kernel does not count what a thread that runs has run.
const TICK_MS: f64 = 10.0;

fn assert_near(times: [f64; 2], truth: [f64; 2], what: &str) {
    eprintln!("{what}: {times:?} of {truth:?} ms");
    let is_near = |(time, truth): (f64, f64)| (time - truth).abs() < 2.0 * TICK_MS + truth / 20.0;
    assert!(times.into_iter().zip(truth).all(is_near), "{what}: {times:?} of {truth:?} ms");
}

fn assert_sums(copies: &Copies, times: [f64; 2], steps: &[CtprofSnapshot], what: &str) {
    let in_steps = copies.times(steps);
    let is_sum = |(whole, steps): (f64, f64)| (whole - steps).abs() < 0.001;
    assert!(
        steps.is_empty() || times.into_iter().zip(in_steps).all(is_sum),
        "{what}: {times:?}, {in_steps:?} in steps"
    );
}

#[test]
fn what_a_process_did_before_it_executed_another_program_is_of_the_program_that_it_left() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let copies = Copies::new();
    for caller in ["first", "other"] {
        for options in [&[][..], &["--every", "100ms"]] {
            let (file, mut record) = copies.record(options);
            record.arg("--").arg(&copies.paths[0]).arg(caller).arg(&copies.paths[1]);
            assert!(record.status().unwrap().success());
            let (whole, steps) = load(&file);
            let what = format!("{caller} {options:?}");
            let times = copies.times(std::slice::from_ref(&whole));
            assert_near(times, [400.0, 300.0], &what);
            assert_sums(&copies, times, &steps, &what);
        }
    }
}

#[test]
fn a_process_that_was_there_before_has_only_the_time_of_the_window_in_both_programs() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let copies = Copies::new();
    for caller in ["first", "other"] {
        for options in [&[][..], &["--every", "100ms"]] {
            let mut process = Command::new(&copies.paths[0]);
            let mut process = process.arg(caller).arg(&copies.paths[1]).stdin(Stdio::piped()).spawn().unwrap();
            // Its first sleep is the read.
            while !fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap().contains(") S ") {
                thread::sleep(Duration::from_millis(5));
            }
            let (file, mut record) = copies.record(options);
            record.args(["--", "sh", "-c", "echo begun; read _; true"]);
            let mut record = record.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut begun = String::new();
            BufReader::new(record.stdout.as_mut().unwrap()).read_line(&mut begun).unwrap();
            assert_eq!(begun, "begun\n");
            drop(process.stdin.take());
            assert!(process.wait().unwrap().success());
            drop(record.stdin.take());
            assert!(record.wait().unwrap().success());
            let (whole, steps) = load(&file);
            let what = format!("{caller} {options:?}");
            let times = copies.times(std::slice::from_ref(&whole));
            assert_near(times, [300.0, 300.0], &what);
            assert_sums(&copies, times, &steps, &what);
        }
    }
}
