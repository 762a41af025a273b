//! Groups selected by name.

use std::collections::BTreeSet;
use std::fmt;

use glob::{Pattern, PatternError};

use super::select::similar;

const SUGGESTIONS: usize = 3;

/// A glob over names of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupGlob(Pattern);

impl GroupGlob {
    /// A glob, if it is valid: `*` matches any characters, also `/`.
    pub fn new(glob: &str) -> Result<Self, PatternError> {
        Pattern::new(glob).map(Self)
    }

    /// Whether it is a name: no character of it stands for others.
    pub(super) fn is_exact(&self) -> bool {
        !self.0.as_str().contains(['*', '?', '['])
    }

    /// Whether it matches the name of a group: the last part of its path.
    pub(super) fn matches(&self, path: &[String]) -> bool {
        path.last().is_some_and(|name| self.is_match(name))
    }

    /// Whether it matches the name of a group or of one above it in a tree.
    pub(super) fn includes(&self, path: &[String]) -> bool {
        path.iter().any(|name| self.is_match(name))
    }

    /// The name of an interpreter also means what it runs: `python3` matches `python3 manage.py`.
    pub(super) fn is_match(&self, name: &str) -> bool {
        let is_front = || name.strip_prefix(self.0.as_str()).is_some_and(|rest| rest.starts_with(' '));
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
#[error("{0}")]
pub struct NoSuchGroup(String);

impl NoSuchGroup {
    /// The error about a glob that matches none of these names of that kind.
    pub(super) fn new<'n>(kind: &str, glob: &GroupGlob, names: impl IntoIterator<Item = &'n str>) -> Self {
        let distinct: BTreeSet<&str> = names.into_iter().collect();
        let nearest = similar(&glob.to_string(), distinct, SUGGESTIONS);
        let nearest = nearest.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
        let suggestion = if nearest.is_empty() { nearest } else { format!("; did you mean {nearest}?") };
        Self(format!("no {kind} matches `{glob}`{suggestion}"))
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
    fn a_glob_without_groups_suggests_similar_names() {
        let error =
            |glob: &str| NoSuchGroup::new("group", &GroupGlob::new(glob).unwrap(), ["rustc", "redis", "ld", "redis"]);
        assert_eq!(error("rustcc").to_string(), "no group matches `rustcc`; did you mean `rustc`?");
        assert_eq!(error("zz*").to_string(), "no group matches `zz*`");
    }
}
