//! Maps: memory that programs share with this process.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;

use super::command::{self, MAP_CREATE};
use super::mapping::{Access, SharedMemory, page_size};

/// Map type `BPF_MAP_TYPE_ARRAY` of `enum bpf_map_type`.
const ARRAY: u32 = 2;
const PER_CPU_ARRAY: u32 = 6;
const RING_BUFFER: u32 = 27;

/// `BPF_F_MMAPABLE` (Linux 5.5).
const MAPPABLE: u32 = 1 << 10;

/// Creates a map with this number of entries and these sizes of key and value. `EPERM`: denied, or above the limit of locked
/// memory.
fn create(kind: u32, [key, value]: [u32; 2], entries: u32, flags: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: the attributes have no addresses.
    unsafe { command::open(MAP_CREATE, &mut [kind, key, value, entries, flags]) }
}

/// Creates a map with one element per CPU, of `value_size` bytes rounded up to a multiple of 8, for data that does not fit the
/// stack of a program. `E2BIG` above 32 KiB.
pub(crate) fn per_cpu_array(value_size: u32) -> Result<OwnedFd, Errno> {
    let value_size = value_size.checked_next_multiple_of(8).ok_or(Errno::E2BIG)?;
    create(PER_CPU_ARRAY, [4, value_size], 1, 0)
}

/// A map for [`Ring`](super::ring::Ring), of `size` bytes.
pub(super) fn ring_buffer(size: u32) -> Result<OwnedFd, Errno> {
    create(RING_BUFFER, [0; 2], size, 0)
}

/// An array of `u64`, which programs look up by number. This process reads and writes it through memory, which needs no
/// capability: before Linux 5.19, system calls about maps do.
#[derive(Debug)]
pub(crate) struct SharedWords {
    pub(crate) map: OwnedFd,
    words: SharedMemory,
    length: usize,
}

impl SharedWords {
    /// Creates `length` words of 64 bits, all 0.
    pub(crate) fn new(length: u32) -> Result<Self, Errno> {
        let map = create(ARRAY, [4, 8], length, MAPPABLE)?;
        let length = usize::try_from(length).map_err(|_| Errno::E2BIG)?;
        let bytes = (8 * length).next_multiple_of(page_size()?);
        let words = SharedMemory::new(map.as_fd(), 0, bytes, Access::ReadWrite)?;
        Ok(Self { map, words, length })
    }

    /// Makes every word 0.
    pub(crate) fn clear(&self) {
        self.all().iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// How many words there are.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// The word with this number.
    pub(crate) fn get(&self, number: usize) -> u64 {
        self.all()[number].load(Ordering::Relaxed)
    }

    /// Sets the word with this number.
    pub(crate) fn set(&self, number: usize, word: u64) {
        self.all()[number].store(word, Ordering::Relaxed);
    }

    fn all(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this many words, and starts at a page; programs change them word by word.
        unsafe { std::slice::from_raw_parts(self.words.start().cast::<AtomicU64>(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use crate::skip::{Missing, skipped};
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};

    use super::*;

    #[test]
    fn words_start_at_zero_and_a_started_command_does_not_inherit_them() {
        let words = match SharedWords::new(1) {
            Ok(words) => words,
            Err(errno) => return skipped(Missing::Privilege(format!("BPF maps: {errno}"))),
        };
        assert_eq!(words.get(0), 0);
        let flags = fcntl(&words.map, FcntlArg::F_GETFD).unwrap();
        assert!(FdFlag::from_bits_retain(flags).contains(FdFlag::FD_CLOEXEC));
    }

    #[test]
    fn an_element_larger_than_the_kernel_allows_is_an_error() {
        match per_cpu_array(1) {
            Err(errno) => return skipped(Missing::Privilege(format!("BPF maps: {errno}"))),
            Ok(map) => drop(map),
        }
        // Linux 5.10 meets the limit of locked memory first.
        assert!(per_cpu_array(1 << 16).is_err());
        assert_eq!(per_cpu_array(u32::MAX).map(drop), Err(Errno::E2BIG));
    }
}
