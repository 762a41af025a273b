//! The nice value of threads.

use nix::libc::{self, c_long};

use super::call;

/// Lowers the nice value of this thread, if it may: on a busy host it would otherwise receive records late.
pub(crate) fn raise_priority_of_this_thread() {
    let this_thread = [c_long::from(libc::PRIO_PROCESS), 0];
    // SAFETY: the arguments are numbers. The system call returns 20 less the nice value.
    if unsafe { call(libc::SYS_getpriority, this_thread) }.is_ok_and(|priority| priority < 20 - NICE) {
        // SAFETY: the arguments are numbers.
        let _ = unsafe { call(libc::SYS_setpriority, [this_thread[0], 0, NICE]) };
    }
}

const NICE: c_long = -5;
