//! Progress of a long task.

use std::sync::atomic::{AtomicU64, Ordering};

/// Steps of all tasks of this process.
static ALL: AtomicU64 = AtomicU64::new(0);

/// Steps of all tasks of this process: while it rises, some of its threads work on.
pub(super) fn of_all() -> u64 {
    ALL.load(Ordering::Relaxed)
}

/// Steps of a task, readable from other threads.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    done: AtomicU64,
}

impl Progress {
    /// Adds to the number of steps that the task will take.
    pub fn announce(&self, steps: u64) {
        self.total.fetch_add(steps, Ordering::Relaxed);
    }

    /// Adds to the number of steps that are done.
    pub fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Ordering::Relaxed);
        ALL.fetch_add(steps, Ordering::Relaxed);
    }

    /// Steps announced so far; 0 until their number is known.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Returns the number of steps that are done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}
