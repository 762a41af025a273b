//! Values of the host: settings, cgroups, pressure, sched_ext.

pub(super) mod cgroup;
pub(super) mod context;
pub(super) mod cpu_time;
pub(super) mod files;
mod heap;
mod kconfig;
pub(super) mod mounts;
pub(super) mod psi;
pub(super) mod sched_ext;
