//! Names of threads, processes and cgroups: what makes two of them one group, and how they are
//! redacted.

mod path_pattern;
mod pattern;
mod redact;

pub use self::path_pattern::cgroup_pattern;
pub(crate) use self::pattern::Keys;
pub use self::pattern::pattern_key;
