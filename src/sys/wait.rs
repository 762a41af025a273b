//! `waitid(2)` and `wait4(2)`: the wrapper of nix fails for children that a real-time signal killed.

use std::mem::MaybeUninit;
use std::ptr;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

/// A child that exited and has not been reaped, with its exit status or the signal that killed it.
type Zombie = (Pid, Result<i32, i32>);

/// Returns this child if it has exited, or one of all if `None`, and leaves it a zombie. `ECHILD` if there is no such child.
pub(crate) fn zombie(child: Option<Pid>) -> Result<Option<Zombie>, Errno> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    let (kind, id) = child.map_or((libc::P_ALL, 0), |child| (libc::P_PID, child.as_raw().unsigned_abs()));
    // SAFETY: the kernel writes one siginfo_t to `info`, which has this type.
    Errno::result(unsafe { libc::waitid(kind, id, info.as_mut_ptr(), flags) })?;
    // SAFETY: zeroes are a valid siginfo_t: they mean that no child exited. Otherwise the kernel has set
    // the fields of SIGCHLD, which are the ones read.
    let (code, pid, status) = unsafe {
        let info = info.assume_init();
        (info.si_code, info.si_pid(), info.si_status())
    };
    let status = if code == libc::CLD_EXITED { Ok(status) } else { Err(status) };
    Ok((pid != 0).then(|| (Pid::from_raw(pid), status)))
}

/// Resources used by a process and the children that it waited for, from `struct rusage`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    /// Blocks of 512 bytes that were read from storage.
    pub(crate) blocks_read: i64,
    /// Blocks of 512 bytes that were written to storage.
    pub(crate) blocks_written: i64,
    /// Largest resident set of any of these processes, in KiB. It includes memory before execve(2), which is a copy of the
    /// parent's memory.
    pub(crate) peak_kib: i64,
}

/// Reaps the child `pid`, which is a zombie. `ECHILD` if it is not a child, or has been reaped.
pub(crate) fn reap(pid: Pid) -> Result<Used, Errno> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one rusage to `usage`, which has this type, and no status, as there is no address for it.
    Errno::result(unsafe { libc::wait4(pid.as_raw(), ptr::null_mut(), libc::WNOHANG, usage.as_mut_ptr()) })?;
    // SAFETY: the kernel has set all fields, or none: zeroes are a valid rusage, too.
    let usage = unsafe { usage.assume_init() };
    Ok(Used { blocks_read: usage.ru_inblock, blocks_written: usage.ru_oublock, peak_kib: usage.ru_maxrss })
}
