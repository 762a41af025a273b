//! Samples of what a CPU runs, by the software clock of `perf_event_open(2)` and `include/uapi/linux/perf_event.h`.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::libc;

use super::bpf::{Access, SharedMemory, page_size};
use super::call;

/// `PERF_TYPE_SOFTWARE`, whose first event is the clock of a CPU.
const SOFTWARE: u64 = 1;
/// `PERF_ATTR_SIZE_VER3`: up to the registers and the stack.
const ATTRIBUTE_BYTES: u64 = 96;
/// Fields of each sample: `PERF_SAMPLE_TID | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER`.
const CONTENT: u64 = 1 << 1 | 1 << 12 | 1 << 13;
/// Bits of `struct perf_event_attr` that are set: `exclude_idle | freq`.
const FLAGS: u64 = 1 << 7 | 1 << 10;
const CLOSE_ON_EXEC: libc::c_long = 8;
/// Record type `PERF_RECORD_SAMPLE` of the ring.
const SAMPLE: u64 = 9;
/// Size of the copied stack in each sample, in bytes.
const STACK_BYTES: u64 = 8192;
/// Size of the ring in bytes, a power of two: the kernel drops samples once it is full.
const RING_BYTES: usize = 1 << 18;
/// Places of `data_head` and `data_tail` in `struct perf_event_mmap_page`, in words.
const HEAD: usize = 128;
const TAIL: usize = 129;

/// Samples a CPU until it is dropped.
#[derive(Debug)]
pub(crate) struct CpuClock {
    /// A page with positions, and the records.
    ring: SharedMemory,
    page: usize,
    _event: OwnedFd,
    record: Vec<u64>,
}

/// A thread that ran in its own code, or in the kernel on behalf of it.
#[derive(Debug)]
pub(crate) struct RunningSample<'r> {
    pub(crate) tgid: u32,
    pub(crate) tid: u32,
    /// The registers of its own code that were asked for, in the order of their bits.
    pub(crate) registers: &'r [u64],
    /// The words from its stack pointer on.
    pub(crate) stack: &'r [u64],
}

impl CpuClock {
    /// Samples what a CPU runs so many times per second, with registers as `arch/*/include/uapi/asm/perf_regs.h` numbers their bits.
    /// `EACCES` without `CAP_PERFMON`, `ENODEV` for a CPU that is offline.
    pub(crate) fn open(cpu: u32, frequency: u64, registers: u64) -> Result<Self, Errno> {
        let kind = SOFTWARE | ATTRIBUTE_BYTES << 32;
        let attributes = [kind, 0, frequency, CONTENT, 0, FLAGS, 0, 0, 0, 0, registers, STACK_BYTES];
        let pointer = attributes.as_ptr().expose_provenance().cast_signed() as libc::c_long;
        // SAFETY: the kernel reads as many bytes of the attributes as they say that they have.
        let event = unsafe { call(libc::SYS_perf_event_open, [pointer, -1, cpu.into(), -1, CLOSE_ON_EXEC])? };
        let event = libc::c_int::try_from(event).map_err(|_| Errno::EBADF)?;
        // SAFETY: the kernel has just made the descriptor.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        let page = page_size()?;
        let ring = SharedMemory::new(event.as_fd(), 0, page + RING_BYTES.max(page), Access::ReadWrite)?;
        Ok(Self { ring, page, _event: event, record: Vec::new() })
    }

    /// Passes on all samples since the last call of threads that have code of their own.
    pub(crate) fn take(&mut self, mut each: impl FnMut(RunningSample<'_>)) {
        let end = self.position(HEAD).load(Ordering::Acquire);
        let mut start = self.position(TAIL).load(Ordering::Relaxed);
        let mut record = std::mem::take(&mut self.record);
        while start < end {
            let header = self.word(start);
            let bytes = header >> 48;
            if bytes < 8 || bytes > end - start {
                // Where the next record begins is unknown.
                start = end;
                break;
            }
            record.clear();
            record.extend((8..bytes).step_by(8).map(|at| self.word(start + at)));
            if header & 0xffff_ffff == SAMPLE {
                sample(&record).into_iter().for_each(&mut each);
            }
            start += bytes;
        }
        self.position(TAIL).store(start, Ordering::Release);
        self.record = record;
    }

    fn position(&self, word: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping has more words, which are aligned, and the kernel accesses it atomically too.
        unsafe { &*self.ring.start().cast::<AtomicU64>().add(word) }
    }

    /// The word of the records at a position, which only grows.
    fn word(&self, position: u64) -> u64 {
        let size = self.ring.length - self.page;
        let place = usize::try_from(position & (size as u64 - 1) & !7).unwrap_or(0);
        // SAFETY: the place is in the mapping behind the first page, and aligned. The kernel writes there again only after the tail is
        // behind it.
        unsafe { self.ring.start().add(self.page + place).cast::<u64>().read() }
    }
}

/// The content of a record; `None` for a thread of the kernel, or if it is not whole.
fn sample(record: &[u64]) -> Option<RunningSample<'_>> {
    let [ids, abi, rest @ ..] = record else { return None };
    // The number of registers is not in the record: the stack with its two lengths is at the end.
    let words = usize::try_from(STACK_BYTES / 8).ok()?;
    let registers = rest.len().checked_sub(words + 2)?;
    let (registers, stack) = rest.split_at(registers);
    let [_, stack @ .., filled] = stack else { return None };
    let filled = usize::try_from(filled / 8).ok()?;
    let [tgid, tid] = [ids & 0xffff_ffff, ids >> 32].map(|id| u32::try_from(id).unwrap_or(0));
    (*abi != 0).then_some(RunningSample { tgid, tid, registers, stack: stack.get(..filled)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn a_record_that_is_not_whole_is_no_sample() {
        let words = usize::try_from(STACK_BYTES / 8).unwrap();
        let mut record = vec![7 | 9 << 32, 2, 11, 12, STACK_BYTES];
        record.extend((0..words as u64).chain([16]));
        let whole = sample(&record).unwrap();
        assert_eq!((whole.tgid, whole.tid, whole.registers, whole.stack), (7, 9, &[11, 12][..], &[0, 1][..]));
        *record.last_mut().unwrap() = STACK_BYTES + 8;
        assert!(sample(&record).is_none(), "more stack than there is room for");
        record[1] = 0;
        for length in 0..record.len() {
            assert!(sample(&record[..length]).is_none());
        }
    }

    #[test]
    fn a_thread_that_runs_is_sampled_with_its_registers_and_stack() {
        let clocks: Result<Vec<_>, _> = (0..).map_while(|cpu| open_online(cpu).transpose()).collect();
        let mut clocks = match clocks {
            Ok(clocks) => clocks,
            Err(error) => return skipped(Missing::Privilege(error)),
        };
        let (own, end) = (std::process::id(), std::time::Instant::now() + std::time::Duration::from_secs(10));
        let mut seen = false;
        while !seen && std::time::Instant::now() < end {
            for number in 0..1_000_000_u32 {
                let _ = std::hint::black_box(number);
            }
            let mut each = |sample: RunningSample<'_>| {
                seen |= sample.tgid == own && sample.registers.len() == 2 && sample.stack.len() > 1;
            };
            clocks.iter_mut().for_each(|clock| clock.take(&mut each));
        }
        assert!(seen);
    }

    /// The clock of a CPU with two registers; `None` after the last CPU.
    fn open_online(cpu: u32) -> Result<Option<CpuClock>, Errno> {
        match CpuClock::open(cpu, 99, 0b11) {
            Err(Errno::ENODEV | Errno::EINVAL) if cpu > 0 => Ok(None),
            clock => clock.map(Some),
        }
    }
}
