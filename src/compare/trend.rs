//! How a column of the overview changed in the course of a series.

use serde::Serialize;

use super::{CompareOptions, OverviewColumn, Per, Quantity, Runs, Sides};
use crate::model::Section;

/// The values of a column in parts of equal length, by group.
#[derive(Debug, Default, Serialize)]
pub struct Trend {
    pub(crate) column: &'static str,
    pub(crate) unit: &'static str,
    /// When each part began, in nanoseconds since 1970.
    pub(crate) started_at_unix_ns: Vec<u64>,
    /// How long each part is, in nanoseconds.
    pub(crate) duration_ns: Vec<u64>,
    /// By the key of the group; `null` in JSON where a value is unknown.
    pub(crate) groups: Vec<GroupTrend>,
}

#[derive(Debug, Serialize)]
pub(crate) struct GroupTrend {
    pub(crate) path: Vec<String>,
    pub(crate) values: Vec<f64>,
}

/// The course of columns in the parts of a series.
#[must_use]
pub fn trends(parts: Runs, columns: &[&'static OverviewColumn], options: &CompareOptions) -> Vec<Trend> {
    let options = CompareOptions {
        sections: vec![Section::Overview],
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
    let trend = |column: &&'static OverviewColumn| {
        let rows = report.rows().filter(|(_, row)| row.name == column.name);
        let unit = rows.clone().next().map_or("", |(_, row)| row.unit.name());
        let mut groups: Vec<_> = rows
            .map(|(group, row)| GroupTrend {
                path: group.key.clone(),
                values: row.runs.as_ref().map(|runs| runs.values.baseline.to_vec()).unwrap_or_default(),
            })
            .collect();
        groups.sort_by(|a, b| a.path.cmp(&b.path));
        let (started_at_unix_ns, duration_ns) = (started_at_unix_ns.clone(), duration_ns.clone());
        Trend { column: column.name, unit, started_at_unix_ns, duration_ns, groups }
    };
    columns.iter().map(trend).collect()
}
