//! One window: what happens between two captures, while a command runs or over a period.

use std::time::Duration;

use anyhow::Context;

use crate::capture::{self, Capturer, ExitListener, Options, RecordedExits, Smaps};
use crate::model::{CtprofSnapshot, RecordedCommand, SnapshotHead};
use crate::process::{Child, CommandEnd, Ended, Invocation, Privileges, Signals, SpawnError};
use crate::window::{self, ExitedThread, Exits, PackedThreads, Recording};

/// What captures of one window read, and the buffer for exiting threads.
pub(super) struct Settings {
    pub(super) options: Options,
    pub(super) ring_bytes: u32,
    pub(super) loading: Loading,
}

/// Whether BPF programs are loaded for other windows later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loading {
    /// No: the capabilities for loading are dropped after that.
    Once,
    /// Yes: a series of runs.
    Again,
}

/// When a window ends.
pub(super) enum Span {
    /// After this time, or when a signal arrives.
    Time(Duration),
    /// When the command has exited.
    Command(Invocation),
}

/// A window after its earlier capture.
pub(super) struct Open<'s> {
    smaps: Smaps,
    capturer: Capturer<'s>,
    listener: Option<ExitListener>,
    earlier: SnapshotHead,
    threads: PackedThreads,
}

/// What ended a window.
pub(super) enum End<'s> {
    Time(Ended),
    /// The command, a zombie until the later capture has its counters.
    Command(Child, CommandEnd, &'s Invocation),
}

/// Takes the earlier capture.
pub(super) fn open(settings: &Settings) -> anyhow::Result<Open<'_>> {
    let Settings { options, ring_bytes, loading } = settings;
    let listener = listen(options, *ring_bytes);
    let mut capturer = Capturer::new(options, 2)?;
    if *loading == Loading::Once {
        Privileges::Record.keep_after_loading()?;
    }
    // Only the later memory of processes is shown.
    let CtprofSnapshot { head: earlier, threads } = capturer.capture(Smaps::Never)?;
    Ok(Open { smaps: options.smaps, capturer, listener, earlier, threads: PackedThreads::of_threads(threads) })
}

impl Span {
    /// Waits, or runs the command.
    pub(super) fn pass(&self, signals: &Signals) -> anyhow::Result<End<'_>> {
        match self {
            Self::Time(time) => Ok(End::Time(signals.pause(*time).context("cannot wait")?)),
            Self::Command(invocation) => {
                let child = Child::spawn(invocation, signals).map_err(NotStarted)?;
                let end = child.wait_exited(signals).context(CANNOT_WAIT)?;
                Ok(End::Command(child, end, invocation))
            }
        }
    }
}

const CANNOT_WAIT: &str = "cannot wait for the command";

impl End<'_> {
    /// The signal that arrived at ctprof meanwhile, if any.
    pub(super) fn interrupted(&self) -> Option<i32> {
        match self {
            Self::Time(Ended::Elapsed) => None,
            Self::Time(Ended::Signal(signal)) => Some(*signal),
            Self::Command(_, end, _) => end.interrupted,
        }
    }

    /// How the command ended, if there was one.
    pub(super) fn of_command(&self) -> Option<CommandEnd> {
        match self {
            Self::Time(_) => None,
            Self::Command(_, end, _) => Some(*end),
        }
    }

    /// Reaps the command without a later capture.
    pub(super) fn discard(self) -> anyhow::Result<()> {
        match self {
            Self::Time(_) => Ok(()),
            Self::Command(child, ..) => child.reap().map(drop).context(CANNOT_WAIT),
        }
    }
}

impl Open<'_> {
    /// Takes the later capture, and returns what happened in between.
    pub(super) fn close(self, end: End<'_>) -> anyhow::Result<CtprofSnapshot> {
        let Self { smaps, mut capturer, listener, earlier, threads } = self;
        let mut later = capturer.capture(smaps)?;
        let mut recording = Recording { recorder: std::process::id(), ..Recording::default() };
        if let End::Command(child, end, invocation) = end {
            add_io(&mut later, child)?;
            recording.command = Some(recorded_command(invocation, &end));
        }
        let records = listener.map(ExitListener::finish);
        let each = |add: &mut dyn FnMut(ExitedThread)| {
            records.iter().flat_map(RecordedExits::threads).for_each(add);
        };
        recording.exits = Exits { summary: records.as_ref().map(RecordedExits::summary), each: Some(&each) };
        Ok(window::recorded(&earlier, threads, later, recording)?)
    }
}

/// Reaps the command, and adds its I/O where the capture could not read it.
fn add_io(later: &mut CtprofSnapshot, child: Child) -> anyhow::Result<()> {
    let id = child.id();
    let io = child.reap().context(CANNOT_WAIT)?;
    let leader = later.threads.iter_mut().find(|thread| thread.tgid == id && thread.is_leader());
    if let Some(process) = leader.and_then(|leader| leader.process.as_deref_mut()) {
        process.read_bytes.get_or_insert(io.read_bytes.into());
        process.write_bytes.get_or_insert(io.write_bytes.into());
    }
    Ok(())
}

/// Listens to records of exited threads, where the kernel has them.
fn listen(options: &Options, ring_bytes: u32) -> Option<ExitListener> {
    let listener = ExitListener::start(options, &capture::host(&options.roots), ring_bytes);
    listener.inspect_err(|error| tracing::info!("{error}")).ok()
}

fn recorded_command(invocation: &Invocation, end: &CommandEnd) -> RecordedCommand {
    let words = std::iter::once(&invocation.program).chain(&invocation.arguments);
    RecordedCommand {
        arguments: words.map(|word| word.to_string_lossy().into_owned()).collect(),
        elapsed_ns: u64::try_from(end.elapsed.as_nanos()).unwrap_or(u64::MAX),
        status: end.status,
        signal: end.signal,
    }
}

/// A command that did not start decides the exit status.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct NotStarted(pub(super) SpawnError);
