//! When a window ends, and what ended it.

use std::time::Duration;

use super::error::RecordError;
use crate::model::{CtprofSnapshot, RecordedCommand};
use crate::process::{Child, CommandEnd, Ended, Invocation, Signals};

/// When a window ends.
#[derive(Clone, Debug)]
pub enum Until {
    /// After this time, or when a signal arrives.
    Elapsed(Duration),
    /// When the command has exited.
    Exited(Invocation),
}

/// What ended a window.
#[derive(Debug)]
pub struct WindowEnd {
    /// The signal that arrived meanwhile, if any.
    pub interrupted: Option<i32>,
    /// How the command ended, if there was one.
    pub of_command: Option<CommandEnd>,
    /// The time that is over, in nanoseconds.
    pub(super) requested_ns: Option<u64>,
    /// The command, a zombie until the later capture has its counters.
    command: Option<(Child, RecordedCommand)>,
}

impl Until {
    /// Waits, or runs the command.
    ///
    /// # Errors
    /// [`RecordError`] if the command does not start, or its end cannot be waited for.
    pub fn wait(&self, signals: &Signals) -> Result<WindowEnd, RecordError> {
        match self {
            Self::Elapsed(time) => {
                let interrupted = match signals.pause(*time).map_err(RecordError::CannotWait)? {
                    Ended::Elapsed => None,
                    Ended::Signal(signal) => Some(signal),
                };
                Ok(WindowEnd { interrupted, of_command: None, requested_ns: None, command: None })
            }
            Self::Exited(invocation) => {
                let child = Child::spawn(invocation, signals).map_err(RecordError::NotStarted)?;
                let end = child.wait_exited(signals).map_err(RecordError::CannotWaitForCommand)?;
                let command = Some((child, recorded_command(invocation, &end)));
                Ok(WindowEnd { interrupted: end.interrupted, of_command: Some(end), requested_ns: None, command })
            }
        }
    }
}

impl WindowEnd {
    /// Reaps the command without a later capture.
    ///
    /// # Errors
    /// [`RecordError::CannotWaitForCommand`] if it was reaped elsewhere.
    pub fn discard(self) -> Result<(), RecordError> {
        self.command.map_or(Ok(()), |(child, _)| child.reap().map(drop).map_err(RecordError::CannotWaitForCommand))
    }

    /// Reaps the command, adds its I/O to the later capture, and returns what was recorded of it.
    pub(super) fn conclude(self, later: &mut CtprofSnapshot) -> Result<Option<RecordedCommand>, RecordError> {
        let Some((child, command)) = self.command else { return Ok(None) };
        add_io(later, child)?;
        Ok(Some(command))
    }
}

/// Reaps the command, and adds its I/O where the capture could not read it.
fn add_io(later: &mut CtprofSnapshot, child: Child) -> Result<(), RecordError> {
    let id = child.id();
    let io = child.reap().map_err(RecordError::CannotWaitForCommand)?;
    let leader = later.threads.iter_mut().find(|thread| thread.tgid == id && thread.is_leader());
    if let Some(process) = leader.and_then(|leader| leader.process.as_deref_mut()) {
        process.read_bytes.get_or_insert(io.read_bytes.into());
        process.write_bytes.get_or_insert(io.write_bytes.into());
    }
    Ok(())
}

fn recorded_command(invocation: &Invocation, end: &CommandEnd) -> RecordedCommand {
    let words = std::iter::once(&invocation.program).chain(&invocation.arguments);
    RecordedCommand {
        arguments: words.map(|word| shortened(&word.to_string_lossy())).collect(),
        elapsed_ns: u64::try_from(end.elapsed.as_nanos()).unwrap_or(u64::MAX),
        status: end.status,
        signal: end.signal,
    }
}

/// Readers refuse longer texts. Escaped in JSON, it can take six times as much.
const LONGEST_ARGUMENT: usize = 16 << 10;

/// An argument, cut if it is very long.
fn shortened(argument: &str) -> String {
    if argument.len() <= LONGEST_ARGUMENT {
        return argument.to_owned();
    }
    let end = argument.char_indices().map(|(at, _)| at).take_while(|at| *at <= LONGEST_ARGUMENT).last().unwrap_or(0);
    format!("{}… (cut: {} bytes)", &argument[..end], argument.len())
}
