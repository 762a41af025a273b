//! Reports as JSON: one object, raw numbers with their units named, every row, absent as null.

use std::io::{self, Write};

use serde::Serialize;

use super::REPORT_FORMAT_VERSION;
use crate::compare::{Change, Comparison, Delta, GroupBy, Header, Side, Sides, View};
use crate::model::{Cell, Gap, Metric};

#[derive(Serialize)]
struct ComparisonJson<'a> {
    format_version: u32,
    #[serde(flatten)]
    header: &'a Header,
    group_by: GroupBy,
    rows: Vec<RowJson<'a>>,
}

#[derive(Serialize)]
struct RowJson<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    threads: Sides<Option<u64>>,
    coverage: Sides<u64>,
    change: Change,
    baseline: Option<&'a Cell>,
    candidate: Option<&'a Cell>,
    delta: Option<&'a Delta>,
    percent: Option<f64>,
}

#[derive(Serialize)]
struct ViewJson<'a> {
    format_version: u32,
    snapshot: &'a Side,
    host: std::collections::BTreeMap<&'a str, &'a str>,
    gaps: &'a [Gap],
    group_by: GroupBy,
    rows: Vec<ViewRowJson<'a>>,
}

#[derive(Serialize)]
struct ViewRowJson<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    threads: u64,
    coverage: u64,
    value: Option<&'a Cell>,
}

/// Where a row stands: the same in both reports.
#[derive(Serialize)]
struct Place<'a> {
    section: &'static str,
    group: &'a str,
    name_cut: bool,
    metric: &'static str,
    unit: &'static str,
}

impl<'a> Place<'a> {
    fn new(group: &'a str, name_cut: bool, metric: &'static Metric) -> Self {
        Self { section: metric.section.name(), group, name_cut, metric: metric.name, unit: metric.unit.name() }
    }
}

/// Writes a comparison as JSON.
///
/// # Errors
/// Those of `out`.
pub fn comparison_json(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    let rows = comparison.rows.rows.iter().map(|row| {
        let group = &comparison.rows.groups[row.group];
        RowJson {
            place: Place::new(&group.name, group.name_cut, row.metric),
            threads: group.threads,
            coverage: row.covered,
            change: row.change,
            baseline: row.values.baseline.as_ref(),
            candidate: row.values.candidate.as_ref(),
            delta: row.delta.as_ref(),
            percent: row.percent,
        }
    });
    let json = ComparisonJson {
        format_version: REPORT_FORMAT_VERSION,
        header: &comparison.header,
        group_by: comparison.group_by,
        rows: rows.collect(),
    };
    object(out, &json)
}

/// Writes one snapshot's groups as JSON.
///
/// # Errors
/// Those of `out`.
pub fn view_json(out: &mut dyn Write, view: &View) -> io::Result<()> {
    let rows = view.rows.iter().map(|row| ViewRowJson {
        place: Place::new(&row.group, row.name_cut, row.metric),
        threads: row.threads,
        coverage: row.covered,
        value: row.value.as_ref(),
    });
    let json = ViewJson {
        format_version: REPORT_FORMAT_VERSION,
        snapshot: &view.side,
        host: view.host.iter().map(|(field, value)| (field.as_str(), value.as_str())).collect(),
        gaps: &view.gaps,
        group_by: view.group_by,
        rows: rows.collect(),
    };
    object(out, &json)
}

/// One object and a newline.
pub(super) fn object(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}
