//! The impact on captured processes: the longest stall of a spinning thread, and the longest page fault,
//! with and without captures.

use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::process::{ctprof, median, role};

#[expect(dead_code, reason = "its main is another program's")]
#[path = "../../examples/spin.rs"]
mod spin;

const RUNS: usize = 5;
/// Captures per measured process, and how long a process without captures is measured.
const CAPTURES: usize = 20;
const WATCHED: Duration = Duration::from_millis(500);
const MAPPED: usize = 2 << 30;
const PAGE: usize = 4096;

/// Measures the impact on captured processes and prints a table.
pub(crate) fn table() -> anyhow::Result<()> {
    // Captures have their own CPU: what remains is their effect on others.
    pin(0)?;
    println!("## Being captured\n");
    println!("| longest | ÷ no capture | no capture | {CAPTURES} captures |");
    println!("|---|---:|---:|---:|");
    let procfs = ["--engine", "procfs", "--smaps", "never"];
    row("stall of a spinning thread, procfs, not probed", "spin", &[&procfs[..], &["--no-jemalloc"]].concat())?;
    row("stall of a spinning thread, procfs, probed", "spin", &procfs)?;
    row("stall of a spinning thread, BPF, probed", "spin", &["--engine", "bpf", "--smaps", "never"])?;
    row("page fault of a 2 GiB process, smaps_rollup not read", "fault", &procfs)?;
    row("page fault of a 2 GiB process, smaps_rollup read", "fault", &["--engine", "procfs", "--smaps", "always"])?;
    println!();
    Ok(())
}

fn row(what: &str, part: &str, options: &[&str]) -> anyhow::Result<()> {
    let mut longest = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        longest[0].push(watched(part, || thread_sleep(WATCHED))?);
        longest[1].push(watched(part, || captures(options))?);
    }
    let [alone, captured] = longest.map(median);
    let us = |ns: f64| ns / 1e3;
    println!("| {what} | {:.2} | {:.0} µs | {:.0} µs |", captured / alone, us(alone), us(captured));
    Ok(())
}

pub(crate) fn thread_sleep(time: Duration) -> anyhow::Result<()> {
    thread::sleep(time);
    Ok(())
}

fn captures(options: &[&str]) -> anyhow::Result<()> {
    let command = ctprof(&[&["capture", "--quiet", "--jobs", "1", "--output", "/dev/null"], options].concat());
    for _ in 0..CAPTURES {
        Command::new(&command[0]).args(&command[1..]).stderr(Stdio::null()).status()?;
    }
    Ok(())
}

/// Runs `meanwhile` while a process in a role runs; returns the nanoseconds that it prints at its end.
pub(crate) fn watched(part: &str, meanwhile: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let command = role(&[part, "1"])?;
    let mut child: Child =
        Command::new(&command[0]).args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdout = BufReader::new(child.stdout.take().context("stdout is piped")?);
    stdout.read_line(&mut String::new())?;
    meanwhile()?;
    drop(child.stdin.take());
    let mut longest = String::new();
    stdout.read_to_string(&mut longest)?;
    child.wait()?;
    Ok(longest.trim().parse()?)
}

/// The role of a thread that spins on its own CPU.
pub(crate) fn spin(cpu: &str) -> anyhow::Result<()> {
    Ok(spin::run(cpu.parse()?)?)
}

fn pin(cpu: usize) -> nix::Result<()> {
    let mut one = CpuSet::new();
    one.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &one)
}

/// The role of a process with much memory that keeps touching new pages, on its own CPU.
pub(crate) fn fault(cpu: &str) -> anyhow::Result<()> {
    pin(cpu.parse()?)?;
    let mut mapped = vec![0u8; MAPPED];
    mapped.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    let finished = AtomicBool::new(false);
    let longest = thread::scope(|scope| {
        let faults = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !finished.load(Ordering::Relaxed) {
                longest = longest.max(longest_fault());
            }
            longest
        });
        println!("ready");
        let copied = io::copy(&mut io::stdin(), &mut io::sink());
        finished.store(true, Ordering::Relaxed);
        copied.map(|_| faults.join())
    })?;
    black_box(&mapped);
    println!("{}", longest.map_err(|_| anyhow::anyhow!("the faulting thread panicked"))?.as_nanos());
    Ok(())
}

/// Touches new pages, a little at a time.
fn longest_fault() -> Duration {
    let mut fresh = vec![0u8; 64 << 20];
    let touch = |page: &mut [u8]| {
        let begin = Instant::now();
        page[0] = 1;
        begin.elapsed()
    };
    let longest = fresh.chunks_mut(PAGE).map(touch).max().unwrap_or_default();
    black_box(&fresh);
    longest
}
