//! Reads snapshot files into digests.

use std::path::Path;
use std::sync::Arc;

use super::args::{Messages, View};
use super::progress;
use crate::compare::{Digest, Options, ThreadTotals};
use crate::process::Progress;
use crate::store::{StoreError, load_into};

/// Reads snapshots concurrently, without keeping their threads.
pub(super) fn digests<const N: usize>(
    paths: [&Path; N],
    options: &Options,
    view: &View,
    messages: Messages,
) -> Result<[Digest; N], StoreError> {
    let (progress, limit) = (Arc::new(Progress::default()), view.limits.max_snapshot_bytes);
    let watch = progress::watch(&progress, messages);
    let read = |path| {
        let (snapshot, threads) = load_into(path, limit, &ThreadTotals::new(options), &progress)?;
        Ok(Digest::new(snapshot, threads))
    };
    let mut digests = paths.map(|_| None);
    rayon::scope(|scope| {
        for (path, digest) in paths.into_iter().zip(&mut digests) {
            scope.spawn(|_| *digest = Some(read(path)));
        }
    });
    drop(watch);
    let results = digests.into_iter().map(|digest| digest.expect("the scope has ended"));
    let all: Vec<Digest> = results.collect::<Result<_, _>>()?;
    Ok(all.try_into().expect("one for each path"))
}
