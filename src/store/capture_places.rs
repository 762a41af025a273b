//! Where the captures of a series are in its file: what precedes each says when it was made.

use std::io::{self, Read};

use memchr::memmem;

use super::error::StoreError;
use super::series_writer::CAPTURE_FOLLOWS;
use super::source::Stored;

/// Bytes that are searched at a time.
const CHUNK: usize = 64 * 1024;
/// Bytes of what precedes a capture: a constant, and a time.
const LENGTH: usize = CAPTURE_FOLLOWS.len() + size_of::<u64>();

/// Place in a series at which a whole capture is repeated.
struct CapturePlace {
    /// Where its frame begins.
    byte: u64,
    /// Time since boot, in nanoseconds.
    boottime_ns: u64,
}

impl Stored {
    /// Where the frame with the last capture that was made up to this time since boot begins; 0 for the first one.
    ///
    /// Captures follow each other in time, so that the file is bisected. As most parts are at its end, that is searched first.
    pub(super) fn last_capture(&self, boottime_ns: u64) -> Result<u64, StoreError> {
        let unread = |error| StoreError::Read(self.path.clone(), error);
        let (mut found, mut end, mut near_end) = (0, self.length().map_err(unread)?, CHUNK as u64);
        while found < end {
            let middle = found.midpoint(end).max(end.saturating_sub(near_end));
            near_end = near_end.saturating_mul(2);
            match self.capture_within(middle, end).map_err(unread)? {
                Some(place) if place.boottime_ns <= boottime_ns => found = place.byte,
                _ => end = middle,
            }
        }
        Ok(found)
    }

    /// Returns the first repeated capture whose preceding frame begins between these bytes of the file.
    fn capture_within(&self, begin: u64, end: u64) -> io::Result<Option<CapturePlace>> {
        let overlap = LENGTH - 1;
        let mut source = self.bytes_from(begin).take(end - begin + overlap as u64);
        let (mut at, mut bytes) = (begin, Vec::with_capacity(CHUNK + LENGTH));
        while source.by_ref().take(CHUNK as u64).read_to_end(&mut bytes)? > 0 {
            for place in memmem::find_iter(&bytes, &CAPTURE_FOLLOWS) {
                if let Some(time) = bytes[place + CAPTURE_FOLLOWS.len()..].first_chunk() {
                    let byte = at + (place + LENGTH) as u64;
                    return Ok(Some(CapturePlace { byte, boottime_ns: u64::from_le_bytes(*time) }));
                }
            }
            let searched = bytes.len().saturating_sub(overlap);
            bytes.drain(..searched);
            at += searched as u64;
        }
        Ok(None)
    }
}
