//! A thread that does one piece of work after the other: starting a thread takes longer than most of what it is for.

use std::cell::RefCell;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::sys::capabilities::{HeldCapabilities, of_this_thread};

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The worker that this thread used last, if it is done.
    static IDLE: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// A thread with work. Dropped, it ends when its work does.
pub(super) struct Worker {
    work: Sender<(HeldCapabilities, Job)>,
    done: Receiver<()>,
}

/// Lets the thread end that would be used again: it has the capabilities that this one had.
pub(super) fn dismiss() {
    IDLE.set(None);
}

impl Worker {
    /// Starts work, with the capabilities of the calling thread.
    pub(super) fn start(work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let worker = IDLE.take().map_or_else(Self::new, Ok)?;
        let capabilities = of_this_thread()?;
        worker.work.send((capabilities, Box::new(work))).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(worker)
    }

    fn new() -> io::Result<Self> {
        let (work, next) = channel::<(HeldCapabilities, Job)>();
        let (end, done) = channel();
        let serve = move || {
            for (capabilities, work) in next {
                capabilities.during(work);
                // Threads that it could not stop in time are stopped later, until it ends.
                if crate::sys::ptrace::release_late() || end.send(()).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("ctprof".to_owned()).spawn(serve)?;
        Ok(Self { work, done })
    }

    /// Waits for the end of the work. What it held is free then.
    pub(super) fn wait(self) {
        // A panic ends the thread.
        if self.done.recv().is_ok() {
            IDLE.set(Some(self));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use nix::unistd::gettid;

    use super::*;
    use crate::process::Privileges;
    use crate::sys::capabilities::set_effective;

    /// The thread that does work, and the line of its effective capabilities.
    fn worked() -> (i32, String) {
        let (answer, answered) = channel();
        let capabilities = || {
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            status.lines().find(|line| line.starts_with("CapEff")).unwrap().to_owned()
        };
        let worker = Worker::start(move || answer.send((gettid().as_raw(), capabilities())).unwrap()).unwrap();
        worker.wait();
        answered.recv().unwrap()
    }

    #[test]
    fn a_thread_is_used_again_with_the_capabilities_that_its_user_then_has() {
        let (first, all) = worked();
        let before = set_effective(0).unwrap();
        let (second, none) = worked();
        set_effective(before).unwrap();
        assert_eq!((first, &*none), (second, "CapEff:\t0000000000000000"));
        assert_eq!(worked(), (first, all));
    }

    #[test]
    fn a_thread_is_not_used_again_after_its_user_dropped_capabilities() {
        let (first, _) = worked();
        Privileges::Files.keep().unwrap();
        assert_ne!(worked().0, first);
        let of_first = format!("/proc/self/task/{first}");
        let is_gone = || !fs::exists(&of_first).unwrap();
        assert!((0..1000).any(|_| is_gone() || {
            thread::sleep(Duration::from_millis(5));
            false
        }));
    }

    #[test]
    fn a_thread_that_panicked_is_not_used_again() {
        let (first, _) = worked();
        Worker::start(|| panic!("on purpose")).unwrap().wait();
        assert_ne!(worked().0, first);
    }
}
