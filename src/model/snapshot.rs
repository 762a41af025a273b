//! The snapshot of a host.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::cgroup::CgroupStats;
use super::container::Container;
use super::engine::{BpfUse, NoBpf};
use super::failure::Errno;
use super::host::{HostContext, HostCpuTime};
use super::psi::Psi;
use super::reasons::Reasons;
use super::sched_ext::SchedExtSysfs;
use super::series::SeriesInfo;
use super::summary::{CtprofParseSummary, CtprofProbeSummary, TaskstatsSummary};
use super::thread::ThreadState;
use super::window::WindowInfo;

/// Version of the file format. Version 1 has neither windows, whose values are increases, nor usual values, which
/// threads leave out.
pub const FORMAT_VERSION: u32 = 2;

/// Version of the file format of series, which earlier versions lack.
pub const SERIES_FORMAT_VERSION: u32 = 3;

/// A snapshot of a host: its threads, and everything else.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CtprofSnapshot {
    /// Everything but the threads.
    #[serde(flatten)]
    pub head: SnapshotHead,
    /// All threads, sorted by process id, then thread id.
    pub threads: Vec<ThreadState>,
}

/// A snapshot without its threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct SnapshotHead {
    /// The series that begins with this capture; `None` if it is a capture or a window alone. It is first in files, which are
    /// known by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<SeriesInfo>,
    /// Version of the file format; `None` in files of other tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format_version: Option<u32>,
    /// Wall clock just before the threads were read, in nanoseconds since 1970.
    pub captured_at_unix_ns: u64,
    /// How the capture was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureInfo>,
    /// The window whose increases this is; `None` if the values are those of one capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowInfo>,
    /// Why threads waited; `None` without samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Box<Reasons>>,
    /// The host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostContext>,
    /// CPU time of the host, before the threads were read; in a window its increase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<HostCpuTime>,
    /// CPU time of the host, after the threads were read; `None` in windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_time_after: Option<HostCpuTime>,
    /// Values of every cgroup that a captured thread is in, by path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cgroup_stats: BTreeMap<String, CgroupStats>,
    /// The containers that captured threads are in, by the path of their cgroup.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, Container>,
    /// Directories in which names of containers were looked for in vain, by error; empty if all containers have a name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers_unread: BTreeMap<Errno, BTreeSet<String>>,
    /// Results of the jemalloc probe; `None` if it was disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_summary: Option<CtprofProbeSummary>,
    /// What could not be read from procfs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parse_summary: Option<CtprofParseSummary>,
    /// How taskstats answered; `None` if it was not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taskstats_summary: Option<TaskstatsSummary>,
    /// The host's pressure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Psi>,
    /// The state of `sched_ext`; `None` if the kernel lacks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_ext: Option<SchedExtSysfs>,
}

impl SnapshotHead {
    /// Time since boot, suspend included, just before the threads were read: in nanoseconds. Older files have it in
    /// ticks.
    pub fn boottime_ns(&self) -> Option<u64> {
        let exact = self.capture.as_ref().and_then(|capture| capture.boottime_ns);
        exact.or_else(|| self.host.as_ref()?.uptime_ns)
    }

    /// Version of the kernel's `struct taskstats`, if it is known.
    pub(crate) fn taskstats_version(&self) -> Option<u16> {
        self.taskstats_summary.as_ref()?.struct_version
    }
}

/// How a capture was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct CaptureInfo {
    /// Name of the program.
    pub tool: String,
    /// Its version.
    pub version: String,
    /// How long the capture took, in nanoseconds.
    pub duration_ns: u64,
    /// `CLOCK_MONOTONIC` just before the threads were read, in nanoseconds: it stops while the host is suspended.
    /// Absent if the procfs is not that of this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monotonic_ns: Option<u64>,
    /// `CLOCK_BOOTTIME` at the same moment, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boottime_ns: Option<u64>,
    /// Nanoseconds from the start until all threads were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_ns: Option<u64>,
    /// The engine that read the threads: `bpf` or `procfs`.
    pub engine: String,
    /// Why it was not `bpf`. Absent if it was, or if `procfs` was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_bpf: Option<NoBpf>,
    /// What the BPF engine did; absent if it did not read the threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bpf: Option<BpfUse>,
    /// Number of workers.
    pub jobs: u64,
    /// Whether it read the names of what interpreters run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub programs: bool,
    /// Effective user id.
    pub euid: u32,
    /// Names of the effective capabilities, with `cap_`.
    pub capabilities: Vec<String>,
    /// The options.
    pub options: CaptureOptions,
    /// The cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_cost: Option<SelfCost>,
}

/// The options that affect the content of the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct CaptureOptions {
    /// Root of procfs, if it was not `/proc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub procfs: Option<String>,
    /// Root of sysfs, if it was not `/sys`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sysfs: Option<String>,
    /// Whether allocator counters were disabled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_jemalloc: bool,
    /// Whether taskstats was disabled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_taskstats: bool,
    /// Whether names were replaced by hashes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// The engine, if one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Root of cgroups, if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroupfs: Option<String>,
    /// Selected processes; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// When `smaps_rollup` was read: `auto`, `always` or `never`.
    pub smaps: String,
    /// Largest resident set for which `auto` read it, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smaps_max_rss_bytes: Option<u64>,
}

optional_record! {
    /// The cost of a capture.
    pub struct SelfCost {
        /// User CPU time of the capturing process, in nanoseconds.
        pub user_ns: u64,
        /// Kernel CPU time of the capturing process, in nanoseconds.
        pub system_ns: u64,
        /// Largest resident set of the capturing process, in bytes.
        pub peak_rss_bytes: u64,
        /// Time spent reading `smaps_rollup`, summed over workers, in nanoseconds.
        pub smaps_ns: u64,
        /// Time spent reading jemalloc counters, summed over workers, in nanoseconds.
        pub probe_ns: u64,
    }
}
