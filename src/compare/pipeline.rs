//! From digests to the sections of each side: groups, then the values of every group.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::cgroup_keys::CgroupKeys;
use super::cgroup_keys::renamed::Renamed;
use super::digest::{Digest, Members, Memory, ThreadNames};
use super::entry::SideSection;
use super::gate::Gate;
use super::gate_outcome::{self, GateResult};
use super::gate_values::{GatedRun, RunValues};
use super::group::{self, Groups, Naming};
use super::judge::KnownValues;
use super::merge::SectionRuns;
use super::only::{GroupGlob, NoSuchGroup};
use super::options::{GroupBy, Options, Per};
use super::select::SortKey;
use super::sides::Sides;
use super::{captures, overview, records, runs, smaps};
use crate::model::{Section, SnapshotHead};
use crate::names::Keys;
use crate::statistics::Design;

/// Every section of one capture.
type Sections = BTreeMap<Section, SideSection>;

/// Every section of a side, and which values each of its runs has.
pub(super) type SideSections = BTreeMap<Section, (SideSection, KnownValues)>;

/// Both sides, each capture of a side reduced to its sections.
pub(super) struct Reduced {
    /// The captures, without their threads.
    pub(super) digests: Sides<Vec<Digest>>,
    pub(super) design: Design,
    pub(super) sections: Sides<SideSections>,
    /// Whether a side has several runs.
    pub(super) is_repeated: bool,
    pub(super) renamed: Vec<Renamed>,
    pub(super) unmatched: Vec<NoSuchGroup>,
    pub(super) gates: Vec<GateResult>,
}

/// Reduces every capture. The keys of names depend on the names of all captures together.
pub(super) fn reduce(mut digests: Sides<Vec<Digest>>, per: Per, options: &Options, gates: &[Gate]) -> Reduced {
    let design = runs::pair(&mut digests);
    let threads = digests.as_mut().map(|side| take_each(side, |digest| &mut digest.kinds));
    let memory = digests.as_mut().map(|side| take_each(side, |digest| &mut digest.memory));
    let tasks = digests.as_mut().map(|side| take_each(side, |digest| &mut digest.tasks));
    let names = threads.as_ref().map(|side| side.iter().flat_map(|kinds| kinds.keys().cloned()).collect());
    let tasks = match options.group_by {
        GroupBy::Cgroup => tasks.map(|side| side.into_iter().flatten().collect()),
        _ => Sides::clone(&names),
    };
    let keys = NameKeys::learn(&digests, &names, &tasks, options);
    let (baseline, candidate) = (|path: &str| keys.cgroups.baseline(path), |path: &str| keys.cgroups.candidate(path));
    let cgroup = Sides::<Key<'_>> { baseline: &baseline, candidate: &candidate };
    let groups = grouped(threads, &keys, cgroup, options);
    let unmatched = unmatched(&digests, &groups, cgroup, options);
    let gated = gated(gates, &digests, &groups, cgroup, per, options);
    let gates = gate_outcome::judge(gates, design, &gated);
    let is_repeated = digests.as_ref().into_iter().any(|side| side.len() > 1);
    let reduce = |digests: &[Digest], groups: Vec<Groups>, memory: Vec<_>, key: Key<'_>| {
        let captures = digests.iter().zip(groups).zip(memory);
        let runs =
            captures.map(|((digest, groups), memory)| sections(&digest.head, &groups, memory, key, per, options));
        if is_repeated { merged(digests.len(), runs, &options.sort_by) } else { only(runs) }
    };
    let mut sections = Sides::from(rayon::join(
        || reduce(&digests.baseline, groups.baseline, memory.baseline, &baseline),
        || reduce(&digests.candidate, groups.candidate, memory.candidate, &candidate),
    ));
    mark_renamed(&mut sections, &keys.cgroups);
    let mut renamed = keys.cgroups.list;
    renamed.retain(|pair| options.wants_group(std::slice::from_ref(&pair.baseline)));
    Reduced { digests, design, sections, is_repeated, renamed, unmatched, gates }
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
        let process = group::keys(names.as_ref().into_iter().flatten().map(|names| &*names.process), options);
        let thread = group::keys(names.as_ref().into_iter().flatten().map(|names| &*names.thread), options);
        Self { process, thread, cgroups }
    }
}

/// The groups of every capture.
fn grouped(
    threads: Sides<Vec<HashMap<ThreadNames, Members>>>,
    keys: &NameKeys<'_>,
    cgroup: Sides<Key<'_>>,
    options: &Options,
) -> Sides<Vec<Groups>> {
    let group = |side: Vec<_>, cgroup| -> Vec<Groups> {
        let naming = Naming { by: options.group_by, process: &keys.process, thread: &keys.thread, cgroup };
        side.into_iter().map(|kinds| group::groups(kinds, &naming)).collect()
    };
    let mut groups = Sides::from(rayon::join(
        || group(threads.baseline, cgroup.baseline),
        || group(threads.candidate, cgroup.candidate),
    ));
    if options.group_by == GroupBy::All {
        group::drop_only_children(groups.baseline.iter_mut().chain(&mut groups.candidate));
    }
    groups
}

/// The values of all gates in every capture.
fn gated(
    gates: &[Gate],
    digests: &Sides<Vec<Digest>>,
    groups: &Sides<Vec<Groups>>,
    cgroup: Sides<Key<'_>>,
    per: Per,
    options: &Options,
) -> Sides<Vec<RunValues>> {
    let of_side = |digests: &[Digest], groups: &[Groups], key| -> Vec<RunValues> {
        let runs = digests.iter().zip(groups);
        runs.map(|(Digest { head, .. }, groups)| GatedRun { head, groups, key, per, options }.values(gates)).collect()
    };
    Sides {
        baseline: of_side(&digests.baseline, &groups.baseline, cgroup.baseline),
        candidate: of_side(&digests.candidate, &groups.candidate, cgroup.candidate),
    }
}

/// Maps the path of a cgroup to the key of its group.
type Key<'k> = &'k (dyn Fn(&str) -> String + Sync);

fn take_each<T: Default>(digests: &mut [Digest], part: fn(&mut Digest) -> &mut T) -> Vec<T> {
    digests.iter_mut().map(|digest| std::mem::take(part(digest))).collect()
}

/// Marks the groups of cgroups that have another name in the candidate.
fn mark_renamed(sections: &mut Sides<SideSections>, cgroups: &CgroupKeys<'_>) {
    let by_cgroup =
        |section: &Section| *section == Section::Overview || section.is_of_threads() || section.is_of_cgroups();
    let all = sections.baseline.iter_mut().chain(&mut sections.candidate);
    for (path, group) in all.filter(|(section, _)| by_cgroup(section)).flat_map(|(_, (groups, _))| groups) {
        group.renamed = path.first().is_some_and(|cgroup| cgroups.is_renamed(cgroup));
    }
}

/// The selections of groups that match none, of threads or of cgroups.
fn unmatched(
    digests: &Sides<Vec<Digest>>,
    groups: &Sides<Vec<Groups>>,
    keys: Sides<Key<'_>>,
    options: &Options,
) -> Vec<NoSuchGroup> {
    if options.only.is_empty() {
        return Vec::new();
    }
    let mut names: BTreeSet<String> =
        groups.as_ref().into_iter().flatten().flat_map(Groups::keys).flatten().cloned().collect();
    if options.group_by.is_by_cgroup() {
        for (side, key) in digests.as_ref().into_iter().zip(keys) {
            names.extend(side.iter().flat_map(|digest| digest.head.cgroup_stats.keys()).map(|path| key(path)));
        }
    }
    let is_unmatched = |glob: &&GroupGlob| !names.iter().any(|name| glob.is_match(name));
    let unmatched = options.only.iter().filter(is_unmatched);
    unmatched.map(|glob| NoSuchGroup::new(glob, names.iter().map(String::as_str))).collect()
}

/// The sections of one capture.
fn sections(
    snapshot: &SnapshotHead,
    groups: &Groups,
    memory: BTreeMap<String, Memory>,
    cgroup_key: Key<'_>,
    per: Per,
    options: &Options,
) -> Sections {
    let mut sections = group::sections(snapshot, groups, options);
    let mut memory = Some(memory);
    for &section in Section::ALL.iter().filter(|section| options.wants(**section)) {
        let groups = match section {
            section if section.is_of_cgroups() && options.group_by.is_by_cgroup() => {
                records::cgroup_section(snapshot, section, cgroup_key)
            }
            Section::Overview => overview::section(snapshot, groups, per, options),
            Section::HostPressure => records::host_pressure(snapshot),
            Section::SchedExt => records::sched_ext(snapshot),
            Section::SmapsRollup => smaps::section(memory.take().unwrap_or_default(), options),
            Section::Capture => captures::section(snapshot),
            _ => continue,
        };
        sections.insert(section, groups);
    }
    let named = |section: &Section| section.has_named_groups();
    for groups in sections.iter_mut().filter(|(section, _)| named(section)).map(|(_, groups)| groups) {
        groups.retain(|path, _| options.wants_group(path));
    }
    sections
}

/// The sections of the only capture of a side.
fn only(mut captures: impl Iterator<Item = Sections>) -> SideSections {
    let sections = captures.next().unwrap_or_default();
    sections.into_iter().map(|(section, groups)| (section, (groups, KnownValues::default()))).collect()
}

/// The sections of several runs of a side, of which each is reduced when its turn comes.
fn merged(count: usize, runs: impl Iterator<Item = Sections>, keys: &[SortKey]) -> SideSections {
    let mut all: BTreeMap<Section, SectionRuns> = BTreeMap::new();
    for (run, sections) in runs.enumerate() {
        for (section, groups) in sections {
            all.entry(section).or_insert_with(|| SectionRuns::new(count)).add(run, groups);
        }
    }
    let merged =
        |(section, runs): (Section, SectionRuns)| (section, runs.merged(if is_sorted(section) { keys } else { &[] }));
    all.into_iter().map(merged).collect()
}

/// Whether groups of a section can be sorted by quantities of threads.
pub(super) fn is_sorted(section: Section) -> bool {
    section == Section::Overview || section.is_of_threads()
}
