//! ctprof's own heap, from the statistics of jemalloc.

use tikv_jemalloc_ctl::{arenas, epoch, stats};

use crate::model::HostHeapState;

impl HostHeapState {
    /// Updates and reads the counters of the jemalloc that is linked into this program. All are absent if
    /// that fails.
    #[must_use]
    pub fn collect() -> Self {
        if epoch::advance().is_err() {
            return Self::default();
        }
        let bytes = |read: tikv_jemalloc_ctl::Result<usize>| read.ok().and_then(|bytes| u64::try_from(bytes).ok());
        Self {
            active_bytes: bytes(stats::active::read()),
            allocated_bytes: bytes(stats::allocated::read()),
            resident_bytes: bytes(stats::resident::read()),
            mapped_bytes: bytes(stats::mapped::read()),
            narenas: arenas::narenas::read().ok().and_then(|arenas| arenas.try_into().ok()),
        }
    }
}

/// The heap of this process; `None` if jemalloc is linked but is not the allocator.
pub(in crate::capture) fn state() -> Option<HostHeapState> {
    let heap = HostHeapState::collect();
    let unused = heap.allocated_bytes == Some(0) && heap.active_bytes == Some(0);
    (!unused).then_some(heap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_jemalloc_has_no_heap_state() {
        // The test binary uses the allocator of the system.
        let heap = HostHeapState::collect();
        assert!(heap.narenas >= Some(1));
        assert_eq!(state().is_none(), heap.allocated_bytes == Some(0) && heap.active_bytes == Some(0));
    }
}
