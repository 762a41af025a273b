//! The overview as lines of text: a heading, the lines of each group with why its time passes, and what is not shown.

use std::collections::HashMap;

use super::{
    DisplayOptions, Head, PivotColumn, ShownSection, Terminal, escaped, layout, overview, spaced, why, window,
};
use crate::compare::{Report, WindowSide};
use crate::model::{Section, Unit};

/// Before the first line that says why the time of a group passes.
const WHY: &str = "  why   ";

/// The overview of a report as lines.
#[derive(Debug, Default)]
pub struct OverviewLines {
    /// The heading of the table.
    pub heading: String,
    /// Rows of the table, in order.
    pub rows: Vec<RowLines>,
    /// Columns of values that have room, in order.
    pub columns: Vec<&'static str>,
    /// Headings of columns without room.
    pub left_out: Vec<String>,
    /// Columns that no group has.
    pub no_data: Vec<&'static str>,
    /// Number of groups that are not shown, because they did nothing.
    pub idle: usize,
    /// Lines below the table: what is hidden and how to see it, and notes.
    pub(super) below: Vec<String>,
}

/// A row of the overview.
#[derive(Debug)]
pub struct RowLines {
    /// The path of its group; empty for a row that only names a group above others.
    pub path: Vec<String>,
    /// The row, then why the group's time passes.
    pub lines: Vec<String>,
}

impl OverviewLines {
    /// The overview of a report; empty if it has none.
    #[must_use]
    pub fn from_report(report: &Report, selection: &DisplayOptions, terminal: Terminal) -> Self {
        let section = report.section(Section::Overview);
        section.map_or_else(Self::default, |section| {
            Self::of_section(report, &ShownSection::of_groups(section, selection), selection, terminal)
        })
    }

    pub(super) fn of_section(
        report: &Report,
        section: &ShownSection<'_>,
        selection: &DisplayOptions,
        terminal: Terminal,
    ) -> Self {
        let width = terminal.width;
        let mut pivot = overview::pivot(section, selection.users_of(report));
        report.trends.iter().for_each(|trend| pivot.add_trend(trend, section));
        if width.is_some_and(|width| pivot.width() > width.into()) {
            pivot.leave_out_zeros();
        }
        let rank = |name: &str| section.section.columns_by_share.iter().position(|column| *column == name);
        let texts: Vec<_> = pivot.columns.iter().map(PivotColumn::heading).collect();
        let head = |(place, text): (usize, _)| {
            let dispensable = pivot.columns[place].dispensable(rank);
            Head { text, shape: pivot.shape(place), dispensable }
        };
        let heads: Vec<_> = texts.iter().map(String::as_str).enumerate().map(head).collect();
        let tones: Vec<_> = pivot.outcomes.iter().map(|outcome| terminal.tone(*outcome)).collect();
        let (lines, left_out) = layout::lines(&heads, &pivot.lines, &tones, width);
        let columns = pivot.columns.iter().zip(&texts).filter_map(|(column, text)| match column {
            PivotColumn::Value(name, _) if !left_out.contains(&&**text) => Some(*name),
            _ => None,
        });
        let columns = columns.collect();
        let change = PivotColumn::Change.heading();
        let left_out: Vec<_> = left_out.into_iter().filter(|head| **head != change).map(str::to_owned).collect();
        let why: HashMap<_, _> = why::lines(report, section).into_iter().collect();
        let why = |group: usize| {
            let texts = why.get(&group).into_iter().flatten().enumerate();
            let line = |(place, text): (usize, &String)| {
                let label = if place == 0 { WHY } else { "" };
                let text = layout::folded(&escaped(text), WHY.len(), width);
                format!("{label:<width$}{text}", width = WHY.len())
            };
            texts.map(line).collect::<Vec<_>>()
        };
        let mut lines = lines.into_iter();
        let heading = lines.next().unwrap_or_default();
        let row = |(line, group): (String, &Option<usize>)| RowLines {
            path: group.map(|group| section.section.groups[group].key.clone()).unwrap_or_default(),
            lines: [line].into_iter().chain(group.map(why).into_iter().flatten()).collect(),
        };
        let rows = lines.zip(&pivot.groups).map(row).collect();
        let notes = section.section.notes.iter().map(|note| format!("note: {note}"));
        let below = [overview::footer(section, &pivot, &left_out)].into_iter().chain(notes);
        let below = below.map(|text| layout::folded(&escaped(&text), 0, width)).collect();
        Self { heading, rows, columns, left_out, no_data: pivot.no_data, idle: pivot.idle, below }
    }
}

/// `22:28:24 CEST   999 ms, 2 CPUs busy 98%; 1.96 of 1.97 CPU-seconds accounted for`, in the time zone of this host; empty without a
/// window.
#[must_use]
pub fn window_heading(report: &Report) -> String {
    let Some(WindowSide { info, .. }) = report.window() else { return String::new() };
    let time = if info.duration_ns < window::SHORT_WINDOW_NS {
        window::local_clock(info.started_at_unix_ns, "%H:%M:%S%.3f")
    } else {
        window::local_second(info)
    };
    let time = time.unwrap_or_default();
    let length = spaced(info.duration_ns.into(), Unit::Ns);
    let cpu = info.cpu.as_ref().map_or_else(String::new, |cpu| format!(", {}", window::busy(cpu, info.duration_ns)));
    format!("{time}   {length}{cpu}")
}
