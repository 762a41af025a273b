//! The columns of tables, and their cells.

use super::{cell_text, delta_text, interval_text, percent_text, verdict_text};
use crate::compare::{Delta, Group, Quantity, Report, Row, Sides};
use crate::model::{Cell, Section, named};

named! {
    /// A column of a table.
    pub enum Column {
        /// The group's name.
        Group = "group",
        /// How many members the group has.
        Threads = "threads",
        /// The process id, of groups of one process.
        Pid = "pid",
        /// Name of the value.
        Metric = "metric",
        /// The baseline's value.
        Baseline = "baseline",
        /// The candidate's value.
        Candidate = "candidate",
        /// Difference between the sides.
        Delta = "delta",
        /// The difference in percent of the baseline.
        Percent = "%",
        /// The 95 % interval of the change of several runs, in percent.
        Interval = "interval",
        /// Relation of the interval to the threshold.
        Verdict = "verdict",
        /// The value, in reports of one snapshot.
        Value = "value",
        /// Kernel options and scheduling class that the value depends on.
        Tags = "tags",
        /// How many members have a value, if not all have one.
        Coverage = "coverage",
        /// The share of the time since boot that the group's threads have existed.
        Uptime = "uptime",
    }
}

impl Column {
    pub(super) fn defaults(report: &Report) -> &'static [Self] {
        use Column::*;
        match report.is_comparison() {
            false => &[Group, Threads, Metric, Value],
            true if report.has_verdicts() => &[Group, Metric, Baseline, Candidate, Percent, Interval, Verdict],
            true => &[Group, Threads, Metric, Baseline, Candidate, Delta, Percent],
        }
    }

    /// The column of that name; `percent` is `%`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = if name == "percent" { "%" } else { name };
        Self::ALL.iter().copied().find(|column| column.name() == name)
    }

    /// Whether a report of one snapshot has this column.
    #[must_use]
    pub fn is_of_views(self) -> bool {
        !matches!(self, Self::Baseline | Self::Candidate | Self::Delta | Self::Percent | Self::Interval | Self::Verdict)
    }

    pub(super) fn heading(self, section: Section) -> &'static str {
        match self {
            Self::Group if section.is_of_cgroups() => "cgroup",
            Self::Threads if section.is_of_cgroups() => "cgroups",
            Self::Threads if section == Section::SmapsRollup => "processes",
            Self::Threads if !has_members(section) => "",
            other => other.name(),
        }
    }

    pub(super) fn is_numeric(self) -> bool {
        !matches!(self, Self::Group | Self::Metric | Self::Verdict | Self::Tags)
    }

    pub(super) fn text(self, group: &Group, row: &Row) -> String {
        match self {
            Self::Group => label(group),
            Self::Threads if !has_members(row.section) => String::new(),
            Self::Threads => sided_text(&group.members(), ToString::to_string),
            Self::Pid => pid(group),
            Self::Metric => format!("{}{}", row.name, if row.partial { "*" } else { "" }),
            Self::Baseline | Self::Value => cell_text(row.values.baseline.as_ref(), row.unit),
            Self::Candidate => cell_text(row.values.of_candidate(), row.unit),
            Self::Delta => delta_text(row.delta().as_ref(), row.unit),
            Self::Percent => percent_text(row.percent()),
            Self::Interval => interval_text(row.runs.as_deref()),
            Self::Verdict => verdict_text(row),
            Self::Tags => row.quantity.map(Quantity::tags).unwrap_or_default().join(" "),
            Self::Coverage => coverage(group, row),
            Self::Uptime => {
                sided_text(&group.of_members(|members| members.uptime), |share| format!("{:.1}%", share * 100.0))
            }
        }
    }
}

pub(super) fn decimals(number: f64) -> String {
    format!("{number:.6}")
}

/// The digits of a number, not scaled, if the cell is one.
pub(super) fn cell_digits(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Number(number) | Cell::AtLeast { at_least: number } => Some(number.to_string()),
        Cell::Signed(number) => Some(number.to_string()),
        Cell::Ratio(ratio) => Some(decimals(*ratio)),
        _ => None,
    }
}

/// The digits of a difference, not scaled, if it is one of numbers.
pub(super) fn delta_digits(delta: &Delta) -> Option<String> {
    match delta {
        Delta::Number(number) => Some(number.to_string()),
        Delta::Points(points) => Some(decimals(*points)),
        _ => None,
    }
}

/// The process id, if the group is one process, and the same on both sides.
pub(super) fn pid(group: &Group) -> String {
    let mut pids: Vec<_> = group.of_members(|members| members.pid).into_iter().flatten().collect();
    pids.dedup();
    match pids[..] {
        [pid] => pid.to_string(),
        _ => String::new(),
    }
}

/// Whether groups of a section can have more than one member.
fn has_members(section: Section) -> bool {
    section.is_of_threads() || section.is_of_cgroups() || matches!(section, Section::SmapsRollup | Section::Reasons)
}

/// The group's name, indented by its depth in the tree: with `≈` before it if its cgroup was renamed,
/// with `…` after it if the kernel may have cut it, and with the number of its cgroups if these are several.
pub(super) fn label(group: &Group) -> String {
    let (renamed, cut) = (if group.renamed { "≈ " } else { "" }, if group.name_cut() { "…" } else { "" });
    let cgroups = group.cgroups.filter(|count| *count > 1).map(|count| format!(" ({count} cgroups)"));
    let indent = indent(group.key.len().saturating_sub(1));
    format!("{indent}{renamed}{}{cut}{}", group.label, cgroups.unwrap_or_default())
}

/// The indentation of a name at that depth of a tree.
pub(super) fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

/// How many members have a value, if not all have one.
fn coverage(group: &Group, row: &Row) -> String {
    if !row.partial {
        return String::new();
    }
    let texts = row.covered.zip(group.members()).map(|(covered, members)| Some(format!("{}/{}", covered?, members?)));
    sided_text(&texts, String::clone)
}

/// A value of both sides: once if both are equal or only one has it.
fn sided_text<T>(values: &Sides<Option<T>>, text: impl Fn(&T) -> String) -> String {
    let mut texts: Vec<_> = values.iter().flatten().map(text).collect();
    texts.dedup();
    if texts.is_empty() { "-".to_owned() } else { texts.join("→") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_is_a_name_of_its_column_too() {
        assert_eq!(Column::named("percent"), Some(Column::Percent));
        assert_eq!(Column::named("%"), Some(Column::Percent));
        assert!(Column::ALL.iter().all(|column| Column::named(column.name()) == Some(*column)));
        assert_eq!(Column::named("percentage"), None);
    }

    #[test]
    fn both_sides_are_one_text_where_they_agree() {
        let text = |baseline, candidate| sided_text(&Sides::two(baseline, candidate), u64::to_string);
        assert_eq!(text(Some(3), Some(3)), "3");
        assert_eq!(text(Some(3), Some(4)), "3→4");
        assert_eq!((text(None, Some(4)), text(None, None)), ("4".to_owned(), "-".to_owned()));
    }

    #[test]
    fn members_are_called_what_they_are_and_not_at_all_where_each_group_is_one() {
        let headings = |section| [Column::Group, Column::Threads, Column::Metric].map(|column| column.heading(section));
        assert_eq!(headings(Section::Primary), ["group", "threads", "metric"]);
        assert_eq!(headings(Section::Reasons), ["group", "threads", "metric"]);
        assert_eq!(headings(Section::CgroupStats), ["cgroup", "cgroups", "metric"]);
        assert_eq!(headings(Section::SmapsRollup), ["group", "processes", "metric"]);
        assert_eq!([Section::HostPressure, Section::Capture].map(headings), [["group", "", "metric"]; 2]);
    }

    #[test]
    fn numbers_are_aligned_by_their_digits_and_words_by_their_beginning() {
        use Column::{Baseline, Delta, Group, Interval, Metric, Tags, Threads, Value, Verdict};
        assert_eq!([Baseline, Delta, Interval, Threads, Value].map(Column::is_numeric), [true; 5]);
        assert_eq!([Group, Metric, Tags, Verdict].map(Column::is_numeric), [false; 4]);
    }

    #[test]
    fn only_differences_of_numbers_have_digits() {
        let deltas = [Delta::Number(-1500), Delta::Points(0.25), Delta::Same, Delta::Range { min: 1, max: 2 }];
        let digits = deltas.map(|delta| delta_digits(&delta));
        assert_eq!(digits, [Some("-1500".to_owned()), Some("0.250000".to_owned()), None, None]);
    }
}
