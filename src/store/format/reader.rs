//! Reads the JSON of a snapshot in bounded memory, whatever the text contains.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::VisitAny;
use super::defaults::Defaults;
use super::ktstr;
use super::thread::{ThreadReader, without_ids};
use crate::model::{CgroupStats, CtprofSnapshot, FORMAT_VERSION, SERIES_FORMAT_VERSION, SnapshotHead, ThreadState};
use crate::store::error::SnapshotRefusal;
use crate::store::limit::{LONG_NAME, LONGEST_NAME};

/// Maximum number of threads of a Linux host: `PID_MAX_LIMIT` of a 64-bit kernel.
const PID_MAX_LIMIT: usize = 4 * 1024 * 1024;

/// Reads a snapshot with a limited number of threads and of cgroups, because each takes more memory
/// than its shortest text.
pub(in crate::store) struct SnapshotReader {
    max_threads: usize,
    max_cgroups: usize,
    refusal: Cell<Option<SnapshotRefusal>>,
}

/// A snapshot as it was read, and the defaults of its threads.
pub(in crate::store) struct SnapshotContent {
    pub(in crate::store) snapshot: CtprofSnapshot,
    pub(in crate::store) defaults: Defaults,
}

impl SnapshotContent {
    /// The snapshot with its threads sorted, and without the zeros of foreign files that mean missing values.
    pub(in crate::store) fn normalized(self) -> CtprofSnapshot {
        let mut snapshot = self.snapshot;
        if !snapshot.threads.is_sorted_by_key(ThreadState::id) {
            snapshot.threads.sort_by_key(ThreadState::id);
        }
        if snapshot.head.format_version.is_none() {
            ktstr::clear_unsupported(&mut snapshot.threads);
        }
        snapshot
    }
}

impl SnapshotReader {
    pub(in crate::store) fn new(max_threads: usize, max_cgroups: usize) -> Self {
        Self { max_threads: max_threads.min(PID_MAX_LIMIT), max_cgroups, refusal: Cell::default() }
    }

    /// Why the last snapshot was refused, if its JSON had the right types.
    pub(in crate::store) fn refusal(&self) -> Option<SnapshotRefusal> {
        self.refusal.get()
    }

    fn refuse<E: de::Error>(&self, refusal: SnapshotRefusal) -> E {
        self.refusal.set(Some(refusal));
        E::custom(refusal)
    }

    fn check<E: de::Error>(&self, number: usize, what: &'static str, max: usize) -> Result<(), E> {
        if number > max { Err(self.refuse(SnapshotRefusal::too_large(max, what))) } else { Ok(()) }
    }

    fn check_version<E: de::Error>(&self, version: Option<u32>) -> Result<Option<u32>, E> {
        match version {
            Some(newer) if newer > SERIES_FORMAT_VERSION => Err(self.refuse(SnapshotRefusal::NewerFormat(newer))),
            _ => Ok(version),
        }
    }
}

impl<'de> Deserialize<'de> for CtprofSnapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(&SnapshotReader::new(PID_MAX_LIMIT, usize::MAX)).map(|content| content.snapshot)
    }
}

impl<'de> Deserialize<'de> for Defaults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (thread, columns) = without_ids(deserializer)?;
        Ok(Self { cgroup: thread.cgroup, metrics: *thread.metrics, columns })
    }
}

impl<'de> Visitor<'de> for &SnapshotReader {
    type Value = SnapshotContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a snapshot")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SnapshotContent, A::Error> {
        let mut bounded =
            BoundedFields { map, reader: self, version: None, cgroups: None, defaults: None, threads: None };
        let head = SnapshotHead::deserialize(MapAccessDeserializer::new(&mut bounded))?;
        let BoundedFields { version, cgroups, defaults, threads, .. } = bounded;
        let threads = threads.ok_or_else(|| self.refuse(SnapshotRefusal::NotASnapshot("no `threads`")))?;
        let (format_version, cgroup_stats) = (version.flatten(), cgroups.unwrap_or_default());
        if format_version > Some(FORMAT_VERSION) && head.series.is_none() {
            return Err(self.refuse(SnapshotRefusal::NotASnapshot("its format version is that of a series")));
        }
        let head = SnapshotHead { format_version, cgroup_stats, ..head };
        Ok(SnapshotContent { snapshot: CtprofSnapshot { head, threads }, defaults: defaults.unwrap_or_default() })
    }
}

/// Reads the fields of a snapshot that have bounds. All other fields belong to the head.
struct BoundedFields<'r, A> {
    map: A,
    reader: &'r SnapshotReader,
    version: Option<Option<u32>>,
    cgroups: Option<BTreeMap<String, CgroupStats>>,
    defaults: Option<Defaults>,
    threads: Option<Vec<ThreadState>>,
}

impl<'de, A: MapAccess<'de>> BoundedFields<'_, A> {
    /// Reads the value of a key, unless it is one of the head.
    fn takes(&mut self, key: &str) -> Result<bool, A::Error> {
        let Self { map, reader, version, cgroups, defaults, threads } = self;
        match key {
            "format_version" => once(version, || reader.check_version(map.next_value()?)),
            "cgroup_stats" => once(cgroups, || map.next_value_seed(VisitAny(CgroupMap(reader)))),
            // Threads that came before have been read without it.
            "usual" if threads.is_some() => Err(de::Error::custom("`usual` must precede `threads`")),
            "usual" => once(defaults, || map.next_value()),
            "threads" => {
                let defaults = &*defaults.get_or_insert_default();
                once(threads, || map.next_value_seed(VisitAny(ThreadList { reader, defaults })))
            }
            _ => return Ok(false),
        }
        .map(|()| true)
    }
}

fn once<T, E: de::Error>(field: &mut Option<T>, read: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
    if field.is_some() {
        return Err(E::custom("duplicate field"));
    }
    *field = Some(read()?);
    Ok(())
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for &mut BoundedFields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if !self.takes(&key)? {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

struct ThreadList<'r> {
    reader: &'r SnapshotReader,
    defaults: &'r Defaults,
}

impl<'de> Visitor<'de> for ThreadList<'_> {
    type Value = Vec<ThreadState>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of threads")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let max = self.defaults.max_threads(self.reader.max_threads);
        let (mut thread_reader, mut threads) = (ThreadReader::new(self.defaults), Vec::new());
        loop {
            let thread = seq.next_element_seed(VisitAny(&mut thread_reader));
            self.reader.refusal.set(thread_reader.refusal());
            let Some((thread, _)) = thread? else { return Ok(threads) };
            threads.push(thread);
            self.reader.check(threads.len(), "threads", max)?;
        }
    }
}

struct CgroupMap<'r>(&'r SnapshotReader);

impl<'de> Visitor<'de> for CgroupMap<'_> {
    type Value = BTreeMap<String, CgroupStats>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of cgroups")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut cgroups = BTreeMap::new();
        while let Some((path, stats)) = map.next_entry::<String, _>()? {
            if path.len() > LONGEST_NAME {
                return Err(self.0.refuse(LONG_NAME));
            }
            cgroups.insert(path, stats);
            self.0.check(cgroups.len(), "cgroups", self.0.max_cgroups)?;
        }
        Ok(cgroups)
    }
}

#[cfg(test)]
mod tests {
    use super::super::writer::SnapshotWriter;
    use super::*;
    use crate::model::{
        CaptureInfo, Container, CtprofParseSummary, CtprofProbeSummary, Errno, HostContext, HostCpuTime, Metrics, Psi,
        Reason, ReasonTime, Reasons, SchedExtSysfs, SeriesInfo, TaskstatsSummary, WindowInfo,
    };

    fn refusal(json: &str, max: usize) -> Option<SnapshotRefusal> {
        let reader = SnapshotReader::new(max, max);
        serde_json::Deserializer::from_str(json).deserialize_map(&reader).ok();
        reader.refusal()
    }

    #[test]
    fn a_newer_format_is_refused_with_its_version() {
        assert_eq!(refusal(r#"{"format_version":7,"threads":[]}"#, 9), Some(SnapshotRefusal::NewerFormat(7)));
        let error = serde_json::from_str::<CtprofSnapshot>(r#"{"format_version":7,"threads":[]}"#).unwrap_err();
        assert!(error.to_string().contains("format version 7; this ctprof reads versions up to 4"), "{error}");
    }

    #[test]
    fn default_values_after_the_threads_are_an_error() {
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
            let (majflt, Metrics { wait_time_ns, rt_priority, .. }) = (thread.metrics.majflt, *thread.metrics);
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
    fn a_file_without_threads_is_no_snapshot() {
        assert_eq!(refusal("{}", 9), Some(SnapshotRefusal::NotASnapshot("no `threads`")));
        assert_eq!(refusal("[]", 9), None);
    }

    #[test]
    fn threads_and_cgroups_are_bounded() {
        let thread = r#"{"tid":1,"tgid":1}"#;
        let threads = format!(r#"{{"threads":[{thread},{thread}]}}"#);
        assert_eq!(refusal(&threads, 1), Some(SnapshotRefusal::TooLarge(1, "threads")));
        assert_eq!(refusal(&threads, 2), None);
        let cgroups = r#"{"cgroup_stats":{"a":{},"b":{}},"threads":[]}"#;
        assert_eq!(refusal(cgroups, 1), Some(SnapshotRefusal::TooLarge(1, "cgroups")));
    }

    #[test]
    fn names_longer_than_any_of_the_kernel_are_refused() {
        let [longest, too_long, much_too_long] = [0, 1, LONGEST_NAME].map(|more| "a".repeat(LONGEST_NAME + more));
        let of_thread = |name: &str| refusal(&format!(r#"{{"threads":[{{"tid":1,"tgid":1,"comm":"{name}"}}]}}"#), 9);
        let of_cgroup = |name: &str| refusal(&format!(r#"{{"cgroup_stats":{{"{name}":{{}}}},"threads":[]}}"#), 9);
        assert_eq!([of_thread(&longest), of_cgroup(&longest)], [None, None]);
        for name in [&too_long, &much_too_long] {
            assert_eq!([of_thread(name), of_cgroup(name)], [Some(LONG_NAME), Some(LONG_NAME)]);
        }
    }

    #[test]
    fn unknown_and_missing_fields_are_no_error() {
        let json = r#"{"format_version":1,"new_thing":[{}],"threads":[],"host":{"new":1},"capture":{"tool":"x"}}"#;
        let snapshot: CtprofSnapshot = serde_json::from_str(json).unwrap();
        assert_eq!(snapshot.head.host, Some(HostContext::default()));
        assert_eq!(snapshot.head.capture.unwrap().tool, "x");
    }

    #[test]
    fn a_field_that_occurs_twice_is_an_error() {
        assert!(serde_json::from_str::<CtprofSnapshot>(r#"{"threads":[],"threads":[]}"#).is_err());
    }

    #[test]
    fn every_field_reads_back_as_it_was_written() {
        let times = vec![ReasonTime::from([1, 2, 3, 4])];
        let longest_waits = [(1, 5)].into();
        let reasons = Reasons { reasons: vec![Reason::default()], times, longest_waits, ..Reasons::default() };
        let head = SnapshotHead {
            series: Some(SeriesInfo::default()),
            format_version: Some(FORMAT_VERSION),
            captured_at_unix_ns: 7,
            capture: Some(CaptureInfo::default()),
            window: Some(WindowInfo::default()),
            reasons: Some(Box::new(reasons)),
            host: Some(HostContext::default()),
            cpu_time: Some(HostCpuTime::default()),
            cpu_time_after: Some(HostCpuTime::default()),
            cgroup_stats: BTreeMap::from([("/".to_owned(), CgroupStats::default())]),
            containers: BTreeMap::from([("/".to_owned(), Container::default())]),
            containers_unread: BTreeMap::from([(Errno::EACCES, ["/".to_owned()].into())]),
            unread_threads: BTreeMap::from([(3, vec![3])]),
            probe_summary: Some(CtprofProbeSummary::default()),
            parse_summary: Some(CtprofParseSummary::default()),
            taskstats_summary: Some(TaskstatsSummary::default()),
            psi: Some(Psi::default()),
            sched_ext: Some(SchedExtSysfs::default()),
        };
        let full = CtprofSnapshot { head, threads: vec![ThreadState { tid: 3, ..ThreadState::default() }] };
        let mut written = Vec::new();
        SnapshotWriter::new(&full).write(&mut written, u64::MAX).unwrap();
        for json in [serde_json::to_vec(&full).unwrap(), written] {
            assert_eq!(serde_json::from_slice::<CtprofSnapshot>(&json).unwrap(), full);
        }
    }

    #[test]
    fn threads_of_a_file_are_sorted_by_process_and_id() {
        let json = r#"{"format_version":1,"threads":[{"tid":9,"tgid":2},{"tid":3,"tgid":1},{"tid":2,"tgid":2},{"tid":1,"tgid":1}]}"#;
        let content = serde_json::Deserializer::from_str(json).deserialize_map(&SnapshotReader::new(9, 9)).unwrap();
        let ids = content.normalized().threads.into_iter().map(|thread| (thread.tgid, thread.tid));
        assert_eq!(ids.collect::<Vec<_>>(), [(1, 1), (1, 3), (2, 2), (2, 9)]);
    }
}
