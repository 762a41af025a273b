//! A capture compared with the floor.

use std::fs;
use std::num::NonZeroUsize;

use ctprof::capture::{Engine, Options, bpf_pass, capture_with};

use crate::load::{Load, fits, tree};
use crate::process::{Cost, Line, ctprof, medians, role};

const RUNS: usize = 7;

/// The engines, by the names of the command line.
const ENGINES: [&str; 2] = ["procfs", "bpf"];

/// The role that captures and writes no file.
pub(crate) fn walk(engine: &str, jobs: NonZeroUsize, procfs: &str) -> anyhow::Result<()> {
    let mut options = Options::default();
    options.engine = if engine == "bpf" { Engine::Bpf } else { Engine::Procfs };
    options.jobs = Some(jobs);
    options.roots.procfs = procfs.into();
    // The process exits without freeing it piece by piece.
    std::mem::forget(capture_with(&options)?);
    Ok(())
}

/// The role that runs the program of the BPF engine for all threads, and ignores what it writes.
pub(crate) fn pass() -> anyhow::Result<()> {
    bpf_pass()?;
    Ok(())
}

/// Measures captures of hosts of the given sizes and prints a table.
pub(crate) fn table(sizes: &[usize]) -> anyhow::Result<()> {
    println!("## Capturing\n");
    println!(
        "| threads | workers | engine | walk CPU ÷ floor | with the file ÷ floor | wall ÷ floor | wall ÷ procfs | CPU | wall | peak | file |"
    );
    println!("|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for &size in sizes {
        rows(size)?;
    }
    println!();
    Ok(())
}

fn rows(size: usize) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("snapshot").display().to_string();
    let (_load, procfs, engines) = if fits(size)? {
        (Some(Load::of(size)?), "/proc".to_owned(), &ENGINES[..])
    } else if size <= 100_000 {
        tree(dir.path(), size)?;
        (None, dir.path().display().to_string(), &ENGINES[..1])
    } else {
        return Ok(());
    };
    for jobs in ["1", "2"] {
        let mut programs: Vec<Line> = Vec::new();
        for engine in engines {
            let floor = if *engine == "bpf" { role(&["pass"])? } else { role(&["floor", jobs, &procfs])? };
            let options = ["--quiet", "--engine", engine, "--jobs", jobs, "--procfs", &procfs, "--output", &file];
            let whole = ctprof(&[&["capture"], &options[..]].concat());
            programs.extend([floor, role(&["walk", engine, jobs, &procfs])?, whole]);
        }
        let costs = medians(RUNS, &programs)?;
        let procfs_wall = costs[2].wall;
        let bytes = fs::metadata(&file)?.len();
        for (engine, costs) in engines.iter().zip(costs.chunks_exact(3)) {
            let [floor, walk, whole] = costs else { anyhow::bail!("three programs, three costs") };
            row(&format!("{size} | {jobs} | {engine}"), [floor, walk, whole], procfs_wall, bytes);
        }
    }
    Ok(())
}

fn row(what: &str, [floor, walk, whole]: [&Cost; 3], procfs_wall: f64, bytes: u64) {
    println!(
        "| {what} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} ms | {:.1} ms | {:.1} MiB | {:.1} KiB |",
        walk.cpu / floor.cpu,
        whole.cpu / floor.cpu,
        whole.wall / floor.wall,
        whole.wall / procfs_wall,
        whole.cpu * 1e3,
        whole.wall * 1e3,
        whole.peak / 1_048_576.0,
        bytes as f64 / 1024.0,
    );
}
