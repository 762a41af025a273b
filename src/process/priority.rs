//! The priority of threads.

use std::marker::PhantomData;

use super::worker;
use crate::sys::priority::{Priority, lower_priority, raise_priority, run_first, run_first_with_started, run_in_turn};

/// A higher priority of this thread, if it may have one, until it is dropped.
pub(crate) struct RaisedPriority {
    /// `None` if the priority is not higher.
    before: Option<Before>,
    _of_this_thread: PhantomData<*const ()>,
}

/// What a thread had before.
enum Before {
    UsualNiceValue,
    UsualPolicy,
    /// This, and threads that it has started have inherited another one.
    Priority(Priority),
}

impl RaisedPriority {
    fn new(before: Option<Before>) -> Self {
        Self { before, _of_this_thread: PhantomData }
    }

    /// The lowest nice value. Threads and processes that this thread starts do not inherit it.
    pub(crate) fn of_this_thread() -> Self {
        Self::new(raise_priority().then_some(Before::UsualNiceValue))
    }

    /// Lets this thread run before all with a usual policy, as soon as it is ready, or at least with a higher priority if it may.
    /// Threads and processes that it starts do not inherit that.
    pub(crate) fn run_first() -> Self {
        if run_first() { Self::new(Some(Before::UsualPolicy)) } else { Self::of_this_thread() }
    }

    /// On a [crowded](is_crowded) host, as [`run_first`](Self::run_first).
    pub(crate) fn run_first_if_crowded() -> Self {
        if is_crowded() { Self::run_first() } else { Self::new(None) }
    }

    /// On a [crowded](is_crowded) host, lets this thread and the threads that it starts run before all with a usual policy. What
    /// they do is bounded, and would take minutes in their turn.
    pub(crate) fn with_started_threads_if_crowded() -> Self {
        if !is_crowded() {
            return Self::new(None);
        }
        worker::dismiss();
        Self::new(run_first_with_started().map(Before::Priority))
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        match self.before {
            None => {}
            Some(Before::UsualNiceValue) => lower_priority(),
            Some(Before::UsualPolicy) => run_in_turn(),
            Some(Before::Priority(before)) => {
                worker::dismiss();
                before.restore();
            }
        }
    }
}

/// More threads per CPU that are ready to run make a host crowded: each then gets a CPU once in a hundred milliseconds or less
/// often, so that some milliseconds of others delay none of them noticeably.
const MOST_RUNNABLE: usize = 32;

/// Whether far more threads are ready to run than CPUs can take; false where that is unknown.
pub(crate) fn is_crowded() -> bool {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
    runnable(&load).is_some_and(|runnable| runnable / MOST_RUNNABLE > cpus)
}

/// The number of threads that are ready to run, from the text of `/proc/loadavg`.
fn runnable(load: &str) -> Option<usize> {
    load.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_many_threads_are_ready_to_run() {
        // Linux 6.18, `loadavg_proc_show` of fs/proc/loadavg.c.
        assert_eq!(runnable("2437.88 628.61 211.90 5002/5107 327\n"), Some(5002));
        assert_eq!(["", "0.1 0.2 0.3", "0.1 0.2 0.3 x/7 8"].map(runnable), [None; 3]);
    }
}
