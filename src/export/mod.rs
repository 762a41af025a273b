//! Snapshots as Parquet files, for query engines.
//!
//! ```text
//! inputs → captures → partitions (day, host) → files → threads, cgroups, captures
//! ```
//!
//! Columns are loops over the tables of metrics and of records. A file has the captures of one partition; its name
//! and its bytes depend on them only. Threads are written while they are read: memory is bounded by one row group.

mod block;
mod captures;
mod cgroups;
mod chunk;
mod column;
mod dataset;
mod error;
mod files;
mod identity;
mod inputs;
mod partition;
mod rows;
mod schema;
mod threads;
mod tree;
mod write;

pub use self::column::{ColumnDoc, ColumnType};
pub use self::error::ExportError;
pub use self::inputs::Options;
pub use self::schema::{DATASETS, DatasetDoc};
pub use self::write::{Exported, Output, export};
