//! When a window ends, and what ended it.

use std::path::Path;
use std::time::{Duration, Instant};

use super::error::RecordError;
use crate::capture::{nanoseconds, program_of_command};
use crate::model::{CtprofSnapshot, RecordedCommand, ThreadState};
use crate::process::{Child, CommandEnd, Invocation, Signals};

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

/// What a recording that has begun waits for.
#[derive(Debug)]
pub struct Waiting {
    /// `None` without an end in time.
    end: Option<Instant>,
    command: Option<(Child, Invocation)>,
}

impl Until {
    /// Waits, or runs the command.
    ///
    /// # Errors
    /// [`RecordError`] if the command does not start, or its end cannot be waited for.
    pub fn wait(&self, signals: &Signals) -> Result<WindowEnd, RecordError> {
        self.begin(signals)?.end(signals)
    }

    /// Lets the time begin, or starts the command.
    ///
    /// # Errors
    /// [`RecordError::NotStarted`] if the command does not start.
    pub fn begin(&self, signals: &Signals) -> Result<Waiting, RecordError> {
        Ok(match self {
            // A time that the clock cannot represent is never reached.
            Self::Elapsed(time) => Waiting { end: Instant::now().checked_add(*time), command: None },
            Self::Exited(invocation) => {
                let child = Child::spawn(invocation, signals).map_err(RecordError::NotStarted)?;
                Waiting { end: None, command: Some((child, invocation.clone())) }
            }
        })
    }
}

impl Waiting {
    /// Waits for the end.
    ///
    /// # Errors
    /// As [`Waiting::wait`].
    pub fn end(mut self, signals: &Signals) -> Result<WindowEnd, RecordError> {
        loop {
            if let Some(end) = self.wait(signals, None)? {
                return Ok(end);
            }
        }
    }

    /// Waits for the end, but not longer than until `deadline`; `None` if that comes first.
    ///
    /// # Errors
    /// [`RecordError`] if the end cannot be waited for.
    pub fn wait(&mut self, signals: &Signals, deadline: Option<Instant>) -> Result<Option<WindowEnd>, RecordError> {
        signals.begin_recording();
        let end = self.wait_for_end(signals, deadline)?;
        end.iter().for_each(|_| signals.begin_conclusion());
        Ok(end)
    }

    fn wait_for_end(&mut self, signals: &Signals, deadline: Option<Instant>) -> Result<Option<WindowEnd>, RecordError> {
        let Some((mut child, invocation)) = self.command.take() else { return self.pause(signals, deadline) };
        let Some(end) = child.wait_exited(signals, deadline).map_err(RecordError::CannotWaitForCommand)? else {
            self.command = Some((child, invocation));
            return Ok(None);
        };
        let command = RecordedCommand {
            arguments: arguments(&invocation),
            elapsed_ns: nanoseconds(end.elapsed),
            status: end.status,
            signal: end.signal,
        };
        let command = Some((child, command));
        Ok(Some(WindowEnd { interrupted: end.interrupted, of_command: Some(end), requested_ns: None, command }))
    }

    fn pause(&self, signals: &Signals, deadline: Option<Instant>) -> Result<Option<WindowEnd>, RecordError> {
        let first = self.end.into_iter().chain(deadline).min();
        let time = first.map_or(Duration::MAX, |first| first.saturating_duration_since(Instant::now()));
        let interrupted = signals.pause(time).map_err(RecordError::CannotWait)?;
        if interrupted.is_none() && self.end.is_none_or(|end| Instant::now() < end) {
            return Ok(None);
        }
        Ok(Some(WindowEnd { interrupted, of_command: None, requested_ns: None, command: None }))
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

    /// Reaps the command, adds its I/O and what its interpreter ran where the later capture could not read it, and returns what
    /// was recorded of it.
    pub(super) fn conclude(self, later: &mut CtprofSnapshot) -> Result<Option<ReapedCommand>, RecordError> {
        let Some((child, command)) = self.command else { return Ok(None) };
        let id = child.id();
        let used = child.reap().map_err(RecordError::CannotWaitForCommand)?;
        let mut leader = later.threads.iter_mut().find(|thread| thread.tgid == id && thread.is_leader());
        if let Some(leader) = leader.as_mut().filter(|leader| leader.program.is_none()) {
            // Unless it has executed another program.
            let name = command.arguments.first().and_then(|first| Path::new(first).file_name());
            let is_same = name.is_some_and(|name| name.as_encoded_bytes().starts_with(leader.pcomm.as_bytes()));
            leader.program = program_of_command(&leader.pcomm, &command.arguments).filter(|_| is_same);
        }
        if let Some(process) = leader.and_then(|leader| leader.process.as_deref_mut()) {
            process.read_bytes.get_or_insert(used.read_bytes.into());
            process.write_bytes.get_or_insert(used.write_bytes.into());
        }
        Ok(Some(ReapedCommand { command, id, peak_bytes: used.peak_bytes }))
    }
}

/// A command that was reaped.
pub(super) struct ReapedCommand {
    command: RecordedCommand,
    id: u32,
    /// The largest resident set of its process, and of the children that it waited for; `None` if it is unknown.
    peak_bytes: Option<u64>,
}

impl ReapedCommand {
    /// Adds the peak of the memory where nothing else has it: without a record of the exit, that of a process is unknown once it has
    /// exited. Returns what was recorded of the command.
    pub(super) fn complete(self, threads: &mut [ThreadState]) -> RecordedCommand {
        let leader = threads.iter_mut().find(|thread| thread.tgid == self.id && thread.is_leader());
        if let Some((leader, peak)) = leader.zip(self.peak_bytes) {
            leader.metrics.hiwater_rss_bytes.get_or_insert(peak.into());
        }
        self.command
    }
}

/// A command and its arguments, as files have them.
pub(super) fn arguments(invocation: &Invocation) -> Vec<String> {
    let words = std::iter::once(&invocation.program).chain(&invocation.arguments);
    words.map(|word| shortened(&word.to_string_lossy())).collect()
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
