//! Globs that merge cgroups.

use globset::{GlobBuilder, GlobMatcher};

/// A glob that merges all cgroups whose paths match.
#[derive(Clone, Debug)]
pub struct Flatten {
    text: String,
    matcher: GlobMatcher,
}

impl Flatten {
    /// A glob over cgroup paths: `*` matches within a segment, `**` across segments.
    ///
    /// # Errors
    /// If the glob is invalid.
    pub fn new(glob: &str) -> Result<Self, globset::Error> {
        let matcher = GlobBuilder::new(glob).literal_separator(true).build()?.compile_matcher();
        Ok(Self { text: glob.to_owned(), matcher })
    }

    /// The path, with the longest prefix that the glob matches replaced by the glob.
    pub(super) fn apply(&self, path: &str) -> Option<String> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut fronts: Vec<usize> = ends.filter(|end| *end > 0).collect();
        fronts.reverse();
        let end = fronts.into_iter().find(|end| self.matcher.is_match(&path[..*end]))?;
        Some(format!("{}{}", self.text, &path[end..]))
    }
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
