//! Selection of a capture's gaps: the ones that matter for what a report shows.

use std::collections::BTreeSet;

use super::{Quantity, Report, ReportSection};
use crate::diagnose::{DataSource, Finding};
use crate::model::sorted::CollectSorted;
use crate::model::{Section, SourceFile};

impl Report {
    /// Returns the gaps that rows of the report need: of an overview alone, gaps that some of its groups have. What no group has
    /// is said below it.
    pub(crate) fn needed_gaps(&self) -> impl Iterator<Item = &Finding> {
        let is_overview = self.sections.iter().all(|section| section.section == Section::Overview);
        let needed: BTreeSet<DataSource> =
            self.sections.iter().flat_map(|section| needed(section, is_overview)).into_set();
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
        section.rows.iter().filter(|row| !row.is_absent()).map(|row| &*row.name).into_set();
    let mut sources: BTreeSet<DataSource> = of_section.into_iter().into_set();
    for row in section.rows.iter().filter(|row| !is_overview || with_values.contains(&*row.name)) {
        let of_row = row.quantity.map(Quantity::inputs).unwrap_or_default().into_iter().map(DataSource::of_metric);
        // Few programs use jemalloc: the others lack nothing, nor do all groups together.
        let lacks = |source: &DataSource| match source {
            DataSource::Jemalloc => row.partial && !section.groups[row.group].is_all(),
            _ => row.partial || row.is_absent(),
        };
        sources.extend(of_row.filter(|source| !is_overview || lacks(source)));
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Selection;
    use crate::compare::{CompareOptions, show};
    use crate::model::{CtprofSnapshot, MetricId, ThreadState};

    #[test]
    fn a_section_of_one_source_needs_it_whatever_its_rows_are() {
        let of = |section| Vec::from_iter(needed(&ReportSection::empty(section, Vec::new()), false));
        assert_eq!(of(Section::SmapsRollup), [DataSource::File(SourceFile::SmapsRollup)]);
        assert_eq!([Section::HostPressure, Section::Pressure].map(of), [(); 2].map(|()| [DataSource::Pressure]));
        assert_eq!(of(Section::SchedExt), [DataSource::SchedExt]);
        assert_eq!([Section::CgroupStats, Section::IoStat].map(of), [(); 2].map(|()| [DataSource::Cgroups]));
        assert!(of(Section::Primary).is_empty());
    }

    #[test]
    fn the_overview_needs_what_some_of_its_groups_lack_and_other_sections_all_that_they_show() {
        let needs_waits = |section, waits| {
            let threads =
                ["one", "another"].into_iter().zip(waits).map(|(name, wait)| thread(name, wait, None)).collect();
            let options = CompareOptions {
                selection: Selection { sections: vec![section], ..Selection::default() },
                ..CompareOptions::default()
            };
            let report = show(&CtprofSnapshot { threads, ..CtprofSnapshot::default() }, &options);
            let source = DataSource::of_metric(MetricId::wait_time_ns.metric());
            needed(&report.sections[0], section == Section::Overview).contains(&source)
        };
        assert!(needs_waits(Section::Overview, [Some(5), None]));
        assert!(!needs_waits(Section::Overview, [Some(5), Some(5)]));
        assert!(!needs_waits(Section::Overview, [None, None]), "what no group has is said below");
        assert!(needs_waits(Section::Primary, [Some(5), Some(5)]));
    }

    #[test]
    fn heap_counters_are_lacked_by_programs_of_which_some_threads_have_them_and_not_by_others() {
        let needs_heaps = |threads: [(&str, Option<u64>); 2]| {
            let threads = threads.map(|(name, allocated)| thread(name, Some(5), allocated)).into();
            let report = show(&CtprofSnapshot { threads, ..CtprofSnapshot::default() }, &CompareOptions::default());
            let overview = report.section(Section::Overview).unwrap();
            needed(overview, true).contains(&DataSource::Jemalloc)
        };
        assert!(!needs_heaps([("redis", Some(1 << 30)), ("sh", None)]));
        assert!(needs_heaps([("redis", Some(1 << 30)), ("redis", None)]));
    }

    fn thread(name: &str, wait: Option<u64>, allocated: Option<u64>) -> ThreadState {
        let mut thread = ThreadState { tid: 1, tgid: 1, pcomm: name.into(), ..ThreadState::default() };
        thread.metrics.wait_time_ns = wait.map(Into::into);
        thread.metrics.allocated_bytes = allocated.map(Into::into);
        thread
    }
}
