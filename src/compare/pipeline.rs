//! From digests to the sections of a report: groups, then the values of every group, on each side.

use std::collections::{BTreeMap, BTreeSet};

use super::cgroup_keys::CgroupKeys;
use super::cgroup_keys::renamed::Renamed;
use super::digest::{Digest, ThreadNames};
use super::group::{self, Groups, Naming};
use super::group_glob::{GroupGlob, NoSuchGroup};
use super::judge::{Judge, KnownValues};
use super::measurement::SideSection;
use super::merge::SectionRuns;
use super::options::{CompareOptions, GroupBy, Per};
use super::rows::ReportSection;
use super::sides::{Sides, joined};
use super::{captures, overview, records, smaps};
use crate::diagnose::Side;
use crate::model::{Psi, SchedExtSysfs, Section};
use crate::statistics::Design;

/// Every section of a side, and which values each of its runs has.
type SideSections = BTreeMap<Section, (SideSection, KnownValues)>;

pub(super) struct Captures {
    pub(super) sides: Sides<GroupedSide>,
    cgroups: CgroupKeys,
    pub(super) design: Design,
}

pub(super) struct GroupedSide {
    side: Side,
    pub(super) digests: Vec<Digest>,
    groups: Vec<Groups>,
}

/// Whether sections have the values of each run, and what runs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Yes,
    No,
}

impl Captures {
    /// Groups every capture. The keys of names depend on the names of all captures together.
    pub(super) fn new(digests: Sides<Vec<Digest>>, design: Design, options: &CompareOptions) -> Self {
        let names = || digests.iter().flatten().flat_map(|digest| digest.threads.by_names.keys());
        let process = &group::keys(names().map(|names| &*names.process), options);
        let thread = &group::keys(names().map(|names| &*names.thread), options);
        let tasks = digests.as_ref().map(|side| side.iter().flat_map(|digest| tasks(digest, options)).collect());
        let recorded = digests.iter().flatten().flat_map(|digest| digest.head.cgroup_stats.keys());
        let cgroups = CgroupKeys::learn(&tasks, recorded.map(String::as_str), options);
        let sides = digests.zip(Sides::two(Side::Baseline, Side::Candidate));
        let mut sides = sides.par_map(|(mut digests, side)| {
            let naming = Naming { by: options.group_by, process, thread, cgroups: &cgroups, side };
            let threads = digests.iter_mut().map(|digest| std::mem::take(&mut digest.threads.by_names));
            GroupedSide { groups: threads.map(|by_names| group::groups(by_names, &naming)).collect(), side, digests }
        });
        let mut all: Vec<_> = sides.as_mut().into_iter().flat_map(|side| &mut side.groups).collect();
        if options.group_by == GroupBy::All {
            group::drop_only_children(&mut all);
        }
        all.into_iter().for_each(|groups| group::add_total(groups, options));
        Self { sides, cgroups, design }
    }

    pub(super) fn are_repeated(&self) -> bool {
        self.sides.iter().any(|side| side.digests.len() > 1)
    }

    /// The sections that the options select, of each side.
    pub(super) fn sections(&self, per: Per, options: &CompareOptions, judged: Judged) -> Vec<ReportSection> {
        let sides = self.sides.as_ref().par_map(|side| side.sections(&self.cgroups, per, options, judged));
        let table = |(section, sides): (Section, Sides<Option<(SideSection, KnownValues)>>)| {
            let keys = if is_sorted(section) { &options.sort_by[..] } else { &[] };
            let mut groups = sides.map(Option::unwrap_or_default);
            let known = groups.as_mut().map(|(_, known)| std::mem::take(known));
            let judge = Judge { known, design: self.design, threshold: options.threshold };
            let judge = Some(&judge).filter(|_| judged == Judged::Yes);
            let mut table = ReportSection::new(section, groups.map(|(groups, _)| groups), keys, judge);
            let is_by_cgroup = is_sorted(section) || section.is_of_cgroups();
            for group in table.groups.iter_mut().filter(|_| is_by_cgroup) {
                group.renamed = group.key.first().is_some_and(|cgroup| self.cgroups.is_renamed(cgroup));
            }
            table
        };
        joined(sides).into_iter().map(table).collect()
    }

    /// The renamed cgroups among the reported groups.
    pub(super) fn renamed(&self, options: &CompareOptions) -> Vec<Renamed> {
        let is_wanted = |pair: &&Renamed| options.wants_group(std::slice::from_ref(&pair.baseline));
        self.cgroups.list.iter().filter(is_wanted).cloned().collect()
    }

    /// The selections of groups that match none, of threads or of cgroups.
    pub(super) fn unmatched(&self, options: &CompareOptions) -> Vec<NoSuchGroup> {
        if options.only.is_empty() {
            return Vec::new();
        }
        let mut names: BTreeSet<String> = BTreeSet::new();
        for GroupedSide { digests, groups, side } in self.sides.iter() {
            names.extend(groups.iter().flat_map(Groups::keys).flatten().cloned());
            if options.group_by.is_by_cgroup() {
                let paths = digests.iter().flat_map(|digest| digest.head.cgroup_stats.keys());
                names.extend(paths.map(|path| self.cgroups.key(*side, path)));
            }
        }
        let is_unmatched = |glob: &&GroupGlob| !names.iter().any(|name| glob.is_match(name));
        let unmatched = options.only.iter().filter(is_unmatched);
        unmatched.map(|glob| NoSuchGroup::new(glob, names.iter().map(String::as_str))).collect()
    }
}

/// The names of all threads of a digest, which tell cgroups that have another name in the candidate.
fn tasks<'d>(digest: &'d Digest, options: &CompareOptions) -> Vec<&'d ThreadNames> {
    match options.group_by {
        GroupBy::Cgroup => digest.threads.tasks.iter().collect(),
        _ => digest.threads.by_names.keys().collect(),
    }
}

impl GroupedSide {
    /// The sections of the side. Of several runs, each is reduced when its turn comes.
    fn sections(&self, cgroups: &CgroupKeys, per: Per, options: &CompareOptions, judged: Judged) -> SideSections {
        let mut runs = (0..self.digests.len()).map(|run| self.sections_of_run(run, cgroups, per, options));
        if judged == Judged::No {
            let sections = runs.next().unwrap_or_default().into_iter();
            let wanted =
                |(section, groups)| (section, (wanted_groups(section, groups, options), KnownValues::default()));
            return sections.map(wanted).collect();
        }
        let mut all: BTreeMap<Section, SectionRuns> = BTreeMap::new();
        for (run, sections) in runs.enumerate() {
            for (section, groups) in sections {
                let runs = all.entry(section).or_insert_with(|| SectionRuns::new(self.digests.len()));
                runs.know(run, &groups);
                runs.add(run, wanted_groups(section, groups, options));
            }
        }
        let merged = |(section, runs): (Section, SectionRuns)| {
            (section, runs.merged(if is_sorted(section) { &options.sort_by } else { &[] }))
        };
        all.into_iter().map(merged).collect()
    }

    fn sections_of_run(
        &self,
        run: usize,
        cgroups: &CgroupKeys,
        per: Per,
        options: &CompareOptions,
    ) -> BTreeMap<Section, SideSection> {
        let Digest { head, threads, .. } = &self.digests[run];
        let mut sections = group::sections(head, &self.groups[run], options);
        for &section in Section::ALL.iter().filter(|section| options.wants(**section)) {
            let groups = match section {
                section if section.is_of_cgroups() && options.group_by.is_by_cgroup() => {
                    records::cgroup_section(head, section, |path| cgroups.key(self.side, path), options)
                }
                Section::Overview => overview::section(head, &self.groups[run], per, options),
                Section::HostPressure => records::host_section("host", head.psi.as_ref().map(Psi::values)),
                Section::SchedExt => {
                    let values = head.sched_ext.as_ref().map(SchedExtSysfs::values);
                    records::host_section("sched_ext", values)
                }
                Section::SmapsRollup => smaps::section(&threads.memory, options),
                Section::Capture => captures::section(head),
                _ => continue,
            };
            sections.insert(section, groups);
        }
        sections
    }
}

fn wanted_groups(section: Section, mut groups: SideSection, options: &CompareOptions) -> SideSection {
    if section.has_named_groups() {
        groups.retain(|key, _| key.is_empty() || options.wants_group(key));
    }
    groups
}

/// Whether groups of a section can be sorted by quantities of threads.
fn is_sorted(section: Section) -> bool {
    section == Section::Overview || section.is_of_threads()
}
