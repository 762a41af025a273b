//! Whether standard output was closed when the program started. The standard library opens `/dev/null` in its place
//! before `main`, so that what is written would be lost without an error.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: functions in this section are called before `main`, and this one uses nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: the kernel checks the number, and takes no memory.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

pub(crate) fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}
