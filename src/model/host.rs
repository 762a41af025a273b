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
    /// The kernel supports it, and it is disabled.
    RuntimeOff,
    /// The kernel supports it, and it is enabled.
    On,
    /// State could not be determined.
    #[serde(other)]
    Unknown,
}

/// Whether the kernel was built with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Built {
    /// The option is built into the kernel.
    On,
    /// The option is not built into the kernel.
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
    /// Hierarchy of version 2 alone.
    Unified,
    /// Version 2 beside controllers of version 1.
    Hybrid,
    /// Hierarchies of version 1 alone.
    Legacy,
    /// None, or one that this version does not know.
    #[serde(other)]
    None,
}

stored! {
    /// The host and its settings. A field that could not be read is absent.
    pub struct HostContext {
        /// Name of the host.
        optional hostname: Option<String>,
        /// Id of the current boot.
        optional boot_id: Option<String>,
        /// Time since boot, suspend included, in nanoseconds.
        optional uptime_ns: Option<u64>,
        /// Name of the kernel: `Linux`.
        optional kernel_name: Option<String>,
        /// Release of the kernel, as printed by `uname -r`.
        optional kernel_release: Option<String>,
        /// Build of the kernel, as printed by `uname -v`.
        optional kernel_version: Option<String>,
        /// Architecture, as printed by `uname -m`.
        optional arch: Option<String>,
        /// Command line of the kernel.
        optional kernel_cmdline: Option<String>,
        /// Model name of the CPUs.
        optional cpu_model: Option<String>,
        /// Vendor of the CPUs.
        optional cpu_vendor: Option<String>,
        /// Version of the microcode of the first CPU.
        optional cpu_microcode: Option<String>,
        /// Hypervisor of the virtual machine, `unknown` if it has no known name, and `none` on hardware.
        optional hypervisor: Option<String>,
        /// Number of CPUs online.
        optional online_cpus: Option<u64>,
        /// Number of NUMA nodes online.
        optional numa_nodes: Option<u64>,
        /// CPU frequency governor of each CPU.
        optional cpufreq_governor: Option<BTreeMap<String, String>>,
        /// Ticks per second of procfs: `USER_HZ`.
        optional clock_ticks_per_second: Option<u64>,
        /// Page size in bytes.
        optional page_size: Option<u64>,
        /// Memory of the host, in KiB.
        optional total_memory_kib: Option<u64>,
        /// Number of huge pages reserved.
        optional hugepages_total: Option<u64>,
        /// Number of huge pages free.
        optional hugepages_free: Option<u64>,
        /// Size of a huge page in KiB.
        optional hugepages_size_kib: Option<u64>,
        /// Transparent huge pages: the options, with the active one in brackets.
        optional thp_enabled: Option<String>,
        /// Defragmentation for transparent huge pages: the options, with the active one in brackets.
        optional thp_defrag: Option<String>,
        /// `/proc/sys/kernel/sched_*`.
        optional sched_tunables: Option<BTreeMap<String, String>>,
        /// Load averages over 1, 5 and 15 minutes, runnable and all tasks, last process id.
        optional loadavg: Option<String>,
        /// State of delay accounting.
        optional task_delayacct: Option<Switch>,
        /// Scheduler statistics of each thread.
        optional sched_schedstats: Option<Switch>,
        /// Whether memory high-water marks are kept (`CONFIG_TASK_XACCT`).
        optional config_task_xacct: Option<Built>,
        /// Whether the time of interrupts is measured (`CONFIG_IRQ_TIME_ACCOUNTING`).
        optional config_irq_time_accounting: Option<Built>,
        /// Pressure accounting: `psi=` of the command line.
        optional psi: Option<Switch>,
        /// Whether the capture was made in the initial PID namespace, not in a container.
        optional pid_namespace_initial: Option<bool>,
        /// Visibility of other users' processes: the option `hidepid` of procfs.
        optional proc_hidepid: Option<String>,
        /// How cgroups are mounted.
        optional cgroup_layout: Option<CgroupLayout>,
        /// Where cgroup version 2, or else the first hierarchy of version 1, is mounted.
        optional cgroup_mount: Option<String>,
        /// ctprof's own heap; absent if it uses another allocator.
        optional heap_state: Option<HostHeapState>,
    }
}

stored! {
    /// CPU time of all CPUs since boot, from `/proc/stat` (`fs/proc/stat.c`) and `/proc/schedstat`
    /// (`kernel/sched/stats.c`), read before the threads.
    #[derive(Eq)]
    pub struct HostCpuTime {
        /// CPUs that the counters cover.
        optional cpus: Option<u64>,
        /// Time of tasks in user and system mode, in `USER_HZ` ticks.
        optional task_ticks: Option<u64>,
        /// Idle time in `USER_HZ` ticks; exact on tickless kernels.
        optional idle_ticks: Option<u64>,
        /// Idle time with I/O outstanding, in `USER_HZ` ticks.
        optional iowait_ticks: Option<u64>,
        /// Time in interrupts and soft interrupts, in `USER_HZ` ticks.
        optional interrupt_ticks: Option<u64>,
        /// Time taken by the hypervisor, in `USER_HZ` ticks.
        optional steal_ticks: Option<u64>,
        /// Threads and processes started.
        optional started: Option<u64>,
        /// Run time of all tasks, in nanoseconds; absent without `CONFIG_SCHEDSTATS`.
        optional run_ns: Option<u64>,
        /// Time that tasks waited for a CPU, in nanoseconds; absent without `CONFIG_SCHEDSTATS`.
        optional wait_ns: Option<u64>,
        /// CPU time of the capturing process, in nanoseconds (`CLOCK_PROCESS_CPUTIME_ID`); absent if the threads are from another
        /// boot.
        optional own_ns: Option<u64>,
        /// When it was read: nanoseconds since the start of the capture.
        optional at_ns: Option<u64>,
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

    /// Whether delays by interrupts are measured, too. Otherwise their fields stay 0.
    pub(crate) fn measures_irq_delays(&self) -> bool {
        self.measures_delays() && self.config_irq_time_accounting == Some(Built::On)
    }
}
