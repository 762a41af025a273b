//! Delay accounting and memory high-water marks from the kernel's `struct taskstats`.

mod fields;

use nix::errno::Errno;

pub(in crate::capture) use self::fields::Kept;
#[cfg(fuzzing)]
pub(in crate::capture) use self::fields::fuzz;
use self::fields::{Threads, fill, version};
use super::super::tally::stored;
use crate::model::{TaskstatsSummary, ThreadState};
pub(in crate::capture) use crate::sys::taskstats::AT_ONCE;
use crate::sys::taskstats::Taskstats;

/// The socket of one worker, and counts of the answers.
pub(in crate::capture) struct Client {
    socket: Option<Taskstats>,
    kept: Kept,
    summary: TaskstatsSummary,
}

impl Client {
    pub(in crate::capture) fn open(kept: Kept) -> Self {
        let mut summary = TaskstatsSummary::default();
        let socket = Taskstats::open().map_err(|errno| summary.open_error = Some(stored(errno))).ok();
        Self { socket, kept, summary }
    }

    pub(in crate::capture) fn summary(self) -> TaskstatsSummary {
        self.summary
    }

    /// Queries `threads`, at most [`AT_ONCE`], and stores the fields of the answers.
    pub(in crate::capture) fn read(&mut self, threads: &mut [ThreadState]) {
        let Self { socket: Some(socket), kept, summary } = self else { return };
        // EPERM depends on ctprof's privileges, not on the thread: one is enough.
        if summary.eperm_count > 0 {
            summary.eperm_count += u64::try_from(threads.len()).unwrap_or(u64::MAX);
            return;
        }
        let tids: Vec<u32> = threads.iter().map(|thread| thread.tid).collect();
        socket.ask(&tids, |place, answer| store(&mut threads[place], answer, *kept, summary));
    }
}

/// Stores the fields of an answer, or counts why there is none.
fn store(thread: &mut ThreadState, answer: Result<&[u8], Errno>, kept: Kept, summary: &mut TaskstatsSummary) {
    match answer {
        Ok(stats) => {
            summary.ok_count += 1;
            summary.struct_version = version(stats);
            summary.struct_bytes = u64::try_from(stats.len()).ok();
            let kind = if thread.kernel_thread { Threads::Kernel } else { Threads::User };
            fill(stats, kept, kind, &mut thread.metrics);
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

/// Adds the counts of two workers.
pub(in crate::capture) fn merge(a: TaskstatsSummary, b: TaskstatsSummary) -> TaskstatsSummary {
    TaskstatsSummary {
        ok_count: a.ok_count + b.ok_count,
        eperm_count: a.eperm_count + b.eperm_count,
        esrch_count: a.esrch_count + b.esrch_count,
        other_err_count: a.other_err_count + b.other_err_count,
        struct_version: a.struct_version.or(b.struct_version),
        struct_bytes: a.struct_bytes.or(b.struct_bytes),
        open_error: a.open_error.or(b.open_error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_stored_and_refusals_counted_by_their_reason() {
        let (mut thread, mut summary) = (ThreadState::default(), TaskstatsSummary::default());
        // Version 16, 560 bytes; `cpu_count` is at 16.
        let mut stats = vec![0_u8; 560];
        (stats[0], stats[16]) = (16, 9);
        for answer in [Ok(&stats[..]), Ok(&stats), Err(Errno::EPERM), Err(Errno::EPERM), Err(Errno::EPERM)] {
            store(&mut thread, answer, Kept::ALL, &mut summary);
        }
        for errno in [Errno::ESRCH; 4].into_iter().chain([Errno::EBUSY; 5]) {
            store(&mut thread, Err(errno), Kept::ALL, &mut summary);
        }
        let TaskstatsSummary { ok_count, eperm_count, esrch_count, other_err_count, .. } = summary;
        assert_eq!([ok_count, eperm_count, esrch_count, other_err_count], [2, 3, 4, 5]);
        assert_eq!((summary.struct_version, summary.struct_bytes), (Some(16), Some(560)));
        assert_eq!(thread.metrics.cpu_delay_count, Some(9.into()));
    }

    #[test]
    fn answers_of_two_workers_add_up() {
        let counts = |[ok_count, eperm_count, esrch_count, other_err_count]: [u64; 4]| TaskstatsSummary {
            ok_count,
            eperm_count,
            esrch_count,
            other_err_count,
            ..TaskstatsSummary::default()
        };
        assert_eq!(merge(counts([3, 5, 7, 11]), counts([20, 30, 40, 50])), counts([23, 35, 47, 61]));
        let answered =
            TaskstatsSummary { struct_version: Some(16), struct_bytes: Some(560), ..TaskstatsSummary::default() };
        let closed = TaskstatsSummary { open_error: Some(stored(Errno::EACCES)), ..TaskstatsSummary::default() };
        let both = TaskstatsSummary { open_error: Some(stored(Errno::EACCES)), ..answered.clone() };
        assert_eq!(merge(answered.clone(), closed.clone()), both);
        assert_eq!(merge(closed, answered), both);
    }
}
