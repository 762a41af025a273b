//! The data of a snapshot that a comparison needs, without its threads: memory grows with distinct
//! names, not with threads.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use rayon::prelude::*;

use super::{CompareOptions, GroupBy, Names, ProcessMemory, ThreadFilter, Throttled, Turnover};
use crate::model::{
    Census, CtprofSnapshot, ExitedWork, MonotonicNs, Name, Owner, SnapshotHead, ThreadState, Threads, Totals,
    WindowInfo,
};

/// One snapshot, reduced to totals by the exact names that an axis looks at.
#[derive(Clone, Debug)]
pub struct Digest {
    /// Everything but the threads.
    pub(crate) head: SnapshotHead,
    pub(super) threads: ThreadTotals,
    /// What is between the baseline and this snapshot, if they are of one boot.
    pub(super) window: Option<WindowInfo>,
}

impl Digest {
    /// Combines the head of a snapshot with the totals of its threads.
    pub fn new(mut head: SnapshotHead, threads: ThreadTotals) -> Self {
        // A command has no cgroup of its own.
        if let ThreadFilter::InCgroups(paths) = &threads.filter {
            head.cgroup_stats.retain(|path, _| paths.contains(path));
        }
        Self { head, threads, window: None }
    }

    /// Whether no thread is in its scope.
    pub fn is_empty(&self) -> bool {
        self.threads.by_names.is_empty()
    }

    /// With the window since the baseline that it is compared with.
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
        let ThreadTotals { group_by: _, names, filter, command, census, by_names, tasks: _, programs, memory } =
            &self.threads;
        let mut threads = ThreadTotals {
            command: command.clone(),
            census: census.clone(),
            programs: programs.clone(),
            memory: memory.clone(),
            ..ThreadTotals::empty(axis, *names, filter.clone())
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

/// The names that decide a thread's group; those that an axis does not look at are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ThreadNames {
    pub(super) process: Name,
    pub(super) program: Option<Name>,
    pub(super) thread: Name,
    pub(super) cgroup: Option<Name>,
    /// The process, where groups are single processes.
    pub(super) pid: Option<u32>,
}

impl ThreadNames {
    fn of(thread: &ThreadState) -> Self {
        Self {
            process: Name::clone(&thread.pcomm),
            program: thread.program.clone(),
            thread: Name::clone(&thread.comm),
            cgroup: thread.cgroup.clone(),
            pid: Some(thread.tgid).filter(|tgid| *tgid > 0),
        }
    }

    fn seen_by(self, axis: GroupBy) -> Self {
        let (Self { process, program, thread, cgroup, pid }, none) = (self, Self::default());
        match axis {
            GroupBy::Command => Self { process, program, ..none },
            GroupBy::Pcomm => Self { process, ..none },
            GroupBy::Pid => Self { process, program, pid, ..none },
            GroupBy::Comm | GroupBy::CommExact => Self { thread, ..none },
            GroupBy::Cgroup | GroupBy::Container | GroupBy::Pod => Self { cgroup, ..none },
            GroupBy::All => Self { process, program, thread, cgroup, pid: None },
        }
    }
}

/// Totals of threads by names, and of processes' memory: what reports with some options need of threads.
#[derive(Clone, Debug, Default)]
pub struct ThreadTotals {
    group_by: GroupBy,
    names: Names,
    pub(super) filter: ThreadFilter,
    /// Totals of the command that ran in a window, whatever the scope is.
    pub(super) command: GroupTotals,
    pub(super) census: Census,
    pub(super) by_names: HashMap<ThreadNames, GroupTotals>,
    /// The names of all threads, where renamed cgroups are matched by them.
    pub(super) tasks: HashSet<ThreadNames>,
    /// What interpreters run, by process id: reasons do not have it.
    pub(super) programs: HashMap<u32, Name>,
    pub(super) memory: ProcessMemory,
}

impl Threads for ThreadTotals {
    fn another(&self) -> Self {
        Self::empty(self.group_by, self.names, self.filter.clone())
    }

    fn add(&mut self, thread: ThreadState) {
        self.count(&thread);
    }

    fn append(&mut self, later: Self) {
        let Self { group_by: _, names: _, filter: _, command, census, by_names, tasks, programs, memory } = later;
        self.command.merge(&command);
        self.census.append(census);
        self.tasks.extend(tasks);
        self.programs.extend(programs);
        for (names, members) in by_names {
            match self.by_names.entry(names) {
                Entry::Occupied(mut known) => known.get_mut().merge(&members),
                Entry::Vacant(new) => drop(new.insert(members)),
            }
        }
        memory.by_name.into_iter().for_each(|(name, more)| self.memory.add(name, &more));
    }

    fn bytes(&self) -> usize {
        const BYTES_PER_NAME: usize = 64;
        let names = size_of::<ThreadNames>() + 3 * BYTES_PER_NAME;
        self.by_names.len() * (names + GROUP_BYTES)
            + (self.tasks.len() + self.programs.len()) * names
            + self.memory.bytes()
    }
}

impl ThreadTotals {
    /// No threads yet of these captures.
    pub fn new(options: &CompareOptions, heads: &[&SnapshotHead]) -> Self {
        let filter = options.scope.as_ref().map(|scope| scope.filter(heads)).unwrap_or_default();
        // A report narrows the totals of its tree.
        let axis = if options.tree().is_some() { GroupBy::All } else { options.group_by };
        Self::empty(axis, options.names, filter)
    }

    fn empty(group_by: GroupBy, names: Names, filter: ThreadFilter) -> Self {
        Self { group_by, names, filter, ..Self::default() }
    }

    fn count(&mut self, thread: &ThreadState) {
        if thread.owner == Some(Owner::Command) {
            self.command.add(thread);
        }
        if !self.filter.includes(thread.owner, thread.cgroup.as_deref()) {
            return;
        }
        self.census.add(thread);
        self.programs.extend(thread.program.clone().map(|program| (thread.tgid, program)));
        let names = ThreadNames::of(thread);
        if self.group_by == GroupBy::Cgroup {
            self.tasks.insert(names.clone().seen_by(GroupBy::All));
        }
        self.by_names.entry(names.seen_by(self.group_by)).or_default().add(thread);
        self.memory.add_leader(thread, self.names);
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct GroupTotals {
    /// Number of threads; in a window, of those alive at its end.
    pub(super) threads: u64,
    pub(super) turnover: Turnover,
    /// How long they were alive in the window, in nanoseconds.
    pub(super) alive_ns: u64,
    /// How long they were blocked, in nanoseconds; `None` if it is unknown for all threads.
    pub(super) blocked_ns: Option<u64>,
    pub(super) blocked_of: u64,
    /// How many of them are threads of the capturing process.
    own: u64,
    /// The id of its process, if it is one.
    pub(super) pid: OnlyId,
    /// The effective user id of its processes, if it is one.
    pub(super) euid: OnlyId,
    /// The cgroups of the threads that waited for a CPU, and one more than [`MOST_CGROUPS`] if there are too many.
    cgroups: BTreeSet<Name>,
    /// Who started its processes that exited, and how many of their threads.
    parents: BTreeMap<Name, u64>,
    /// The longest run time of one thread that ran for much of its time, in nanoseconds.
    hottest_ns: u64,
    pub(super) exited_work: BTreeMap<ExitedWork, Box<Totals>>,
    /// How many of them have a name that is known not to be cut, though it is as long as any can be.
    whole_names: u64,
    /// How many are the first threads of processes, and how many of those have such a name.
    leaders: u64,
    leaders_with_whole_names: u64,
    pub(super) lifetimes: Lifetimes,
    pub(super) totals: Box<Totals>,
    /// Whether the kernel may have cut the name that they are grouped by, so that different threads are one group.
    pub(super) name_cut: bool,
}

/// The id that a group has, if all of its threads have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OnlyId {
    #[default]
    None,
    One(u32),
    Several,
}

impl OnlyId {
    pub(super) fn get(self) -> Option<u32> {
        if let Self::One(id) = self { Some(id) } else { None }
    }

    fn merge(&mut self, other: Self) {
        *self = match (*self, other) {
            (one, Self::None) | (Self::None, one) => one,
            (one, another) if one == another => one,
            _ => Self::Several,
        };
    }
}

/// A thread that ran for less of its time than one of so many parts is not hot.
const HOT_PARTS: u64 = 20;

/// CPU quotas are those of few cgroups. More would take memory that the limit does not count.
const MOST_CGROUPS: usize = 16;

/// A report names one. More, and longer ones, would take memory that the limit does not count.
const MOST_PARENTS: usize = 16;
const LONGEST_PARENT: usize = 64;

/// About how much memory the totals of a group take, in bytes: with the words of metrics that are no numbers.
const GROUP_BYTES: usize = size_of::<GroupTotals>() + size_of::<Totals>() + 1024;

impl GroupTotals {
    fn add(&mut self, thread: &ThreadState) {
        let span = thread.span.unwrap_or_default();
        if thread.owner == Some(Owner::Ctprof) {
            self.own = self.own.saturating_add(span.count);
        }
        // Exited threads of several processes have no id.
        self.pid.merge(if thread.tgid > 0 { OnlyId::One(thread.tgid) } else { OnlyId::Several });
        self.euid.merge(thread.euid.map_or(OnlyId::None, OnlyId::One));
        if thread.metrics.wait_time_ns.is_some_and(|wait| wait.number() > 0) {
            thread.cgroup.iter().chain(&thread.cpu_cgroup).for_each(|path| self.add_cgroup(path));
        }
        if let Some(parent) = &thread.parent {
            self.add_parent(parent, span.count);
        }
        if let Some(kind) = thread.exited_work {
            self.exited_work.entry(kind).or_default().add_work(&thread.metrics);
            return self.totals.add_work(&thread.metrics);
        }
        self.turnover.add(span);
        self.alive_ns = self.alive_ns.saturating_add(span.alive_ns);
        let run_ns = thread.metrics.run_time_ns.map_or(0, u64::from);
        if span.count == 1 && span.alive_ns > 0 && run_ns >= span.alive_ns / HOT_PARTS {
            self.hottest_ns = self.hottest_ns.max(run_ns);
        }
        let blocked_ns = blocked_ns(thread);
        self.add_blocked(blocked_ns);
        if span.exited {
            return self.totals.add_work(&thread.metrics);
        }
        self.threads += 1;
        self.blocked_of += u64::from(blocked_ns.is_some());
        self.whole_names += u64::from(thread.name_complete);
        self.leaders += u64::from(thread.is_leader());
        self.leaders_with_whole_names += u64::from(thread.is_leader() && thread.name_complete);
        self.lifetimes.add(thread);
        self.totals.add(&thread.metrics);
    }

    fn add_cgroup(&mut self, path: &Name) {
        if self.cgroups.len() <= MOST_CGROUPS && !self.cgroups.contains(path) {
            self.cgroups.insert(Name::clone(path));
        }
    }

    fn add_parent(&mut self, name: &Name, threads: u64) {
        let has_room = self.parents.len() < MOST_PARENTS && name.len() <= LONGEST_PARENT;
        if has_room || self.parents.contains_key(name) {
            let all = self.parents.entry(Name::clone(name)).or_default();
            *all = all.saturating_add(threads);
        }
    }

    fn add_blocked(&mut self, blocked_ns: Option<u64>) {
        self.blocked_ns = self.blocked_ns.into_iter().chain(blocked_ns).reduce(u64::saturating_add);
    }

    /// How long they were alive in a window of this length, in nanoseconds. Single threads can be read later at its
    /// end than at its start.
    pub(super) fn alive_within(&self, duration_ns: u64) -> u64 {
        self.alive_ns.min(self.threads.saturating_add(self.turnover.exited).saturating_mul(duration_ns))
    }

    /// Whether all are threads of the capturing process, or work of its exited threads.
    pub(super) fn are_own(&self) -> bool {
        self.own > 0 && self.own >= self.threads.saturating_add(self.turnover.exited)
    }

    /// Who started its processes that exited, and how many of their threads: first the most.
    pub(super) fn parents(&self) -> Vec<(Name, u64)> {
        let mut parents: Vec<_> = self.parents.iter().map(|(name, count)| (Name::clone(name), *count)).collect();
        parents.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        parents
    }

    /// How often the cgroups of the threads that waited, and those above them, had used their CPU quotas in a window; `None`
    /// if they had not, or there are too many.
    pub(super) fn throttled(&self, snapshot: &SnapshotHead) -> Option<Throttled> {
        let is_known = snapshot.window.is_some() && self.cgroups.len() <= MOST_CGROUPS;
        let paths: BTreeSet<_> = self.cgroups.iter().flat_map(|path| Path::new(&**path).ancestors()).collect();
        let of_cgroup = |path: &&Path| snapshot.cgroup_stats.get(path.to_str()?).map(|stats| &stats.cpu);
        let mut all = Throttled::default();
        for cpu in paths.iter().filter(|_| is_known).filter_map(of_cgroup) {
            all.periods = all.periods.saturating_add(cpu.nr_periods.map_or(0, u64::from));
            all.throttled = all.throttled.saturating_add(cpu.nr_throttled.map_or(0, u64::from));
        }
        (all.throttled > 0).then_some(all)
    }

    /// The share of the run time of all that one of several threads took, 0 to 1, if that ran for much of its time.
    pub(super) fn hottest(&self) -> Option<f64> {
        let all = self.totals.run_time_ns.sum().filter(|all| *all > 0 && self.hottest_ns > 0)?;
        let are_several = self.threads.saturating_add(self.turnover.exited) > 1;
        are_several.then(|| self.hottest_ns as f64 / all as f64)
    }

    /// Whether every name that decides the group is known to be whole.
    pub(super) fn has_whole_names(&self, axis: GroupBy) -> bool {
        let (named, whole) = match axis {
            GroupBy::Command | GroupBy::Pcomm | GroupBy::Pid => (self.leaders, self.leaders_with_whole_names),
            _ => (self.threads, self.whole_names),
        };
        named > 0 && named == whole
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let Self {
            threads,
            turnover,
            alive_ns,
            blocked_ns,
            blocked_of,
            own,
            pid,
            euid,
            cgroups,
            parents,
            hottest_ns,
            exited_work,
            whole_names,
            leaders,
            leaders_with_whole_names,
            lifetimes,
            totals,
            name_cut,
        } = other;
        self.threads += *threads;
        self.turnover.merge(*turnover);
        self.alive_ns = self.alive_ns.saturating_add(*alive_ns);
        self.add_blocked(*blocked_ns);
        self.blocked_of += *blocked_of;
        self.own = self.own.saturating_add(*own);
        self.pid.merge(*pid);
        self.euid.merge(*euid);
        cgroups.iter().for_each(|path| self.add_cgroup(path));
        parents.iter().for_each(|(name, count)| self.add_parent(name, *count));
        self.hottest_ns = self.hottest_ns.max(*hottest_ns);
        for (kind, totals) in exited_work {
            self.exited_work.entry(*kind).or_default().merge(totals);
        }
        self.whole_names += *whole_names;
        self.leaders += *leaders;
        self.leaders_with_whole_names += *leaders_with_whole_names;
        self.lifetimes.merge(*lifetimes);
        self.totals.merge(totals);
        self.name_cut |= name_cut;
    }
}

/// How long a thread was blocked: as the scheduler counts it, else by the I/O and memory delays of taskstats. The
/// scheduler counts the idle time of kernel threads as blocked (`TASK_IDLE`), so of these only I/O waits count. Under
/// sched_ext it counts neither: the values stay zero.
fn blocked_ns(thread: &ThreadState) -> Option<u64> {
    let metrics = &thread.metrics;
    let delays = || {
        let optional = |delay: Option<MonotonicNs>| delay.map_or(0, u64::from);
        let swap = metrics.swapin_delay_total_ns?.number().max(optional(metrics.thrashing_delay_total_ns));
        let memory = [metrics.freepages_delay_total_ns, metrics.compact_delay_total_ns].map(optional);
        Some(memory.into_iter().fold(metrics.blkio_delay_total_ns?.number().saturating_add(swap), u64::saturating_add))
    };
    let counted = if thread.kernel_thread { metrics.iowait_sum } else { metrics.block_sum };
    counted.filter(|_| metrics.ext_enabled != Some(true)).map(u64::from).or_else(delays)
}

/// When threads started and were read, summed over those whose start is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lifetimes {
    threads: u64,
    /// Threads that are older than the clock of their time namespace: nobody knows since when they live.
    older: u64,
    start_ticks: u128,
    read_at_ns: u128,
}

impl Lifetimes {
    fn add(&mut self, thread: &ThreadState) {
        let Some(start) = thread.start_time_clock_ticks else { return };
        if thread.start_ns().is_none() {
            self.older += 1;
            return;
        }
        self.threads += 1;
        self.start_ticks += u128::from(start);
        self.read_at_ns += u128::from(thread.read_at_ns.unwrap_or(0));
    }

    fn merge(&mut self, other: Self) {
        let Self { threads, older, start_ticks, read_at_ns } = other;
        self.threads += threads;
        self.older += older;
        self.start_ticks += start_ticks;
        self.read_at_ns += read_at_ns;
    }

    /// The sum of the times since boot at which the threads were read, in nanoseconds, if it is known.
    fn uptime(self, snapshot: &SnapshotHead) -> Option<u128> {
        Some(u128::from(snapshot.boottime_ns()?) * u128::from(self.threads) + self.read_at_ns)
    }

    /// The sum of the times that the threads have existed, in nanoseconds, and the number of threads; `None` if
    /// the time since boot or the tick rate, the start of every thread, or the age of one is unknown.
    pub(super) fn lived(self, snapshot: &SnapshotHead) -> Option<(u128, u64)> {
        let host = snapshot.host.as_ref()?;
        let ns_per_tick = 1_000_000_000_u64.checked_div(host.clock_ticks_per_second?)?;
        let lived = self.uptime(snapshot)?.saturating_sub(self.start_ticks * u128::from(ns_per_tick));
        (self.threads > 0 && self.older == 0).then_some((lived, self.threads))
    }

    /// The average share of the time since boot that the threads have existed, 0 to 1; `None` if the
    /// host's uptime or tick rate, or the start of every thread, is unknown.
    pub(super) fn share_of_uptime(self, snapshot: &SnapshotHead) -> Option<f64> {
        let (lived, _) = self.lived(snapshot)?;
        let uptime = self.uptime(snapshot)?;
        (uptime > 0).then(|| lived as f64 / uptime as f64)
    }
}

#[cfg(test)]
mod tests;
