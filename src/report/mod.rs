//! From computed values to text. Nothing here computes: what is shown is in the value given.

mod capture;
mod columns;
mod compare;
mod csv;
mod escape;
mod findings;
mod json;
mod metrics;
mod scale;
mod show;
mod table;

pub use self::capture::{Captured, capture_summary};
pub use self::compare::comparison;
pub use self::csv::{comparison_csv, view_csv};
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

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Column {
    /// The group's name.
    Group,
    /// How many members the group has.
    Threads,
    /// The reading's name.
    Metric,
    /// The baseline's reading.
    Baseline,
    /// The candidate's reading.
    Candidate,
    /// The difference.
    Delta,
    /// The difference in percent of the baseline.
    Percent,
    /// The reading, where there is one side only.
    Value,
    /// Kernel options and scheduling class that the reading depends on.
    Tags,
    /// How many of the group's threads have the reading, where not all have.
    Coverage,
    /// The share of the time since boot that the group's threads have lived.
    Uptime,
}

/// What tables are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Markup {
    /// Text for a terminal.
    #[default]
    Plain,
    /// GitHub's Markdown.
    Markdown,
}

/// Whether headings stand out by terminal escapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// They don't.
    #[default]
    Off,
    /// They do.
    On,
}

/// How a table is drawn.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// Most rows a section; `None` for all.
    pub limit: Option<usize>,
    /// Columns of the terminal; `None` where the output is none.
    pub width: Option<u16>,
    /// Whether rows that say nothing are shown.
    pub unchanged: Unchanged,
    /// The columns to show; empty for the usual ones.
    pub columns: Vec<Column>,
    /// What tables are written in.
    pub markup: Markup,
    /// Whether headings stand out.
    pub colour: Colour,
}

impl Style {
    fn columns(&self, usual: &'static [Column]) -> &[Column] {
        if self.columns.is_empty() { usual } else { &self.columns }
    }

    fn strong(&self, text: &str) -> String {
        self.escape("1", text)
    }

    fn warning(&self, text: &str) -> String {
        self.escape("33", text)
    }

    /// Select Graphic Rendition of ECMA-48.
    fn escape(&self, code: &str, text: &str) -> String {
        if self.colour == Colour::On { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
