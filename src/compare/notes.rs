//! Selection of the sections that are reported, and notes on selected sections without data.

use super::{Digest, Grouping, Quantity, ReportSection, Row, Selection, Sides};
use crate::diagnose::{Finding, Note, Side, why_empty};
use crate::model::Section;
use crate::model::sorted::Arrange;

/// Input of notes: the first capture of each side, and its findings.
#[derive(Clone, Copy)]
pub(super) struct NoteWriter<'d> {
    pub(super) digests: Sides<&'d Digest>,
    pub(super) findings: Sides<&'d Vec<Finding>>,
    pub(super) grouping: &'d Grouping,
    pub(super) selection: &'d Selection,
}

impl NoteWriter<'_> {
    /// Drops sections without data. A section that was selected by name stays, with the reason as a note.
    pub(super) fn finish(self, sections: &mut Vec<ReportSection>) {
        let empty = |section: &ReportSection| section.rows.iter().all(Row::is_absent) && section.notes.is_empty();
        if self.selection.sections.is_empty() {
            sections.retain(|section| !empty(section));
            return;
        }
        for section in sections.iter_mut() {
            if !empty(section) {
                section.notes.extend(self.metrics_without_data(section));
            }
            if empty(section) {
                section.notes = self.no_data(section.section, &self.selection.metrics);
            } else if section.rows.iter().all(Row::is_silent) && section.notes.is_empty() {
                section.notes.push(Note::NothingChanged);
            }
        }
        if !self.grouping.axis.is_by_cgroup() {
            let needs_cgroups = self.selection.sections.iter().filter(|section| section.is_of_cgroups());
            sections
                .extend(needs_cgroups.map(|section| ReportSection::empty(*section, vec![Note::NeedsCgroupGrouping])));
        }
        sections.arrange_by_key(|section| section.section);
    }

    /// Why selected metrics have no data, in a section that has some.
    fn metrics_without_data(self, section: &ReportSection) -> Vec<Note> {
        let has_data = |name: &str| section.rows.iter().any(|row| row.name == name && !row.is_absent());
        let selected = self.selection.metrics.iter().filter(|metric| metric.section() == section.section);
        let missing = selected.filter(|metric| !has_data(metric.name()));
        let notes = missing.flat_map(|metric| {
            let notes = self.no_data(section.section, &[*metric]).into_iter();
            let metric = metric.name().to_owned();
            notes.filter_map(move |note| match note {
                Note::NoData { side, why } => Some(Note::MetricWithoutData { metric: metric.clone(), side, why }),
                _ => None,
            })
        });
        notes.collect()
    }

    /// Why a selected section has no data: one note, or one per side if the causes differ. The overview has none if the
    /// inputs of its columns have none.
    fn no_data(self, section: Section, metrics: &[Quantity]) -> Vec<Note> {
        let selects = |name: &str| metrics.is_empty() || metrics.iter().any(|metric| metric.includes(name));
        let section = if section == Section::Overview { Section::Primary } else { section };
        let sides = self.digests.zip(self.findings);
        let why = sides.map(|(digest, findings)| why_empty(section, &digest.head, findings, selects));
        let note = |side, why| Note::NoData { side, why };
        match (why.baseline, why.candidate) {
            (a, Some(b)) if a != b => vec![note(Some(Side::Baseline), a), note(Some(Side::Candidate), b)],
            (a, _) => vec![note(None, a)],
        }
    }
}
