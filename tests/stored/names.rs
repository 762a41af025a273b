//! Names of real threads, their patterns, and their groups.

use ctprof::CtprofSnapshot;
use ctprof::compare::{CompareOptions, GroupBy, show};
use ctprof::names::pattern_key;
use serde_json::json;

/// Kernel, tokio, rayon, JVM, Go, Chrome, databases, web servers, containers, desktops.
const NAMES: &str = include_str!("names.tsv");

fn names_and_patterns() -> Vec<(&'static str, &'static str)> {
    NAMES.lines().filter_map(|line| line.split_once('\t')).collect()
}

fn snapshot<'n>(names: impl IntoIterator<Item = &'n str>) -> CtprofSnapshot {
    let threads = names.into_iter().enumerate().map(|(at, name)| {
        let kernel = name.starts_with('k') || name.starts_with("rcu");
        json!({ "tid": at + 1, "tgid": at + 1, "pcomm": name, "comm": name, "cgroup": format!("/{name}"),
            "kernel_thread": kernel, "run_time_ns": at })
    });
    serde_json::from_value(json!({ "format_version": 1, "threads": threads.collect::<Vec<_>>() })).unwrap()
}

/// The groups with their numbers of threads.
fn groups(snapshot: &CtprofSnapshot, group_by: GroupBy) -> Vec<(String, u64)> {
    let mut options = CompareOptions::default();
    options.grouping.axis = group_by;
    let view = show(snapshot, &options);
    let table = view.sections.iter().find(|table| table.section == ctprof::model::Section::Primary).unwrap();
    let groups = table.groups.iter().filter(|group| !group.is_all());
    groups.map(|group| (group.label.clone(), group.members().baseline.unwrap())).collect()
}

#[test]
fn real_names_have_the_patterns_that_were_agreed_on() {
    let pairs = names_and_patterns();
    assert!(pairs.len() >= 80);
    for (name, pattern) in pairs {
        assert_eq!(pattern_key(name), pattern, "{name}");
    }
}

#[test]
fn two_databases_are_two_groups_although_their_names_are_hexadecimal_digits() {
    let groups = groups(&snapshot(["db01", "db02", "abcd1", "abcd2", "job-7f3a9c", "job-c41b07"]), GroupBy::Comm);
    let expected = [("abcd{N}", 2), ("db{N}", 2), ("job-{H}", 2)];
    assert_eq!(groups, expected.map(|(name, threads)| (name.to_owned(), threads)));
}

#[test]
fn a_redacted_snapshot_has_groups_of_the_same_sizes() {
    let plain = snapshot(names_and_patterns().into_iter().map(|(name, _)| name));
    let mut redacted = plain.clone();
    redacted.redact("key");
    for group_by in [GroupBy::Pcomm, GroupBy::Comm, GroupBy::CommExact, GroupBy::Cgroup, GroupBy::All] {
        let sizes = |snapshot| {
            let mut sizes: Vec<u64> = groups(snapshot, group_by).into_iter().map(|(_, threads)| threads).collect();
            sizes.sort_unstable();
            sizes
        };
        assert_eq!(sizes(&plain), sizes(&redacted), "{group_by:?}");
    }
}
