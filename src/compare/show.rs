//! One snapshot, grouped.

use std::cmp::Ordering;

use super::Options;
use super::group::{self, GroupBy};
use super::host::{self, Side};
use super::select::{Order, SortBy, SortKey};
use crate::model::{Cell, CtprofSnapshot, Gap, METRICS, Metric, Totals, gaps};

/// One snapshot, grouped.
#[derive(Debug)]
#[non_exhaustive]
pub struct View {
    /// What is shown.
    pub side: Side,
    /// Facts of the host, in the order of the file; empty where it has none.
    pub host: Vec<(String, String)>,
    /// What could not be read.
    pub gaps: Vec<Gap>,
    /// What made the groups.
    pub group_by: GroupBy,
    /// Every group's reading of every metric that was asked for: group by group.
    pub rows: Vec<ViewRow>,
}

/// One metric of one group.
#[derive(Debug)]
#[non_exhaustive]
pub struct ViewRow {
    /// The group's name, or the pattern of its names.
    pub group: String,
    /// Whether the kernel may have cut a name in it.
    pub name_cut: bool,
    /// How many threads it has.
    pub threads: u64,
    /// The metric.
    pub metric: &'static Metric,
    /// The group's reading.
    pub value: Option<Cell>,
    /// How many of its threads have one.
    pub covered: u64,
}

/// Groups one snapshot. The groups with the most CPU time come first unless another order is
/// asked for.
#[must_use]
pub fn show(snapshot: &CtprofSnapshot, options: &Options) -> View {
    let mut groups = group::single(snapshot, options);
    let by_run_time =
        super::metric("run_time_ns").map(|metric| SortKey { by: SortBy::Metric(metric), order: Order::Desc });
    let keys = if options.sort_by.is_empty() { by_run_time.into_iter().collect() } else { options.sort_by.clone() };
    groups.sort_by(|(_, _, a_threads, a), (_, _, b_threads, b)| {
        let by = |key: &SortKey| key.order.compare(number(a, *a_threads, key.by), number(b, *b_threads, key.by));
        keys.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    let metrics: Vec<_> = METRICS.iter().filter(|metric| options.wants(metric)).collect();
    let rows = groups.iter().flat_map(|(name, name_cut, threads, totals)| {
        metrics.iter().map(|metric| ViewRow {
            group: name.clone(),
            name_cut: *name_cut,
            threads: *threads,
            metric,
            value: metric.total(totals),
            covered: metric.covered(totals),
        })
    });
    View {
        side: host::side(snapshot, &options.labels.baseline),
        host: snapshot.host.as_ref().map(host::facts).unwrap_or_default(),
        gaps: gaps(snapshot),
        group_by: options.group_by,
        rows: rows.collect(),
    }
}

fn number(totals: &Totals, threads: u64, by: SortBy) -> Option<i128> {
    match by {
        SortBy::ThreadCount => Some(threads.into()),
        SortBy::Metric(metric) => match metric.total(totals)? {
            Cell::Number(number) => Some(number.into()),
            Cell::Range { max, .. } => Some(max.into()),
            Cell::Cpus { most, .. } => Some(most.into()),
            _ => None,
        },
    }
}
