//! Reports on standard output or standard error.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ColorChoice;
use nix::unistd::User;
use terminal_size::{Height, Width, terminal_size_of};

use super::{Format, ViewArgs, usage_error};
use crate::compare::{GroupBy, NoSuchGroup, Report};
use crate::model::sorted::CollectSorted;
use crate::process::check_stdout;
use crate::report::{DisplayOptions, Terminal, UserNames};
use crate::store::{OutputTarget, PartPath};

/// Runs `print` on buffered standard output.
pub(super) fn to_stdout(
    print: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    check_stdout().and_then(|()| print(&mut out)).and_then(|()| out.flush()).context(Stream::Stdout.failure())
}

/// Width of a terminal that does not say its size.
const USUAL_WIDTH: u16 = 80;
/// Height of a terminal that does not say its size, and of a report that does not go to a terminal.
const USUAL_HEIGHT: u16 = 30;

/// Fails if the named groups do not exist, and warns of each name that matches none.
pub(super) fn groups_exist(unmatched: &[NoSuchGroup], view: &ViewArgs) -> anyhow::Result<()> {
    match unmatched {
        [error, ..] if unmatched.len() == view.named_groups().count() => {
            Err(anyhow::Error::new(error.clone()).context(option_of(error, view)))
        }
        some => {
            warn_of_groups(some, view);
            Ok(())
        }
    }
}

/// Warns of each name of groups that matches none.
pub(super) fn warn_of_groups(unmatched: &[NoSuchGroup], view: &ViewArgs) {
    unmatched.iter().for_each(|error| tracing::warn!("{}: {error}", option_of(error, view)));
}

/// The option that names the groups.
fn option_of(error: &NoSuchGroup, view: &ViewArgs) -> &'static str {
    if view.only.iter().any(|glob| error.is_about(glob)) { "--only" } else { "--why" }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Columns and lines of the terminal; `None` if it is not a terminal.
    fn terminal(self) -> Option<(u16, u16)> {
        let (is_terminal, size) = match self {
            Self::Stdout => (io::stdout().is_terminal(), terminal_size_of(io::stdout())),
            Self::Stderr => (io::stderr().is_terminal(), terminal_size_of(io::stderr())),
        };
        let (Width(width), Height(height)) = size.unwrap_or((Width(USUAL_WIDTH), Height(USUAL_HEIGHT)));
        is_terminal.then_some((width, height))
    }

    pub(super) fn failure(self) -> &'static str {
        match self {
            Self::Stdout => "cannot write to standard output",
            Self::Stderr => "cannot write to standard error",
        }
    }

    /// Another descriptor of the stream, to which a thread writes without its lock.
    pub(super) fn duplicate(self) -> io::Result<File> {
        let duplicate = match self {
            Self::Stdout => io::stdout().as_fd().try_clone_to_owned(),
            Self::Stderr => io::stderr().as_fd().try_clone_to_owned(),
        };
        duplicate.map(File::from)
    }

    /// Returns the width of the output: `COLUMNS`, else the terminal's; `None` without either.
    pub(super) fn width(self) -> Option<u16> {
        let chosen = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
        chosen.or_else(|| self.terminal().map(|(width, _)| width))
    }
}

/// Whether to use color. `NO_COLOR` and `CLICOLOR_FORCE` apply if the command line does not decide.
pub(super) fn has_color(choice: ColorChoice, stream: Stream) -> bool {
    let value = |name| env::var_os(name).filter(|value| !value.is_empty());
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if value("NO_COLOR").is_some() => false,
        ColorChoice::Auto => value("CLICOLOR_FORCE").is_some_and(|value| value != "0") || stream.terminal().is_some(),
    }
}

/// Default maximum of rows per section on a terminal, so that its heading stays visible.
const TERMINAL_LIMIT: usize = 50;

/// Default maximum of rows per section in Markdown, so that a page with 1,000 groups has less than 64 KiB.
const MARKDOWN_LIMIT: usize = 10;

/// Default maximum of rows of HTML: a file of about a mebibyte, which browsers open at once.
const HTML_ROWS: usize = 32_000;

/// Lines of a report around the groups of its overview: facts, headings, what is left out, the prompt.
const LINES_AROUND: usize = 10;
/// Most lines on reasons: two for each of eight groups.
const MOST_REASONS: usize = 16;
/// Number of groups that waited or were blocked most, which a short screen has besides the leading groups.
const VICTIMS: usize = 3;
/// A small terminal shows this many groups, too.
const FEWEST_GROUPS: usize = 8;

pub(super) fn write_report(stream: Stream, report: &Report, view: &ViewArgs) -> anyhow::Result<()> {
    report.too_large.map_or(Ok(()), Err)?;
    let selection = selection(view, stream, report);
    if view.format == Format::Folded && report.rows().all(|(_, row)| row.reason.is_none()) {
        tracing::warn!("no reasons to print: only windows that `ctprof record` wrote without --no-why have them");
    }
    write_to(stream, view, |out, terminal| view.format.write(out, report, &selection, terminal))
}

/// Opens the files of `--export`, so that a file that cannot be written is an error before anything is recorded or read. None of
/// them replaces another file of the command. Standard input that is read for the printed report cannot be read again.
pub(super) fn check_exports(view: &ViewArgs, others: &[&Path]) -> anyhow::Result<()> {
    if !view.export.is_empty() && others.contains(&Path::new("-")) {
        return Err(usage_error("--export needs a file that can be read twice, not standard input"));
    }
    let named = others.iter().filter_map(|path| PartPath::parse(path).ok());
    let mut used: BTreeSet<_> = named.filter_map(|part| place_of(&part.file)).collect();
    for (_, file) in &view.export {
        let target = OutputTarget::create(file)?;
        if target.is_replacing() && place_of(file).is_some_and(|place| !used.insert(place)) {
            let problem = format!("--export would replace {}, which this command reads or writes", file.display());
            return Err(usage_error(format!("{problem}; name another file")));
        }
    }
    Ok(())
}

/// The name of a file in its directory, however the directory was written.
fn place_of(file: &Path) -> Option<PathBuf> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(directory.canonicalize().ok()?.join(file.file_name()?))
}

/// Writes to the file of a view, or to a stream, with what is known of its terminal.
pub(super) fn write_to(
    stream: Stream,
    view: &ViewArgs,
    write: impl FnOnce(&mut dyn Write, Terminal) -> io::Result<()>,
) -> anyhow::Result<()> {
    if let Some(path) = &view.file {
        let written = OutputTarget::create(path)?.write_with(|file| {
            let mut out = BufWriter::new(file);
            write(&mut out, Terminal { width: None, has_color: false }).and_then(|()| out.flush())
        });
        return written.map_err(Into::into);
    }
    let terminal = terminal(stream, view);
    match stream {
        Stream::Stdout => to_stdout(|out| write(out, terminal)),
        Stream::Stderr => {
            let mut out = BufWriter::new(io::stderr().lock());
            write(&mut out, terminal).and_then(|()| out.flush()).context(stream.failure())
        }
    }
}

/// Returns the width and the colors of the terminal of a stream.
pub(super) fn terminal(stream: Stream, view: &ViewArgs) -> Terminal {
    Terminal { width: stream.width(), has_color: has_color(view.color, stream) }
}

/// Returns the selection to show: as many groups as fit the terminal and a limited number of rows per section, or all in formats
/// for programs, unless `--limit` has another limit; 0 is none. Lines on reasons take the place of groups.
pub(super) fn selection(view: &ViewArgs, stream: Stream, report: &Report) -> DisplayOptions {
    let terminal = stream.terminal().filter(|_| view.format == Format::Table && view.file.is_none());
    let height = terminal.map_or(USUAL_HEIGHT, |(_, height)| height);
    let reasons = if terminal.is_some() { report.why.len().min(MOST_REASONS) } else { 0 };
    let fitting = usize::from(height).saturating_sub(LINES_AROUND + reasons).max(FEWEST_GROUPS);
    let (limit, groups, all_rows) = match view.format {
        Format::Table => (terminal.map(|_| TERMINAL_LIMIT), Some(fitting), None),
        Format::Markdown => (Some(MARKDOWN_LIMIT), Some(fitting), None),
        Format::Html => (None, None, Some(HTML_ROWS)),
        _ => (None, None, None),
    };
    let given = |default_limit: Option<usize>| match view.limit {
        None => default_limit,
        limit => limit.filter(|limit| *limit > 0),
    };
    DisplayOptions {
        limit: given(limit),
        groups: given(groups),
        victims: if view.has_usual_order() { VICTIMS } else { 0 },
        all_rows: all_rows.filter(|_| view.limit.is_none()),
        overview: &[],
        // Formats for programs always have the rows that tables hide.
        shows_unchanged: view.unchanged || matches!(view.format, Format::Csv | Format::Json | Format::Jsonl),
        shows_idle: report.names_its_groups,
        columns: view.table_columns(),
        users: users(report),
    }
}

/// Returns the names of the users of single processes, if they are users of this host: elsewhere, an id can be another user's.
pub(super) fn users(report: &Report) -> UserNames {
    let Some(header) = report.header.as_ref().filter(|_| report.group_by == GroupBy::Pid) else {
        return UserNames::new();
    };
    let own = ["hostname", "random/boot_id"].map(|name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok());
    let is_same = |(field, own): (&str, &Option<String>)| {
        let differs = header.differences.iter().flatten().any(|difference| difference.field == field);
        let found = header.host.iter().find(|(name, _)| name == field).map(|(_, value)| value.as_str());
        !differs && found.is_some() && found == own.as_deref().map(str::trim_end)
    };
    if !["hostname", "boot_id"].into_iter().zip(&own).all(is_same) {
        return UserNames::new();
    }
    let name = |euid: u32| Some((euid, User::from_uid(euid.into()).ok()??.name));
    report.euids().into_iter().filter_map(name).into_map()
}
