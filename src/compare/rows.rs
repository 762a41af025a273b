//! Tables: a section's groups and their rows, one a group and reading.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::delta::{self, Change, Delta};
use super::group::{Group, Paired};
use super::select::{SortBy, SortKey, THREAD_COUNT};
use super::{Options, Sides, rank};
use crate::diagnose::Note;
use crate::model::{Cell, Context, DERIVED, Derived, METRICS, Metric, Section, Totals, Unit};

/// One section of a report.
#[derive(Debug)]
#[non_exhaustive]
pub struct Table {
    /// Which.
    pub section: Section,
    /// The groups, by name.
    pub groups: Vec<Group>,
    /// Every group's readings, in the order to be shown.
    pub rows: Vec<Row>,
    /// What has to be known to read it, or why there is nothing.
    pub notes: Vec<Note>,
}

/// One reading of one group, on both sides.
#[derive(Debug)]
#[non_exhaustive]
pub struct Row {
    /// Index of the group.
    pub group: usize,
    /// Name of the reading.
    pub name: Cow<'static, str>,
    /// What it counts.
    pub unit: Unit,
    /// The group's readings.
    pub values: Sides<Option<Cell>>,
    /// How many of the group's members have one.
    pub covered: Sides<u64>,
    /// Whether some of them lack one that should have it.
    pub partial: bool,
    /// Kernel options and scheduling class that the reading depends on.
    pub tags: Vec<&'static str>,
    /// The difference, where both sides have a reading.
    pub delta: Option<Delta>,
    /// The difference in percent of the baseline.
    pub percent: Option<f64>,
    /// What the row has to say.
    pub change: Change,
    /// By how much it moved.
    pub(super) score: f64,
}

impl Row {
    /// A row whose differences follow from its values.
    pub(super) fn new(
        group: usize,
        name: Cow<'static, str>,
        unit: Unit,
        values: Sides<Option<Cell>>,
        exists: Sides<bool>,
    ) -> Self {
        let delta = match &values {
            Sides { baseline: Some(a), candidate: Some(b) } => Delta::of(a, b),
            _ => None,
        };
        let base = values.baseline.as_ref().zip(delta.as_ref());
        let percent = base.and_then(|(base, delta)| delta::percent(unit, base, delta));
        let change = match (&values, &delta, exists) {
            (Sides { baseline: None, candidate: None }, ..) => Change::Absent,
            (.., Sides { baseline: false, .. }) => Change::CandidateOnly,
            (.., Sides { candidate: false, .. }) => Change::BaselineOnly,
            (_, None, _) => Change::Incomparable,
            (_, Some(delta), _) if delta.is_none() => Change::Unchanged,
            _ => Change::Moved,
        };
        let score = rank::moved(&name, unit, values.baseline.as_ref(), values.candidate.as_ref());
        let covered = Sides::default();
        Self { group, name, unit, values, covered, partial: false, tags: Vec::new(), delta, percent, change, score }
    }
}

/// The tables of threads' metrics: one for each section that has any.
pub(super) fn metric_tables(
    paired: &[Paired],
    options: &Options,
    contexts: Sides<Context>,
    order: impl Fn(&mut Vec<Row>),
) -> Vec<Table> {
    let sections = [Section::Primary, Section::TaskstatsDelay, Section::Derived];
    let table = |section| {
        let metrics: Vec<_> =
            METRICS.iter().filter(|metric| metric.section == section && options.wants_metric(metric.name)).collect();
        let derived: Vec<_> =
            DERIVED.iter().filter(|derived| derived.section == section && options.wants_metric(derived.name)).collect();
        let count = section == Section::Primary && options.metrics.contains(&THREAD_COUNT);
        let mut rows = Vec::with_capacity(paired.len() * (metrics.len() + derived.len()));
        for (at, group) in paired.iter().enumerate() {
            rows.extend(count.then(|| thread_count(at, group)));
            rows.extend(metrics.iter().map(|metric| row(at, group, metric)));
            rows.extend(derived.iter().map(|derived| derived_row(at, group, derived, contexts)));
        }
        // Two captures are two processes: how they differ is nobody's question.
        rows.iter_mut().filter(|row| is_ctprof(&paired[row.group].group)).for_each(|row| row.score *= OWN);
        order(&mut rows);
        Table { section, groups: paired.iter().map(|paired| paired.group.clone()).collect(), rows, notes: Vec::new() }
    };
    sections.into_iter().filter(|section| options.wants(*section)).map(table).collect()
}

fn row(at: usize, paired: &Paired, metric: &'static Metric) -> Row {
    let totals = paired.totals.as_ref().map(Option::as_deref);
    let values = totals.map(|totals: Option<&Totals>| totals.and_then(|totals| metric.total(totals)));
    let covered = totals.map(|totals| totals.map_or(0, |totals| metric.covered(totals)));
    let threads = paired.group.members;
    let partial = |covered, threads: Option<u64>| metric.is_partial(covered, threads.unwrap_or(0));
    Row {
        covered,
        tags: metric.tags().collect(),
        partial: partial(covered.baseline, threads.baseline) || partial(covered.candidate, threads.candidate),
        ..Row::new(at, metric.name.into(), metric.unit, values, paired.exists())
    }
}

/// What ctprof's own rows weigh, against others that moved as much.
const OWN: f64 = 1e-3;

fn is_ctprof(group: &Group) -> bool {
    let ours = |name: &String| name == "ctprof" || name.starts_with("ctprof-");
    group.path.iter().any(ours)
}

fn derived_row(at: usize, paired: &Paired, derived: &'static Derived, contexts: Sides<Context>) -> Row {
    let Sides { baseline, candidate } = paired.totals.as_ref().map(Option::as_deref);
    let values = Sides {
        baseline: baseline.and_then(|totals: &Totals| derived.total(totals, contexts.baseline)),
        candidate: candidate.and_then(|totals: &Totals| derived.total(totals, contexts.candidate)),
    };
    Row::new(at, derived.name.into(), derived.unit, values, paired.exists())
}

fn thread_count(at: usize, paired: &Paired) -> Row {
    let values = paired.group.members.map(|threads| threads.map(Cell::Number));
    Row::new(at, THREAD_COUNT.into(), Unit::Count, values, paired.exists())
}

impl Paired {
    fn exists(&self) -> Sides<bool> {
        self.group.members.map(|members| members.is_some())
    }
}

/// Puts rows in the order of a comparison: what both sides have first, then groups as asked, then
/// by how much a row moved. Ties stay in the order of groups, then of the table of metrics.
pub(super) fn by_movement(rows: &mut [Row], group_order: &[usize]) {
    let place = |group: usize| group_order.get(group).copied().unwrap_or(0);
    rows.sort_by(|a, b| {
        let placed = (a.change.cmp(&b.change)).then_with(|| place(a.group).cmp(&place(b.group)));
        placed.then_with(|| b.score.total_cmp(&a.score))
    });
}

/// The place of each group in the order that `keys` ask for; empty where they ask for none.
pub(super) fn group_order(paired: &[Paired], keys: &[SortKey], contexts: Sides<Context>) -> Vec<usize> {
    if keys.is_empty() {
        return Vec::new();
    }
    let mut sorted: Vec<usize> = (0..paired.len()).collect();
    sorted.sort_by(|&a, &b| {
        let by = |key: &SortKey| {
            key.order.compare(number(&paired[a], key.by, contexts), number(&paired[b], key.by, contexts))
        };
        keys.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    let mut order = vec![0; paired.len()];
    for (place, group) in sorted.into_iter().enumerate() {
        order[group] = place;
    }
    order
}

/// What a group is sorted by: the difference of its totals where two snapshots are compared, its
/// total where one is shown.
fn number(paired: &Paired, by: SortBy, contexts: Sides<Context>) -> Option<f64> {
    let cell = |totals: &Totals, threads: u64, context| match by {
        SortBy::ThreadCount => Some(Cell::Number(threads)),
        SortBy::Metric(metric) => metric.total(totals),
        SortBy::Derived(derived) => derived.total(totals, context),
    };
    let Sides { baseline, candidate } = &paired.totals;
    let threads = paired.group.members;
    let a = baseline.as_deref().and_then(|totals| cell(totals, threads.baseline?, contexts.baseline));
    let b = candidate.as_deref().and_then(|totals| cell(totals, threads.candidate?, contexts.candidate));
    match (a, b) {
        (Some(a), Some(b)) => Delta::of(&a, &b)?.number(),
        (Some(a), None) if candidate.is_none() => match a {
            Cell::Number(number) => Some(number as f64),
            Cell::Signed(number) => Some(number as f64),
            Cell::Ratio(ratio) => Some(ratio),
            Cell::Range { max, .. } => Some(max as f64),
            Cell::Cpus { most, .. } => Some(most as f64),
            _ => None,
        },
        _ => None,
    }
}
