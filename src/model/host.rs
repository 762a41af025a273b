//! The host: its settings, which comparisons check, and its CPU time.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::HostHeapState;

/// Whether a kernel facility with a run-time switch is enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// The kernel lacks it.
    ConfigOff,
    /// Built in, disabled.
    RuntimeOff,
    /// Enabled.
    On,
    /// Unknown.
    #[serde(other)]
    Unknown,
}

/// Whether the kernel was built with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Built {
    /// Built in.
    On,
    /// Not built in.
    Off,
    /// Unknown: the kernel's configuration cannot be read.
    #[serde(other)]
    Unknown,
}

/// Whether the release of a kernel, as printed by `uname -r`, is that version or a newer one.
pub(crate) fn at_least(release: Option<&str>, (major, minor): (u32, u32)) -> bool {
    let mut numbers = release.unwrap_or_default().split(|c: char| !c.is_ascii_digit()).map(u32::from_str);
    matches!((numbers.next(), numbers.next()), (Some(Ok(a)), Some(Ok(b))) if (a, b) >= (major, minor))
}

/// How cgroups are mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
        /// Id of the current boot.
        pub boot_id: String,
        /// Time since boot, suspend included, in nanoseconds.
        pub uptime_ns: u64,
        /// Name of the kernel: `Linux`.
        pub kernel_name: String,
        /// Release of the kernel, as printed by `uname -r`.
        pub kernel_release: String,
        /// Build of the kernel, as printed by `uname -v`.
        pub kernel_version: String,
        /// Architecture, as printed by `uname -m`.
        pub arch: String,
        /// Kernel command line.
        pub kernel_cmdline: String,
        /// CPU model.
        pub cpu_model: String,
        /// CPU vendor.
        pub cpu_vendor: String,
        /// Version of the microcode of the first CPU.
        pub cpu_microcode: String,
        /// What runs the virtual machine, `unknown` if its name is not, and `none` on hardware.
        pub hypervisor: String,
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
        /// Transparent huge pages: the options, with the active one in brackets.
        pub thp_enabled: String,
        /// Defragmentation for transparent huge pages: the options, with the active one in brackets.
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
        /// Whether the capture was made in the initial PID namespace, not in a container.
        pub pid_namespace_initial: bool,
        /// Visibility of other users' processes: the option `hidepid` of procfs.
        pub proc_hidepid: String,
        /// How cgroups are mounted.
        pub cgroup_layout: CgroupLayout,
        /// Where cgroup version 2, or else the first hierarchy of version 1, is mounted.
        pub cgroup_mount: String,
        /// ctprof's own heap; absent if it uses another allocator.
        pub heap_state: HostHeapState,
    }
}

optional_record! {
    /// CPU time of all CPUs since boot, from `/proc/stat` (`fs/proc/stat.c`) and `/proc/schedstat`
    /// (`kernel/sched/stats.c`), read before the threads.
    #[derive(Eq)]
    pub struct HostCpuTime {
        /// CPUs that the counters cover.
        pub cpus: u64,
        /// Time of tasks in user and system mode, in `USER_HZ` ticks.
        pub task_ticks: u64,
        /// Idle time in `USER_HZ` ticks; exact on tickless kernels.
        pub idle_ticks: u64,
        /// Idle time with I/O outstanding, in `USER_HZ` ticks.
        pub iowait_ticks: u64,
        /// Time in interrupts and soft interrupts, in `USER_HZ` ticks.
        pub interrupt_ticks: u64,
        /// Time taken by the hypervisor, in `USER_HZ` ticks.
        pub steal_ticks: u64,
        /// Threads and processes started.
        pub started: u64,
        /// Run time of all tasks, in nanoseconds; absent without `CONFIG_SCHEDSTATS`.
        pub run_ns: u64,
        /// Time that tasks waited for a CPU, in nanoseconds; absent without `CONFIG_SCHEDSTATS`.
        pub wait_ns: u64,
        /// The part of the capturing process, in nanoseconds (`CLOCK_PROCESS_CPUTIME_ID`); absent where the threads
        /// are those of another boot.
        pub own_ns: u64,
        /// When it was read: nanoseconds since the start of the capture.
        pub at_ns: u64,
    }
}

impl HostContext {
    /// Whether delays of I/O and memory are measured if the kernel has their fields. An unreadable sysctl proves nothing,
    /// and a delay that is not measured would be 0. Before Linux 5.14 there is no sysctl, only the kernel's command line.
    pub(crate) fn measures_delays(&self) -> bool {
        let release = self.kernel_release.as_deref();
        match self.task_delayacct {
            Some(Switch::On) => true,
            Some(Switch::RuntimeOff | Switch::ConfigOff) => false,
            Some(Switch::Unknown) | None => {
                release.is_some() && !at_least(release, (5, 14)) && self.kernel_cmdline.is_some()
            }
        }
    }
}
