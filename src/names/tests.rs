//! Redaction keeps the groups: names have equal keys before it if and only if they have equal keys after it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::string::{RegexGeneratorStrategy, string_regex};

use super::hash::Hash;
use super::{Keys, NameKind, cgroup_pattern, pattern_key};

fn text(regex: &str) -> RegexGeneratorStrategy<String> {
    string_regex(regex).unwrap()
}

/// Generates names like names of programs, from few words, so that names collide.
fn task() -> impl Strategy<Value = String> {
    let word = "(db|abcd|ab|cafe|io|worker|GC|größe|名前|kworker|[a-f]{1,5}|[A-F]{2,3}|[a-z]{1,2})";
    let id = "([a-f0-9]{3,5}|[A-F0-9]{4,5}|[a-f][0-9]{2,4}|[0-9]{1,2}[ab]{1,2}|[0-9]{6,8}|[a-f0-9]{15,17})";
    let uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}x?";
    prop_oneof![
        8 => text(&format!("{word}[-/#_ ]?[0-9]{{0,3}}")),
        8 => text(&format!("({word}-)?{id}(-{id})?")),
        2 => text(&format!("({word}[-_:])?{uuid}(-{word})?")),
        2 => text("kworker/[uR]?[0-9]:[0-9](H|[-+][a-z0-9]{1,3})?"),
        2 => text("\\PC{0,15}"),
    ]
}

/// Generates paths of cgroups with segments like segments of systemd and container runtimes.
fn cgroup() -> impl Strategy<Value = String> {
    let hex = "[0-9a-f]{16,17}|[0-9a-f]{64}|[a-f]{64}|[0-9]{64}|[0-9a-f]{63}";
    let uuid = "[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}";
    let name = "(app|session|run|user|docker|db01|abcd1|web|api-v2|podracer|größe|[a-f]{1,3}[0-9]{0,4}|[a-z]{1,2})";
    let segment = format!(
        "{name}|{name}@({name}|[0-9]{{1,3}})?|session-(c?[0-9]{{1,8}}|x)|run-(r({hex})|[up][0-9]{{1,8}}(-i[0-9]{{1,3}})?|{name})\
         |({name}[-:_])?({hex})|({name}-)?pod({uuid}|{hex}|{name})|({name}[-_])?{uuid}(-{name})?"
    );
    let unit = "(\\.(service|scope|slice|socket|mount|other))?";
    prop::collection::vec(text(&format!("({segment}){unit}")), 1..3).prop_map(|path| format!("/{}", path.join("/")))
}

/// Returns, for each name, the index of the first name in its group.
fn partition<K: Ord>(names: &[String], key: impl Fn(&str) -> K) -> Vec<usize> {
    let mut first = BTreeMap::new();
    names.iter().enumerate().map(|(at, name)| *first.entry(key(name)).or_insert(at)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn redaction_neither_splits_nor_merges_groups_of_threads(
        names in prop::collection::vec(task(), 1..40), key in "[a-z]{0,4}",
    ) {
        let hash = Hash::new(&key);
        let redacted: Vec<String> = names.iter().map(|name| hash.task(name)).collect();
        let groups = |names: &[String]| {
            let keys = Keys::learn(NameKind::Task, names.iter().map(String::as_str));
            [partition(names, |name| keys.key(name)), partition(names, pattern_key), partition(names, str::to_owned)]
        };
        prop_assert_eq!(groups(&names), groups(&redacted), "{:?}", redacted);
    }

    #[test]
    fn redaction_neither_splits_nor_merges_groups_of_cgroups(
        paths in prop::collection::vec(cgroup(), 1..20), key in "[a-z]{0,4}",
    ) {
        let hash = Hash::new(&key);
        let redacted: Vec<String> = paths.iter().map(|path| hash.cgroup(path)).collect();
        let groups = |paths: &[String]| {
            let keys = Keys::learn(NameKind::Cgroup, paths.iter().map(String::as_str));
            [partition(paths, |path| keys.key(path)), partition(paths, cgroup_pattern), partition(paths, str::to_owned)]
        };
        prop_assert_eq!(groups(&paths), groups(&redacted), "{:?}", redacted);
    }

    #[test]
    fn redaction_merges_no_user_thread_with_a_kernel_thread(users in prop::collection::vec(task(), 1..20)) {
        let kernel = ["ksoftirqd/0", "ksoftirqd/1", "kworker/0:1-events", "jbd2/sda1-8", "rcu_preempt"].map(str::to_owned);
        let all: Vec<String> = users.iter().chain(&kernel).cloned().collect();
        let hash = Hash::new("k");
        let redacted: Vec<String> = users.iter().map(|name| hash.task(name)).chain(kernel).collect();
        let groups = |names: &[String]| {
            let keys = Keys::learn(NameKind::Task, names.iter().map(String::as_str));
            partition(names, |name| keys.key(name))
        };
        let (before, after) = (groups(&all), groups(&redacted));
        for at in 0..users.len() {
            let is_with_kernel = |groups: &[usize]| groups[users.len()..].contains(&groups[at]);
            prop_assert!(!is_with_kernel(&after) || is_with_kernel(&before), "{:?}", redacted);
        }
    }
}
