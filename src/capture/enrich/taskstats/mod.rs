//! Delay accounting and memory high-water marks from the kernel's `struct taskstats`.

mod fields;

use nix::errno::Errno;
use rayon::ThreadPool;

pub(crate) use self::fields::CountedFamilies;
#[cfg(feature = "fuzzing")]
pub(crate) use self::fields::fuzz;
use self::fields::{fill, version};
use super::super::context::{CaptureContext, in_all_workers};
use super::super::read_threads::{Lacks, ReadThreads};
use super::super::tally::{Tally, stored};
use super::source::{Reads, ValueSource};
use crate::model::{TaskstatsSummary, ThreadState};
use crate::sys::taskstats::{REQUESTS_PER_MESSAGE, Taskstats};

/// Delays and peaks of memory of the threads that procfs has read.
pub(super) const SOURCE: ValueSource = ValueSource { name: "taskstats", reads: Reads::Threads(read) };

/// Adds the values in all workers. Each has its own socket.
fn read(context: &CaptureContext, read: &mut ReadThreads, pool: &ThreadPool) {
    let (Some(counted), tally) = (context.taskstats, &context.tally) else { return };
    let lacking = read.threads.iter_mut().filter(|thread| thread.lacks != Lacks::Nothing);
    let mut threads: Vec<_> = lacking.map(|thread| &mut thread.state).collect();
    if threads.is_empty() {
        return;
    }
    tally.lock().taskstats.get_or_insert_default();
    in_all_workers(pool, threads.chunks_mut(REQUESTS_PER_MESSAGE), |batches| match Taskstats::open() {
        Ok(mut socket) => batches.for_each(|batch| read_batch(&mut socket, batch, counted, tally)),
        Err(errno) => tally.lock().taskstats.get_or_insert_default().open_error = Some(stored(errno)),
    });
}

/// Queries at most [`REQUESTS_PER_MESSAGE`] threads.
fn read_batch(socket: &mut Taskstats, threads: &mut [&mut ThreadState], counted: CountedFamilies, tally: &Tally) {
    // EPERM depends on ctprof's privileges, not on the thread: one is enough.
    if let Some(TaskstatsSummary { eperm_count: denied @ 1.., .. }) = &mut tally.lock().taskstats {
        *denied += u64::try_from(threads.len()).unwrap_or(u64::MAX);
        return;
    }
    let tids: Vec<u32> = threads.iter().map(|thread| thread.tid).collect();
    socket.ask(&tids, |place, answer| store(threads[place], answer, counted, tally));
}

/// Stores the fields of an answer, and counts it.
fn store(thread: &mut ThreadState, answer: Result<&[u8], Errno>, counted: CountedFamilies, tally: &Tally) {
    if let Ok(stats) = answer {
        fill(stats, counted, thread);
    }
    let mut counts = tally.lock();
    let summary = counts.taskstats.get_or_insert_default();
    match answer {
        Ok(stats) => {
            summary.ok_count += 1;
            summary.struct_version = version(stats);
            summary.struct_bytes = u64::try_from(stats.len()).ok();
        }
        Err(Errno::EPERM) => summary.eperm_count += 1,
        Err(Errno::ESRCH) => summary.esrch_count += 1,
        Err(errno) => {
            let ThreadState { tgid, tid, comm, .. } = thread;
            tracing::debug!(pid = tgid, tid, thread = ?comm, ?errno, "no answer from taskstats");
            summary.other_err_count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_stored_and_refusals_counted_by_their_reason() {
        let (mut thread, tally) = (ThreadState::default(), Tally::default());
        // Version 16, 560 bytes; `cpu_count` is at 16.
        let mut stats = vec![0_u8; 560];
        (stats[0], stats[16]) = (16, 9);
        for answer in [Ok(&stats[..]), Ok(&stats), Err(Errno::EPERM), Err(Errno::EPERM), Err(Errno::EPERM)] {
            store(&mut thread, answer, CountedFamilies::ALL, &tally);
        }
        for errno in [Errno::ESRCH; 4].into_iter().chain([Errno::EBUSY; 5]) {
            store(&mut thread, Err(errno), CountedFamilies::ALL, &tally);
        }
        let summary = tally.lock().taskstats.clone().unwrap();
        let TaskstatsSummary { ok_count, eperm_count, esrch_count, other_err_count, .. } = summary;
        assert_eq!([ok_count, eperm_count, esrch_count, other_err_count], [2, 3, 4, 5]);
        assert_eq!((summary.struct_version, summary.struct_bytes), (Some(16), Some(560)));
        assert_eq!(thread.metrics.cpu_delay_count, Some(9.into()));
    }
}
