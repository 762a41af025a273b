//! The snapshot: one host at one moment.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use super::wire::Learned;
use super::{
    CgroupStats, CtprofParseSummary, CtprofProbeSummary, HostContext, Psi, SchedExtSysfs, TaskstatsSummary,
    ThreadState, foreign,
};

/// Version of the file format that this code writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Most threads a Linux host can have: `PID_MAX_LIMIT` of a 64-bit kernel.
const PID_MAX_LIMIT: usize = 4 * 1024 * 1024;

thread_local! {
    /// How many threads, and how many cgroups, a snapshot may have that this thread reads.
    static MOST_THREADS: Cell<usize> = const { Cell::new(PID_MAX_LIMIT) };
}

/// Runs `read`, in which no snapshot with more threads, or more cgroups, can be read: either takes
/// more memory than the shortest text of one.
pub(crate) fn with_most_threads<T>(most: usize, read: impl FnOnce() -> T) -> T {
    let before = MOST_THREADS.replace(most.min(PID_MAX_LIMIT));
    let result = read();
    MOST_THREADS.set(before);
    result
}

/// One host at one moment: every thread, and what surrounds them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CtprofSnapshot {
    /// Version of the file format; `None` in files of other tools.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_version")]
    pub format_version: Option<u32>,
    /// Wall clock when the capture began, nanoseconds since 1970.
    #[serde(default)]
    pub captured_at_unix_ns: u64,
    /// How the capture was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureInfo>,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostContext>,
    /// Every thread seen, ordered by process id, then thread id.
    #[serde(deserialize_with = "threads")]
    pub threads: Vec<ThreadState>,
    /// Every cgroup that a captured thread is in, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "cgroups")]
    pub cgroup_stats: BTreeMap<String, CgroupStats>,
    /// What came of looking for jemalloc's counters; `None` if they were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_summary: Option<CtprofProbeSummary>,
    /// What could not be read of procfs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parse_summary: Option<CtprofParseSummary>,
    /// How taskstats answered; `None` if it was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taskstats_summary: Option<TaskstatsSummary>,
    /// The host's pressure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psi: Option<Psi>,
    /// The state of `sched_ext`; `None` where the kernel has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sched_ext: Option<SchedExtSysfs>,
}

impl CtprofSnapshot {
    /// How many processes the threads belong to.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.threads.chunk_by(|a, b| a.tgid == b.tgid).count()
    }

    /// Puts a file's content into the form that a capture has: threads in order, and a foreign
    /// file's zeros that stand for missing readings made absent.
    pub(crate) fn settle(&mut self) {
        let key = |thread: &ThreadState| (thread.tgid, thread.tid);
        if !self.threads.is_sorted_by_key(key) {
            self.threads.sort_by_key(key);
        }
        if self.format_version.is_none() {
            foreign::clear_families_off(&mut self.threads);
        }
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
    /// What read the threads: `procfs`.
    pub engine: String,
    /// Workers.
    pub jobs: u64,
    /// Effective user id.
    pub euid: u32,
    /// Names of the effective capabilities, `cap_` and all.
    pub capabilities: Vec<String>,
    /// What was asked for.
    pub options: CaptureOptions,
    /// What it cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_cost: Option<SelfCost>,
}

/// What a capture was asked for, where it changes what the snapshot can hold.
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
    /// Whether the allocators' counters were left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_jemalloc: bool,
    /// Whether taskstats was left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_taskstats: bool,
    /// Whether names were replaced by hashes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// Root of cgroups, if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroupfs: Option<String>,
    /// Processes chosen; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// When `smaps_rollup` was read: `auto`, `always` or `never`.
    pub smaps: String,
    /// Largest resident set for which `auto` read it, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smaps_max_rss_bytes: Option<u64>,
}

optional_record! {
    /// What a capture cost.
    pub struct SelfCost {
        /// User CPU time of the capturing process, in nanoseconds.
        pub user_ns: u64,
        /// Kernel CPU time of the capturing process, in nanoseconds.
        pub system_ns: u64,
        /// Largest resident set of the capturing process, in bytes.
        pub peak_rss_bytes: u64,
        /// Time spent in reading `smaps_rollup`, summed over workers, in nanoseconds.
        pub smaps_ns: u64,
        /// Time spent in reading allocators' counters, summed over workers, in nanoseconds.
        pub probe_ns: u64,
    }
}

fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let version = Option::<u32>::deserialize(deserializer)?;
    match version {
        Some(newer @ FORMAT_VERSION..) if newer > FORMAT_VERSION => Err(de::Error::custom(format_args!(
            "the file has format version {newer}, this ctprof reads up to {FORMAT_VERSION}: use a newer ctprof"
        ))),
        _ => Ok(version),
    }
}

fn cgroups<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, CgroupStats>, D::Error> {
    deserializer.deserialize_map(Cgroups)
}

struct Cgroups;

impl<'de> de::Visitor<'de> for Cgroups {
    type Value = BTreeMap<String, CgroupStats>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a map of cgroups")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut cgroups = BTreeMap::new();
        while let Some((path, stats)) = map.next_entry()? {
            cgroups.insert(path, stats);
            within_the_limit(cgroups.len(), "cgroups")?;
        }
        Ok(cgroups)
    }
}

fn within_the_limit<E: de::Error>(number: usize, of: &str) -> Result<(), E> {
    let most = MOST_THREADS.get();
    let message = format_args!("more than {most} {of}: if you trust the file, raise --max-snapshot-bytes");
    if number > most { Err(E::custom(message)) } else { Ok(()) }
}

fn threads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ThreadState>, D::Error> {
    deserializer.deserialize_seq(Threads)
}

struct Threads;

impl<'de> de::Visitor<'de> for Threads {
    type Value = Vec<ThreadState>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of threads")
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut threads = Vec::new();
        let mut learned = Learned::default();
        while let Some(thread) = seq.next_element_seed(&mut learned)? {
            threads.push(thread);
            within_the_limit(threads.len(), "threads")?;
        }
        Ok(threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_is_refused_with_both_versions() {
        let error = serde_json::from_str::<CtprofSnapshot>(r#"{"format_version":7,"threads":[]}"#).unwrap_err();
        assert!(error.to_string().contains("format version 7, this ctprof reads up to 1"), "{error}");
    }

    #[test]
    fn unknown_and_missing_fields_are_no_error() {
        let json = r#"{"format_version":1,"new_thing":[{}],"threads":[],"host":{"new":1},"capture":{"tool":"x"}}"#;
        let snapshot: CtprofSnapshot = serde_json::from_str(json).unwrap();
        assert_eq!(snapshot.host, Some(HostContext::default()));
        assert_eq!(snapshot.capture.unwrap().tool, "x");
    }

    #[test]
    fn a_file_without_threads_is_no_snapshot() {
        let error = serde_json::from_str::<CtprofSnapshot>("{}").unwrap_err().to_string();
        assert!(error.contains("threads"), "{error}");
    }
}
