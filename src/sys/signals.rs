//! Dispositions of signals: how ctprof receives them, and which ones a command inherits.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// Signals that this program ignores: Rust's runtime ignores SIGPIPE before `main`.
const IGNORED: [Signal; 2] = [Signal::SIGPIPE, Signal::SIGXFSZ];

/// Whether each was ignored when this program started.
static WERE_IGNORED: [AtomicBool; IGNORED.len()] = [const { AtomicBool::new(false) }; IGNORED.len()];

// SAFETY: the C library calls the functions in this section before `main`. The function makes system calls
// and sets atomic variables, neither of which needs Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static READ_AT_START: extern "C" fn() = read_at_start;

extern "C" fn read_at_start() {
    for (signal, was_ignored) in IGNORED.into_iter().zip(&WERE_IGNORED) {
        was_ignored.store(is_ignored(signal), Ordering::Relaxed);
    }
}

/// Whether `signal` is ignored; for one that this program ignores, whether it was ignored when this program started.
pub(crate) fn was_ignored(signal: Signal) -> bool {
    let place = IGNORED.iter().position(|ignored| *ignored == signal);
    place.map_or_else(|| is_ignored(signal), |place| WERE_IGNORED[place].load(Ordering::Relaxed))
}

/// Makes a write beyond the limit of file sizes (`RLIMIT_FSIZE`) fail with `EFBIG` instead of ending this process.
pub(crate) fn fail_writes_beyond_limit() -> Result<(), Errno> {
    // SAFETY: no function is installed.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }.map(drop)
}

fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the current action is written to `action`, which has its type; no action is set.
    let read = Errno::result(unsafe { libc::sigaction(signal as i32, ptr::null(), action.as_mut_ptr()) });
    // SAFETY: the call has filled `action`, and zeroes are valid too.
    read.is_ok() && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Sets the default action of SIGCHLD if it is ignored: then, the kernel would reap children itself.
pub(crate) fn keep_zombies() -> Result<(), Errno> {
    if !is_ignored(Signal::SIGCHLD) {
        return Ok(());
    }
    // SAFETY: no function is installed.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map(drop)
}

/// Makes `command` start with the signal mask `mask` and with the signals of `ignored` ignored, but no other that this
/// program ignores.
pub(crate) fn inherit(command: &mut Command, mask: SigSet, ignored: Vec<Signal>) {
    let restore = move || {
        let defaults = IGNORED.iter().map(|&one| (one, SigHandler::SigDfl));
        for (one, action) in defaults.chain(ignored.iter().map(|&one| (one, SigHandler::SigIgn))) {
            // SAFETY: no function is installed.
            unsafe { signal(one, action) }?;
        }
        mask.thread_set_mask().map_err(io::Error::from)
    };
    // SAFETY: between fork and exec, the function only makes async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(restore) };
}
