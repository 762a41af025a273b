//! The words of documents, help, messages and comments: one spelling, and standard terms.

use std::fs;
use std::path::{Path, PathBuf};

/// Words with what to write instead.
const INSTEAD: [(&str, &str); 11] = [
    ("artefact", "artifact"),
    ("behaviour", "behavior"),
    ("colour", "color"),
    ("favour", "favor"),
    ("folder", "directory"),
    ("licence", "license"),
    ("neighbour", "neighbor"),
    ("in spite of", "despite"),
    ("stood in line", "waited"),
    ("to be had", "available"),
    ("worth the name", "a number"),
];

fn texts(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| texts(&entry.unwrap().path(), found));
    } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md" || extension == "1") {
        found.push(path.to_owned());
    }
}

#[test]
fn texts_have_one_spelling_and_standard_terms() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for part in ["README.md", "SECURITY.md", "CONTRIBUTING.md", "docs", "src", "examples"] {
        texts(&root.join(part), &mut found);
    }
    for path in found {
        let text = fs::read_to_string(&path).unwrap().to_lowercase();
        for (word, instead) in INSTEAD {
            assert!(!text.contains(word), "{}: write `{instead}` for `{word}`", path.display());
        }
    }
}
