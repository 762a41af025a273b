//! Tables: the groups of a section and their rows, one per group and value, for one side or two.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use super::delta::{self, Change, Delta};
use super::entry::{Entry, Population, SideGroup, SideSection};
use super::judge::{Judge, RowRuns};
use super::quantity::Quantity;
use super::rank;
use super::select::SortKey;
use super::sides::{Sides, joined};
use crate::diagnose::Note;
use crate::model::{Cell, Section, Unit};
use crate::statistics::Verdict;

/// One section of a report.
#[derive(Debug)]
#[non_exhaustive]
pub struct Table<P, R> {
    /// The section.
    pub section: Section,
    /// The groups, in the order of their paths.
    pub groups: Vec<Group<P>>,
    /// The values of all groups, in display order.
    pub rows: Vec<R>,
    /// Notes on the section, such as why it has no data.
    pub notes: Vec<Note>,
}

/// A section of a comparison.
pub type ComparisonTable = Table<Sides<Option<Population>>, Row>;

/// A section of one snapshot.
pub type ViewTable = Table<Population, ViewRow>;

/// A group of a section.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Group<P> {
    /// The name or pattern; in a tree, the last part.
    pub name: String,
    /// The names from the top of the tree down to its own.
    pub path: Vec<String>,
    /// Whether the kernel may have cut a name in the group, so that different threads are one group.
    pub name_cut: bool,
    /// Whether its cgroup was renamed in the candidate.
    pub renamed: bool,
    /// The members; `None` on a side where the group does not exist.
    pub population: P,
}

/// One value of one group.
#[derive(Debug)]
#[non_exhaustive]
pub struct ViewRow {
    /// Index of the group.
    pub group: usize,
    /// Name of the value.
    pub name: Cow<'static, str>,
    /// The unit.
    pub unit: Unit,
    /// The quantity, in sections about threads.
    pub quantity: Option<Quantity>,
    /// The value, if any member has one.
    pub value: Option<Cell>,
    /// How many members of the group have a value.
    pub covered: u64,
    /// Whether some members lack a value that they should have.
    pub partial: bool,
}

/// One value of one group, on both sides.
#[derive(Debug)]
#[non_exhaustive]
pub struct Row {
    /// Index of the group.
    pub group: usize,
    /// Name of the value.
    pub name: Cow<'static, str>,
    /// The unit.
    pub unit: Unit,
    /// The quantity, in sections about threads.
    pub quantity: Option<Quantity>,
    /// The group's values.
    pub values: Sides<Option<Cell>>,
    /// How many of the group's members have one; `None` on a side where the group does not exist.
    pub covered: Sides<Option<u64>>,
    /// Whether some of them lack one that should have it.
    pub partial: bool,
    /// The difference, if both sides have a value.
    pub delta: Option<Delta>,
    /// The difference in percent of the baseline.
    pub percent: Option<f64>,
    /// How the sides differ; of several runs, how their medians differ.
    pub change: Change,
    /// Of several runs, the numbers of all, and what they say.
    pub runs: Option<Box<RowRuns>>,
    /// Whether the group has its place in the overview of several runs because of this value.
    pub leads: bool,
    /// How much the row changed, for the order of rows.
    score: f64,
}

impl Row {
    fn new(
        group: usize,
        mut entries: Sides<Option<Entry>>,
        exists: Sides<bool>,
        judge: Option<&Judge>,
    ) -> Option<Self> {
        let runs = judge.and_then(|judge| judge.row(&mut entries));
        let covered = |entry: &Option<Entry>| entry.as_ref().map_or(0, |entry| entry.covered);
        let covered = Sides {
            baseline: exists.baseline.then(|| covered(&entries.baseline)),
            candidate: exists.candidate.then(|| covered(&entries.candidate)),
        };
        let partial = entries.as_ref().into_iter().flatten().any(|entry| entry.partial);
        let known = entries.baseline.as_ref().or(entries.candidate.as_ref())?;
        let (name, unit, quantity) = (known.name.clone(), known.unit, known.quantity);
        let values = entries.map(|entry| entry.and_then(|entry| entry.cell));
        let delta = match &values {
            Sides { baseline: Some(a), candidate: Some(b) } => Delta::between(a, b),
            _ => None,
        };
        let percent = values.baseline.as_ref().zip(delta.as_ref());
        let percent = percent.and_then(|(baseline, delta)| delta::percent(unit, baseline, delta));
        let change = Change::new(&values, delta.as_ref(), exists);
        let score = rank::score(quantity, unit, values.as_ref().map(Option::as_ref));
        let leads = false;
        Some(Self { group, name, unit, quantity, values, covered, partial, delta, percent, change, runs, leads, score })
    }

    /// What several runs say of the threshold.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.runs.as_ref().and_then(|runs| runs.verdict)
    }
}

/// Rows that belong to a group.
pub(super) trait OfGroup {
    /// Index of the group.
    fn group(&self) -> usize;
}

impl OfGroup for ViewRow {
    fn group(&self) -> usize {
        self.group
    }
}

impl OfGroup for Row {
    fn group(&self) -> usize {
        self.group
    }
}

/// Common interface of rows of views and of comparisons.
pub(super) trait ReportRow {
    /// Name of the value.
    fn name(&self) -> &str;

    /// Whether there is no value at all.
    fn is_absent(&self) -> bool;

    /// Whether the row is unchanged or has no value.
    fn is_silent(&self) -> bool;
}

impl ReportRow for ViewRow {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_absent(&self) -> bool {
        self.value.is_none()
    }

    fn is_silent(&self) -> bool {
        self.is_absent()
    }
}

impl ReportRow for Row {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_absent(&self) -> bool {
        self.change == Change::Absent
    }

    fn is_silent(&self) -> bool {
        let is_zero = |cell: &Cell| delta::number(cell) == Some(0.0);
        match self.verdict() {
            None => self.change.is_silent(),
            Some(Verdict::Unclear) => self.values.as_ref().into_iter().flatten().all(is_zero),
            Some(verdict) => verdict == Verdict::Same,
        }
    }
}

/// The table of a section of one snapshot. `keys` set the order of groups, if there are any.
pub(super) fn view_table(section: Section, side: SideSection, keys: &[SortKey]) -> ViewTable {
    let mut table = Table { section, groups: Vec::new(), rows: Vec::new(), notes: Vec::new() };
    let mut sort_values = Vec::new();
    for (place, (path, group)) in side.into_iter().enumerate() {
        let SideGroup { population, name_cut, renamed, sort_values: values, entries } = group;
        table.rows.extend(entries.into_iter().map(|entry| view_row(place, entry)));
        let name = path.last().cloned().unwrap_or_default();
        table.groups.push(Group { name, path, name_cut, renamed, population });
        sort_values.push(values.into_iter().map(|cell| cell.as_ref().and_then(delta::number)).collect());
    }
    let places = places(&sort_values, keys);
    table.rows.sort_by_key(|row| places[row.group]);
    table
}

fn view_row(group: usize, entry: Entry) -> ViewRow {
    let Entry { name, unit, cell: value, covered, partial, quantity, .. } = entry;
    ViewRow { group, name, unit, quantity, value, covered, partial }
}

/// The table of a section of two sides. Changed rows come first, ordered by group according to `keys`,
/// if there are any, then by whether the change is clear, then by how much they changed.
pub(super) fn comparison_table(
    section: Section,
    sides: Sides<SideSection>,
    keys: &[SortKey],
    judge: Option<&Judge>,
) -> ComparisonTable {
    let mut table = Table { section, groups: Vec::new(), rows: Vec::new(), notes: Vec::new() };
    let mut sort_values = Vec::new();
    for (place, (path, mut group)) in joined(sides).into_iter().enumerate() {
        let exists = group.as_ref().map(Option::is_some);
        let cells = group.as_mut().map(|side| side.as_mut().map(|group| std::mem::take(&mut group.sort_values)));
        sort_values.push(
            (0..keys.len()).map(|key| difference(cells.as_ref().map(|cells| cells.as_ref()?[key].as_ref()))).collect(),
        );
        let flag = |flag: fn(&SideGroup) -> bool| group.as_ref().into_iter().flatten().any(flag);
        table.groups.push(Group {
            name: path.last().cloned().unwrap_or_default(),
            path,
            name_cut: flag(|group| group.name_cut),
            renamed: flag(|group| group.renamed),
            population: group.as_ref().map(|side| side.as_ref().map(|group| group.population)),
        });
        let entries = group.map(|side| side.map(|group| group.entries).unwrap_or_default());
        table.rows.extend(joined_entries(entries).filter_map(|entries| Row::new(place, entries, exists, judge)));
    }
    let weights: Vec<_> = table.groups.iter().map(|group| rank::weight(&group.path)).collect();
    table.rows.iter_mut().for_each(|row| row.score *= weights[row.group]);
    let places = places(&sort_values, keys);
    if section == Section::Overview {
        table.rows.sort_by_key(|row| places[row.group]);
        return table;
    }
    // Scores are not negative, and the bits of such numbers have the order of the numbers. Rows are large:
    // keys are sorted, and each row moves once.
    table.rows.sort_by_cached_key(|row| {
        let is_clear = matches!(row.verdict(), Some(Verdict::More | Verdict::Less));
        (row.is_silent(), places[row.group], Reverse(is_clear), Reverse(row.score.to_bits()))
    });
    table
}

/// The entries of both sides by name, in the order of the baseline.
fn joined_entries(entries: Sides<Vec<Entry>>) -> impl Iterator<Item = Sides<Option<Entry>>> {
    let Sides { baseline, candidate } = entries;
    let mut others: Vec<_> = candidate.into_iter().map(Some).collect();
    let is_same = |(a, b): (&Entry, &Option<Entry>)| b.as_ref().is_some_and(|b| b.name == a.name);
    // Most lists are equal, and need no search.
    let by_name: BTreeMap<_, _> = if baseline.iter().zip(&others).all(is_same) {
        BTreeMap::new()
    } else {
        let names = others.iter().flatten().map(|entry| entry.name.clone());
        names.enumerate().map(|(place, name)| (name, place)).collect()
    };
    let mut pairs = Vec::with_capacity(baseline.len());
    for (place, entry) in baseline.into_iter().enumerate() {
        let place = if by_name.is_empty() { Some(place) } else { by_name.get(&entry.name).copied() };
        let other = place.and_then(|place| others.get_mut(place)?.take());
        pairs.push(Sides { baseline: Some(entry), candidate: other });
    }
    let rest = others.into_iter().flatten().map(|entry| Sides { baseline: None, candidate: Some(entry) });
    pairs.into_iter().chain(rest)
}

/// The sort key of a group: the difference of its values. For a group on one side, the difference from
/// no value.
fn difference(cells: Sides<Option<&Cell>>) -> Option<f64> {
    match cells {
        Sides { baseline: Some(a), candidate: Some(b) } => Delta::between(a, b)?.number(),
        Sides { baseline: None, candidate: Some(b) } => delta::number(b),
        Sides { baseline: Some(a), candidate: None } => delta::number(a).map(|number| -number),
        Sides { baseline: None, candidate: None } => None,
    }
}

/// The rank of each group in the order of `keys`; without keys, all ranks are equal.
fn places(values: &[Vec<Option<f64>>], keys: &[SortKey]) -> Vec<usize> {
    let mut places = vec![0; values.len()];
    if keys.is_empty() {
        return places;
    }
    let mut sorted: Vec<usize> = (0..values.len()).collect();
    sorted.sort_by(|&a, &b| {
        let by_key = |(place, key): (usize, &SortKey)| key.order.compare(values[a][place], values[b][place]);
        keys.iter().enumerate().map(by_key).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    for (place, group) in sorted.into_iter().enumerate() {
        places[group] = place;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::parse_sort_key;

    fn side(groups: &[(&str, u64)]) -> SideSection {
        let group = |run_time: u64| SideGroup {
            sort_values: vec![Some(Cell::Number(run_time))],
            entries: vec![Entry::whole("run_time_ns", Unit::Ns, Cell::Number(run_time), 1)],
            ..SideGroup::default()
        };
        groups.iter().map(|(name, run_time)| (vec![(*name).to_owned()], group(*run_time))).collect()
    }

    fn order(baseline: &[(&str, u64)], candidate: &[(&str, u64)], keys: &str) -> Vec<String> {
        let keys = [parse_sort_key(keys).unwrap()];
        let sides = Sides { baseline: side(baseline), candidate: side(candidate) };
        let table = comparison_table(Section::Primary, sides, &keys, None);
        table.rows.iter().map(|row| table.groups[row.group].name.clone()).collect()
    }

    #[test]
    fn groups_on_one_side_only_are_sorted_with_the_others() {
        let (before, after) = (&[("both", 5), ("gone", 9)], &[("both", 12), ("new", 100), ("new2", 1)]);
        assert_eq!(order(before, after, "run_time_ns:desc"), ["new", "both", "new2", "gone"]);
        assert_eq!(order(before, after, "run_time_ns:abs"), ["new", "gone", "both", "new2"]);
        assert_eq!(order(before, after, "run_time_ns:asc"), ["gone", "new2", "both", "new"]);
    }

    #[test]
    fn values_are_joined_by_name_wherever_they_stand() {
        let entry = |name: &'static str, value| Entry::whole(name, Unit::Bytes, Cell::Number(value), 1);
        let sides = Sides {
            baseline: vec![entry("a", 1), entry("b", 2), entry("c", 3)],
            candidate: vec![entry("b", 20), entry("c", 30), entry("d", 40)],
        };
        let names = |side: &Option<Entry>| side.as_ref().map(|entry| entry.name.to_string()).unwrap_or_default();
        let pairs: Vec<_> = joined_entries(sides).map(|pair| (names(&pair.baseline), names(&pair.candidate))).collect();
        let expected = [("a", ""), ("b", "b"), ("c", "c"), ("", "d")];
        assert_eq!(pairs, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
