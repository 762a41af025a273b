//! The keys of cgroups: paths flattened by the user's globs, made into patterns, and those that were
//! renamed matched with their old names.

mod renamed;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use globset::{GlobBuilder, GlobMatcher};
use serde::Serialize;

use self::renamed::{Kinds, renamed};
use super::{Names, Options, Sides};
use crate::names::{Keys, Kind, pattern_key};

/// A cgroup that has another name in the candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Renamed {
    /// Its name in the baseline, under which it is shown.
    pub baseline: String,
    /// Its name in the candidate.
    pub candidate: String,
    /// The similarity of their threads, from 0 to 1: shared kinds per kinds in either. A kind is a
    /// pattern of a process name with a pattern of a thread name.
    pub similarity: f64,
}

/// A glob that flattens cgroups: those whose paths it matches are one.
#[derive(Clone, Debug)]
pub struct Flatten {
    text: String,
    matcher: GlobMatcher,
}

impl Flatten {
    /// A glob over cgroup paths: `*` stays within a segment, `**` crosses.
    ///
    /// # Errors
    /// If the glob is invalid.
    pub fn new(glob: &str) -> Result<Self, globset::Error> {
        let matcher = GlobBuilder::new(glob).literal_separator(true).build()?.compile_matcher();
        Ok(Self { text: glob.to_owned(), matcher })
    }

    /// The path with the longest front part that the glob matches replaced by the glob.
    fn apply(&self, path: &str) -> Option<String> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut fronts: Vec<usize> = ends.filter(|end| *end > 0).collect();
        fronts.reverse();
        let end = fronts.into_iter().find(|end| self.matcher.is_match(&path[..*end]))?;
        Some(format!("{}{}", self.text, &path[end..]))
    }
}

/// The process name, the thread name and the cgroup of a thread; several threads may share them.
pub(super) type TaskNames<'n> = (&'n str, &'n str, Option<&'n str>);

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
    /// Decides the keys of both sides together: of the cgroups that threads are in, and of those
    /// that have counters of their own (`recorded`).
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
        self.list = renamed(&kinds.baseline, &kinds.candidate);
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

    /// Whether a key is that of a renamed cgroup.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_replace_what_they_match() {
        let flat = |glob: &str, path: &str| Flatten::new(glob).unwrap().apply(path);
        assert_eq!(flat("/user.slice/*", "/user.slice/a/b").as_deref(), Some("/user.slice/*/b"));
        assert_eq!(flat("/user.slice/**", "/user.slice/a/b").as_deref(), Some("/user.slice/**"));
        assert_eq!(flat("/user.slice/*", "/system.slice/a"), None);
        assert!(Flatten::new("/a[").is_err());
    }
}
