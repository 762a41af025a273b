//! The cost of windows and of series, with and without samples of why threads wait: the recorder's CPU time in a second, and
//! by how much two threads that wake each other up get less done.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::load::Load;
use crate::observer::{thread_sleep, watched};
use crate::process::{Cost, ctprof, measure, median};

const RUNS: usize = 5;
const SECONDS: u32 = 10;

/// Records hosts of the given sizes and prints a table.
pub(crate) fn table(sizes: &[usize]) -> anyhow::Result<()> {
    println!("## Recording\n");
    println!(
        "| threads | recorded as | CPU in a second | peak | file per hour | rounds of two threads, ÷ not recorded |"
    );
    println!("|---:|---|---:|---:|---:|---:|");
    for &size in sizes.iter().filter(|&&size| size <= 20_000) {
        let _load = Load::of(size)?;
        rows(size)?;
    }
    println!();
    Ok(())
}

fn rows(size: usize) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("recording").display().to_string();
    let kinds: [(&str, &[&str]); 5] = [
        ("window", &["--no-why"]),
        ("window with reasons", &[]),
        ("series of 1 s", &["--no-why", "--every", "1s"]),
        ("series of 1 s with reasons", &["--every", "1s"]),
        ("series of 100 ms", &["--no-why", "--every", "100ms"]),
    ];
    let seconds = format!("{SECONDS}s");
    let record = |options: &[&str]| ctprof(&[&["record", "-q", "-d", &seconds, "-o", &file], options].concat());
    let mut rounds = vec![Vec::new(); kinds.len() + 1];
    let mut costs = vec![Vec::new(); kinds.len()];
    let mut bytes = vec![0; kinds.len()];
    for _ in 0..RUNS {
        rounds[kinds.len()].push(watched("rounds", || thread_sleep(Duration::from_secs(SECONDS.into())))?);
        for (at, (_, options)) in kinds.iter().enumerate() {
            let recorded = || {
                costs[at].push(measure(&record(options))?);
                Ok(())
            };
            rounds[at].push(watched("rounds", recorded)?);
            bytes[at] = std::fs::metadata(&file)?.len();
        }
    }
    let alone = median(rounds.pop().unwrap_or_default());
    for (((name, _), rounds), (costs, bytes)) in kinds.iter().zip(rounds).zip(costs.iter().zip(bytes)) {
        let of = |field: fn(&Cost) -> f64| median(costs.iter().map(field).collect());
        let per_hour = if name.starts_with("series") {
            format!("{:.1} MB", bytes as f64 / f64::from(SECONDS) * 3600.0 / 1e6)
        } else {
            "–".to_owned()
        };
        let share = 100.0 * of(|cost| cost.cpu) / f64::from(SECONDS);
        let peak = of(|cost| cost.peak) / 1_048_576.0;
        println!("| {size} | {name} | {share:.2} % | {peak:.0} MiB | {per_hour} | {:.3} |", median(rounds) / alone);
    }
    Ok(())
}

/// The role of two threads that wake each other up; prints how often per second.
pub(crate) fn rounds() -> anyhow::Result<()> {
    let (there, receiver) = sync_channel(0);
    let (sender, back) = sync_channel(0);
    let is_finished = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        scope.spawn(move || receiver.iter().try_for_each(|round: u32| sender.send(round)));
        let is_finished = &is_finished;
        let turns = scope.spawn(move || {
            let begin = Instant::now();
            let mut round = 0_u32;
            while !is_finished.load(Ordering::Relaxed) && there.send(round).is_ok() && back.recv().is_ok() {
                round += 1;
            }
            f64::from(round) / begin.elapsed().as_secs_f64()
        });
        println!("ready");
        let copied = io::copy(&mut io::stdin(), &mut io::sink());
        is_finished.store(true, Ordering::Relaxed);
        copied.map(|_| turns.join())
    })?;
    println!("{}", rounds.map_err(|_| anyhow::anyhow!("a thread panicked"))?);
    Ok(())
}
