//! The snapshot of a host.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    BpfUse, CgroupStats, Container, CtprofParseSummary, CtprofProbeSummary, Errno, HostContext, HostCpuTime, NoBpf,
    Psi, Reasons, SchedExtSysfs, TaskstatsSummary, ThreadId, ThreadState, WindowInfo,
};

/// Version of the file format. Version 1 has neither windows, whose values are increases, nor usual values, which
/// threads leave out.
pub const FORMAT_VERSION: u32 = 2;

/// Version of the file format of series, which earlier versions lack.
pub const SERIES_FORMAT_VERSION: u32 = 4;

/// A snapshot of a host: its threads, and everything else.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CtprofSnapshot {
    /// Everything but the threads.
    #[serde(flatten)]
    pub head: SnapshotHead,
    /// All threads, sorted by process id, then thread id.
    pub threads: Vec<ThreadState>,
}

stored! {
    /// A snapshot without its threads.
    pub struct SnapshotHead {
        /// The series that begins with this capture; `None` if it is a capture or a window alone. It is first in files, which are
        /// known by it.
        optional series: Option<SeriesInfo>,
        /// Version of the file format; `None` in files of other tools.
        optional format_version: Option<u32>,
        /// Wall clock just before the threads were read, in nanoseconds since 1970.
        pub captured_at_unix_ns: u64,
        /// How the capture was made.
        optional capture: Option<CaptureInfo>,
        /// The window to which the values belong; `None` if the values are totals of one capture.
        optional window: Option<WindowInfo>,
        /// Why threads waited; `None` without samples.
        optional reasons: Option<Box<Reasons>>,
        /// Description of the host.
        optional host: Option<HostContext>,
        /// CPU time of the host, before the threads were read; in a window its increase.
        optional cpu_time: Option<HostCpuTime>,
        /// CPU time of the host, after the threads were read; `None` in windows.
        optional cpu_time_after: Option<HostCpuTime>,
        /// Values of every cgroup that a captured thread is in, by path.
        optional cgroup_stats: BTreeMap<String, CgroupStats>,
        /// The containers that captured threads are in, by the path of their cgroup.
        optional containers: BTreeMap<String, Container>,
        /// Directories in which names of containers were looked for in vain, by error; empty if all containers have a name.
        optional containers_unread: BTreeMap<Errno, BTreeSet<String>>,
        /// Results of the jemalloc probe; `None` if it was disabled.
        optional probe_summary: Option<CtprofProbeSummary>,
        /// Failures to read procfs.
        optional parse_summary: Option<CtprofParseSummary>,
        /// Threads that live but could not be read, by process id: their ids, or none if that is all threads of the process.
        optional unread_threads: BTreeMap<u32, Vec<u32>>,
        /// How taskstats answered; `None` if it was not used.
        optional taskstats_summary: Option<TaskstatsSummary>,
        /// The host's pressure.
        optional psi: Option<Psi>,
        /// The state of `sched_ext`; `None` if the kernel lacks it.
        optional sched_ext: Option<SchedExtSysfs>,
    }
}

impl SnapshotHead {
    /// The cgroups that threads are in, with their values.
    pub fn cgroups(&self) -> impl Iterator<Item = (&String, &CgroupStats)> {
        self.cgroup_stats.iter().filter(|(_, stats)| !stats.without_threads)
    }

    /// The cgroups that reports list: cgroups with threads, and cgroups above them whose CPU quota stops these threads.
    pub fn listed_cgroups(&self) -> impl Iterator<Item = (&String, &CgroupStats)> {
        self.cgroup_stats.iter().filter(|(_, stats)| !stats.without_threads || stats.has_quota())
    }

    /// The container that a cgroup is in. Of a cgroup without threads, it is what the containers of all threads below have in
    /// common, such as their pod.
    pub fn container_of(&self, path: &str) -> Option<Container> {
        let has_no_threads = self.cgroup_stats.get(path).is_some_and(|stats| stats.without_threads);
        if self.containers.contains_key(path) || !has_no_threads {
            return self.containers.get(path).cloned();
        }
        let front = format!("{path}/");
        let below = self.cgroup_stats.range(front.clone()..).take_while(|(below, _)| below.starts_with(&front));
        let of_threads = below.filter(|(_, stats)| !stats.without_threads);
        of_threads.map(|(path, _)| self.containers.get(path).cloned()).reduce(|one, next| Some(one?.common(next?)))?
    }

    /// Time since boot, suspend included, just before the threads were read: in nanoseconds. Older files have it in
    /// ticks.
    pub fn boottime_ns(&self) -> Option<u64> {
        let exact = self.capture.as_ref().and_then(|capture| capture.boottime_ns);
        exact.or_else(|| self.host.as_ref()?.uptime_ns)
    }

    /// Whether the thread may live although this capture lacks it, because it could not be read.
    pub(crate) fn is_unread(&self, id: ThreadId) -> bool {
        let unread = self.unread_threads.get(&id.tgid);
        unread.is_some_and(|tids| tids.is_empty() || tids.contains(&id.tid))
    }

    /// Version of the kernel's `struct taskstats`, if it is known.
    pub(crate) fn taskstats_version(&self) -> Option<u16> {
        self.taskstats_summary.as_ref()?.struct_version
    }
}

stored! {
    /// How a series was recorded. Its file has a capture with this, and then what changed in each step.
    #[derive(Eq)]
    pub struct SeriesInfo {
        /// Length of a step that was asked for, in nanoseconds.
        pub every_ns: u64,
        /// Process id of the recorder.
        pub recorder: u32,
        /// The command that ran; empty if there was none, or names are redacted.
        optional command: Vec<String>,
    }
}

stored! {
    /// How a capture was made.
    pub struct CaptureInfo {
        /// Name of the program.
        pub tool: String,
        /// Version of the tool.
        pub version: String,
        /// How long the capture took, in nanoseconds.
        pub duration_ns: u64,
        /// `CLOCK_MONOTONIC` just before the threads were read, in nanoseconds: it stops while the host is suspended. Absent for
        /// the procfs of another host.
        optional monotonic_ns: Option<u64>,
        /// `CLOCK_BOOTTIME` at the same moment, in nanoseconds.
        optional boottime_ns: Option<u64>,
        /// Nanoseconds from the start until all threads were read.
        optional walk_ns: Option<u64>,
        /// The engine that read the threads: `bpf` or `procfs`.
        pub engine: String,
        /// Why it was not `bpf`. Absent if it was, or if `procfs` was requested.
        optional no_bpf: Option<NoBpf>,
        /// Report of the BPF engine; absent if procfs read the threads.
        optional bpf: Option<BpfUse>,
        /// Number of worker threads.
        pub jobs: u64,
        /// Whether it read the names of what interpreters run.
        optional programs: bool,
        /// Effective user id of the capturing process.
        pub euid: u32,
        /// Names of the effective capabilities, with `cap_`.
        pub capabilities: Vec<String>,
        /// Names of the ambient capabilities: a caller other than root has them without capabilities of ctprof's file.
        optional ambient: Vec<String>,
        /// Whether the file of ctprof could not give it more capabilities: `CapBnd` or `NoNewPrivs` of proc_pid_status(5).
        optional confined: bool,
        /// Options of the capture.
        pub options: CaptureOptions,
        /// CPU time and memory that the capture used.
        optional self_cost: Option<SelfCost>,
    }
}

stored! {
    /// The options that affect the content of the snapshot.
    #[derive(Eq)]
    pub struct CaptureOptions {
        /// Root of procfs, if it was not `/proc`.
        optional procfs: Option<String>,
        /// Root of sysfs, if it was not `/sys`.
        optional sysfs: Option<String>,
        /// Whether allocator counters were disabled.
        optional no_jemalloc: bool,
        /// Whether taskstats was disabled.
        optional no_taskstats: bool,
        /// Whether names were replaced by hashes.
        optional redacted: bool,
        /// The engine, if one was requested.
        optional engine: Option<String>,
        /// Root of cgroups, if it was given.
        optional cgroupfs: Option<String>,
        /// Selected processes; empty for all.
        optional pids: Vec<u32>,
        /// When `smaps_rollup` was read: `auto`, `always` or `never`.
        pub smaps: String,
        /// Largest resident set for which `auto` read it, in bytes.
        optional smaps_max_rss_bytes: Option<u64>,
    }
}

stored! {
    /// The cost of a capture.
    pub struct SelfCost {
        /// User CPU time of the capturing process, in nanoseconds.
        optional user_ns: Option<u64>,
        /// Kernel CPU time of the capturing process, in nanoseconds.
        optional system_ns: Option<u64>,
        /// Largest resident set of the capturing process, in bytes.
        optional peak_rss_bytes: Option<u64>,
        /// Time spent reading `smaps_rollup`, summed over workers, in nanoseconds.
        optional smaps_ns: Option<u64>,
        /// Time spent reading jemalloc counters, summed over workers, in nanoseconds.
        optional probe_ns: Option<u64>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_above_containers_belongs_to_what_they_have_in_common() {
        let json = r#"{"threads":[],"cgroup_stats":{
            "/k":{"without_threads":true}, "/k/pod1":{"cpu":{"max_quota_us":5},"without_threads":true},
            "/k/pod1/a":{"cpu":{"max_quota_us":"max"}}, "/k/pod1/b":{}, "/k/pod1-x":{}, "/p":{"without_threads":true}},
            "containers":{"/k/pod1/a":{"name":"web","pod":"api"}, "/k/pod1/b":{"name":"side","pod":"api"}}}"#;
        let head: SnapshotHead = serde_json::from_str(json).unwrap();
        let pod = Container { pod: Some("api".to_owned()), ..Container::default() };
        assert_eq!(head.container_of("/k/pod1"), Some(pod));
        assert_eq!(head.container_of("/k"), None, "a thread below is in no container");
        assert_eq!(head.container_of("/k/pod1/a").and_then(|container| container.name).as_deref(), Some("web"));
        let listed: Vec<_> = head.listed_cgroups().map(|(path, _)| &**path).collect();
        assert_eq!(listed, ["/k/pod1", "/k/pod1-x", "/k/pod1/a", "/k/pod1/b"]);
    }
}
