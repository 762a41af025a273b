//! The worker threads of this process.

use std::num::NonZeroUsize;

/// A pool of a worker per CPU, for a task that a user waits for.
#[must_use]
pub fn worker_per_cpu() -> rayon::ThreadPool {
    workers(std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// A pool of `jobs` workers, or of the calling thread alone if a limit does not allow threads.
#[must_use]
pub fn workers(jobs: usize) -> rayon::ThreadPool {
    let build = |jobs| {
        let name = |worker| format!("ctprof-{worker}");
        rayon::ThreadPoolBuilder::new().num_threads(jobs).thread_name(name).build()
    };
    build(jobs).unwrap_or_else(|error| {
        tracing::warn!(
            "cannot start {jobs} worker threads ({error}): continuing with one; raise the limit with ulimit -u"
        );
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        alone.expect("a pool of the current thread starts no thread")
    })
}
