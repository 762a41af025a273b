//! Snapshots as files: one zstd frame of one JSON object, streamed, bounded, replaced atomically.

mod capture_places;
mod directory_lock;
mod error;
mod format;
mod limit;
mod lines;
mod part_path;
mod pending;
mod place;
mod segments;
mod series;
mod series_writer;
mod source;
mod target;

#[cfg(feature = "parquet")]
pub(crate) use self::directory_lock::ExportLock;
pub use self::error::{SnapshotRefusal, StoreError};
pub use self::limit::MemoryBudget;
pub use self::part_path::{Input, PartPath};
pub(crate) use self::pending::Lifetime;
#[cfg(feature = "parquet")]
pub(crate) use self::pending::PendingFile;
#[cfg(feature = "parquet")]
pub(crate) use self::place::OutputPlace;
pub(crate) use self::place::{create_directory, names_in};
pub use self::segments::{Keep, SegmentWriter, SeriesSegment, segments_in};
pub use self::series::StoredSeries;
pub use self::series_writer::{SeriesWriter, is_recorded};
pub use self::source::{Stored, load};
pub use self::target::{ENDINGS, EXTENSION, OutputTarget, Written, is_snapshot_name};

use std::path::Path;

use crate::model::CtprofSnapshot;

/// Default limit on the size of a snapshot's JSON: 1 GiB. It bounds memory for untrusted files, and
/// applies to writing as well, so that every written file can be read.
pub const MAX_DECOMPRESSED_SNAPSHOT_BYTES: u64 = 1 << 30;

impl CtprofSnapshot {
    /// Reads a snapshot from a file.
    ///
    /// # Errors
    /// [`StoreError`], with the path and what is wrong.
    pub fn load(path: &Path) -> Result<Self, StoreError> {
        load(path, MAX_DECOMPRESSED_SNAPSHOT_BYTES)
    }

    /// Writes the snapshot to a file. If that fails, an existing file is kept.
    ///
    /// # Errors
    /// [`StoreError`], with the path and what is wrong.
    pub fn write(&self, path: &Path) -> Result<(), StoreError> {
        OutputTarget::create(path)?.write(self, MAX_DECOMPRESSED_SNAPSHOT_BYTES).map(|_| ())
    }
}
