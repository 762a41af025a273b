//! Groups of threads by their names.

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map};

use super::exited_work::exited_that_matter;
use super::{
    CgroupKeys, CompareOptions, GroupBy, GroupTotals, Measurement, Names, Population, Quantity, SideGroup, SideSection,
    ThreadNames,
};
use crate::diagnose::Side;
use crate::model::{Cell, Metric, Section, SnapshotHead, Totals, WindowRule, may_be_cut};
use crate::names::{Keys, NameKind};

/// Whether a name may be incomplete. The kernel composes the names of its own workers when it prints them.
fn may_be_incomplete(name: &str) -> bool {
    may_be_cut(name) && !name.starts_with("kworker/")
}

/// The name of the group of threads whose cgroup could not be read.
const NO_CGROUP: &str = "(unknown)";

/// How names become keys, on one side.
pub(super) struct Naming<'k> {
    pub(super) by: GroupBy,
    pub(super) process: &'k Keys,
    pub(super) program: &'k Keys,
    pub(super) thread: &'k Keys,
    pub(super) cgroups: &'k CgroupKeys,
    pub(super) side: Side,
}

impl Naming<'_> {
    /// The path of the group for these names, from the top of the tree.
    pub(super) fn path(&self, names: &ThreadNames) -> Vec<String> {
        let known = |path| self.cgroups.key(self.side, path);
        let cgroup = || names.cgroup.as_deref().map_or_else(|| NO_CGROUP.to_owned(), known);
        match self.by {
            GroupBy::Command => vec![self.command(names)],
            GroupBy::Pcomm => vec![self.process.key(&names.process)],
            GroupBy::Comm | GroupBy::CommExact => vec![self.thread.key(&names.thread)],
            GroupBy::Pid => vec![match names.pid {
                Some(pid) => format!("{}[{pid}]", self.command(names)),
                None => self.command(names),
            }],
            GroupBy::Cgroup | GroupBy::Container | GroupBy::Pod => vec![cgroup()],
            GroupBy::All => vec![cgroup(), self.command(names), self.thread.key(&names.thread)],
        }
    }

    /// The process, and what it runs if it is an interpreter.
    fn command(&self, names: &ThreadNames) -> String {
        let process = self.process.key(&names.process);
        names.program.as_ref().map_or(process.clone(), |program| format!("{process} {}", self.program.key(program)))
    }

    /// Whether the kernel may have cut the name that decides the group.
    fn may_be_cut(&self, names: &ThreadNames) -> bool {
        match self.by {
            GroupBy::Command | GroupBy::Pcomm | GroupBy::Pid => may_be_incomplete(&names.process),
            GroupBy::Comm | GroupBy::CommExact | GroupBy::All => may_be_incomplete(&names.thread),
            GroupBy::Cgroup | GroupBy::Container | GroupBy::Pod => false,
        }
    }
}

pub(super) type Groups = BTreeMap<Vec<String>, GroupTotals>;

/// Groups threads; groups above others in a tree are included.
pub(super) fn groups(by_names: HashMap<ThreadNames, GroupTotals>, naming: &Naming<'_>) -> Groups {
    let mut groups = Groups::new();
    for (names, mut members) in by_names {
        members.name_cut = naming.may_be_cut(&names) && !members.has_whole_names(naming.by);
        match groups.entry(naming.path(&names)) {
            btree_map::Entry::Vacant(new) => drop(new.insert(members)),
            btree_map::Entry::Occupied(mut known) => known.get_mut().merge(&members),
        }
    }
    let deepest = groups.keys().next().map_or(0, Vec::len);
    for depth in (1..deepest).rev() {
        let mut above = Groups::new();
        for (path, group) in groups.iter().filter(|(path, _)| path.len() == depth + 1) {
            match above.get_mut(&path[..depth]) {
                Some(parent) => parent.merge(group),
                None => drop(above.insert(path[..depth].to_vec(), group.clone())),
            }
        }
        above.values_mut().for_each(|group| group.name_cut = false);
        groups.extend(above);
    }
    groups
}

/// Adds all reported groups together. In a tree, a group contains those below it.
pub(super) fn add_total(groups: &mut Groups, options: &CompareOptions) {
    let mut total = GroupTotals::default();
    for (key, group) in groups.iter() {
        let is_in_another = key.len() > 1 && options.wants_group(&key[..key.len() - 1]);
        if options.wants_group(key) && !is_in_another {
            total.merge(group);
        }
    }
    total.name_cut = false;
    groups.insert(Vec::new(), total);
}

/// Drops the only child of a process, unless it is selected without the process: a process of one kind of threads is one line.
pub(super) fn drop_only_children(all: &mut [&mut Groups], options: &CompareOptions) {
    let mut children: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
    for path in all.iter().flat_map(|groups| groups.keys()) {
        if let [cgroup, process, thread] = path.as_slice() {
            children.entry(vec![cgroup.clone(), process.clone()]).or_default().insert(thread.clone());
        }
    }
    for (mut path, names) in children {
        let is_reported = options.wants_group(&path);
        if names.len() == 1 {
            path.extend(names);
            if !is_reported && options.wants_group(&path) {
                continue;
            }
            let mut name_cut = false;
            for only_child in all.iter_mut().filter_map(|groups| groups.remove(&path)) {
                name_cut |= only_child.name_cut;
            }
            path.pop();
            for process in all.iter_mut().filter_map(|groups| groups.get_mut(&path)) {
                process.name_cut = name_cut;
            }
        }
    }
}

pub(super) fn quantities(section: Section, options: &CompareOptions) -> impl Iterator<Item = Quantity> {
    Quantity::all().filter(move |q| q.about().section == section && options.wants_quantity(*q))
}

/// A section about threads: every selected quantity of every group.
pub(super) fn section(
    snapshot: &SnapshotHead,
    section: Section,
    groups: &Groups,
    options: &CompareOptions,
) -> SideSection {
    let taskstats = snapshot.taskstats_version();
    let quantities: Vec<_> = quantities(section, options).collect();
    let group = |(path, members): (&Vec<String>, &GroupTotals)| {
        let measurements = quantities.iter().map(|quantity| measured(*quantity, members, taskstats));
        (path.clone(), side_group(snapshot, members, measurements.collect()))
    };
    groups.iter().map(group).collect()
}

pub(super) fn side_group(snapshot: &SnapshotHead, members: &GroupTotals, measurements: Vec<Measurement>) -> SideGroup {
    SideGroup {
        population: Population {
            members: members.threads,
            turnover: members.turnover,
            uptime: members.lifetimes.share_of_uptime(snapshot),
            own: members.are_own(),
            pid: members.pid.get(),
            euid: members.euid.get(),
            throttled: members.throttled(snapshot),
            hottest: members.hottest(),
            exited_work: None,
            is_minor: false,
        },
        name_cut: members.name_cut,
        parents: members.parents(),
        sort_values: Vec::new(),
        measurements,
    }
}

/// The keys of process or thread names, learned from all digests together so that all have the same keys.
pub(super) fn keys<'n>(names: impl Iterator<Item = &'n str>, options: &CompareOptions) -> Keys {
    if options.names == Names::Literal || matches!(options.group_by, GroupBy::CommExact | GroupBy::Pid) {
        return Keys::literal();
    }
    Keys::learn(NameKind::Task, names)
}

/// The value of a group; `None` also for columns of the overview, which need more than its totals.
pub(super) fn cell(quantity: Quantity, members: &GroupTotals, taskstats: Option<u16>) -> Option<Cell> {
    match quantity {
        Quantity::Column(_) => None,
        Quantity::ThreadCount => Some(Cell::Number(members.threads)),
        Quantity::Metric(metric) => metric.total(&members.totals),
        Quantity::Derived(derived) => derived.total(&members.totals, taskstats),
    }
}

/// Whether it lacks exited work, of which processes count less than threads do.
fn lacks_exited_work(quantity: Quantity, members: &GroupTotals) -> bool {
    let lacks = |metric: &Metric| {
        let lacks = |(_, exited): (_, &Totals)| metric.total(exited).is_none();
        metric.window == WindowRule::Increase && exited_that_matter(members).any(lacks)
    };
    match quantity {
        Quantity::Column(_) | Quantity::ThreadCount => false,
        Quantity::Metric(metric) => lacks(metric),
        Quantity::Derived(derived) => derived.formula.inputs().any(|input| lacks(input.metric())),
    }
}

fn measured(quantity: Quantity, members: &GroupTotals, taskstats: Option<u16>) -> Measurement {
    let (totals, threads) = (&members.totals, members.threads);
    let (covered, lacks_members) = match quantity {
        Quantity::Column(_) | Quantity::ThreadCount => (threads, false),
        Quantity::Metric(metric) => {
            let covered = metric.covered(totals);
            (covered, metric.is_partial(covered, threads))
        }
        Quantity::Derived(derived) => {
            (derived.covered(totals, taskstats), derived.is_partial(totals, taskstats, threads))
        }
    };
    let cell = cell(quantity, members, taskstats);
    let partial = lacks_members || cell.is_some() && lacks_exited_work(quantity, members);
    Measurement {
        partial,
        quantity: Some(quantity),
        is_total: quantity.is_total(),
        is_increase: quantity.is_increase(),
        ..Measurement::new(quantity.name(), quantity.about().unit, cell, covered)
    }
}
