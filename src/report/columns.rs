//! The columns of tables, and their cells.

use super::page::{Page, PageGroup, PageRow, Sided};
use super::scale::{cell_text, delta_text, percent_text};
use super::verdict::{interval_text, verdict_text};
use crate::compare::{Delta, Quantity, Sides};
use crate::model::{Cell, Section, Unit};

macro_rules! columns {
    ($($(#[doc = $doc:literal])+ $column:ident = $name:literal;)+) => {
        /// A column of a table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Column { $($(#[doc = $doc])+ $column,)+ }

        impl Column {
            /// Every column.
            pub const ALL: &'static [Self] = &[$(Self::$column,)+];

            /// The column's name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$column => $name,)+ }
            }
        }
    };
}

columns! {
    /// The group's name.
    Group = "group";
    /// How many members the group has.
    Threads = "threads";
    /// Name of the value.
    Metric = "metric";
    /// The baseline's value.
    Baseline = "baseline";
    /// The candidate's value.
    Candidate = "candidate";
    /// The difference.
    Delta = "delta";
    /// The difference in percent of the baseline.
    Percent = "%";
    /// The 95 % interval of the change of several runs, in percent.
    Interval = "interval";
    /// What the interval says of the threshold.
    Verdict = "verdict";
    /// The value, in reports of one snapshot.
    Value = "value";
    /// Kernel options and scheduling class that the value depends on.
    Tags = "tags";
    /// How many members have a value, if not all have one.
    Coverage = "coverage";
    /// The share of the time since boot that the group's threads have existed.
    Uptime = "uptime";
}

/// An exact number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Integer(i128),
    /// A quotient.
    Real(f64),
}

/// The cell of a row in a column.
#[derive(Clone, Debug, PartialEq)]
pub struct PageCell {
    /// The number, if the cell is one.
    pub number: Option<Number>,
    /// The unit of the number.
    pub unit: Unit,
    /// The text in tables.
    pub text: String,
}

impl PageCell {
    fn text(text: String) -> Self {
        Self { number: None, unit: Unit::None, text }
    }
}

impl Column {
    /// Default columns of a comparison.
    pub const COMPARISON: &'static [Self] =
        &[Self::Group, Self::Threads, Self::Metric, Self::Baseline, Self::Candidate, Self::Delta, Self::Percent];

    /// Default columns of a comparison of several runs.
    pub const VERDICTS: &'static [Self] =
        &[Self::Group, Self::Metric, Self::Baseline, Self::Candidate, Self::Percent, Self::Interval, Self::Verdict];

    /// Default columns of one snapshot.
    pub const VIEW: &'static [Self] = &[Self::Group, Self::Threads, Self::Metric, Self::Value];

    /// The default columns of a page.
    pub(super) fn usual(page: &Page<'_>) -> &'static [Self] {
        match page.renamed {
            None => Self::VIEW,
            Some(_) if page.has_verdicts() => Self::VERDICTS,
            Some(_) => Self::COMPARISON,
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

    /// Its heading above the rows of a section.
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

    /// The cell of a row.
    #[must_use]
    pub fn cell(self, group: &PageGroup<'_>, row: &PageRow<'_>) -> PageCell {
        let side = |place: usize| value_cell(row.values.values().nth(place).copied().flatten(), row.unit);
        match self {
            Self::Group => PageCell::text(label(group)),
            Self::Threads if !has_members(row.section) => PageCell::text(String::new()),
            Self::Threads => PageCell::text(sided_text(&group.members, ToString::to_string)),
            Self::Metric => PageCell::text(format!("{}{}", row.name, if row.partial { "*" } else { "" })),
            Self::Baseline | Self::Value => side(0),
            Self::Candidate => side(1),
            Self::Delta => PageCell {
                number: row.delta.and_then(delta_number),
                unit: row.unit,
                text: delta_text(row.delta, row.unit),
            },
            Self::Percent => {
                PageCell { number: row.percent.map(Number::Real), unit: Unit::None, text: percent_text(row.percent) }
            }
            Self::Interval => PageCell::text(interval_text(row.runs)),
            Self::Verdict => PageCell::text(verdict_text(row)),
            Self::Tags => PageCell::text(row.quantity.map(Quantity::tags).unwrap_or_default().join(" ")),
            Self::Coverage => PageCell::text(coverage(group, row)),
            Self::Uptime => PageCell::text(sided_text(&group.uptime, |share| format!("{:.1}%", share * 100.0))),
        }
    }
}

fn value_cell(cell: Option<&Cell>, unit: Unit) -> PageCell {
    PageCell { number: cell.and_then(cell_number), unit, text: cell_text(cell, unit) }
}

fn cell_number(cell: &Cell) -> Option<Number> {
    match cell {
        Cell::Number(number) => Some(Number::Integer((*number).into())),
        Cell::Signed(number) => Some(Number::Integer((*number).into())),
        Cell::Range { min, max } if min == max => Some(Number::Integer((*min).into())),
        Cell::Ratio(ratio) => Some(Number::Real(*ratio)),
        _ => None,
    }
}

fn delta_number(delta: &Delta) -> Option<Number> {
    match delta {
        Delta::Number(number) => Some(Number::Integer(*number)),
        Delta::Points(points) => Some(Number::Real(*points)),
        Delta::Range { min, max } if min == max => Some(Number::Integer((*min).into())),
        _ => None,
    }
}

/// Whether groups of a section can have more than one member.
fn has_members(section: Section) -> bool {
    section.is_of_threads() || section.is_of_cgroups() || section == Section::SmapsRollup
}

/// The group's name, indented by its depth in the tree: with `≈` before it if its cgroup was renamed,
/// and with `…` after it if the kernel may have cut it.
pub(super) fn label(group: &PageGroup<'_>) -> String {
    let (renamed, cut) = (if group.renamed { "≈ " } else { "" }, if group.name_cut { "…" } else { "" });
    format!("{}{renamed}{}{cut}", indent(group.path.len().saturating_sub(1)), group.name)
}

/// The indentation of a name at that depth of a tree.
pub(super) fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

/// How many members have a value, if not all have one.
fn coverage(group: &PageGroup<'_>, row: &PageRow<'_>) -> String {
    if !row.partial {
        return String::new();
    }
    let text = |covered: Option<u64>, members: Option<u64>| Some(format!("{}/{}", covered?, members?));
    let texts = match (&row.covered, &group.members) {
        (Sided::Two(covered), Sided::Two(members)) => Sided::Two(Sides {
            baseline: text(covered.baseline, members.baseline),
            candidate: text(covered.candidate, members.candidate),
        }),
        (Sided::One(covered), Sided::One(members)) => Sided::One(text(*covered, *members)),
        _ => Sided::One(None),
    };
    sided_text(&texts, String::clone)
}

/// A value of both sides: once if both are equal or only one has it.
fn sided_text<T>(values: &Sided<Option<T>>, text: impl Fn(&T) -> String) -> String {
    let mut texts: Vec<_> = values.values().flatten().map(text).collect();
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
        let text = |baseline, candidate| sided_text(&Sided::Two(Sides { baseline, candidate }), u64::to_string);
        assert_eq!(text(Some(3), Some(3)), "3");
        assert_eq!(text(Some(3), Some(4)), "3→4");
        assert_eq!((text(None, Some(4)), text(None, None)), ("4".to_owned(), "-".to_owned()));
    }
}
