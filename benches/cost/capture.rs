//! A capture compared with the floor.

use std::fs;
use std::num::NonZeroUsize;

use ctprof::capture::{Options, capture_with};

use crate::load::{Load, fits, tree};
use crate::process::{Cost, Line, ctprof, medians, role};

const RUNS: usize = 7;

/// The role that captures and writes no file.
pub(crate) fn walk(jobs: NonZeroUsize, procfs: &str) -> anyhow::Result<()> {
    let mut options = Options::default();
    options.jobs = Some(jobs);
    options.roots.procfs = procfs.into();
    // The process exits without freeing it piece by piece.
    std::mem::forget(capture_with(&options)?);
    Ok(())
}

/// Measures captures of hosts of the given sizes and prints a table.
pub(crate) fn table(sizes: &[usize]) -> anyhow::Result<()> {
    println!("## Capturing\n");
    println!(
        "| threads | workers | walk CPU ÷ floor | with the file ÷ floor | wall ÷ floor | wall ÷ one worker's | the floor's | CPU | wall | peak | file |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for &size in sizes {
        rows(size)?;
    }
    println!();
    Ok(())
}

fn rows(size: usize) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("snapshot").display().to_string();
    let (_load, procfs) = if fits(size)? {
        (Some(Load::of(size)?), "/proc".to_owned())
    } else if size <= 100_000 {
        tree(dir.path(), size)?;
        (None, dir.path().display().to_string())
    } else {
        return Ok(());
    };
    let mut alone = [f64::NAN; 2];
    for jobs in ["1", "2"] {
        let programs: [Line; 3] = [
            role(&["floor", jobs, &procfs])?,
            role(&["walk", jobs, &procfs])?,
            ctprof(&["capture", "--quiet", "--jobs", jobs, "--procfs", &procfs, "--output", &file]),
        ];
        let costs = medians(RUNS, &programs)?;
        let [floor, walk, whole] = costs[..] else { anyhow::bail!("three programs, three costs") };
        if jobs == "1" {
            alone = [whole.wall, floor.wall];
        }
        let shared = [whole.wall / alone[0], floor.wall / alone[1]];
        row(size, jobs, [floor, walk, whole], shared, fs::metadata(&file)?.len());
    }
    Ok(())
}

fn row(size: usize, jobs: &str, [floor, walk, whole]: [Cost; 3], [shared, floors]: [f64; 2], bytes: u64) {
    println!(
        "| {size} | {jobs} | {:.2} | {:.2} | {:.2} | {shared:.2} | {floors:.2} | {:.1} ms | {:.1} ms | {:.1} MiB | {:.1} KiB |",
        walk.cpu / floor.cpu,
        whole.cpu / floor.cpu,
        whole.wall / floor.wall,
        whole.cpu * 1e3,
        whole.wall * 1e3,
        whole.peak / 1_048_576.0,
        bytes as f64 / 1024.0,
    );
}
