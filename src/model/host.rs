//! The host: what a comparison has to know before it can be believed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::heap::HostHeapState;

/// Whether a kernel facility with a run-time switch is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Switch {
    /// The kernel was built without it.
    ConfigOff,
    /// Built in, switched off.
    RuntimeOff,
    /// On.
    On,
    /// Can't be known.
    #[serde(other)]
    Unknown,
}

/// Whether the kernel was built with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Built {
    /// With it.
    On,
    /// Without it.
    Off,
    /// Can't be known: the kernel's configuration can't be read.
    #[serde(other)]
    Unknown,
}

/// How cgroups are mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CgroupLayout {
    /// Version 2 alone.
    Unified,
    /// Version 2 beside controllers of version 1.
    Hybrid,
    /// Version 1 alone.
    Legacy,
    /// None, or one that this version does not know.
    #[serde(other)]
    None,
}

optional_record! {
    /// The host and its settings. A field that could not be read is absent.
    pub struct HostContext {
        /// Host name.
        pub hostname: String,
        /// Id of this boot, new after every one.
        pub boot_id: String,
        /// Time since boot, suspend included, in nanoseconds.
        pub uptime_ns: u64,
        /// Name of the kernel: `Linux`.
        pub kernel_name: String,
        /// Release of the kernel, as `uname -r` gives it.
        pub kernel_release: String,
        /// Build of the kernel, as `uname -v` gives it.
        pub kernel_version: String,
        /// Machine, as `uname -m` gives it.
        pub arch: String,
        /// Kernel command line.
        pub kernel_cmdline: String,
        /// CPU model.
        pub cpu_model: String,
        /// CPU vendor.
        pub cpu_vendor: String,
        /// CPUs online.
        pub online_cpus: u64,
        /// NUMA nodes online.
        pub numa_nodes: u64,
        /// CPU frequency governor of each CPU.
        pub cpufreq_governor: BTreeMap<String, String>,
        /// `USER_HZ`.
        pub clock_ticks_per_second: u64,
        /// Page size in bytes.
        pub page_size: u64,
        /// Memory in KiB.
        pub total_memory_kib: u64,
        /// Huge pages reserved.
        pub hugepages_total: u64,
        /// Huge pages free.
        pub hugepages_free: u64,
        /// Size of a huge page in KiB.
        pub hugepages_size_kib: u64,
        /// Transparent huge pages: choices, the one in force in brackets.
        pub thp_enabled: String,
        /// Defragmentation for transparent huge pages: choices, the one in force in brackets.
        pub thp_defrag: String,
        /// `/proc/sys/kernel/sched_*`.
        pub sched_tunables: BTreeMap<String, String>,
        /// Load averages over 1, 5 and 15 minutes, runnable and all tasks, last process id.
        pub loadavg: String,
        /// Delay accounting.
        pub task_delayacct: Switch,
        /// Scheduler statistics of each thread.
        pub sched_schedstats: Switch,
        /// Whether memory high-water marks are kept (`CONFIG_TASK_XACCT`).
        pub config_task_xacct: Built,
        /// Pressure accounting: `psi=` of the command line.
        pub psi: Switch,
        /// Whether the capture was made in the host's own pid namespace, not in a container's.
        pub pid_namespace_initial: bool,
        /// Who sees other users' processes: the option `hidepid` of procfs.
        pub proc_hidepid: String,
        /// How cgroups are mounted.
        pub cgroup_layout: CgroupLayout,
        /// Where cgroup version 2, or else the first hierarchy of version 1, is mounted.
        pub cgroup_mount: String,
        /// ctprof's own heap; absent where its allocator is another.
        pub heap_state: HostHeapState,
    }
}
