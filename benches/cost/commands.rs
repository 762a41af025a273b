//! What recording adds to a command: to the time that it takes, and to the time until the next one can start.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use serde_json::Value;

use crate::process::{Line, ctprof, measure, median, role};

const RUNS: usize = 30;
/// Runs of each side of an `ab`, beside a warm-up.
const AB_RUNS: usize = 20;

/// Prints how long commands take by their windows, and how long a run of `ab` takes, both as ratio to starting them directly.
pub(crate) fn table() -> anyhow::Result<()> {
    println!("## Commands\n");
    println!("| command | recorded | elapsed, ÷ started directly |");
    println!("|---|---|---:|");
    let sleep = ["sleep".to_owned(), "0.5".to_owned()].to_vec();
    for (name, command) in [("sleep 0.5", sleep), ("0.5 s of arithmetic", role(&["compute", "500"])?)] {
        for (what, options) in [("with reasons", &[][..]), ("--no-why", &["--no-why"])] {
            println!("| {name} | {what} | {:.4} |", elapsed(&command, options)?);
        }
    }
    println!("\n| `ab true true` | time of a run | ÷ `sh -c true` |");
    println!("|---|---:|---:|");
    let shell = ["sh", "-c", "true"].map(str::to_owned).to_vec();
    let alone = median((0..RUNS * 4).map(|_| directly(&shell)).collect::<Result<_, _>>()?);
    for (what, options) in [("with reasons", &[][..]), ("--no-why", &["--no-why"])] {
        let runs = AB_RUNS.to_string();
        let ab = ctprof(&[&["ab", "-q", "--runs", &runs, "true", "true"], options].concat());
        let wall = median((0..5).map(|_| Ok(measure(&ab)?.wall)).collect::<anyhow::Result<_>>()?);
        let of_run = wall / (2 * AB_RUNS + 2) as f64;
        println!("| {what} | {:.1} ms | {:.1} |", of_run * 1e3, of_run / alone);
    }
    println!();
    Ok(())
}

/// The ratio of the medians of the time in windows, and of that of the command alone; they alternate.
fn elapsed(command: &Line, options: &[&str]) -> anyhow::Result<f64> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("window").display().to_string();
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let record = ctprof(&[&["record", "-q", "-o", &file], options, &["--"], &words].concat());
    let (mut alone, mut recorded) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        alone.push(directly(command)?);
        directly(&record)?;
        let shown = ctprof(&["show", &file, "--format", "json", "--sections", "host"]);
        let report: Value = serde_json::from_slice(&Command::new(&shown[0]).args(&shown[1..]).output()?.stdout)?;
        let elapsed_ns = report["snapshot"]["window"]["command"]["elapsed_ns"].as_f64();
        recorded.push(elapsed_ns.context("the time of the command")? / 1e9);
    }
    Ok(median(recorded) / median(alone))
}

/// The time that a program takes, in seconds.
fn directly(program: &Line) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let status = Command::new(&program[0]).args(&program[1..]).stdout(Stdio::null()).status()?;
    let time = begin.elapsed().as_secs_f64();
    anyhow::ensure!(status.success(), "{} failed: {status}", program[0]);
    Ok(time)
}

/// The role of a command that computes for about so many milliseconds: the same work each time.
pub(crate) fn compute(milliseconds: u64) {
    let mut random = 1_u64;
    for _ in 0..milliseconds * 1_000_000 {
        random = black_box(random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}
