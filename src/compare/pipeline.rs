//! From digests to the sections of a report: groups, then the values of every group, on each side.

use std::collections::{BTreeMap, BTreeSet};

use super::cgroup_keys::CgroupKeys;
use super::cgroup_keys::renamed::Renamed;
use super::digest::{Digest, Memory, ThreadNames};
use super::group::{self, Groups, Naming};
use super::group_glob::{GroupGlob, NoSuchGroup};
use super::judge::{Judge, KnownValues};
use super::measurement::SideSection;
use super::merge::SectionRuns;
use super::options::{GroupBy, Options, Per};
use super::rows::ReportSection;
use super::runs;
use super::sides::{Sides, joined};
use super::{captures, overview, records, smaps};
use crate::model::Section;
use crate::names::Keys;
use crate::statistics::Design;

/// Every section of one capture.
type Sections = BTreeMap<Section, SideSection>;

/// Every section of a side, and which values each of its runs has.
type SideSections = BTreeMap<Section, (SideSection, KnownValues)>;

/// The captures of a report, grouped.
pub(super) struct Captures<'d> {
    sides: Sides<GroupedSide<'d>>,
    cgroups: &'d CgroupKeys<'d>,
    pub(super) design: Design,
}

/// The captures of one side, grouped.
struct GroupedSide<'d> {
    digests: &'d [Digest],
    groups: Vec<Groups>,
    memory: &'d [BTreeMap<String, Memory>],
    key: Key<'d>,
}

/// Maps the path of a cgroup to the key of its group.
type Key<'k> = &'k (dyn Fn(&str) -> String + Sync);

/// Whether sections have the values of each run, and what runs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Yes,
    No,
}

/// Groups every capture, and applies `report`. The keys of names depend on the names of all captures together.
pub(super) fn with_groups<R>(
    mut digests: Sides<Vec<Digest>>,
    options: &Options,
    report: impl FnOnce(&Sides<Vec<Digest>>, &Captures<'_>) -> R,
) -> R {
    let design = runs::pair(&mut digests);
    let threads = digests.as_mut().map(|side| take_each(side, |digest| &mut digest.by_names));
    let memory = digests.as_mut().map(|side| take_each(side, |digest| &mut digest.memory));
    let tasks = digests.as_mut().map(|side| take_each(side, |digest| &mut digest.tasks));
    let names = threads.as_ref().map(|side| side.iter().flat_map(|by_names| by_names.keys().cloned()).collect());
    let tasks = match options.group_by {
        GroupBy::Cgroup => tasks.map(|side| side.into_iter().flatten().collect()),
        _ => Sides::clone(&names),
    };
    let keys = NameKeys::learn(&digests, &names, &tasks, options);
    let (baseline, candidate) = (|path: &str| keys.cgroups.baseline(path), |path: &str| keys.cgroups.candidate(path));
    let key = Sides::<Key<'_>>::two(&baseline, &candidate);
    let mut groups = threads.zip(key).par_map(|(threads, cgroup)| -> Vec<Groups> {
        let naming = Naming { by: options.group_by, process: &keys.process, thread: &keys.thread, cgroup };
        threads.into_iter().map(|by_names| group::groups(by_names, &naming)).collect()
    });
    if options.group_by == GroupBy::All {
        group::drop_only_children(groups.as_mut().into_iter().flatten());
    }
    groups.as_mut().into_iter().flatten().for_each(|groups| group::add_total(groups, options));
    let sides = groups.zip(digests.as_ref()).zip(memory.as_ref()).zip(key);
    let sides = sides.map(|(((groups, digests), memory), key)| GroupedSide { digests, groups, memory, key });
    report(&digests, &Captures { sides, cgroups: &keys.cgroups, design })
}

fn take_each<T: Default>(digests: &mut [Digest], part: fn(&mut Digest) -> &mut T) -> Vec<T> {
    digests.iter_mut().map(|digest| std::mem::take(part(digest))).collect()
}

/// The keys of all names.
struct NameKeys<'n> {
    process: Keys,
    thread: Keys,
    cgroups: CgroupKeys<'n>,
}

impl<'n> NameKeys<'n> {
    /// Learns the keys of the names of groups; `tasks` tell cgroups that have another name in the candidate.
    fn learn(
        digests: &'n Sides<Vec<Digest>>,
        names: &'n Sides<Vec<ThreadNames>>,
        tasks: &'n Sides<Vec<ThreadNames>>,
        options: &Options,
    ) -> Self {
        let recorded = digests.as_ref().map(|side| side.iter().flat_map(|digest| digest.head.cgroup_stats.keys()));
        let cgroups = CgroupKeys::learn(
            tasks.as_ref().map(|tasks| tasks.iter().map(ThreadNames::as_task)),
            recorded.map(|paths| paths.map(String::as_str)),
            options,
        );
        let process = group::keys(names.iter().flatten().map(|names| &*names.process), options);
        let thread = group::keys(names.iter().flatten().map(|names| &*names.thread), options);
        Self { process, thread, cgroups }
    }
}

impl Captures<'_> {
    /// Whether a side has several runs.
    pub(super) fn are_repeated(&self) -> bool {
        self.sides.iter().any(|side| side.digests.len() > 1)
    }

    /// The sections that the options select, of each side.
    pub(super) fn sections(&self, per: Per, options: &Options, judged: Judged) -> Vec<ReportSection> {
        let mut sides = self.sides.as_ref().par_map(|side| side.sections(per, options, judged));
        self.mark_renamed(&mut sides);
        let table = |(section, sides): (Section, Sides<Option<(SideSection, KnownValues)>>)| {
            let keys = if is_sorted(section) { &options.sort_by[..] } else { &[] };
            let mut groups = sides.map(Option::unwrap_or_default);
            let known = groups.as_mut().map(|(_, known)| std::mem::take(known));
            let judge = Judge { known, design: self.design, threshold: options.threshold };
            let judge = Some(&judge).filter(|_| judged == Judged::Yes);
            ReportSection::new(section, groups.map(|(groups, _)| groups), keys, judge)
        };
        joined(sides).into_iter().map(table).collect()
    }

    /// Marks the groups of cgroups that have another name in the candidate.
    fn mark_renamed(&self, sides: &mut Sides<SideSections>) {
        let by_cgroup =
            |section: &Section| *section == Section::Overview || section.is_of_threads() || section.is_of_cgroups();
        let all = sides.as_mut().into_iter().flatten().filter(|(section, _)| by_cgroup(section));
        for (key, group) in all.flat_map(|(_, (groups, _))| groups) {
            group.renamed = key.first().is_some_and(|cgroup| self.cgroups.is_renamed(cgroup));
        }
    }

    /// The renamed cgroups among the reported groups.
    pub(super) fn renamed(&self, options: &Options) -> Vec<Renamed> {
        let is_wanted = |pair: &&Renamed| options.wants_group(std::slice::from_ref(&pair.baseline));
        self.cgroups.list.iter().filter(is_wanted).cloned().collect()
    }

    /// The selections of groups that match none, of threads or of cgroups.
    pub(super) fn unmatched(&self, options: &Options) -> Vec<NoSuchGroup> {
        if options.only.is_empty() {
            return Vec::new();
        }
        let mut names: BTreeSet<String> = BTreeSet::new();
        for GroupedSide { digests, groups, key, .. } in self.sides.iter() {
            names.extend(groups.iter().flat_map(Groups::keys).flatten().cloned());
            if options.group_by.is_by_cgroup() {
                names.extend(digests.iter().flat_map(|digest| digest.head.cgroup_stats.keys()).map(|path| key(path)));
            }
        }
        let is_unmatched = |glob: &&GroupGlob| !names.iter().any(|name| glob.is_match(name));
        let unmatched = options.only.iter().filter(is_unmatched);
        unmatched.map(|glob| NoSuchGroup::new(glob, names.iter().map(String::as_str))).collect()
    }
}

impl GroupedSide<'_> {
    /// The sections of the side. Of several runs, each is reduced when its turn comes.
    fn sections(&self, per: Per, options: &Options, judged: Judged) -> SideSections {
        let mut runs = (0..self.digests.len()).map(|run| self.sections_of_run(run, per, options));
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

    fn sections_of_run(&self, run: usize, per: Per, options: &Options) -> Sections {
        let (snapshot, groups) = (&self.digests[run].head, &self.groups[run]);
        let mut sections = group::sections(snapshot, groups, options);
        for &section in Section::ALL.iter().filter(|section| options.wants(**section)) {
            let groups = match section {
                section if section.is_of_cgroups() && options.group_by.is_by_cgroup() => {
                    records::cgroup_section(snapshot, section, self.key, options)
                }
                Section::Overview => overview::section(snapshot, groups, per, options),
                Section::HostPressure => records::host_pressure(snapshot),
                Section::SchedExt => records::sched_ext(snapshot),
                Section::SmapsRollup => smaps::section(&self.memory[run], options),
                Section::Capture => captures::section(snapshot),
                _ => continue,
            };
            sections.insert(section, groups);
        }
        sections
    }
}

/// The groups that are reported.
fn wanted_groups(section: Section, mut groups: SideSection, options: &Options) -> SideSection {
    if section.has_named_groups() {
        groups.retain(|key, _| key.is_empty() || options.wants_group(key));
    }
    groups
}

/// Whether groups of a section can be sorted by quantities of threads.
fn is_sorted(section: Section) -> bool {
    section == Section::Overview || section.is_of_threads()
}
