//! Standard output and its properties.

use std::env;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use anyhow::Context;
use terminal_size::{Height, Width, terminal_size_of};

use super::args::{ColourWhen, Format, View};
use crate::compare::{self, Digest, NoSuchGroup, Options, show_digest};
use crate::report::{self, Colour, Column, Page, Selection, Terminal, Unchanged};

/// Default maximum of rows per section on a terminal, so that its heading stays visible.
const TERMINAL_LIMIT: usize = 50;

/// Default maximum of rows per section in Markdown, so that a page with 1,000 groups has less than 64 KiB.
const MARKDOWN_LIMIT: usize = 10;

/// Default maximum of rows of HTML: a file of about a mebibyte, which browsers open at once.
const HTML_ROWS: usize = 32_000;

/// Runs `print` on buffered standard output.
pub(super) fn to_stdout(
    print: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    print(&mut out).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Width of a terminal that does not say its size.
const USUAL_WIDTH: u16 = 80;
/// Height of a report that does not go to a terminal.
const USUAL_HEIGHT: u16 = 30;
/// Lines of a report around the groups of its overview: facts, headings, what is left out, the prompt.
const LINES_AROUND: usize = 10;
/// A small terminal shows this many groups, too.
const FEWEST_GROUPS: usize = 8;

/// The rows of a page: by default as many groups as fit the terminal and a limited number of rows per section,
/// all in formats for programs.
pub(super) fn selection(view: &View, stream: Stream) -> Selection {
    let is_for_people = !matches!(view.format, Format::Csv | Format::Json);
    let is_text = matches!(view.format, Format::Table | Format::Markdown);
    let usual = |limit: usize| Some(limit).filter(|_| is_text);
    let given = |usual| match view.limit {
        Some(0) => None,
        Some(limit) => Some(limit),
        None => usual,
    };
    let terminal = stream.terminal().filter(|_| matches!(view.format, Format::Table));
    let height = terminal.map_or(USUAL_HEIGHT, |terminal| terminal.height);
    let groups = usize::from(height).saturating_sub(LINES_AROUND).max(FEWEST_GROUPS);
    Selection {
        limit: given(match (view.format, terminal) {
            (Format::Markdown, _) => Some(MARKDOWN_LIMIT),
            (_, Some(_)) => Some(TERMINAL_LIMIT),
            _ => None,
        }),
        groups: given(usual(groups)),
        unchanged: if is_for_people { view.unchanged() } else { Unchanged::Shown },
    }
}

/// Fails if `--only` selects no group.
pub(super) fn groups_exist(unmatched: &[NoSuchGroup]) -> anyhow::Result<()> {
    unmatched.first().map_or(Ok(()), |error| Err(anyhow::Error::new(error.clone()).context("--only")))
}

/// Columns and lines.
#[derive(Clone, Copy)]
struct Size {
    width: u16,
    height: u16,
}

/// Where a report goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The size of the terminal; `None` if it is not a terminal.
    fn terminal(self) -> Option<Size> {
        let size = match self {
            Self::Stdout => terminal_size_of(io::stdout()),
            Self::Stderr => terminal_size_of(io::stderr()),
        };
        let (width, height) =
            size.map_or((USUAL_WIDTH, USUAL_HEIGHT), |(Width(width), Height(height))| (width, height));
        self.is_terminal().then_some(Size { width, height })
    }

    /// Width of the terminal; `None` if it is not a terminal.
    pub(super) fn width(self) -> Option<u16> {
        self.terminal().map(|terminal| terminal.width)
    }

    fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
        }
    }
}

/// The groups of one capture, and the tree below them if the format shows it. The digest was made with the options of
/// the tree if there is one.
pub(super) fn views(mut digest: Digest, options: &Options, view: &View) -> (compare::View, Option<compare::View>) {
    let tree = view.tree(options).map(|tree| {
        let narrowed = digest.narrowed(options.group_by);
        show_digest(std::mem::replace(&mut digest, narrowed), &tree)
    });
    (show_digest(digest, options), tree)
}

/// The page of the selected rows.
pub(super) fn selection_page<'r>(
    groups: &'r compare::View,
    tree: Option<&'r compare::View>,
    view: &View,
    stream: Stream,
) -> Page<'r> {
    let page = |groups| Page::of_view(groups, selection(view, stream));
    page(groups).with_tree(tree.map(page))
}

/// Writes a page in the selected format.
pub(super) fn write_page(stream: Stream, page: &Page<'_>, view: &View, columns: &[Column]) -> anyhow::Result<()> {
    let terminal = Terminal { width: stream.width(), colour: colour(view.color, stream) };
    let write = |out: &mut dyn Write| match view.format {
        Format::Table => report::write_table(out, page, columns, terminal),
        Format::Markdown => report::write_markdown(out, page, columns),
        Format::Csv => report::write_csv(out, page),
        Format::Json => report::write_json(out, page),
        Format::Html => report::write_html(out, page, view.limit.is_none().then_some(HTML_ROWS)),
    };
    match stream {
        Stream::Stdout => to_stdout(|out| write(out)),
        Stream::Stderr => {
            let mut out = BufWriter::new(io::stderr().lock());
            write(&mut out).and_then(|()| out.flush()).context("cannot write to standard error")
        }
    }
}

/// Whether to use color. `NO_COLOR` and `CLICOLOR_FORCE` apply if the command line does not decide.
fn colour(when: ColourWhen, stream: Stream) -> Colour {
    let value = |name| env::var_os(name).filter(|value| !value.is_empty());
    let on = match when {
        ColourWhen::Always => true,
        ColourWhen::Never => false,
        ColourWhen::Auto if value("NO_COLOR").is_some() => false,
        ColourWhen::Auto => value("CLICOLOR_FORCE").is_some_and(|value| value != "0") || stream.is_terminal(),
    };
    if on { Colour::On } else { Colour::Off }
}
