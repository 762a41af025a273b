//! The nice value of threads.

use nix::libc;

/// Lowers the nice value of this thread, if it may: on a busy host it would otherwise receive records late.
pub(crate) fn raise_priority_of_this_thread() {
    // SAFETY: the arguments are numbers; 0 is this thread. The system call returns 20 less the nice value.
    unsafe {
        if libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) < libc::c_long::from(20 - NICE) {
            libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, NICE);
        }
    }
}

const NICE: libc::c_int = -5;
