//! The nice value of threads.

use nix::libc;

/// Lowers the nice value of this thread, if it may: on a busy host it would otherwise receive records late.
pub(crate) fn prefer_this_thread() {
    // SAFETY: the arguments are numbers; 0 is this thread.
    unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, NICE) };
}

const NICE: libc::c_int = -5;
