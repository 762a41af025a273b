//! The command line tool.

use std::process::ExitCode;

/// ctprof's own heap is jemalloc, so that it can report on itself by the counters it reads of others.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    ctprof::cli::run()
}
