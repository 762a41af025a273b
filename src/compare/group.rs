//! Groups of threads by their names.

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map};

use super::exited_work::run;
use super::measure::GroupContext;
use super::smaps::ProcessMemory;
use super::{
    CgroupKeys, GroupBy, GroupGlob, GroupTotals, Grouping, Measurement, Names, Per, Quantity, SideGroup, SideSection,
    ThreadNames, includes_group,
};
use crate::diagnose::Side;
use crate::model::is_title_of;
use crate::model::{Cell, Section, SnapshotHead, Unit, may_be_cut};
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
        let cgroup_key = |path| self.cgroups.key(self.side, path);
        let cgroup = || names.cgroup.as_deref().map_or_else(|| NO_CGROUP.to_owned(), cgroup_key);
        match self.by {
            GroupBy::Command => vec![self.command(names)],
            GroupBy::Pcomm => vec![self.process.key(&names.process)],
            GroupBy::Comm | GroupBy::CommExact => vec![self.thread.key(&names.thread)],
            GroupBy::Pid => vec![self.one_process(names)],
            GroupBy::Tid => vec![self.one_thread(names)],
            GroupBy::Cgroup | GroupBy::Container | GroupBy::Pod => vec![cgroup()],
            GroupBy::All => vec![cgroup(), self.command(names), self.thread.key(&names.thread)],
        }
    }

    /// The process, and what it runs if it is an interpreter.
    fn command(&self, names: &ThreadNames) -> String {
        if let Some(title) = names.program.as_ref().filter(|program| is_title_of(&names.process, program)) {
            return self.program.key(title);
        }
        let process = self.process.key(&names.process);
        names.program.as_ref().map_or(process.clone(), |program| format!("{process} {}", self.program.key(program)))
    }

    fn one_process(&self, names: &ThreadNames) -> String {
        let command = self.command(names);
        names.pid.map_or(command.clone(), |pid| format!("{command}[{pid}]"))
    }

    /// The first thread of a process has its name and id: `make[7]`, `worker[9] of make[7]`.
    fn one_thread(&self, names: &ThreadNames) -> String {
        let process = self.one_process(names);
        let is_named_alike = names.pid.is_none() && names.thread == names.process;
        match names.tid {
            tid if tid == names.pid && (tid.is_some() || is_named_alike) => process,
            Some(tid) => format!("{}[{tid}] of {process}", self.thread.key(&names.thread)),
            None => format!("{} of {process}", self.thread.key(&names.thread)),
        }
    }

    /// Whether the kernel may have cut the name that decides the group.
    fn may_be_cut(&self, names: &ThreadNames) -> bool {
        match self.by {
            GroupBy::Command | GroupBy::Pcomm | GroupBy::Pid => may_be_incomplete(&names.process),
            GroupBy::Tid | GroupBy::Comm | GroupBy::CommExact | GroupBy::All => may_be_incomplete(&names.thread),
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
            btree_map::Entry::Occupied(mut group) => group.get_mut().merge(&members),
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

/// Adds all groups together, whether they are reported or not. In a tree, a group contains those below it.
pub(super) fn add_total(groups: &mut Groups) {
    let mut total = GroupTotals::default();
    groups.iter().filter(|(key, _)| key.len() == 1).for_each(|(_, group)| total.merge(group));
    total.name_cut = false;
    groups.insert(Vec::new(), total);
}

/// Drops the only child of a process, unless it is selected without the process: a process of one kind of threads is one line.
pub(super) fn drop_only_children(all: &mut [&mut Groups], only: &[GroupGlob]) {
    let mut children: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
    for path in all.iter().flat_map(|groups| groups.keys()) {
        if let [cgroup, process, thread] = path.as_slice() {
            children.entry(vec![cgroup.clone(), process.clone()]).or_default().insert(thread.clone());
        }
    }
    for (mut path, names) in children {
        let is_reported = includes_group(only, &path);
        if names.len() == 1 {
            path.extend(names);
            if !is_reported && includes_group(only, &path) {
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

/// The values of a section about threads that are selected; empty for all. The number of threads is a column of every row,
/// and a row of its own only if selected.
pub(super) fn quantities(section: Section, selected: &[Quantity]) -> impl Iterator<Item = Quantity> {
    let is_wanted = move |quantity: &Quantity| match selected {
        [] => !matches!(quantity, Quantity::ThreadCount),
        _ => selected.iter().any(|wanted| wanted.includes(quantity.name())),
    };
    Quantity::all().filter(move |quantity| quantity.section() == section).filter(is_wanted)
}

/// Makes a section about threads: the values of every group. All groups together also have the command's values.
pub(super) fn section(head: &SnapshotHead, groups: &Groups, per: Per, quantities: &[Quantity]) -> SideSection {
    let cpu_time = cpu_time(groups);
    let group = |(path, members): (&Vec<String>, &GroupTotals)| {
        let of = GroupContext::new(head, members, per, cpu_time);
        let values = quantities.iter().filter(|quantity| path.is_empty() || quantity.is_of_groups());
        let measurements = values.map(|quantity| quantity.measure(&of)).filter(Measurement::is_shown).collect();
        (path.clone(), SideGroup { group_facts: members.group_facts(head), sort_values: Vec::new(), measurements })
    };
    groups.iter().map(group).collect()
}

/// The memory of the groups that have processes with values.
pub(super) fn memory_section(groups: &Groups) -> SideSection {
    let group = |(path, members): (&Vec<String>, &GroupTotals)| {
        let ProcessMemory { processes, kinds } = &**members.memory.as_ref()?;
        let entry = |(kind, (bytes, covered)): (&String, &(u64, u64))| Measurement {
            partial: covered < processes,
            is_total: true,
            ..Measurement::new(kind.clone(), Unit::Bytes, Cell::Number(*bytes), *covered)
        };
        Some((path.clone(), SideGroup::new(*processes, kinds.iter().map(entry).collect())))
    };
    groups.iter().filter_map(group).collect()
}

/// The run time of all groups, in nanoseconds.
pub(super) fn cpu_time(groups: &Groups) -> u64 {
    let tops = groups.iter().filter(|(path, _)| path.len() == 1);
    tops.filter_map(|(_, group)| run(&group.totals)).fold(0, u64::saturating_add)
}

/// The keys of process or thread names, learned from all digests together so that all have the same keys.
pub(super) fn keys<'n>(names: impl Iterator<Item = &'n str>, grouping: &Grouping) -> Keys {
    if grouping.names == Names::Literal || matches!(grouping.axis, GroupBy::CommExact | GroupBy::Pid | GroupBy::Tid) {
        return Keys::literal();
    }
    Keys::learn(NameKind::Task, names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ThreadState;

    #[test]
    fn a_kind_of_memory_that_some_processes_lack_is_partial() {
        let process = |tgid: u32, kinds: &[&str]| {
            let smaps = kinds.iter().map(|kind| ((*kind).to_owned(), 1)).collect();
            ThreadState {
                tid: tgid,
                tgid,
                pcomm: "app".into(),
                smaps_rollup_kib: Some(smaps),
                ..ThreadState::default()
            }
        };
        let mut members = GroupTotals::default();
        [process(1, &["Pss", "Swap"]), process(2, &["Pss"])].iter().for_each(|leader| members.add(leader));
        let section = memory_section(&Groups::from([
            (vec!["app".to_owned()], members),
            (vec!["bare".to_owned()], GroupTotals::default()),
        ]));
        assert_eq!(section.len(), 1, "groups without memory have no rows");
        let group = &section[&vec!["app".to_owned()]];
        assert_eq!(group.group_facts.members, 2);
        let kinds: Vec<_> =
            group.measurements.iter().map(|entry| (&*entry.name, entry.covered, entry.partial)).collect();
        assert_eq!(kinds, [("Pss", 2, false), ("Swap", 1, true)]);
    }
}
