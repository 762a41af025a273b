//! The JSON of a thread: identity, then the metrics by walking the table, flat on one object.
//!
//! The wide struct of readings has no derived serde on purpose: the table says it all, and the
//! derived code would be the largest part of the build.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::LazyLock;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::foreign::Flags;
use super::{METRICS, Name, ThreadState, Value};

impl Serialize for ThreadState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("tid", &self.tid)?;
        map.serialize_entry("tgid", &self.tgid)?;
        map.serialize_entry("pcomm", &self.pcomm)?;
        map.serialize_entry("comm", &self.comm)?;
        present(&mut map, "cgroup", self.cgroup.as_ref())?;
        present(&mut map, "start_time_clock_ticks", self.start_time_clock_ticks.as_ref())?;
        present(&mut map, "kernel_thread", Some(&true).filter(|_| self.kernel_thread))?;
        present(&mut map, "read_at_ns", self.read_at_ns.as_ref())?;
        for metric in METRICS {
            present(&mut map, metric.name, metric.get(&self.metrics).as_ref())?;
        }
        present(&mut map, "smaps_rollup_kib", self.smaps_rollup_kib.as_ref())?;
        map.end()
    }
}

fn present<M: SerializeMap, T: Serialize>(map: &mut M, key: &str, value: Option<&T>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

impl<'de> Deserialize<'de> for ThreadState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ThreadVisitor)
    }
}

#[derive(Clone, Copy)]
enum Key {
    Tid,
    Tgid,
    Pcomm,
    Comm,
    Cgroup,
    StartTime,
    KernelThread,
    ReadAt,
    Metric(usize),
    Smaps,
    Foreign(usize),
    Unknown,
}

const IDENTITY: [(&str, Key); 9] = [
    ("tid", Key::Tid),
    ("tgid", Key::Tgid),
    ("pcomm", Key::Pcomm),
    ("comm", Key::Comm),
    ("cgroup", Key::Cgroup),
    ("start_time_clock_ticks", Key::StartTime),
    ("kernel_thread", Key::KernelThread),
    ("read_at_ns", Key::ReadAt),
    ("smaps_rollup_kib", Key::Smaps),
];

static KEYS: LazyLock<HashMap<&'static str, Key>> = LazyLock::new(|| {
    let metrics = METRICS.iter().enumerate().map(|(at, metric)| (metric.name, Key::Metric(at)));
    let foreign = Flags::NAMES.iter().enumerate().map(|(at, &name)| (name, Key::Foreign(at)));
    IDENTITY.into_iter().chain(metrics).chain(foreign).collect()
});

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field of a thread")
    }

    fn visit_str<E>(self, key: &str) -> Result<Key, E> {
        Ok(KEYS.get(key).copied().unwrap_or(Key::Unknown))
    }
}

struct ThreadVisitor;

impl<'de> Visitor<'de> for ThreadVisitor {
    type Value = ThreadState;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a thread")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ThreadState, A::Error> {
        let mut thread = ThreadState::default();
        let (mut tid, mut tgid) = (None, None);
        let mut flags = Flags::default();
        while let Some(key) = map.next_key()? {
            match key {
                Key::Tid => tid = Some(map.next_value()?),
                Key::Tgid => tgid = Some(map.next_value()?),
                Key::Pcomm => thread.pcomm = map.next_value::<Name>()?,
                Key::Comm => thread.comm = map.next_value::<Name>()?,
                Key::Cgroup => thread.cgroup = map.next_value()?,
                Key::StartTime => thread.start_time_clock_ticks = map.next_value()?,
                Key::KernelThread => thread.kernel_thread = map.next_value()?,
                Key::ReadAt => thread.read_at_ns = map.next_value()?,
                Key::Metric(at) => metric(&mut map, &mut thread, at)?,
                Key::Smaps => thread.smaps_rollup_kib = map.next_value::<Option<BTreeMap<_, _>>>()?,
                Key::Foreign(at) => flags.set(at, map.next_value()?),
                Key::Unknown => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        thread.tid = tid.ok_or_else(|| de::Error::missing_field("tid"))?;
        thread.tgid = tgid.ok_or_else(|| de::Error::missing_field("tgid"))?;
        flags.apply(&mut thread);
        Ok(thread)
    }
}

fn metric<'de, A: MapAccess<'de>>(map: &mut A, thread: &mut ThreadState, at: usize) -> Result<(), A::Error> {
    let metric = &METRICS[at];
    let Some(value) = map.next_value::<Option<Value<'static>>>()? else {
        metric.clear(&mut thread.metrics);
        return Ok(());
    };
    metric
        .set(&mut thread.metrics, value)
        .map_err(|mismatch| de::Error::custom(format_args!("{}: {mismatch}", metric.name)))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::super::Shape;
    use super::*;

    /// A value that fits a metric and differs from other metrics' where it can.
    fn sample(at: usize) -> Value<'static> {
        let number = u64::try_from(at).unwrap() + 1;
        match METRICS[at].shape {
            Shape::Unsigned => Value::Unsigned(number),
            Shape::Signed => Value::Signed(-i64::try_from(number).unwrap()),
            Shape::Letter => Value::Letter('S'),
            Shape::Flag => Value::Flag(true),
            Shape::Text => Value::Text(Cow::Borrowed("SCHED_BATCH")),
            Shape::Cpus => Value::Cpus(Cow::Owned(vec![0, 2])),
        }
    }

    fn full() -> ThreadState {
        let mut thread = ThreadState { tid: 7, tgid: 3, comm: "worker".into(), ..ThreadState::default() };
        for (at, metric) in METRICS.iter().enumerate() {
            metric.set(&mut thread.metrics, sample(at)).unwrap();
        }
        thread
    }

    #[test]
    fn every_metric_reads_back_as_it_was_written() {
        let thread = full();
        let json = serde_json::to_value(&thread).unwrap();
        for (at, metric) in METRICS.iter().enumerate() {
            assert_eq!(json[metric.name], serde_json::to_value(sample(at)).unwrap(), "{}", metric.name);
        }
        assert_eq!(serde_json::from_value::<ThreadState>(json).unwrap(), thread);
    }

    #[test]
    fn absent_readings_leave_no_key_and_zeros_do() {
        let mut thread = ThreadState { tid: 1, tgid: 1, ..ThreadState::default() };
        thread.metrics.minflt = Some(0.into());
        let json = serde_json::to_string(&thread).unwrap();
        assert_eq!(json, r#"{"tid":1,"tgid":1,"pcomm":"","comm":"","minflt":0}"#);
    }

    #[test]
    fn a_null_is_absent_and_an_unknown_key_is_skipped() {
        let json = r#"{"tid":1,"tgid":1,"majflt":null,"tomorrow":{"a":[1]},"minflt":0}"#;
        let thread: ThreadState = serde_json::from_str(json).unwrap();
        assert_eq!(thread.metrics.majflt, None);
        assert_eq!(thread.metrics.minflt, Some(0.into()));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_an_error_that_names_the_metric() {
        for (json, name) in [
            (r#"{"tid":1,"tgid":1,"nice":"low"}"#, "nice"),
            (r#"{"tid":1,"tgid":1,"run_time_ns":-1}"#, "run_time_ns"),
            (r#"{"tid":1,"tgid":1,"nice":99999999999}"#, "nice"),
            (r#"{"tid":1,"tgid":1,"state":"SS"}"#, "state"),
            (r#"{"tid":1,"tgid":1,"ext_enabled":1}"#, "ext_enabled"),
            (r#"{"tgid":1}"#, "tid"),
        ] {
            let error = serde_json::from_str::<ThreadState>(json).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn the_kernels_zero_minimum_is_no_event() {
        let json = r#"{"tid":1,"tgid":1,"cpu_delay_min_ns":0,"cpu_delay_max_ns":0}"#;
        let thread: ThreadState = serde_json::from_str(json).unwrap();
        assert_eq!(thread.metrics.cpu_delay_min_ns, None);
        assert_eq!(thread.metrics.cpu_delay_max_ns, Some(0.into()));
    }
}
