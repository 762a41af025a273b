//! The formats of reports: what each shows by default, and its writer.

use std::io::{self, Write};

use clap::ValueEnum;

use super::output::Stream;
use crate::compare::{Form, Report};
use crate::report::{Selection, Terminal, write_csv, write_html, write_json, write_markdown, write_table};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Table,
    Json,
    Csv,
    Markdown,
    Html,
}

/// Default maximum of rows per section on a terminal, so that its heading stays visible.
const TERMINAL_LIMIT: usize = 50;

/// Default maximum of rows per section in Markdown, so that a page with 1,000 groups has less than 64 KiB.
const MARKDOWN_LIMIT: usize = 10;

/// Default maximum of rows of HTML: a file of about a mebibyte, which browsers open at once.
const HTML_ROWS: usize = 32_000;

/// Height of a report that does not go to a terminal.
const USUAL_HEIGHT: u16 = 30;
/// Lines of a report around the groups of its overview: facts, headings, what is left out, the prompt.
const LINES_AROUND: usize = 10;
/// A small terminal shows this many groups, too.
const FEWEST_GROUPS: usize = 8;

impl Format {
    /// Whether groups have one line each, one per value, or both.
    pub(super) fn form(self, is_long: bool) -> Form {
        match self {
            Self::Html => Form::Both,
            _ if is_long => Form::Long,
            Self::Table => Form::Overview,
            Self::Json | Self::Csv | Self::Markdown => Form::Both,
        }
    }

    /// Whether readers choose in the report what they see: it has all sections, and the tree below the groups.
    pub(super) fn is_interactive(self) -> bool {
        self == Self::Html
    }

    /// The default limits: as many groups as fit the terminal and a limited number of rows per section, none in formats for
    /// programs.
    pub(super) fn limits(self, stream: Stream) -> UsualLimits {
        let terminal = stream.terminal().filter(|_| self == Self::Table);
        let height = terminal.map_or(USUAL_HEIGHT, |terminal| terminal.height);
        let groups = Some(usize::from(height).saturating_sub(LINES_AROUND).max(FEWEST_GROUPS));
        match self {
            Self::Table => UsualLimits { rows: terminal.map(|_| TERMINAL_LIMIT), groups, all_rows: None },
            Self::Markdown => UsualLimits { rows: Some(MARKDOWN_LIMIT), groups, all_rows: None },
            Self::Html => UsualLimits { rows: None, groups: None, all_rows: Some(HTML_ROWS) },
            Self::Json | Self::Csv => UsualLimits { rows: None, groups: None, all_rows: None },
        }
    }

    /// Whether it always has the rows that tables hide.
    pub(super) fn is_for_programs(self) -> bool {
        matches!(self, Self::Csv | Self::Json)
    }

    /// Writes a report.
    pub(super) fn write(
        self,
        out: &mut dyn Write,
        report: &Report,
        selection: &Selection,
        terminal: Terminal,
    ) -> io::Result<()> {
        match self {
            Self::Table => write_table(out, report, selection, terminal),
            Self::Markdown => write_markdown(out, report, selection),
            Self::Csv => write_csv(out, report, selection),
            Self::Json => write_json(out, report, selection),
            Self::Html => write_html(out, report, selection),
        }
    }
}

/// Default maximums of what a report shows; `None` for all.
pub(super) struct UsualLimits {
    /// Rows per section.
    pub(super) rows: Option<usize>,
    /// Groups of the overview.
    pub(super) groups: Option<usize>,
    /// Rows of all sections together.
    pub(super) all_rows: Option<usize>,
}
