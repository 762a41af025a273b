//! The JSON of what is usual, and of threads without it.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::table::METRICS;
use super::thread::ThreadState;
use super::usual::Usual;
use super::wire::{self, present};

impl Serialize for Usual {
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

impl<'de> Deserialize<'de> for Usual {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (thread, columns) = wire::without_ids(deserializer)?;
        Ok(Self { cgroup: thread.cgroup, metrics: *thread.metrics, columns })
    }
}

/// Threads without what is usual.
pub(super) struct Unusual<'s> {
    pub(super) threads: &'s [ThreadState],
    pub(super) usual: &'s Usual,
}

impl Serialize for Unusual<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.threads.iter().map(|thread| UnusualThread { thread, usual: self.usual }))
    }
}

struct UnusualThread<'s> {
    thread: &'s ThreadState,
    usual: &'s Usual,
}

impl Serialize for UnusualThread<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.thread.serialize_without(self.usual, serializer)
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
    fn threads_leave_out_what_is_usual_and_say_what_they_lack() {
        let threads = [("/a", Some(7)), ("/a", None), ("/b", Some(7)), ("/a", Some(7))];
        let threads: Vec<_> = (1..).zip(threads).map(|(tid, (cgroup, minflt))| thread(tid, cgroup, minflt)).collect();
        let usual = Usual::of(&threads);
        assert_eq!(serde_json::to_string(&usual).unwrap(), r#"{"cgroup":"/a","minflt":7,"majflt":0}"#);
        let json = serde_json::to_value(Unusual { threads: &threads, usual: &usual }).unwrap();
        let expected = serde_json::json!([
            {"tid": 1, "tgid": 1, "pcomm": "", "comm": ""},
            {"tid": 2, "tgid": 1, "pcomm": "", "comm": "", "minflt": null},
            {"tid": 3, "tgid": 1, "pcomm": "", "comm": "", "cgroup": "/b"},
            {"tid": 4, "tgid": 1, "pcomm": "", "comm": ""},
        ]);
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<Usual>(&serde_json::to_string(&usual).unwrap()).unwrap(), usual);
        assert!(Usual::of(&[]).is_empty());
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
        let usual = Usual::of(&threads);
        let columns = r#"{"cpu_delay_count":2,"columns":[["read_at_ns"],["wait_time_ns","cpu_delay_total_ns"]]}"#;
        assert_eq!(serde_json::to_string(&usual).unwrap(), columns);
        assert_eq!(serde_json::from_str::<Usual>(columns).unwrap(), usual);
        let json = serde_json::to_value(Unusual { threads: &threads[..5], usual: &usual }).unwrap();
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
