//! Fills the screen with the report on a window.

use super::content::Content;
use super::state::{ScreenState, Shown, ShownColumns, View};
use crate::compare::{GroupBy, GroupGlob, Report, Scope, show, with_members_of};
use crate::diagnose::{Finding, counted};
use crate::model::{CtprofSnapshot, ExitedWork, Section};
use crate::report::{
    DisplayOptions, OverviewLines, RowLines, Terminal, UserNames, escaped, window_heading, write_table,
};

/// Columns that matter most for what to look at next.
const MAIN: [&str; 5] = ["run", "wait", "block", "sleep", "rss"];

const HELP: &str = "\
Keys
  ↑ ↓ j k PgUp PgDn Home End   select a group, or scroll; a click selects, too
  Enter   why the time of the group passes, and its threads; Esc goes back
  g G     group by another axis, or by the one before
  s S     sort by the next column, or by the one before
  /       only groups with a text in their names; * and ? stand for others
  l       all columns, or the main ones with their trends over the last minute
  ← →     the window before, or after: of the last ten minutes, or of the file
  space   hold the window, or go on; recording goes on meanwhile
  + -     longer or shorter intervals
  w       write the window to a file, for ctprof show
  q       quit

Columns are times per second of the window: 100% is one thread or CPU.
  run  running   wait  ready, without a CPU   block  waiting for I/O
  sleep  waiting for anything else   rss  resident memory
* leaves out members whose value is unknown.
A sparkline goes from 0 to the largest value of its row in the last minute.";

/// Makes the content of the screen from a window and the report on it.
pub(super) fn content(
    state: &ScreenState,
    (window, report): (&CtprofSnapshot, &Report),
    users: UserNames,
    terminal: Terminal,
) -> Content {
    let mut content = Content { title: title(state, (window, report)), ..Content::default() };
    match &state.view {
        View::Help => content.rows = text_rows(HELP),
        View::Group(path) => content.rows = text_rows(&details(path, state, window, terminal)),
        View::Groups => {
            let overview: &[_] = if state.columns == ShownColumns::Main { &MAIN } else { &[] };
            let selection =
                DisplayOptions { overview, users, shows_idle: report.names_its_groups, ..DisplayOptions::default() };
            let table = OverviewLines::from_report(report, &selection, terminal);
            let hidden = hidden(&table, state, (window, report));
            (content.heading, content.rows, content.columns) = (table.heading, table.rows, table.columns);
            content.rows.extend(text_rows(&hidden));
        }
    }
    content
}

fn text_rows(text: &str) -> Vec<RowLines> {
    text.lines().map(|line| RowLines { path: Vec::new(), lines: vec![line.to_owned()] }).collect()
}

fn title(state: &ScreenState, (window, report): (&CtprofSnapshot, &Report)) -> Vec<String> {
    let axis = clap::ValueEnum::to_possible_value(&state.axis);
    let mut parts = vec![
        report.header.as_ref().and_then(|header| header.sides.baseline.hostname.clone()).unwrap_or_default(),
        format!("by {}, {} first", axis.as_ref().map_or("", |axis| axis.get_name()), state.order()),
    ];
    parts.extend(state.only());
    parts.extend(stalled(window));
    let first = state.is_first.then(|| "first interval".to_owned());
    let held = (state.shown == Shown::Held).then(|| "held (space goes on)".to_owned());
    let mut gaps: Vec<_> = report.needed_gaps().map(Finding::extent).collect();
    gaps.dedup();
    let gaps = (!gaps.is_empty()).then(|| format!("partial   {} (ctprof doctor says why)", gaps.join(", ")));
    let heading = window_heading(report);
    let second = first.into_iter().chain(held).chain(parts).filter(|part| !part.is_empty()).collect::<Vec<_>>();
    [heading, second.join("   ")].into_iter().chain(gaps).collect()
}

/// Returns the line that names what the table does not show, and why it is empty.
fn hidden(table: &OverviewLines, state: &ScreenState, (window, report): (&CtprofSnapshot, &Report)) -> String {
    let parts = [
        (table.idle > 0).then(|| format!("{} idle", counted(table.idle, "group"))),
        (!table.left_out.is_empty()).then(|| format!("no room: {}", table.left_out.join(", "))),
        (!table.no_data.is_empty()).then(|| format!("not available: {} (ctprof doctor)", table.no_data.join(", "))),
    ];
    let scope = state.options().grouping.scope.filter(|scope| *scope != Scope::Host);
    let unmatched = scope.as_ref().and_then(|scope| scope.check(&window.head).err());
    let empty = match (unmatched.as_ref().or(report.unmatched.first()), scope) {
        _ if !table.rows.is_empty() => None,
        (Some(unmatched), _) => Some(unmatched.to_string()),
        (None, Some(scope)) if table.idle == 0 => Some(format!("no thread is in --scope {scope}")),
        _ => Some("no group ran or waited".to_owned()),
    };
    empty.into_iter().chain(parts.into_iter().flatten()).collect::<Vec<_>>().join("; ")
}

/// How much of the window some threads were stalled, by resource: `cpu 74%, memory 0%, io 1%`.
fn stalled(window: &CtprofSnapshot) -> Option<String> {
    let duration_us = window.head.window.as_ref()?.duration_ns as f64 / 1e3;
    let resources = window.head.psi.as_ref()?.resources();
    let stalled = resources.filter_map(|(name, resource)| {
        let us = u64::from(resource.some.as_ref()?.total_usec?) as f64;
        Some(format!("{name} {:.0}%", us * 100.0 / duration_us.max(1.0)))
    });
    Some(format!("stalled: {}", stalled.collect::<Vec<_>>().join(", ")))
}

/// Why the time of a group passes, and the overview of its threads.
fn details(path: &[String], state: &ScreenState, window: &CtprofSnapshot, terminal: Terminal) -> String {
    // Nothing is known of exited work: that of the group which counts it is shown.
    let is_exited = |name: &str| {
        [ExitedWork::Threads, ExitedWork::Children].iter().any(|work| name == format!("({})", work.name()))
    };
    let path = path.split_last().filter(|(name, _)| is_exited(name)).map_or(path, |(_, above)| above);
    let mut options = state.options();
    let name = path.last().map_or("", String::as_str);
    options.selection.only = GroupGlob::new(&glob::Pattern::escape(name)).into_iter().collect();
    options.selection.sections = vec![Section::Reasons];
    let mut reasons = show(window, &options);
    // Others can have the name in another place, or before that of a script.
    for section in &mut reasons.sections {
        section.rows.retain(|row| section.groups[row.group].key.starts_with(path));
    }
    let members = with_members_of(path, window, &options);
    options.grouping.axis = GroupBy::Tid;
    (options.selection.only, options.selection.sections) = (Vec::new(), vec![Section::Overview]);
    let threads = show(&members, &options);
    let selection = DisplayOptions { overview: &MAIN, shows_idle: true, ..DisplayOptions::default() };
    let mut text = Vec::new();
    write_table(&mut text, &reasons, &selection, terminal).expect("memory takes what is written");
    let reasons = String::from_utf8_lossy(&text);
    let OverviewLines { heading, rows, .. } = OverviewLines::from_report(&threads, &selection, terminal);
    let lines = rows.into_iter().flat_map(|row| row.lines);
    let threads = [heading].into_iter().chain(lines).collect::<Vec<_>>().join("\n");
    format!("{}\n\n{}\n\n{threads}", escaped(name), reasons.trim())
}
