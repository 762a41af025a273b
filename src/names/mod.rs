//! Names of threads, processes, programs and cgroups: command lines, patterns and redaction.

mod cgroup;
mod container;
mod hash;
mod keys;
mod pattern;
mod program;
mod redact;
#[cfg(test)]
mod tests;
mod token;

pub use self::cgroup::cgroup_pattern;
pub(crate) use self::container::{containers_of_path, unit_of_path, workload};
pub(crate) use self::keys::{Keys, NameKind};
pub use self::pattern::pattern_key;
pub(crate) use self::program::{StartedProgram, base_name};
