//! How columns of the overview, and reasons, changed in the course of a series.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::{CompareOptions, Group, GroupReason, OverviewColumn, Per, Quantity, Row, Runs, Sides, number};
use crate::model::Section;

/// The values of a column, or the time of a reason, in parts of equal length, by group.
#[derive(Debug, Default, Serialize)]
pub struct Trend {
    pub(crate) column: Cow<'static, str>,
    #[serde(skip)]
    pub(crate) reason: Option<Arc<GroupReason>>,
    pub(crate) unit: &'static str,
    /// When each part began, in nanoseconds since 1970.
    pub(crate) started_at_unix_ns: Vec<u64>,
    pub(crate) duration_ns: Vec<u64>,
    /// By the key of the group; `null` in JSON where a value is unknown.
    pub(crate) groups: Vec<GroupTrend>,
}

#[derive(Debug, Serialize)]
pub(crate) struct GroupTrend {
    pub(crate) path: Vec<String>,
    pub(crate) values: Vec<f64>,
}

/// The course of columns in the parts of a series, and if the sections have them, of reasons.
#[must_use]
pub fn trends(
    parts: Runs,
    columns: &[&'static OverviewColumn],
    sections: &[Section],
    options: &CompareOptions,
) -> Vec<Trend> {
    let options = CompareOptions {
        sections: sections.to_vec(),
        metrics: columns.iter().map(|column| Quantity::Column(column)).collect(),
        sort_by: Vec::new(),
        // Parts can differ in length.
        per: Some(Per::Second),
        has_tree: false,
        ..options.clone()
    };
    let windows = || parts.digests.iter().filter_map(|part| part.head.window.as_ref());
    let started_at_unix_ns: Vec<_> = windows().map(|window| window.started_at_unix_ns).collect();
    let duration_ns: Vec<_> = windows().map(|window| window.duration_ns).collect();
    let report = super::report(Sides::one(parts), &options, &[]);
    let trend = |(name, reason): (Cow<'static, str>, Option<Arc<GroupReason>>), rows: Vec<(&Group, &Row)>| {
        let unit = rows.first().map_or("", |(_, row)| row.unit.name());
        let of_one = |row: &Row| vec![row.values.baseline.as_ref().and_then(number).unwrap_or(f64::NAN)];
        let values = |row: &Row| row.runs.as_ref().map_or_else(|| of_one(row), |runs| runs.values.baseline.to_vec());
        let group = |(group, row): (&Group, &Row)| GroupTrend { path: group.key.clone(), values: values(row) };
        let mut groups: Vec<_> = rows.into_iter().map(group).collect();
        groups.sort_by(|a, b| a.path.cmp(&b.path));
        let (started_at_unix_ns, duration_ns) = (started_at_unix_ns.clone(), duration_ns.clone());
        Trend { column: name, reason, unit, started_at_unix_ns, duration_ns, groups }
    };
    let of_column = |column: &&'static OverviewColumn| {
        let is_of_column = |row: &Row| row.section == Section::Overview && row.name == column.name;
        trend((column.name.into(), None), report.rows().filter(|(_, row)| is_of_column(row)).collect())
    };
    let mut trends: Vec<_> = columns.iter().map(of_column).collect();
    let mut reasons: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (group, row) in report.rows() {
        if let Some(reason) = &row.reason {
            reasons.entry((&row.name, reason)).or_default().push((group, row));
        }
    }
    let of_reasons =
        reasons.into_iter().map(|((name, reason), rows)| trend((name.clone(), Some(Arc::clone(reason))), rows));
    trends.extend(of_reasons);
    trends
}
