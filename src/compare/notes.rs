//! Which sections are reported, and why a selected section has no data.

use super::digest::Digest;
use super::options::Options;
use super::rows::{ReportRow, Table};
use super::sides::Sides;
use crate::diagnose::{Finding, Note, Side, why_empty};
use crate::model::Section;

/// Drops sections without data. A section that was selected by name stays, with the reason as a note.
pub(super) fn finish<P, R: ReportRow>(
    tables: &mut Vec<Table<P, R>>,
    sides: Sides<Option<&Digest>>,
    findings: Sides<&Vec<Finding>>,
    options: &Options,
) {
    let empty = |table: &Table<P, R>| table.rows.iter().all(R::is_absent) && table.notes.is_empty();
    if options.sections.is_empty() {
        tables.retain(|table| !empty(table));
        return;
    }
    for table in tables.iter_mut() {
        if !empty(table) {
            table.notes.extend(metrics_without_data(table, sides, findings, options));
        }
        if empty(table) {
            table.notes = no_data(table.section, sides, findings, options);
        } else if table.rows.iter().all(R::is_silent) && table.notes.is_empty() {
            table.notes.push(Note::NothingChanged);
        }
    }
    if !options.group_by.is_by_cgroup() {
        for &section in options.sections.iter().filter(|section| section.is_of_cgroups()) {
            let notes = vec![Note::NeedsCgroupGrouping];
            tables.push(Table { section, groups: Vec::new(), rows: Vec::new(), notes });
        }
    }
    tables.sort_by_key(|table| table.section);
}

/// Why selected metrics have no data, in a section that has some.
fn metrics_without_data<P, R: ReportRow>(
    table: &Table<P, R>,
    sides: Sides<Option<&Digest>>,
    findings: Sides<&Vec<Finding>>,
    options: &Options,
) -> Vec<Note> {
    let has_data = |name: &str| table.rows.iter().any(|row| row.name() == name && !row.is_absent());
    let missing = options.metrics.iter().filter(|metric| metric.section() == table.section && !has_data(metric.name()));
    let notes = missing.flat_map(|metric| {
        let only = Options { metrics: vec![*metric], ..options.clone() };
        let notes = no_data(table.section, sides, findings, &only).into_iter();
        let metric = metric.name().to_owned();
        notes.filter_map(move |note| match note {
            Note::NoData { side, why } => Some(Note::MetricWithoutData { metric: metric.clone(), side, why }),
            _ => None,
        })
    });
    notes.collect()
}

/// Why a selected section has no data: one note, or one per side if the causes differ.
fn no_data(
    section: Section,
    sides: Sides<Option<&Digest>>,
    findings: Sides<&Vec<Finding>>,
    options: &Options,
) -> Vec<Note> {
    let selects = |name: &str| options.metrics.is_empty() || options.metrics.iter().any(|metric| metric.name() == name);
    let why = |digest: &Digest, findings| why_empty(section, &digest.head, findings, selects);
    let baseline = sides.baseline.map(|digest| why(digest, findings.baseline));
    let candidate = sides.candidate.map(|digest| why(digest, findings.candidate));
    let note = |side, why| Note::NoData { side, why };
    match (baseline, candidate) {
        (Some(a), Some(b)) if a != b => vec![note(Some(Side::Baseline), a), note(Some(Side::Candidate), b)],
        (a, b) => a.or(b).map(|why| note(None, why)).into_iter().collect(),
    }
}
