//! Standard output and its properties.

use std::env;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use anyhow::Context;
use clap::ColorChoice;
use terminal_size::{Height, Width, terminal_size_of};

use crate::compare::NoSuchGroup;
use crate::report::Colour;

/// Runs `print` on buffered standard output.
pub(super) fn to_stdout(
    print: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    print(&mut out).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Width of a terminal that does not say its size.
const USUAL_WIDTH: u16 = 80;
/// Height of a terminal that does not say its size.
const USUAL_HEIGHT: u16 = 30;

/// Fails if `--only` selects no group.
pub(super) fn groups_exist(unmatched: &[NoSuchGroup]) -> anyhow::Result<()> {
    unmatched.first().map_or(Ok(()), |error| Err(anyhow::Error::new(error.clone()).context("--only")))
}

/// Columns and lines.
#[derive(Clone, Copy)]
pub(super) struct TerminalSize {
    pub(super) width: u16,
    pub(super) height: u16,
}

/// Where a report goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// The size of the terminal; `None` if it is not a terminal.
    pub(super) fn terminal(self) -> Option<TerminalSize> {
        let size = match self {
            Self::Stdout => terminal_size_of(io::stdout()),
            Self::Stderr => terminal_size_of(io::stderr()),
        };
        let (width, height) =
            size.map_or((USUAL_WIDTH, USUAL_HEIGHT), |(Width(width), Height(height))| (width, height));
        self.is_terminal().then_some(TerminalSize { width, height })
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

/// Whether to use color. `NO_COLOR` and `CLICOLOR_FORCE` apply if the command line does not decide.
pub(super) fn colour(choice: ColorChoice, stream: Stream) -> Colour {
    let value = |name| env::var_os(name).filter(|value| !value.is_empty());
    let on = match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if value("NO_COLOR").is_some() => false,
        ColorChoice::Auto => value("CLICOLOR_FORCE").is_some_and(|value| value != "0") || stream.is_terminal(),
    };
    if on { Colour::On } else { Colour::Off }
}
