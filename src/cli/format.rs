//! The formats of reports: what each shows, and its writer.

use std::io::{self, BufWriter, Write};

use anyhow::Context;
use clap::ValueEnum;

use super::args::View;
use super::output::{Stream, colour, to_stdout};
use crate::compare::{Form, Report};
use crate::report::{Selection, Terminal, Unchanged, write_csv, write_html, write_json, write_markdown, write_table};

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

    /// Whether it always has the rows that tables hide.
    fn is_for_programs(self) -> bool {
        matches!(self, Self::Csv | Self::Json)
    }

    fn write(self, out: &mut dyn Write, report: &Report, selection: &Selection, terminal: Terminal) -> io::Result<()> {
        match self {
            Self::Table => write_table(out, report, selection, terminal),
            Self::Markdown => write_markdown(out, report, selection),
            Self::Csv => write_csv(out, report, selection),
            Self::Json => write_json(out, report, selection),
            Self::Html => write_html(out, report, selection),
        }
    }
}

/// Writes a report in the selected format.
pub(super) fn write_report(stream: Stream, report: &Report, view: &View) -> anyhow::Result<()> {
    let selection = selection(view, stream);
    let terminal = Terminal { width: stream.width(), colour: colour(view.color, stream) };
    let write = |out: &mut dyn Write| view.format.write(out, report, &selection, terminal);
    match stream {
        Stream::Stdout => to_stdout(|out| write(out)),
        Stream::Stderr => {
            let mut out = BufWriter::new(io::stderr().lock());
            write(&mut out).and_then(|()| out.flush()).context("cannot write to standard error")
        }
    }
}

/// What is shown: as many groups as fit the terminal and a limited number of rows per section, or all in formats for
/// programs, unless `--limit` has another limit. 0 is none.
fn selection(view: &View, stream: Stream) -> Selection {
    let terminal = stream.terminal().filter(|_| view.format == Format::Table);
    let height = terminal.map_or(USUAL_HEIGHT, |terminal| terminal.height);
    let fitting = usize::from(height).saturating_sub(LINES_AROUND).max(FEWEST_GROUPS);
    let (limit, groups, all_rows) = match view.format {
        Format::Table => (terminal.map(|_| TERMINAL_LIMIT), Some(fitting), None),
        Format::Markdown => (Some(MARKDOWN_LIMIT), Some(fitting), None),
        Format::Html => (None, None, Some(HTML_ROWS)),
        Format::Json | Format::Csv => (None, None, None),
    };
    let given = |usual: Option<usize>| match view.limit {
        None => usual,
        limit => limit.filter(|limit| *limit > 0),
    };
    Selection {
        limit: given(limit),
        groups: given(groups),
        all_rows: all_rows.filter(|_| view.limit.is_none()),
        unchanged: if view.unchanged || view.format.is_for_programs() { Unchanged::Shown } else { Unchanged::Hidden },
        columns: view.columns.clone(),
    }
}
