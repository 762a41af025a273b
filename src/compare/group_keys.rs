//! The names of groups, learned from the names of all captures together, so that each side has the same.

use std::collections::HashMap;

use super::{CgroupKeys, CompareOptions, Digest, GroupBy, Grouping, Naming, Sides, ThreadNames, group, reasons};
use crate::diagnose::Side;
use crate::model::{Container, CtprofSnapshot};
use crate::names::Keys;

/// The keys of the names of processes, programs, threads and cgroups.
pub(super) struct GroupKeys {
    process: Keys,
    program: Keys,
    thread: Keys,
    pub(super) cgroups: CgroupKeys,
}

impl GroupKeys {
    pub(super) fn learn(digests: &Sides<Vec<Digest>>, grouping: &Grouping) -> Self {
        let names = || digests.iter().flatten().flat_map(|digest| digest.threads.by_names.keys());
        let sampled = || digests.iter().flatten().filter_map(|digest| digest.head.reasons.as_deref());
        let named = || names().map(|names| (&*names.process, &*names.thread)).chain(sampled().flat_map(reasons::names));
        let (processes, threads) = (named().map(|(process, _)| process), named().map(|(_, thread)| thread));
        let programs = names().filter_map(|names| names.program.as_deref());
        let tasks = digests.as_ref().map(|side| side.iter().flat_map(|digest| tasks(digest, grouping.axis)).collect());
        let listed = digests.iter().flatten().flat_map(|digest| digest.head.listed_cgroups());
        // A capture without privileges lacks names that another one has.
        let mut containers: HashMap<&str, &Container> = HashMap::new();
        for (path, container) in digests.iter().flatten().flat_map(|digest| &digest.head.containers) {
            let found = containers.entry(path).or_insert(container);
            if found.name.is_none() {
                *found = container;
            }
        }
        Self {
            process: group::keys(processes, grouping),
            program: group::keys(programs, grouping),
            thread: group::keys(threads, grouping),
            cgroups: CgroupKeys::learn(&tasks, listed, &containers, grouping),
        }
    }

    pub(super) fn naming(&self, by: GroupBy, side: Side) -> Naming<'_> {
        let Self { process, program, thread, cgroups } = self;
        Naming { by, process, program, thread, cgroups, side }
    }
}

/// A snapshot with only the threads of one group, as these options group them, by the path of the group.
#[must_use]
pub fn with_members_of(path: &[String], snapshot: &CtprofSnapshot, options: &CompareOptions) -> CtprofSnapshot {
    let digests = Sides::one(vec![Digest::of_snapshot(snapshot, options)]);
    let keys = GroupKeys::learn(&digests, &options.grouping);
    let naming = keys.naming(options.grouping.axis, Side::Baseline);
    let is_member = |names: ThreadNames| naming.path(&names.seen_by(options.grouping.axis)).starts_with(path);
    let members = snapshot.threads.iter().filter(|thread| is_member(ThreadNames::from_thread(thread)));
    CtprofSnapshot { head: snapshot.head.clone(), threads: members.cloned().collect() }
}

/// The names of all threads of a digest, which tell cgroups that have another name in the candidate.
fn tasks(digest: &Digest, axis: GroupBy) -> Vec<&ThreadNames> {
    match axis {
        GroupBy::Cgroup => digest.threads.tasks.iter().collect(),
        _ => digest.threads.by_names.keys().collect(),
    }
}
