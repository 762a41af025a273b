//! How a column of the overview changed in the course of a series.

use std::collections::BTreeMap;

use serde::Serialize;

use super::options::{CompareOptions, Form};
use super::overview_columns::{GroupValue, OverviewColumn};
use super::runs::Runs;
use super::sides::Sides;
use crate::model::Section;

/// The values of a column in parts of equal length, by group.
#[derive(Debug, Default, Serialize)]
pub struct Trend {
    /// Name of the column.
    pub(crate) column: &'static str,
    /// The unit of the values.
    pub(crate) unit: &'static str,
    /// By the key of the group; `null` in JSON where a value is unknown.
    pub(crate) groups: Vec<GroupTrend>,
}

/// The values of a group.
#[derive(Debug, Serialize)]
pub(crate) struct GroupTrend {
    pub(crate) path: Vec<String>,
    pub(crate) values: Vec<f64>,
}

/// The course of a column in the parts of a series.
#[must_use]
pub fn trend(parts: Runs, column: &'static OverviewColumn, options: &CompareOptions) -> Trend {
    let options = CompareOptions {
        form: Form::Overview,
        sections: vec![Section::Overview],
        metrics: vec![GroupValue::Column(column)],
        sort_by: Vec::new(),
        has_tree: false,
        ..options.clone()
    };
    let report = super::report(Sides::one(parts), &options, &[]);
    let mut trend = Trend { column: column.name, ..Trend::default() };
    let mut groups = BTreeMap::new();
    for section in report.sections {
        for row in section.rows.into_iter().filter(|row| row.name == column.name) {
            trend.unit = row.unit.name();
            let values = row.runs.map(|runs| runs.values.baseline.into_vec());
            groups.insert(section.groups[row.group].key.clone(), values.unwrap_or_default());
        }
    }
    trend.groups = groups.into_iter().map(|(path, values)| GroupTrend { path, values }).collect();
    trend
}
