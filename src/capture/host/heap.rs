//! ctprof's own heap, from the statistics of jemalloc.

#[cfg(feature = "cli")]
use tikv_jemalloc_ctl::{arenas, epoch, stats};

use crate::model::HostHeapState;

impl HostHeapState {
    /// Updates and reads the counters of the jemalloc that is linked into this program. All are absent if that fails, and in a library
    /// without the feature `cli`, which links none.
    #[must_use]
    pub fn collect() -> Self {
        read().unwrap_or_default()
    }
}

#[cfg(feature = "cli")]
fn read() -> Option<HostHeapState> {
    epoch::advance().ok()?;
    let bytes = |read: tikv_jemalloc_ctl::Result<usize>| read.ok().and_then(|bytes| u64::try_from(bytes).ok());
    Some(HostHeapState {
        active_bytes: bytes(stats::active::read()),
        allocated_bytes: bytes(stats::allocated::read()),
        resident_bytes: bytes(stats::resident::read()),
        mapped_bytes: bytes(stats::mapped::read()),
        narenas: arenas::narenas::read().ok().and_then(|arenas| arenas.try_into().ok()),
    })
}

#[cfg(not(feature = "cli"))]
fn read() -> Option<HostHeapState> {
    None
}

/// The heap of this process; `None` if jemalloc is not its allocator.
pub(in crate::capture) fn state() -> Option<HostHeapState> {
    read().filter(is_used)
}

fn is_used(heap: &HostHeapState) -> bool {
    (heap.allocated_bytes, heap.active_bytes) != (Some(0), Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_jemalloc_has_no_heap_state() {
        // The test binary uses the allocator of the system.
        let heap = HostHeapState::collect();
        assert!(heap.narenas >= Some(1));
        assert_eq!(state().is_some(), is_used(&heap));
        let with = |allocated_bytes, active_bytes| HostHeapState { allocated_bytes, active_bytes, ..heap.clone() };
        assert!(!is_used(&with(Some(0), Some(0))));
        assert!(is_used(&with(Some(0), Some(4096))) && is_used(&with(Some(8), Some(0))) && is_used(&with(None, None)));
    }
}
