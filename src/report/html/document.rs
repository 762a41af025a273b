//! The data of an HTML page: that of JSON, with a list per value instead of an object per row.
//!
//! The page subtracts the baseline from the candidate where both are numbers.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::super::{
    Fact, FactData, FactLine, REPORT_FORMAT_VERSION, gates, group_change, number, of_headline, verdict_text,
};
use super::rows::PageSection;
use crate::compare::{
    Delta, GateResult, Group, GroupBy, GroupReason, GroupTrend, Quantity, Renamed, Report, Row, Trend, Turnover,
};
use crate::diagnose::Note;
use crate::model::{Cell, ReasonClass, Section};

#[derive(Serialize)]
pub(super) struct PageData<'p> {
    format_version: u32,
    facts: BTreeMap<&'static str, &'p FactData<'p>>,
    lines: Vec<&'p FactLine>,
    group_by: GroupBy,
    /// The groups of all sections by path: the index of the parent, if there is one, and the name.
    paths: Vec<(Option<usize>, &'p str)>,
    sections: Vec<SectionData<'p>>,
    /// The sections of the tree below the groups.
    tree: Option<Vec<SectionData<'p>>>,
    renamed: Option<&'p [Renamed]>,
    gates: Option<GateTable>,
    verdicts: bool,
    /// How long the command of each run took.
    elapsed: Option<RunDots<'p>>,
    course: Option<CourseData<'p>>,
}

/// The course of a series, in parts.
#[derive(Serialize)]
struct CourseData<'p> {
    started_at_unix_ns: &'p [u64],
    duration_ns: &'p [u64],
    columns: Vec<CourseColumn<'p>>,
    reasons: Vec<CourseReason<'p>>,
    groups_without_reasons: usize,
}

/// The values of the groups that did most, by index of their path.
#[derive(Serialize)]
struct CourseColumn<'p> {
    name: &'p str,
    unit: &'p str,
    groups: Vec<usize>,
    values: Vec<Vec<Cell>>,
}

/// A reason of a group, whose path has this index.
#[derive(Serialize)]
struct CourseReason<'p> {
    name: &'p str,
    reason: &'p GroupReason,
    unit: &'p str,
    group: usize,
    values: Vec<Cell>,
}

/// The results of gates, as in the other formats.
#[derive(Serialize)]
struct GateTable {
    summary: String,
    headings: &'static [&'static str],
    rows: Vec<[String; 8]>,
}

/// A section, with lists that have an element per group.
#[derive(Default, Serialize)]
struct SectionData<'p> {
    section: &'static str,
    doc: &'static str,
    notes: &'p [Note],
    /// Number of rows beyond the limit; in an overview, of groups.
    cut: usize,
    /// Number of hidden rows by reason; in an overview, of groups.
    hidden: BTreeMap<&'static str, usize>,
    /// Indices of the paths.
    groups: Vec<usize>,
    members: Vec<Vec<Option<u64>>>,
    /// Places of the groups with these marks.
    name_cut: Vec<usize>,
    renamed: Vec<usize>,
    exited_work: Vec<usize>,
    /// Places of groups in which threads started or exited, and how many, on the last side.
    turnover: Vec<(usize, u64, u64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    verdicts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dots: Vec<Option<RunDots<'p>>>,
    values: Vec<ValueData<'p>>,
}

/// The values of the runs that a verdict is about, by side.
#[derive(Serialize)]
struct RunDots<'p> {
    unit: &'static str,
    runs: Vec<&'p [f64]>,
}

impl<'p> RunDots<'p> {
    fn new(row: &'p Row) -> Option<Self> {
        let runs = row.runs.as_ref()?.values.iter().map(|values| &**values).collect();
        Some(Self { unit: row.unit.name(), runs })
    }
}

/// A value of the groups of a section, with lists that have an element per row.
#[derive(Serialize)]
struct ValueData<'p> {
    name: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'p GroupReason>,
    unit: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    doc: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<&'static str>,
    /// Places of the groups; absent if there is a row for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    places: Option<Vec<usize>>,
    baseline: Vec<Option<Cell>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidate: Vec<Option<Cell>>,
    /// Differences that are not those of two numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    delta: Vec<Option<Delta>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    percent: Vec<Option<f64>>,
    /// The 95 % intervals of candidate over baseline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interval: Vec<Option<[f64; 2]>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    verdict: Vec<Option<String>>,
    /// Rows that lack the values of some members.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partial: Vec<usize>,
}

impl<'p> PageData<'p> {
    pub(super) fn new(
        report: &'p Report,
        facts: &'p [Fact<'p>],
        groups: Vec<PageSection<'p>>,
        tree: Option<Vec<PageSection<'p>>>,
    ) -> Self {
        let mut paths = Paths::default();
        let mut sections =
            |pages: Vec<PageSection<'p>>| pages.into_iter().map(|page| SectionData::new(page, &mut paths)).collect();
        let (groups, tree) = (sections(groups), tree.map(sections));
        let course = CourseData::new(&report.trends, &mut paths);
        Self {
            format_version: REPORT_FORMAT_VERSION,
            facts: facts.iter().map(|fact| (fact.key, &fact.data)).collect(),
            lines: facts.iter().flat_map(|fact| &fact.lines).collect(),
            group_by: report.group_by,
            paths: paths.list,
            sections: groups,
            tree,
            renamed: report.is_comparison().then_some(&report.renamed[..]),
            gates: Some(&report.gates[..]).filter(|results| !results.is_empty()).map(GateTable::new),
            verdicts: report.has_verdicts(),
            elapsed: report.elapsed().and_then(RunDots::new),
            course,
        }
    }
}

/// Groups of a column over time.
const MOST_GROUPS: usize = 200;
/// Reasons over time.
const MOST_REASONS: usize = 150;

impl<'p> CourseData<'p> {
    fn new(trends: &'p [Trend], paths: &mut Paths<'p>) -> Option<Self> {
        let Trend { started_at_unix_ns, duration_ns, .. } = trends.first()?;
        let mut column = |trend: &'p Trend| {
            let groups = largest_first(trend.groups.iter().map(|group| (trend, group))).into_iter().take(MOST_GROUPS);
            let known = groups.filter_map(|(_, group)| Some((paths.place(&group.path)?, over_time(group))));
            let (groups, values) = known.unzip();
            CourseColumn { name: &trend.column, unit: trend.unit, groups, values }
        };
        let columns = trends.iter().filter(|trend| trend.reason.is_none()).map(&mut column).collect();
        let (reasons, groups_without_reasons) = course_reasons(trends, paths);
        Some(Self { started_at_unix_ns, duration_ns, columns, reasons, groups_without_reasons })
    }
}

/// All reasons of the groups that were not asleep for the longest time, and how many other groups have reasons.
fn course_reasons<'p>(trends: &'p [Trend], paths: &mut Paths<'p>) -> (Vec<CourseReason<'p>>, usize) {
    let class = |trend: &Trend| trend.reason.as_ref().map(|reason| reason.class);
    let shown = trends.iter().filter(|trend| class(trend).is_some_and(|class| class != ReasonClass::Idle));
    let mut by_group: BTreeMap<&[String], Vec<_>> = BTreeMap::new();
    for found in largest_first(shown.flat_map(|trend| trend.groups.iter().map(move |group| (trend, group)))) {
        by_group.entry(&found.1.path).or_default().push(found);
    }
    let awake = |of_group: &Vec<(&Trend, &GroupTrend)>| {
        let awake = of_group.iter().filter(|(trend, _)| class(trend) != Some(ReasonClass::Sleep));
        awake.map(|(_, group)| total(group)).sum::<f64>()
    };
    let mut groups: Vec<_> = by_group.into_values().collect();
    groups.sort_by(|a, b| awake(b).total_cmp(&awake(a)));
    let mut reasons = Vec::new();
    let mut left = groups.into_iter().peekable();
    while let Some(of_group) = left.next_if(|of_group| reasons.len() + of_group.len() <= MOST_REASONS) {
        reasons.extend(of_group.into_iter().filter_map(|(trend, group)| {
            let (reason, place) = (trend.reason.as_deref()?, paths.place(&group.path)?);
            Some(CourseReason { name: &trend.column, reason, unit: trend.unit, group: place, values: over_time(group) })
        }));
    }
    (reasons, left.count())
}

/// The groups that did something, those that did most first. Parts can have groups that the whole lacks: a process can execute
/// another program. Groups include those below them.
fn largest_first<'p>(groups: impl Iterator<Item = (&'p Trend, &'p GroupTrend)>) -> Vec<(&'p Trend, &'p GroupTrend)> {
    let groups = groups.filter(|(_, group)| group.path.len() == 1).map(|found| (total(found.1), found));
    let mut groups: Vec<_> = groups.filter(|(all, _)| *all > 0.0).collect();
    groups.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    groups.into_iter().map(|(_, found)| found).collect()
}

fn total(group: &GroupTrend) -> f64 {
    group.values.iter().filter(|value| **value > 0.0).sum()
}

fn over_time(group: &GroupTrend) -> Vec<Cell> {
    group.values.iter().map(|value| number(significant(*value, 3))).collect()
}

impl GateTable {
    fn new(results: &[GateResult]) -> Self {
        let rows = gates::worst_first(results).into_iter().map(gates::cells).collect();
        Self { summary: gates::counts(results), headings: &gates::HEADINGS, rows }
    }
}

#[derive(Default)]
struct Paths<'p> {
    list: Vec<(Option<usize>, &'p str)>,
    places: HashMap<&'p [String], usize>,
}

impl<'p> Paths<'p> {
    fn place(&mut self, path: &'p [String]) -> Option<usize> {
        let (name, parents) = path.split_last()?;
        if let Some(place) = self.places.get(path) {
            return Some(*place);
        }
        let parent = self.place(parents);
        let place = self.list.len();
        self.list.push((parent, name));
        self.places.insert(path, place);
        Some(place)
    }
}

impl<'p> SectionData<'p> {
    fn new(page: PageSection<'p>, paths: &mut Paths<'p>) -> Self {
        let PageSection { shown, hidden } = page;
        let (section, rows) = (shown.section, &shown.rows);
        let mut data = Self {
            section: section.section.name(),
            doc: section.section.doc(),
            notes: &section.notes,
            cut: shown.cut,
            hidden,
            dots: dots(rows),
            verdicts: verdicts(rows),
            ..Self::default()
        };
        let mut places = HashMap::new();
        let mut names = HashMap::new();
        let mut values: Vec<Vec<_>> = Vec::new();
        for &row in rows {
            let place = *places.entry(row.group).or_insert_with(|| data.add_group(shown.group(row), paths));
            let value = *names.entry(&row.name).or_insert(values.len());
            values.resize_with(values.len().max(value + 1), Vec::new);
            values[value].push((place, row));
        }
        data.values = values.iter().map(|rows| ValueData::new(rows, data.groups.len())).collect();
        data
    }

    fn add_group(&mut self, group: &'p Group, paths: &mut Paths<'p>) -> usize {
        let place = self.groups.len();
        self.groups.extend(paths.place(&group.key));
        self.members.push(group.members().into_iter().collect());
        self.name_cut.extend(group.name_cut.then_some(place));
        self.renamed.extend(group.renamed.then_some(place));
        self.exited_work.extend(group.exited_work().map(|_| place));
        let turnover = group.turnover().into_iter().last().flatten();
        let turnover = turnover.filter(|turnover| *turnover != Turnover::default());
        self.turnover.extend(turnover.map(|turnover| (place, turnover.started, turnover.exited)));
        place
    }
}

impl<'p> ValueData<'p> {
    /// The rows of a value, with the places of their groups. Lists that say nothing are left out.
    fn new(rows: &[(usize, &'p Row)], groups: usize) -> Self {
        let first = rows[0].1;
        let values = || rows.iter().map(|(_, row)| *row);
        let interval =
            |row: &Row| row.runs.as_ref()?.estimate.map(|of| [of.interval.low, of.interval.high].map(rounded));
        let is_number = |delta: &Delta| matches!(delta, Delta::Number(_) | Delta::Points(_));
        let places: Vec<usize> = rows.iter().map(|(place, _)| *place).collect();
        let candidates = values().filter_map(|row| row.values.candidate.as_ref());
        Self {
            name: &first.name,
            reason: first.reason.as_deref(),
            unit: first.unit.name(),
            doc: first.quantity.map(|quantity| quantity.about().doc).unwrap_or_default(),
            tags: first.quantity.map(Quantity::tags).unwrap_or_default(),
            places: Some(places).filter(|places| !places.iter().copied().eq(0..groups)),
            baseline: values().map(|row| row.values.baseline.as_ref().map(page_value)).collect(),
            candidate: candidates.map(|cell| cell.as_ref().map(page_value)).collect(),
            delta: unless_empty(values().map(|row| row.delta().filter(|delta| !is_number(delta)))),
            percent: unless_empty(values().map(|row| Some((row.percent()? * 10.0).round() / 10.0))),
            interval: unless_empty(values().map(interval)),
            verdict: unless_empty(values().map(|row| row.verdict().map(|_| verdict_text(row)))),
            partial: values().enumerate().filter(|(_, row)| row.partial).map(|(place, _)| place).collect(),
        }
    }
}

/// The list; an empty one if it has no value.
fn unless_empty<T>(list: impl Iterator<Item = Option<T>>) -> Vec<Option<T>> {
    let list: Vec<_> = list.collect();
    if list.iter().all(Option::is_none) { Vec::new() } else { list }
}

/// The verdict on each group of an overview, if any row has one.
fn verdicts(rows: &[&Row]) -> Vec<String> {
    if !rows.iter().any(|row| row.section == Section::Overview && row.verdict().is_some()) {
        return Vec::new();
    }
    rows.chunk_by(|a, b| a.group == b.group).map(group_change).collect()
}

fn dots<'p>(rows: &[&'p Row]) -> Vec<Option<RunDots<'p>>> {
    unless_empty(rows.chunk_by(|a, b| a.group == b.group).map(|rows| RunDots::new(of_headline(rows)?.0)))
}

/// A value with the digits that are shown.
fn page_value(cell: &Cell) -> Cell {
    if let Cell::Ratio(ratio) = cell { Cell::Ratio(rounded(*ratio)) } else { cell.clone() }
}

/// Significant digits of quotients; tables show three.
const DIGITS: i32 = 5;

fn rounded(number: f64) -> f64 {
    significant(number, DIGITS)
}

fn significant(number: f64, digits: i32) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the exponent of a number is small")]
    let scale = 10_f64.powi(digits - 1 - number.abs().log10().floor() as i32);
    let scaled = (number * scale).round() / scale;
    if scaled.is_finite() { scaled } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_have_five_digits_whatever_their_size() {
        let numbers = [0.0, 123.456_789_1, -0.001_234_567_89, 98_765_432.1, f64::MIN_POSITIVE, f64::MAX];
        let expected = [0.0, 123.46, -0.001_234_6, 98_765_000.0, f64::MIN_POSITIVE, f64::MAX];
        for (number, expected) in numbers.into_iter().zip(expected) {
            assert!((rounded(number) - expected).abs() <= expected.abs() * 1e-6, "{number}: {}", rounded(number));
        }
        assert_eq!(serde_json::to_string(&rounded(123.456_789_1)).unwrap(), "123.46");
    }

    #[test]
    fn paths_share_their_beginnings() {
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (pool, other) = (path(&["/a", "app", "worker"]), path(&["/a", "app"]));
        let mut paths = Paths::default();
        assert_eq!((paths.place(&pool), paths.place(&other), paths.place(&pool)), (Some(2), Some(1), Some(2)));
        assert_eq!(paths.list, [(None, "/a"), (Some(0), "app"), (Some(1), "worker")]);
    }
}
