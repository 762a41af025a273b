//! Trends of a series: what groups did, and why, in each of its parts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::super::{number, window::local_clock};
use super::shared::{Paths, significant};
use crate::compare::{GroupReason, GroupTrend, OverviewColumn, Trend};
use crate::model::sorted::{Arrange, CollectSorted};
use crate::model::{Cell, ReasonClass};

/// The trends of a series, in parts.
#[derive(Serialize)]
pub(super) struct TrendsData<'p> {
    /// The local time of the start, with its zone: `12:03:05 CET`.
    start: String,
    started_at_unix_ns: &'p [u64],
    duration_ns: &'p [u64],
    columns: Vec<TrendColumn<'p>>,
    reasons: Vec<TrendReason<'p>>,
    groups_without_reasons: usize,
}

/// The values of the groups that did most, by index of their path.
#[derive(Serialize)]
struct TrendColumn<'p> {
    name: &'p str,
    unit: &'p str,
    groups: Vec<usize>,
    values: Vec<Vec<Cell>>,
}

/// A reason of a group, whose path has this index.
#[derive(Serialize)]
struct TrendReason<'p> {
    name: &'p str,
    reason: &'p GroupReason,
    unit: &'p str,
    group: usize,
    values: Vec<Cell>,
}

/// Maximum of groups over time that a page has, per column of what groups did or suffered.
const MOST_GROUPS: usize = 200;
/// Maximum number of groups in every other column: groups with the largest values of the first column. Values such as memory
/// change a little in each part, and would be most of the page.
const MOST_BUSY_GROUPS: usize = 40;
/// Maximum of reasons over time that a page has.
const MOST_REASONS: usize = 150;

impl<'p> TrendsData<'p> {
    pub(super) fn new(trends: &'p [Trend], paths: &mut Paths<'p>) -> Option<Self> {
        let Trend { started_at_unix_ns, duration_ns, .. } = trends.first()?;
        let of_column = |trend: &'p Trend| largest_first(trend.groups.iter().map(move |group| (trend, group)));
        let busiest: BTreeSet<_> = trends
            .first()
            .into_iter()
            .flat_map(of_column)
            .take(MOST_BUSY_GROUPS)
            .map(|(_, group)| &group.path)
            .into_set();
        let mut column = |trend: &'p Trend| {
            let is_ranked = OverviewColumn::named(&trend.column).is_some_and(OverviewColumn::is_ranked);
            let groups = of_column(trend).into_iter().filter(|(_, group)| is_ranked || busiest.contains(&group.path));
            let groups = groups.take(MOST_GROUPS);
            let with_place = groups.filter_map(|(_, group)| Some((paths.place(&group.path)?, over_time(group))));
            let (groups, values) = with_place.unzip();
            TrendColumn { name: &trend.column, unit: trend.unit, groups, values }
        };
        let columns = trends.iter().filter(|trend| trend.reason.is_none()).map(&mut column).collect();
        let (reasons, groups_without_reasons) = trend_reasons(trends, paths);
        let start = local_clock(started_at_unix_ns.first().copied().unwrap_or(0), "%H:%M:%S").unwrap_or_default();
        Some(Self { start, started_at_unix_ns, duration_ns, columns, reasons, groups_without_reasons })
    }
}

/// All reasons of the groups that were not asleep for the longest time, and how many other groups have reasons.
fn trend_reasons<'p>(trends: &'p [Trend], paths: &mut Paths<'p>) -> (Vec<TrendReason<'p>>, usize) {
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
    groups.arrange_by(|a, b| awake(b).total_cmp(&awake(a)));
    let mut reasons = Vec::new();
    let mut left = groups.into_iter().peekable();
    while let Some(of_group) = left.next_if(|of_group| reasons.len() + of_group.len() <= MOST_REASONS) {
        let is_known = |part: usize| of_group.iter().any(|(_, group)| !group.values[part].is_nan());
        reasons.extend(of_group.iter().filter_map(|(trend, group)| {
            let (reason, place) = (trend.reason.as_deref()?, paths.place(&group.path)?);
            let mut values = over_time(group);
            // Where a group has other reasons, these have all of its time.
            let missing =
                values.iter_mut().enumerate().filter(|(part, _)| group.values[*part].is_nan() && is_known(*part));
            missing.for_each(|(_, value)| *value = Cell::Number(0));
            Some(TrendReason { name: &trend.column, reason, unit: trend.unit, group: place, values })
        }));
    }
    (reasons, left.count())
}

/// Groups that did something, in the order of how much they did. Groups below others are left out: the groups above include
/// them. A part can have groups that the whole lacks, as exec renames a process.
fn largest_first<'p>(groups: impl Iterator<Item = (&'p Trend, &'p GroupTrend)>) -> Vec<(&'p Trend, &'p GroupTrend)> {
    let groups = groups.filter(|(_, group)| group.path.len() == 1).map(|found| (total(found.1), found));
    let mut groups: Vec<_> = groups.filter(|(all, _)| *all > 0.0).collect();
    groups.arrange_by(|(a, _), (b, _)| b.total_cmp(a));
    groups.into_iter().map(|(_, found)| found).collect()
}

fn total(group: &GroupTrend) -> f64 {
    group.values.iter().filter(|value| **value > 0.0).sum()
}

fn over_time(group: &GroupTrend) -> Vec<Cell> {
    group.values.iter().map(|value| number(significant(*value, 4))).collect()
}
