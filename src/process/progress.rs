//! Progress of a long task.

use std::sync::atomic::{AtomicU64, Ordering};

/// Steps of a task, readable from other threads.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    done: AtomicU64,
}

impl Progress {
    pub fn announce(&self, steps: u64) {
        self.total.fetch_add(steps, Ordering::Relaxed);
    }

    pub fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Ordering::Relaxed);
    }

    /// Takes back steps that have to be done again.
    pub fn retract(&self, steps: u64) {
        self.done.fetch_sub(steps, Ordering::Relaxed);
    }

    /// Steps announced so far; 0 until their number is known.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_done_twice_do_not_pass_the_total() {
        let progress = Progress::default();
        progress.announce(10);
        progress.advance(7);
        progress.retract(7);
        progress.advance(10);
        assert_eq!((progress.done(), progress.total()), (10, 10));
    }
}
