//! The command `ctprof record`.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;

use super::capture::{check_output, check_roots, options, redact_key};
use super::{
    Format, Messages, RecordArgs, RunDirectory, RunProgress, RunTally, RunWriter, Stream, TimeLimit, ViewArgs,
    after_command, check_exports, free_at_exit, interruption, reported, say, usage_error, warn_of_groups, write_report,
};
use crate::capture::Options;
use crate::compare::{Scope, Sides, show};
use crate::diagnose::plural;
use crate::model::CtprofSnapshot;
use crate::process::{
    CommandEnd, EndedUnrecorded, Invocation, Privileges, RECORD_FAILED, Signals, SpawnError, Streams, killed,
};
use crate::record::{RecordError, Recorder, Until, Waiting};
use crate::report::{Column, escaped, record_summary};
use crate::store::{Lifetime, OutputTarget, StoreError, Written};

/// Records a window, or several; the exit status is the command's.
pub(super) fn run(args: &RecordArgs, messages: Messages) -> anyhow::Result<ExitCode> {
    check(args)?;
    match (args.runs, &args.output) {
        (Some(runs), Some(output)) => several(args, runs, output, messages),
        _ => one(args, messages),
    }
}

/// Checks what clap cannot.
pub(super) fn check(args: &RecordArgs) -> anyhow::Result<()> {
    check_output(args.output.as_deref())?;
    let recording = args.output.as_deref().filter(|output| *output != Path::new("-"));
    check_exports(&args.view, &recording.into_iter().collect::<Vec<_>>())?;
    check_roots(&args.sources)?;
    args.view.check_units().map_err(usage_error)?;
    if args.every.is_none() || args.view.format != Format::Perfetto {
        args.view.check_columns(Column::is_of_views).map_err(usage_error)?;
    }
    if args.view.scope == Some(Scope::Command) && args.command.is_empty() {
        return Err(usage_error("--scope command needs a command: ctprof record --scope command -- COMMAND"));
    }
    Ok(())
}

fn one(args: &RecordArgs, messages: Messages) -> anyhow::Result<ExitCode> {
    let key = redact_key(&args.sources)?;
    let target = args.output.as_deref().map(OutputTarget::create).transpose()?;
    if args.duration.is_none() && args.command.is_empty() && messages == Messages::All && io::stderr().is_terminal() {
        say(format_args!("recording until Ctrl-C"));
    }
    let signals = signals(args)?;
    let Recorded { window, running, end } = recorded(args, &signals)?;
    let kept = window.map_err(anyhow::Error::from).map(|mut window| {
        key.iter().for_each(|key| window.redact(key));
        let written = target.map(|target| target.write(&window, args.view.limits.max_snapshot_bytes)).transpose();
        (window, written)
    });
    // Printing can wait for a reader.
    let signals = Some(signals).filter(|_| running.is_some());
    let shown = kept.and_then(|(window, written)| show_kept(args, window, written, messages));
    let end = match running.zip(signals) {
        Some((running, signals)) => end_of_command(running, &signals)?,
        None => end,
    };
    after_command(end, shown)?;
    Ok(exit_status(end))
}

/// Waits for a command that runs on after it was recorded.
pub(super) fn end_of_command(mut waiting: Waiting, signals: &Signals) -> anyhow::Result<Option<CommandEnd>> {
    let end = waiting.end(signals)?;
    let of_command = end.of_command;
    after_command(of_command, end.discard().map_err(Into::into))?;
    Ok(of_command)
}

/// Says where the window was written, or prints it.
fn show_kept(
    args: &RecordArgs,
    window: CtprofSnapshot,
    written: Result<Option<Written>, StoreError>,
    messages: Messages,
) -> anyhow::Result<()> {
    let exported = args.view.exported().try_for_each(|view| print(args, &window, &view));
    if let Ok(Some(written)) = written {
        exported?;
        if messages == Messages::All {
            let file = escaped(&written.path.to_string_lossy()).into_owned();
            // If standard error is full, there is nobody to tell, and the window is written.
            let _ = record_summary(&mut io::stderr().lock(), &window, &file, written.bytes);
        }
        free_at_exit(window);
        return Ok(());
    }
    // What a full disk refuses is still printed.
    let printed = print(args, &window, &args.view);
    written?;
    reported(printed, ())?;
    exported
}

/// Result of a recording.
struct Recorded {
    /// The window, or why there is none.
    window: Result<CtprofSnapshot, RecordError>,
    /// The command that runs on, if one does.
    running: Option<Waiting>,
    /// How the command ended, if it did.
    end: Option<CommandEnd>,
}

fn recorded(args: &RecordArgs, signals: &Signals) -> anyhow::Result<Recorded> {
    let until = until(args);
    let mut recorder = recorder(args, 1, signals)?;
    let window = recorder.open()?;
    let mut waiting = if args.command.is_empty() { None } else { Some(begin(&until, signals)?) };
    let end = match &mut waiting {
        Some(waiting) => waiting.end(signals)?,
        None => window.wait(&until, signals)?,
    };
    let of_command = end.of_command;
    Ok(Recorded { window: window.close(end), running: waiting.filter(Waiting::runs_on), end: of_command })
}

/// The exit status after the command ended so, if there was one.
pub(super) fn exit_status(end: Option<CommandEnd>) -> ExitCode {
    end.map_or(ExitCode::SUCCESS, |end| ExitCode::from(end.exit_status()))
}

/// Makes the recorder, and waits for the time to begin.
pub(super) fn recorder(args: &RecordArgs, windows: u32, signals: &Signals) -> anyhow::Result<Recorder> {
    let options = Options { pids: args.processes.pids.clone(), ..options(&args.sources) };
    let recorder = args.recorder.recorder(&options, args.every.is_none().then_some(windows), args.privileges())?;
    if let Some(period) = args.at
        && let Some(signal) = wait_for_multiple(period, signals)?
    {
        return Err(RecordError::NotStarted(SpawnError::Interrupted(signal)).into());
    }
    Ok(recorder)
}

/// Waits for a multiple of a period by the wall clock, which can be set meanwhile, and the host suspended. Returns a signal that ended
/// the wait.
fn wait_for_multiple(period: Duration, signals: &Signals) -> anyhow::Result<Option<i32>> {
    let wall = || SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970");
    let mut begin = Duration::MAX;
    loop {
        let now = wall()?;
        begin = aimed(begin, now, period);
        let left = begin.saturating_sub(now);
        if left.is_zero() {
            return Ok(None);
        }
        if let Some(signal) = signals.pause(left.min(MOST_LATE)).context("cannot wait for the time of --at")? {
            return Ok(Some(signal));
        }
    }
}

/// The multiple of a period to begin at: the one that was aimed at, or the next one, if it was missed or is now further away.
fn aimed(begin: Duration, now: Duration, period: Duration) -> Duration {
    let next = now.saturating_add(until_multiple(now, period));
    let is_missed = now.saturating_sub(begin) >= MOST_LATE;
    if is_missed { next } else { begin.min(next) }
}

/// A busy host may wake a process as late as this.
const MOST_LATE: Duration = Duration::from_secs(1);

/// The time from `now` to the next multiple of a period.
fn until_multiple(now: Duration, period: Duration) -> Duration {
    let since_last = now.as_nanos() % period.as_nanos().max(1);
    period.saturating_sub(Duration::from_nanos(u64::try_from(since_last).unwrap_or(u64::MAX)))
}

/// Blocks signals, before other threads start.
pub(super) fn signals(args: &RecordArgs) -> anyhow::Result<Signals> {
    let signals = if args.command.is_empty() {
        Signals::for_pause()
    } else {
        Signals::for_command().map(Signals::adopting_orphans)
    };
    signals.context("cannot block signals")
}

/// Starts the command, if there is one, and drops what no further one needs.
pub(super) fn begin(until: &Until, signals: &Signals) -> anyhow::Result<Waiting> {
    let waiting = until.begin(signals)?;
    Privileges::RecordCommand.keep_after_starting()?;
    Ok(waiting)
}

pub(super) fn until(args: &RecordArgs) -> Until {
    match args.command.split_first() {
        None => Until::Elapsed(args.duration.unwrap_or(Duration::MAX)),
        Some((program, arguments)) => {
            let invocation = Invocation::new(program, arguments);
            match args.duration {
                None => Until::Exited(invocation),
                Some(time) => Until::ExitedWithin(time, invocation),
            }
        }
    }
}

fn several(args: &RecordArgs, runs: u32, output: &Path, messages: Messages) -> anyhow::Result<ExitCode> {
    if args.duration.is_none() && args.command.is_empty() {
        let message = format!("--runs needs the end of a run: ctprof record --runs {runs} -d 10s, or -- COMMAND");
        return Err(usage_error(message));
    }
    if args.duration.is_some() && !args.command.is_empty() {
        return Err(usage_error("--runs ends a run with its COMMAND, or after -d TIME without a COMMAND"));
    }
    if output == Path::new("-") {
        return Err(usage_error(format!("--runs needs a directory: ctprof record --runs {runs} -o DIRECTORY")));
    }
    let directory = RunDirectory::create(output, runs, Lifetime::Lasting)?;
    let signals = signals(args)?;
    let until = until(args);
    let mut writer = RunWriter {
        recorder: recorder(args, runs, &signals)?,
        signals: &signals,
        redact_key: redact_key(&args.sources)?,
        max_snapshot_bytes: args.view.limits.max_snapshot_bytes,
    };
    let mut progress = RunProgress::new(runs, Streams::Inherited, messages);
    let mut tally = RunTally::default();
    let mut time = TimeLimit::new(args.max_time);
    let recorded = (1..=runs).take_while(|_| time.allows_another()).try_for_each(|number| {
        progress.start(&format!("run {number} of {runs}"));
        tally.add(number, writer.record(&until, directory.target(number)?)?);
        Ok(())
    });
    let interrupted = interruption(recorded)?;
    if messages == Messages::All {
        summarize(&directory, runs, &tally);
        if interrupted.is_none() && tally.recorded < runs {
            say(format_args!("ended by --max-time"));
        }
    }
    let failed = || tally.first_failure().map(CommandEnd::exit_status);
    Ok(interrupted.map(killed).or_else(failed).map_or(ExitCode::SUCCESS, ExitCode::from))
}

fn summarize(directory: &RunDirectory, runs: u32, tally: &RunTally) {
    let path = directory.path.to_string_lossy();
    let wanted = if tally.recorded < runs { format!(" of {runs}") } else { String::new() };
    say(format_args!("Recorded {}{wanted} {}: {}", tally.recorded, plural(runs, "run"), escaped(&path)));
    if !tally.failed.is_empty() {
        let each = tally.failed.iter().map(|(number, end)| format!("run {number} {end}"));
        say(format_args!("failed: {} ({})", tally.failures(), each.collect::<Vec<_>>().join(", ")));
    }
}

pub(super) fn status_of(error: &anyhow::Error) -> u8 {
    if let Some(ended) = error.downcast_ref::<EndedUnrecorded>() {
        return ended.exit_status();
    }
    match error.downcast_ref() {
        Some(RecordError::NotStarted(error)) => error.exit_status(),
        _ => RECORD_FAILED,
    }
}

pub(super) fn print(args: &RecordArgs, window: &CtprofSnapshot, view: &ViewArgs) -> anyhow::Result<()> {
    view.scope.as_ref().map_or(Ok(()), |scope| scope.check(&window.head))?;
    let report = show(window, &view.options(Sides::one("window".to_owned())));
    warn_of_groups(&report.unmatched, view);
    write_report(stream(args), &report, view)
}

/// Returns the stream for reports: beside a command's output, standard error, as in perf stat.
pub(super) fn stream(args: &RecordArgs) -> Stream {
    if args.command.is_empty() { Stream::Stdout } else { Stream::Stderr }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_begins_at_a_multiple_also_if_the_clock_was_set_or_the_host_suspended() {
        let aimed = |begin: u64, now: u64| {
            let time = Duration::from_millis;
            aimed(time(begin), time(now), time(10_000)).as_millis()
        };
        assert_eq!(aimed(u64::MAX, 12_345), 20_000);
        assert_eq!(aimed(20_000, 19_000), 20_000);
        assert_eq!(aimed(20_000, 20_500), 20_000, "woken late");
        assert_eq!(aimed(20_000, 45_000), 50_000, "suspended, or set ahead");
        assert_eq!(aimed(20_000, 3_000), 10_000, "set back");
    }
}
