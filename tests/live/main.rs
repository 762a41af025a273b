//! Captures, windows and runs of real programs on this host.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod captures;
mod commands;
#[path = "../support/example.rs"]
mod example;
mod hostile_hosts;
#[cfg(target_arch = "x86_64")]
mod jemalloc;
mod series_of_runs;
#[path = "../support/mod.rs"]
mod support;
mod windows_and_the_kernel;

use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Tests that disturb each other, or that others disturb, hold this.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
