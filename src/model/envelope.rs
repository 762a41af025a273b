//! The JSON of a snapshot: written with what is usual before the threads; read in bounded memory, whatever the text
//! contains.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::cgroup::CgroupStats;
use super::compact::Unusual;
use super::snapshot::{CtprofSnapshot, FORMAT_VERSION};
use super::thread::ThreadState;
use super::usual::Usual;
use super::wire::{Learned, present};

/// Maximum number of threads of a Linux host: `PID_MAX_LIMIT` of a 64-bit kernel.
const PID_MAX_LIMIT: usize = 4 * 1024 * 1024;

/// Why JSON with the right types is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("format version {0}; this ctprof reads versions up to {FORMAT_VERSION}")]
    NewerFormat(u32),
    #[error("no `threads`")]
    NoThreads,
    #[error("more than {max} {what}")]
    TooMany { what: &'static str, max: usize },
}

impl Serialize for CtprofSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize_without(&Usual::default(), serializer)
    }
}

/// A snapshot to write in less space: threads leave out what is usual. Older versions of the format lack that.
pub(crate) struct Compact<'s> {
    snapshot: &'s CtprofSnapshot,
    usual: Usual,
}

impl<'s> Compact<'s> {
    pub(crate) fn new(snapshot: &'s CtprofSnapshot) -> Self {
        let has_usual = snapshot.format_version == Some(FORMAT_VERSION);
        let usual = if has_usual { Usual::of(&snapshot.threads) } else { Usual::default() };
        Self { snapshot, usual }
    }

    /// What readers refuse because it is more than a number, if they allow `max` of each.
    pub(crate) fn too_many(&self, max: usize) -> Option<(&'static str, usize)> {
        let CtprofSnapshot { threads, cgroup_stats, .. } = self.snapshot;
        let max_threads = self.usual.max_threads(max);
        let counts = [("threads", threads.len(), max_threads), ("cgroups", cgroup_stats.len(), max)];
        counts.into_iter().find(|(_, number, max)| number > max).map(|(what, _, max)| (what, max))
    }
}

impl Serialize for Compact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.snapshot.serialize_without(&self.usual, serializer)
    }
}

impl CtprofSnapshot {
    fn serialize_without<S: Serializer>(&self, usual: &Usual, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        present(&mut map, "format_version", self.format_version.as_ref())?;
        map.serialize_entry("captured_at_unix_ns", &self.captured_at_unix_ns)?;
        present(&mut map, "capture", self.capture.as_ref())?;
        present(&mut map, "window", self.window.as_ref())?;
        present(&mut map, "host", self.host.as_ref())?;
        present(&mut map, "cpu_time", self.cpu_time.as_ref())?;
        present(&mut map, "cpu_time_after", self.cpu_time_after.as_ref())?;
        present(&mut map, "usual", Some(usual).filter(|usual| !usual.is_empty()))?;
        map.serialize_entry("threads", &Unusual { threads: &self.threads, usual })?;
        present(&mut map, "cgroup_stats", Some(&self.cgroup_stats).filter(|cgroups| !cgroups.is_empty()))?;
        present(&mut map, "probe_summary", self.probe_summary.as_ref())?;
        present(&mut map, "parse_summary", self.parse_summary.as_ref())?;
        present(&mut map, "taskstats_summary", self.taskstats_summary.as_ref())?;
        present(&mut map, "psi", self.psi.as_ref())?;
        present(&mut map, "sched_ext", self.sched_ext.as_ref())?;
        map.end()
    }
}

/// Reads a snapshot with a limited number of threads and of cgroups, because each takes more memory
/// than its shortest text.
pub(crate) struct Bounds {
    max: usize,
    refusal: Cell<Option<Refusal>>,
    usual: RefCell<Usual>,
}

impl Bounds {
    pub(crate) fn new(max: usize) -> Self {
        Self { max: max.min(PID_MAX_LIMIT), refusal: Cell::default(), usual: RefCell::default() }
    }

    /// Why the last snapshot was refused, if its JSON had the right types.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.refusal.get()
    }

    /// What threads of the last snapshot leave out.
    pub(crate) fn into_usual(self) -> Usual {
        self.usual.into_inner()
    }

    fn refuse<E: de::Error>(&self, refusal: Refusal) -> E {
        self.refusal.set(Some(refusal));
        E::custom(refusal)
    }

    fn check<E: de::Error>(&self, number: usize, what: &'static str, max: usize) -> Result<(), E> {
        let refusal = Refusal::TooMany { what, max };
        if number > max { Err(self.refuse(refusal)) } else { Ok(()) }
    }

    fn known<E: de::Error>(&self, version: Option<u32>) -> Result<Option<u32>, E> {
        match version {
            Some(newer) if newer > FORMAT_VERSION => Err(self.refuse(Refusal::NewerFormat(newer))),
            _ => Ok(version),
        }
    }
}

impl<'de> Deserialize<'de> for CtprofSnapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Bounds::new(PID_MAX_LIMIT).deserialize(deserializer)
    }
}

impl<'de> DeserializeSeed<'de> for &Bounds {
    type Value = CtprofSnapshot;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<CtprofSnapshot, D::Error> {
        deserializer.deserialize_map(self)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    FormatVersion,
    CapturedAtUnixNs,
    Capture,
    Window,
    Host,
    CpuTime,
    CpuTimeAfter,
    Usual,
    Threads,
    CgroupStats,
    ProbeSummary,
    ParseSummary,
    TaskstatsSummary,
    Psi,
    SchedExt,
    #[serde(other)]
    Unknown,
}

impl<'de> Visitor<'de> for &Bounds {
    type Value = CtprofSnapshot;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a snapshot")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CtprofSnapshot, A::Error> {
        let mut snapshot = CtprofSnapshot::default();
        let mut read = BTreeSet::new();
        while let Some(field) = map.next_key()? {
            if field != Field::Unknown && !read.insert(field) {
                return Err(de::Error::custom("duplicate field"));
            }
            match field {
                Field::FormatVersion => snapshot.format_version = self.known(map.next_value()?)?,
                Field::CapturedAtUnixNs => snapshot.captured_at_unix_ns = map.next_value()?,
                Field::Capture => snapshot.capture = map.next_value()?,
                Field::Window => snapshot.window = map.next_value()?,
                Field::CpuTime => snapshot.cpu_time = map.next_value()?,
                Field::CpuTimeAfter => snapshot.cpu_time_after = map.next_value()?,
                Field::Host => snapshot.host = map.next_value()?,
                // Threads that came before have been read without it.
                Field::Usual if read.contains(&Field::Threads) => {
                    return Err(de::Error::custom("`usual` must precede `threads`"));
                }
                Field::Usual => *self.usual.borrow_mut() = map.next_value()?,
                Field::Threads => snapshot.threads = map.next_value_seed(ThreadList(self))?,
                Field::CgroupStats => snapshot.cgroup_stats = map.next_value_seed(CgroupMap(self))?,
                Field::ProbeSummary => snapshot.probe_summary = map.next_value()?,
                Field::ParseSummary => snapshot.parse_summary = map.next_value()?,
                Field::TaskstatsSummary => snapshot.taskstats_summary = map.next_value()?,
                Field::Psi => snapshot.psi = map.next_value()?,
                Field::SchedExt => snapshot.sched_ext = map.next_value()?,
                Field::Unknown => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if read.contains(&Field::Threads) { Ok(snapshot) } else { Err(self.refuse(Refusal::NoThreads)) }
    }
}

struct ThreadList<'b>(&'b Bounds);

impl<'de> DeserializeSeed<'de> for ThreadList<'_> {
    type Value = Vec<ThreadState>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ThreadList<'_> {
    type Value = Vec<ThreadState>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of threads")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut threads = Vec::new();
        let usual = self.0.usual.borrow();
        let max = usual.max_threads(self.0.max);
        let mut learned = Learned::new(&usual);
        while let Some(thread) = seq.next_element_seed(&mut learned)? {
            threads.push(thread);
            self.0.check(threads.len(), "threads", max)?;
        }
        Ok(threads)
    }
}

struct CgroupMap<'b>(&'b Bounds);

impl<'de> DeserializeSeed<'de> for CgroupMap<'_> {
    type Value = BTreeMap<String, CgroupStats>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for CgroupMap<'_> {
    type Value = BTreeMap<String, CgroupStats>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of cgroups")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut cgroups = BTreeMap::new();
        while let Some((path, stats)) = map.next_entry()? {
            cgroups.insert(path, stats);
            self.0.check(cgroups.len(), "cgroups", self.0.max)?;
        }
        Ok(cgroups)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        CaptureInfo, CtprofParseSummary, CtprofProbeSummary, HostContext, HostCpuTime, Metrics, Psi, SchedExtSysfs,
        TaskstatsSummary, WindowInfo,
    };
    use super::*;

    fn refusal(json: &str, max: usize) -> Option<Refusal> {
        let bounds = Bounds::new(max);
        bounds.deserialize(&mut serde_json::Deserializer::from_str(json)).ok();
        bounds.refusal()
    }

    #[test]
    fn a_newer_format_is_refused_with_its_version() {
        assert_eq!(refusal(r#"{"format_version":7,"threads":[]}"#, 9), Some(Refusal::NewerFormat(7)));
        let error = serde_json::from_str::<CtprofSnapshot>(r#"{"format_version":7,"threads":[]}"#).unwrap_err();
        assert!(error.to_string().contains("format version 7; this ctprof reads versions up to 2"), "{error}");
    }

    #[test]
    fn usual_values_after_the_threads_are_an_error() {
        let read = |json: &str| serde_json::from_str::<CtprofSnapshot>(json);
        let minflt = |snapshot: CtprofSnapshot| snapshot.threads[0].metrics.minflt.map(u64::from);
        let (usual, threads) = (r#""usual":{"minflt":7}"#, r#""threads":[{"tid":1,"tgid":1}]"#);
        assert_eq!(minflt(read(&format!("{{{usual},{threads}}}")).unwrap()), Some(7));
        let error = read(&format!("{{{threads},{usual}}}")).unwrap_err().to_string();
        assert!(error.contains("`usual` must precede `threads`"), "{error}");
    }

    #[test]
    fn values_are_those_of_the_columns_unless_metrics_follow() {
        let read = |thread: &str| {
            let columns = r#"[["read_at_ns"],["wait_time_ns","later","rt_priority"],["tomorrow"],["majflt"]]"#;
            let json = format!(r#"{{"usual":{{"columns":{columns}}},"threads":[{{"tid":1,"tgid":1,{thread}}}]}}"#);
            let thread = serde_json::from_str::<CtprofSnapshot>(&json)?.threads.remove(0);
            let Metrics { wait_time_ns, rt_priority, majflt, .. } = *thread.metrics;
            let priority = rt_priority.map(|priority| u64::try_from(i64::from(priority)).unwrap());
            Ok([thread.read_at_ns, wait_time_ns.map(u64::from), priority, majflt.map(u64::from)])
        };
        let values = |thread| read(thread).map_err(|error: serde_json::Error| error.to_string());
        assert_eq!(values(r#""values":[5,6,{"new":[]},7]"#), Ok([Some(5), Some(6), Some(6), Some(7)]));
        assert_eq!(values(r#""values":[5,6],"rt_priority":2"#), Ok([Some(5), Some(6), Some(2), None]));
        assert_eq!(values(r#""values":[null,6],"rt_priority":null"#), Ok([None, Some(6), None, None]));
        let too_large_for_one = r#""values":[5,4294967296]"#;
        assert_eq!(values(too_large_for_one), Ok([Some(5), Some(1 << 32), None, None]));
        assert_eq!(values(r#""comm":"a""#), Ok([None; 4]));
        for (thread, problem) in [
            (r#""rt_priority":2,"values":[5,6]"#, "`values` must precede metrics"),
            (r#""values":[5,6,7,8,9]"#, "more values than columns"),
            (r#""values":[5,"six"]"#, "expected a whole number"),
            (r#""values":7"#, "expected a list of values"),
        ] {
            let error = values(thread).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_snapshot_of_version_1_was_written_with_usual_values() {
        let mut snapshot: CtprofSnapshot =
            serde_json::from_str(r#"{"format_version":1,"threads":[{"tid":1,"tgid":1,"minflt":7}]}"#).unwrap();
        let has_usual = |snapshot: &_| serde_json::to_string(&Compact::new(snapshot)).unwrap().contains("usual");
        assert!(!has_usual(&snapshot), "ctprof 0.1.0 would read values that are usual as absent");
        snapshot.format_version = Some(2);
        assert!(has_usual(&snapshot));
    }

    #[test]
    fn a_file_without_threads_is_no_snapshot() {
        assert_eq!(refusal("{}", 9), Some(Refusal::NoThreads));
        assert_eq!(refusal("[]", 9), None);
    }

    #[test]
    fn threads_and_cgroups_are_bounded() {
        let thread = r#"{"tid":1,"tgid":1}"#;
        let threads = format!(r#"{{"threads":[{thread},{thread}]}}"#);
        assert_eq!(refusal(&threads, 1), Some(Refusal::TooMany { what: "threads", max: 1 }));
        assert_eq!(refusal(&threads, 2), None);
        let cgroups = r#"{"cgroup_stats":{"a":{},"b":{}},"threads":[]}"#;
        assert_eq!(refusal(cgroups, 1), Some(Refusal::TooMany { what: "cgroups", max: 1 }));
    }

    #[test]
    fn unknown_and_missing_fields_are_no_error() {
        let json = r#"{"format_version":1,"new_thing":[{}],"threads":[],"host":{"new":1},"capture":{"tool":"x"}}"#;
        let snapshot: CtprofSnapshot = serde_json::from_str(json).unwrap();
        assert_eq!(snapshot.host, Some(HostContext::default()));
        assert_eq!(snapshot.capture.unwrap().tool, "x");
    }

    #[test]
    fn a_field_that_occurs_twice_is_an_error() {
        assert!(serde_json::from_str::<CtprofSnapshot>(r#"{"threads":[],"threads":[]}"#).is_err());
    }

    #[test]
    fn every_field_reads_back_as_it_was_written() {
        let full = CtprofSnapshot {
            format_version: Some(FORMAT_VERSION),
            captured_at_unix_ns: 7,
            capture: Some(CaptureInfo::default()),
            window: Some(WindowInfo::default()),
            host: Some(HostContext::default()),
            cpu_time: Some(HostCpuTime::default()),
            cpu_time_after: Some(HostCpuTime::default()),
            threads: vec![ThreadState { tid: 3, ..ThreadState::default() }],
            cgroup_stats: BTreeMap::from([("/".to_owned(), CgroupStats::default())]),
            probe_summary: Some(CtprofProbeSummary::default()),
            parse_summary: Some(CtprofParseSummary::default()),
            taskstats_summary: Some(TaskstatsSummary::default()),
            psi: Some(Psi::default()),
            sched_ext: Some(SchedExtSysfs::default()),
        };
        for json in [serde_json::to_string(&full), serde_json::to_string(&Compact::new(&full))] {
            assert_eq!(serde_json::from_str::<CtprofSnapshot>(&json.unwrap()).unwrap(), full);
        }
    }
}
