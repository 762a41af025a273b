//! `ctprof capture`.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use jiff::Timestamp;

use super::args::Capture;
use super::output::to_stdout;
use super::progress;
use crate::capture::{Options, Roots, capture_with};
use crate::report::{capture_summary, escaped};
use crate::store::Target;

/// The environment variable with the key that names are hashed under: a command line is for all to see.
const REDACT_KEY: &str = "CTPROF_REDACT_KEY";

pub(super) fn run(args: &Capture, quiet: bool) -> anyhow::Result<()> {
    if args.output.as_deref() == Some(Path::new("-")) && io::stdout().is_terminal() {
        bail!("cannot write a compressed snapshot to a terminal: name a file with -o, or pipe it");
    }
    // A file that nobody named is never overwritten.
    let target = args.output.as_deref().map_or_else(|| Target::create_new(&default_path()), Target::create)?;
    let options = options(args);
    let watch = (!quiet && io::stderr().is_terminal()).then(|| progress::watch(&options.progress));
    let snapshot = capture_with(&options);
    drop(watch);
    let mut snapshot = snapshot?;
    if args.redact {
        snapshot.redact(&std::env::var(REDACT_KEY).unwrap_or_default());
    }
    let written = target.write(&snapshot, args.limits.max_snapshot_bytes)?;
    let name = escaped(&written.path.to_string_lossy()).into_owned();
    if !quiet {
        let file = if name == "-" { "to stdout" } else { &name };
        capture_summary(&mut io::stderr().lock(), &snapshot, file, written.bytes)
            .context("cannot write to standard error")?;
    }
    if args.output.is_none() {
        to_stdout(|out| io::Write::write_fmt(out, format_args!("{name}\n")))?;
    }
    Ok(())
}

fn options(args: &Capture) -> Options {
    Options {
        roots: Roots { procfs: args.procfs.clone(), sysfs: args.sysfs.clone(), cgroupfs: args.cgroupfs.clone() },
        pids: args.pids.clone(),
        jobs: args.jobs,
        smaps: args.smaps(),
        taskstats: args.taskstats(),
        jemalloc: args.jemalloc(),
        ..Options::default()
    }
}

/// A name that says where and when, in the working directory.
fn default_path() -> PathBuf {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let host = host.to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric() && !".-".contains(c), "_");
    let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    format!("ctprof-{host}-{now}.ctprof.zst").into()
}
