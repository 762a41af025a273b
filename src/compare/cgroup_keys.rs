//! The keys of cgroups: flattened by the user's globs, made into patterns, and those that came back
//! under another name paired with what they were.

use std::collections::{BTreeMap, BTreeSet};

use globset::{GlobBuilder, GlobMatcher};
use serde::Serialize;

use super::digest::Digest;
use super::{Names, Options, Sides};
use crate::names::cgroup_pattern;
use crate::names::{Keys, pattern_key};

/// Two cgroups are one if their threads are so alike.
const ALIKE: f64 = 0.9;
/// So many kinds of threads in common are no coincidence.
const TELLING: usize = 3;

/// A cgroup that came back under another name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Renamed {
    /// Its name in the baseline, under which it is shown.
    pub baseline: String,
    /// Its name in the candidate.
    pub candidate: String,
    /// How alike their threads are: shared kinds in all kinds.
    pub similarity: f64,
}

/// A glob that cgroups are flattened by.
#[derive(Clone, Debug)]
pub struct Flatten {
    text: String,
    matcher: GlobMatcher,
}

impl Flatten {
    /// A glob over cgroup paths: `*` stays within a segment, `**` crosses.
    ///
    /// # Errors
    /// If the glob makes no sense.
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

/// What each cgroup is called, on either side.
pub(super) struct CgroupKeys<'o> {
    flatten: &'o [Flatten],
    keys: Keys,
    /// What the candidate's cgroups are called that came back under another name.
    renamed: BTreeMap<String, String>,
    pub(super) list: Vec<Renamed>,
}

impl<'o> CgroupKeys<'o> {
    pub(super) fn learn(sides: Sides<&[Digest]>, options: &'o Options) -> Self {
        let mut keys =
            Self { flatten: &options.flatten, keys: Keys::literal(), renamed: BTreeMap::new(), list: Vec::new() };
        if options.cgroups == Names::Patterns {
            let digests = || sides.into_iter().flatten();
            let of_threads =
                digests().flat_map(|digest| digest.kinds.keys()).filter_map(|names| names.cgroup.as_deref());
            let recorded = digests().flat_map(|digest| digest.snapshot.cgroup_stats.keys().map(String::as_str));
            let paths: BTreeSet<&str> = of_threads.chain(recorded).collect();
            let paths: BTreeSet<String> = paths.into_iter().map(|path| keys.flattened(path)).collect();
            keys.keys = Keys::learn(cgroup_pattern, paths.iter().map(String::as_str));
        }
        if options.renamed_cgroups == Names::Patterns {
            keys.list = renamed(&keys.kinds(sides.baseline), &keys.kinds(sides.candidate));
            keys.renamed = keys.list.iter().map(|r| (r.candidate.clone(), r.baseline.clone())).collect();
        }
        keys
    }

    fn flattened(&self, path: &str) -> String {
        self.flatten.iter().find_map(|glob| glob.apply(path)).unwrap_or_else(|| path.to_owned())
    }

    /// The key of a cgroup of the baseline.
    pub(super) fn baseline(&self, path: &str) -> String {
        self.keys.key(&self.flattened(path))
    }

    /// The key of a cgroup of the candidate.
    pub(super) fn candidate(&self, path: &str) -> String {
        let key = self.baseline(path);
        self.renamed.get(&key).cloned().unwrap_or(key)
    }

    /// The kinds of threads in each cgroup.
    fn kinds(&self, digests: &[Digest]) -> Kinds {
        let mut kinds = Kinds::new();
        for names in digests.iter().flat_map(|digest| digest.kinds.keys()) {
            if let Some(path) = &names.cgroup {
                let kind = (pattern_key(&names.process), pattern_key(&names.thread));
                kinds.entry(self.baseline(path)).or_default().insert(kind);
            }
        }
        kinds
    }
}

type Kinds = BTreeMap<String, BTreeSet<(String, String)>>;

/// Pairs cgroups that exist on one side only, best first, one to one; children follow their parents.
fn renamed(baseline: &Kinds, candidate: &Kinds) -> Vec<Renamed> {
    let gone: Vec<_> = baseline.iter().filter(|(name, _)| !candidate.contains_key(*name)).collect();
    let new: Vec<_> = candidate.iter().filter(|(name, _)| !baseline.contains_key(*name)).collect();
    let similarity = |a: &BTreeSet<_>, b: &BTreeSet<_>| {
        let shared = a.intersection(b).count();
        (shared, shared as f64 / (a.len() + b.len() - shared).max(1) as f64)
    };
    let mut pairs = Vec::new();
    for (old, a) in &gone {
        for (name, b) in &new {
            let (shared, alike) = similarity(a, b);
            let same_leaf = || leaf(old) == leaf(name);
            let telling = shared >= TELLING || (shared > 0 && shared == a.len() && shared == b.len() && same_leaf());
            if alike >= ALIKE && telling {
                pairs.push(Renamed { baseline: (*old).clone(), candidate: (*name).clone(), similarity: alike });
            }
        }
    }
    pairs.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
    let mut paired: Vec<Renamed> = Vec::new();
    let is_free =
        |paired: &[Renamed], r: &Renamed| paired.iter().all(|p| p.baseline != r.baseline && p.candidate != r.candidate);
    for pair in pairs {
        if is_free(&paired, &pair) {
            paired.push(pair);
        }
    }
    let below =
        |child: &str, parent: &str| child.strip_prefix(parent).filter(|rest| rest.starts_with('/')).map(str::to_owned);
    let parents = paired.clone();
    for (name, b) in &new {
        let parent = parents.iter().find_map(|p| Some((p, below(name, &p.candidate)?)));
        let Some((parent, rest)) = parent else { continue };
        let old = format!("{}{rest}", parent.baseline);
        if let Some(a) = gone.iter().find(|(name, _)| **name == old) {
            let child = Renamed { similarity: similarity(a.1, b).1, baseline: old, candidate: (*name).clone() };
            if is_free(&paired, &child) {
                paired.push(child);
            }
        }
    }
    paired
}

fn leaf(path: &str) -> String {
    cgroup_pattern(path.rsplit('/').next().unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(cgroups: &[(&str, &[&str])]) -> Kinds {
        let set = |threads: &[&str]| threads.iter().map(|t| ("p".to_owned(), (*t).to_owned())).collect();
        cgroups.iter().map(|(name, threads)| ((*name).to_owned(), set(threads))).collect()
    }

    fn pairs(a: &[(&str, &[&str])], b: &[(&str, &[&str])]) -> Vec<(String, String)> {
        renamed(&kinds(a), &kinds(b)).into_iter().map(|r| (r.baseline, r.candidate)).collect()
    }

    #[test]
    fn a_service_that_came_back_meets_itself() {
        let threads: &[&str] = &["main", "io", "gc"];
        assert_eq!(pairs(&[("/a", threads)], &[("/b", threads)]), [("/a".to_owned(), "/b".to_owned())]);
        assert_eq!(pairs(&[("/a", threads)], &[("/b", &["main", "io", "net"])]), []);
        assert_eq!(pairs(&[("/a", threads), ("/b", threads)], &[("/b", threads)]), [], "still there");
    }

    #[test]
    fn few_threads_need_the_same_leaf() {
        assert_eq!(pairs(&[("/x/web", &["main"])], &[("/y/web", &["main"])]).len(), 1);
        assert_eq!(pairs(&[("/x/web", &["main"])], &[("/y/db", &["main"])]), []);
    }

    #[test]
    fn pairs_are_one_to_one_and_children_follow() {
        let threads: &[&str] = &["main", "io", "gc"];
        let two = pairs(&[("/a", threads)], &[("/b", threads), ("/c", threads)]);
        assert_eq!(two.len(), 1);
        let family = pairs(&[("/a", threads), ("/a/x", &["one"])], &[("/b", threads), ("/b/x", &["two"])]);
        assert_eq!(family[1], ("/a/x".to_owned(), "/b/x".to_owned()));
    }

    #[test]
    fn globs_replace_what_they_match() {
        let flat = |glob: &str, path: &str| Flatten::new(glob).unwrap().apply(path);
        assert_eq!(flat("/user.slice/*", "/user.slice/a/b").as_deref(), Some("/user.slice/*/b"));
        assert_eq!(flat("/user.slice/**", "/user.slice/a/b").as_deref(), Some("/user.slice/**"));
        assert_eq!(flat("/user.slice/*", "/system.slice/a"), None);
        assert!(Flatten::new("/a[").is_err());
    }
}
