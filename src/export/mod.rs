//! Snapshots as Parquet files, for query engines.
//!
//! ```text
//! inputs → captures → days → files → threads, cgroups, reasons, captures
//! ```
//!
//! Columns are loops over the tables of metrics and of records. A file has the captures of one day and one call; its name
//! and its bytes depend on them only. No file is opened again: compaction is the work of engines.

mod captures;
mod cgroups;
mod chunk;
mod column;
mod dataset;
mod error;
mod identity;
mod inputs;
mod leaf;
mod reasons;
mod rows;
mod schema;
mod threads;
mod tree;
mod write;

use self::{chunk::*, dataset::*, leaf::*, rows::*, tree::*};
pub use self::{column::*, error::*, inputs::*, schema::*, write::*};
