//! Sources that add values to the threads of any engine: a list, in the order in which they are read.

mod heap;
mod io;
pub(super) mod jemalloc;
mod names;
mod owner;
mod parents;
mod process_request;
mod processes;
pub(super) mod program;
mod rollup;
pub(super) mod smaps;
mod source;
pub(super) mod taskstats;

use rayon::ThreadPool;

use self::source::{Reads, ValueSource};
use super::context::CaptureContext;
use super::read_threads::ReadThreads;

/// Sources that are read right after the threads. A window divides their increases by the time between the threads of both captures.
pub(super) const WITH_THREADS: &[ValueSource] =
    &[owner::OWN, taskstats::SOURCE, owner::SOURCE, names::SOURCE, io::SOURCE, heap::SOURCE, parents::SOURCE];

/// Sources that take long, and do not delay the others.
pub(super) const AFTER_THREADS: &[ValueSource] = &[rollup::SOURCE];

/// Reads sources, one after the other. Those that read one process at a time, and follow each other, read it together.
pub(super) fn read(
    context: &CaptureContext,
    sources: &'static [ValueSource],
    read: &mut ReadThreads,
    pool: &ThreadPool,
) {
    let are_together = |one: &ValueSource, other: &ValueSource| {
        [one, other].iter().all(|source| matches!(source.reads, Reads::Process { .. }))
    };
    for together in sources.chunk_by(are_together) {
        match together {
            [ValueSource { reads: Reads::Threads(of_threads), .. }] => of_threads(context, read, pool),
            sources => processes::read(context, sources, &mut read.threads, pool),
        }
    }
}
