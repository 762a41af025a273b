//! Context of a capture: facts that its engine and sources share.

use std::fmt::Arguments;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rayon::ThreadPool;

#[cfg(test)]
pub(crate) use self::tests::in_context;
use super::cgroup_names::CgroupNames;
use super::enrich::{jemalloc, smaps::Smaps, taskstats::CountedFamilies};
use super::options::Tree;
use super::procfs::directory::ProcDirectory;
use super::tally::Tally;
use super::thread_flags::WholeNames;
use crate::process::{Progress, ReaderPool, contained, lock};

/// Constants of a capture, and its counts, shared by the workers.
#[derive(Clone)]
pub(crate) struct CaptureContext {
    pub(crate) procfs: Arc<ProcDirectory>,
    pub(crate) tree: Tree,
    pub(crate) whole_names: WholeNames,
    /// The families that taskstats provides; `None` to disable taskstats.
    pub(crate) taskstats: Option<CountedFamilies>,
    /// jemalloc layouts by file; `None` to disable the probe.
    pub(crate) jemalloc: Option<Arc<jemalloc::ExaminedFiles>>,
    /// When the memory of processes is read.
    pub(crate) smaps: Smaps,
    /// Size of a page in bytes.
    pub(crate) page_size: u64,
    /// Times of threads count from this moment.
    pub(crate) start: Instant,
    /// The id of the capturing process, if it is among the processes.
    pub(crate) capturing_process: Option<u32>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) cgroup_names: Arc<CgroupNames>,
    pub(crate) readers: Arc<ReaderPool>,
    pub(crate) tally: Arc<Tally>,
}

impl CaptureContext {
    /// Runs code that reads `what`. If it panics, the values are lost and the panic is counted.
    pub(crate) fn guarded(&self, what: Arguments<'_>, work: impl FnOnce()) {
        if contained(work).is_none() {
            tracing::error!("a panic while reading {what}: some values are missing; please report it");
            self.tally.lock().parse.worker_panics += 1;
        }
    }
}

/// Runs `work` in every worker of a pool. Each takes the next of `items` when it needs one.
pub(crate) fn in_all_workers<T, R: Send>(
    pool: &ThreadPool,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(&mut dyn Iterator<Item = T>) -> R + Sync,
) -> Vec<R> {
    let items = Mutex::new(items);
    let next = || lock(&items).next();
    pool.broadcast(|_| work(&mut std::iter::from_fn(next)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Calls `body` with the context of a capture of a recorded tree, without other sources.
    pub(crate) fn in_context<T>(procfs: &Path, body: impl FnOnce(&CaptureContext) -> T) -> T {
        body(&CaptureContext {
            procfs: ProcDirectory::open(procfs).unwrap().into(),
            tree: Tree::Elsewhere,
            whole_names: WholeNames::default(),
            taskstats: None,
            jemalloc: None,
            smaps: Smaps::Never,
            page_size: 4096,
            start: Instant::now(),
            capturing_process: None,
            progress: Arc::default(),
            cgroup_names: Arc::default(),
            readers: Arc::default(),
            tally: Arc::default(),
        })
    }
}
