//! Globs: which groups are selected by name, and which cgroups are merged.

use std::collections::BTreeSet;
use std::fmt;

use glob::{MatchOptions, Pattern};

use super::similar;
use crate::model::lineage;
use crate::model::sorted::CollectSorted;

const SUGGESTIONS: usize = 3;

fn pattern(glob: &str) -> Result<Pattern, String> {
    Pattern::new(glob).map_err(|error| error.msg.to_owned())
}

/// A glob over names of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupGlob(Pattern);

impl GroupGlob {
    /// A glob: `*` matches any characters, also `/`.
    pub fn new(glob: &str) -> Result<Self, String> {
        pattern(glob).map(Self)
    }

    /// Whether it is a name: no character of it stands for others.
    pub(super) fn is_exact(&self) -> bool {
        !self.0.as_str().contains(['*', '?', '['])
    }

    /// Whether it is the name of the group with this path.
    pub(super) fn is_name_of(&self, path: &[String]) -> bool {
        path.last().is_some_and(|name| name == self.0.as_str())
    }

    /// Whether it matches the name of a group: the last part of its path.
    pub(super) fn matches(&self, path: &[String]) -> bool {
        path.last().is_some_and(|name| self.is_match(name))
    }

    /// Whether it matches the name of a group or of one above it in a tree.
    pub(super) fn includes(&self, path: &[String]) -> bool {
        path.iter().any(|name| self.is_match(name))
    }

    /// The name of a program also means what it runs, and its titles: `python3` matches `python3 manage.py`, and `postgres`
    /// `postgres: checkpointer`. Names with brackets mean themselves, too: `redis-server[123]`.
    pub(super) fn is_match(&self, name: &str) -> bool {
        let is_rest = |rest: &str| rest.is_empty() || rest.starts_with(' ') || rest.starts_with(": ");
        let is_front = || name.strip_prefix(self.0.as_str()).is_some_and(is_rest);
        self.0.matches(name) || is_front()
    }
}

impl fmt::Display for GroupGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// A glob that matches no group, or no container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoSuchGroup {
    glob: String,
    message: String,
}

impl NoSuchGroup {
    /// The error about a glob that matches none of these names of that kind.
    pub(super) fn new<'n>(kind: &str, glob: &GroupGlob, names: impl IntoIterator<Item = &'n str>) -> Self {
        let distinct: BTreeSet<&str> = names.into_iter().into_set();
        let nearest = similar(&glob.to_string(), distinct, SUGGESTIONS);
        let nearest = nearest.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
        let suggestion = if nearest.is_empty() { nearest } else { format!("; did you mean {nearest}?") };
        Self { glob: glob.to_string(), message: format!("no {kind} matches `{glob}`{suggestion}") }
    }

    pub(crate) fn is_about(&self, glob: &GroupGlob) -> bool {
        self.glob == glob.to_string()
    }

    /// Whether both are about one glob, though perhaps among other names.
    pub(crate) fn is_of_glob_of(&self, other: &Self) -> bool {
        self.glob == other.glob
    }
}

/// A glob that merges all cgroups whose paths match.
#[derive(Clone, Debug)]
pub struct Flatten(Pattern);

/// `*` and `?` stay within a segment.
const SEGMENTS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

impl Flatten {
    /// A glob over cgroup paths: `*` matches within a segment, `**` across segments.
    pub fn new(glob: &str) -> Result<Self, String> {
        pattern(glob).map(Self)
    }

    /// The path, with the longest prefix that the glob matches replaced by the glob.
    pub(super) fn apply(&self, path: &str) -> Option<String> {
        let front = lineage(path).rev().find(|front| self.0.matches_with(front, SEGMENTS))?;
        Some(format!("{}{}", self.0, &path[front.len()..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_star_matches_whole_paths_of_cgroups_and_names_with_slashes() {
        let includes = |glob: &str, names: &[&str]| GroupGlob::new(glob).unwrap().includes(&path(names));
        assert!(includes("*nginx*", &["/system.slice/nginx.service"]) && includes("kworker*", &["kworker/u8:2"]));
        assert!(includes("worker-{N}", &["worker-{N}"]) && !includes("work", &["worker-{N}"]));
        assert!(includes("/a", &["/a", "app", "io"]) && includes("app", &["/a", "app", "io"]));
        assert!(!GroupGlob::new("app").unwrap().matches(&path(&["/a", "app", "io"])));
        assert!(GroupGlob::new("[").is_err());
    }

    #[test]
    fn a_name_with_brackets_as_it_is_printed_means_itself() {
        let is_match = |name: &str| GroupGlob::new("redis-server[123]").unwrap().is_match(name);
        assert_eq!(["redis-server[123]", "redis-server1", "redis-server[124]"].map(is_match), [true, true, false]);
        let is_match = |name: &str| GroupGlob::new("postgres").unwrap().is_match(name);
        assert_eq!(
            ["postgres", "postgres: checkpointer", "postgres:x", "postgresql"].map(is_match),
            [true, true, false, false]
        );
    }

    #[test]
    fn a_glob_without_groups_suggests_similar_names() {
        let error =
            |glob: &str| NoSuchGroup::new("group", &GroupGlob::new(glob).unwrap(), ["rustc", "redis", "ld", "redis"]);
        assert_eq!(error("rustcc").to_string(), "no group matches `rustcc`; did you mean `rustc`?");
        assert_eq!(error("zz*").to_string(), "no group matches `zz*`");
    }

    #[test]
    fn globs_replace_what_they_match() {
        let flat = |glob: &str, path: &str| Flatten::new(glob).unwrap().apply(path);
        assert_eq!(flat("/user.slice/*", "/user.slice/a/b").as_deref(), Some("/user.slice/*/b"));
        assert_eq!(flat("/user.slice/**", "/user.slice/a/b").as_deref(), Some("/user.slice/**"));
        assert_eq!(flat("/user.slice/*", "/system.slice/a"), None);
        assert!(Flatten::new("/a[").is_err());
    }

    #[test]
    fn a_path_that_no_kernel_gives_takes_linear_time() {
        let endless = "/a".repeat(4096);
        assert_eq!(Flatten::new("/**").unwrap().apply(&endless), None);
        assert!(Flatten::new("/**").unwrap().apply(&endless[..4096]).is_some());
    }
}
