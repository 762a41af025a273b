//! The priority of threads.

use std::marker::PhantomData;

use crate::sys::priority::{self, lower_priority, raise_priority};

/// A higher priority of this thread, if it may have one, until it is dropped. Threads and processes that it starts
/// do not inherit it.
pub(crate) struct RaisedPriority {
    is_raised: bool,
    _of_this_thread: PhantomData<*const ()>,
}

impl RaisedPriority {
    pub(crate) fn of_this_thread() -> Self {
        Self { is_raised: raise_priority(), _of_this_thread: PhantomData }
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        if self.is_raised {
            lower_priority();
        }
    }
}

/// This thread runs before all with a usual policy, as soon as it is ready, or at least with a higher priority if it may, until
/// this is dropped.
pub(crate) struct RunsFirst {
    /// Instead of the policy, where this thread may not have that.
    raised: Option<RaisedPriority>,
}

impl RunsFirst {
    pub(crate) fn this_thread() -> Self {
        Self { raised: (!priority::run_first()).then(RaisedPriority::of_this_thread) }
    }
}

impl Drop for RunsFirst {
    fn drop(&mut self) {
        if self.raised.is_none() {
            priority::run_in_turn();
        }
    }
}
