//! The rows of a comparison: one a group and metric.

use std::cmp::Ordering;

use super::delta::{self, Change, Delta};
use super::group::{Group, GroupBy, Paired};
use super::host::Header;
use super::select::{SortBy, SortKey};
use super::{Options, Sides, rank};
use crate::model::{Cell, METRICS, Metric, Totals};

/// Two snapshots, compared.
#[derive(Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// What is compared, and what makes that doubtful.
    pub header: Header,
    /// What made the groups.
    pub group_by: GroupBy,
    /// What moved, and what did not.
    pub rows: Rows,
}

/// Groups, and their rows in the order to be shown.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rows {
    /// The groups, by name.
    pub groups: Vec<Group>,
    /// Every group's reading of every metric that was asked for.
    pub rows: Vec<Row>,
}

/// One metric of one group, on both sides.
#[derive(Debug)]
#[non_exhaustive]
pub struct Row {
    /// Index of the group.
    pub group: usize,
    /// The metric.
    pub metric: &'static Metric,
    /// The group's readings.
    pub values: Sides<Option<Cell>>,
    /// How many of the group's threads have one.
    pub covered: Sides<u64>,
    /// The difference, where both sides have a reading.
    pub delta: Option<Delta>,
    /// The difference in percent of the baseline.
    pub percent: Option<f64>,
    /// What the row has to say.
    pub change: Change,
    /// By how much it moved.
    score: f64,
}

impl Rows {
    /// Whether some threads of the row's group have no reading, while others have.
    #[must_use]
    pub fn is_partial(&self, row: &Row) -> bool {
        let threads = self.groups[row.group].threads;
        let partial = |covered, threads: Option<u64>| row.metric.is_partial(covered, threads.unwrap_or(0));
        partial(row.covered.baseline, threads.baseline) || partial(row.covered.candidate, threads.candidate)
    }
}

pub(super) fn rows(paired: Vec<Paired>, options: &Options) -> Rows {
    let metrics: Vec<_> = METRICS.iter().filter(|metric| options.wants(metric)).collect();
    let order = group_order(&paired, &options.sort_by);
    let mut rows = Vec::with_capacity(paired.len() * metrics.len());
    for (at, group) in paired.iter().enumerate() {
        rows.extend(metrics.iter().map(|metric| row(at, group, metric)));
    }
    // Stable: ties stay in the order of groups, then of the table of metrics.
    rows.sort_by(|a, b| {
        let placed = (a.change.cmp(&b.change)).then_with(|| order[a.group].cmp(&order[b.group]));
        placed.then_with(|| b.score.total_cmp(&a.score))
    });
    Rows { groups: paired.into_iter().map(|paired| paired.group).collect(), rows }
}

fn row(at: usize, paired: &Paired, metric: &'static Metric) -> Row {
    let totals = paired.totals.as_ref().map(Option::as_deref);
    let values = totals.map(|totals: Option<&Totals>| totals.and_then(|totals| metric.total(totals)));
    let covered = totals.map(|totals| totals.map_or(0, |totals| metric.covered(totals)));
    let delta = match &values {
        Sides { baseline: Some(a), candidate: Some(b) } => Delta::of(a, b),
        _ => None,
    };
    let percent = values.baseline.as_ref().zip(delta.as_ref()).and_then(|(base, delta)| delta::percent(base, delta));
    let change = match (&values, &delta, paired.group.threads) {
        (Sides { baseline: None, candidate: None }, ..) => Change::Absent,
        (.., Sides { baseline: None, .. }) => Change::CandidateOnly,
        (.., Sides { candidate: None, .. }) => Change::BaselineOnly,
        (_, None, _) => Change::Incomparable,
        (_, Some(delta), _) if delta.is_none() => Change::Unchanged,
        _ => Change::Moved,
    };
    let score = rank::moved(metric, values.baseline.as_ref(), values.candidate.as_ref());
    Row { group: at, metric, values, covered, delta, percent, change, score }
}

/// The place of each group in the order that was asked for; all the same where none was.
fn group_order(paired: &[Paired], keys: &[SortKey]) -> Vec<usize> {
    let mut order = vec![0; paired.len()];
    if keys.is_empty() {
        return order;
    }
    let mut sorted: Vec<usize> = (0..paired.len()).collect();
    sorted.sort_by(|&a, &b| {
        let by = |key: &SortKey| key.order.compare(number(&paired[a], key.by), number(&paired[b], key.by));
        keys.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    for (place, group) in sorted.into_iter().enumerate() {
        order[group] = place;
    }
    order
}

/// What a group is sorted by: the difference of its totals, where it is on both sides.
fn number(paired: &Paired, by: SortBy) -> Option<i128> {
    match (by, &paired.group.threads, &paired.totals) {
        (SortBy::ThreadCount, Sides { baseline: Some(a), candidate: Some(b) }, _) => {
            Some(i128::from(*b) - i128::from(*a))
        }
        (SortBy::Metric(metric), _, Sides { baseline: Some(a), candidate: Some(b) }) => {
            Delta::of(&metric.total(a)?, &metric.total(b)?)?.number()
        }
        _ => None,
    }
}
