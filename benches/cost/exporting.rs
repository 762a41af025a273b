//! The cost of exporting a fleet to Parquet, the size of the files, and DuckDB's time for the questions of
//! docs/fleet.md.

#[path = "../../examples/fleet.rs"]
mod fleet;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use ctprof::CtprofSnapshot;

use self::fleet::Fleet;
use crate::process::{Cost, ctprof, measure};

const TEMPLATE: &str = "tests/fixtures/v1-linux-7.3.ctprof.zst";
/// Threads per snapshot of the fleet.
const THREADS: usize = 1000;
/// Snapshots per host and day.
const WINDOWS: usize = 100;
/// Threads of a single large snapshot.
const LARGE: usize = 500_000;

/// Exports a fleet of `snapshots` snapshots and one large snapshot, asks the questions, and prints tables.
pub(crate) fn table(snapshots: usize) -> anyhow::Result<()> {
    let template = CtprofSnapshot::load(Path::new(TEMPLATE))?;
    println!("## Exporting\n");
    println!("| input | rows/s | CPU per row | peak | bytes per thread | ÷ snapshot |");
    println!("|---|---:|---:|---:|---:|---:|");
    let dir = tempfile::tempdir()?;
    let hosts = (snapshots / 2 / WINDOWS).max(1);
    let fleet = Fleet { hosts, days: 2, windows: WINDOWS, threads: THREADS };
    let paths = fleet.write(&template, &made(dir.path(), "fleet")?);
    let exported = row(&format!("{} windows of {THREADS} threads", paths.len()), &paths, THREADS, dir.path())?;
    questions(&exported)?;
    drop(dir);
    let dir = tempfile::tempdir()?;
    let large = Fleet { hosts: 1, days: 1, windows: 1, threads: LARGE };
    let paths = large.write(&template, &made(dir.path(), "large")?);
    row(&format!("one window of {LARGE} threads"), &paths, LARGE, dir.path()).map(drop)
}

fn made(parent: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let directory = parent.join(name);
    fs::create_dir(&directory)?;
    Ok(directory)
}

/// Measures an export, prints its row, and returns the directory of the datasets.
fn row(name: &str, paths: &[PathBuf], threads: usize, dir: &Path) -> anyhow::Result<PathBuf> {
    let [source, output] =
        [paths[0].parent().context("a directory")?, &dir.join("out")].map(|path| path.display().to_string());
    let limit = ["--max-snapshot-bytes", "8G"];
    let export = ctprof(&[&["export", "-q"][..], &limit, &[&source, "-o", &output]].concat());
    // Once: a second run finds everything exported.
    let Cost { cpu, wall, peak } = measure(&export)?;
    let rows = (paths.len() * threads) as f64;
    let size = |path: &Path| Ok::<_, anyhow::Error>(fs::metadata(path)?.len() as f64);
    let snapshots: f64 = paths.iter().map(|path| size(path)).sum::<Result<_, _>>()?;
    let exported = bytes_below(&Path::new(&output).join("threads"))? as f64;
    println!(
        "| {name} | {:.0} | {:.2} µs | {:.0} MiB | {:.1} | {:.2} |",
        rows / wall,
        cpu * 1e6 / rows,
        peak / 1_048_576.0,
        exported / rows,
        exported / snapshots,
    );
    Ok(output.into())
}

fn bytes_below(directory: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let there = entry.metadata()?;
        bytes += if there.is_dir() { bytes_below(&entry.path())? } else { there.len() };
    }
    Ok(bytes)
}

/// Prints DuckDB's time for each question.
fn questions(fleet: &Path) -> anyhow::Result<()> {
    let python = std::env::var("CTPROF_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let out =
        Command::new(python).args(["tests/export/questions.py", "duckdb", "docs/fleet.md"]).arg(fleet).output()?;
    ensure!(out.status.success(), "DuckDB (CTPROF_TEST_PYTHON): {}", String::from_utf8_lossy(&out.stderr));
    println!("\n| question | time |\n|---|---:|\n{}", String::from_utf8_lossy(&out.stdout));
    Ok(())
}
