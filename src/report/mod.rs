//! Writes reports. Each format is a writer of the same value.

mod capture;
mod columns;
mod csv;
mod escape;
mod fact_line;
mod facts;
mod folded;
mod gates;
#[cfg(feature = "cli")]
mod html;
mod json;
mod layout;
mod markdown;
mod metrics;
mod overview;
mod overview_lines;
mod scale;
mod selection;
mod sparkline;
mod steps;
mod table;
mod terminal;
mod trace;
mod verdict;
mod why;
mod window;

#[cfg(feature = "cli")]
pub use self::html::*;
pub(crate) use self::{capture::*, facts::ended_early_text, metrics::*};
pub use self::{
    columns::*, csv::*, escape::*, folded::*, gates::*, json::*, markdown::*, overview_lines::*, selection::*,
    steps::*, table::*, terminal::*, trace::*,
};
use self::{fact_line::*, facts::*, layout::*, overview::*, scale::*, sparkline::*, verdict::*};

/// The JSON Schema of reports and listings: a definition for each output.
pub const JSON_SCHEMA: &str = include_str!("schema.json");

/// Version of the JSON of reports.
pub const REPORT_FORMAT_VERSION: u32 = 3;
