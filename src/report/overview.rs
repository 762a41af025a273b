//! The overview as a table: a line per group, a column per value.

use std::collections::HashMap;

use unicode_width::UnicodeWidthStr;

use super::{
    CORE, ColumnShape, GAP, ListLine, Outcome, ShownSection, UserNames, cell_text, indent, label, outcome, short_text,
    sparkline,
};
use crate::compare::{Group, Headline, OverviewColumn, ReportSection, Row, Trend, Turnover};
use crate::diagnose::{counted, plural};
use crate::model::Unit;
use crate::statistics::Verdict;

/// A column of the overview's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PivotColumn {
    Group,
    Threads,
    /// The user, of groups of single processes.
    User,
    /// The values of a column of the overview, in this unit.
    Value(&'static str, Unit),
    /// The trend of a value over the parts of a series, by the name of the value.
    Trend(String),
    /// Verdict of several runs on the headline of the group.
    Verdict,
    /// The largest change of the group, of single captures.
    Change,
}

impl PivotColumn {
    pub(super) fn heading(&self) -> String {
        match self {
            Self::Group => "group".to_owned(),
            Self::Threads => "threads".to_owned(),
            Self::User => "user".to_owned(),
            Self::Value(name, unit) => unit.per().map_or_else(|| (*name).to_owned(), |per| format!("{name}/{per}")),
            Self::Trend(name) => format!("{name} over time"),
            Self::Verdict => "verdict".to_owned(),
            Self::Change => "change".to_owned(),
        }
    }

    pub(super) fn shape(&self) -> ColumnShape {
        match self {
            Self::Group => ColumnShape::Name,
            Self::Verdict | Self::Change => ColumnShape::Phrase,
            Self::User | Self::Trend(_) => ColumnShape::Whole,
            Self::Threads | Self::Value(..) => ColumnShape::Number,
        }
    }

    /// Returns the order in which a narrow terminal leaves out columns, the largest number first; `None` for columns that stay.
    /// `rank` is the place of a value among the ones that matter most for the report.
    pub(super) fn dispensable(&self, rank: impl Fn(&str) -> Option<usize>) -> Option<usize> {
        match self {
            Self::Group
            | Self::Verdict
            | Self::Value("run" | "wait" | "stopped" | "traced" | "frozen" | "zombie", _) => None,
            Self::Change => Some(0),
            Self::Value("block", _) => Some(1),
            Self::Threads => Some(2),
            Self::Value("sleep", _) => Some(3),
            Self::User | Self::Trend(_) => Some(4),
            Self::Value(name, _) => rank(name).filter(|rank| *rank > 0).map(|rank| CORE + rank),
        }
    }
}

pub(super) struct Pivot {
    /// Columns for the group and its threads, then columns with data.
    pub(super) columns: Vec<PivotColumn>,
    pub(super) lines: Vec<Vec<String>>,
    /// The index of the group of each line; `None` for lines that only name a group above others.
    pub(super) groups: Vec<Option<usize>>,
    /// Outcome of each group in a comparison; none for lines above groups.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) no_data: Vec<&'static str>,
    /// Columns that are 0 or absent for every group.
    zero: Vec<&'static str>,
    /// Headings of the columns that are left out.
    left_out: Vec<String>,
    /// Number of groups that tables hide.
    pub(super) idle: usize,
}

impl Pivot {
    pub(super) fn width(&self) -> usize {
        let width = |place: usize| {
            let heading = self.columns[place].heading().width();
            let cells = || self.lines.iter().map(|line| line[place].width()).max().unwrap_or(0);
            let widest = if let ColumnShape::Count { changes, .. } = self.shape(place) { changes } else { cells() };
            widest.max(heading) + GAP
        };
        (0..self.columns.len()).map(width).sum::<usize>().saturating_sub(GAP)
    }

    /// The shape of a column of this table. Who started threads makes way for columns.
    pub(super) fn shape(&self, place: usize) -> ColumnShape {
        match &self.columns[place] {
            PivotColumn::Threads => {
                let before = |end: &str| {
                    let parts = self.lines.iter().map(|line| line[place].split(end).next().unwrap_or_default().width());
                    parts.max().unwrap_or(0)
                };
                ColumnShape::Count { number: before(" ("), changes: before(" by ") }
            }
            column => column.shape(),
        }
    }

    /// Adds a column with the trend of each group.
    pub(super) fn add_trend(&mut self, trend: &Trend, section: &ShownSection<'_>) {
        self.columns.push(PivotColumn::Trend(trend.column.clone().into_owned()));
        for (line, group) in self.lines.iter_mut().zip(&self.groups) {
            line.push(group.map_or_else(String::new, |group| sparkline(trend, &section.section.groups[group])));
        }
    }

    /// Leaves out columns of values that are all 0 or absent, to make room for others.
    pub(super) fn leave_out_zeros(&mut self) {
        let is_zero = |column: &PivotColumn| matches!(column, PivotColumn::Value(name, _) if self.zero.contains(name));
        let keep: Vec<bool> = self.columns.iter().map(|column| !is_zero(column)).collect();
        self.left_out = self.columns.iter().filter(|column| is_zero(column)).map(PivotColumn::heading).collect();
        for line in &mut self.lines {
            *line = kept(std::mem::take(line), &keep);
        }
        self.columns = kept(std::mem::take(&mut self.columns), &keep);
    }
}

fn kept<T>(all: Vec<T>, keep: &[bool]) -> Vec<T> {
    all.into_iter().zip(keep).filter_map(|(one, keep)| keep.then_some(one)).collect()
}

/// The overview as a table, with a column for the users of single processes if their names are given.
pub(super) fn pivot(section: &ShownSection<'_>, users: Option<&UserNames>) -> Pivot {
    let groups = section.rows_of_groups();
    let is_hidden = |rows: &&[&Row]| section.is_idle(rows);
    let (hidden, shown): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_hidden);
    let values =
        |column: &'static OverviewColumn| shown.iter().copied().flatten().filter(|row| row.name == column.name);
    let has_value = |row: &&Row| row.values.iter().any(Option::is_some);
    let is_shown = |name: &str| section.overview.is_empty() || section.overview.contains(&name);
    let has_rows = |column: &OverviewColumn| section.rows.iter().any(|row| row.name == column.name);
    let is_selected = |column: &&'static OverviewColumn| is_shown(column.name) && has_rows(column);
    let (columns, missing): (Vec<_>, Vec<_>) =
        OverviewColumn::of_groups().filter(is_selected).partition(|column| values(column).any(has_value));
    // `ctprof doctor` cannot help where a column is in every kernel.
    let is_had = |column: &&OverviewColumn| {
        column.is_in_every_kernel()
            || hidden.iter().copied().flatten().any(|row| row.name == column.name && has_value(row))
    };
    let value_column = |column: &&'static OverviewColumn| {
        PivotColumn::Value(column.name, values(column).next().map_or(Unit::None, |row| row.unit))
    };
    let are_zero = |column: &&&'static OverviewColumn| values(column).all(|row| row.is_shown_as_zero());
    let users = users.filter(|_| shown.iter().any(|rows| user(section.group(rows[0]), None) != "-"));
    let leading = [PivotColumn::Group, PivotColumn::Threads].into_iter().chain(users.map(|_| PivotColumn::User));
    let has_verdicts = section.rows.iter().any(|row| row.verdict().is_some());
    let has_changes = !section.section.headlines.is_empty();
    let last = if has_verdicts { Some(PivotColumn::Verdict) } else { has_changes.then_some(PivotColumn::Change) };
    let table_columns: Vec<_> = leading.chain(columns.iter().map(value_column)).chain(last.clone()).collect();
    let by_group: HashMap<usize, &[&Row]> = shown.iter().map(|rows| (rows[0].group, *rows)).collect();
    let (mut lines, mut groups, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for line in section.in_tree(shown.iter().map(|rows| rows[0]).collect()) {
        let (group, outcome, cells) = match line {
            ListLine::Ancestor { name, depth } => {
                let mut cells = vec![String::new(); table_columns.len()];
                cells[0] = format!("{}{name}", indent(depth));
                (None, Outcome::Neither, cells)
            }
            ListLine::Row(row) => {
                let (rows, group) = (by_group[&row.group], section.group(row));
                let outcome = of_headline(section.section, row).map_or(Outcome::Neither, |(row, of)| outcome(row, of));
                let leading = cells(group).into_iter().chain(users.map(|users| user(group, Some(users))));
                let values = columns.iter().map(|column| {
                    rows.iter().find(|row| row.name == column.name).map_or_else(String::new, |row| value(row))
                });
                (
                    Some(row.group),
                    outcome,
                    leading.chain(values).chain(last.iter().map(|_| group_change(section.section, row))).collect(),
                )
            }
        };
        lines.push(cells);
        groups.push(group);
        outcomes.push(outcome);
    }
    Pivot {
        columns: table_columns,
        lines,
        groups,
        outcomes,
        zero: columns.iter().filter(are_zero).map(|column| column.name).collect(),
        left_out: Vec::new(),
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

/// The value that stands for the group of a row, and why.
pub(super) fn of_headline<'r>(section: &'r ReportSection, row: &Row) -> Option<(&'r Row, Headline)> {
    let leader = section.headlines.get(&row.group)?;
    Some((leader, leader.headline?))
}

/// The verdict on the value that stands for the group, without verdicts its change: `run: 9.8% worse`. Of a group that only one
/// side has, the value: `new: run 26%`. Empty for groups that take too little CPU time.
pub(super) fn group_change(section: &ReportSection, row: &Row) -> String {
    let Some((leader, headline)) = of_headline(section, row) else { return String::new() };
    let is_unclear = leader.verdict() == Some(Verdict::Unclear);
    let Some(word) = only_side(&section.groups[row.group]).filter(|_| !is_unclear) else {
        return short_text(leader, headline);
    };
    let value = if word == NEW { leader.values.of_candidate() } else { leader.values.baseline.as_ref() };
    format!("{word}: {} {}", leader.name, cell_text(value, leader.unit))
}

const NEW: &str = "new";

/// `new` or `gone`, if only one side of a comparison has the group.
pub(super) fn only_side(group: &Group) -> Option<&'static str> {
    match group.members().both()? {
        (None, Some(_)) => Some(NEW),
        (Some(_), None) => Some("gone"),
        _ => None,
    }
}

/// Returns a value, or the values of both sides, with a mark if some members lack it.
fn value(row: &Row) -> String {
    let mark = if row.partial && row.values.iter().any(Option::is_some) { "*" } else { "" };
    format!("{}{mark}", sides(row.values.iter().map(|cell| cell_text(cell.as_ref(), row.unit))))
}

/// A thread with this share of the run time of its group is said to be hot.
const HOT: f64 = 0.8;

/// Returns how many threads there are, whether one thread does most, how many are zombies, and how many started and exited: `7, 1
/// hot, 2 zombies (+2 −1)`.
pub(super) fn threads(group: &Group) -> String {
    let members =
        sides(group.members().iter().map(|members| members.map_or("-".to_owned(), |members| members.to_string())));
    let is_hot =
        group.of_members(|members| members.hottest).into_iter().last().flatten().is_some_and(|share| share >= HOT);
    let zombies = group.of_members(|members| Some(members.zombies)).into_iter().last().flatten().unwrap_or(0);
    let zombies = if zombies > 0 { format!(", {}", counted(zombies, "zombie")) } else { String::new() };
    let members = format!("{members}{}{zombies}", if is_hot { ", 1 hot" } else { "" });
    let Some(Turnover { started, exited }) = group.turnover().into_iter().last().flatten() else { return members };
    let changes = [(started, '+'), (exited, '−')].into_iter().filter(|(count, _)| *count > 0);
    let changes: Vec<_> = changes.map(|(count, sign)| format!("{sign}{count}")).collect();
    if changes.is_empty() {
        return members;
    }
    let by = match group.parents().into_iter().last().unwrap_or_default() {
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

/// Returns the line on what tables of text do not show, and how to see it.
pub(super) fn footer(section: &ShownSection<'_>, pivot: &Pivot, left_out: &[String]) -> String {
    let narrow = (!left_out.is_empty()).then(|| format!("hidden (terminal too narrow): {}", left_out.join(", ")));
    let parts = hidden(section, pivot).into_iter().chain(narrow).chain(["every metric: --long".to_owned()]);
    parts.collect::<Vec<_>>().join("; ")
}

/// How many groups are not shown, and the columns without data.
pub(super) fn hidden(section: &ShownSection<'_>, pivot: &Pivot) -> Option<String> {
    let cut = Some(section.cut).filter(|cut| *cut > 0);
    let idle = Some(pivot.idle).filter(|idle| *idle > 0);
    let has_verdicts = pivot.columns.contains(&PivotColumn::Verdict);
    let or_same = if has_verdicts { " or unchanged" } else { "" };
    let parts = [
        cut.map(|cut| format!("{cut} more {}, {} (--limit 0)", plural(cut, "group"), section.section.order)),
        idle.map(|idle| format!("{idle} idle{or_same} {} hidden (--unchanged)", plural(idle, "group"))),
        (!pivot.left_out.is_empty()).then(|| format!("zero everywhere: {}", pivot.left_out.join(", "))),
        (!pivot.no_data.is_empty())
            .then(|| format!("not available: {} (ctprof doctor on the host)", pivot.no_data.join(", "))),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}
