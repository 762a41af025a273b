//! A thread that does one piece of work after the other: starting a thread takes longer than most of what it is for.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::privileges::keep_to_read;
use crate::sys::capabilities::{HeldCapabilities, of_this_thread};
use crate::sys::priority::Priority;

type Job = Box<dyn FnOnce() + Send>;

/// A thread with work. Dropped, it ends when its work does.
pub(super) struct Worker {
    inherited: Inherited,
    work: Sender<Job>,
    done: Receiver<()>,
}

/// State that a thread inherits from the thread that starts it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Inherited {
    capabilities: HeldCapabilities,
    priority: Priority,
}

impl Worker {
    /// Starts work, in a thread that has no other rights and priority than one that this thread starts: the idle one, or a new
    /// one, and the idle one ends.
    pub(super) fn start(idle: Option<Self>, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let inherited = Inherited { capabilities: of_this_thread()?, priority: Priority::of_started() };
        let worker = idle.filter(|idle| idle.inherited == inherited).map_or_else(|| Self::new(inherited), Ok)?;
        worker.work.send(Box::new(work)).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(worker)
    }

    fn new(inherited: Inherited) -> io::Result<Self> {
        let (work, next) = channel::<Job>();
        let (end, done) = channel();
        let serve = move || {
            keep_to_read();
            for work in next {
                work();
                // Threads that it could not stop in time are stopped later, until it ends.
                if crate::sys::ptrace::release_late() || end.send(()).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("ctprof".to_owned()).spawn(serve)?;
        Ok(Self { inherited, work, done })
    }

    /// Waits for the end of the work: what it held is free then. Returns the thread, unless it ends, as after a panic.
    pub(super) fn wait(self) -> Option<Self> {
        self.done.recv().is_ok().then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use nix::unistd::gettid;

    use super::*;
    use crate::skip::{Missing, skipped};
    use crate::sys::capabilities::set_effective;

    /// Does work, in this idle thread or another one. Which it is, and that thread.
    fn work(idle: Option<Worker>) -> (i32, Option<Worker>) {
        let (answer, answered) = channel();
        let worker = Worker::start(idle, move || answer.send(gettid().as_raw()).unwrap()).unwrap().wait();
        (answered.recv().unwrap(), worker)
    }

    #[test]
    fn a_thread_is_used_again_by_one_with_the_same_rights_and_priority_only() {
        let (first, idle) = work(None);
        let (second, idle) = work(idle);
        assert_eq!(first, second);
        let before = set_effective(0).unwrap();
        if before == 0 {
            return skipped(Missing::Privilege("capabilities"));
        }
        let (third, idle) = work(idle);
        assert_ne!(second, third);
        set_effective(before).unwrap();
        assert_ne!(work(idle).0, third);
    }

    #[test]
    fn a_thread_that_panicked_is_not_used_again() {
        assert!(Worker::start(None, || panic!("on purpose")).unwrap().wait().is_none());
    }
}
