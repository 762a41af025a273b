//! Snapshots as strangers may write them, exported: nothing is written outside of the output directory, every thread is a
//! row, and the same input gives the same files.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ctprof::export::{ExportOptions, Exported, Output, export};

mod stored;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some(snapshot) = stored::load(input) else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("snapshot.json");
    fs::write(&path, input).expect("a file");
    let (exported, first) = exported(&path, dir.path(), "first");
    let (_, second) = exported_again(&path, dir.path());
    assert_eq!(first, second);
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 3);
    if exported.failed == 0 {
        assert_eq!(exported.threads, snapshot.threads.len() as u64);
    }
});

fn exported_again(path: &Path, parent: &Path) -> (Exported, Vec<(PathBuf, Vec<u8>)>) {
    exported(path, parent, "second");
    exported(path, parent, "second")
}

/// Exports into a directory, and returns its files that engines read.
fn exported(path: &Path, parent: &Path, name: &str) -> (Exported, Vec<(PathBuf, Vec<u8>)>) {
    let output = parent.join(name);
    let progress = Arc::default();
    let options = ExportOptions { limit: 1 << 24, weight: 1.0, progress: &progress };
    let exported = export(&[path.to_owned()], &Output::Datasets(output.clone()), options, &mut |_| {});
    let mut files = Vec::new();
    below(&output, &output, &mut files);
    files.sort();
    (exported.expect("a directory that can be written"), files)
}

fn below(root: &Path, directory: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() {
            below(root, &path, files);
        } else if !is_hidden {
            let name = path.strip_prefix(root).expect("a file below").to_owned();
            files.push((name, fs::read(&path).expect("a file")));
        }
    }
}
