//! Writes the JSON of a snapshot.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::defaults::Defaults;
use super::thread::{ThreadLine, present};
use crate::model::{CtprofSnapshot, FORMAT_VERSION, METRICS, SnapshotHead, ThreadState};
use crate::process::workers;
use crate::store::limit::{ContentLimit, ReadLimits};

/// Threads whose lines a worker makes at a time, and those whose lines are in memory before they are compressed.
const BATCH: usize = 1024;
const BATCHES: usize = 16;
/// Bytes of most lines.
const USUAL_LINE: usize = 160;

/// Writes a snapshot in less space: threads leave out their default values, unless the format is older than those.
pub(in crate::store) struct SnapshotWriter<'s> {
    snapshot: &'s CtprofSnapshot,
    defaults: Defaults,
}

/// The part of a snapshot before the threads: readers need it first.
#[derive(serde::Serialize)]
struct SnapshotStart<'s> {
    #[serde(flatten)]
    head: &'s SnapshotHead,
    #[serde(rename = "usual", skip_serializing_if = "Defaults::is_empty")]
    defaults: &'s Defaults,
}

impl<'s> SnapshotWriter<'s> {
    pub(in crate::store) fn new(snapshot: &'s CtprofSnapshot) -> Self {
        let has_defaults = snapshot.head.format_version >= Some(FORMAT_VERSION);
        let defaults = if has_defaults { Defaults::from_threads(&snapshot.threads) } else { Defaults::default() };
        Self { snapshot, defaults }
    }

    /// Returns the name and the maximum of a limit that readers with these limits would find exceeded.
    pub(in crate::store) fn too_many(&self, limits: ReadLimits) -> Option<(&'static str, usize)> {
        let CtprofSnapshot { head, threads } = self.snapshot;
        let max_threads = self.defaults.max_threads(limits.threads);
        let counts = [("threads", threads.len(), max_threads), ("cgroups", head.cgroup_stats.len(), limits.cgroups)];
        counts.into_iter().find(|(_, number, max)| number > max).map(|(what, _, max)| (what, max))
    }

    /// Writes each thread on its own line, so that readers can parse them in parallel.
    ///
    /// What precedes them is an error above what readers with this limit on bytes of JSON allow.
    pub(in crate::store) fn write(&self, mut out: impl Write, limit: u64) -> io::Result<()> {
        let Self { snapshot: CtprofSnapshot { head, threads }, defaults } = self;
        let start = serde_json::to_vec(&SnapshotStart { head, defaults })?;
        ContentLimit::new(limit).count(&start).map_err(io::Error::other)?;
        out.write_all(start.strip_suffix(b"}").expect("it is an object"))?;
        out.write_all(b",\"threads\":[")?;
        let pool = self.workers();
        let mut separator: &[u8] = b"\n";
        for batches in threads.chunks(BATCH * BATCHES) {
            let in_pool = || batches.par_chunks(BATCH).map(|threads| self.lines(threads)).collect();
            let alone = || batches.chunks(BATCH).map(|threads| self.lines(threads)).collect();
            let lines: Result<Vec<_>, _> = pool.as_ref().map_or_else(alone, |pool| pool.install(in_pool));
            for lines in lines? {
                out.write_all(separator)?;
                out.write_all(&lines)?;
                separator = b",\n";
            }
        }
        out.write_all(b"\n]}")
    }

    /// The lines of some threads, with commas between them.
    fn lines(&self, threads: &[ThreadState]) -> serde_json::Result<Vec<u8>> {
        let mut lines = Vec::with_capacity(threads.len() * USUAL_LINE);
        for thread in threads {
            if !lines.is_empty() {
                lines.extend(b",\n");
            }
            serde_json::to_writer(&mut lines, &ThreadLine { thread, defaults: &self.defaults })?;
        }
        Ok(lines)
    }

    /// Returns as many workers as the capture had, if there are many threads. A call from a worker of another pool starts none.
    fn workers(&self) -> Option<Arc<ThreadPool>> {
        let CtprofSnapshot { head, threads } = self.snapshot;
        let jobs = head.capture.as_ref().and_then(|capture| usize::try_from(capture.jobs).ok()).unwrap_or(1);
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let is_alone = threads.len() <= BATCH || jobs <= 1 || rayon::current_thread_index().is_some();
        (!is_alone).then(|| workers(jobs.min(cpus)))
    }
}

impl Serialize for Defaults {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        present(&mut map, "cgroup", self.cgroup.as_ref())?;
        for metric in METRICS {
            present(&mut map, metric.name, metric.get(&self.metrics).as_ref())?;
        }
        present(&mut map, "columns", Some(&self.columns).filter(|columns| !columns.0.is_empty()))?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ThreadState;

    #[test]
    fn a_snapshot_of_version_1_is_written_without_default_values() {
        let mut snapshot: CtprofSnapshot =
            serde_json::from_str(r#"{"format_version":1,"threads":[{"tid":1,"tgid":1,"minflt":7}]}"#).unwrap();
        let has_usual = |snapshot: &_| {
            let mut json = Vec::new();
            SnapshotWriter::new(snapshot).write(&mut json, u64::MAX).unwrap();
            String::from_utf8(json).unwrap().contains("usual")
        };
        assert!(!has_usual(&snapshot), "ctprof 0.1.0 would read default values as absent");
        snapshot.head.format_version = Some(2);
        assert!(has_usual(&snapshot));
    }

    fn lines(threads: &[ThreadState], defaults: &Defaults) -> serde_json::Value {
        threads.iter().map(|thread| serde_json::to_value(ThreadLine { thread, defaults }).unwrap()).collect()
    }

    fn thread(tid: u32, cgroup: &str, minflt: Option<u64>) -> ThreadState {
        let mut thread = ThreadState { tid, tgid: 1, cgroup: Some(cgroup.into()), ..ThreadState::default() };
        thread.metrics.minflt = minflt.map(Into::into);
        thread.metrics.majflt = Some(0.into());
        thread
    }

    #[test]
    fn threads_leave_out_their_default_values_and_say_what_they_lack() {
        let threads = [("/a", Some(7)), ("/a", None), ("/b", Some(7)), ("/a", Some(7))];
        let threads: Vec<_> = (1..).zip(threads).map(|(tid, (cgroup, minflt))| thread(tid, cgroup, minflt)).collect();
        let defaults = Defaults::from_threads(&threads);
        assert_eq!(serde_json::to_string(&defaults).unwrap(), r#"{"cgroup":"/a","minflt":7,"majflt":0}"#);
        let json = lines(&threads, &defaults);
        let expected = serde_json::json!([
            {"tid": 1, "tgid": 1, "pcomm": "", "comm": ""},
            {"tid": 2, "tgid": 1, "pcomm": "", "comm": "", "minflt": null},
            {"tid": 3, "tgid": 1, "pcomm": "", "comm": "", "cgroup": "/b"},
            {"tid": 4, "tgid": 1, "pcomm": "", "comm": ""},
        ]);
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<Defaults>(&serde_json::to_string(&defaults).unwrap()).unwrap(), defaults);
        assert!(Defaults::from_threads(&[]).is_empty());
    }

    /// A thread that waited for CPUs this long, and how often.
    fn waiting(tid: u32, total: u64, count: u64) -> ThreadState {
        let mut thread = ThreadState { tid, tgid: 1, read_at_ns: Some(10 * u64::from(tid)), ..ThreadState::default() };
        thread.metrics.wait_time_ns = Some(total.into());
        thread.metrics.cpu_delay_count = Some(count.into());
        thread.metrics.cpu_delay_total_ns = Some(total.into());
        thread
    }

    #[test]
    fn threads_have_their_values_in_the_order_of_the_columns() {
        let mut threads: Vec<_> = (1..=8).map(|tid| waiting(tid, u64::from(tid) * 100, 2)).collect();
        threads[1].metrics.wait_time_ns = None;
        threads[2].metrics.cpu_delay_total_ns = None;
        threads[3].read_at_ns = None;
        threads[4].metrics.cpu_delay_count = Some(3.into());
        let defaults = Defaults::from_threads(&threads);
        let columns = r#"{"cpu_delay_count":2,"columns":[["read_at_ns"],["wait_time_ns","cpu_delay_total_ns"]]}"#;
        assert_eq!(serde_json::to_string(&defaults).unwrap(), columns);
        assert_eq!(serde_json::from_str::<Defaults>(columns).unwrap(), defaults);
        let json = lines(&threads[..5], &defaults);
        let expected = serde_json::json!([
            {"tid": 1, "tgid": 1, "pcomm": "", "comm": "", "values": [10, 100]},
            {"tid": 2, "tgid": 1, "pcomm": "", "comm": "", "values": [20, null], "cpu_delay_total_ns": 200},
            {"tid": 3, "tgid": 1, "pcomm": "", "comm": "", "values": [30, 300], "cpu_delay_total_ns": null},
            {"tid": 4, "tgid": 1, "pcomm": "", "comm": "", "values": [null, 400]},
            {"tid": 5, "tgid": 1, "pcomm": "", "comm": "", "values": [50, 500], "cpu_delay_count": 3},
        ]);
        assert_eq!(json, expected);
    }
}
