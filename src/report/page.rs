//! A report as a value: facts, sections, rows, and the number, unit and text of every cell. Each format
//! is a writer of this value.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;
use serde_json::Value;

use crate::compare::{Change, Delta, GateResult, GroupBy, Quantity, Renamed, RowRuns, Sides, Turnover, direction};
use crate::diagnose::Note;
use crate::model::{Cell, Direction, ExitedWork, Section, Unit};
use crate::statistics::Verdict;

/// Whether tables show rows that are unchanged, zero or without data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unchanged {
    /// Tables count them.
    #[default]
    Hidden,
    /// Tables show them.
    Shown,
}

/// The rows of a report that a page shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// Maximum rows per section but the overview; `None` for all.
    pub limit: Option<usize>,
    /// Maximum groups of the overview; `None` for all.
    pub groups: Option<usize>,
    /// Whether tables show rows that are unchanged, zero or without data.
    pub unchanged: Unchanged,
}

/// A value per snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Sided<T> {
    /// The value of one snapshot.
    One(T),
    /// The values of both sides of a comparison.
    Two(Sides<T>),
}

impl<T> Sided<T> {
    /// The values in order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        let (first, second) = match self {
            Self::One(value) => (value, None),
            Self::Two(Sides { baseline, candidate }) => (baseline, Some(candidate)),
        };
        [first].into_iter().chain(second)
    }
}

/// A report that can be written in any format.
#[derive(Debug)]
pub struct Page<'r> {
    /// Facts before the sections.
    pub facts: Vec<Fact>,
    /// How threads are grouped.
    pub group_by: GroupBy,
    /// The sections, in order.
    pub sections: Vec<PageSection<'r>>,
    /// Whether rows have the values of several runs.
    pub is_repeated: bool,
    /// Renamed cgroups; `None` in a report of one snapshot.
    pub renamed: Option<&'r [Renamed]>,
    /// The results of gates; `None` in a report of one snapshot.
    pub gates: Option<&'r [GateResult]>,
    /// The cgroups, processes and threads below the groups, for formats that show them.
    pub tree: Option<Box<Page<'r>>>,
}

impl<'r> Page<'r> {
    /// The page with a tree below its groups.
    #[must_use]
    pub fn with_tree(self, tree: Option<Page<'r>>) -> Self {
        Self { tree: tree.map(Box::new), ..self }
    }

    /// Whether there are enough runs for verdicts.
    pub(super) fn has_verdicts(&self) -> bool {
        self.is_repeated && self.sections.iter().flat_map(|section| &section.rows).any(|row| row.verdict().is_some())
    }
}

/// A fact before the sections: as data, and as lines of text.
#[derive(Debug)]
pub struct Fact {
    /// Its key in JSON.
    pub key: &'static str,
    /// The data.
    pub data: Value,
    /// The lines; empty for facts that only JSON has.
    pub lines: Vec<Line>,
}

/// A line before the sections.
#[derive(Debug)]
pub struct Line {
    /// The label before the text; empty if it continues the line above.
    pub label: &'static str,
    /// The text.
    pub text: String,
    /// The highlighting.
    pub tone: Tone,
}

/// The highlighting of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A fact.
    Fact,
    /// A warning.
    Warning,
}

/// A group of a section.
#[derive(Debug)]
pub struct PageGroup<'r> {
    /// The name; in a tree, the last part of the path.
    pub name: &'r str,
    /// The names from the top of the tree down to its own.
    pub path: &'r [String],
    /// Whether the kernel may have cut a name in the group.
    pub name_cut: bool,
    /// Whether its cgroup was renamed in the candidate.
    pub renamed: bool,
    /// Number of members; `None` on a side where the group does not exist.
    pub members: Sided<Option<u64>>,
    /// The kind of exited work, if it is no group of threads but exited work of the group above.
    pub exited_work: Option<ExitedWork>,
    /// In a window, how many of its threads started and exited; `None` on a side where the group does not exist.
    pub turnover: Sided<Option<Turnover>>,
    /// The share of the time since boot that its threads have existed.
    pub uptime: Sided<Option<f64>>,
}

/// One value of one group.
#[derive(Debug)]
pub struct PageRow<'r> {
    /// The section of the row.
    pub section: Section,
    /// Index of its group.
    pub group: usize,
    /// Name of the value.
    pub name: &'r str,
    /// The unit.
    pub unit: Unit,
    /// The quantity, in sections about threads.
    pub quantity: Option<Quantity>,
    /// The value.
    pub values: Sided<Option<&'r Cell>>,
    /// How many of the group's members have one; `None` on a side where the group does not exist.
    pub covered: Sided<Option<u64>>,
    /// Whether some of them lack one that should have it.
    pub partial: bool,
    /// The difference of two sides.
    pub delta: Option<&'r Delta>,
    /// The difference in percent of the baseline.
    pub percent: Option<f64>,
    /// How the sides differ.
    pub change: Option<Change>,
    /// Of several runs, the numbers of all, and what they say.
    pub runs: Option<&'r RowRuns>,
    /// Whether the group has its place in the overview of several runs because of this value.
    pub leads: bool,
}

/// Why tables hide a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// Both sides have the same value.
    Unchanged,
    /// In several runs, both sides have the same value up to the threshold.
    Same,
    /// The value is 0.
    Zero,
    /// There is no value.
    Absent,
}

impl Silence {
    /// All reasons, in display order.
    pub const ALL: [Self; 4] = [Self::Unchanged, Self::Same, Self::Zero, Self::Absent];

    /// The word after a count: "12 unchanged".
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Same => "same",
            Self::Zero => "zero",
            Self::Absent => "without data",
        }
    }
}

/// Percentages below this are shown as 0.
const LEAST_PERCENT: f64 = 0.05;

impl PageRow<'_> {
    /// Whether a larger value is worse.
    pub(super) fn direction(&self) -> Direction {
        direction(self.section, self.name, self.quantity)
    }

    /// Whether the row says nothing, or only percentages that are shown as 0.
    pub(super) fn is_next_to_nothing(&self) -> bool {
        let is_zero = |cell: &&Cell| matches!(cell, Cell::Ratio(percent) if *percent < LEAST_PERCENT);
        let are_zero = self.unit == Unit::Percent && self.values.values().flatten().all(is_zero);
        are_zero || self.silence().is_some()
    }

    /// What several runs say of the threshold.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.runs?.verdict
    }

    /// Why tables hide the row, if they do.
    #[must_use]
    pub fn silence(&self) -> Option<Silence> {
        let is_zero = |cell: &Cell| matches!(cell, Cell::Number(0) | Cell::Signed(0)) || *cell == Cell::Ratio(0.0);
        let mut values = self.values.values().flatten();
        match (self.verdict(), self.change) {
            (Some(Verdict::Same), change) if change != Some(Change::Unchanged) => return Some(Silence::Same),
            (Some(Verdict::Unclear), _) if self.values.values().flatten().all(|cell| is_zero(cell)) => {
                return Some(Silence::Zero);
            }
            (Some(Verdict::More | Verdict::Less | Verdict::Unclear), _) => return None,
            _ => {}
        }
        match self.change {
            Some(Change::Unchanged) => Some(Silence::Unchanged),
            Some(Change::Changed | Change::Incomparable) => None,
            _ if values.next().is_none() => Some(Silence::Absent),
            _ => self.values.values().flatten().all(|cell| is_zero(cell)).then_some(Silence::Zero),
        }
    }
}

/// A section.
#[derive(Debug)]
pub struct PageSection<'r> {
    /// The section.
    pub section: Section,
    /// Notes on the section, such as why it has no data.
    pub notes: &'r [Note],
    /// The groups.
    pub groups: Vec<PageGroup<'r>>,
    /// The rows in order, up to the limit of the selection, including those that tables hide.
    pub rows: Vec<PageRow<'r>>,
    /// Number of rows beyond the limit.
    pub cut: usize,
    /// Whether tables show rows that are unchanged, zero or without data.
    pub unchanged: Unchanged,
}

/// A table.
#[derive(Debug)]
pub struct List<'p, 'r> {
    /// The only side with these groups; `None` for groups on both sides.
    pub only_in: Option<Change>,
    /// The lines.
    pub lines: Vec<ListLine<'p, 'r>>,
}

/// A line of a table.
#[derive(Debug)]
pub enum ListLine<'p, 'r> {
    /// An ancestor of the groups that follow, without a row of its own.
    Ancestor {
        /// Its name.
        name: &'p str,
        /// The depth in the tree.
        depth: usize,
    },
    /// A row.
    Row(&'p PageRow<'r>),
}

impl<'r> PageSection<'r> {
    /// A section with at most `limit` visible rows, and all hidden ones.
    pub(super) fn new(
        section: Section,
        notes: &'r [Note],
        groups: Vec<PageGroup<'r>>,
        rows: impl Iterator<Item = PageRow<'r>>,
        selection: Selection,
    ) -> Self {
        if section == Section::Overview {
            return Self::overview(notes, groups, rows.collect(), selection);
        }
        let mut page = Self { section, notes, groups, rows: Vec::new(), cut: 0, unchanged: selection.unchanged };
        let mut left = selection.limit.unwrap_or(usize::MAX);
        for row in rows {
            let counted = page.unchanged == Unchanged::Shown || row.silence().is_none();
            if counted && left == 0 {
                page.cut += 1;
            } else {
                left -= usize::from(counted);
                page.rows.push(row);
            }
        }
        page
    }

    /// An overview with at most `limit` visible groups, and all hidden ones. Exited work is with its group.
    fn overview(notes: &'r [Note], groups: Vec<PageGroup<'r>>, rows: Vec<PageRow<'r>>, selection: Selection) -> Self {
        let section = Section::Overview;
        let mut page = Self { section, notes, groups, rows, cut: 0, unchanged: selection.unchanged };
        let limit = selection.groups.unwrap_or(usize::MAX);
        let shown = page.rows_of_groups().into_iter().filter(|rows| !page.is_hidden(rows));
        let groups = shown.map(|rows| &page.groups[rows[0].group]).filter(|group| group.exited_work.is_none());
        let cut: HashSet<&[String]> = groups.skip(limit).map(|group| group.path).collect();
        let is_cut = |group: &PageGroup<'_>| {
            let path = group.path;
            cut.contains(path) || (group.exited_work.is_some() && cut.contains(&path[..path.len() - 1]))
        };
        let kept: Vec<bool> = page.rows.iter().map(|row| !is_cut(&page.groups[row.group])).collect();
        page.cut = cut.len();
        let mut kept = kept.into_iter();
        page.rows.retain(|_| kept.next().unwrap_or(true));
        page
    }

    /// The rows of each group of the overview, in order.
    pub(super) fn rows_of_groups(&self) -> Vec<&[PageRow<'r>]> {
        self.rows.chunk_by(|a, b| a.group == b.group).collect()
    }

    /// Whether tables hide a group of the overview: it did nothing, or nothing else than before. Of several runs,
    /// threads that start and exit in the same way do nothing else.
    pub(super) fn is_hidden(&self, rows: &[PageRow<'r>]) -> bool {
        let group = &self.groups[rows[0].group];
        let has_verdict = rows.iter().any(|row| row.verdict().is_some());
        let turnover = group.turnover.values().flatten().any(|turnover| *turnover != Turnover::default());
        // Time asleep is not what a group did, and switches without run time are those of idle kernel threads.
        let mut rows = rows.iter().filter(|row| !matches!(row.name, "sleep" | "csw"));
        self.unchanged == Unchanged::Hidden && (has_verdict || !turnover) && rows.all(PageRow::is_next_to_nothing)
    }

    /// How many rows tables hide, by reason.
    #[must_use]
    pub fn hidden(&self) -> Vec<(Silence, usize)> {
        if self.unchanged == Unchanged::Shown {
            return Vec::new();
        }
        let count = |reason| self.rows.iter().filter(|row| row.silence() == Some(reason)).count();
        Silence::ALL.into_iter().map(|reason| (reason, count(reason))).filter(|(_, count)| *count > 0).collect()
    }

    /// The tables: groups on both sides, then groups on one side.
    #[must_use]
    pub fn lists(&self) -> Vec<List<'_, 'r>> {
        let shown = |row: &&PageRow<'r>| self.unchanged == Unchanged::Shown || row.silence().is_none();
        let list = |only_in: Option<Change>| {
            let one_sided = |change| matches!(change, Some(Change::BaselineOnly | Change::CandidateOnly));
            let of_list = |row: &&PageRow<'r>| if one_sided(row.change) { row.change } else { None } == only_in;
            List { only_in, lines: self.in_tree(self.rows.iter().filter(shown).filter(of_list).collect()) }
        };
        let lists = [None, Some(Change::BaselineOnly), Some(Change::CandidateOnly)].map(list);
        lists.into_iter().filter(|list| !list.lines.is_empty()).collect()
    }

    /// How many groups have rows in a list.
    #[must_use]
    pub fn groups_in(&self, list: &List<'_, '_>) -> usize {
        let rows = list.lines.iter().filter_map(|line| match line {
            ListLine::Row(row) => Some(row.group),
            ListLine::Ancestor { .. } => None,
        });
        rows.collect::<BTreeSet<_>>().len()
    }

    /// Rows of a tree stand below their ancestors, each of which has a line. Among siblings the order is
    /// that of their first rows.
    pub(super) fn in_tree<'p>(&'p self, mut rows: Vec<&'p PageRow<'r>>) -> Vec<ListLine<'p, 'r>> {
        if self.groups.iter().all(|group| group.path.len() < 2) {
            return rows.into_iter().map(ListLine::Row).collect();
        }
        let mut first: HashMap<&[String], usize> = HashMap::new();
        for (place, row) in rows.iter().enumerate() {
            let path = self.groups[row.group].path;
            for depth in 1..=path.len() {
                first.entry(&path[..depth]).or_insert(place);
            }
        }
        rows.sort_by_cached_key(|row| {
            let path = self.groups[row.group].path;
            (1..=path.len()).map(|depth| first[&path[..depth]]).collect::<Vec<_>>()
        });
        let mut lines = Vec::with_capacity(rows.len());
        let mut above: &[String] = &[];
        for row in rows {
            let path = self.groups[row.group].path;
            let shared = path.iter().zip(above).take_while(|(a, b)| a == b).count();
            let ancestors = path[..path.len() - 1].iter().enumerate().skip(shared);
            lines.extend(ancestors.map(|(depth, name)| ListLine::Ancestor { name, depth }));
            lines.push(ListLine::Row(row));
            above = path;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(path: &[String]) -> PageGroup<'_> {
        let members = Sided::One(Some(1));
        PageGroup {
            name: path.last().unwrap(),
            path,
            name_cut: false,
            renamed: false,
            members,
            exited_work: None,
            turnover: Sided::One(None),
            uptime: Sided::One(None),
        }
    }

    fn row(group: usize, value: Option<&Cell>) -> PageRow<'_> {
        PageRow {
            section: Section::Primary,
            group,
            name: "minflt",
            unit: Unit::Count,
            quantity: None,
            values: Sided::One(value),
            covered: Sided::One(Some(1)),
            partial: false,
            delta: None,
            percent: None,
            change: None,
            runs: None,
            leads: false,
        }
    }

    #[test]
    fn a_child_never_appears_without_its_ancestors_line() {
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let paths = [path(&["/a"]), path(&["/a", "p"]), path(&["/a", "p", "t"]), path(&["/b"]), path(&["/b", "q"])];
        let groups = || paths.iter().map(|path| group(path)).collect();
        let cell = Cell::Number(5);
        // The rows of /a, /a p and /b are hidden or cut; the others come in the order of their values.
        let rows = [4, 2].map(|group| row(group, Some(&cell)));
        let section = PageSection::new(Section::Primary, &[], groups(), rows.into_iter(), Selection::default());
        let lists = section.lists();
        let lines = lists[0].lines.iter().map(|line| match line {
            ListLine::Ancestor { name, depth } => format!("{depth} {name}"),
            ListLine::Row(row) => format!("row {}", section.groups[row.group].name),
        });
        assert_eq!(lines.collect::<Vec<_>>(), ["0 /b", "row q", "0 /a", "1 p", "row t"]);
        assert_eq!(section.groups_in(&lists[0]), 2);
    }

    #[test]
    fn the_limit_counts_rows_with_news_of_all_lists_together() {
        let (path, zero, one) = (["p".to_owned()], Cell::Number(0), Cell::Number(1));
        let sided = |change, value| PageRow { change: Some(change), ..row(0, value) };
        let rows = || {
            let news = [Change::Changed, Change::CandidateOnly, Change::BaselineOnly, Change::Changed];
            news.map(|change| sided(change, Some(&one))).into_iter().chain([
                sided(Change::CandidateOnly, Some(&zero)),
                sided(Change::Unchanged, Some(&one)),
                sided(Change::Absent, None),
            ])
        };
        let selection = Selection { limit: Some(3), ..Selection::default() };
        let section = PageSection::new(Section::Primary, &[], vec![group(&path)], rows(), selection);
        assert_eq!((section.cut, section.lists().iter().map(|list| list.lines.len()).sum::<usize>()), (1, 3));
        let hidden = [(Silence::Unchanged, 1), (Silence::Zero, 1), (Silence::Absent, 1)];
        assert_eq!(section.hidden(), hidden);
        let all = Selection { unchanged: Unchanged::Shown, ..Selection::default() };
        let section = PageSection::new(Section::Primary, &[], vec![group(&path)], rows(), all);
        assert_eq!((section.cut, section.rows.len(), section.hidden()), (0, 7, vec![]));
    }
}
