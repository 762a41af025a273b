//! Reads memory of other processes.

use std::io::IoSliceMut;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::seccomp;

/// How many ranges the kernel reads in one call: `UIO_MAXIOV` of `include/uapi/linux/uio.h`.
const MAX_RANGES: usize = 1024;

/// Fills `buffer` from `address` in the memory of process `pid`.
///
/// # Errors
/// `EFAULT` if the range is not fully mapped, `EPERM`, `ESRCH`.
pub(crate) fn read(pid: u32, address: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let wanted = buffer.len();
    let read = transfer(pid, &[address], wanted, buffer)?;
    if read == wanted { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Reads `size` bytes, at least one, from each of `addresses` in the memory of process `pid`, with many ranges per
/// system call. Passes the bytes or the error of each range to `found`, in order, with its place in `addresses`.
///
/// A range that is not fully mapped is `EFAULT` and costs a call of its own. Any other error is that of all further
/// ranges.
pub(crate) fn read_each(pid: u32, addresses: &[u64], size: usize, mut found: impl FnMut(usize, Result<&[u8], Errno>)) {
    let mut buffer = vec![0; size * addresses.len().min(MAX_RANGES)];
    let mut next = 0;
    while next < addresses.len() {
        let ranges = &addresses[next..addresses.len().min(next + MAX_RANGES)];
        let read = transfer(pid, ranges, size, &mut buffer[..size * ranges.len()]);
        // The kernel stops in the first range with an unmapped page.
        let whole = read.map_or(0, |bytes| bytes / size);
        (next..).zip(buffer.chunks_exact(size).take(whole)).for_each(|(place, bytes)| found(place, Ok(bytes)));
        next += whole;
        match read {
            Ok(_) if whole == ranges.len() => {}
            Ok(_) | Err(Errno::EFAULT) => {
                found(next, Err(Errno::EFAULT));
                next += 1;
            }
            Err(errno) => return (next..addresses.len()).for_each(|place| found(place, Err(errno))),
        }
    }
}

/// Fills `buffer` with ranges of `size` bytes, one after another. Returns the number of bytes read.
fn transfer(pid: u32, addresses: &[u64], size: usize, buffer: &mut [u8]) -> Result<usize, Errno> {
    let pid = Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ESRCH)?);
    // No process has memory at the last address.
    let base = |address: u64| usize::try_from(address).unwrap_or(usize::MAX);
    let ranges: Vec<_> = addresses.iter().map(|&address| RemoteIoVec { base: base(address), len: size }).collect();
    if !seccomp::allows_tracing() {
        return Err(Errno::EPERM);
    }
    process_vm_readv(pid, &mut [IoSliceMut::new(buffer)], &ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn memory_is_read_whole_or_not_at_all() {
        let known = *b"0123456789abcdef";
        let address = known.as_ptr() as u64;
        let mut copy = [0; 16];
        match read(std::process::id(), address, &mut copy) {
            Err(errno) => skipped(Missing::Privilege(format!("process_vm_readv: {errno}"))),
            Ok(()) => assert_eq!(copy, known),
        }
        assert!(read(std::process::id(), 8, &mut copy).is_err());
        assert!(read(u32::MAX, address, &mut copy).is_err());
    }

    /// The words at `addresses` of this process, and how often each place was reported.
    fn words(addresses: &[u64]) -> Vec<Result<u64, Errno>> {
        let mut words = Vec::new();
        read_each(std::process::id(), addresses, 8, |place, bytes| {
            assert_eq!(place, words.len(), "each place once, in order");
            words.push(bytes.map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap())));
        });
        words
    }

    #[test]
    fn an_unmapped_range_hid_the_ranges_behind_it() {
        let known: Vec<u64> = (0..3000).collect();
        let addresses: Vec<u64> = known.iter().map(|word| std::ptr::from_ref(word) as u64).collect();
        if words(&addresses[..1]) == [Err(Errno::EPERM)] {
            return skipped(Missing::Privilege("process_vm_readv"));
        }
        // None, the first, one in the middle, both sides of a call's last range, two in a row, and the last.
        for unmapped in [&[][..], &[0], &[700], &[1023], &[1024], &[1500, 1501], &[2999], &[0, 1023, 2047, 2999]] {
            let mut addresses = addresses.clone();
            unmapped.iter().for_each(|&place: &usize| addresses[place] = 8);
            for (place, word) in words(&addresses).into_iter().enumerate() {
                let expected = if unmapped.contains(&place) { Err(Errno::EFAULT) } else { Ok(known[place]) };
                assert_eq!(word, expected, "{place} of {unmapped:?}");
            }
        }
        assert_eq!(words(&[8, u64::MAX, 1 << 63]), [Err(Errno::EFAULT); 3]);
        assert_eq!(words(&[]), []);
    }

    #[test]
    fn a_range_that_ends_in_an_unmapped_page_is_not_half_read() {
        // SAFETY: a new mapping of two pages at an address that the kernel chooses, and the removal of its second.
        let page = unsafe {
            let (length, flags) = (1 << 17, nix::libc::MAP_PRIVATE | nix::libc::MAP_ANONYMOUS);
            let pages = nix::libc::mmap(std::ptr::null_mut(), length, nix::libc::PROT_READ, flags, -1, 0);
            assert_eq!(nix::libc::munmap(pages.byte_add(1 << 16), 1 << 16), 0);
            pages as u64
        };
        let read = words(&[page, page + (1 << 16) - 4, page + 8]);
        match read[0] {
            Err(errno) => skipped(Missing::Privilege(format!("process_vm_readv: {errno}"))),
            Ok(_) => assert_eq!(read, [Ok(0), Err(Errno::EFAULT), Ok(0)]),
        }
    }

    #[test]
    fn the_ranges_of_an_exited_process_fail_in_one_call() {
        let mut errors = Vec::new();
        read_each(u32::MAX >> 1, &[8; 2000], 8, |_, bytes| errors.push(bytes.err()));
        assert!(errors.len() == 2000 && errors.iter().all(Option::is_some), "{:?}", errors.first());
    }
}
