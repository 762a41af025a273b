//! Files by their number in a kernfs, such as a hierarchy of cgroups.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;

use super::seccomp::RiskyCall;
use super::{address, call};

/// `FILEID_KERNFS` of `include/linux/exportfs.h`.
const KERNFS: i32 = 0xfe;

/// `struct file_handle` of `include/linux/fs.h`, of a kernfs.
#[repr(C)]
struct KernfsHandle {
    bytes: u32,
    kind: i32,
    id: [u8; 8],
}

/// Opens the directory with this number as a mere path. `directory` is one of the same kernfs.
pub(crate) fn open_kernfs(directory: BorrowedFd<'_>, id: u64) -> Result<OwnedFd, Errno> {
    if !RiskyCall::OpenByHandle.returns() {
        return Err(Errno::EPERM);
    }
    let handle = KernfsHandle { bytes: 8, kind: KERNFS, id: id.to_ne_bytes() };
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let arguments = [directory.as_raw_fd().into(), address(&raw const handle), flags.into()];
    // SAFETY: the kernel only reads the handle, which is as long as it says.
    let new = unsafe { call(libc::SYS_open_by_handle_at, arguments) }?;
    let new = RawFd::try_from(new).map_err(|_| Errno::EBADF)?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(new) })
}
