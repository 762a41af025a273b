//! Standard output, and how tables are drawn on it.

use std::env;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use anyhow::Context;

use super::args::{ColourWhen, Format, View};
use crate::report::{Colour, Column, Markup, Style};

/// Rows of a section that leave its heading on the screen.
const TERMINAL_LIMIT: usize = 50;

/// Runs `print` on buffered standard output.
pub(super) fn to_stdout(
    print: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    print(&mut out).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Columns of the terminal; `None` if standard output is none.
pub(super) fn width() -> Option<u16> {
    let stdout = io::stdout();
    stdout.is_terminal().then(|| terminal_size::terminal_size_of(stdout).map_or(80, |(width, _)| width.0))
}

/// How to draw, for a view with the given columns.
pub(super) fn style(view: &View, columns: Vec<Column>) -> Style {
    let width = width();
    let limit = match view.limit {
        Some(0) => None,
        Some(limit) => Some(limit),
        None => width.map(|_| TERMINAL_LIMIT),
    };
    let markup = if matches!(view.format, Format::Markdown) { Markup::Markdown } else { Markup::Plain };
    Style { limit, width, unchanged: view.unchanged(), columns, markup, colour: colour(view.color) }
}

/// Colour by convention: `NO_COLOR` and `CLICOLOR_FORCE` decide where the command line does not.
fn colour(when: ColourWhen) -> Colour {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let on = match when {
        ColourWhen::Always => true,
        ColourWhen::Never => false,
        ColourWhen::Auto if set("NO_COLOR") => false,
        ColourWhen::Auto => set("CLICOLOR_FORCE") || io::stdout().is_terminal(),
    };
    if on { Colour::On } else { Colour::Off }
}
