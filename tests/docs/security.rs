//! SECURITY.md: each test that it names as the proof of a promise exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Names of all functions in Rust files below a directory.
fn functions(directory: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let definitions = text.split("fn ").skip(1).filter_map(|rest| rest.split_once('('));
            names.extend(definitions.map(|(name, _)| name.to_owned()));
        }
    }
}

#[test]
fn every_test_that_security_md_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut defined = BTreeSet::new();
    functions(&root.join("src"), &mut defined);
    functions(&root.join("tests"), &mut defined);
    let page = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let quoted = page.split('`').skip(1).step_by(2);
    // Names of tests are sentences.
    let is_test = |text: &&str| {
        text.matches('_').count() >= 3 && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let named: BTreeSet<&str> = quoted.filter(is_test).collect();
    let missing: Vec<_> = named.iter().filter(|name| !defined.contains(**name)).collect();
    assert!(missing.is_empty(), "SECURITY.md names tests that do not exist: {missing:?}");
    assert!(named.len() > 30, "{named:?}");
}
