//! The keys of cgroups: paths are flattened by the user's globs, then replaced by patterns, then renamed
//! cgroups are matched with their old names.

pub(super) mod renamed;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use self::renamed::{Kinds, Renamed, renamed};
use super::digest::TaskNames;
use super::options::{Names, Options};
use super::sides::Sides;
use crate::names::{Keys, Kind, pattern_key};

/// The keys of the cgroups of two snapshots. Without grouping by cgroup, every path is its own key.
#[derive(Default)]
pub(super) struct CgroupKeys<'n> {
    keys: HashMap<&'n str, String>,
    /// The baseline's key of each renamed cgroup, by the candidate's.
    renamed: HashMap<String, String>,
    /// The keys under which renamed cgroups are shown.
    matched: HashSet<String>,
    pub(super) list: Vec<Renamed>,
}

impl<'n> CgroupKeys<'n> {
    /// Decides the keys of both sides together, for the cgroups of threads and for the cgroups with
    /// recorded values (`recorded`).
    pub(super) fn learn(
        threads: Sides<impl Iterator<Item = TaskNames<'n>> + Clone>,
        recorded: Sides<impl Iterator<Item = &'n str>>,
        options: &Options,
    ) -> Self {
        if !options.group_by.is_by_cgroup() {
            return Self::default();
        }
        let occupied = threads.clone().into_iter().flatten().filter_map(|(_, _, cgroup)| cgroup);
        let paths: BTreeSet<&str> = occupied.chain(recorded.into_iter().flatten()).collect();
        let flattened = |path: &str| options.flatten.iter().find_map(|glob| glob.apply(path));
        let paths: Vec<_> = paths.into_iter().map(|path| (path, flattened(path))).collect();
        let paths = paths.iter().map(|(path, flattened)| (*path, flattened.as_deref().unwrap_or(path)));
        let patterns = match options.cgroups {
            Names::Patterns => Keys::learn(Kind::Cgroup, paths.clone().map(|(_, flattened)| flattened)),
            Names::Literal => Keys::literal(),
        };
        let mut keys =
            Self { keys: paths.map(|(path, flattened)| (path, patterns.key(flattened))).collect(), ..Self::default() };
        if options.renamed_cgroups == Names::Patterns {
            keys.match_renamed(threads);
        }
        keys
    }

    fn match_renamed(&mut self, threads: Sides<impl Iterator<Item = TaskNames<'n>> + Clone>) {
        let numbers = pattern_numbers(threads.clone().into_iter().flatten());
        let kinds = threads.map(|threads| self.kinds(threads, &numbers));
        let Some((baseline, candidate)) = kinds.both() else { return };
        self.list = renamed(&baseline, &candidate);
        self.renamed = self.list.iter().map(|r| (r.candidate.clone(), r.baseline.clone())).collect();
        self.matched = self.list.iter().map(|r| r.baseline.clone()).collect();
    }

    /// The key of a cgroup of the baseline.
    pub(super) fn baseline(&self, path: &str) -> String {
        self.keys.get(path).map_or(path, String::as_str).to_owned()
    }

    /// The key of a cgroup of the candidate.
    pub(super) fn candidate(&self, path: &str) -> String {
        let key = self.keys.get(path).map_or(path, String::as_str);
        self.renamed.get(key).map_or(key, String::as_str).to_owned()
    }

    /// Whether a key belongs to a renamed cgroup.
    pub(super) fn is_renamed(&self, key: &str) -> bool {
        self.matched.contains(key)
    }

    /// The kinds of threads under each key.
    fn kinds(&self, threads: impl Iterator<Item = TaskNames<'n>>, numbers: &HashMap<&str, u32>) -> Kinds {
        let mut kinds: HashMap<&str, BTreeSet<_>> = HashMap::new();
        for (process, thread, cgroup) in threads {
            if let Some(key) = cgroup.and_then(|path| self.keys.get(path)) {
                kinds.entry(key).or_default().insert((numbers[process], numbers[thread]));
            }
        }
        kinds.into_iter().map(|(key, kinds)| (key.to_owned(), kinds)).collect()
    }
}

/// A number for the pattern of each process and thread name.
fn pattern_numbers<'n>(threads: impl Iterator<Item = TaskNames<'n>>) -> HashMap<&'n str, u32> {
    let names: BTreeSet<&str> = threads.flat_map(|(process, thread, _)| [process, thread]).collect();
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut unused = 0..;
    let mut number =
        |name| *numbers.entry(pattern_key(name)).or_insert_with(|| unused.next().expect("names fit in memory"));
    names.into_iter().map(|name| (name, number(name))).collect()
}
