//! The moment from which times in a capture count: just before the walk over the threads.

use std::time::{Duration, Instant, SystemTime};

use nix::time::{ClockId, clock_gettime};

use super::options::Tree;

/// Moment by several clocks at once.
#[derive(Clone, Copy)]
pub(super) struct Start {
    pub(super) instant: Instant,
    /// Wall clock, in nanoseconds since 1970.
    pub(super) unix_ns: u64,
    /// `CLOCK_MONOTONIC` in nanoseconds; `None` if the threads are from another boot.
    pub(super) monotonic_ns: Option<u64>,
    /// `CLOCK_BOOTTIME` in nanoseconds; `None` if the threads are from another boot.
    pub(super) boottime_ns: Option<u64>,
}

impl Start {
    /// Returns the present moment, with clocks for this tree.
    pub(super) fn now(tree: Tree) -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since_boot = |clock| match tree {
            Tree::Live | Tree::OtherIds => clock_gettime(clock).ok().map(|time| nanoseconds(time.into())),
            Tree::Elsewhere => None,
        };
        Self {
            instant: Instant::now(),
            unix_ns: nanoseconds(wall),
            monotonic_ns: since_boot(ClockId::CLOCK_MONOTONIC),
            boottime_ns: since_boot(ClockId::CLOCK_BOOTTIME),
        }
    }
}

/// A time in nanoseconds, saturating.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
