//! `ctprof record`.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};

use super::args::{Messages, Record};
use super::capture::{check_roots, options, redact_key};
use super::exit::free_at_exit;
use super::output::{Stream, selection, write_page_to};
use crate::capture::record::{self, ExitListener};
use crate::capture::{self, Capturer, Options, Smaps};
use crate::compare::{Digest, Sides, show_digest};
use crate::model::{CtprofSnapshot, ExitRecords, RecordedCommand};
use crate::process::{Child, CommandEnd, Privileges, RECORD_FAILED, Signals, SpawnError};
use crate::report::{Column, Page, escaped, record_summary};
use crate::store::Target;
use crate::window::{self, Earlier, ExitedThread, Exits, Recording};

/// Longer than any recording.
const FOREVER: Duration = Duration::from_secs(u64::MAX >> 4);

/// Records a window; the exit status is that of the command.
pub(super) fn run(args: &Record, messages: Messages) -> anyhow::Result<ExitCode> {
    check_roots(&args.sources)?;
    let columns = args.view.columns(Column::is_of_views)?;
    if args.view.is_of_command() && args.command.is_empty() {
        bail!("--scope command needs a command: ctprof record --scope command -- COMMAND");
    }
    let target = args.output.as_deref().map(Target::create).transpose()?;
    if args.duration.is_none() && args.command.is_empty() && messages == Messages::All && io::stderr().is_terminal() {
        eprintln!("recording until Ctrl-C");
    }
    let (mut window, status) = recorded(args)?;
    if args.sources.redact {
        window.redact(&redact_key());
    }
    let written = match target.map(|target| target.write(&window, args.view.limits.max_snapshot_bytes)) {
        Some(Ok(written)) => {
            if messages == Messages::All {
                let file = escaped(&written.path.to_string_lossy()).into_owned();
                record_summary(&mut io::stderr().lock(), &window, &file, written.bytes)
                    .context("cannot write to standard error")?;
            }
            free_at_exit(window);
            return Ok(status);
        }
        Some(Err(error)) => Err(error),
        None => Ok(()),
    };
    // What a full disk refuses is still printed.
    let printed = print(args, window, &columns);
    written?;
    printed?;
    Ok(status)
}

/// The window, and the exit status.
fn recorded(args: &Record) -> anyhow::Result<(CtprofSnapshot, ExitCode)> {
    let signals = if args.command.is_empty() { Signals::for_pause() } else { Signals::for_command() };
    let signals = signals.context("cannot block signals")?;
    let options = options(&args.sources);
    let listener = listen(&options, args.ring);
    let mut capturer = Capturer::new(&options, 2)?;
    Privileges::Record.keep_after_loading();
    // Only the later memory of processes is shown.
    let mut earlier = capturer.capture(Smaps::Never)?;
    let threads = Earlier::of_threads(std::mem::take(&mut earlier.threads));
    let mut recording = Recording { recorder: std::process::id(), ..Recording::default() };
    let (later, status) = match args.command.split_first() {
        None => {
            signals.pause(args.duration.unwrap_or(FOREVER)).context("cannot wait")?;
            drop(signals);
            (capturer.capture(options.smaps)?, ExitCode::SUCCESS)
        }
        Some((program, arguments)) => {
            let child = match Child::spawn(program, arguments, &signals) {
                Ok(child) => child,
                Err(error) => return Err(NotStarted(error).into()),
            };
            let end = child.wait_exited(&signals).context("cannot wait for the command")?;
            drop(signals);
            let mut later = capturer.capture(options.smaps)?;
            let id = child.id();
            let io = child.reap().context("cannot wait for the command")?;
            let leader = later.threads.iter_mut().find(|thread| thread.tgid == id && thread.is_leader());
            if let Some(process) = leader.and_then(|leader| leader.process.as_deref_mut()) {
                process.read_bytes.get_or_insert(io.read_bytes.into());
                process.write_bytes.get_or_insert(io.write_bytes.into());
            }
            recording.command = Some(command(args, &end));
            (later, ExitCode::from(end.exit_status()))
        }
    };
    let records = listener.map(ExitListener::finish).filter(name_processes);
    let each = |add: &mut dyn FnMut(ExitedThread)| {
        records.iter().flat_map(record::Exits::threads).map(exited).for_each(add);
    };
    recording.exits = Exits { summary: records.as_ref().map(summary), each: Some(&each) };
    Ok((window::recorded(&earlier, threads, later, recording)?, status))
}

/// Listens to records of exited threads, where the kernel has them.
fn listen(options: &Options, ring_bytes: u32) -> Option<ExitListener> {
    let listener = ExitListener::start(options, &capture::host(&options.roots), ring_bytes);
    listener.inspect_err(|error| tracing::info!("{error}")).ok()
}

/// Whether records say of which process a thread was. Otherwise their work can't be told from what processes
/// count.
fn name_processes(records: &record::Exits) -> bool {
    let known = records.threads().next().is_none_or(|first| first.tgid.is_some());
    if !known {
        tracing::info!("no exit records: those of kernels before Linux 5.19 don't name the process");
    }
    known
}

fn summary(records: &record::Exits) -> ExitRecords {
    ExitRecords { source: records.source.to_owned(), received: records.received, lost: records.lost }
}

fn exited(record: record::ExitedThread) -> ExitedThread {
    let record::ExitedThread { state, ppid, started_monotonic_ns, elapsed_ns, .. } = record;
    ExitedThread::new(state, ppid, started_monotonic_ns, elapsed_ns)
}

/// A command that did not start decides the exit status.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct NotStarted(#[from] SpawnError);

/// The exit status after an error.
pub(super) fn status_of(error: &anyhow::Error) -> u8 {
    error.downcast_ref::<NotStarted>().map_or(RECORD_FAILED, |NotStarted(error)| error.exit_status())
}

fn command(args: &Record, end: &CommandEnd) -> RecordedCommand {
    RecordedCommand {
        arguments: args.command.iter().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        elapsed_ns: u64::try_from(end.elapsed.as_nanos()).unwrap_or(u64::MAX),
        status: end.status,
        signal: end.signal,
    }
}

/// Prints the window: beside a command's output to standard error, like perf stat.
fn print(args: &Record, window: CtprofSnapshot, columns: &[Column]) -> anyhow::Result<()> {
    let options = args.view.options(Sides { baseline: "window".to_owned(), candidate: String::new() });
    let digest = Digest::of_snapshot(&window, &options);
    drop(window);
    let view = show_digest(digest, &options);
    view.unmatched.iter().for_each(|error| tracing::warn!("--only: {error}"));
    let stream = if args.command.is_empty() { Stream::Stdout } else { Stream::Stderr };
    write_page_to(stream, &Page::of_view(&view, selection(&args.view)), &args.view, columns)
}
