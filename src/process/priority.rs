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

/// Lets this thread run before all with a usual policy, as soon as it is ready, or at least with a higher priority if it may.
pub(crate) fn run_first() {
    if !priority::run_first() {
        raise_priority();
    }
}
