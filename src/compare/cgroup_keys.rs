//! The keys of cgroups: paths are flattened by the user's globs, then replaced by patterns, then renamed
//! cgroups are matched with their old names.

pub(super) mod renamed;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub use self::renamed::Renamed;
use self::renamed::{Kinds, renamed};
use super::{GroupBy, Grouping, Names, Sides, ThreadNames};
use crate::diagnose::Side;
use crate::model::{CgroupStats, Container};
use crate::names::{Keys, NameKind, cgroup_pattern, pattern_key, unit_of_path, workload};

/// The keys of the cgroups of two snapshots. Without grouping by cgroup, every path is its own key.
#[derive(Default)]
pub(super) struct CgroupKeys {
    keys: HashMap<String, String>,
    /// How many cgroups have each key.
    counts: HashMap<String, usize>,
    /// The baseline's key of each renamed cgroup, by the candidate's.
    renamed: HashMap<String, String>,
    /// The keys under which renamed cgroups are shown.
    matched: HashSet<String>,
    /// Cgroups that a capture lists only for their CPU quota. They are compared with captures in which they have no quota, too.
    quotas: HashSet<String>,
    pub(super) list: Vec<Renamed>,
}

impl CgroupKeys {
    /// Decides the keys of both sides together, for the cgroups of threads and for the cgroups with
    /// recorded values (`recorded`).
    pub(super) fn learn<'n>(
        threads: &Sides<Vec<&'n ThreadNames>>,
        recorded: impl Iterator<Item = (&'n String, &'n CgroupStats)>,
        containers: &HashMap<&str, &Container>,
        grouping: &Grouping,
    ) -> Self {
        if !grouping.axis.is_by_cgroup() {
            return Self::default();
        }
        let recorded: Vec<_> = recorded.collect();
        let quotas = recorded.iter().filter(|(_, stats)| stats.without_threads);
        let quotas = quotas.map(|(path, _)| (*path).clone()).collect();
        let occupied = threads.iter().flatten().filter_map(|names| names.cgroup.as_deref());
        let paths: BTreeSet<&str> = occupied.chain(recorded.iter().map(|(path, _)| &***path)).collect();
        let flattened = |path: &str| grouping.flatten.iter().find_map(|glob| glob.apply(path));
        let paths: Vec<_> = paths.into_iter().map(|path| (path, flattened(path))).collect();
        let paths = paths.iter().map(|(path, flattened)| (*path, flattened.as_deref().unwrap_or(path)));
        let patterns = match grouping.names {
            Names::Patterns => Keys::learn(NameKind::Cgroup, paths.clone().map(|(_, flattened)| flattened)),
            Names::Literal => Keys::literal(),
        };
        let shown = match grouping.names {
            Names::Patterns => cgroup_pattern,
            Names::Literal => str::to_owned,
        };
        let named = |path: &str| containers.get(path).and_then(|container| name_of(container, grouping));
        let key = |(path, flattened): (&str, &str)| match grouping.axis {
            GroupBy::Container | GroupBy::Pod => named(path).or_else(|| unit_of_path(path, shown)),
            // Containers with different names are never one group, unless the user merges their cgroups.
            _ if flattened == path => named(path).map(|name| format!("{} [{name}]", patterns.key(path))),
            _ => None,
        };
        let key = |(path, flattened)| key((path, flattened)).unwrap_or_else(|| patterns.key(flattened));
        let keys: HashMap<_, _> = paths.map(|(path, flattened)| (path.to_owned(), key((path, flattened)))).collect();
        let mut counts = HashMap::new();
        keys.values().for_each(|key: &String| *counts.entry(key.clone()).or_default() += 1);
        let mut keys = Self { keys, counts, quotas, ..Self::default() };
        // Containers and pods are the same only if their names are.
        let are_paths = matches!(grouping.axis, GroupBy::Cgroup | GroupBy::All) && grouping.names == Names::Patterns;
        if let (true, Sides { baseline, candidate: Some(candidate) }) = (are_paths, threads) {
            let numbers = pattern_numbers(baseline.iter().chain(candidate).copied());
            keys.list = renamed(&keys.kinds(baseline, &numbers), &keys.kinds(candidate, &numbers));
            keys.renamed = keys.list.iter().map(|pair| (pair.candidate.clone(), pair.baseline.clone())).collect();
            keys.matched = keys.list.iter().map(|pair| pair.baseline.clone()).collect();
        }
        keys
    }

    pub(super) fn key(&self, side: Side, path: &str) -> String {
        let key = self.keys.get(path).map_or(path, String::as_str);
        let renamed = self.renamed.get(key).filter(|_| side == Side::Candidate);
        renamed.map_or(key, String::as_str).to_owned()
    }

    /// Whether a section lists the cgroup.
    pub(super) fn lists(&self, path: &str, stats: &CgroupStats) -> bool {
        !stats.without_threads || self.quotas.contains(path)
    }

    pub(super) fn is_renamed(&self, key: &str) -> bool {
        self.matched.contains(key)
    }

    pub(super) fn count(&self, key: &str) -> Option<usize> {
        self.counts.get(key).copied()
    }

    fn kinds(&self, threads: &[&ThreadNames], numbers: &HashMap<&str, u32>) -> Kinds {
        let mut kinds = Kinds::new();
        for ThreadNames { process, thread, cgroup, .. } in threads {
            if let Some(key) = cgroup.as_deref().and_then(|path| self.keys.get(path)) {
                let kinds = kinds.entry(key.clone()).or_default();
                kinds.insert((numbers[&**process], numbers[&**thread]));
            }
        }
        kinds
    }
}

/// The name of a container, or of its pod, by which it is grouped.
fn name_of(container: &Container, grouping: &Grouping) -> Option<String> {
    let shown = match grouping.names {
        Names::Patterns => workload,
        Names::Literal => str::to_owned,
    };
    // Without a name, nothing says which pods are of one workload.
    let pod = || container.pod_key(shown).or_else(|| Some(format!("pod{}", container.pod_uid.as_ref()?)));
    let pod = if grouping.axis == GroupBy::Pod { pod() } else { None };
    let is_by_container = matches!(grouping.axis, GroupBy::Container | GroupBy::Pod);
    let unnamed = || {
        let id = container.id.as_ref().filter(|_| is_by_container)?;
        let runtime = container.runtime.as_deref().unwrap_or("container");
        Some(format!("{runtime} {}", id.get(..SHORT_ID).unwrap_or(id)))
    };
    pod.or_else(|| container.key(shown)).or_else(unnamed)
}

/// Number of characters of a container's id that `docker ps` and `podman ps` show.
const SHORT_ID: usize = 12;

/// A number for the pattern of each process and thread name.
fn pattern_numbers<'n>(threads: impl Iterator<Item = &'n ThreadNames>) -> HashMap<&'n str, u32> {
    let names: BTreeSet<&str> = threads.flat_map(|names| [&*names.process, &*names.thread]).collect();
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut unused = 0..;
    let mut number =
        |name| *numbers.entry(pattern_key(name)).or_insert_with(|| unused.next().expect("names fit in memory"));
    names.into_iter().map(|name| (name, number(name))).collect()
}
