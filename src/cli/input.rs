//! Reads snapshot files into digests.

use std::path::Path;
use std::sync::Arc;

use super::args::{Messages, View};
use super::progress;
use crate::compare::{ByName, ByProcess, Digest, MemoryKey, Names, ThreadTotals};
use crate::process::Progress;
use crate::store::{StoreError, load_watched};

/// Reads snapshots concurrently, without keeping their threads.
pub(super) fn digests<const N: usize>(
    paths: [&Path; N],
    names: Names,
    view: &View,
    messages: Messages,
) -> Result<[Digest; N], StoreError> {
    let read = match names {
        Names::Patterns => digest::<ByName>,
        Names::Literal => digest::<ByProcess>,
    };
    let (progress, limit) = (Arc::new(Progress::default()), view.limits.max_snapshot_bytes);
    let watch = progress::watch(&progress, messages);
    let mut digests = paths.map(|_| None);
    rayon::scope(|scope| {
        for (path, digest) in paths.into_iter().zip(&mut digests) {
            let progress = &progress;
            scope.spawn(move |_| *digest = Some(read(path, limit, progress)));
        }
    });
    drop(watch);
    let mut results = digests.into_iter().map(|digest| digest.expect("the scope has ended"));
    let all: Vec<Digest> = results.by_ref().collect::<Result<_, _>>()?;
    Ok(all.try_into().expect("one for each path"))
}

fn digest<K: MemoryKey>(path: &Path, limit: u64, progress: &Progress) -> Result<Digest, StoreError> {
    let (snapshot, threads) = load_watched::<ThreadTotals<K>>(path, limit, progress)?;
    Ok(Digest::new(snapshot, threads))
}
