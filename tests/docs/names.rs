//! A type's name says which type it is: no two types of the library have the same one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The names of types that a file defines outside of functions and tests.
fn types(text: &str) -> impl Iterator<Item = &str> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    text.lines().filter_map(|line| {
        let item = line.strip_prefix("pub").map_or(line, |rest| rest.split_once(' ').map_or("", |(_, item)| item));
        // `pub(in crate::capture) struct` has a space within.
        let item = item.strip_prefix("crate::").and_then(|rest| rest.split_once(' ')).map_or(item, |(_, item)| item);
        let name = ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|word| item.strip_prefix(word))?;
        name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    })
}

/// A file that only tests use has `#[cfg(test)]` before its `mod`, or is in a directory `tests`.
fn is_of_tests(path: &Path) -> bool {
    if path.parent().is_some_and(|directory| directory.ends_with("tests")) {
        return true;
    }
    let name = path.file_stem().unwrap().to_str().unwrap();
    let directory = path.parent().unwrap();
    let parents = [directory.join("mod.rs"), directory.join("lib.rs"), directory.with_extension("rs")];
    let declared = format!("#[cfg(test)]\nmod {name};");
    parents.iter().filter_map(|parent| fs::read_to_string(parent).ok()).any(|text| text.contains(&declared))
}

#[test]
fn no_two_types_have_the_same_name() {
    let mut all = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in all.iter().filter(|path| !is_of_tests(path)) {
        for name in types(&fs::read_to_string(path).unwrap()) {
            places.entry(name.to_owned()).or_default().push(path.display().to_string());
        }
    }
    assert!(places.len() > 100, "{places:?}");
    let twice: Vec<_> = places.iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(twice.is_empty(), "find other names: {twice:#?}");
}
