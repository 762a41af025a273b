//! `get_robust_list(2)`: where a thread keeps its list of robust locks, which it has told the kernel.

use nix::errno::Errno;
use nix::libc;

use super::{address, call};

/// The address of the head of the list of thread `tid`; 0 if it has none. The thread is not disturbed.
///
/// # Errors
/// `EPERM` where the memory of the thread may not be read, `ESRCH`.
pub(crate) fn list(tid: u32) -> Result<u64, Errno> {
    let (mut head, mut size) = (0_u64, 0_usize);
    let arguments = [tid.into(), address(&raw mut head), address(&raw mut size)];
    // SAFETY: the kernel writes an address and a size, to variables of these sizes.
    unsafe { call(libc::SYS_get_robust_list, arguments) }?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_exist_has_no_list() {
        assert_eq!(list(u32::MAX >> 1), Err(Errno::ESRCH));
    }
}
