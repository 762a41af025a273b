//! A ring buffer that programs write records to and this process maps, as in
//! `Documentation/bpf/ringbuf.rst` and `kernel/bpf/ringbuf.c`.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

use nix::errno::Errno;

use super::map::ring_buffer;
use super::mapping::{Access, SharedMemory, page_size};

/// `BPF_RINGBUF_HDR_SZ`: the length of a record with two flags, and a number of the kernel's own.
const HEADER: usize = 8;
/// `BPF_RINGBUF_BUSY_BIT`: a program still writes the record.
const BUSY: u32 = 1 << 31;
/// `BPF_RINGBUF_DISCARD_BIT`: a program reserved the record and gave it up.
const DISCARDED: u32 = 1 << 30;

/// A ring buffer and its only reader. poll(2) finds it readable if it has records.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Starts with this reader's position, an `unsigned long`.
    consumer: SharedMemory,
    /// Starts with the programs' position. The records follow from the second page on, twice, so that
    /// one that wraps around is in one piece.
    producer: SharedMemory,
    page: usize,
    /// A power of two.
    size: usize,
    pub(crate) map: OwnedFd,
}

impl Ring {
    /// A ring of at least `size` bytes: a power of two and at least a page. `EINVAL` for a kernel without ring buffers
    /// (before 5.8).
    pub(crate) fn new(size: u32) -> Result<Self, Errno> {
        let page = page_size()?;
        let size = usize::try_from(size).ok().and_then(|size| size.max(page).checked_next_power_of_two());
        let size = size.ok_or(Errno::E2BIG)?;
        Self::map(ring_buffer(u32::try_from(size).map_err(|_| Errno::E2BIG)?)?, size, page)
    }

    fn map(map: OwnedFd, size: usize, page: usize) -> Result<Self, Errno> {
        Ok(Self {
            consumer: SharedMemory::new(map.as_fd(), 0, page, Access::ReadWrite)?,
            producer: SharedMemory::new(map.as_fd(), page, page + 2 * size, Access::Read)?,
            page,
            size,
            map,
        })
    }

    /// Calls `each` with every record that was complete when this call started, in order, and frees the space of the records.
    ///
    /// `EBADMSG` if a position or a length does not fit the ring. The start of the next record is then unknown: all records up to
    /// here are skipped, and the next call returns records that were written later.
    pub(crate) fn take(&mut self, mut each: impl FnMut(&[u8])) -> Result<(), Errno> {
        let end = acquire(|| position(&self.producer).load(Ordering::Relaxed));
        let mut start = position(&self.consumer).load(Ordering::Relaxed);
        while start != end {
            let available = end.wrapping_sub(start);
            let header = acquire(|| self.header(start).load(Ordering::Relaxed));
            if header & BUSY != 0 {
                break;
            }
            let length = usize::try_from(header & !DISCARDED).map_err(|_| Errno::EBADMSG)?;
            let space = HEADER + length.next_multiple_of(8);
            if available > self.size || space > available {
                position(&self.consumer).store(end, Ordering::Release);
                return Err(Errno::EBADMSG);
            }
            if header & DISCARDED == 0 {
                each(self.record(start, length));
            }
            start = start.wrapping_add(space);
            position(&self.consumer).store(start, Ordering::Release);
        }
        Ok(())
    }

    /// Where in the mapping a position is; positions only grow.
    fn place(&self, position: usize) -> usize {
        self.page + (position & (self.size - 1))
    }

    fn header(&self, position: usize) -> &AtomicU32 {
        // The positions of records are multiples of 8. Any other would read beyond the end or unaligned.
        let place = self.place(position) & !7;
        // SAFETY: the place is below `page + size`, so it is in the mapping with more than a header behind it,
        // and aligned; the kernel accesses it atomically too.
        unsafe { &*self.producer.start().add(place).cast::<AtomicU32>() }
    }

    /// The bytes behind a header. `length` is at most `size`.
    fn record(&self, position: usize, length: usize) -> &[u8] {
        let place = self.place(position) & !7;
        assert!(place + HEADER + length <= self.producer.length, "a record is inside of the ring");
        // SAFETY: the range is in the mapping, by the assertion. Programs write there again only after the
        // reader's position is behind it, which changes after the borrow ends.
        unsafe { std::slice::from_raw_parts(self.producer.start().add(place + HEADER), length) }
    }
}

/// A relaxed load and a fence: memory that is mapped for reading only allows no other atomic load
/// (`std::sync::atomic`, "Atomic accesses to read-only memory").
fn acquire<T>(relaxed_load: impl FnOnce() -> T) -> T {
    let value = relaxed_load();
    fence(Ordering::Acquire);
    value
}

/// The `unsigned long` at the start of a mapping.
fn position(mapping: &SharedMemory) -> &AtomicUsize {
    // SAFETY: a mapping has at least one page and starts at a page; the kernel accesses it atomically too.
    // Nothing stores to the read-only one.
    unsafe { &*mapping.start().cast::<AtomicUsize>() }
}

#[cfg(test)]
mod tests {
    use crate::skip::{Missing, skipped};
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A ring in a file, written as the kernel would.
    struct Fake {
        file: File,
        ring: Ring,
    }

    impl Fake {
        /// An empty ring of one page, with both positions at `position`.
        fn at(position: usize) -> Self {
            let page = page_size().unwrap();
            let file = tempfile::tempfile().unwrap();
            file.set_len(u64::try_from(4 * page).unwrap()).unwrap();
            let ring = Ring::map(file.try_clone().unwrap().into(), page, page).unwrap();
            let fake = Self { file, ring };
            fake.write(0, &position.to_ne_bytes());
            fake.produced(position);
            fake
        }

        fn write(&self, offset: usize, bytes: &[u8]) {
            self.file.write_all_at(bytes, u64::try_from(offset).unwrap()).unwrap();
        }

        fn produced(&self, position: usize) {
            self.write(self.ring.page, &position.to_ne_bytes());
        }

        /// Writes a record to both copies of the ring; returns the position behind it.
        fn record(&self, position: usize, header: u32, bytes: &[u8]) -> usize {
            let page = self.ring.page;
            let all = [&header.to_ne_bytes(), &[0; 4], bytes].concat();
            for (at, &byte) in (position..).zip(&all) {
                for copy in [2, 3] {
                    self.write(copy * page + at % page, &[byte]);
                }
            }
            position + all.len().next_multiple_of(8)
        }

        fn taken(&mut self) -> Result<Vec<Vec<u8>>, Errno> {
            let mut taken = Vec::new();
            self.ring.take(|record| taken.push(record.to_owned())).map(|()| taken)
        }
    }

    #[test]
    fn memory_that_is_only_readable_has_no_loads_but_relaxed_ones() {
        let code = include_str!("ring.rs").split("#[cfg(test)]").next().unwrap();
        let loads: Vec<_> = code.lines().filter(|line| line.contains(".load(")).collect();
        assert!(loads.len() == 3 && loads.iter().all(|line| line.contains("load(Ordering::Relaxed)")), "{loads:#?}");
    }

    #[test]
    fn a_record_that_wraps_around_is_in_one_piece() {
        let start = 5 * page_size().unwrap() - 16;
        let mut fake = Fake::at(start);
        let first = fake.record(start, 13, b"around-an-end");
        let second = fake.record(first, 3, b"two");
        fake.produced(second);
        assert_eq!(fake.taken(), Ok(vec![b"around-an-end".to_vec(), b"two".to_vec()]));
        assert_eq!(fake.taken(), Ok(vec![]));
    }

    #[test]
    fn discarded_records_are_skipped_and_busy_ones_awaited() {
        let mut fake = Fake::at(0);
        let first = fake.record(0, 2 | DISCARDED, b"no");
        let second = fake.record(first, 3, b"yes");
        let third = fake.record(second, 4 | BUSY, b"soon");
        fake.produced(third);
        assert_eq!(fake.taken(), Ok(vec![b"yes".to_vec()]));
        assert_eq!(fake.taken(), Ok(vec![]));
        fake.record(second, 4, b"soon");
        assert_eq!(fake.taken(), Ok(vec![b"soon".to_vec()]));
    }

    #[test]
    fn lengths_and_positions_beyond_the_ring_are_errors() {
        for (length, produced) in [(9, 16), (DISCARDED - 1, 4096), (0, 4), (0, 1 << 20), (0, usize::MAX)] {
            let mut fake = Fake::at(0);
            fake.record(0, length, b"");
            fake.produced(produced);
            assert_eq!(fake.taken(), Err(Errno::EBADMSG), "{length} {produced}");
        }
    }

    #[test]
    fn records_behind_a_damaged_one_are_skipped_and_later_ones_are_taken() {
        let mut fake = Fake::at(0);
        let damaged = fake.record(0, 3, b"one");
        let skipped = fake.record(damaged, 9000, b"damaged");
        let end = fake.record(skipped, 4, b"lost");
        fake.produced(end);
        let mut taken = Vec::new();
        assert_eq!(fake.ring.take(|record| taken.push(record.to_owned())), Err(Errno::EBADMSG));
        assert_eq!(taken, [b"one"]);
        assert_eq!(fake.taken(), Ok(vec![]));
        let later = fake.record(end, 5, b"later");
        fake.produced(later);
        assert_eq!(fake.taken(), Ok(vec![b"later".to_vec()]));
    }

    #[test]
    fn a_ring_of_the_kernel_is_empty_and_rounded_to_pages() {
        let mut ring = match Ring::new(1) {
            Ok(ring) => ring,
            Err(errno) => return skipped(Missing::Privilege(format!("BPF ring buffers: {errno}"))),
        };
        assert_eq!(ring.size, ring.page);
        assert_eq!(ring.take(|_| panic!("no record yet")), Ok(()));
    }
}
