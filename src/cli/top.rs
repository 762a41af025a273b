//! The command `ctprof top`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::capture::{check_roots, default_path, options, redact_key};
use super::{Stream, TopArgs, has_color, part_of, series_of, usage_error, users};
use crate::capture::Options;
use crate::compare::Scope;
use crate::process::{NoScreen, Privileges, Signals, TerminalScreen, killed};
use crate::record::{Preparation, Until};
use crate::top::{Session, SessionOptions, WindowSource};

/// Shows windows until a key or a signal ends that.
pub(super) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    check_roots(&args.sources)?;
    let signals = Signals::for_screen().context("cannot block signals")?;
    let key = redact_key(&args.sources)?;
    let limit = args.limits.max_snapshot_bytes;
    let session = SessionOptions {
        compare: args.options(),
        every: args.delay,
        has_color: has_color(args.color, Stream::Stdout),
        limit,
        users,
        file_name: Box::new({
            let key = key.clone();
            move || default_path(key.as_deref())
        }),
    };
    if let Some(file) = &args.file {
        // While it is recorded, the oldest files are removed.
        let part = part_of(file)?.dated().with_context(|| format!("cannot read {}", file.display()))?;
        // Before an error of the terminal says which other command shows its steps.
        series_of(&part, limit)?;
        let source = WindowSource::of_file(part, limit);
        return ended(Session::new(session, source, screen(Some(file))?, signals).run()?);
    }
    if session.compare.grouping.scope == Some(Scope::Command) {
        return Err(usage_error("--scope command needs the file of a recorded command: ctprof top FILE"));
    }
    TerminalScreen::check().map_err(|error| no_screen(&error, None))?;
    let options = Options { pids: args.processes.pids.clone(), ..options(&args.sources) };
    let mut recorder = args.recorder.recorder(&options, None, Privileges::Record)?;
    let preparation = key.map(|key| -> Preparation { Box::new(move |capture| capture.redact(&key)) });
    let series = recorder.open_series(args.delay, &Until::Elapsed(Duration::MAX), preparation)?;
    let source = WindowSource::of_recorder(series, limit)?;
    ended(Session::new(session, source, screen(None)?, signals).run()?)
}

/// Takes the terminal. Where it has no screen, another command shows the same.
fn screen(file: Option<&Path>) -> anyhow::Result<TerminalScreen> {
    TerminalScreen::take().map_err(|error| no_screen(&error, file))
}

fn no_screen(error: &NoScreen, file: Option<&Path>) -> anyhow::Error {
    let instead = file.map_or_else(
        || "ctprof record --every 2s".to_owned(),
        |file| format!("ctprof show --steps {}", file.display()),
    );
    anyhow::anyhow!("top needs the screen of a terminal: {error}. Fix: use `{instead}`, which prints line by line")
}

fn ended(signal: Option<i32>) -> anyhow::Result<ExitCode> {
    Ok(signal.map_or(ExitCode::SUCCESS, |signal| ExitCode::from(killed(signal))))
}
