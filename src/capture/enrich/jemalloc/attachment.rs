//! jemalloc in one process, shared by the workers that read parts of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::super::start::nanoseconds;
use super::target::Target;
use crate::sys::memory::AddressSpace;

/// Timeout for stopping all threads of one process.
const TIMEOUT: Duration = Duration::from_millis(250);

/// The location of the counters in the threads of a process, and the remaining timeout.
pub(in crate::capture) struct Attachment {
    pub(super) target: Target,
    /// The memory of the program that was examined.
    pub(super) space: AddressSpace,
    left_ns: AtomicU64,
}

impl Attachment {
    pub(super) fn new(target: Target, space: AddressSpace) -> Self {
        Self { target, space, left_ns: AtomicU64::new(nanoseconds(TIMEOUT)) }
    }

    /// The remaining timeout.
    pub(super) fn timeout_left(&self) -> Duration {
        Duration::from_nanos(self.left_ns.load(Ordering::Relaxed))
    }

    /// Subtracts `time` from the timeout.
    pub(super) fn spend(&self, time: Duration) {
        let less = |left: u64| Some(left.saturating_sub(nanoseconds(time)));
        let _ = self.left_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

#[cfg(test)]
mod tests {
    use super::super::layouts::Offsets;
    use super::*;

    #[test]
    fn parts_of_a_process_share_one_timeout() {
        let target = Target::new(0, Offsets { allocated: 0, deallocated: 8 }).unwrap();
        let attachment = Attachment::new(target, AddressSpace::open(std::process::id()).unwrap());
        attachment.spend(Duration::from_millis(240));
        assert_eq!(attachment.timeout_left(), Duration::from_millis(10));
        attachment.spend(Duration::from_secs(1));
        assert_eq!(attachment.timeout_left(), Duration::ZERO);
    }
}
