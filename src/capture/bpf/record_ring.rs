//! The ring buffer that a program fills in a pass over threads.

use std::os::fd::{AsRawFd, RawFd};

use nix::errno::Errno;

use super::layout::words_of;
use crate::sys::bpf::map::SharedWords;
use crate::sys::bpf::ring::Ring;

/// A ring buffer, and how many records had no room in it.
pub(super) struct RecordRing {
    ring: Ring,
    without_room: SharedWords,
    /// Count of the programs before this pass.
    counted: u64,
}

impl RecordRing {
    pub(super) fn new(bytes: u32) -> Result<Self, Errno> {
        Ok(Self { ring: Ring::new(bytes)?, without_room: SharedWords::new(1)?, counted: 0 })
    }

    /// Descriptors of the maps: of the ring, and of the number of records without room.
    pub(super) fn maps(&self) -> [RawFd; 2] {
        [self.ring.map.as_raw_fd(), self.without_room.map.as_raw_fd()]
    }

    /// Passes the records of a pass to `each`, and returns how many had no room: the next pass has them. `EBADMSG` if some were
    /// damaged and skipped.
    pub(super) fn take(&mut self, mut each: impl FnMut(&[u64])) -> Result<u64, Errno> {
        let all = self.without_room.get(0);
        let lost = all.wrapping_sub(std::mem::replace(&mut self.counted, all));
        self.ring.take(|record| each(&words_of(record).collect::<Vec<_>>()))?;
        Ok(lost)
    }

    /// Whether any record has had no room.
    #[cfg(test)]
    pub(super) fn has_overflowed(&self) -> bool {
        self.without_room.get(0) > 0
    }
}
