//! The overview as a table: a line per group, a column per value.

use std::collections::HashMap;

use unicode_width::UnicodeWidthStr;

use super::{
    GAP, ListLine, Outcome, ShownSection, UserNames, cell_text, indent, label, outcome, short_text, sparkline,
};
use crate::compare::{Group, Headline, OverviewColumn, Row, Trend, Turnover};
use crate::diagnose::plural;
use crate::model::Unit;

pub(super) struct Pivot {
    /// The headings: group, threads, then those of the columns with data.
    pub(super) heads: Vec<String>,
    pub(super) lines: Vec<Vec<String>>,
    /// The index of the group of each line; `None` for lines that only name a group above others.
    pub(super) groups: Vec<Option<usize>>,
    /// What became of the groups in a comparison, or of the lines above groups: nothing.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) no_data: Vec<&'static str>,
    /// Headings of columns that are left out because they are 0 for every group.
    pub(super) zeros: Vec<String>,
    /// Number of groups that tables hide.
    pub(super) idle: usize,
}

impl Pivot {
    pub(super) fn width(&self) -> usize {
        let width = |place: usize| {
            let cells = self.lines.iter().map(|line| &line[place]).chain([&self.heads[place]]);
            cells.map(|text| text.width() + GAP).max().unwrap_or(0)
        };
        (0..self.heads.len()).map(width).sum::<usize>().saturating_sub(GAP)
    }

    /// Adds a column with the course of the values of each group.
    pub(super) fn add_trend(&mut self, trend: &Trend, section: &ShownSection<'_>) {
        self.heads.push(format!("{} over time", trend.column));
        for (line, group) in self.lines.iter_mut().zip(&self.groups) {
            line.push(group.map_or_else(String::new, |group| sparkline(trend, &section.section.groups[group])));
        }
    }

    /// Leaves out columns of values that are all 0 or absent, to make room for others.
    pub(super) fn leave_out_zeros(&mut self) {
        let says_nothing = |text: &String| matches!(text.as_str(), "" | "-" | "0" | "0%" | "0B" | "0ns");
        let keep: Vec<bool> = (0..self.heads.len())
            .map(|place| {
                place < 2 || self.heads[place] == USER || !self.lines.iter().all(|line| says_nothing(&line[place]))
            })
            .collect();
        let zeros = self.heads.iter().zip(&keep).filter(|(_, keep)| !**keep).map(|(head, _)| head.clone());
        self.zeros = zeros.collect();
        for line in self.lines.iter_mut().chain([&mut self.heads]) {
            let mut kept = keep.iter();
            line.retain(|_| *kept.next().unwrap_or(&true));
        }
    }
}

/// The overview as a table, with a column for the users of single processes if their names are given.
pub(super) fn pivot(section: &ShownSection<'_>, users: Option<&UserNames>) -> Pivot {
    let groups = section.rows_of_groups();
    let is_hidden = |rows: &&[&Row]| section.is_idle(rows);
    let (hidden, shown): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_hidden);
    let values =
        |column: &'static OverviewColumn| shown.iter().copied().flatten().filter(|row| row.name == column.name);
    let has_value = |row: &&Row| row.values.iter().any(Option::is_some);
    let is_selected = |column: &&'static OverviewColumn| section.rows.iter().any(|row| row.name == column.name);
    let (columns, missing): (Vec<_>, Vec<_>) =
        OverviewColumn::of_groups().filter(is_selected).partition(|column| values(column).any(has_value));
    // `ctprof doctor` cannot help where a column is in every kernel.
    let is_had = |column: &&OverviewColumn| {
        column.is_in_every_kernel()
            || hidden.iter().copied().flatten().any(|row| row.name == column.name && has_value(row))
    };
    let heading = |column: &&'static OverviewColumn| {
        let per_second = |unit| matches!(unit, Unit::CountPerSecond | Unit::BytesPerSecond);
        let is_rate = values(column).next().is_some_and(|row| per_second(row.unit));
        format!("{}{}", column.name, if is_rate { "/s" } else { "" })
    };
    let users = users.filter(|_| shown.iter().any(|rows| user(section.group(rows[0]), None) != "-"));
    let heads = ["group", "threads"].into_iter().chain(users.map(|_| USER)).map(str::to_owned);
    let leading = heads.clone().count();
    let has_verdicts = section.rows.iter().any(|row| row.verdict().is_some());
    let has_changes = section.rows.iter().any(|row| row.headline.is_some());
    let last = if has_verdicts { Some(VERDICT) } else { has_changes.then_some(CHANGE) };
    let by_group: HashMap<usize, &[&Row]> = shown.iter().map(|rows| (rows[0].group, *rows)).collect();
    let (mut lines, mut groups, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for line in section.in_tree(shown.iter().map(|rows| rows[0]).collect()) {
        let (group, outcome, cells) = match line {
            ListLine::Ancestor { name, depth } => {
                let mut cells = vec![String::new(); leading + columns.len() + last.iter().len()];
                cells[0] = format!("{}{name}", indent(depth));
                (None, Outcome::Neither, cells)
            }
            ListLine::Row(row) => {
                let (rows, group) = (by_group[&row.group], section.group(row));
                let outcome = of_headline(rows).map_or(Outcome::Neither, |(row, of)| outcome(row, of));
                let leading = cells(group).into_iter().chain(users.map(|users| user(group, Some(users))));
                let values = columns.iter().map(|column| {
                    rows.iter().find(|row| row.name == column.name).map_or_else(String::new, |row| value(row))
                });
                (Some(row.group), outcome, leading.chain(values).chain(last.map(|_| group_change(rows))).collect())
            }
        };
        lines.push(cells);
        groups.push(group);
        outcomes.push(outcome);
    }
    Pivot {
        heads: heads.chain(columns.iter().map(heading)).chain(last.map(str::to_owned)).collect(),
        lines,
        groups,
        outcomes,
        zeros: Vec::new(),
        no_data: missing.into_iter().filter(|column| !is_had(column)).map(|column| column.name).collect(),
        idle: hidden.iter().filter(|rows| section.group(rows[0]).exited_work().is_none()).count(),
    }
}

fn cells(group: &Group) -> [String; 2] {
    [label(group), if group.exited_work().is_some() { String::new() } else { threads(group) }]
}

/// The user of a group of one process: the name if it is known, else the id.
fn user(group: &Group, names: Option<&UserNames>) -> String {
    let name = |euid: Option<u32>| {
        let euid = euid?;
        Some(names.and_then(|names| names.get(&euid).cloned()).unwrap_or_else(|| euid.to_string()))
    };
    sides(group.of_members(|members| members.euid).into_iter().map(|euid| name(euid).unwrap_or_else(|| "-".to_owned())))
}

pub(super) const VERDICT: &str = "verdict";
pub(super) const USER: &str = "user";

/// The column of a comparison without verdicts that has the largest change of each group.
pub(super) const CHANGE: &str = "change";

/// The value that stands for a group, and why.
pub(super) fn of_headline<'r>(rows: &[&'r Row]) -> Option<(&'r Row, Headline)> {
    rows.iter().find_map(|row| Some((*row, row.headline?)))
}

/// The verdict on the value that stands for the group, without verdicts its change; empty for groups that take too little
/// CPU time.
pub(super) fn group_change(rows: &[&Row]) -> String {
    of_headline(rows).map(|(row, headline)| short_text(row, headline)).unwrap_or_default()
}

/// A value, or those of both sides, with a mark if some members lack it.
fn value(row: &Row) -> String {
    let mark = if row.partial && row.values.iter().any(Option::is_some) { "*" } else { "" };
    format!("{}{mark}", sides(row.values.iter().map(|cell| cell_text(cell.as_ref(), row.unit))))
}

/// A thread with this share of the run time of its group is said to be hot.
const HOT: f64 = 0.8;

/// How many threads there are, whether one of them does most, and how many started and exited: `7, 1 hot (+2 −1)`.
fn threads(group: &Group) -> String {
    let members =
        sides(group.members().iter().map(|members| members.map_or("-".to_owned(), |members| members.to_string())));
    let is_hot =
        group.of_members(|members| members.hottest).into_iter().last().flatten().is_some_and(|share| share >= HOT);
    let members = format!("{members}{}", if is_hot { ", 1 hot" } else { "" });
    let Some(Turnover { started, exited }) = group.turnover().into_iter().last().flatten() else { return members };
    let changes = [(started, '+'), (exited, '−')].into_iter().filter(|(count, _)| *count > 0);
    let changes: Vec<_> = changes.map(|(count, sign)| format!("{sign}{count}")).collect();
    if changes.is_empty() {
        return members;
    }
    let parents = group.parents.as_ref().into_iter().last();
    let by = match parents.map_or(&[][..], |parents| &parents[..]) {
        [] => String::new(),
        [(parent, _)] => format!(" by {parent}"),
        [(parent, _), ..] => format!(" by {parent}, …"),
    };
    format!("{members} ({}){by}", changes.join(" "))
}

/// The texts of both sides, or one text if they are equal.
fn sides(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<_> = texts.collect();
    texts.dedup();
    texts.join(" → ")
}

/// What tables of text do not show, and how to see it.
pub(super) fn footer(section: &ShownSection<'_>, pivot: &Pivot, left_out: &[&str]) -> String {
    let narrow = (!left_out.is_empty()).then(|| format!("hidden (terminal too narrow): {}", left_out.join(", ")));
    let parts = hidden(section, pivot).into_iter().chain(narrow).chain(["every metric: --long".to_owned()]);
    parts.collect::<Vec<_>>().join("; ")
}

/// How many groups are not shown, and the columns without data.
pub(super) fn hidden(section: &ShownSection<'_>, pivot: &Pivot) -> Option<String> {
    let cut = Some(section.cut).filter(|cut| *cut > 0);
    let idle = Some(pivot.idle).filter(|idle| *idle > 0);
    let has_verdicts = pivot.heads.last().is_some_and(|head| head == VERDICT);
    let or_same = if has_verdicts { " or unchanged" } else { "" };
    let parts = [
        cut.map(|cut| format!("{cut} more {}, {} (--limit 0)", plural(cut, "group"), section.section.order)),
        idle.map(|idle| format!("{idle} idle{or_same} {} hidden (--unchanged)", plural(idle, "group"))),
        (!pivot.zeros.is_empty()).then(|| format!("zero everywhere: {}", pivot.zeros.join(", "))),
        (!pivot.no_data.is_empty())
            .then(|| format!("not available: {} (ctprof doctor on the host)", pivot.no_data.join(", "))),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}
