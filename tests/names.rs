//! Names of real threads and what they are grouped by.

use ctprof::names::pattern_key;

/// Kernel, tokio, rayon, JVM, Go, Chrome, databases, web servers, containers, desktops.
const NAMES: &str = include_str!("names.tsv");

#[test]
fn real_names_have_the_patterns_that_were_agreed_on() {
    let pairs: Vec<_> = NAMES.lines().filter_map(|line| line.split_once('\t')).collect();
    assert!(pairs.len() >= 80);
    for (name, pattern) in pairs {
        assert_eq!(pattern_key(name), pattern, "{name}");
    }
}
