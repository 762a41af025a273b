//! Standard output, and how tables are drawn on it.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use anyhow::Context;

use super::args::View;
use crate::report::Style;

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

pub(super) fn style(view: &View) -> Style {
    let width = width();
    let limit = match view.limit {
        Some(0) => None,
        Some(limit) => Some(limit),
        None => width.map(|_| TERMINAL_LIMIT),
    };
    Style { limit, width, unchanged: view.unchanged() }
}
