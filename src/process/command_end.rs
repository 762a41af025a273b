//! How a command ended, or why it did not start, and the exit status that reports it.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::libc;

use super::invocation::find_in_path;
use super::privileges::CannotDrop;

/// Exit status of a program that runs a command, if the program itself fails. This one and the next two are the same as in
/// timeout(1) and env(1).
pub const RECORD_FAILED: u8 = 125;
/// Exit status if the command was found but cannot be executed.
const CANNOT_EXECUTE: u8 = 126;
/// Exit status if the command was not found.
const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that killed the command.
const KILLED: u8 = 128;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// Exit status of the command; `None` if a signal killed it.
    pub status: Option<i32>,
    /// The signal that killed it; `None` if it exited.
    pub signal: Option<i32>,
    /// Time from its start until its exit was seen, by the monotonic clock.
    pub elapsed: Duration,
    /// A signal that would have ended ctprof meanwhile; of several, the first.
    pub interrupted: Option<i32>,
}

impl CommandEnd {
    /// The exit status that reports this end: the command's own, or 128 and the number of the signal.
    pub fn exit_status(&self) -> u8 {
        let own = self.status.and_then(|status| u8::try_from(status).ok());
        own.unwrap_or_else(|| self.signal.map_or(RECORD_FAILED, killed))
    }

    /// Returns whether the exit status is 0.
    pub fn is_success(&self) -> bool {
        self.status == Some(0)
    }
}

impl fmt::Display for CommandEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, self.signal) {
            (Some(status), _) => write!(f, "exit status {status}"),
            (None, Some(signal)) => write!(f, "killed by signal {signal}"),
            (None, None) => f.write_str("unknown exit status"),
        }
    }
}

/// The end of a command whose recording failed afterwards: the context of the error.
#[derive(Clone, Copy, Debug)]
pub struct EndedUnrecorded(pub CommandEnd);

impl EndedUnrecorded {
    /// The exit status that reports both: the command's own, unless that is success.
    pub fn exit_status(&self) -> u8 {
        if self.0.is_success() { RECORD_FAILED } else { self.0.exit_status() }
    }
}

impl fmt::Display for EndedUnrecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the command has ended ({}), but its recording failed", self.0)
    }
}

/// Why a command did not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum SpawnError {
    /// There is no such file, or none in `PATH`.
    #[error("cannot run `{program}`: command not found")]
    NotFound { program: String },
    /// The file is there, but not what it needs.
    #[error("cannot execute `{program}`: its interpreter (first line) or dynamic loader does not exist")]
    NoInterpreter { program: String },
    #[error("cannot execute `{program}`")]
    CannotExecute {
        program: String,
        /// The error of exec(3).
        source: io::Error,
    },
    #[error("cannot start a process for `{program}`")]
    NoProcess {
        program: String,
        /// The error of fork(2).
        source: io::Error,
    },
    #[error(transparent)]
    CannotDrop(#[from] CannotDrop),
    #[error("interrupted by signal {0} before the recording began")]
    Interrupted(i32),
}

impl SpawnError {
    pub(super) fn of_spawn(program: &OsStr, source: io::Error) -> Self {
        let is_path = program.as_bytes().contains(&b'/');
        let is_file = if is_path { Path::new(program).exists() } else { find_in_path(program).is_some() };
        let program = program.to_string_lossy().into_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT) if is_file => Self::NoInterpreter { program },
            Some(libc::ENOENT) => Self::NotFound { program },
            // Errors of fork(2) and of the pipe between the two processes.
            Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE) => Self::NoProcess { program, source },
            _ => Self::CannotExecute { program, source },
        }
    }

    /// The exit status that reports this error: 125 no process, 126 cannot execute, 127 not found, or 128 and
    /// the number of the signal.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NotFound { .. } | Self::NoInterpreter { .. } => NOT_FOUND,
            Self::CannotExecute { .. } => CANNOT_EXECUTE,
            Self::NoProcess { .. } | Self::CannotDrop(_) => RECORD_FAILED,
            Self::Interrupted(signal) => killed(*signal),
        }
    }
}

/// Returns the exit status that reports a signal. The kernel has at most 64 signals.
pub fn killed(signal: i32) -> u8 {
    KILLED.saturating_add(u8::try_from(signal).unwrap_or(0))
}
