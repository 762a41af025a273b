//! The command line tool.

use std::process::ExitCode;

/// jemalloc avoids contention between workers, and reports ctprof's own heap use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    ctprof::cli::run()
}
