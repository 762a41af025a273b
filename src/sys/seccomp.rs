//! Whether a seccomp filter would kill this process for a system call.

use std::sync::OnceLock;

use nix::errno::Errno;
use nix::libc;

use super::call;

/// A system call for which a filter can kill its caller, as systemd's `SystemCallFilter=` does without an error number.
#[derive(Clone, Copy)]
pub(crate) enum RiskyCall {
    Bpf,
    Ptrace,
    OpenByHandle,
}

impl RiskyCall {
    /// Whether the system call returns at all: if there is a filter, a child process tries first.
    pub(crate) fn returns(self) -> bool {
        static ANSWERS: [OnceLock<bool>; 3] = [const { OnceLock::new() }; 3];
        *ANSWERS[self as usize].get_or_init(|| !is_filtered() || self.child_survives())
    }

    /// Returns the number of the system call, and arguments with which it does nothing: no process has the id 0, bpf(2) has
    /// no such command, and there is no handle at this address.
    fn without_effect(self) -> (libc::c_long, [libc::c_long; 1]) {
        match self {
            Self::Bpf => (libc::SYS_bpf, [i32::MAX.into()]),
            Self::Ptrace => (libc::SYS_ptrace, [libc::PTRACE_DETACH.into()]),
            Self::OpenByHandle => (libc::SYS_open_by_handle_at, [-1]),
        }
    }

    fn child_survives(self) -> bool {
        let (number, arguments) = self.without_effect();
        // Without a signal at its exit: where SIGCHLD is ignored, the kernel would not keep its status.
        // SAFETY: the child has memory of its own, makes two system calls, which take no memory of this process, and
        // exits.
        let child = unsafe { call(libc::SYS_clone, []) };
        if child == Ok(0) {
            // SAFETY: as above.
            unsafe {
                let _ = call(number, arguments);
                libc::_exit(0);
            }
        }
        child.is_ok_and(exits)
    }
}

/// Whether `status` says `SECCOMP_MODE_FILTER`.
fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status.lines().filter_map(|line| line.strip_prefix("Seccomp:")).any(|mode| mode.trim() == "2")
}

/// Waits for `child`, as clone(2) returned it; whether it exits without a signal.
fn exits(child: libc::c_long) -> bool {
    // waitpid(2) takes -1 for any child: the answer would be that of another part of this program.
    let Some(child) = libc::pid_t::try_from(child).ok().filter(|child| *child > 0) else { return false };
    let mut status = 0;
    loop {
        // SAFETY: `status` is an integer of this frame that the kernel may write.
        match Errno::result(unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) }) {
            Err(Errno::EINTR) => {}
            reaped => return reaped == Ok(child) && libc::WIFEXITED(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_without_a_filter_survives() {
        assert!(
            [RiskyCall::Bpf, RiskyCall::Ptrace, RiskyCall::OpenByHandle].into_iter().all(RiskyCall::child_survives)
        );
    }

    #[test]
    fn a_parent_that_ignores_sigchld_may_trace() {
        // SAFETY: the child, whose disposition is not that of the other tests, only makes system calls.
        let parent = unsafe { call(libc::SYS_clone, []) };
        if parent == Ok(0) {
            // SAFETY: as above.
            unsafe {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                if RiskyCall::Ptrace.child_survives() {
                    libc::_exit(0);
                }
                libc::abort();
            }
        }
        assert!(parent.is_ok_and(exits));
    }

    #[test]
    fn a_failed_fork_waits_for_no_other_child() {
        let mut another = std::process::Command::new("true").spawn().unwrap();
        assert!(!exits(-1));
        assert!(another.wait().unwrap().success());
    }

    #[test]
    fn a_child_that_a_signal_ends_does_not_survive() {
        let mut killed = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        killed.kill().unwrap();
        assert!(!exits(killed.id().into()));
        let _ = killed.wait();
    }
}
