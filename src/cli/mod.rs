//! Command line: arguments to options; reads files, and runs recordings and series of recordings.

mod ab;
mod args;
mod capture;
mod compare;
mod completions;
mod errors;
#[cfg(feature = "parquet")]
mod export;
mod format;
mod input;
mod listings;
mod output;
mod program_file;
mod progress;
mod record;
mod runs;
mod show;
mod step_stream;
mod steps;
mod top;
mod values;
mod view_args;

use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::slice;

use anyhow::Context;
#[cfg(not(feature = "parquet"))]
use anyhow::bail;
use clap::{CommandFactory, Parser};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use self::{
    args::*, errors::*, format::*, input::*, output::*, program_file::name_program, progress::*, runs::*,
    step_stream::*, steps::*, values::*, view_args::*,
};
use crate::capture::CaptureError;
pub use crate::process::Allocator;
use crate::process::{
    EndedUnrecorded, MessageWriter, Privileges, RECORD_FAILED, RaisedPriority, check_stdout, end_at_panics,
    fail_writes_beyond_limit, worker_per_cpu,
};
use crate::store::StoreError;

/// The definition of the command line, from which man pages and completions are generated.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the command of the process's arguments.
pub fn run() -> ExitCode {
    if let Some(answered) = completions::answer() {
        return answered;
    }
    // Also while arguments are read and files written: on a crowded host, that would take minutes.
    let raised = RaisedPriority::of_all_if_crowded();
    // To define all commands and their options takes longer than everything else that this does.
    if std::env::args_os().skip(1).eq(["--version"]) {
        let printed = output::to_stdout(|out| writeln!(out, "ctprof {}", env!("CARGO_PKG_VERSION")));
        return ended(printed.map(|()| ExitCode::SUCCESS), FAILED);
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(instead) => return usage(&with_tip(instead)),
    };
    let captures = matches!(args.command, Command::Ab(_) | Command::Capture(_) | Command::Record(_) | Command::Top(_));
    let raised = captures.then_some(raised);
    log(&args);
    fail_writes_beyond_limit();
    let is_record = matches!(args.command, Command::Record(_));
    end_at_panics(if is_record { RECORD_FAILED } else { FAILED });
    let done = privileges(&args.command).keep().map_err(Into::into).and_then(|()| execute(args));
    let status = done.as_ref().err().filter(|_| is_record).map_or(FAILED, record::status_of);
    let status = ended(done, status);
    // Threads that are left need a CPU to end, and this process ends after them.
    raised.into_iter().chain(captures.then(RaisedPriority::of_all_if_crowded)).for_each(RaisedPriority::keep);
    status
}

fn privileges(command: &Command) -> Privileges {
    match command {
        Command::Ab(_) => Privileges::RecordCommand,
        Command::Record(command) => command.privileges(),
        Command::Top(command) => command.privileges(),
        Command::Capture(_) | Command::Doctor { .. } => Privileges::Capture,
        _ => Privileges::Files,
    }
}

fn execute(args: Args) -> anyhow::Result<ExitCode> {
    let messages = args.messages();
    let done = match args.command {
        Command::Capture(command) => capture::run(&command, messages),
        Command::Record(command) => {
            return match command.every {
                Some(every) => steps::run(&command, every, messages),
                None => record::run(&command, messages),
            };
        }
        Command::Top(command) => return top::run(&command),
        Command::Ab(command) => return ab::run(&command, messages),
        Command::Show(command) => worker_per_cpu().install(|| show::run(&command, messages)),
        Command::Compare(command) => return worker_per_cpu().install(|| compare::run(&command, messages)),
        #[cfg(feature = "parquet")]
        Command::Export(command) => return worker_per_cpu().install(|| export::run(&command, messages)),
        #[cfg(not(feature = "parquet"))]
        Command::Export(_) => {
            bail!("this ctprof was built without Parquet; build it with the cargo feature `parquet`")
        }
        Command::Metrics { format } => listings::metrics(format),
        Command::Schema { output } => listings::schema(output),
        Command::Completions { shell } => completions::script(shell),
        Command::Doctor { engine, format } => return listings::doctor(engine.engine, format),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Prints a usage error, the help or the version. The usual exit status of a usage error could also come from a recorded command.
fn usage(instead: &clap::Error) -> ExitCode {
    let is_record = subcommand().is_some_and(|name| name == "record");
    let open = if instead.use_stderr() { Ok(()) } else { check_stdout() };
    let printed = open.and_then(|()| instead.print()).context("cannot write to standard output");
    match (instead.use_stderr(), is_record) {
        (false, _) => ended(printed.map(|()| ExitCode::SUCCESS), if is_record { RECORD_FAILED } else { FAILED }),
        (true, false) => u8::try_from(instead.exit_code()).unwrap_or(FAILED).into(),
        (true, true) => RECORD_FAILED.into(),
    }
}

/// The exit status, `failed` after an error, which is printed.
fn ended(done: anyhow::Result<ExitCode>, failed: u8) -> ExitCode {
    match done {
        Err(error) if is_broken_pipe(&error) => {
            record::exit_status(error.downcast_ref().map(|EndedUnrecorded(end)| *end))
        }
        Err(mut error) => {
            if let Some(wrong) = error.downcast_ref::<clap::Error>() {
                return usage(wrong);
            }
            if let Some(CaptureError::NoBpf(finding)) = error.downcast_mut() {
                name_program(slice::from_mut(&mut **finding));
            }
            complain(&error);
            let is_unsuitable =
                error.is::<UnsuitableFile>() || error.downcast_ref().is_some_and(StoreError::is_unsuitable);
            ExitCode::from(if is_unsuitable { WRONG_USAGE } else { failed })
        }
        Ok(status) => status,
    }
}

fn log(args: &Args) {
    let level = match (args.quiet, args.verbose) {
        (true, _) => LevelFilter::ERROR,
        (_, 0) => LevelFilter::WARN,
        (_, 1) => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let asked = std::env::var("RUST_LOG").ok().and_then(|filter| filter.parse::<Targets>().ok());
    let lines =
        tracing_subscriber::fmt::layer().with_writer(MessageWriter::default).with_ansi(false).event_format(MessageLine);
    let filter = asked.unwrap_or_else(|| Targets::new().with_default(level));
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
}

/// Writes events as other messages of ctprof begin: `ctprof: warning: …`.
struct MessageLine;

impl<S, N> FormatEvent<S, N> for MessageLine
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> fmt::Result {
        let level = match *event.metadata().level() {
            tracing::Level::WARN => "warning".to_owned(),
            level => level.to_string().to_lowercase(),
        };
        write!(writer, "ctprof: {level}: ")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use crate::diagnose::Capability;
    use crate::process::CAPABILITIES;

    #[test]
    fn every_capability_that_a_fix_names_is_one_of_the_kernel() {
        for capability in Capability::KNOWN {
            let name = capability.name().trim_start_matches("cap_");
            assert!(CAPABILITIES.split(' ').any(|listed| listed == name), "{name}");
        }
    }
}
