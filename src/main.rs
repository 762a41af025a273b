//! The command line tool.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: ctprof::cli::Allocator = ctprof::cli::Allocator;

fn main() -> ExitCode {
    ctprof::cli::run()
}
