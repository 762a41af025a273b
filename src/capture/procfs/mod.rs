//! The procfs engine: the walk over processes and threads, and readers of their files.

mod call_table;
pub(super) mod cgroup_paths;
pub(super) mod directory;
pub(super) mod last_schedstats;
pub(super) mod parsers;
pub(super) mod pids;
pub(in crate::capture) mod samples;
pub(super) mod task;
pub(super) mod text;
pub(in crate::capture) mod wait_functions;
pub(super) mod walk;
pub(super) mod whole_process;
