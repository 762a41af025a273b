//! Where the counters are, relative to the thread pointer, and whether what is there can be counters.

use nix::errno::Errno;

use super::layouts::Offsets;
use crate::model::ProbeFailure;
use crate::sys::memory::AddressSpace;

/// No thread ever allocates this many bytes.
const IMPLAUSIBLE: u64 = 1 << 60;
/// No layout has its counters further apart.
const MAX_SPAN: usize = 256;
/// Maximum size of one read in bytes: it is on two pages at most.
const NEAR: usize = 4096;
/// The end of user space with five levels of page tables on x86-64, which no other machine exceeds.
const USER_SPACE: u64 = 1 << 56;

/// The location of the counters in the threads of a process: the offset of the thread-specific data from
/// the thread pointer, and the offsets in it.
#[derive(Clone, Copy, Debug)]
pub(in crate::capture) struct CounterLocation {
    distance: i64,
    offsets: Offsets,
    /// Number of bytes from the start of the first counter to the end of the last.
    span: usize,
}

impl CounterLocation {
    pub(super) fn new(distance: i64, offsets: Offsets) -> Result<Self, ProbeFailure> {
        let Offsets { allocated, deallocated } = offsets;
        let span = allocated.abs_diff(deallocated).checked_add(8).and_then(|span| usize::try_from(span).ok());
        let span = span.filter(|span| *span <= MAX_SPAN).ok_or(ProbeFailure::TlsArithmetic)?;
        Ok(Self { distance, offsets, span })
    }

    fn first(&self) -> u64 {
        self.offsets.allocated.min(self.offsets.deallocated)
    }

    /// The address of the first counter in the thread with that thread pointer. A thread that has set none, or a
    /// wrong one, has no counters.
    fn address(&self, thread_pointer: u64) -> Result<u64, ProbeFailure> {
        let start = thread_pointer.checked_add_signed(self.distance).and_then(|start| start.checked_add(self.first()));
        let is_user = |address: &u64| (1..USER_SPACE).contains(address);
        start.filter(|start| is_user(&thread_pointer) && is_user(start)).ok_or(ProbeFailure::TlsArithmetic)
    }

    /// Bytes allocated and deallocated by the thread with that thread pointer.
    pub(super) fn read(&self, space: &AddressSpace, thread_pointer: u64) -> Result<(u64, u64), ProbeFailure> {
        let address = self.address(thread_pointer)?;
        let mut bytes = [0; NEAR];
        // One read has the thread pointer's own word too, if that is near.
        let between = thread_pointer.checked_sub(address).and_then(|between| usize::try_from(between).ok());
        let near = between.filter(|between| *between <= NEAR - 8);
        let length = near.map_or(self.span, |between| self.span.max(between + 8));
        space.read(address, &mut bytes[..length]).map_err(unread)?;
        // A thread pointer can be that of the program before, and its user can have chosen it: then it would lead to any
        // place of this one. The ABI of x86-64 has a word there that tells.
        if cfg!(target_arch = "x86_64") {
            let mut word = [0; 8];
            match near {
                Some(between) => word.copy_from_slice(&bytes[between..between + 8]),
                None => space.read(thread_pointer, &mut word).map_err(unread)?,
            }
            if u64::from_ne_bytes(word) != thread_pointer {
                return Err(ProbeFailure::TlsArithmetic);
            }
        }
        self.counters(&bytes[..self.span])
    }

    /// The counters in the bytes at [`address`](Self::address).
    fn counters(&self, bytes: &[u8]) -> Result<(u64, u64), ProbeFailure> {
        let word = |at: u64| {
            let at = usize::try_from(at - self.first()).ok()?;
            Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
        };
        let Offsets { allocated, deallocated } = self.offsets;
        let (allocated, deallocated) = word(allocated).zip(word(deallocated)).ok_or(ProbeFailure::TlsArithmetic)?;
        if allocated.max(deallocated) > IMPLAUSIBLE {
            Err(ProbeFailure::Implausible)
        } else {
            Ok((allocated, deallocated))
        }
    }
}

/// Why memory of a process could not be read.
pub(super) fn unread(errno: Errno) -> ProbeFailure {
    match errno {
        Errno::ESRCH => ProbeFailure::PidMissing,
        _ => ProbeFailure::ProcessVmReadv,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(distance: i64, allocated: u64, deallocated: u64) -> Result<CounterLocation, ProbeFailure> {
        CounterLocation::new(distance, Offsets { allocated, deallocated })
    }

    #[test]
    fn impossible_addresses_are_tags() {
        assert_eq!(target(i64::MIN, 0, 8).unwrap().address(16), Err(ProbeFailure::TlsArithmetic));
        assert_eq!(target(0, u64::MAX, u64::MAX - 8).unwrap().address(16), Err(ProbeFailure::TlsArithmetic));
        for apart in [target(0, 0, 1 << 40), target(0, u64::MAX, 0), target(0, 0, 249)] {
            assert_eq!(apart.map(|_| ()), Err(ProbeFailure::TlsArithmetic));
        }
        assert_eq!(target(0, 0, 8).unwrap().address(16), Ok(16));
    }

    #[test]
    fn a_thread_without_a_thread_pointer_is_not_read_at_a_wild_address() {
        for distance in [-64, 64] {
            let target = target(distance, 0, 8).unwrap();
            for pointer in [0, 1 << 56, 0xffff_8880_0000_0000, u64::MAX] {
                assert_eq!(target.address(pointer), Err(ProbeFailure::TlsArithmetic), "{pointer:#x}");
            }
        }
        assert_eq!(target(1 << 55, 0, 8).unwrap().address(1 << 55), Err(ProbeFailure::TlsArithmetic));
    }

    #[test]
    fn counters_are_the_two_words_at_their_offsets() {
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
        let target = target(8, 16, 0).unwrap();
        assert_eq!((target.address(1000), target.span), (Ok(1008), 24));
        assert_eq!(target.counters(&bytes(&[6, 7, 8])), Ok((8, 6)));
        assert_eq!(target.counters(&bytes(&[u64::MAX, 0, 0])), Err(ProbeFailure::Implausible));
        assert_eq!(target.counters(&bytes(&[6, 7])), Err(ProbeFailure::TlsArithmetic));
    }
}
