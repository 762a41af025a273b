//! Signals that end a pause, or arrive while a command runs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use super::watchdog::Watchdog;
use crate::sys::signals::{self, keep_zombies, was_ignored};

/// Signals that end a pause.
const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Signals that must not end ctprof before a command ends, and the signal that announces its exit.
const DURING_COMMAND: [Signal; 5] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGCHLD];

/// Signals that a full-screen command receives beside the ones that end it: a new size of the terminal, and a stop.
const OF_SCREEN: [Signal; 3] = [Signal::SIGWINCH, Signal::SIGTSTP, Signal::SIGCONT];

/// Dispositions that ctprof or Rust's runtime changes.
const CHANGED: [Signal; 3] = [Signal::SIGPIPE, Signal::SIGCHLD, Signal::SIGXFSZ];

/// Blocked signals, received one by one. Create this before other threads start, as `Recorder::new` starts some: threads
/// inherit the blocked signals. Dropping it discards what has arrived and unblocks them in the calling thread, so that a
/// later Ctrl-C ends ctprof: do so when the recording is written, which a second signal would lose.
///
/// A signal that was ignored when ctprof started, for example SIGHUP under nohup(1), stays ignored. Only a SIGINT that a process
/// sends counts all the same: shells without job control ignore it for commands in the background, because of Ctrl-C.
#[derive(Debug)]
pub struct Signals {
    descriptor: SignalFd,
    /// Descriptor that becomes readable when a signal arrives that would have ended ctprof. Nothing is received from it.
    fatal: SignalFd,
    /// The signal mask when ctprof started.
    pub(super) mask: SigSet,
    /// Signals of [`CHANGED`] that were ignored when ctprof started.
    pub(super) ignored: Vec<Signal>,
    pub(super) adopt_orphans: bool,
    /// Whether Ctrl-C is for other processes.
    ignores_interrupts: bool,
    /// `None` where no thread can be started.
    watchdog: Option<Watchdog>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) signal: Signal,
    /// Whether a process called kill(2). The kernel sends a signal for a key of the terminal, a hangup, or an exited child.
    pub(super) is_from_process: bool,
}

impl Received {
    /// The signal, if it would have ended ctprof.
    pub(super) fn interrupts(self) -> Option<i32> {
        would_end(self.signal).then_some(self.signal as i32)
    }
}

fn would_end(signal: Signal) -> bool {
    signal != Signal::SIGCHLD && !OF_SCREEN.contains(&signal)
}

/// Process or group that a stop affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Only this process stops.
    Process,
    /// All processes of its process group.
    Group,
}

/// Event that a full-screen command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenEvent {
    /// The number of a signal that would have ended ctprof.
    Ended(i32),
    /// The terminal has another size, or the process goes on after a stop: the screen is to be drawn again.
    Changed,
    /// Another process asks to stop (SIGTSTP).
    Stop,
    /// A key was pressed, or the terminal is gone.
    Input,
    /// The time is over.
    Elapsed,
}

/// Makes writes beyond the file size limit (`ulimit -f`) fail, so that they are reported as errors. SIGXFSZ would end the
/// process without a message.
pub fn fail_writes_beyond_limit() {
    // The kernel never refuses to ignore this signal.
    let _ = signals::fail_writes_beyond_limit();
}

/// Signals by which a terminal stops a process.
const STOPPING: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];

/// Does `work`, which a terminal cannot stop, neither in this thread nor in threads that it starts. A stop takes effect
/// afterwards: otherwise, a thread that ctprof has stopped would stay stopped.
pub(crate) fn without_stops<T>(work: impl FnOnce() -> T) -> T {
    let stopping: SigSet = STOPPING.into_iter().collect();
    // The kernel refuses no signal mask.
    let before = stopping.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let done = work();
    let _ = before.and_then(|before| before.thread_set_mask());
    done
}

impl Signals {
    /// Blocks SIGINT, SIGTERM and SIGHUP, which end a [pause](Self::pause).
    ///
    /// # Errors
    /// If no file descriptor is available.
    pub fn for_pause() -> io::Result<Self> {
        Self::block(&ENDING)
    }

    /// Blocks SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGCHLD, which [`Child`](super::Child) receives.
    ///
    /// # Errors
    /// If no file descriptor is available.
    pub fn for_command() -> io::Result<Self> {
        Self::block(&DURING_COMMAND)
    }

    /// Blocks what ends, stops or resizes a full-screen command: [`Signals::screen_event`] receives it.
    ///
    /// # Errors
    /// If no file descriptor is available.
    pub fn for_screen() -> io::Result<Self> {
        Self::block(&[&ENDING[..], &[Signal::SIGQUIT], &OF_SCREEN].concat())
    }

    fn block(signals: &[Signal]) -> io::Result<Self> {
        let ignored = CHANGED.into_iter().filter(|&signal| was_ignored(signal)).collect();
        keep_zombies()?;
        // A blocked signal is queued even if it is ignored (`sig_ignored` of kernel/signal.c).
        let counts = |signal: &Signal| *signal == Signal::SIGINT || !was_ignored(*signal);
        let blocked: SigSet = signals.iter().copied().filter(counts).collect();
        let descriptor = SignalFd::with_flags(&blocked, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let fatal_signals: SigSet =
            blocked.iter().filter(|&signal| would_end(signal) && !was_ignored(signal)).collect();
        let fatal = SignalFd::with_flags(&fatal_signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let mask = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let watchdog =
            Watchdog::start(&fatal_signals).inspect_err(|error| tracing::debug!("signals have no watchdog: {error}"));
        let ignores_interrupts = was_ignored(Signal::SIGINT);
        Ok(Self { descriptor, fatal, mask, ignored, adopt_orphans: false, ignores_interrupts, watchdog: watchdog.ok() })
    }

    /// Makes this process, until these signals are dropped, the parent of processes whose parent exits: what orphans of a command
    /// do is then recorded as the command's. Only for a program that starts no other process: while a command runs, all other
    /// children that exit are reaped.
    #[must_use]
    pub fn adopting_orphans(mut self) -> Self {
        self.adopt_orphans = true;
        if let Err(errno) = set_child_subreaper(true) {
            tracing::debug!(%errno, "cannot become a subreaper");
        }
        self
    }

    /// Says that from now on, this thread waits for signals, or captures: one that it does not receive within seconds, because it
    /// waits for something else without end, ends ctprof.
    pub fn begin_recording(&self) {
        self.watchdog.iter().for_each(|watchdog| watchdog.set_concludes(false));
    }

    /// Says that a recording is concluded from now on: as long as that works on, signals wait for its end.
    pub fn begin_conclusion(&self) {
        self.watchdog.iter().for_each(|watchdog| watchdog.set_concludes(true));
    }

    /// Waits for `duration`, or until a signal arrives that would have ended ctprof, and returns the number of that. One that has arrived
    /// since the signals were blocked counts too.
    ///
    /// # Errors
    /// Errors of `ppoll(2)`: out of memory.
    pub fn pause(&self, duration: Duration) -> io::Result<Option<i32>> {
        // A time that the clock cannot represent is never reached.
        let deadline = Instant::now().checked_add(duration);
        while let Some(received) = self.receive(deadline)? {
            if let Some(signal) = received.interrupts() {
                return Ok(Some(signal));
            }
        }
        Ok(None)
    }

    /// Waits for `duration`, or until a signal arrives that would have ended ctprof, and returns whether one has. It remains to be
    /// received.
    pub(crate) fn wait_for_interruption(&self, duration: Duration) -> bool {
        let mut polled = [PollFd::new(self.fatal.as_fd(), PollFlags::POLLIN)];
        ppoll(&mut polled, Some(duration.into()), None).is_ok_and(|ready| ready > 0)
    }

    /// The next signal, waiting for one until `deadline`, or forever if there is none.
    pub(super) fn receive(&self, deadline: Option<Instant>) -> io::Result<Option<Received>> {
        loop {
            if let Some(received) = self.arrived()? {
                return Ok(Some(received));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            let mut polled = [PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN)];
            match ppoll(&mut polled, left.map(Into::into), None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The next signal or input, waiting for one until `deadline`, or forever if there is none.
    ///
    /// # Errors
    /// Errors of `ppoll(2)`: out of memory.
    pub fn screen_event(&self, input: BorrowedFd<'_>, deadline: Option<Instant>) -> io::Result<ScreenEvent> {
        loop {
            match self.arrived()?.map(|received| (received.signal, received.interrupts())) {
                Some((Signal::SIGTSTP, _)) => return Ok(ScreenEvent::Stop),
                Some((Signal::SIGWINCH | Signal::SIGCONT, _)) => return Ok(ScreenEvent::Changed),
                Some((_, Some(signal))) => return Ok(ScreenEvent::Ended(signal)),
                Some(_) | None => {}
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let mut polled = [self.descriptor.as_fd(), input].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            match ppoll(&mut polled, left.map(Into::into), None) {
                Ok(0) => return Ok(ScreenEvent::Elapsed),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
                // Keys wait for signals and for what is due.
                Ok(_) if polled[0].any() == Some(false) => return Ok(ScreenEvent::Input),
                Ok(_) => {}
            }
        }
    }

    /// Stops this process, or its process group as a key of the terminal does, until it is continued.
    pub fn stop(&self, whom: Stopped) {
        let stop = SigSet::from(Signal::SIGTSTP);
        let pid = if whom == Stopped::Group { Pid::from_raw(0) } else { Pid::this() };
        // The signal is delivered before the mask has changed. Where no shell waits, the kernel discards it.
        let _ = kill(pid, Signal::SIGTSTP).and_then(|()| stop.thread_unblock()).and_then(|()| stop.thread_block());
    }

    /// A signal that has arrived and would have ended ctprof; of several, the first. All are consumed.
    pub fn interruption(&self) -> Option<i32> {
        let arrived = std::iter::from_fn(|| self.arrived().ok().flatten());
        arrived.filter_map(Received::interrupts).fold(None, |first, signal| first.or(Some(signal)))
    }

    fn arrived(&self) -> io::Result<Option<Received>> {
        while let Some(info) = self.descriptor.read_signal()? {
            // Codes of signals from processes are not positive (`SI_FROMUSER`).
            let is_from_process = info.ssi_code <= libc::SI_USER;
            let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            let received = signal.map(|signal| Received { signal, is_from_process });
            let is_ignored = |it: &Received| it.signal == Signal::SIGINT && !is_from_process && self.ignores_interrupts;
            if let Some(received) = received.filter(|it| !is_ignored(it)) {
                return Ok(Some(received));
            }
        }
        Ok(None)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // The key that ended the command has reached ctprof too, and must not end it now.
        while matches!(self.arrived(), Ok(Some(_))) {}
        let _ = self.mask.thread_set_mask();
        if self.adopt_orphans {
            let _ = set_child_subreaper(false);
        }
    }
}
