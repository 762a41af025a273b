//! Snapshots out of any bytes, by way of a file, as users read them.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use ctprof::CtprofSnapshot;
use ctprof::store::load as load_file;
use tempfile::TempDir;

/// Enough for any input, little enough to see a reader that takes more.
pub(crate) const LIMIT: u64 = 16 << 20;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

static DIRECTORY: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory"));

fn file() -> PathBuf {
    DIRECTORY.path().join("snapshot")
}

/// Reads bytes as a file, compressed first if they are not yet.
pub(crate) fn load(bytes: &[u8]) -> Option<CtprofSnapshot> {
    let compressed = if bytes.starts_with(&MAGIC) { bytes.to_vec() } else { zstd::encode_all(bytes, 1).ok()? };
    fs::write(file(), compressed).expect("a file");
    load_file(&file(), LIMIT).ok()
}

/// Writes a snapshot and reads it.
#[allow(dead_code, reason = "one of the targets has no use for it")]
pub(crate) fn again(snapshot: &CtprofSnapshot) -> CtprofSnapshot {
    snapshot.write(&file()).expect("a snapshot that can be written");
    load_file(&file(), u64::MAX).expect("a snapshot that can be read")
}
