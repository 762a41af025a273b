//! Snapshots as Parquet files, for query engines.
//!
//! ```text
//! inputs → captures → partitions (day, host) → files → threads, cgroups, captures, reasons
//! ```
//!
//! Columns are loops over the tables of metrics and of records. A file has the captures of one partition; its name
//! and its bytes depend on them only.

mod block;
mod captures;
mod cgroups;
mod chunk;
mod column;
mod dataset;
mod error;
mod identity;
mod inputs;
mod partition;
mod reasons;
mod rows;
mod schema;
mod threads;
mod tree;
mod write;

use self::{block::*, chunk::*, dataset::*, partition::*, rows::*, tree::*};
pub use self::{column::*, error::*, inputs::*, schema::*, write::*};
