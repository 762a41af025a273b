//! The worker threads of this process.

use std::num::NonZeroUsize;
use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::privileges::keep_to_read;

thread_local! {
    /// The pool of this thread alone: rayon lets a thread be in one pool, and never out of it.
    static ALONE: Arc<ThreadPool> = {
        let pool = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        Arc::new(pool.expect("a pool of the current thread starts no thread"))
    };
}

/// A pool of a worker per CPU, for a task that a user waits for.
pub fn worker_per_cpu() -> Arc<ThreadPool> {
    workers(std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// A pool of the calling thread alone, for work that takes less time than starting threads.
pub fn no_workers() -> Arc<ThreadPool> {
    ALONE.with(Arc::clone)
}

/// A pool of `jobs` workers, or of the calling thread alone if a limit does not allow threads.
pub fn workers(jobs: usize) -> Arc<ThreadPool> {
    let pool = ThreadPoolBuilder::new().num_threads(jobs).thread_name(|worker| format!("ctprof-{worker}"));
    let pool = pool.start_handler(|_| keep_to_read()).build();
    pool.map(Arc::new).unwrap_or_else(|error| {
        tracing::warn!(
            "cannot start {jobs} worker threads ({error}): continuing with one; raise the limit with ulimit -u"
        );
        no_workers()
    })
}
