//! Defaults of a file: the lines of threads leave out common values, and the keys of values that differ.

use super::column::{Columns, ValueField, are_three_quarters};
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
    /// Finds the values that most of these threads have. Metrics whose values differ more get a column, unless more than half of
    /// the threads lack them.
    pub(crate) fn from_threads(threads: &[ThreadState]) -> Self {
        if threads.is_empty() {
            return Self::default();
        }
        let sample: Vec<_> = threads.iter().step_by(threads.len().div_ceil(SAMPLE)).collect();
        let cgroup = majority(sample.iter().map(|thread| thread.cgroup.as_ref())).flatten().cloned();
        let mut defaults = Self { cgroup, ..Self::default() };
        let mut samples = Vec::new();
        for field in ValueField::all() {
            let values: Vec<_> = sample.iter().map(|thread| field.get(thread)).collect();
            let has = |wanted: &Value<'_>| values.iter().filter(|value| value.as_ref() == Some(wanted)).count();
            match (field, majority(values.iter())) {
                (ValueField::Metric(metric), Some(Some(value))) if are_three_quarters(has(value), &values) => {
                    metric.set(&mut defaults.metrics, value.clone()).expect("a metric holds its own values");
                }
                (_, Some(None)) => {}
                _ => defaults.columns.add_written(field, values, &mut samples),
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

/// The value of more than half, if there is one (Boyer and Moore, 1981).
fn majority<T: PartialEq>(values: impl Iterator<Item = T> + Clone) -> Option<T> {
    let (mut candidate, mut lead) = (None, 0_usize);
    for value in values.clone() {
        match &candidate {
            Some(same) if *same == value => lead += 1,
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
        assert_eq!([[1, 2, 1], [1, 1, 2], [2, 1, 1]].map(|values| majority(values.into_iter())), [Some(1); 3]);
        assert_eq!(majority([1, 2, 3, 3].into_iter()), None);
        assert_eq!(majority([0_u8; 0].into_iter()), None);
    }
}
