//! Links of the documents lead to files and headings that exist.

use std::fs;
use std::path::{Path, PathBuf};

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directories = ["", "docs", "tests", "tests/kernels", "tests/kernels/btf"].map(|directory| root.join(directory));
    let files =
        directories.iter().flat_map(|directory| fs::read_dir(directory).unwrap()).map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Lines outside of code blocks.
fn prose(page: &str) -> String {
    page.split("```").step_by(2).collect()
}

/// The targets of the links of a page that lead to files or headings.
pub(crate) fn targets(page: &str) -> Vec<String> {
    let text = prose(page);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

/// The anchors that a Markdown page gets from its headings.
fn anchors(page: &str) -> Vec<String> {
    let page = prose(page);
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings.map(|heading| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let mut broken = Vec::new();
    for document in documents() {
        let page = fs::read_to_string(&document).unwrap();
        for target in targets(&page) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            let headings = || anchors(&fs::read_to_string(&path).unwrap_or_default());
            if !path.exists() || !anchor.is_empty() && !headings().iter().any(|heading| heading == anchor) {
                broken.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn sources_that_documents_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bases = ["", "src", "src/capture"].map(|base| root.join(base));
    let mut named = 0;
    for document in documents().iter().filter(|document| !document.ends_with("CHANGELOG.md")) {
        let text = prose(&fs::read_to_string(document).unwrap());
        let sources = text.split('`').skip(1).step_by(2).filter(|path| path.ends_with(".rs") && path.contains('/'));
        for path in sources {
            let exists =
                bases.iter().map(PathBuf::as_path).chain(document.parent()).any(|base| base.join(path).exists());
            assert!(exists, "{}: {path}", document.display());
            named += 1;
        }
    }
    assert!(named > 10, "{named}");
}
