//! What the lines of threads leave out: values that most of them have, and the keys of values that differ.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::column::{Columns, ValueField, are_three_quarters};
use super::thread::{present, without_ids};
use crate::model::{METRICS, Metrics, Name, ThreadState, Value};

/// Maximum number of threads whose values decide.
const SAMPLE: usize = 63;

/// Default texts and lists up to this size do not lower the number of threads that a file may have. A list of 1,000 CPUs
/// and a policy are below it.
const BYTES_PER_THREAD: usize = 4096;

/// The cgroup and the metrics that a thread has unless its line says otherwise, and the order of the values in its line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Defaults {
    pub(super) cgroup: Option<Name>,
    pub(super) metrics: Metrics,
    pub(super) columns: Columns,
}

impl Defaults {
    /// What most of some threads have. Metrics whose values differ more get a column, unless more than half lack
    /// them.
    pub(crate) fn of(threads: &[ThreadState]) -> Self {
        if threads.is_empty() {
            return Self::default();
        }
        let sample: Vec<_> = threads.iter().step_by(threads.len().div_ceil(SAMPLE)).collect();
        let cgroup = majority(sample.iter().map(|thread| thread.cgroup.as_ref())).flatten().cloned();
        let mut defaults = Self { cgroup, ..Self::default() };
        for field in ValueField::all() {
            let values = sample.iter().map(|thread| field.get(thread));
            let has = |wanted: &Value<'_>| values.clone().filter(|value| value.as_ref() == Some(wanted)).count();
            match (field, majority(values.clone())) {
                (ValueField::Metric(metric), Some(Some(value))) if are_three_quarters(has(&value), &sample) => {
                    metric.set(&mut defaults.metrics, value).expect("a metric holds its own values");
                }
                (_, Some(None)) => {}
                _ => defaults.columns.add_written(field, &sample),
            }
        }
        defaults
    }

    /// The maximum number of threads of a file, if it is `max` for threads with short values. Every thread has a copy of
    /// the default values, however short its line is.
    pub(crate) fn max_threads(&self, max: usize) -> usize {
        let bytes = METRICS.iter().filter_map(|metric| metric.get(&self.metrics)).map(|value| match value {
            Value::Name(text) => text.len(),
            Value::Text(text) => text.len(),
            Value::Cpus(cpus) => size_of_val(&*cpus),
            _ => 0,
        });
        max / bytes.sum::<usize>().div_ceil(BYTES_PER_THREAD).max(1)
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
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
        let (thread, columns) = without_ids(deserializer)?;
        Ok(Self { cgroup: thread.cgroup, metrics: *thread.metrics, columns })
    }
}

/// The value of more than half, if there is one (Boyer and Moore, 1981).
fn majority<T: PartialEq>(values: impl Iterator<Item = T> + Clone) -> Option<T> {
    let (mut candidate, mut lead) = (None, 0_usize);
    for value in values.clone() {
        match &candidate {
            Some(known) if *known == value => lead += 1,
            _ if lead == 0 => (candidate, lead) = (Some(value), 1),
            _ => lead -= 1,
        }
    }
    let candidate = candidate?;
    let (same, other): (Vec<_>, Vec<_>) = values.partition(|value| *value == candidate);
    (same.len() > other.len()).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::super::thread::ThreadLine;
    use super::*;
    use crate::model::{CategoricalString, CpuSet};

    #[test]
    fn threads_that_writers_allow_are_allowed_by_readers() {
        let metrics = Metrics {
            policy: Some(CategoricalString("SCHED_OTHER".into())),
            cpu_affinity: Some(CpuSet((0..1022).collect())),
            ..Metrics::default()
        };
        let defaults = Defaults { metrics, ..Defaults::default() };
        let read: Defaults = serde_json::from_str(&serde_json::to_string(&defaults).unwrap()).unwrap();
        assert_eq!((defaults.max_threads(100), read.max_threads(100)), (50, 50));
        assert_eq!(Defaults::default().max_threads(100), 100);
    }

    #[test]
    fn the_value_of_more_than_half_is_the_default() {
        assert_eq!(majority([1, 2, 1].into_iter()), Some(1));
        assert_eq!(majority([1, 2, 3, 3].into_iter()), None);
        assert_eq!(majority([0_u8; 0].into_iter()), None);
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
        let defaults = Defaults::of(&threads);
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
