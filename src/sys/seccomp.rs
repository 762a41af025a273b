//! Whether a seccomp filter would kill this process for using ptrace.

use std::sync::OnceLock;

use nix::errno::Errno;
use nix::libc;

use super::call;

/// Whether `ptrace(2)` returns at all. A filter can kill the caller, as systemd's
/// `SystemCallFilter=~@debug` does: if there is a filter, a child process tries first.
pub(crate) fn allows_tracing() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| !is_filtered() || child_survives())
}

/// Whether `status` says `SECCOMP_MODE_FILTER`.
fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status.lines().filter_map(|line| line.strip_prefix("Seccomp:")).any(|mode| mode.trim() == "2")
}

fn child_survives() -> bool {
    // Without a signal at its exit: where SIGCHLD is ignored, the kernel would not keep its status.
    // SAFETY: the child has memory of its own, makes two system calls, which take no memory of this process, and
    // exits.
    let child = unsafe { call(libc::SYS_clone, []) };
    if child == Ok(0) {
        // SAFETY: as above. No process has the number 0, so nothing is traced.
        unsafe {
            let _ = call(libc::SYS_ptrace, [libc::PTRACE_DETACH.into()]);
            libc::_exit(0);
        }
    }
    child.is_ok_and(exits)
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
        assert!(child_survives());
    }

    #[test]
    fn a_parent_that_ignores_sigchld_may_trace() {
        // SAFETY: the disposition is set before and after in the only thread that looks at it.
        let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        let survives = child_survives();
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGCHLD, before) };
        assert!(survives);
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
