//! The data of a snapshot that a comparison needs, without its threads: memory grows with distinct
//! names, not with threads.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use super::{CompareOptions, GroupBy, GroupTotals, ThreadFilter};
use crate::model::{
    Census, CtprofSnapshot, Name, Owner, RecordedCommand, SnapshotHead, ThreadState, Threads, Totals, WindowInfo,
    lineage,
};

/// A snapshot, reduced to totals by the exact names that an axis uses.
#[derive(Clone, Debug)]
pub struct Digest {
    /// Everything but the threads.
    pub(crate) head: SnapshotHead,
    pub(super) threads: ThreadTotals,
    /// Window between the baseline and this snapshot, if both are from one boot.
    pub(super) window: Option<WindowInfo>,
}

impl Digest {
    /// Combines the head of a snapshot with the totals of its threads.
    pub fn new(mut head: SnapshotHead, threads: ThreadTotals) -> Self {
        // Before the scope leaves out some of those below.
        let above = head.listed_cgroups().filter(|(_, stats)| stats.without_threads);
        let above: Vec<_> = above.filter_map(|(path, _)| Some((path.clone(), head.container_of(path)?))).collect();
        head.containers.extend(above);
        // A command has no cgroup of its own.
        if let ThreadFilter::InCgroups(paths) = &threads.filter {
            let lineage: HashSet<&str> = paths.iter().flat_map(|path| lineage(path)).collect();
            head.cgroup_stats.retain(|path, _| paths.contains(path) || lineage.contains(&**path));
            head.cgroup_stats.iter_mut().for_each(|(path, stats)| stats.without_threads |= !paths.contains(path));
        }
        Self { head, threads, window: None }
    }

    /// Whether no thread is in its scope.
    pub fn is_empty(&self) -> bool {
        self.threads.by_names.is_empty()
    }

    /// Whether its command failed. A command that ran on, after the time of the recording, has not.
    pub(super) fn has_failed(&self) -> bool {
        let command = self.head.window.as_ref().and_then(|window| window.command.as_ref());
        command.and_then(RecordedCommand::end).is_some_and(|end| end != 0)
    }

    /// Sets the window between the baseline and this snapshot.
    pub fn since_baseline(self, window: WindowInfo) -> Self {
        Self { window: Some(window), ..self }
    }

    /// The digest of a capture that has more threads than those whose totals are compared.
    #[must_use]
    pub fn with_census(mut self, census: Census) -> Self {
        self.threads.census = census;
        self
    }

    /// A digest made for [`GroupBy::All`], as it would be if it had been made for this axis.
    pub fn narrowed(&self, axis: GroupBy) -> Self {
        let ThreadTotals { group_by: _, filter, command, census, by_names, tasks: _, programs, kinds } = &self.threads;
        let mut threads = ThreadTotals {
            command: command.clone(),
            census: census.clone(),
            programs: programs.clone(),
            kinds: *kinds,
            ..ThreadTotals::empty(axis, filter.clone())
        };
        for (names, members) in by_names {
            let names = names.clone().seen_by(axis);
            threads.by_names.entry(names).or_default().merge(members);
        }
        if axis == GroupBy::Cgroup {
            threads.tasks = by_names.keys().cloned().collect();
        }
        Self { head: self.head.clone(), threads, window: self.window.clone() }
    }

    pub(super) fn ids(&self) -> HashSet<u32> {
        self.threads.by_names.keys().flat_map(|names| [names.pid, names.tid]).flatten().collect()
    }

    /// Merges other processes than these by their names. Other threads of these processes count as exited work.
    pub(super) fn forget_ids_but(&mut self, ids: &HashSet<u32>) {
        let is_known = |id: &u32| ids.contains(id);
        for (names, members) in std::mem::take(&mut self.threads.by_names) {
            let pid = names.pid.filter(is_known);
            let tid = names.tid.and_then(|tid| Some(tid).filter(is_known).or(pid));
            self.threads.by_names.entry(ThreadNames { pid, tid, ..names }).or_default().merge(&members);
        }
        let sampled = self.head.reasons.iter_mut().flat_map(|reasons| &mut reasons.threads);
        sampled.for_each(|threads| threads.tgid = threads.tgid.filter(is_known));
    }

    /// Reduces a snapshot without changing it.
    pub fn of_snapshot(snapshot: &CtprofSnapshot, options: &CompareOptions) -> Self {
        let empty = ThreadTotals::new(options, &[&snapshot.head]);
        let parts = snapshot.threads.par_chunks(THREADS_AT_ONCE).map(|threads| {
            let mut part = empty.another();
            threads.iter().for_each(|thread| part.count(thread));
            part
        });
        let mut all = empty.another();
        parts.collect::<Vec<_>>().into_iter().for_each(|part| all.append(part));
        Self::new(snapshot.head.clone(), all)
    }
}

const THREADS_AT_ONCE: usize = 4096;

/// Names that decide a thread's group; names that an axis does not use are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ThreadNames {
    pub(super) process: Name,
    pub(super) program: Option<Name>,
    pub(super) thread: Name,
    pub(super) cgroup: Option<Name>,
    /// The process, where groups are single processes.
    pub(super) pid: Option<u32>,
    /// Id of the thread, where groups are single threads. Exited work has the id of the first thread.
    pub(super) tid: Option<u32>,
}

impl ThreadNames {
    pub(super) fn from_thread(thread: &ThreadState) -> Self {
        Self {
            process: Name::clone(&thread.pcomm),
            program: thread.program.clone(),
            thread: Name::clone(&thread.comm),
            cgroup: thread.cgroup.clone(),
            pid: Some(thread.tgid).filter(|tgid| *tgid > 0),
            tid: [thread.tid, thread.tgid].into_iter().find(|id| *id > 0),
        }
    }

    pub(super) fn seen_by(self, axis: GroupBy) -> Self {
        let (Self { process, program, thread, cgroup, pid, tid }, none) = (self, Self::default());
        match axis {
            GroupBy::Command => Self { process, program, ..none },
            GroupBy::Pcomm => Self { process, ..none },
            GroupBy::Pid => Self { process, program, pid, ..none },
            GroupBy::Tid => Self { process, program, thread, pid, tid, ..none },
            GroupBy::Comm | GroupBy::CommExact => Self { thread, ..none },
            GroupBy::Cgroup | GroupBy::Container | GroupBy::Pod => Self { cgroup, ..none },
            GroupBy::All => Self { process, program, thread, cgroup, ..none },
        }
    }
}

/// Totals of threads by names: what reports with some options need of threads.
#[derive(Clone, Debug, Default)]
pub struct ThreadTotals {
    pub(super) group_by: GroupBy,
    pub(super) filter: ThreadFilter,
    /// Totals of the command that ran in a window, whatever the scope is.
    pub(super) command: GroupTotals,
    pub(super) census: Census,
    pub(super) by_names: HashMap<ThreadNames, GroupTotals>,
    /// The names of all threads, where renamed cgroups are matched by them.
    pub(super) tasks: HashSet<ThreadNames>,
    /// Programs that interpreters run, by process id: reasons do not have them.
    pub(super) programs: HashMap<u32, Name>,
    /// An upper bound on the number of kinds of memory that all have.
    kinds: usize,
}

impl Threads for ThreadTotals {
    fn another(&self) -> Self {
        Self::empty(self.group_by, self.filter.clone())
    }

    fn add(&mut self, thread: ThreadState) {
        self.count(&thread);
    }

    fn append(&mut self, later: Self) {
        let Self { group_by: _, filter: _, command, census, by_names, tasks, programs, kinds } = later;
        self.command.merge(&command);
        self.census.append(census);
        self.tasks.extend(tasks);
        self.programs.extend(programs);
        for (names, members) in by_names {
            match self.by_names.entry(names) {
                Entry::Occupied(mut entry) => entry.get_mut().merge(&members),
                Entry::Vacant(new) => drop(new.insert(members)),
            }
        }
        self.kinds += kinds;
    }

    fn bytes(&self) -> usize {
        const BYTES_PER_NAME: usize = 64;
        let names = size_of::<ThreadNames>() + 3 * BYTES_PER_NAME;
        self.by_names.len() * (names + GROUP_BYTES)
            + (self.tasks.len() + self.programs.len()) * names
            + self.kinds * KIND_BYTES
    }
}

/// About how much a kind of memory takes in a group, in bytes.
const KIND_BYTES: usize = 160;

/// About how much memory the totals of a group take, in bytes: with the words of metrics that are no numbers.
const GROUP_BYTES: usize = size_of::<GroupTotals>() + size_of::<Totals>() + 1024;

impl ThreadTotals {
    /// No threads yet of these captures.
    pub fn new(options: &CompareOptions, heads: &[&SnapshotHead]) -> Self {
        let filter = options.grouping.scope.as_ref().map(|scope| scope.filter(heads)).unwrap_or_default();
        // A report narrows the totals of its tree.
        let axis = if options.tree().is_some() { GroupBy::All } else { options.grouping.axis };
        Self::empty(axis, filter)
    }

    /// Returns the only thread of each process and name, to which samples of that name belong: `None` if several threads have the
    /// name.
    pub(super) fn only_threads(&self) -> HashMap<(u32, &str), Option<u32>> {
        let mut only = HashMap::new();
        for ThreadNames { pid, tid, thread, .. } in self.by_names.keys() {
            if let Some((pid, tid)) = pid.zip(*tid) {
                only.entry((pid, &**thread)).and_modify(|only_tid| *only_tid = None).or_insert(Some(tid));
            }
        }
        only
    }

    fn empty(group_by: GroupBy, filter: ThreadFilter) -> Self {
        let census = if matches!(filter, ThreadFilter::All) { Census::default() } else { Census::of_part() };
        Self { group_by, filter, census, ..Self::default() }
    }

    pub(super) fn count(&mut self, thread: &ThreadState) {
        if thread.owner == Some(Owner::Command) {
            self.command.add(thread);
        }
        if !self.filter.includes(thread.owner, thread.cgroup.as_deref()) {
            return;
        }
        self.census.add(thread);
        self.programs.extend(thread.program.clone().map(|program| (thread.tgid, program)));
        let names = ThreadNames::from_thread(thread);
        if self.group_by == GroupBy::Cgroup {
            self.tasks.insert(names.clone().seen_by(GroupBy::All));
        }
        let members = self.by_names.entry(names.seen_by(self.group_by)).or_default();
        let kinds = members.kinds();
        members.add(thread);
        self.kinds += members.kinds() - kinds;
    }
}
