//! Names of threads, processes and cgroups: patterns and redaction.

mod cgroup;
mod container;
mod hash;
mod keys;
mod pattern;
mod redact;
#[cfg(test)]
mod tests;
mod token;

pub use self::cgroup::cgroup_pattern;
pub(crate) use self::container::{containers_of_path, unit_of_path, workload};
pub(crate) use self::keys::{Keys, NameKind};
pub use self::pattern::pattern_key;
