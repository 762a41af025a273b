//! `fcntl(2)`: a descriptor of this process by its number.

use std::os::fd::{FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;

/// Another descriptor of the open file that descriptor `number` of this process has.
///
/// # Errors
/// `EBADF` if there is none.
pub(crate) fn duplicate(number: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel checks the number, and takes no memory.
    let new = Errno::result(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(new) })
}
