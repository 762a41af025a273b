//! Errors and messages on standard error, exit statuses, and what is left to the exit.

use std::fmt;
use std::io::{self, Write};

use anyhow::Context;
use nix::errno::Errno;

use crate::diagnose::fix_of_descriptors;
use crate::process::{CommandEnd, EndedUnrecorded};
use crate::report::escaped;
use crate::store::StoreError;

pub(super) const FAILED: u8 = 1;

/// Exit status for arguments or files that do not fit; clap has the same.
pub(super) const WRONG_USAGE: u8 = 2;

/// A gate of `--fail-on` failed.
pub(super) const GATE_FAILED: u8 = 3;

/// Error about files that do not fit the request. Its exit status is the one of wrong usage, so the message does not repeat that.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UnsuitableFile(pub(super) String);

/// An error about files that do not fit the request.
pub(super) fn unsuitable_file(message: impl fmt::Display) -> anyhow::Error {
    UnsuitableFile(message.to_string()).into()
}

/// Leaves the memory of a value to the kernel, which frees all memory of the process at once: dropping 20,000 threads
/// one by one takes 4 ms, and their tree in a comparison 50 ms.
pub(super) fn free_at_exit<T>(value: T) {
    std::mem::forget(value);
}

/// Prints an error. It may quote a file, and have several lines, such as a verifier's.
pub(super) fn complain(error: &anyhow::Error) {
    let message = described(error);
    let lines: Vec<_> = message.lines().map(escaped).collect();
    say(format_args!("ctprof: {}", lines.join("\n")));
}

/// An error with its causes. Any system call can lack a descriptor, so the fix of that is added here, unless the error has it.
pub(super) fn described(error: &anyhow::Error) -> String {
    let (message, fix) = (format!("{error:#}"), fix_of_descriptors(Errno::EMFILE));
    let is_fix_missing = message.contains(Errno::EMFILE.desc()) && !message.contains(&fix);
    if is_fix_missing { message + &fix } else { message }
}

/// Writes a line to standard error. If that is closed or full, there is nobody to tell.
pub(super) fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Adds to an error how the command ended, if there was one: its status must not be lost.
pub(super) fn after_command<T>(end: Option<CommandEnd>, done: anyhow::Result<T>) -> anyhow::Result<T> {
    match end {
        Some(end) => done.context(EndedUnrecorded(end)),
        None => done,
    }
}

/// `status` after a report was written. A closed pipe, which is no failure of a report, hides no status.
pub(super) fn reported<T>(written: anyhow::Result<()>, status: T) -> anyhow::Result<T> {
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
