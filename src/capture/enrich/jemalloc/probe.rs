//! Reading the counters of one thread: a stop of microseconds for its thread pointer, then its
//! memory, for which it need not stand still.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::layouts::Offsets;
use super::process::Target;
use super::tag::Tag;
use crate::model::{Bytes, CtprofProbeSummary, Metrics};
use crate::sys::memory;
use crate::sys::ptrace::{self, Late, StopError};

/// How long the threads of one process are waited for, all of them together.
const PATIENCE: Duration = Duration::from_millis(250);
/// A thread gets this much even where the others have used up all patience.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);
/// A thread in uninterruptible sleep gets no more than this, and nothing once patience is used up.
const SHORT_PATIENCE: Duration = Duration::from_millis(20);
/// No thread allocates so much in its life.
const IMPLAUSIBLE: u64 = 1 << 60;

/// One worker's probing: what it found, and which threads it still has to let go.
#[derive(Default)]
pub(in crate::capture) struct Probe {
    late: Vec<Late>,
    /// The process in hand, and what is left of its patience.
    waiting: Option<(u32, Duration)>,
    summary: CtprofProbeSummary,
    time: Duration,
}

impl Probe {
    /// Counts a process, and what came of looking for jemalloc in it.
    pub(in crate::capture) fn process(&mut self, attached: &Result<Target, Tag>) {
        self.summary.tgids_walked += 1;
        match attached {
            Ok(_) => self.summary.jemalloc_detected += 1,
            Err(tag) => self.failed(tag.clone()),
        }
    }

    /// Reads the counters of thread `tid` of process `tgid`.
    pub(in crate::capture) fn thread(&mut self, target: &Target, tgid: u32, tid: u32, metrics: &mut Metrics) {
        let begin = Instant::now();
        let state = metrics.state;
        match guarded(|| self.counters(target, tgid, tid, state)) {
            Ok((allocated, deallocated)) => {
                self.summary.probed_ok += 1;
                metrics.allocated_bytes = Some(Bytes(allocated));
                metrics.deallocated_bytes = Some(Bytes(deallocated));
            }
            Err(Tag::PidMissing) => {}
            Err(tag) => self.failed(tag),
        }
        self.time += begin.elapsed();
    }

    fn counters(&mut self, target: &Target, tgid: u32, tid: u32, state: Option<char>) -> Result<(u64, u64), Tag> {
        self.late = std::mem::take(&mut self.late).into_iter().filter_map(Late::release).collect();
        let left = match self.waiting {
            Some((process, left)) if process == tgid => left,
            _ => PATIENCE,
        };
        let patience = match state {
            Some('D') if left.is_zero() => return Err(Tag::Waitpid),
            Some('D') => left.min(SHORT_PATIENCE),
            _ => left.max(LEAST_PATIENCE),
        };
        let begin = Instant::now();
        let pointer = ptrace::thread_pointer(tid, patience, &mut self.late);
        self.waiting = Some((tgid, left.saturating_sub(begin.elapsed())));
        read(target, tgid, pointer.map_err(tag_of)?)
    }

    fn failed(&mut self, tag: Tag) {
        tracing::debug!(tag = tag.name(), "no counters of the allocator");
        *self.summary.failures.entry(tag).or_default() += 1;
    }

    /// What was found, and how long it took. Threads that are still late run on when this worker
    /// ends: the kernel lets go what an ended tracer holds.
    pub(in crate::capture) fn finish(self) -> (CtprofProbeSummary, Duration) {
        (self.summary, self.time)
    }
}

fn tag_of(error: StopError) -> Tag {
    use nix::errno::Errno::ESRCH;
    match error {
        StopError::Seize(ESRCH) | StopError::Interrupt(ESRCH) | StopError::Wait(ESRCH) => Tag::PidMissing,
        StopError::Seize(_) => Tag::PtraceSeize,
        StopError::Interrupt(_) => Tag::PtraceInterrupt,
        StopError::Wait(_) => Tag::Waitpid,
        StopError::Registers(_) => Tag::GetRegset,
    }
}

/// Both counters in one read, of the span from the first to the last.
fn read(target: &Target, tgid: u32, thread_pointer: u64) -> Result<(u64, u64), Tag> {
    let Offsets { allocated, deallocated } = target.offsets;
    let first = allocated.min(deallocated);
    let span = allocated.abs_diff(deallocated).checked_add(8).and_then(|span| usize::try_from(span).ok());
    let mut buffer = [0; 256];
    let buffer = span.and_then(|span| buffer.get_mut(..span)).ok_or(Tag::TlsArithmetic)?;
    let address = thread_pointer.checked_add_signed(target.distance).and_then(|start| start.checked_add(first));
    memory::read(tgid, address.ok_or(Tag::TlsArithmetic)?, buffer).map_err(|errno| match errno {
        nix::errno::Errno::ESRCH => Tag::PidMissing,
        _ => Tag::ProcessVmReadv,
    })?;
    let word = |at: u64| {
        let at = usize::try_from(at - first).ok()?;
        Some(u64::from_ne_bytes(buffer.get(at..at + 8)?.try_into().ok()?))
    };
    let (allocated, deallocated) = word(allocated).zip(word(deallocated)).ok_or(Tag::TlsArithmetic)?;
    if allocated.max(deallocated) > IMPLAUSIBLE { Err(Tag::Implausible) } else { Ok((allocated, deallocated)) }
}

/// Runs code that reads what others wrote: if it panics, that costs this result only.
pub(in crate::capture) fn guarded<T>(work: impl FnOnce() -> Result<T, Tag>) -> Result<T, Tag> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Tag::WorkerPanic))
}

/// Adds up what two workers found.
pub(in crate::capture) fn merge(a: CtprofProbeSummary, b: CtprofProbeSummary) -> CtprofProbeSummary {
    let mut failures: BTreeMap<Tag, u64> = a.failures;
    for (tag, count) in b.failures {
        *failures.entry(tag).or_default() += count;
    }
    CtprofProbeSummary {
        tgids_walked: a.tgids_walked + b.tgids_walked,
        jemalloc_detected: a.jemalloc_detected + b.jemalloc_detected,
        probed_ok: a.probed_ok + b.probed_ok,
        failures,
        ..CtprofProbeSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_costs_one_result() {
        assert_eq!(guarded(|| -> Result<(), Tag> { panic!("on purpose") }), Err(Tag::WorkerPanic));
        assert_eq!(guarded(|| Ok(7)), Ok(7));
    }

    #[test]
    fn addresses_that_make_no_sense_are_tags() {
        let target =
            |distance, allocated, deallocated| Target { distance, offsets: Offsets { allocated, deallocated } };
        let pid = std::process::id();
        assert_eq!(read(&target(i64::MIN, 0, 8), pid, 16), Err(Tag::TlsArithmetic));
        assert_eq!(read(&target(0, 0, 1 << 40), pid, 16), Err(Tag::TlsArithmetic));
        assert_eq!(read(&target(0, u64::MAX, u64::MAX - 8), pid, 16), Err(Tag::TlsArithmetic));
        assert_eq!(read(&target(0, u64::MAX, 0), pid, 16), Err(Tag::TlsArithmetic));
        assert_eq!(read(&target(0, 0, 8), pid, 16), Err(Tag::ProcessVmReadv));
        let huge = [u64::MAX, 0];
        let read = read(&target(0, 0, 8), pid, huge.as_ptr() as u64);
        assert!(matches!(read, Err(Tag::Implausible | Tag::ProcessVmReadv)), "{read:?}");
    }

    #[test]
    fn counters_are_the_two_words_at_their_offsets() {
        let words = [5u64, 6, 7, 8];
        let target = Target { distance: 8, offsets: Offsets { allocated: 16, deallocated: 0 } };
        match read(&target, std::process::id(), words.as_ptr() as u64) {
            Err(Tag::ProcessVmReadv) => eprintln!("skipped: this sandbox reads no process's memory"),
            counters => assert_eq!(counters, Ok((8, 6))),
        }
    }
}
