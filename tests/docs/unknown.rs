//! What is unknown is not 0: a value of the model that can be absent has no number in its place, outside of the model.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a number stands for an absent value, and why it misleads nobody.
const ALLOWED: [(&str, &str); 1] =
    [("window/cpu_time.rs: before.at_ns.unwrap_or(0)", "files of 0.2.0 lack it: it was read when the capture began")];

/// What turns an absent value into a number.
const FALLBACKS: [&str; 5] =
    [".unwrap_or(0", ".unwrap_or_default()", ".unwrap_or(false)", ".map_or(0", ".map_or(false"];

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The lines of a file outside of tests, each with the method calls that continue it.
fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap().trim());
    lines.collect::<Vec<_>>().join("\n").replace("\n.", ".").lines().map(str::to_owned).collect()
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The names of the metrics, and of the optional numbers of the model.
fn measured(source: &Path) -> BTreeSet<String> {
    let of_line = |line: &String| {
        let (name, rest) = line.trim_start_matches("pub ").trim_start_matches("optional ").split_once(": ")?;
        let kind = rest.strip_prefix("Option<").map_or(rest.contains(" = "), |kind| {
            ["u64>", "u32>", "i64>", "f64>", "bool>", "Whole>"].iter().any(|number| kind.starts_with(number))
        });
        (kind && name.chars().all(is_of_name)).then(|| name.to_owned())
    };
    files(&source.join("model")).iter().flat_map(|path| lines(path)).filter_map(|line| of_line(&line)).collect()
}

#[test]
fn no_number_stands_for_a_measured_value_that_is_absent() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let measured = measured(&source);
    assert!(
        ["run_time_ns", "read_at_ns", "walk_ns", "blkio_delay_total_ns"].iter().all(|name| measured.contains(*name))
    );
    let mut found = BTreeSet::new();
    let outside = files(&source).into_iter().filter(|path| !path.starts_with(source.join("model")));
    for path in outside.filter(|path| !path.ends_with("tests.rs")) {
        for line in lines(&path) {
            for (at, fallback) in FALLBACKS.iter().flat_map(|text| line.match_indices(text)) {
                let before = line[..at].trim_end_matches(".copied()").trim_end_matches(".clone()");
                let owner = before.rfind(|c| !is_of_name(c) && c != '.').map_or(before, |end| &before[end + 1..]);
                // A field, or a variable with a field's whole name.
                if owner.contains(['.', '_']) && measured.contains(owner.rsplit('.').next().unwrap()) {
                    let end = line[at + fallback.len()..]
                        .find([')', ','])
                        .map_or(line.len(), |end| at + fallback.len() + end + 1);
                    let place = path.strip_prefix(&source).unwrap().display();
                    found.insert(format!("{place}: {owner}{}", &line[at..end]));
                }
            }
        }
    }
    let allowed = ALLOWED.map(|(place, _)| place.to_owned()).into();
    assert_eq!(found, allowed, "left: what the code has, right: what may be");
}
