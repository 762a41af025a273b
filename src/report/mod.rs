//! Writes reports. Each format is a writer of the same value.

mod capture;
mod columns;
mod csv;
mod escape;
mod fact_line;
mod facts;
mod folded;
mod gates;
mod html;
mod json;
mod layout;
mod markdown;
mod metrics;
mod overview;
mod scale;
mod selection;
mod sparkline;
mod steps;
mod table;
mod trace;
mod verdict;
mod why;
mod window;

pub(crate) use self::capture::{capture_summary, findings_json, findings_table, record_summary, series_summary};
pub use self::columns::Column;
pub use self::csv::write_csv;
pub use self::escape::escaped;
pub use self::folded::write_folded;
pub use self::gates::write_gate_lines;
pub use self::html::write_html;
pub use self::json::{write_json, write_json_lines};
pub use self::markdown::write_markdown;
pub(crate) use self::metrics::{metrics_json, metrics_markdown, metrics_table};
pub use self::selection::{Selection, UserNames};
pub use self::steps::{write_step, write_step_csv};
pub use self::table::{Terminal, write_table};
pub use self::trace::TraceWriter;

/// The JSON Schema of reports and listings: a definition for each output.
pub const JSON_SCHEMA: &str = include_str!("schema.json");

/// Version of the JSON of reports.
pub const REPORT_FORMAT_VERSION: u32 = 3;
