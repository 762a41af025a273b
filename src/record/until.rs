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
    /// When the command has exited. What its orphans do counts as the command's only if the signals
    /// [adopt orphans](Signals::adopting_orphans).
    Exited(Invocation),
    /// After this time, or when the command has exited before that. The command runs on.
    ExitedWithin(Duration, Invocation),
}

/// Event that ended a window.
#[derive(Debug)]
pub struct WindowEnd {
    /// The signal that arrived meanwhile, if any.
    pub interrupted: Option<i32>,
    /// How the command ended, if there was one.
    pub of_command: Option<CommandEnd>,
    /// The time that is over, in nanoseconds.
    pub(super) requested_ns: Option<u64>,
    /// The command, a zombie until the later capture has its counters; no child if it runs on.
    command: Option<(Option<Child>, RecordedCommand)>,
}

/// Events for which a running recording waits.
#[derive(Debug)]
pub struct Waiting {
    /// `None` without an end in time.
    end: Option<Instant>,
    command: Option<(Child, Invocation)>,
}

impl Until {
    /// The command, if there is one.
    pub(super) fn command(&self) -> Option<&Invocation> {
        match self {
            Self::Elapsed(_) => None,
            Self::Exited(invocation) | Self::ExitedWithin(_, invocation) => Some(invocation),
        }
    }

    fn time(&self) -> Option<Duration> {
        match self {
            Self::Elapsed(time) | Self::ExitedWithin(time, _) => Some(*time),
            Self::Exited(_) => None,
        }
    }

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
        let child = self.command().map(|command| Child::spawn(command, signals).map_err(RecordError::NotStarted));
        let command = child.transpose()?.zip(self.command().cloned());
        // A time that the clock cannot represent is never reached.
        let end = self.time().and_then(|time| Instant::now().checked_add(time));
        Ok(Waiting { end, command })
    }
}

impl Waiting {
    /// Waits for the end.
    ///
    /// # Errors
    /// As [`Waiting::wait`].
    pub fn end(&mut self, signals: &Signals) -> Result<WindowEnd, RecordError> {
        loop {
            if let Some(end) = self.wait(signals, None)? {
                return Ok(end);
            }
        }
    }

    /// Returns the end of the time, if it is at most so long after a moment, else the moment.
    pub fn end_near(&self, moment: Instant, longest: Duration) -> Instant {
        self.end
            .filter(|end| end.checked_duration_since(moment).is_some_and(|after| after <= longest))
            .unwrap_or(moment)
    }

    /// Returns true if [`Waiting::end`] is the end of a command that still runs.
    pub fn runs_on(&self) -> bool {
        self.command.is_some()
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
        let first = self.end.into_iter().chain(deadline).min();
        let end = child.wait_exited(signals, first).map_err(RecordError::CannotWaitForCommand)?;
        let recorded = |elapsed: Duration| RecordedCommand {
            arguments: arguments(&invocation),
            elapsed_ns: nanoseconds(elapsed),
            status: end.and_then(|end| end.status),
            signal: end.and_then(|end| end.signal),
        };
        if let Some(end) = end {
            let command = Some((Some(child), recorded(end.elapsed)));
            return Ok(Some(WindowEnd {
                interrupted: end.interrupted,
                of_command: Some(end),
                requested_ns: None,
                command,
            }));
        }
        let running = recorded(child.elapsed());
        self.command = Some((child, invocation));
        let is_over = self.end.take_if(|end| *end <= Instant::now()).is_some();
        let command = Some((None, running));
        Ok(is_over.then_some(WindowEnd { interrupted: None, of_command: None, requested_ns: None, command }))
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
        self.command
            .and_then(|(child, _)| child)
            .map_or(Ok(()), |child| child.reap().map(drop).map_err(RecordError::CannotWaitForCommand))
    }

    /// Reaps the command, adds its I/O and what its interpreter ran where the later capture could not read it, and returns what
    /// was recorded of it. `recorder` is the process id of ctprof in procfs: procfs can be of another PID namespace.
    pub(super) fn conclude(
        self,
        later: &mut CtprofSnapshot,
        recorder: u32,
    ) -> Result<Option<ReapedCommand>, RecordError> {
        let (child, command) = match self.command {
            Some((Some(child), command)) => (child, command),
            runs_on => return Ok(runs_on.map(|(_, command)| ReapedCommand { command, process: None })),
        };
        let id = (recorder == std::process::id()).then(|| child.id());
        let used = child.reap().map_err(RecordError::CannotWaitForCommand)?;
        let mut leader = later.threads.iter_mut().find(|thread| Some(thread.tgid) == id && thread.is_leader());
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
        Ok(Some(ReapedCommand { command, process: id.map(|id| (id, used.peak_bytes)) }))
    }
}

/// A command that was reaped, or that runs on.
pub(super) struct ReapedCommand {
    command: RecordedCommand,
    /// Process id of the command, and the largest resident set of the command and the children that it waited for; `None` if it
    /// is unknown.
    process: Option<(u32, Option<u64>)>,
}

impl ReapedCommand {
    /// Adds the peak of the memory to the command's threads where nothing else has it: without exit record, the peak of an exited
    /// process is unknown. Returns the record of the command.
    pub(super) fn add_peak_memory(self, threads: &mut [ThreadState]) -> RecordedCommand {
        if let Some((id, peak)) = self.process
            && let Some(leader) = threads.iter_mut().find(|thread| thread.tgid == id && thread.is_leader())
        {
            leader.exited_monotonic_ns = None;
            let hiwater = &mut leader.metrics.hiwater_rss_bytes;
            *hiwater = hiwater.or(peak.map(Into::into));
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
