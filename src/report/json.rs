//! Reports as JSON: one object, raw numbers with units, absent values as null.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::ser::Formatter;

use super::{DisplayOptions, REPORT_FORMAT_VERSION, ShownSection, controls_terminal, interval_json, report_facts};
use crate::compare::{Report, ReportSection, Row, RowRuns};
use crate::diagnose::Note;
use crate::model::sorted::CollectSorted;
use crate::model::{Cell, Section};
use crate::statistics::Verdict;

/// Writes a report as JSON. Errors come from `out`.
pub fn write_json(out: &mut dyn Write, report: &Report, selection: &DisplayOptions) -> io::Result<()> {
    object(out, &ReportJson(report, selection))
}

/// Writes the rows of a report, each as JSON on one line. Errors come from `out`.
pub fn write_json_lines(out: &mut dyn Write, report: &Report, selection: &DisplayOptions) -> io::Result<()> {
    report.sections.iter().try_for_each(|section| {
        let section = ShownSection::new(section, selection);
        section.rows.iter().try_for_each(|row| object(out, &RowJson(&section, row)))
    })
}

pub(super) fn object(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    escaped_json(out, value, controls_terminal)?;
    writeln!(out)
}

/// Writes a value as JSON on one line, in which these characters are escaped.
pub(super) fn escaped_json(
    out: &mut dyn Write,
    value: &impl Serialize,
    is_escaped: fn(char) -> bool,
) -> io::Result<()> {
    Ok(value.serialize(&mut serde_json::Serializer::with_formatter(out, EscapingFormatter(is_escaped)))?)
}

struct EscapingFormatter(fn(char) -> bool);

impl Formatter for EscapingFormatter {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| (self.0)(*c)) {
            out.write_all(&rest.as_bytes()[..at])?;
            c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))?;
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

struct ReportJson<'r>(&'r Report, &'r DisplayOptions);

impl Serialize for ReportJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(report, selection) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("format_version", &REPORT_FORMAT_VERSION)?;
        report_facts(report).iter().try_for_each(|fact| map.serialize_entry(fact.key, &fact.data))?;
        map.serialize_entry("group_by", &report.group_by)?;
        if let Some(trend) = report.trends.first() {
            map.serialize_entry("trend", trend)?;
        }
        let sections: Vec<_> = report.sections.iter().map(|section| ShownSection::new(section, selection)).collect();
        let rows = sections.iter().flat_map(|section| section.rows.iter().map(move |row| RowJson(section, row)));
        map.serialize_entry("rows", &rows.collect::<Vec<_>>())?;
        if report.is_comparison() {
            map.serialize_entry("renamed", &report.renamed)?;
            map.serialize_entry("gates", &report.gates)?;
        }
        map.serialize_entry("notes", &notes(&report.sections))?;
        map.end()
    }
}

fn notes(sections: &[ReportSection]) -> BTreeMap<&'static str, &[Note]> {
    let with_notes = sections.iter().filter(|section| !section.notes.is_empty());
    with_notes.map(|section| (section.section.name(), &section.notes[..])).into_map()
}

struct RowJson<'r>(&'r ShownSection<'r>, &'r Row);

impl Serialize for RowJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(section, row) = self;
        let group = section.group(row);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("section", row.section.name())?;
        map.serialize_entry("group", &group.label)?;
        map.serialize_entry("path", &group.key)?;
        map.serialize_entry("name_cut", &group.name_cut())?;
        map.serialize_entry("renamed", &group.renamed)?;
        map.serialize_entry("cgroups", &group.cgroups)?;
        map.serialize_entry("metric", &row.name)?;
        map.serialize_entry("unit", row.unit.name())?;
        if let Some(reason) = &row.reason {
            map.serialize_entry("reason", &**reason)?;
        }
        map.serialize_entry("members", &group.members())?;
        map.serialize_entry("uptime", &group.of_members(|members| members.uptime))?;
        if row.section == Section::Overview {
            map.serialize_entry("turnover", &group.turnover())?;
            map.serialize_entry("pid", &group.of_members(|members| members.pid))?;
            map.serialize_entry("tid", &group.of_members(|members| members.tid))?;
            map.serialize_entry("euid", &group.of_members(|members| members.euid))?;
            map.serialize_entry("throttled", &group.of_members(|members| members.throttled))?;
            let parents = group.parents();
            let parents = parents.map(|of| of.iter().map(|(name, count)| (&**name, count)).into_map());
            map.serialize_entry("parents", &parents)?;
            map.serialize_entry("hottest", &group.of_members(|members| members.hottest))?;
        }
        map.serialize_entry("coverage", &row.covered)?;
        match &row.values.candidate {
            Some(candidate) => {
                map.serialize_entry("change", &row.change)?;
                map.serialize_entry("baseline", &row.values.baseline)?;
                map.serialize_entry("candidate", candidate)?;
                map.serialize_entry("delta", &row.delta())?;
                map.serialize_entry("percent", &row.percent())?;
                if row.section == Section::Overview {
                    map.serialize_entry("headline", &row.headline)?;
                }
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
    let values = runs.values.as_ref().map(|values| values.iter().copied().map(number).collect::<Vec<_>>());
    map.serialize_entry("runs", &values)?;
    if runs.values.candidate.is_none() {
        return Ok(());
    }
    map.serialize_entry("ratio", &runs.estimate.map(|estimate| estimate.change))?;
    map.serialize_entry("interval", &runs.estimate.map(|estimate| interval_json(estimate.interval)))?;
    map.serialize_entry("verdict", &runs.verdict.map(Verdict::name))?;
    map.serialize_entry("runs_needed", &runs.needed)
}

/// Larger whole numbers are not exact.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The number of a run: a whole one without a point, and null if it is unknown.
#[expect(clippy::cast_possible_truncation, reason = "whole and small enough")]
pub(super) fn number(number: f64) -> Cell {
    let is_exact = number.fract() == 0.0 && number.abs() <= MOST_EXACT;
    if is_exact { Cell::Signed(number as i64) } else { Cell::Ratio(number) }
}
