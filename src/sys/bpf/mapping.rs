//! Memory that mmap(2) gave.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::{SysconfVar, sysconf};

/// Access that a mapping gives to its user.
#[derive(Clone, Copy, Debug)]
pub(in crate::sys) enum Access {
    /// The content does not change.
    Constant,
    /// The kernel writes, this process reads.
    Read,
    /// The kernel and the program both write.
    ReadWrite,
}

/// A range of a file in memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    address: NonNull<u8>,
    pub(in crate::sys) length: usize,
}

// SAFETY: the memory belongs to the process, not to a thread; whoever reads it orders accesses itself.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; a shared mapping gives out an address only.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps `length` bytes from `offset`, a multiple of the page size.
    pub(in crate::sys) fn new(
        file: BorrowedFd<'_>,
        offset: usize,
        length: usize,
        access: Access,
    ) -> Result<Self, Errno> {
        let (protection, flags) = match access {
            Access::Constant => (libc::PROT_READ, libc::MAP_PRIVATE),
            Access::Read => (libc::PROT_READ, libc::MAP_SHARED),
            Access::ReadWrite => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED),
        };
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
        // SAFETY: the kernel chooses an unused range of addresses.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), offset) };
        if address == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        Ok(Self { address: NonNull::new(address.cast()).ok_or(Errno::EFAULT)?, length })
    }

    /// The first byte; valid for `length` bytes.
    pub(in crate::sys) fn start(&self) -> *mut u8 {
        self.address.as_ptr()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and what was borrowed from this value no longer exists.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.length) };
    }
}

pub(in crate::sys) fn page_size() -> Result<usize, Errno> {
    let size = sysconf(SysconfVar::PAGE_SIZE)?.ok_or(Errno::EINVAL)?;
    usize::try_from(size).map_err(|_| Errno::EINVAL)
}
