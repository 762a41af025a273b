//! Reads snapshot files into digests.

use std::path::Path;

use super::args::Limits;
use crate::compare::{ByName, ByProcess, Digest, MemoryKey, Names, ThreadTotals};
use crate::store::{StoreError, load_into};

/// Reads a snapshot without keeping its threads.
pub(super) fn digest(path: &Path, names: Names, limits: &Limits) -> Result<Digest, StoreError> {
    match names {
        Names::Patterns => keyed::<ByName>(path, limits),
        Names::Literal => keyed::<ByProcess>(path, limits),
    }
}

fn keyed<K: MemoryKey>(path: &Path, limits: &Limits) -> Result<Digest, StoreError> {
    let (snapshot, threads) = load_into::<ThreadTotals<K>>(path, limits.max_snapshot_bytes)?;
    Ok(Digest::new(snapshot, threads))
}
