//! Groups selected by name.

use std::collections::BTreeSet;
use std::fmt;

use glob::{Pattern, PatternError};

use super::select::similar;

/// Most names that an error suggests.
const SUGGESTIONS: usize = 3;

/// A glob over names of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupGlob {
    pattern: Pattern,
}

impl GroupGlob {
    /// A glob: `*` matches any characters, also `/`.
    ///
    /// # Errors
    /// If the glob is invalid.
    pub fn new(glob: &str) -> Result<Self, PatternError> {
        Pattern::new(glob).map(|pattern| Self { pattern })
    }

    /// Whether it is a name: no character of it stands for others.
    pub(super) fn is_exact(&self) -> bool {
        !self.pattern.as_str().contains(['*', '?', '['])
    }

    /// Whether it matches the name of a group: the last part of its path.
    pub(super) fn matches(&self, path: &[String]) -> bool {
        path.last().is_some_and(|name| self.is_match(name))
    }

    /// Whether it matches the name of a group or of one above it in a tree.
    pub(super) fn includes(&self, path: &[String]) -> bool {
        path.iter().any(|name| self.is_match(name))
    }

    /// Whether it matches a name.
    pub(super) fn is_match(&self, name: &str) -> bool {
        self.pattern.matches(name)
    }
}

impl fmt::Display for GroupGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pattern.as_str())
    }
}

/// A glob that matches no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no group matches `{glob}`{}", suggestion(nearest))]
#[non_exhaustive]
pub struct NoSuchGroup {
    /// The glob.
    pub glob: String,
    /// The most similar names of groups.
    pub nearest: Vec<String>,
}

fn suggestion(nearest: &[String]) -> String {
    let names: Vec<_> = nearest.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(" or ")) }
}

impl NoSuchGroup {
    /// The error about a glob that matches none of these names.
    pub(super) fn new<'n>(glob: &GroupGlob, names: impl IntoIterator<Item = &'n str>) -> Self {
        let glob = glob.to_string();
        let distinct: BTreeSet<&str> = names.into_iter().collect();
        let nearest = similar(&glob, distinct, SUGGESTIONS).into_iter().map(str::to_owned).collect();
        Self { glob, nearest }
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
        let error = |glob: &str| NoSuchGroup::new(&GroupGlob::new(glob).unwrap(), ["rustc", "redis", "ld", "redis"]);
        assert_eq!(error("rustcc").to_string(), "no group matches `rustcc`; did you mean `rustc`?");
        assert_eq!(error("zz*").to_string(), "no group matches `zz*`");
    }
}
