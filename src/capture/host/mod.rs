//! Beyond the threads: the host's context, its cgroups, its pressure, its scheduler.

pub(super) mod cgroup;
pub(super) mod context;
mod heap;
mod kconfig;
pub(super) mod mounts;
pub(super) mod psi;
pub(super) mod sched_ext;
