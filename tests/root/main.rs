//! What needs privileges: BPF, records of exits, capabilities and namespaces. Without them, a test says why it is skipped.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod doctor;
mod engine_captures;
#[path = "../support/example.rs"]
mod example;
mod exit_records;
mod histories;
#[path = "../support/host.rs"]
mod host;
mod interruptions;
mod moves;
mod namespaces;
mod neighbours;
mod parity;
mod privileged;
#[path = "../support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Tests that disturb each other, or that others disturb, hold this.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
