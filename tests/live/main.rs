//! Captures, windows and runs of real programs on this host.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

#[path = "../support/alone.rs"]
mod alone;
mod captures;
mod commands;
#[path = "../support/example.rs"]
mod example;
mod example_scripts;
mod format;
#[path = "../support/format_reader.rs"]
mod format_reader;
mod hostile_hosts;
#[cfg(target_arch = "x86_64")]
mod jemalloc;
mod rare_states;
mod reasons;
#[path = "../support/screen.rs"]
#[allow(dead_code, reason = "other tests use all of it")]
mod screen;
mod series;
mod series_of_runs;
#[path = "../support/states.rs"]
mod states;
#[path = "../support/mod.rs"]
mod support;
mod top;
mod windows_and_the_kernel;

use self::alone::alone;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
