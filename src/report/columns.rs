//! The columns of tables, and what stands in them.

use super::Column;
use super::scale::{cell, delta, percent};
use crate::compare::{Row, Sides, Table};
use crate::model::Section;

impl Column {
    /// Columns of a comparison, where none are asked for.
    pub const COMPARISON: &'static [Self] =
        &[Self::Group, Self::Threads, Self::Metric, Self::Baseline, Self::Candidate, Self::Delta, Self::Percent];

    /// Columns of one snapshot, where none are asked for.
    pub const VIEW: &'static [Self] = &[Self::Group, Self::Threads, Self::Metric, Self::Value];

    /// Every column.
    pub const ALL: &'static [Self] = &[
        Self::Group,
        Self::Threads,
        Self::Metric,
        Self::Baseline,
        Self::Candidate,
        Self::Delta,
        Self::Percent,
        Self::Value,
        Self::Tags,
        Self::Coverage,
        Self::Uptime,
    ];

    /// The column's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Threads => "threads",
            Self::Metric => "metric",
            Self::Baseline => "baseline",
            Self::Candidate => "candidate",
            Self::Delta => "delta",
            Self::Percent => "%",
            Self::Value => "value",
            Self::Tags => "tags",
            Self::Coverage => "coverage",
            Self::Uptime => "uptime",
        }
    }

    /// Whether a report on one snapshot has it; a comparison has all others.
    #[must_use]
    pub fn is_of_views(self) -> bool {
        !matches!(self, Self::Baseline | Self::Candidate | Self::Delta | Self::Percent)
    }

    /// Its heading above the rows of a section.
    pub(super) fn heading(self, section: Section) -> &'static str {
        match self {
            Self::Group if section.is_of_cgroups() => "cgroup",
            Self::Threads if section.is_of_cgroups() => "cgroups",
            Self::Threads if section == Section::SmapsRollup => "processes",
            Self::Threads if !has_threads(section) => "",
            other => other.name(),
        }
    }

    pub(super) fn is_numeric(self) -> bool {
        !matches!(self, Self::Group | Self::Metric | Self::Tags)
    }

    /// What stands in it in a row.
    pub(super) fn text(self, table: &Table, row: &Row) -> String {
        let group = &table.groups[row.group];
        let side = |value| cell(value, row.unit);
        match self {
            Self::Group => label(table, row),
            Self::Threads => members(table, row),
            Self::Metric => format!("{}{}", row.name, if row.partial { "*" } else { "" }),
            Self::Baseline => side(row.values.baseline.as_ref()),
            Self::Candidate => side(row.values.candidate.as_ref()),
            Self::Value => side(row.values.baseline.as_ref().or(row.values.candidate.as_ref())),
            Self::Delta => delta(row.delta.as_ref(), row.unit),
            Self::Percent => percent(row.percent),
            Self::Tags => row.tags.join(" "),
            Self::Coverage => coverage(table, row),
            Self::Uptime => sided(group.uptime, |share| format!("{:.1}%", share * 100.0)),
        }
    }
}

fn has_threads(section: Section) -> bool {
    matches!(section, Section::Primary | Section::TaskstatsDelay | Section::Derived)
}

/// The group's name: `≈` in front where its cgroup has another name now, `…` behind where the kernel
/// may have cut it; further in the deeper it is in a tree.
fn label(table: &Table, row: &Row) -> String {
    let group = &table.groups[row.group];
    let indent = "  ".repeat(group.path.len().saturating_sub(1));
    let (renamed, cut) = (if group.renamed { "≈ " } else { "" }, if group.name_cut { "…" } else { "" });
    format!("{indent}{renamed}{}{cut}", group.name)
}

/// How many members the group has.
fn members(table: &Table, row: &Row) -> String {
    let section = table.section;
    if !has_threads(section) && !section.is_of_cgroups() && section != Section::SmapsRollup {
        return String::new();
    }
    sided(table.groups[row.group].members, |members| members.to_string())
}

/// How many of the group's threads have the reading, where not all have.
fn coverage(table: &Table, row: &Row) -> String {
    if !row.partial {
        return String::new();
    }
    let Sides { baseline, candidate } = table.groups[row.group].members;
    let of = |covered: u64, members: Option<u64>| members.map(|members| format!("{covered}/{members}"));
    let texts = Sides { baseline: of(row.covered.baseline, baseline), candidate: of(row.covered.candidate, candidate) };
    sided(texts, |text| text)
}

/// A value of both sides: once where they agree or only one has it.
fn sided<T: PartialEq>(values: Sides<Option<T>>, text: impl Fn(T) -> String) -> String {
    let Sides { baseline, candidate } = values.map(|value| value.map(&text));
    match (baseline, candidate) {
        (Some(a), Some(b)) if a != b => format!("{a}→{b}"),
        (a, b) => a.or(b).unwrap_or_else(|| "-".to_owned()),
    }
}
