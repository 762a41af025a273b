//! Both engines give the same values, in containers too, and BPF disturbs neither threads nor other captures.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod captures;
mod histories;
#[path = "../support/host.rs"]
mod host;
mod interruptions;
mod namespaces;
mod neighbours;
mod parity;
#[path = "../support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Tests that start many threads or captures run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
