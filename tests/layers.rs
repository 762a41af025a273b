//! Who may import whom. A stage sees only the stage before it.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;
use std::path::{Path, PathBuf};

/// Each module with those it may use. `capture` and `compare` never meet; `report` sees neither
/// the capture nor the store; the command line sees everything.
const MAY_USE: [(&str, &[&str]); 10] = [
    ("model", &[]),
    ("sys", &[]),
    ("process", &["sys"]),
    ("names", &["model"]),
    ("diagnose", &["model"]),
    ("capture", &["model", "sys", "process", "names", "diagnose"]),
    ("store", &["model"]),
    ("compare", &["model", "names", "diagnose"]),
    ("report", &["model", "names", "diagnose", "compare"]),
    ("cli", &["model", "process", "names", "diagnose", "capture", "store", "compare", "report"]),
];

fn rust_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).into_iter().flatten();
    entries.flat_map(|entry| rust_files(&entry.unwrap().path())).filter(|path| path.extension().is_some()).collect()
}

fn files_of(module: &str) -> Vec<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = rust_files(&source.join(module));
    files.extend(rust_files(&source.join(format!("{module}.rs"))));
    assert!(!files.is_empty(), "{module} has no files");
    files
}

/// The modules that a text names after `crate::`, one by one or in braces.
fn used(text: &str) -> Vec<String> {
    let names = |rest: &str| -> Vec<String> {
        let name = |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        match rest.strip_prefix('{') {
            Some(list) => list[..list.find('}').unwrap_or(list.len())].split(',').map(name).collect(),
            None => vec![name(rest)],
        }
    };
    text.split("crate::").skip(1).flat_map(names).collect()
}

#[test]
fn a_stage_sees_only_the_stages_before_it() {
    for (module, may_use) in MAY_USE {
        for file in files_of(module) {
            for name in used(&fs::read_to_string(&file).unwrap()) {
                let known = MAY_USE.iter().any(|(module, _)| *module == name);
                let allowed = !known || name == module || may_use.contains(&name.as_str());
                assert!(allowed, "{}: {module} may not use {name}", file.display());
            }
        }
    }
}

#[test]
fn every_module_is_in_the_table() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let modules = lib.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod "));
    for module in modules.map(|rest| rest.trim_end_matches(';')) {
        assert!(MAY_USE.iter().any(|(known, _)| *known == module), "{module} has no place among the stages");
    }
}

#[test]
fn unsafe_code_is_in_sys_only() {
    for (module, _) in MAY_USE.iter().filter(|(module, _)| *module != "sys") {
        for file in files_of(module) {
            let text = fs::read_to_string(&file).unwrap();
            assert!(!text.contains("unsafe {") && !text.contains("allow(unsafe_code"), "{}", file.display());
        }
    }
}
