//! The command `ctprof capture`.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use jiff::Timestamp;

use super::program_file::name_program;
use super::{CaptureArgs, Messages, SourceArgs, free_at_exit, progress, to_stdout};
use crate::capture::{Options, Roots, Smaps, Use};
use crate::diagnose::gaps;
use crate::model::Census;
use crate::process::{Privileges, drop_file_capabilities};
use crate::record::Recorder;
use crate::report::{capture_summary, escaped};
use crate::store::OutputTarget;

/// The environment variable with the key of hashes. Command lines are visible to all users.
const REDACT_KEY: &str = "CTPROF_REDACT_KEY";

pub(super) fn run(args: &CaptureArgs, messages: Messages) -> anyhow::Result<()> {
    check_output(args.output.as_deref())?;
    check_roots(&args.sources)?;
    let key = redact_key(&args.sources)?;
    // A file that nobody named is never overwritten.
    let target = match args.output.as_deref() {
        Some(path) => OutputTarget::create(path),
        None => OutputTarget::create_new(&default_path(key.as_deref())),
    }?;
    let options = Options { pids: args.processes.pids.clone(), ..options(&args.sources) };
    let progress = Arc::clone(&options.progress);
    let mut recorder = Recorder::of_one_capture(options)?;
    Privileges::Capture.keep_after_loading()?;
    let watch = progress::watch(&progress, messages);
    let snapshot = recorder.capture();
    drop(watch);
    let mut snapshot = snapshot?;
    if let Some(key) = key {
        snapshot.redact(&key);
    }
    let written = target.write(&snapshot, args.limits.max_snapshot_bytes)?;
    let name = escaped(&written.path.to_string_lossy()).into_owned();
    if messages == Messages::All {
        let file = if name == "-" { "standard output" } else { &name };
        let (head, census) = (&snapshot.head, Census::from_threads(&snapshot.threads));
        let mut gaps = gaps(head, &census);
        name_program(&mut gaps);
        let _ = capture_summary(&mut io::stderr().lock(), head, &census, &gaps, (file, written.bytes));
    }
    if args.output.is_none() {
        to_stdout(|out| io::Write::write_fmt(out, format_args!("{name}\n")))?;
    }
    free_at_exit(snapshot);
    Ok(())
}

/// A compressed file is not for a terminal.
pub(super) fn check_output(output: Option<&Path>) -> anyhow::Result<()> {
    if output == Some(Path::new("-")) && io::stdout().is_terminal() {
        bail!("cannot write a compressed file to a terminal: name a file with -o, or pipe it");
    }
    Ok(())
}

/// The key for hashes of names, if they are replaced. Without one, anyone can confirm a guessed name.
pub(super) fn redact_key(args: &SourceArgs) -> anyhow::Result<Option<String>> {
    if !args.redact {
        return Ok(None);
    }
    // A secret that a CI system does not know is empty.
    let Some(key) = std::env::var_os(REDACT_KEY).filter(|key| !key.is_empty()) else {
        tracing::warn!("{REDACT_KEY} is not set: anyone can confirm a guessed name by hashing it; set a secret key");
        return Ok(Some(String::new()));
    };
    let key = key.into_string().ok();
    Ok(Some(key.with_context(|| format!("{REDACT_KEY} is not UTF-8 text; encode it, for example with base64(1)"))?))
}

/// Roots that were named have to be there: an empty tree would pass for a kernel without these files. A container may
/// have no `/sys`. Whatever is in them is read with the privileges of the caller only.
pub(super) fn check_roots(args: &SourceArgs) -> anyhow::Result<()> {
    if options(args).roots != Roots::default() {
        drop_file_capabilities()?;
    }
    let sysfs = Some(&args.sysfs).filter(|path| **path != Roots::default().sysfs);
    let named = [("--sysfs", sysfs), ("--cgroupfs", args.cgroupfs.as_ref())];
    for (option, path) in named.into_iter().filter_map(|(option, path)| Some((option, path?))) {
        std::fs::read_dir(path).with_context(|| format!("cannot open {} ({option})", path.display()))?;
    }
    Ok(())
}

pub(super) fn options(args: &SourceArgs) -> Options {
    Options {
        roots: Roots { procfs: args.procfs.clone(), sysfs: args.sysfs.clone(), cgroupfs: args.cgroupfs.clone() },
        engine: args.engine.engine,
        jobs: args.jobs,
        smaps: match args.smaps {
            Smaps::Auto { .. } => Smaps::Auto { max_rss_bytes: args.smaps_max_rss },
            other => other,
        },
        taskstats: use_unless(args.no_taskstats),
        jemalloc: use_unless(args.no_jemalloc),
        ..Options::default()
    }
}

fn use_unless(disabled: bool) -> Use {
    if disabled { Use::Disabled } else { Use::Enabled }
}

/// The default file name: host and time, in the working directory. Where names are replaced by hashes, it has no name of the
/// host.
pub(super) fn default_path(redact_key: Option<&str>) -> PathBuf {
    let host = || nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
    let host = redact_key.map_or_else(host, |_| "redacted".to_owned());
    let host = host.replace(|c: char| !c.is_ascii_alphanumeric() && !".-".contains(c), "_");
    let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    format!("ctprof-{host}-{now}.ctprof.zst").into()
}
