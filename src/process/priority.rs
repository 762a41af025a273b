//! The priority of threads.

use std::marker::PhantomData;

use crate::sys::priority::{lower_priority, raise_priority, run_first, run_in_turn};

/// A higher priority of this thread, if it may have one, until it is dropped. Threads and processes that it starts
/// do not inherit it.
pub(crate) struct RaisedPriority {
    /// `None` if the priority is not higher.
    lower: Option<fn()>,
    _of_this_thread: PhantomData<*const ()>,
}

impl RaisedPriority {
    pub(crate) fn of_this_thread() -> Self {
        Self { lower: raise_priority().then_some(lower_priority), _of_this_thread: PhantomData }
    }

    /// Lets this thread run before all with a usual policy, as soon as it is ready, or at least with a higher priority if it may.
    pub(crate) fn run_first() -> Self {
        if run_first() {
            Self { lower: Some(run_in_turn), _of_this_thread: PhantomData }
        } else {
            Self::of_this_thread()
        }
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        if let Some(lower) = self.lower {
            lower();
        }
    }
}
