//! The format of snapshots: JSON in which threads leave out common values, and other values have columns. Also reads the files of
//! ktstr.

mod column;
mod defaults;
mod ktstr;
mod reader;
mod row;
mod thread;
mod writer;

pub(super) use self::defaults::Defaults;
pub(super) use self::reader::{SnapshotContent, SnapshotReader};
pub(super) use self::thread::ThreadReader;
pub(super) use self::writer::SnapshotWriter;

use serde::de::{DeserializeSeed, Deserializer, Visitor};

/// Lets a visitor read a part of a snapshot, of the type that the JSON has.
struct VisitAny<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for VisitAny<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_any(self.0)
    }
}
