//! Reports as JSON: one object, raw numbers with units, absent values as null.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::REPORT_FORMAT_VERSION;
use super::facts::facts;
use super::gates::GateJson;
use super::selection::{Selection, Shown};
use crate::compare::{Report, ReportSection, Row, RowRuns};
use crate::diagnose::Note;
use crate::model::Section;
use crate::statistics::{Interval, Verdict};

/// Writes a report as JSON. Errors are those of `out`.
pub fn write_json(out: &mut dyn Write, report: &Report, selection: &Selection) -> io::Result<()> {
    object(out, &ReportJson(report, selection))
}

/// One object and a newline.
pub(super) fn object(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

struct ReportJson<'r>(&'r Report, &'r Selection);

impl Serialize for ReportJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(report, selection) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("format_version", &REPORT_FORMAT_VERSION)?;
        facts(report).iter().try_for_each(|fact| map.serialize_entry(fact.key, &fact.data))?;
        map.serialize_entry("group_by", &report.group_by)?;
        map.serialize_entry("rows", &RowsJson(&report.sections, selection))?;
        if report.is_comparison() {
            map.serialize_entry("renamed", &report.renamed)?;
            map.serialize_entry("gates", &report.gates.iter().map(GateJson).collect::<Vec<_>>())?;
        }
        map.serialize_entry("notes", &notes(&report.sections))?;
        map.end()
    }
}

/// The notes by section.
fn notes(sections: &[ReportSection]) -> BTreeMap<&'static str, &[Note]> {
    let told = sections.iter().filter(|section| !section.notes.is_empty());
    told.map(|section| (section.section.name(), &section.notes[..])).collect()
}

struct RowsJson<'r>(&'r [ReportSection], &'r Selection);

impl Serialize for RowsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(sections, selection) = self;
        let mut rows = serializer.serialize_seq(None)?;
        for section in *sections {
            let section = Shown::new(section, selection);
            section.rows.iter().try_for_each(|row| rows.serialize_element(&RowJson { section: &section, row }))?;
        }
        rows.end()
    }
}

struct RowJson<'r> {
    section: &'r Shown<'r>,
    row: &'r Row,
}

impl Serialize for RowJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { section, row } = self;
        let group = section.group(row);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("section", row.section.name())?;
        map.serialize_entry("group", &group.label)?;
        map.serialize_entry("path", &group.key)?;
        map.serialize_entry("name_cut", &group.name_cut)?;
        map.serialize_entry("renamed", &group.renamed)?;
        map.serialize_entry("metric", &row.name)?;
        map.serialize_entry("unit", row.unit.name())?;
        map.serialize_entry("members", &group.members())?;
        map.serialize_entry("uptime", &group.uptime())?;
        if row.section == Section::Overview {
            map.serialize_entry("turnover", &group.turnover())?;
        }
        map.serialize_entry("coverage", &row.covered)?;
        match &row.values.candidate {
            Some(candidate) => {
                map.serialize_entry("change", &row.change)?;
                map.serialize_entry("baseline", &row.values.baseline)?;
                map.serialize_entry("candidate", candidate)?;
                map.serialize_entry("delta", &row.delta)?;
                map.serialize_entry("percent", &row.percent)?;
            }
            None => map.serialize_entry("value", &row.values.baseline)?,
        }
        if let Some(runs) = &row.runs {
            runs_json(&mut map, runs)?;
        }
        map.end()
    }
}

/// The values of all runs, and of two sides what they say.
fn runs_json<M: SerializeMap>(map: &mut M, runs: &RowRuns) -> Result<(), M::Error> {
    map.serialize_entry("runs", &runs.values.as_ref().map(|values| Numbers(values)))?;
    if runs.values.candidate.is_none() {
        return Ok(());
    }
    map.serialize_entry("ratio", &runs.estimate.map(|estimate| estimate.change))?;
    let ends = |Interval { low, high }| BTreeMap::from([("low", low), ("high", high)]);
    map.serialize_entry("interval", &runs.estimate.map(|estimate| ends(estimate.interval)))?;
    map.serialize_entry("verdict", &runs.verdict.map(Verdict::name))?;
    map.serialize_entry("runs_needed", &runs.needed)
}

/// Numbers of runs: whole ones without a point, and null for those that are unknown.
struct Numbers<'n>(&'n [f64]);

/// Larger whole numbers are not exact.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut numbers = serializer.serialize_seq(Some(self.0.len()))?;
        for number in self.0 {
            if number.fract() == 0.0 && number.abs() <= MOST_EXACT {
                #[expect(clippy::cast_possible_truncation, reason = "whole and small enough")]
                numbers.serialize_element(&(*number as i64))?;
            } else {
                numbers.serialize_element(number)?;
            }
        }
        numbers.end()
    }
}
