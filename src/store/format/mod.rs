//! The format of snapshots: JSON in which threads leave out what most of them have, and values have columns. Also reads
//! the files of ktstr.

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
