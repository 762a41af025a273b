//! Standard output, which the process may have been started without.

use std::io;

use nix::errno::Errno;

use crate::sys::stdout::was_closed;

/// Fails with `EBADF` if standard output was closed when the program started.
pub(crate) fn check_stdout() -> io::Result<()> {
    if was_closed() { Err(Errno::EBADF.into()) } else { Ok(()) }
}
