//! A section of a page: its groups, its values, and the rows of JSON with a ready-made text beside each value.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;

use super::super::{
    cell_text, delta_text, group_change, indent, interval_text, label, of_headline, only_side, percent_text, threads,
    verdict_text, why,
};
use super::rows::PageSection;
use super::shared::Shared;
use crate::compare::{GateResult, GroupReason, Report, ReportSection, Row, Sides, of_kind};
use crate::model::{Cell, Section, Unit};

#[derive(Serialize)]
pub(super) struct SectionData<'p> {
    section: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    doc: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    groups: Vec<GroupData<'p>>,
    values: Vec<ValueData<'p>>,
    /// Rows in order: the places of group and value, then the cells: a value per side; of two sides the difference, and the
    /// difference in percent; of several runs the interval and the verdict.
    rows: Vec<Vec<usize>>,
}

#[derive(Serialize)]
struct GroupData<'p> {
    /// The index of the path; `None` for a host.
    path: Option<usize>,
    /// The displayed text; `None` if it is the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(flatten)]
    line: Option<OverviewLine<'p>>,
    /// Lines that say why the group's time passes; empty but for groups that lead an overview.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why: Vec<String>,
}

/// Facts about a group that an overview shows beside values.
#[derive(Serialize)]
struct OverviewLine<'p> {
    /// The cell with the number of threads; `None` for exited work of the group above.
    threads: Option<usize>,
    /// `new` or `gone`, if only one side has the group.
    only: Option<&'static str>,
    verdict: String,
    dots: Option<RunDots<'p>>,
    /// Whether the group did nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    idle: bool,
}

/// The values of the runs that a verdict is about, by side, with their texts.
#[derive(Serialize)]
pub(super) struct RunDots<'p> {
    name: &'p str,
    unit: &'static str,
    runs: Vec<Vec<(f64, String)>>,
    /// The value beyond which a gate fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<(f64, String)>,
}

#[derive(Serialize)]
struct ValueData<'p> {
    name: Cow<'p, str>,
    unit: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    doc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'p GroupReason>,
}

impl<'p> RunDots<'p> {
    pub(super) fn new(row: &'p Row) -> Option<Self> {
        let runs = &row.runs.as_ref()?.values;
        let with_text = with_text(&row.values, row.unit);
        let runs = runs.iter().map(|values| values.iter().map(&with_text).collect()).collect();
        Some(Self { name: &row.name, unit: row.unit.name(), runs, bound: None })
    }

    /// The runs that a gate was judged by; `None` of a gate on single runs.
    pub(super) fn of_gate(result: &'p GateResult) -> Option<Self> {
        let (runs, bound) = result.deciding_runs()?;
        let with_text = with_text(&result.values, result.unit);
        let runs = runs.iter().map(|values| values.iter().map(&with_text).collect()).collect();
        Some(Self { name: &result.metric, unit: result.unit.name(), runs, bound: Some(with_text(&bound)) })
    }
}

/// A number with the text that it has in cells beside these values.
fn with_text(values: &Sides<Option<Cell>>, unit: Unit) -> impl Fn(&f64) -> (f64, String) {
    let like = values.iter().flatten().next().cloned();
    move |number| {
        let cell = like.as_ref().filter(|_| !number.is_nan()).map(|like| of_kind(like, *number));
        (*number, cell_text(cell.as_ref(), unit))
    }
}

impl<'p> SectionData<'p> {
    pub(super) fn new(page: PageSection<'p>, report: &'p Report, shared: &mut Shared<'p>) -> Self {
        let section = page.shown.section;
        // Gaps are rows of their own.
        let gaps: Vec<_> = report.gaps.iter().map(ToString::to_string).collect();
        let notes = section.notes.iter().map(ToString::to_string).filter(|note| !gaps.contains(note));
        let mut data = Self {
            doc: section.section.doc(),
            notes: page.left_out().into_iter().chain(notes).collect(),
            ..Self::empty(section.section.name())
        };
        let (mut groups, mut values) = (HashMap::new(), HashMap::new());
        for &row in &page.shown.rows {
            let group = *groups.entry(row.group).or_insert_with(|| {
                data.groups.push(GroupData::new(section, row, shared));
                data.groups.len() - 1
            });
            // Groups with the same reason have stacks of their own.
            let stack = row.reason.as_ref().and_then(|reason| reason.stack.as_ref());
            let value = *values.entry((&row.name, stack)).or_insert_with(|| {
                data.values.push(ValueData::new(row));
                data.values.len() - 1
            });
            data.rows.push([group, value].into_iter().chain(cells(row, shared)).collect());
        }
        if section.section == Section::Overview {
            for rows in page.shown.rows_of_groups() {
                let line = groups.get(&rows[0].group).and_then(|place| data.groups[*place].line.as_mut());
                line.into_iter().for_each(|line| line.idle = page.shown.did_nothing(rows));
            }
            for (group, lines) in why::lines(report, &page.shown) {
                groups.get(&group).into_iter().for_each(|place| data.groups[*place].why.clone_from(&lines));
            }
        }
        data
    }

    /// Builds a section of texts that belong to no group: a name, and a text per side.
    pub(super) fn of_texts(
        section: &'static str,
        rows: impl IntoIterator<Item = (Cow<'p, str>, Vec<String>)>,
        shared: &mut Shared<'p>,
    ) -> Self {
        let mut data = Self::empty(section);
        data.groups.push(GroupData { path: None, label: None, line: None, why: Vec::new() });
        for (name, texts) in rows {
            let cells = texts.into_iter().map(|text| shared.cells.place(text, None, Unit::None));
            data.rows.push([0, data.values.len()].into_iter().chain(cells).collect());
            data.values.push(ValueData { name, unit: Unit::None.name(), doc: "", reason: None });
        }
        data
    }

    fn empty(section: &'static str) -> Self {
        Self { section, doc: "", notes: Vec::new(), groups: Vec::new(), values: Vec::new(), rows: Vec::new() }
    }
}

fn cells(row: &Row, Shared { cells, .. }: &mut Shared<'_>) -> Vec<usize> {
    let mut places: Vec<_> = row.values.iter().map(|cell| cells.of_value(cell.as_ref(), row)).collect();
    if row.values.candidate.is_some() {
        let (delta, percent) = (row.delta(), row.percent());
        let text = delta_text(delta.as_ref(), row.unit);
        places.push(cells.place(text, delta.and_then(|delta| delta.number()), row.unit));
        places.push(cells.place(percent_text(percent), percent, Unit::Percent));
    }
    if let Some(verdict) = row.verdict() {
        let is_clear = verdict.is_clear();
        places.push(cells.place(interval_text(row.runs.as_deref()), None, Unit::None));
        places.push(cells.place(verdict_text(row), Some(f64::from(u8::from(is_clear))), Unit::None));
    }
    places
}

impl<'p> GroupData<'p> {
    fn new(section: &'p ReportSection, row: &Row, shared: &mut Shared<'p>) -> Self {
        let group = &section.groups[row.group];
        let label = label(group).split_off(indent(group.key.len().saturating_sub(1)).len());
        let line = (section.section == Section::Overview).then(|| OverviewLine::new(section, row, shared));
        let label = Some(label).filter(|label| Some(label) != group.key.last());
        Self { path: shared.paths.place(&group.key), label, line, why: Vec::new() }
    }
}

impl<'p> OverviewLine<'p> {
    fn new(section: &'p ReportSection, row: &Row, shared: &mut Shared<'p>) -> Self {
        let group = &section.groups[row.group];
        if group.exited_work().is_some() {
            return Self { threads: None, only: None, verdict: String::new(), dots: None, idle: false };
        }
        let members = group.members().into_iter().last().flatten().map(|members| members as f64);
        Self {
            threads: Some(shared.cells.place(threads(group), members, Unit::Count)),
            only: only_side(group),
            verdict: group_change(section, row),
            dots: of_headline(section, row).and_then(|(row, _)| RunDots::new(row)),
            idle: false,
        }
    }
}

impl<'p> ValueData<'p> {
    fn new(row: &'p Row) -> Self {
        Self {
            name: Cow::Borrowed(&row.name),
            unit: row.unit.name(),
            doc: row.quantity.map(|quantity| quantity.about().doc).unwrap_or_default(),
            reason: row.reason.as_deref(),
        }
    }
}
