//! Reads memory of other processes.

use std::io::IoSliceMut;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::seccomp;

/// Fills `buffer` from `address` in the memory of process `pid`.
///
/// # Errors
/// `EFAULT` if the range is not fully mapped, `EPERM`, `ESRCH`.
pub(crate) fn read(pid: u32, address: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let pid = Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ESRCH)?);
    let base = usize::try_from(address).map_err(|_| Errno::EFAULT)?;
    let remote = RemoteIoVec { base, len: buffer.len() };
    let wanted = buffer.len();
    if !seccomp::allows_tracing() {
        return Err(Errno::EPERM);
    }
    let read = process_vm_readv(pid, &mut [IoSliceMut::new(buffer)], &[remote])?;
    if read == wanted { Ok(()) } else { Err(Errno::EFAULT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_whole_or_not_at_all() {
        let known = *b"0123456789abcdef";
        let address = known.as_ptr() as u64;
        let mut copy = [0; 16];
        match read(std::process::id(), address, &mut copy) {
            Err(errno) => eprintln!("skipped: this sandbox does not allow process_vm_readv: {errno}"),
            Ok(()) => assert_eq!(copy, known),
        }
        assert!(read(std::process::id(), 8, &mut copy).is_err());
        assert!(read(u32::MAX, address, &mut copy).is_err());
    }
}
