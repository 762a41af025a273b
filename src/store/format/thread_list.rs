//! The list of threads in a file, and the defaults that each leaves out.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::defaults::Defaults;
use super::thread::{self, ThreadLine, present};
use crate::model::{METRICS, ThreadState};

/// Threads without their default values.
pub(super) struct ThreadList<'s> {
    pub(super) threads: &'s [ThreadState],
    pub(super) defaults: &'s Defaults,
}

impl Serialize for ThreadList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { threads, defaults } = self;
        serializer.collect_seq(threads.iter().map(|thread| ThreadLine { thread, defaults }))
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

impl<'de> Deserialize<'de> for Defaults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (thread, columns) = thread::without_ids(deserializer)?;
        Ok(Self { cgroup: thread.cgroup, metrics: *thread.metrics, columns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let defaults = Defaults::of(&threads);
        assert_eq!(serde_json::to_string(&defaults).unwrap(), r#"{"cgroup":"/a","minflt":7,"majflt":0}"#);
        let json = serde_json::to_value(ThreadList { threads: &threads, defaults: &defaults }).unwrap();
        let expected = serde_json::json!([
            {"tid": 1, "tgid": 1, "pcomm": "", "comm": ""},
            {"tid": 2, "tgid": 1, "pcomm": "", "comm": "", "minflt": null},
            {"tid": 3, "tgid": 1, "pcomm": "", "comm": "", "cgroup": "/b"},
            {"tid": 4, "tgid": 1, "pcomm": "", "comm": ""},
        ]);
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<Defaults>(&serde_json::to_string(&defaults).unwrap()).unwrap(), defaults);
        assert!(Defaults::of(&[]).is_empty());
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
        let defaults = Defaults::of(&threads);
        let columns = r#"{"cpu_delay_count":2,"columns":[["read_at_ns"],["wait_time_ns","cpu_delay_total_ns"]]}"#;
        assert_eq!(serde_json::to_string(&defaults).unwrap(), columns);
        assert_eq!(serde_json::from_str::<Defaults>(columns).unwrap(), defaults);
        let json = serde_json::to_value(ThreadList { threads: &threads[..5], defaults: &defaults }).unwrap();
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
