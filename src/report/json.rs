//! Reports as JSON: one object, raw numbers with their units named, every row, absent as null.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::REPORT_FORMAT_VERSION;
use crate::compare::{Change, Comparison, Delta, GroupBy, Header, Renamed, Row, Side, Sides, Table, View};
use crate::diagnose::{Finding, Note};
use crate::model::Cell;

#[derive(Serialize)]
struct ComparisonJson<'a> {
    format_version: u32,
    #[serde(flatten)]
    header: Option<&'a Header>,
    group_by: GroupBy,
    rows: Vec<RowJson<'a>>,
    renamed: &'a [Renamed],
    notes: BTreeMap<&'static str, &'a [Note]>,
}

#[derive(Serialize)]
struct RowJson<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    members: Sides<Option<u64>>,
    uptime: Sides<Option<f64>>,
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
    snapshot: Option<&'a Side>,
    host: BTreeMap<&'a str, &'a str>,
    gaps: &'a [Finding],
    group_by: GroupBy,
    rows: Vec<ViewRowJson<'a>>,
    notes: BTreeMap<&'static str, &'a [Note]>,
}

#[derive(Serialize)]
struct ViewRowJson<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    members: Option<u64>,
    uptime: Option<f64>,
    coverage: u64,
    value: Option<&'a Cell>,
}

/// Where a row stands: the same in both reports.
#[derive(Serialize)]
struct Place<'a> {
    section: &'static str,
    group: &'a str,
    path: &'a [String],
    name_cut: bool,
    renamed: bool,
    metric: &'a str,
    unit: &'static str,
}

impl<'a> Place<'a> {
    fn new(table: &'a Table, row: &'a Row) -> Self {
        let group = &table.groups[row.group];
        Self {
            section: table.section.name(),
            group: &group.name,
            path: &group.path,
            name_cut: group.name_cut,
            renamed: group.renamed,
            metric: &row.name,
            unit: row.unit.name(),
        }
    }
}

/// Writes a comparison as JSON.
///
/// # Errors
/// Those of `out`.
pub fn comparison_json(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    let json = ComparisonJson {
        format_version: REPORT_FORMAT_VERSION,
        header: comparison.header.as_ref(),
        group_by: comparison.group_by,
        rows: rows(&comparison.tables, row),
        renamed: &comparison.renamed,
        notes: notes(&comparison.tables),
    };
    object(out, &json)
}

/// Writes one snapshot's groups as JSON.
///
/// # Errors
/// Those of `out`.
pub fn view_json(out: &mut dyn Write, view: &View) -> io::Result<()> {
    let json = ViewJson {
        format_version: REPORT_FORMAT_VERSION,
        snapshot: view.side.as_ref(),
        host: view.host.iter().map(|(field, value)| (field.as_str(), value.as_str())).collect(),
        gaps: &view.gaps,
        group_by: view.group_by,
        rows: rows(&view.tables, view_row),
        notes: notes(&view.tables),
    };
    object(out, &json)
}

fn rows<'a, J>(tables: &'a [Table], json: fn(&'a Table, &'a Row) -> J) -> Vec<J> {
    tables.iter().flat_map(|table| table.rows.iter().map(move |row| json(table, row))).collect()
}

fn row<'a>(table: &'a Table, row: &'a Row) -> RowJson<'a> {
    RowJson {
        place: Place::new(table, row),
        members: table.groups[row.group].members,
        uptime: table.groups[row.group].uptime,
        coverage: row.covered,
        change: row.change,
        baseline: row.values.baseline.as_ref(),
        candidate: row.values.candidate.as_ref(),
        delta: row.delta.as_ref(),
        percent: row.percent,
    }
}

fn view_row<'a>(table: &'a Table, row: &'a Row) -> ViewRowJson<'a> {
    ViewRowJson {
        place: Place::new(table, row),
        members: table.groups[row.group].members.baseline,
        uptime: table.groups[row.group].uptime.baseline,
        coverage: row.covered.baseline,
        value: row.values.baseline.as_ref(),
    }
}

/// What the sections have to say, of those that have something.
fn notes(tables: &[Table]) -> BTreeMap<&'static str, &[Note]> {
    let told = tables.iter().filter(|table| !table.notes.is_empty());
    told.map(|table| (table.section.name(), table.notes.as_slice())).collect()
}

/// One object and a newline.
pub(super) fn object(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}
