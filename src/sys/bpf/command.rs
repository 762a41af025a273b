//! The system call itself.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc::{self, c_long};

use super::super::{call, length};

pub(super) const MAP_CREATE: u32 = 0;
pub(super) const PROG_LOAD: u32 = 5;
pub(super) const PROG_TEST_RUN: u32 = 10;
pub(super) const RAW_TRACEPOINT_OPEN: u32 = 17;
pub(super) const LINK_CREATE: u32 = 28;
pub(super) const ITER_CREATE: u32 = 33;

/// The verifier returns `EAGAIN` if a signal is pending; libbpf tries as often (`PROG_LOAD_ATTEMPTS`).
const TRIES: u32 = 5;

/// Runs a command that returns a new descriptor. `attributes` is the command's part of `union bpf_attr`, without padding;
/// the kernel takes what is beyond it for zero.
///
/// # Safety
/// The addresses in `attributes` are valid for what the command reads and writes there.
pub(super) unsafe fn open<T>(command: u32, attributes: &mut T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's promise.
    let mut once = || unsafe { run(command, attributes) };
    let is_final = |result: &Result<_, _>| !matches!(result, Err(Errno::EAGAIN | Errno::EINTR));
    let result = (1..TRIES).map(|_| once()).find(is_final).unwrap_or_else(once);
    let descriptor = i32::try_from(result?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just opened it, and nothing else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Runs a command once, and returns what the kernel does.
///
/// # Safety
/// As [`open`].
pub(super) unsafe fn run<T>(command: u32, attributes: &mut T) -> Result<c_long, Errno> {
    let arguments = [command.into(), super::super::address(std::ptr::from_mut(attributes)), length(size_of::<T>())];
    // SAFETY: the kernel reads and writes at most the given number of bytes at the address, which is a
    // structure of integers of that size; its addresses are the caller's promise.
    unsafe { call(libc::SYS_bpf, arguments) }
}

/// A descriptor as a field of the attributes.
pub(super) fn number(descriptor: BorrowedFd<'_>) -> u32 {
    descriptor.as_raw_fd().cast_unsigned()
}

/// The address of a value as a field of the attributes: the kernel may access the value through it.
pub(super) fn address<T>(value: *const T) -> u64 {
    u64::try_from(value.expose_provenance()).expect("addresses have at most 64 bits")
}
