//! Flags of threads, and what they say about names.

use crate::model::may_be_cut;

/// Flags of `include/linux/sched.h`.
pub(crate) const PF_WQ_WORKER: u64 = 0x20;
pub(crate) const PF_KTHREAD: u64 = 0x0020_0000;
pub(crate) const PF_EXITING: u64 = 0x4;
const PF_FORKNOEXEC: u64 = 0x40;

/// Whether the process of a first thread with these flags still runs the program of its parent, in a copy of its memory.
pub(crate) fn is_forked(flags: u64) -> bool {
    flags & (PF_FORKNOEXEC | PF_KTHREAD) == PF_FORKNOEXEC
}

/// Kernel threads whose names the kernel prints whole (`proc_task_name` in `fs/proc/array.c`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WholeNames {
    /// Linux 5.17: `get_kthread_comm` knows the full name of all but workqueue workers.
    pub(crate) kthreads: bool,
    /// Linux 6.11: `wq_worker_comm` knows the full names of workqueue workers.
    pub(crate) workqueue_workers: bool,
}

impl WholeNames {
    /// Whether the name of a thread with these `PF_` flags may be longer than the kernel's own field, and is complete.
    pub(crate) fn include(self, flags: u64, comm: &str) -> bool {
        let printed_whole = match flags {
            flags if flags & PF_WQ_WORKER != 0 => self.workqueue_workers,
            flags => flags & PF_KTHREAD != 0 && self.kthreads,
        };
        printed_whole && may_be_cut(comm)
    }
}
