//! Values as JSON: each under its key, or all values of a thread in one list, in the order of the columns.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::column::{Columns, ValueField};
use crate::model::{ThreadState, Value};

/// The values of a thread, in the order of the columns.
pub(super) struct ValueRow<'s> {
    pub(super) columns: &'s Columns,
    pub(super) thread: &'s ThreadState,
}

impl Serialize for ValueRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.columns.values(self.thread))
    }
}

/// Reads the values of a thread, in the order of the columns.
pub(super) struct RowSeed<'r> {
    pub(super) columns: &'r Columns,
    pub(super) thread: &'r mut ThreadState,
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for fields in &self.columns.0 {
            if seq.next_element_seed(ColumnSeed { fields, thread: &mut *self.thread })?.is_none() {
                return Ok(());
            }
        }
        match seq.next_element::<IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(de::Error::custom("more values than columns")),
        }
    }
}

/// A value to store in all fields of a column.
struct ColumnSeed<'v> {
    fields: &'v [ValueField],
    thread: &'v mut ThreadState,
}

impl<'de> DeserializeSeed<'de> for ColumnSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { fields, thread } = self;
        let Some((first, others)) = fields.split_first() else {
            return IgnoredAny::deserialize(deserializer).map(drop);
        };
        deserializer.deserialize_any(ValueSeed { field: *first, thread })?;
        if others.is_empty() {
            return Ok(());
        }
        // Only numbers are shared: copies of a long text would take much time.
        let number = match first.get(thread) {
            Some(value @ (Value::Unsigned(_) | Value::Signed(_))) => Some(value.into_owned()),
            _ => None,
        };
        for field in others {
            // A number that does not fit is not that of this field, which then has its own key.
            if number.clone().is_none_or(|number| field.set(thread, number).is_err()) {
                field.clear(thread);
            }
        }
        Ok(())
    }
}

/// A value to store in its field; null makes it absent.
pub(super) struct ValueSeed<'v> {
    pub(super) field: ValueField,
    pub(super) thread: &'v mut ThreadState,
}

impl ValueSeed<'_> {
    fn value<E: de::Error>(self, value: Value<'_>) -> Result<(), E> {
        self.field.set(self.thread, value).map_err(E::custom)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a string, true or false, or a list of CPU numbers")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.field.clear(self.thread);
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        self.value(Value::Unsigned(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<(), E> {
        self.value(Value::Signed(number))
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<(), E> {
        self.value(Value::Flag(flag))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.value(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut cpus = Vec::new();
        while let Some(cpu) = seq.next_element()? {
            cpus.push(cpu);
        }
        self.value(Value::Cpus(Cow::Owned(cpus)))
    }
}

#[cfg(test)]
mod tests {
    use crate::model::CtprofSnapshot;

    #[test]
    fn a_number_is_the_value_of_all_fields_of_its_column_that_the_thread_does_not_name() {
        let json = r#"{"usual":{"columns":[["minflt"],["wait_time_ns","cpu_delay_total_ns"]]},"threads":[
            {"tid":1,"tgid":1,"values":[7,41]},{"tid":2,"tgid":1,"values":[7,9],"cpu_delay_total_ns":null},
            {"tid":3,"tgid":1,"values":[7]},{"tid":4,"tgid":1,"values":[7,null],"cpu_delay_total_ns":5}]}"#;
        let threads = serde_json::from_str::<CtprofSnapshot>(json).unwrap().threads;
        let waits = threads.iter().map(|thread| &thread.metrics);
        let waits: Vec<_> = waits
            .map(|metrics| (metrics.wait_time_ns.map(u64::from), metrics.cpu_delay_total_ns.map(u64::from)))
            .collect();
        assert_eq!(waits, [(Some(41), Some(41)), (Some(9), None), (None, None), (None, Some(5))]);
    }

    #[test]
    fn a_text_is_the_value_of_the_first_field_only() {
        let json = r#"{"usual":{"columns":[["policy","state"]]},"threads":[{"tid":1,"tgid":1,"values":["S"]}]}"#;
        let thread = serde_json::from_str::<CtprofSnapshot>(json).unwrap().threads.remove(0);
        assert_eq!((thread.metrics.policy.unwrap().0.as_ref(), thread.metrics.state), ("S", None));
    }
}
