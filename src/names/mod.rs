//! Names of threads, processes and cgroups: patterns and redaction.

mod cgroup;
mod hash;
mod keys;
#[cfg(test)]
mod partition;
mod pattern;
mod redact;
mod token;

pub use self::cgroup::cgroup_pattern;
pub(crate) use self::keys::{Keys, Kind};
pub use self::pattern::pattern_key;
