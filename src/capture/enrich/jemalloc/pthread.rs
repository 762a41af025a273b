//! Thread pointers that the C library tells: no thread is stopped for them.
//!
//! Each thread of glibc tells the kernel where its list of robust locks is, which is a part of its `struct pthread`
//! (nptl/descr.h), as the kernel has to find it when the thread exits. That structure is at the thread pointer of x86-64.

use super::super::super::process::Process;
use crate::sys::memory::AddressSpace;
use crate::sys::robust;

/// How far the head of the list is behind the thread's id, on every machine: `pid_t tid`, an unused one, and a pointer.
const HEAD_BEHIND_ID: u64 = 16;
/// How far it is behind the thread pointer.
const HEAD_BEHIND_POINTER: u64 = 0x2e0;

/// The thread pointer of thread `tid`; `None` if glibc has not started it.
pub(super) fn thread_pointer(space: &AddressSpace, process: &Process, tid: u32) -> Option<u64> {
    let head = robust::list(tid).ok().filter(|_| cfg!(target_arch = "x86_64"))?;
    let mut id = [0; 4];
    space.read(head.checked_sub(HEAD_BEHIND_ID)?, &mut id).ok()?;
    let id = u32::from_ne_bytes(id);
    let is_its_id = || id == tid || process.innermost_id(tid) == Some(id);
    is_its_id().then(|| head.checked_sub(HEAD_BEHIND_POINTER)).flatten()
}
