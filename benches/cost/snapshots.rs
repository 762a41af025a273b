//! The cost of reading snapshots by size, compared with decompressing the same file, and with parsing it into nothing: a floor
//! that a smaller file does not move.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use ctprof::{CtprofSnapshot, ThreadState};
use serde_json::json;

use crate::process::{ctprof, medians, role};

const RUNS: usize = 5;
/// For files beyond the readers' default limit.
const LIMIT: &str = "8589934592";

/// Measures `show` of a file and of the window between two, and `compare`, of files of the given sizes and prints a table.
pub(crate) fn table(sizes: &[usize]) -> anyhow::Result<()> {
    println!("## Reading\n");
    println!(
        "| threads | JSON | show ÷ decompressing | show A B ÷ show A | compare ÷ decompressing both | show ÷ parsing \
         | compare ÷ parsing both | show | peak | show A B | peak | compare | peak |"
    );
    println!("|{}", "---:|".repeat(13));
    let template = ctprof::capture_pid(std::process::id())?;
    for &size in sizes {
        let dir = tempfile::tempdir()?;
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name).display().to_string());
        let json = synthetic(&template, size, 1, Path::new(&a))?;
        synthetic(&template, size, 2, Path::new(&b))?;
        let common = ["--max-snapshot-bytes", LIMIT];
        let costs = medians(
            RUNS,
            &[
                role(&["decompress", &a])?,
                role(&["parse", &a])?,
                ctprof(&[&["show"][..], &common, &[&a]].concat()),
                ctprof(&[&["show"][..], &common, &[&a, &b]].concat()),
                ctprof(&[&["compare"][..], &common, &[&a, &b]].concat()),
            ],
        )?;
        let [floor, parse, show, window, compare] = costs[..] else { anyhow::bail!("five programs, five costs") };
        println!(
            "| {size} | {:.1} MiB | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} ms | {:.1} MiB | {:.1} ms | {:.1} MiB | {:.1} ms | {:.1} MiB |",
            json as f64 / 1_048_576.0,
            show.wall / floor.wall,
            window.wall / show.wall,
            compare.wall / floor.wall / 2.0,
            show.wall / parse.wall,
            compare.wall / parse.wall / 2.0,
            show.wall * 1e3,
            show.peak / 1_048_576.0,
            window.wall * 1e3,
            window.peak / 1_048_576.0,
            compare.wall * 1e3,
            compare.peak / 1_048_576.0,
        );
    }
    Ok(())
}

/// The role that decompresses a file and discards it.
pub(crate) fn decompress(file: &str) -> anyhow::Result<()> {
    zstd::stream::copy_decode(File::open(file)?, io::sink())?;
    Ok(())
}

/// The role that decompresses a file, and parses its JSON into nothing.
pub(crate) fn parse(file: &str) -> anyhow::Result<()> {
    let _: serde::de::IgnoredAny = serde_json::from_slice(&zstd::decode_all(File::open(file)?)?)?;
    Ok(())
}

/// Writes a snapshot of one boot with `size` threads like those of `template`; returns the bytes of its JSON. Counters
/// differ between threads, and grow with `round`.
fn synthetic(template: &CtprofSnapshot, size: usize, round: u64, path: &Path) -> anyhow::Result<u64> {
    let mut out = zstd::Encoder::new(BufWriter::new(File::create(path)?), 3)?;
    let mut bytes = 0;
    let mut write = |text: &[u8]| {
        bytes += text.len() as u64;
        out.write_all(text)
    };
    let now = round * 10_000_000_000;
    let capture = json!({"monotonic_ns": now, "boottime_ns": now});
    let host = json!({"boot_id": "one", "clock_ticks_per_second": 100, "uptime_ns": now, "online_cpus": 2});
    write(format!(r#"{{"format_version":1,"capture":{capture},"host":{host},"threads":["#).as_bytes())?;
    for number in 0..size {
        write(if number > 0 { b",\n" } else { b"\n" })?;
        write(&serde_json::to_vec(&thread(&template.threads[0], u32::try_from(number)?, round))?)?;
    }
    write(b"\n]}")?;
    out.finish()?.flush()?;
    Ok(bytes)
}

fn thread(template: &ThreadState, number: u32, round: u64) -> ThreadState {
    let mut thread = template.clone();
    (thread.tid, thread.tgid) = (number + 1, number / 100 * 100 + 1);
    thread.pcomm = format!("program-{}", thread.tgid % 37).into();
    thread.comm = format!("worker-{}", number % 100).into();
    if !thread.is_leader() {
        thread.smaps_rollup_kib = None;
        thread.process = None;
    }
    let mut counter = u64::from(number).wrapping_mul(2_654_435_761) % 1_000_003;
    for metric in ctprof::model::METRICS {
        if metric.get(&thread.metrics).is_some() {
            counter = counter * 48_271 % 0x7fff_ffff;
            // A category keeps its value.
            let _ = metric.set(&mut thread.metrics, ctprof::model::Value::Unsigned(counter % 9_999 * round));
        }
    }
    thread
}
