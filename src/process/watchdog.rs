//! Ends ctprof by a signal that its main thread does not receive, because it waits for something without end.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{gettid, pipe2};

use super::panics::fail_now;
use super::privileges::keep_to_read;
use super::progress;

/// How long a signal is left to a main thread that does nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same while a recording is concluded: a slow disk must not lose it.
const PATIENCE_WITH_CONCLUSION: Duration = Duration::from_secs(30);
/// How often the main thread is looked at while a signal waits, in milliseconds.
const INTERVAL: u8 = 100;

/// A thread that looks after signals, until this is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    concludes: Arc<AtomicBool>,
    /// Closed when this is dropped, which ends the thread.
    _end: OwnedFd,
}

/// Signals that the thread looks at, and who receives them.
struct PendingSignals {
    signals: SignalFd,
    end: OwnedFd,
    concludes: Arc<AtomicBool>,
    /// The `status` file of the thread that receives the signals.
    receiver: String,
}

/// Values of the receiver and of all workers that change while they work.
type ReceiverActivity = (Option<String>, u64);

impl Watchdog {
    /// Starts the thread for these signals, which must be blocked. The calling thread receives them.
    pub(super) fn start(signals: &SigSet) -> io::Result<Self> {
        let (end, own_end) = pipe2(OFlag::O_CLOEXEC)?;
        let concludes = Arc::default();
        let watch = PendingSignals {
            signals: SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?,
            end,
            concludes: Arc::clone(&concludes),
            receiver: format!("/proc/self/task/{}/status", gettid()),
        };
        let run = move || {
            keep_to_read();
            watch.run();
        };
        thread::Builder::new().name("ctprof".to_owned()).spawn(run)?;
        Ok(Self { concludes, _end: own_end })
    }

    /// Says whether signals may wait for the end of a conclusion, as long as that works on.
    pub(super) fn set_concludes(&self, concludes: bool) {
        self.concludes.store(concludes, Ordering::Relaxed);
    }
}

impl PendingSignals {
    fn run(&self) {
        while self.is_there(PollTimeout::NONE) == Some(true) {
            let (mut since, mut before) = (Instant::now(), self.work());
            // Only looked at: the receiver takes it.
            while self.is_there(PollTimeout::ZERO) == Some(true) {
                let now = self.work();
                if is_going_on(&before, &now) {
                    (since, before) = (Instant::now(), now);
                }
                let concludes = self.concludes.load(Ordering::Relaxed);
                if since.elapsed() >= if concludes { PATIENCE_WITH_CONCLUSION } else { PATIENCE } {
                    fail_now("ended by a signal while it waited without end: what it had not written is lost");
                }
                if self.has_ended(INTERVAL.into()) {
                    return;
                }
            }
        }
    }

    /// Whether a signal waits; `None` at the end.
    fn is_there(&self, timeout: PollTimeout) -> Option<bool> {
        let mut polled = [self.end.as_fd(), self.signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let _ = poll(&mut polled, timeout);
        let [end, signals] = polled.map(|polled| polled.any().unwrap_or(false));
        (!end).then_some(signals)
    }

    fn has_ended(&self, timeout: PollTimeout) -> bool {
        let mut polled = [PollFd::new(self.end.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, timeout).is_ok_and(|ready| ready > 0)
    }

    fn work(&self) -> ReceiverActivity {
        (fs::read_to_string(&self.receiver).ok(), progress::of_all())
    }
}

/// Whether the receiver or a worker has done anything, or is ready to run.
fn is_going_on(before: &ReceiverActivity, now: &ReceiverActivity) -> bool {
    let Some(status) = &now.0 else { return true };
    let lines = |status: &str| {
        let is_of_switches = |line: &&str| line.contains("ctxt_switches");
        status.lines().filter(is_of_switches).map(str::to_owned).collect::<Vec<_>>()
    };
    let has_switched = before.0.as_deref().map(lines) != Some(lines(status));
    let is_ready = status.lines().any(|line| line.starts_with("State:\tR"));
    has_switched || is_ready || before.1 != now.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_ran_or_is_ready_to_run_and_workers_that_go_on_are_left_to_their_work() {
        let status = |state, switches, voluntary| {
            Some(format!(
                "Name:\tctprof\nState:\t{state}\nvoluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{switches}\n"
            ))
        };
        let before = (status("D (disk sleep)", 7, 5), 3);
        for (now, is_left) in [
            ((status("D (disk sleep)", 7, 5), 3), false),
            ((status("S (sleeping)", 7, 5), 3), false),
            ((status("R (running)", 7, 5), 3), true),
            ((status("S (sleeping)", 8, 5), 3), true),
            ((status("S (sleeping)", 7, 6), 3), true),
            ((status("S (sleeping)", 7, 5), 4), true),
            ((None, 3), true),
        ] {
            assert_eq!(is_going_on(&before, &now), is_left, "{now:?}");
        }
    }
}
