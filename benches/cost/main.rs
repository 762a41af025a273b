//! The cost of a capture, as ratio to a floor measured in the same run: a program that makes the same system
//! calls and parses nothing.
//!
//! `cargo bench --profile dist --bench cost [-- capturing|reading|captured|commands|containers|recording|exporting NUMBERS...]`
//!
//! The numbers are sizes of hosts in threads, for `exporting` the number of snapshots.
//!
//! Each measured program is its own process, so that the kernel accounts its CPU time and memory. Floor and
//! captures alternate, and medians are printed.

mod capture;
mod commands;
mod containers;
#[cfg(feature = "parquet")]
mod exporting;
mod floor;
mod load;
mod observer;
mod process;
mod recording;
mod snapshots;

use std::env;

use anyhow::bail;

/// The argument that `cargo bench` passes to every benchmark.
const CARGO: &str = "--bench";
/// Sizes of hosts, in threads.
const SIZES: [usize; 5] = [100, 2_000, 20_000, 100_000, 1_000_000];

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = env::args().skip(1).filter(|arg| arg != CARGO).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["floor", jobs, procfs] => floor::run(jobs.parse()?, procfs),
        ["walk", engine, jobs, procfs] => capture::walk(engine, jobs.parse()?, procfs),
        ["pass"] => capture::pass(),
        ["decompress", file] => snapshots::decompress(file),
        ["parse", file] => snapshots::parse(file),
        ["measured", program, ref rest @ ..] => process::report(program, rest),
        ["spin", cpu] => observer::spin(cpu),
        ["fault", cpu] => observer::fault(cpu),
        ["compute", milliseconds] => {
            commands::compute(milliseconds.parse()?);
            Ok(())
        }
        ["rounds", _] => recording::rounds(),
        ["load", ref numbers @ ..] => load::run(numbers),
        _ => tables(&args),
    }
}

/// Prints the tables and sizes that are named in `asked`.
fn tables(asked: &[&str]) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        bail!("not optimised: run cargo bench --bench cost");
    }
    let (sizes, names): (Vec<&str>, Vec<&str>) = asked.iter().partition(|word| word.parse::<usize>().is_ok());
    let sizes: Result<Vec<usize>, _> = sizes.iter().map(|size| size.parse()).collect();
    let sizes = sizes?;
    #[cfg(feature = "parquet")]
    if names.contains(&"exporting") {
        return exporting::table(sizes.first().copied().unwrap_or(10_000));
    }
    let sizes = Some(sizes).filter(|sizes| !sizes.is_empty()).unwrap_or_else(|| SIZES.to_vec());
    let wanted = |name| names.is_empty() || names.contains(&name);
    if wanted("capturing") {
        capture::table(&sizes)?;
    }
    if wanted("reading") {
        snapshots::table(&sizes)?;
    }
    if wanted("captured") {
        observer::table()?;
    }
    if wanted("commands") {
        commands::table()?;
    }
    if wanted("containers") {
        containers::table()?;
    }
    if wanted("recording") {
        recording::table(&sizes)?;
    }
    Ok(())
}
