//! The values of a cgroup's files. A file that is missing leaves its value absent.
//!
//! Meanings are from `Documentation/admin-guide/cgroup-v2.rst`. Files of version 1 with the same meaning
//! (`Documentation/admin-guide/cgroup-v1/`) fill the same values.

use std::collections::BTreeMap;

use super::cgroup_source::Conversion::{LimitAbove, Nanoseconds, NegativeIsMax, Shares, UnreachableIsMax};
use super::record::{KeyPattern, RecordField, RecordValue, ValueScope, ValueType, record};
use super::{
    CgroupFile, CounterBytes, CounterEvents, CounterUs, CurrentBytes, CurrentCount, Limit, LimitBytes, LimitCount,
    LimitUs, OrdinalI32, PeakBytes, PeriodUs, ProtectedBytes, Psi, Reading, Reduction, Section, UNREACHABLE_LIMIT,
    Value, Weight, WindowRule, v1, v2,
};

stored! {
    /// Statistics of a cgroup, from the files of its directory.
    pub struct CgroupStats {
        /// CPU time, throttling and limits.
        optional cpu: CgroupCpuStats,
        /// Memory in use, limits and events.
        optional memory: CgroupMemoryStats,
        /// Number of processes and threads, and its limit.
        optional pids: CgroupPidsStats,
        /// Block I/O by device.
        optional io: CgroupIoStats,
        /// Pressure on the cgroup's tasks.
        optional psi: Psi,
        /// Whether no thread is in this cgroup, only in cgroups below. Its CPU quota stops those threads, too: without one,
        /// reports leave the cgroup out.
        optional without_threads: bool,
        /// Whether it is one of a window of several steps that was not there at both ends: its counters lack the steps in which it
        /// came or went.
        optional partial: bool,
        /// Inode of its directory: in version 2, the id of the cgroup. One that is made later with the same path has another.
        optional inode: Option<u64>,
        /// The controller of the hierarchy of version 1 that has this inode: another hierarchy has another.
        optional inode_in: Option<String>,
    }
}

impl CgroupStats {
    /// Whether a CPU quota of its own stops threads, or has stopped them.
    pub(crate) fn has_quota(&self) -> bool {
        let CgroupCpuStats { max_quota_us, nr_throttled, .. } = &self.cpu;
        let is_limited = max_quota_us.as_ref().is_some_and(|quota| matches!(quota.value(), Value::Unsigned(_)));
        is_limited || nr_throttled.is_some_and(|times| times.number() > 0)
    }

    /// Whether none of its files was read.
    pub(crate) fn has_no_values(&self) -> bool {
        *self == Self { without_threads: self.without_threads, ..Self::default() }
    }

    /// The values that still hold after the cgroup was removed: what it had counted, and its limits.
    pub(crate) fn removed(mut self) -> Self {
        (self.memory.current, self.memory.swap_current, self.pids.current) = (None, None, None);
        let is_counter = |key: &str| memory_stat_type(key).is_some_and(|of| of.window == WindowRule::Increase);
        self.memory.stat.iter_mut().for_each(|stat| stat.retain(|key, _| is_counter(key)));
        Self { psi: Psi::default(), partial: true, ..self }
    }

    /// Whether it is known to be another cgroup than one with the same path.
    pub(crate) fn is_other_than(&self, before: &Self) -> bool {
        let are_of_one_hierarchy = self.inode_in == before.inode_in;
        are_of_one_hierarchy && self.inode.zip(before.inode).is_some_and(|(inode, before)| inode != before)
    }
}

/// `PATH_MAX` of `include/uapi/linux/limits.h`: the kernel gives no longer ones.
const LONGEST_PATH: usize = 4096;

/// Returns the paths of the cgroups above a cgroup, from `/` on, and its own; nothing for a path that no kernel gives, whose
/// depth a file chooses.
pub(crate) fn lineage(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at.max(1)).chain([path.len()]);
    ends.filter(|_| path.len() <= LONGEST_PATH).map(|end| &path[..end])
}

/// The possible files of a value; the first with the value counts.
type Files = &'static [CgroupFile];

// Throttling belongs to one cgroup's quota: the kernel does not add it to the ancestors
// (`cpu_cfs_stat_show` of kernel/sched/core.c), as it does with CPU time.
record! {
    /// `cpu.stat`, `cpu.max`, `cpu.weight`.
    pub struct CgroupCpuStats, "cpu." in pub(crate) CGROUP_CPU: Files {
        /// CPU time of the cgroup.
        usage_usec: CounterUs =
            &[v2("cpu.stat").key("usage_usec"), v1("cpuacct", "cpuacct.usage").converted(Nanoseconds)];
        /// CPU time in user mode.
        user_usec: CounterUs =
            &[v2("cpu.stat").key("user_usec"), v1("cpuacct", "cpuacct.usage_user").converted(Nanoseconds)];
        /// CPU time in the kernel.
        system_usec: CounterUs =
            &[v2("cpu.stat").key("system_usec"), v1("cpuacct", "cpuacct.usage_sys").converted(Nanoseconds)];
        /// Periods in which the quota was in force.
        nr_periods: CounterEvents =
            &[v2("cpu.stat").key("nr_periods"), v1("cpu", "cpu.stat").key("nr_periods")], Own;
        /// Periods in which the quota ran out.
        nr_throttled: CounterEvents =
            &[v2("cpu.stat").key("nr_throttled"), v1("cpu", "cpu.stat").key("nr_throttled")], Own;
        /// Time throttled, summed over CPUs.
        throttled_usec: CounterUs =
            &[v2("cpu.stat").key("throttled_usec"), v1("cpu", "cpu.stat").key("throttled_time").converted(Nanoseconds)],
            Own;
        /// CPU time that may be used per period.
        max_quota_us: LimitUs = &[v2("cpu.max").word(1), v1("cpu", "cpu.cfs_quota_us").converted(NegativeIsMax)];
        /// Length of a period.
        max_period_us: PeriodUs = &[v2("cpu.max").word(2), v1("cpu", "cpu.cfs_period_us")];
        /// Share of CPU time among siblings, 1 to 10,000; 0 for an idle cgroup.
        weight: Weight = &[v2("cpu.weight"), v1("cpu", "cpu.shares").converted(Shares)];
        /// The weight as a nice value.
        weight_nice: OrdinalI32 = &[v2("cpu.weight.nice")];
    }
}

record! {
    /// Values of the files `memory.*`.
    pub struct CgroupMemoryStats, "memory." in pub(crate) CGROUP_MEMORY: Files {
        /// Memory in use now.
        current: CurrentBytes = &[v2("memory.current"), v1("memory", "memory.usage_in_bytes")];
        /// Most memory in use at any time.
        peak: PeakBytes = &[v2("memory.peak"), v1("memory", "memory.max_usage_in_bytes")];
        /// Memory swapped out now.
        swap_current: CurrentBytes = &[v2("memory.swap.current"), v1("memory", "memory.stat").key("total_swap")];
        /// Hard limit of memory.
        max: LimitBytes = &[v2("memory.max"), v1("memory", "memory.limit_in_bytes").converted(UnreachableIsMax)];
        /// Memory above which the cgroup is throttled and reclaimed.
        high: LimitBytes = &[v2("memory.high")];
        /// Memory protected as long as there is unprotected memory elsewhere.
        low: ProtectedBytes = &[v2("memory.low")];
        /// Memory that is never reclaimed.
        min: ProtectedBytes = &[v2("memory.min")];
        /// Hard limit of swap.
        swap_max: LimitBytes = &[
            v2("memory.swap.max"),
            v1("memory", "memory.memsw.limit_in_bytes").converted(LimitAbove("memory.limit_in_bytes")),
        ];
        and /// `memory.stat`, typed by `MEMORY_STAT`.
            stat: BTreeMap<String, u64>;
        and /// `memory.events`, typed by `MEMORY_EVENTS`.
            events: BTreeMap<String, u64>;
    }
}

record! {
    /// Values of the files `pids.*`.
    pub struct CgroupPidsStats, "pids." in pub(crate) CGROUP_PIDS: Files {
        /// Number of processes and threads.
        current: CurrentCount = &[v2("pids.current"), v1("pids", "pids.current")];
        /// Limit of threads and processes.
        max: LimitCount = &[v2("pids.max"), v1("pids", "pids.max")];
    }
}

stored! {
    /// Values of the file `io.stat`.
    pub struct CgroupIoStats {
        /// Statistics by device, keyed by `major:minor`.
        optional stat: Option<BTreeMap<String, CgroupDeviceStats>>,
    }
}

/// A file of version 1 that has one number per device and operation, and the operation.
pub(crate) type DeviceFile = (&'static str, &'static str);

const BYTES: &str = "blkio.throttle.io_service_bytes_recursive";
const REQUESTS: &str = "blkio.throttle.io_serviced_recursive";

record! {
    /// A device's line of `io.stat`: `rbytes=…`, or the same in the `blkio` hierarchy of version 1.
    pub struct CgroupDeviceStats, "" in pub(crate) CGROUP_DEVICE: DeviceFile {
        /// Bytes read from the device.
        rbytes: CounterBytes = (BYTES, "Read");
        /// Bytes written to the device.
        wbytes: CounterBytes = (BYTES, "Write");
        /// Number of read requests.
        rios: CounterEvents = (REQUESTS, "Read");
        /// Number of write requests.
        wios: CounterEvents = (REQUESTS, "Write");
        /// Bytes discarded on the device.
        dbytes: CounterBytes = (BYTES, "Discard");
        /// Number of discard requests.
        dios: CounterEvents = (REQUESTS, "Discard");
    }
}

/// The types of the values of `memory.stat`, by the first pattern that matches a key without `total_`,
/// the prefix of version 1 for values that include descendants.
pub(crate) static MEMORY_STAT: &[KeyPattern] = &[
    KeyPattern::new::<LimitBytes>("hierarchical_*", "Limit with those of the ancestors (version 1)."),
    KeyPattern::new::<CounterEvents>("pg*", "Page faults, pages scanned, reclaimed, moved between lists or nodes."),
    KeyPattern::new::<CounterEvents>("pswp*", "Pages swapped in or out."),
    KeyPattern::new::<CounterEvents>("swpin*", "Pages swapped in without I/O."),
    KeyPattern::new::<CounterEvents>("swpout*", "Pages swapped out without I/O."),
    KeyPattern::new::<CounterEvents>("zswp*", "Pages moved into zswap, out of it, or written back from it."),
    KeyPattern::new::<CounterEvents>("workingset_*", "Pages refaulted, activated or restored after reclaim."),
    KeyPattern::new::<CounterEvents>("thp_*", "Transparent huge pages allocated, collapsed or swapped out."),
    KeyPattern::new::<CounterEvents>("numa_*", "Pages and tasks handled by NUMA balancing."),
    KeyPattern::new::<CurrentBytes>("*", "Memory in use, by kind."),
];

/// The types of `memory.events`' values.
pub(crate) static MEMORY_EVENTS: &[KeyPattern] =
    &[KeyPattern::new::<CounterEvents>("*", "Times that a limit or a protection was crossed, and OOM kills.")];

/// The values of `memory.events` that version 1 has in other files.
pub(crate) static MEMORY_EVENTS_V1: &[(&str, CgroupFile)] =
    &[("max", v1("memory", "memory.failcnt")), ("oom_kill", v1("memory", "memory.oom_control").key("oom_kill"))];

/// Version 1 puts this before keys of `memory.stat` whose values include descendants.
pub(crate) const WITH_DESCENDANTS: &str = "total_";

impl CgroupStats {
    /// The values that are shown in `section`, in the order of the tables. A cgroup without threads leaves sums over the cgroups
    /// below to those.
    pub fn values(&self, section: Section) -> Vec<RecordValue<'_>> {
        let mut values = self.all_values(section);
        let is_own =
            |value: &RecordValue<'_>| value.scope == ValueScope::Own || value.value_type.reduction == Reduction::Range;
        values.retain(|value| !self.without_threads || is_own(value));
        values
    }

    fn all_values(&self, section: Section) -> Vec<RecordValue<'_>> {
        match section {
            Section::CgroupStats | Section::CgroupLimits => {
                let cpu = CGROUP_CPU.iter().filter_map(|field| field.described(&self.cpu));
                let memory = CGROUP_MEMORY.iter().filter_map(|field| field.described(&self.memory));
                let pids = CGROUP_PIDS.iter().filter_map(|field| field.described(&self.pids));
                let is_shown = |value: &RecordValue<'_>| value.value_type.cgroup_section() == section;
                cpu.chain(memory).chain(pids).filter(is_shown).collect()
            }
            Section::MemoryStat => self.memory.stat.iter().flat_map(memory_stat).collect(),
            Section::MemoryEvents => self.memory.events.iter().flat_map(memory_events).collect(),
            Section::IoStat => self.io.stat.iter().flatten().flat_map(device).collect(),
            Section::Pressure => self.psi.values(),
            _ => Vec::new(),
        }
    }
}

pub(crate) fn memory_stat_type(key: &str) -> Option<&'static ValueType> {
    let plain = key.strip_prefix(WITH_DESCENDANTS).unwrap_or(key);
    MEMORY_STAT.iter().find(|pattern| pattern.matches(plain)).map(|pattern| &pattern.value_type)
}

/// In version 1, a key that there is with `total_` as well has the cgroup's own value.
fn memory_stat(map: &BTreeMap<String, u64>) -> impl Iterator<Item = RecordValue<'_>> {
    map.iter().filter_map(|(key, value)| {
        let plain = key.strip_prefix(WITH_DESCENDANTS).unwrap_or(key);
        let is_own = plain == key && map.contains_key(&format!("{WITH_DESCENDANTS}{key}"));
        keyed(MEMORY_STAT, plain, key, if is_own { ValueScope::Own } else { ValueScope::Subtree }, *value)
    })
}

/// Version 2 always has `low`, and counts descendants; version 1 has neither.
fn memory_events(map: &BTreeMap<String, u64>) -> impl Iterator<Item = RecordValue<'_>> {
    let scope = if map.contains_key("low") { ValueScope::Subtree } else { ValueScope::Own };
    map.iter().filter_map(move |(key, value)| keyed(MEMORY_EVENTS, key, key, scope, *value))
}

fn keyed<'r>(
    patterns: &'static [KeyPattern],
    kernel_key: &str,
    name: &str,
    scope: ValueScope,
    value: u64,
) -> Option<RecordValue<'r>> {
    let pattern = patterns.iter().find(|pattern| pattern.matches(kernel_key))?;
    let value = match (pattern.value_type.reduction, value) {
        (Reduction::Range, UNREACHABLE_LIMIT..) => Limit::Max.into(),
        _ => Value::Unsigned(value),
    };
    Some(RecordValue { name: name.to_owned().into(), value_type: &pattern.value_type, scope, value })
}

fn device<'r>((device, stats): (&'r String, &'r CgroupDeviceStats)) -> impl Iterator<Item = RecordValue<'r>> {
    let values = CGROUP_DEVICE.iter().filter_map(|field| field.described(stats));
    values.map(move |value| value.prefixed(&format!("{device} ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_and_no_file_differ() {
        let json = r#"{"memory":{"max":"max","high":4096}}"#;
        let stats: CgroupStats = serde_json::from_str(json).unwrap();
        assert_eq!(
            (stats.memory.max, stats.memory.high, stats.memory.low),
            (Some(LimitBytes::from(Limit::Max)), Some(LimitBytes::from(Limit::Number(4096))), None)
        );
        assert_eq!(serde_json::to_string(&stats).unwrap(), r#"{"memory":{"max":"max","high":4096}}"#);
        let error = serde_json::from_str::<CgroupStats>(r#"{"pids":{"max":"many"}}"#).unwrap_err().to_string();
        assert!(error.contains(r#"a number or "max""#), "{error}");
    }

    #[test]
    fn a_cgroup_without_files_takes_no_room() {
        assert_eq!(serde_json::to_string(&CgroupStats::default()).unwrap(), "{}");
        let nulls = r#"{"cpu":{"usage_usec":null},"psi":{}}"#;
        assert_eq!(serde_json::from_str::<CgroupStats>(nulls).unwrap(), CgroupStats::default());
    }

    #[test]
    fn every_key_of_memory_stat_has_the_type_that_the_kernel_documents() {
        // Linux 7.3, and the last three 6.18 in a hierarchy of version 1.
        for (key, name) in [
            ("anon", "CurrentBytes"),
            ("pagetables", "CurrentBytes"),
            ("file_thp", "CurrentBytes"),
            ("zswapped", "CurrentBytes"),
            ("swapcached", "CurrentBytes"),
            ("pgfault", "CounterEvents"),
            ("swpin_zero", "CounterEvents"),
            ("thp_swpout_fallback", "CounterEvents"),
            ("numa_pte_updates", "CounterEvents"),
            ("total_pgmajfault", "CounterEvents"),
            ("total_rss", "CurrentBytes"),
            ("hierarchical_memory_limit", "LimitBytes"),
        ] {
            let stats: CgroupStats =
                serde_json::from_str(&format!(r#"{{"memory":{{"stat":{{"{key}":1}}}}}}"#)).unwrap();
            let values = stats.values(Section::MemoryStat);
            assert_eq!((&*values[0].name, values[0].value_type.name), (key, name));
        }
    }

    #[test]
    fn a_limit_of_memory_stat_that_no_counter_reaches_is_none() {
        let json = r#"{"memory":{"stat":{"hierarchical_memory_limit":9223372036854771712}}}"#;
        let stats: CgroupStats = serde_json::from_str(json).unwrap();
        assert_eq!(stats.values(Section::MemoryStat)[0].value, Value::Name("max"));
    }

    #[test]
    fn values_of_version_1_without_descendants_are_known() {
        let json = r#"{"memory":{"stat":{"rss":1,"total_rss":2,"anon":3}}}"#;
        let stats: CgroupStats = serde_json::from_str(json).unwrap();
        let scopes: Vec<_> = stats.values(Section::MemoryStat).into_iter().map(|e| (e.name, e.scope)).collect();
        let expected = [("anon", ValueScope::Subtree), ("rss", ValueScope::Own), ("total_rss", ValueScope::Subtree)];
        assert_eq!(scopes, expected.map(|(name, scope)| (name.into(), scope)));
    }

    #[test]
    fn what_is_in_a_cgroup_is_in_those_above_it_and_in_no_other() {
        let above = |path| lineage(path).collect::<Vec<_>>();
        assert_eq!(above("/a/b-c/d"), ["/", "/a", "/a/b-c", "/a/b-c/d"]);
        assert_eq!(above(&"/a".repeat(4096)), Vec::<&str>::new());
    }
}
