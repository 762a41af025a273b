//! The formats of reports.

use std::io::{self, Write};

use clap::ValueEnum;

use crate::compare::{Form, Report};
use crate::report::{
    DisplayOptions, Terminal, write_csv, write_folded, write_html, write_json, write_json_lines, write_markdown,
    write_table,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Table,
    Json,
    /// The rows of JSON, an object per line
    Jsonl,
    Csv,
    Markdown,
    Html,
    Folded,
    /// The steps of a series as counters, for ui.perfetto.dev
    Perfetto,
}

/// Error for an input that is not a series.
pub(super) const NO_STEPS: &str =
    "--format perfetto has the steps of a series: ctprof show FILE, or ctprof record --every";

impl Format {
    /// Whether groups have one line each, one per value, or both.
    pub(super) fn form(self, is_long: bool) -> Form {
        match self {
            Self::Html => Form::Both,
            _ if is_long => Form::Long,
            Self::Table => Form::Overview,
            _ => Form::Both,
        }
    }

    /// Whether readers choose in the report what they see: it has all sections, and the tree below the groups.
    pub(super) fn is_interactive(self) -> bool {
        self == Self::Html
    }

    pub(super) fn write(
        self,
        out: &mut dyn Write,
        report: &Report,
        selection: &DisplayOptions,
        terminal: Terminal,
    ) -> io::Result<()> {
        match self {
            Self::Table => write_table(out, report, selection, terminal),
            Self::Markdown => write_markdown(out, report, selection),
            Self::Csv => write_csv(out, report, selection),
            Self::Json => write_json(out, report, selection),
            Self::Jsonl => write_json_lines(out, report, selection),
            Self::Html => write_html(out, report, selection),
            Self::Folded => write_folded(out, report),
            Self::Perfetto => Err(io::Error::new(io::ErrorKind::Unsupported, NO_STEPS)),
        }
    }
}
