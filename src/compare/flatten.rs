//! Globs that merge cgroups.

use glob::{MatchOptions, Pattern, PatternError};

/// A glob that merges all cgroups whose paths match.
#[derive(Clone, Debug)]
pub struct Flatten(Pattern);

/// `PATH_MAX` of `include/uapi/linux/limits.h`: the kernel gives no longer ones, and each front part costs
/// a match.
const LONGEST_PATH: usize = 4096;

/// `*` and `?` stay within a segment.
const SEGMENTS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

impl Flatten {
    /// A glob over cgroup paths, if it is valid: `*` matches within a segment, `**` across segments.
    pub fn new(glob: &str) -> Result<Self, PatternError> {
        Pattern::new(glob).map(Self)
    }

    /// The path, with the longest prefix that the glob matches replaced by the glob.
    pub(super) fn apply(&self, path: &str) -> Option<String> {
        if path.len() > LONGEST_PATH {
            return None;
        }
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut fronts: Vec<usize> = ends.filter(|end| *end > 0).collect();
        fronts.reverse();
        let end = fronts.into_iter().find(|end| self.0.matches_with(&path[..*end], SEGMENTS))?;
        Some(format!("{}{}", self.0, &path[end..]))
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

    #[test]
    fn a_path_that_no_kernel_gives_takes_linear_time() {
        let endless = "/a".repeat(LONGEST_PATH);
        assert_eq!(Flatten::new("/**").unwrap().apply(&endless), None);
        assert!(Flatten::new("/**").unwrap().apply(&endless[..LONGEST_PATH]).is_some());
    }
}
