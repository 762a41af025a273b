//! Pages as JSON: one object, raw numbers with units, absent values as null.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::REPORT_FORMAT_VERSION;
use super::gates::Gates;
use super::page::{Page, PageSection, Sided};
use crate::compare::Sides;
use crate::diagnose::Note;
use crate::model::Section;
use crate::statistics::{Interval, Verdict};

/// Writes a page as JSON.
///
/// # Errors
/// Errors of `out`.
pub fn write_json(out: &mut dyn Write, page: &Page<'_>) -> io::Result<()> {
    object(out, &Document(page))
}

/// One object and a newline.
pub(super) fn object(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

struct Document<'p>(&'p Page<'p>);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(page) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("format_version", &REPORT_FORMAT_VERSION)?;
        page.facts.iter().try_for_each(|fact| map.serialize_entry(fact.key, &fact.data))?;
        map.serialize_entry("group_by", &page.group_by)?;
        map.serialize_entry("rows", &Rows(&page.sections))?;
        if let Some(renamed) = page.renamed {
            map.serialize_entry("renamed", renamed)?;
        }
        if let Some(gates) = page.gates {
            map.serialize_entry("gates", &Gates(gates))?;
        }
        map.serialize_entry("notes", &notes(&page.sections))?;
        map.end()
    }
}

/// The notes by section.
fn notes<'p>(sections: &[PageSection<'p>]) -> BTreeMap<&'static str, &'p [Note]> {
    let told = sections.iter().filter(|section| !section.notes.is_empty());
    told.map(|section| (section.section.name(), section.notes)).collect()
}

struct Rows<'p>(&'p [PageSection<'p>]);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(None)?;
        for section in self.0 {
            (0..section.rows.len()).try_for_each(|place| rows.serialize_element(&Row { section, place }))?;
        }
        rows.end()
    }
}

struct Row<'p> {
    section: &'p PageSection<'p>,
    place: usize,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = &self.section.rows[self.place];
        let group = &self.section.groups[row.group];
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("section", row.section.name())?;
        map.serialize_entry("group", group.name)?;
        map.serialize_entry("path", group.path)?;
        map.serialize_entry("name_cut", &group.name_cut)?;
        map.serialize_entry("renamed", &group.renamed)?;
        map.serialize_entry("metric", row.name)?;
        map.serialize_entry("unit", row.unit.name())?;
        map.serialize_entry("members", &group.members)?;
        map.serialize_entry("uptime", &group.uptime)?;
        if row.section == Section::Overview {
            map.serialize_entry("turnover", &group.turnover)?;
        }
        map.serialize_entry("coverage", &row.covered)?;
        match &row.values {
            Sided::One(value) => map.serialize_entry("value", value)?,
            Sided::Two(Sides { baseline, candidate }) => {
                map.serialize_entry("change", &row.change)?;
                map.serialize_entry("baseline", baseline)?;
                map.serialize_entry("candidate", candidate)?;
                map.serialize_entry("delta", &row.delta)?;
                map.serialize_entry("percent", &row.percent)?;
            }
        }
        if let Some(runs) = row.runs {
            map.serialize_entry("runs", &runs.values.as_ref().map(|values| Numbers(values)))?;
            map.serialize_entry("ratio", &runs.estimate.map(|estimate| estimate.ratio))?;
            let ends = |Interval { low, high }| BTreeMap::from([("low", low), ("high", high)]);
            map.serialize_entry("interval", &runs.estimate.map(|estimate| ends(estimate.interval)))?;
            map.serialize_entry("verdict", &runs.verdict.map(Verdict::name))?;
            map.serialize_entry("runs_needed", &runs.needed)?;
        }
        map.end()
    }
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
