//! Dispositions of signals, and what a command inherits of them.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// Whether SIGPIPE was ignored when this program started: Rust's runtime ignores it before `main`.
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

// SAFETY: the C library calls the functions in this section before `main`. The function makes a system call
// and sets an atomic variable, neither of which needs Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static READ_AT_START: extern "C" fn() = read_at_start;

extern "C" fn read_at_start() {
    PIPE_WAS_IGNORED.store(is_ignored(Signal::SIGPIPE), Ordering::Relaxed);
}

/// Whether `signal` is ignored; for SIGPIPE, whether it was ignored when this program started.
pub(crate) fn was_ignored(signal: Signal) -> bool {
    if signal == Signal::SIGPIPE { PIPE_WAS_IGNORED.load(Ordering::Relaxed) } else { is_ignored(signal) }
}

fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the current action is written to `action`, which has its type; no action is set.
    let read = Errno::result(unsafe { libc::sigaction(signal as i32, ptr::null(), action.as_mut_ptr()) });
    // SAFETY: the call has filled `action`, and zeroes are valid too.
    read.is_ok() && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Sets the default action of SIGCHLD. While it is ignored, the kernel reaps children itself.
pub(crate) fn keep_zombies() -> Result<(), Errno> {
    // SAFETY: no function is installed.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map(drop)
}

/// Makes `command` start with the signal mask `mask` and with the signals of `ignored` ignored.
pub(crate) fn inherit(command: &mut Command, mask: SigSet, ignored: Vec<Signal>) {
    let restore = move || {
        for &one in &ignored {
            // SAFETY: no function is installed.
            unsafe { signal(one, SigHandler::SigIgn) }?;
        }
        mask.thread_set_mask().map_err(io::Error::from)
    };
    // SAFETY: between fork and exec, the function only makes async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(restore) };
}
