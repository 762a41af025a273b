//! The JSON of a thread: identity, the values of columns, then the other metrics by walking the table, flat on one
//! object.
//!
//! The wide struct of metrics has no derived serde: the derived code would dominate build time, and a loop
//! over the table does the same.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::LazyLock;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Unexpected, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::VisitAny;
use super::column::{Columns, ValueField};
use super::defaults::Defaults;
use super::ktstr::MeasuredFlags;
use super::row::{RowSeed, ValueRow, ValueSeed};
use crate::model::{METRIC_COUNT, METRICS, Name, ProcessState, ThreadState};
use crate::store::error::SnapshotRefusal;
use crate::store::limit::{LONG_NAME, LONGEST_NAME};

impl Serialize for ThreadState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ThreadLine { thread: self, defaults: &NO_DEFAULTS }.serialize(serializer)
    }
}

static NO_DEFAULTS: LazyLock<Defaults> = LazyLock::new(Defaults::default);

/// A thread without its default values and the keys of columns. A default value, or one of its column, that the thread
/// lacks is null.
pub(super) struct ThreadLine<'s> {
    pub(super) thread: &'s ThreadState,
    pub(super) defaults: &'s Defaults,
}

impl Serialize for ThreadLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { thread, defaults } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("tid", &thread.tid)?;
        map.serialize_entry("tgid", &thread.tgid)?;
        map.serialize_entry("pcomm", &thread.pcomm)?;
        map.serialize_entry("comm", &thread.comm)?;
        present(&mut map, "program", thread.program.as_ref())?;
        present(&mut map, "parent", thread.parent.as_ref())?;
        present(&mut map, "euid", thread.euid.as_ref())?;
        if thread.cgroup != defaults.cgroup {
            map.serialize_entry("cgroup", &thread.cgroup)?;
        }
        present(&mut map, "cpu_cgroup", thread.cpu_cgroup.as_ref())?;
        let columns = Some(&defaults.columns).filter(|columns| columns.values(thread).any(|value| value.is_some()));
        present(&mut map, "values", columns.map(|columns| ValueRow { columns, thread }).as_ref())?;
        for field in ValueField::TIMES.iter().filter(|field| !defaults.columns.contains(**field)) {
            present(&mut map, field.name(), field.get(thread).as_ref())?;
        }
        present(&mut map, "kernel_thread", Some(&true).filter(|_| thread.kernel_thread))?;
        present(&mut map, "forked", Some(&true).filter(|_| thread.forked))?;
        present(&mut map, "name_complete", Some(&true).filter(|_| thread.name_complete))?;
        present(&mut map, "count", thread.span.map(|span| span.count).filter(|count| *count != 1).as_ref())?;
        present(&mut map, "started", Some(&true).filter(|_| thread.span.is_some_and(|span| span.started)))?;
        present(&mut map, "exited", Some(&true).filter(|_| thread.span.is_some_and(|span| span.exited)))?;
        present(&mut map, "exited_work", thread.exited_work.as_ref())?;
        present(&mut map, "party", thread.owner.as_ref())?;
        for (metric, _) in METRICS.iter().zip(self.differs()).filter(|(_, differs)| *differs) {
            map.serialize_entry(metric.name, &metric.get(&thread.metrics))?;
        }
        present(&mut map, "process", thread.process.as_ref())?;
        present(&mut map, "process_after", thread.process_after.as_ref())?;
        present(&mut map, "smaps_rollup_kib", thread.smaps_rollup_kib.as_ref())?;
        map.end()
    }
}

impl ThreadLine<'_> {
    /// Returns for each metric whether its value is neither the default value nor the value of its column.
    fn differs(&self) -> [bool; METRIC_COUNT] {
        let Self { thread, defaults } = self;
        let mut differs = thread.metrics.differences(&defaults.metrics);
        for fields in &defaults.columns.0 {
            let [first, others @ ..] = &fields[..] else { continue };
            if let ValueField::Metric(metric) = first {
                differs[metric.id as usize] = false;
            }
            let value = if others.is_empty() { None } else { first.get(thread) };
            for field in others {
                if let ValueField::Metric(metric) = field {
                    differs[metric.id as usize] = metric.get(&thread.metrics) != value;
                }
            }
        }
        differs
    }
}

/// Writes a value that is there.
pub(super) fn present<M: SerializeMap, T: Serialize>(
    map: &mut M,
    key: &str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

#[derive(Clone, Copy)]
enum ThreadField {
    Tid,
    Tgid,
    Name(fn(&mut ThreadState) -> &mut Name),
    OptionalName(fn(&mut ThreadState) -> &mut Option<Name>),
    Values,
    Columns,
    Flag(fn(&mut ThreadState) -> &mut bool),
    Euid,
    Count,
    ExitedWork,
    Owner,
    Process(fn(&mut ThreadState) -> &mut Option<Box<ProcessState>>),
    Smaps,
    Value(ValueField),
    Foreign(usize),
}

const FIELDS_WITHOUT_VALUES: [(&str, ThreadField); 22] = [
    ("tid", ThreadField::Tid),
    ("tgid", ThreadField::Tgid),
    ("pcomm", ThreadField::Name(|thread| &mut thread.pcomm)),
    ("comm", ThreadField::Name(|thread| &mut thread.comm)),
    ("cgroup", ThreadField::OptionalName(|thread| &mut thread.cgroup)),
    ("cpu_cgroup", ThreadField::OptionalName(|thread| &mut thread.cpu_cgroup)),
    ("program", ThreadField::OptionalName(|thread| &mut thread.program)),
    ("parent", ThreadField::OptionalName(|thread| &mut thread.parent)),
    ("euid", ThreadField::Euid),
    ("values", ThreadField::Values),
    ("columns", ThreadField::Columns),
    ("kernel_thread", ThreadField::Flag(|thread| &mut thread.kernel_thread)),
    ("forked", ThreadField::Flag(|thread| &mut thread.forked)),
    ("name_complete", ThreadField::Flag(|thread| &mut thread.name_complete)),
    ("count", ThreadField::Count),
    ("started", ThreadField::Flag(|thread| &mut thread.span.get_or_insert_default().started)),
    ("exited", ThreadField::Flag(|thread| &mut thread.span.get_or_insert_default().exited)),
    ("exited_work", ThreadField::ExitedWork),
    ("party", ThreadField::Owner),
    ("process", ThreadField::Process(|thread| &mut thread.process)),
    ("process_after", ThreadField::Process(|thread| &mut thread.process_after)),
    ("smaps_rollup_kib", ThreadField::Smaps),
];

/// Every field of a thread, by its index and by its key.
struct ThreadFields {
    list: Vec<(&'static str, ThreadField)>,
    places: HashMap<&'static str, usize>,
}

static FIELDS: LazyLock<ThreadFields> = LazyLock::new(|| {
    let values = ValueField::all().map(|field| (field.name(), ThreadField::Value(field)));
    let foreign = MeasuredFlags::NAMES.iter().enumerate().map(|(at, &name)| (name, ThreadField::Foreign(at)));
    let list: Vec<_> = FIELDS_WITHOUT_VALUES.into_iter().chain(values).chain(foreign).collect();
    let places = list.iter().enumerate().map(|(place, (key, _))| (*key, place)).collect();
    ThreadFields { list, places }
});

/// Reads threads, and learns from each: threads usually have the same order of fields, and share names.
pub(in crate::store) struct ThreadReader<'d> {
    defaults: &'d Defaults,
    fields: &'static ThreadFields,
    /// The index of the next field, by the index of a field in the previous thread; the last element is for the first field.
    next: Vec<usize>,
    names: SharedNames,
    needs_ids: bool,
}

/// Names of threads so far, and why the last one was refused.
#[derive(Default)]
struct SharedNames {
    names: HashSet<Name>,
    refusal: Option<SnapshotRefusal>,
}

impl<'d> ThreadReader<'d> {
    pub(in crate::store) fn new(defaults: &'d Defaults) -> Self {
        let fields = &*FIELDS;
        Self { defaults, fields, next: vec![0; fields.list.len() + 1], names: SharedNames::default(), needs_ids: true }
    }

    /// Why the last thread was refused, if its JSON had the right types.
    pub(in crate::store) fn refusal(&self) -> Option<SnapshotRefusal> {
        self.names.refusal
    }

    /// A name that must not be null.
    fn name<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<Name, A::Error> {
        let name = map.next_value_seed(VisitAny(SharedName(&mut self.names)))?;
        name.ok_or_else(|| de::Error::invalid_type(Unexpected::Unit, &"a string"))
    }
}

impl<'de> Deserialize<'de> for ThreadState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(&mut ThreadReader::new(&NO_DEFAULTS)).map(|(thread, _)| thread)
    }
}

/// A thread without ids, and the columns.
pub(super) fn without_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(ThreadState, Columns), D::Error> {
    deserializer.deserialize_map(&mut ThreadReader { needs_ids: false, ..ThreadReader::new(&NO_DEFAULTS) })
}

impl<'de> Visitor<'de> for &mut ThreadReader<'_> {
    type Value = (ThreadState, Columns);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a thread")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Defaults { cgroup, metrics, columns } = self.defaults;
        let metrics = Box::new(metrics.clone());
        let mut thread = ThreadState { cgroup: cgroup.clone(), metrics, ..ThreadState::default() };
        let (mut tid, mut tgid, mut own_columns) = (None, None, Columns::default());
        let mut has_metrics = false;
        let mut flags = MeasuredFlags::default();
        let mut before = self.fields.list.len();
        while let Some(place) =
            map.next_key_seed(VisitAny(ThreadKey { fields: self.fields, expected: self.next[before] }))?
        {
            let Some(place) = place else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            self.next[before] = place;
            before = place;
            match self.fields.list[place].1 {
                ThreadField::Tid => tid = Some(map.next_value()?),
                ThreadField::Tgid => tgid = Some(map.next_value()?),
                ThreadField::Name(of) => *of(&mut thread) = self.name(&mut map)?,
                ThreadField::OptionalName(of) => {
                    *of(&mut thread) = map.next_value_seed(VisitAny(SharedName(&mut self.names)))?;
                }
                // It would replace the values of metrics that have their own.
                ThreadField::Values if has_metrics => return Err(de::Error::custom("`values` must precede metrics")),
                ThreadField::Values => map.next_value_seed(VisitAny(RowSeed { columns, thread: &mut thread }))?,
                ThreadField::Columns => own_columns = map.next_value()?,
                ThreadField::Flag(of) => *of(&mut thread) = map.next_value()?,
                ThreadField::Euid => thread.euid = map.next_value()?,
                ThreadField::Count => thread.span.get_or_insert_default().count = map.next_value()?,
                ThreadField::ExitedWork => thread.exited_work = map.next_value()?,
                ThreadField::Owner => thread.owner = map.next_value()?,
                ThreadField::Process(of) => *of(&mut thread) = map.next_value()?,
                ThreadField::Value(field) => {
                    has_metrics |= matches!(field, ValueField::Metric(_));
                    map.next_value_seed(VisitAny(ValueSeed { field, thread: &mut thread }))?;
                }
                ThreadField::Smaps => thread.smaps_rollup_kib = map.next_value::<Option<BTreeMap<_, _>>>()?,
                ThreadField::Foreign(at) => flags.0[at] = map.next_value()?,
            }
        }
        flags.apply(&mut thread);
        if self.needs_ids {
            thread.tid = tid.ok_or_else(|| de::Error::missing_field("tid"))?;
            thread.tgid = tgid.ok_or_else(|| de::Error::missing_field("tgid"))?;
        }
        Ok((thread, own_columns))
    }
}

/// Reads a key, usually of the field at index `expected`; returns the index of its field, if known.
struct ThreadKey {
    fields: &'static ThreadFields,
    expected: usize,
}

impl Visitor<'_> for ThreadKey {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field of a thread")
    }

    fn visit_str<E>(self, key: &str) -> Result<Option<usize>, E> {
        if self.fields.list[self.expected].0 == key {
            return Ok(Some(self.expected));
        }
        Ok(self.fields.places.get(key).copied())
    }
}

/// Reads a name, shared with earlier threads if they have it; `None` for null.
struct SharedName<'n>(&'n mut SharedNames);

impl Visitor<'_> for SharedName<'_> {
    type Value = Option<Name>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_unit<E>(self) -> Result<Option<Name>, E> {
        Ok(None)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<Name>, E> {
        let SharedNames { names, refusal } = self.0;
        if let Some(name) = names.get(text) {
            return Ok(Some(Name::clone(name)));
        }
        if text.len() > LONGEST_NAME {
            return Err(E::custom(refusal.insert(LONG_NAME)));
        }
        let name = Name::from(text);
        names.insert(Name::clone(&name));
        Ok(Some(name))
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::model::{ExitedWork, Owner, ProcessState, Shape, ThreadSpan, Value};

    /// Returns a value that fits a metric and, if possible, differs from the values of other metrics.
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
        let mut thread = ThreadState {
            tid: 7,
            tgid: 3,
            comm: "worker".into(),
            program: Some("manage.py".into()),
            parent: Some("make".into()),
            euid: Some(33),
            cpu_cgroup: Some("/limited".into()),
            forked: true,
            name_complete: true,
            span: Some(ThreadSpan { alive_ns: 5, zombie_ns: 2, count: 3, started: true, exited: true }),
            exited_work: Some(ExitedWork::Children),
            owner: Some(Owner::Command),
            process: Some(Box::new(ProcessState { ppid: Some(2), ..ProcessState::default() })),
            process_after: Some(Box::new(ProcessState { ppid: Some(3), ..ProcessState::default() })),
            ..ThreadState::default()
        };
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
    fn absent_values_have_no_key_and_zeros_have_one() {
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
    fn a_value_of_the_wrong_type_is_an_error_at_its_metric() {
        for (json, at) in [
            (r#"{"tid":1,"tgid":1,"nice":"low"}"#, "nice"),
            (r#"{"tid":1,"tgid":1,"run_time_ns":-1}"#, "run_time_ns"),
            (r#"{"tid":1,"tgid":1,"nice":99999999999}"#, "nice"),
            (r#"{"tid":1,"tgid":1,"state":"SS"}"#, "state"),
            (r#"{"tid":1,"tgid":1,"ext_enabled":1}"#, "ext_enabled"),
            (r#"{"pcomm":null}"#, "."),
            (r#"{"tgid":1}"#, "."),
        ] {
            let mut json = serde_json::Deserializer::from_str(json);
            let error = serde_path_to_error::deserialize::<_, ThreadState>(&mut json).unwrap_err();
            assert_eq!(error.path().to_string(), at, "{error}");
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
