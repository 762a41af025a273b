//! How many threads or processes a finding affects.

use std::fmt;

/// How many threads, processes or cgroups are affected, out of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affected {
    /// Number of them.
    pub count: u64,
    /// The total number; `None` if unknown.
    pub total: Option<u64>,
    /// The word for one of them: `thread`, `process` or `cgroup`.
    pub noun: &'static str,
}

impl fmt::Display for Affected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, total, noun } = *self;
        match total {
            Some(total) => write!(f, "{count} of {}", counted(total, noun)),
            None => f.write_str(&counted(count, noun)),
        }
    }
}

/// A count with its noun: `1 process`, `2 processes`.
pub fn counted(count: impl fmt::Display, noun: &str) -> String {
    format!("{count} {}", plural(&count, noun))
}

/// The noun for that many; of `process or thread`, both words.
pub fn plural(count: impl fmt::Display, noun: &str) -> String {
    if count.to_string() == "1" {
        return noun.to_owned();
    }
    let words = noun.split(" or ").map(|word| format!("{word}{}", if word.ends_with('s') { "es" } else { "s" }));
    words.collect::<Vec<_>>().join(" or ")
}
