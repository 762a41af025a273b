//! The portable engine: threads out of the files of procfs.

pub(super) mod cgroup_paths;
pub(super) mod folder;
pub(super) mod tally;
pub(super) mod task;
pub(super) mod text;
pub(super) mod walk;
