//! Whether a seccomp filter would kill this process for looking into another.

use std::sync::OnceLock;

use nix::libc;

/// Whether `ptrace(2)` and `process_vm_readv(2)` return at all. A filter that kills for them, as
/// systemd's `SystemCallFilter=~@debug` does, can't be asked: where there is one, a child tries.
pub(crate) fn lets_look_into_others() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| !is_filtered() || child_survives())
}

/// `SECCOMP_MODE_FILTER`, as `status` says it.
fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status.lines().filter_map(|line| line.strip_prefix("Seccomp:")).any(|mode| mode.trim() == "2")
}

fn child_survives() -> bool {
    // SAFETY: the child makes three system calls, which take no memory of this process, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above. No process has the number 0, so nothing is traced and nothing is read.
        unsafe {
            libc::syscall(libc::SYS_ptrace, libc::PTRACE_DETACH, 0, 0, 0);
            libc::syscall(libc::SYS_process_vm_readv, 0, 0, 0, 0, 0, 0);
            libc::_exit(0);
        }
    }
    let mut status = 0;
    // SAFETY: `status` is an integer of this frame that the kernel may write.
    let reaped = unsafe { libc::waitpid(child, &raw mut status, 0) };
    child > 0 && reaped == child && libc::WIFEXITED(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_nobody_kills_survives() {
        assert!(child_survives());
    }
}
