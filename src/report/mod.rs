//! From computed values to text. Nothing here computes: what is shown is in the value given.

mod capture;
mod compare;
mod escape;
mod findings;
mod json;
mod metrics;
mod scale;
mod show;
mod table;

pub use self::capture::capture_summary;
pub use self::compare::comparison;
pub use self::escape::escaped;
pub use self::findings::{findings_json, findings_table};
pub use self::json::{comparison_json, view_json};
pub use self::metrics::{metrics_json, metrics_markdown, metrics_table};
pub use self::show::view;

/// Version of the JSON that reports are written in.
pub const REPORT_FORMAT_VERSION: u32 = 1;

/// Whether rows that say nothing are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unchanged {
    /// They are counted.
    #[default]
    Hidden,
    /// They are rows like others.
    Shown,
}

/// How a table is drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Most rows a section; `None` for all.
    pub limit: Option<usize>,
    /// Columns of the terminal; `None` where the output is none.
    pub width: Option<u16>,
    /// Whether rows that say nothing are shown.
    pub unchanged: Unchanged,
}
