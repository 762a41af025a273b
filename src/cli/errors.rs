//! Errors and messages on standard error.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::report::escaped;
use crate::store::StoreError;

/// Prints an error. It may quote a file, and have lines: those of a verifier.
pub(super) fn complain(error: &anyhow::Error) {
    let message = format!("{error:#}");
    let lines: Vec<_> = message.lines().map(escaped).collect();
    say(format_args!("ctprof: {}", lines.join("\n")));
}

/// Writes a line to standard error. If that is closed or full, there is nobody to tell.
pub(super) fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// `status` after a report was written. A closed pipe, which is no failure of a report, hides no status.
pub(super) fn reported(written: anyhow::Result<()>, status: ExitCode) -> anyhow::Result<ExitCode> {
    match written {
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(status),
    }
}

/// A closed pipe ends a report early. For a snapshot, it is a failure.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    if error.is::<StoreError>() {
        return false;
    }
    let io_errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io_errors.map(io::Error::kind).any(|kind| kind == io::ErrorKind::BrokenPipe)
}
