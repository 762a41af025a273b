//! Which of the gaps of a capture matter for what a report shows.

use std::collections::BTreeSet;

use super::{Quantity, Report, ReportSection};
use crate::diagnose::{DataSource, Finding};
use crate::model::{Section, SourceFile};

impl Report {
    /// The gaps that rows of the report need: of an overview alone, those that some of its groups lack. What no group has is
    /// said below it.
    pub(crate) fn needed_gaps(&self) -> impl Iterator<Item = &Finding> {
        let is_overview = self.sections.iter().all(|section| section.section == Section::Overview);
        let needed: BTreeSet<DataSource> =
            self.sections.iter().flat_map(|section| needed(section, is_overview)).collect();
        let is_whole = self.sections.iter().any(|section| section.section == Section::Capture);
        self.gaps.iter().filter(move |gap| is_whole || needed.iter().any(|source| gap.source.decides(source)))
    }
}

fn needed(section: &ReportSection, is_overview: bool) -> BTreeSet<DataSource> {
    let of_section = match section.section {
        Section::SmapsRollup => Some(DataSource::File(SourceFile::SmapsRollup)),
        Section::HostPressure | Section::Pressure => Some(DataSource::Pressure),
        Section::SchedExt => Some(DataSource::SchedExt),
        other if other.is_of_cgroups() => Some(DataSource::Cgroups),
        _ => None,
    };
    let with_values: BTreeSet<&str> =
        section.rows.iter().filter(|row| !row.is_absent()).map(|row| &*row.name).collect();
    let mut sources: BTreeSet<DataSource> = of_section.into_iter().collect();
    for row in section.rows.iter().filter(|row| !is_overview || with_values.contains(&*row.name)) {
        let of_row = row.quantity.map(Quantity::inputs).unwrap_or_default().into_iter().map(DataSource::of_metric);
        // Few programs use jemalloc: the others lack nothing.
        let lacks = |source: &DataSource| row.partial || (row.is_absent() && *source != DataSource::Jemalloc);
        sources.extend(of_row.filter(|source| !is_overview || lacks(source)));
    }
    sources
}
