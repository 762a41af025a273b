//! Columns: the fields whose values each thread has in one list, without their keys.

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use crate::model::{METRICS, Metric, Mismatch, Shape, ThreadState, Value};

/// A field of a thread whose value can be in a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueField {
    StartTime,
    ReadAt,
    Alive,
    Zombie,
    Exited,
    Metric(&'static Metric),
}

impl ValueField {
    /// The fields that are no metrics.
    pub(super) const TIMES: [Self; 5] = [Self::StartTime, Self::ReadAt, Self::Alive, Self::Zombie, Self::Exited];

    pub(super) fn all() -> impl Iterator<Item = Self> {
        Self::TIMES.into_iter().chain(METRICS.iter().map(Self::Metric))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::StartTime => "start_time_clock_ticks",
            Self::ReadAt => "read_at_ns",
            Self::Alive => "alive_ns",
            Self::Zombie => "zombie_ns",
            Self::Exited => "exited_monotonic_ns",
            Self::Metric(metric) => metric.name,
        }
    }

    fn is_metric_with_numbers(self) -> bool {
        matches!(self, Self::Metric(metric) if matches!(metric.shape, Shape::Unsigned | Shape::Signed))
    }

    pub(super) fn get(self, thread: &ThreadState) -> Option<Value<'_>> {
        match self {
            Self::StartTime => thread.start_time_clock_ticks.map(Value::Unsigned),
            Self::ReadAt => thread.read_at_ns.map(Value::Unsigned),
            Self::Alive => thread.span.map(|span| Value::Unsigned(span.alive_ns)),
            Self::Zombie => thread.span.map(|span| span.zombie_ns).filter(|ns| *ns > 0).map(Value::Unsigned),
            Self::Exited => thread.exited_monotonic_ns.map(Value::Unsigned),
            Self::Metric(metric) => metric.get(&thread.metrics),
        }
    }

    /// Stores a value in a thread.
    ///
    /// # Errors
    /// [`Mismatch`] if the field cannot hold `value`.
    pub(super) fn set(self, thread: &mut ThreadState, value: Value<'_>) -> Result<(), Mismatch> {
        match self {
            Self::StartTime => thread.start_time_clock_ticks = Some(value.try_into()?),
            Self::ReadAt => thread.read_at_ns = Some(value.try_into()?),
            Self::Alive => thread.span.get_or_insert_default().alive_ns = value.try_into()?,
            Self::Zombie => thread.span.get_or_insert_default().zombie_ns = value.try_into()?,
            Self::Exited => thread.exited_monotonic_ns = Some(value.try_into()?),
            Self::Metric(metric) => metric.set(&mut thread.metrics, value)?,
        }
        Ok(())
    }

    /// Makes the value absent. Without its span, a thread has no time alive.
    pub(super) fn clear(self, thread: &mut ThreadState) {
        match self {
            Self::StartTime => thread.start_time_clock_ticks = None,
            Self::ReadAt => thread.read_at_ns = None,
            Self::Alive | Self::Zombie => {}
            Self::Exited => thread.exited_monotonic_ns = None,
            Self::Metric(metric) => metric.clear(&mut thread.metrics),
        }
    }
}

impl PartialEq for ValueField {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// The columns of a file. The fields of a column have the same value unless a thread's line says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::store) struct Columns(pub(super) Vec<Vec<ValueField>>);

impl Columns {
    /// Files of a newer ctprof can have some more than there are fields.
    const MAX: usize = 1024;

    pub(super) fn contains(&self, field: ValueField) -> bool {
        self.0.iter().flatten().any(|own| *own == field)
    }

    /// Adds a field to the column of a metric that mostly has the same value, or to a new column. `samples` are the values of
    /// the first field of each column, in some threads.
    pub(super) fn add_written<'t>(
        &mut self,
        field: ValueField,
        values: Vec<Option<Value<'t>>>,
        samples: &mut Vec<Vec<Option<Value<'t>>>>,
    ) {
        let is_similar = |(fields, sample): &(&mut Vec<ValueField>, &Vec<Option<Value<'_>>>)| {
            [fields[0], field].into_iter().all(ValueField::is_metric_with_numbers)
                && are_three_quarters(
                    values.iter().zip(*sample).filter(|(value, other)| value == other).count(),
                    &values,
                )
        };
        match self.0.iter_mut().zip(&*samples).find(is_similar) {
            Some((fields, _)) => fields.push(field),
            None => {
                self.0.push(vec![field]);
                samples.push(values);
            }
        }
    }

    /// The values of a thread, by column.
    pub(super) fn values<'t>(&self, thread: &'t ThreadState) -> impl Iterator<Item = Option<Value<'t>>> {
        self.0.iter().map(|fields| fields.first().and_then(|field| field.get(thread)))
    }

    /// Adds a column that was read, with the fields of it that this version knows.
    fn add_read<E: de::Error>(&mut self, names: &[String]) -> Result<(), E> {
        if self.0.len() == Self::MAX {
            return Err(E::custom(format_args!("more than {} columns", Self::MAX)));
        }
        self.0.push(Vec::new());
        for field in names.iter().filter_map(|name| ValueField::all().find(|field| field.name() == name)) {
            if self.contains(field) {
                return Err(E::custom(format_args!("`{}` is in two columns", field.name())));
            }
            self.0.last_mut().expect("the column was added").push(field);
        }
        Ok(())
    }
}

/// Whether enough threads have a value for the others to write its key.
pub(super) fn are_three_quarters<T>(number: usize, all: &[T]) -> bool {
    number * 4 >= all.len() * 3
}

impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|fields| fields.iter().map(|field| field.name()).collect::<Vec<_>>()))
    }
}

impl<'de> Deserialize<'de> for Columns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut columns = Self::default();
        for names in Vec::<Vec<String>>::deserialize(deserializer)? {
            columns.add_read(&names)?;
        }
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_lists_of_names_and_unknown_names_are_skipped() {
        let json = r#"[["read_at_ns"],["tomorrow"],["wait_time_ns","later","cpu_delay_total_ns"]]"#;
        let columns: Columns = serde_json::from_str(json).unwrap();
        let expected = r#"[["read_at_ns"],[],["wait_time_ns","cpu_delay_total_ns"]]"#;
        assert_eq!(serde_json::to_string(&columns).unwrap(), expected);
    }

    #[test]
    fn the_number_of_columns_is_bounded() {
        let error = |json: &str| serde_json::from_str::<Columns>(json).unwrap_err().to_string();
        let twice = error(r#"[["minflt"],["majflt","minflt"]]"#);
        assert!(twice.contains("`minflt` is in two columns"), "{twice}");
        let many = error(&format!("[{}[]]", "[],".repeat(Columns::MAX)));
        assert!(many.contains("more than 1024 columns"), "{many}");
    }
}
