//! Trends: how columns of the overview, and reasons, changed over the parts of a series.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::{
    CompareOptions, Group, GroupReason, Grouped, OverviewColumn, Per, Quantity, Query, Row, Runs, Selection, Sides,
};
use crate::model::Section;
use crate::model::sorted::Arrange;
use crate::statistics::Design;

/// The values of a column, or the time of a reason, in each part of a series, by group.
#[derive(Debug, Default, Serialize)]
pub struct Trend {
    pub(crate) column: Cow<'static, str>,
    #[serde(skip)]
    pub(crate) reason: Option<Arc<GroupReason>>,
    pub(crate) unit: &'static str,
    /// When each part began, in nanoseconds since 1970.
    pub(crate) started_at_unix_ns: Vec<u64>,
    pub(crate) duration_ns: Vec<u64>,
    /// Trends of groups, sorted by the key of the group; `null` in JSON where a value is unknown.
    pub(crate) groups: Vec<GroupTrend>,
}

/// The values of one group, one for each part.
#[derive(Debug, Serialize)]
pub(crate) struct GroupTrend {
    pub(crate) path: Vec<String>,
    pub(crate) values: Vec<f64>,
}

/// Returns the trends of columns over the parts of a series. If the sections have them, the trends of reasons and of the
/// number of threads follow.
#[must_use]
pub fn trends(
    parts: Runs,
    columns: &[&'static OverviewColumn],
    sections: &[Section],
    options: &CompareOptions,
) -> Vec<Trend> {
    let windows = || parts.digests.iter().filter_map(|part| part.head.window.as_ref());
    let started_at_unix_ns: Vec<_> = windows().map(|window| window.started_at_unix_ns).collect();
    let duration_ns: Vec<_> = windows().map(|window| window.duration_ns).collect();
    let threads = sections.contains(&Quantity::ThreadCount.section()).then_some(Quantity::ThreadCount);
    let quantities: Vec<_> = columns.iter().map(|column| Quantity::Column(column)).chain(threads).collect();
    let grouped = Grouped::new(Sides::one(parts.digests), Design::Independent, options);
    // Parts can differ in length.
    let queries = sections.iter().map(|section| Query { quantities: &quantities, ..Query::all(*section, Per::Second) });
    let mut tables: Vec<_> = grouped.sections(queries).into_iter().flatten().collect();
    let selection = Selection { metrics: quantities.clone(), ..options.selection.clone() };
    tables.iter_mut().for_each(|table| table.select(&selection));
    let rows = || tables.iter().flat_map(|table| table.rows.iter().map(|row| (&table.groups[row.group], row)));
    let trend = |(name, reason): (Cow<'static, str>, Option<Arc<GroupReason>>), rows: Vec<(&Group, &Row)>| {
        let unit = rows.first().map_or("", |(_, row)| row.unit.name());
        let group = |(group, row): (&Group, &Row)| {
            Some(GroupTrend { path: group.key.clone(), values: row.samples()?.baseline.into() })
        };
        let mut groups: Vec<_> = rows.into_iter().filter_map(group).collect();
        groups.arrange_by(|a, b| a.path.cmp(&b.path));
        let (started_at_unix_ns, duration_ns) = (started_at_unix_ns.clone(), duration_ns.clone());
        Trend { column: name, reason, unit, started_at_unix_ns, duration_ns, groups }
    };
    let of_quantity = |quantity: &Quantity| {
        let is_of_quantity = |row: &Row| row.section == quantity.section() && row.name == quantity.name();
        trend((quantity.name().into(), None), rows().filter(|(_, row)| is_of_quantity(row)).collect())
    };
    let mut trends: Vec<_> = quantities.iter().map(of_quantity).collect();
    let mut reasons: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (group, row) in rows() {
        if let Some(reason) = &row.reason {
            reasons.entry((&row.name, reason)).or_default().push((group, row));
        }
    }
    let of_reasons =
        reasons.into_iter().map(|((name, reason), rows)| trend((name.clone(), Some(Arc::clone(reason))), rows));
    trends.extend(of_reasons);
    trends
}
