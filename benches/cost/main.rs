//! What a capture costs, as ratios to a floor measured in the same run: a program that opens, reads
//! once and closes the same files of the same threads, with the same system calls between, and
//! parses nothing. `cargo bench --bench cost [-- THREADS...]`.
//!
//! Everything measured is a process of its own, so that CPU time and memory are the kernel's
//! account of it; floor and captures take turns, and the median of each counts.

mod capture;
mod floor;
mod load;
mod process;
mod snapshots;

use std::env;

use anyhow::{Context, bail};

/// What `cargo bench` passes to every benchmark.
const CARGO: &str = "--bench";

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = env::args().skip(1).filter(|arg| arg != CARGO).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["floor", jobs, procfs] => floor::run(jobs.parse()?, procfs),
        ["walk", jobs, procfs] => capture::walk(jobs.parse()?, procfs),
        ["decompress", file] => snapshots::decompress(file),
        ["measured", program, ref rest @ ..] => process::report(program, rest),
        ["load", ref numbers @ ..] => load::run(numbers),
        _ => compare_with_the_floor(&args),
    }
}

fn compare_with_the_floor(sizes: &[&str]) -> anyhow::Result<()> {
    let numbers: Result<Vec<usize>, _> = sizes.iter().map(|size| size.parse()).collect();
    let mut numbers = numbers.context("sizes are numbers of threads")?;
    if numbers.is_empty() {
        numbers = vec![100, 2_000, 20_000, 100_000, 1_000_000];
    }
    if cfg!(debug_assertions) {
        bail!("measured without optimisation, nothing is worth knowing: cargo bench --bench cost");
    }
    capture::table(&numbers)?;
    snapshots::table(&numbers)
}
