//! From digests to the sections of each side: groups, then a value of everything for every group.

use std::collections::BTreeMap;

use super::cgroup_keys::{CgroupKeys, Renamed};
use super::digest::Digest;
use super::entry::{SideSection, middle_of_runs};
use super::group::{self, Groups, Naming};
use super::rows::{ReportRow, Table};
use super::{GroupBy, Options, Sides, captures, records, smaps};
use crate::diagnose::{Finding, Note};
use crate::model::Section;

/// Every section of one capture.
type Sections = BTreeMap<Section, SideSection>;

/// Both sides, each capture of a side reduced to its sections.
pub(super) struct Reduced {
    /// The captures, without their threads.
    pub(super) digests: Sides<Vec<Digest>>,
    pub(super) sections: Sides<Vec<Sections>>,
    pub(super) renamed: Vec<Renamed>,
}

/// Reduces every capture. Names become keys by what all captures together have.
pub(super) fn reduce(mut sides: Sides<Vec<Digest>>, options: &Options) -> Reduced {
    let digests = || sides.baseline.iter().chain(&sides.candidate);
    let process = group::keys(digests(), options, |names| &names.process);
    let thread = group::keys(digests(), options, |names| &names.thread);
    let cgroups = CgroupKeys::learn(sides.as_ref().map(Vec::as_slice), options);
    let naming = |cgroup| Naming { by: options.group_by, process: &process, thread: &thread, cgroup };
    let baseline = |path: &str| cgroups.baseline(path);
    let candidate = |path: &str| cgroups.candidate(path);
    let groups_of = |digests: &mut Vec<Digest>, naming: Naming<'_>| -> Vec<Groups> {
        digests.iter_mut().map(|digest| group::groups(std::mem::take(&mut digest.kinds), &naming)).collect()
    };
    let mut groups = Sides::from(rayon::join(
        || groups_of(&mut sides.baseline, naming(&baseline)),
        || groups_of(&mut sides.candidate, naming(&candidate)),
    ));
    if options.group_by == GroupBy::All {
        group::drop_only_children(groups.baseline.iter_mut().chain(&mut groups.candidate));
    }
    let sections_of = |digests: &mut Vec<Digest>, groups: Vec<Groups>, key: &(dyn Fn(&str) -> String + Sync)| {
        digests.iter_mut().zip(groups).map(|(digest, groups)| sections(digest, &groups, key, options)).collect()
    };
    let Sides { baseline: first, candidate: second } = groups;
    let sections = Sides::from(rayon::join(
        || sections_of(&mut sides.baseline, first, &baseline),
        || sections_of(&mut sides.candidate, second, &candidate),
    ));
    let mut reduced = Reduced { digests: sides, sections, renamed: cgroups.list };
    if options.group_by.is_by_cgroup() {
        reduced.mark_renamed();
    }
    reduced
}

impl Reduced {
    /// Marks the groups of cgroups that have another name in the candidate.
    fn mark_renamed(&mut self) {
        let names: Vec<&String> = self.renamed.iter().map(|renamed| &renamed.baseline).collect();
        let runs = self.sections.baseline.iter_mut().chain(&mut self.sections.candidate);
        let by_cgroup = |section: &Section| section.is_of_threads() || section.is_of_cgroups();
        let sections = runs.flatten().filter(|(section, _)| by_cgroup(section)).map(|(_, groups)| groups);
        for (path, group) in sections.flatten() {
            group.renamed = path.first().is_some_and(|cgroup| names.contains(&cgroup));
        }
    }
}

/// The sections of one capture.
fn sections(
    digest: &mut Digest,
    groups: &Groups,
    cgroup_key: &(dyn Fn(&str) -> String + Sync),
    options: &Options,
) -> Sections {
    let mut sections = group::sections(&digest.snapshot, groups, options);
    for &section in Section::ALL.iter().filter(|section| options.wants(**section)) {
        let groups = match section {
            section if section.is_of_cgroups() && options.group_by.is_by_cgroup() => {
                records::cgroup_section(&digest.snapshot, section, cgroup_key)
            }
            Section::HostPressure => records::host_pressure(&digest.snapshot),
            Section::SchedExt => records::sched_ext(&digest.snapshot),
            Section::SmapsRollup => smaps::section(std::mem::take(&mut digest.memory), options),
            Section::Capture => captures::section(&digest.snapshot),
            _ => continue,
        };
        sections.insert(section, groups);
    }
    sections
}

/// The captures of a side as one.
pub(super) fn middle(mut runs: Vec<Sections>) -> Sections {
    if runs.len() < 2 {
        return runs.pop().unwrap_or_default();
    }
    let mut sections: BTreeMap<Section, Vec<SideSection>> = BTreeMap::new();
    for (section, groups) in runs.into_iter().flatten() {
        sections.entry(section).or_default().push(groups);
    }
    sections.into_iter().map(|(section, runs)| (section, middle_of_runs(runs))).collect()
}

/// Drops sections that have nothing to say, or where sections were asked for by name, says why.
pub(super) fn finish<P, R: ReportRow>(tables: &mut Vec<Table<P, R>>, gaps: Sides<&[Finding]>, options: &Options) {
    let empty = |table: &Table<P, R>| table.rows.iter().all(R::is_absent) && table.notes.is_empty();
    if options.sections.is_empty() {
        tables.retain(|table| !empty(table));
        return;
    }
    for table in tables.iter_mut() {
        if empty(table) {
            table.notes.push(captures::why_nothing(table.section, gaps));
        } else if table.rows.iter().all(R::is_silent) && table.notes.is_empty() {
            table.notes.push(Note::Unchanged);
        }
    }
    for &section in options.sections.iter().filter(|section| section.is_of_cgroups()) {
        if !options.group_by.is_by_cgroup() {
            tables.push(Table { section, groups: Vec::new(), rows: Vec::new(), notes: vec![Note::OnlyByCgroup] });
        }
    }
    tables.sort_by_key(|table| table.section);
}
