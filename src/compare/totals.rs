//! Totals of the threads of a group.

use std::collections::{BTreeMap, BTreeSet};

use super::longest_wait::LongestWait;
use super::{GroupBy, GroupFacts, HaltedNs, ProcessMemory, Throttled, Turnover};
use crate::model::sorted::Arrange;
use crate::model::{
    ExitedWork, METRICS, MetricId, MonotonicNs, Name, Owner, PROCESS, SnapshotHead, Source, ThreadSpan, ThreadState,
    Totals, WindowRule, lineage,
};

/// Totals of a group: the work of its threads, and their number.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupTotals {
    /// Number of threads; in a window, threads alive at its end.
    pub(super) threads: u64,
    pub(super) turnover: Turnover,
    /// How long they were alive in the window, in nanoseconds.
    pub(super) alive_ns: u64,
    /// How long others were alive in programs that they left, in nanoseconds.
    left_ns: u64,
    /// Number of threads that had exited, and that their parents had not waited for at the end of the window.
    zombies: u64,
    /// How long threads were zombies in the window, in nanoseconds.
    zombie_ns: u64,
    /// How long they were zombies, by the process that had not waited for them.
    zombie_parents: BTreeMap<Name, u64>,
    /// How long threads were in each of the states of `HALTED`, in nanoseconds, by samples.
    pub(super) halted_ns: HaltedNs,
    /// How long they were blocked, in nanoseconds; `None` if it is unknown for all threads.
    pub(super) blocked_ns: Option<u64>,
    pub(super) blocked_of: u64,
    /// Number of threads that belong to the capturing process.
    own: u64,
    /// The id of its process, if it is one.
    pub(super) pid: OnlyId,
    /// The id of its thread, if it is one.
    pub(super) tid: OnlyId,
    /// The effective user id of its processes, if it is one.
    pub(super) euid: OnlyId,
    /// The cgroups of the threads that waited for a CPU, and one more than [`MOST_CGROUPS`] if there are too many.
    cgroups: BTreeSet<Name>,
    /// Number of threads of processes that started and exited, by the ancestor of the process.
    parents: BTreeMap<Name, u64>,
    /// The longest run time of one thread that ran for much of its time, in nanoseconds.
    hottest_ns: u64,
    pub(super) exited_work: BTreeMap<ExitedWork, Box<Totals>>,
    /// The metrics that some of it has no value of, as processes count less than threads do: a bit for each.
    unknown_of_exited: u128,
    /// Whether a process exited without a record: what processes count of it is in the total only with exited children.
    lost_processes: bool,
    /// Number of threads whose name is known not to be cut, although it has the maximum length.
    whole_names: u64,
    /// Number of first threads of processes, and the number of first threads with such a name.
    leaders: u64,
    leaders_with_whole_names: u64,
    pub(super) lifetimes: Lifetimes,
    pub(super) longest_wait: LongestWait,
    pub(super) totals: Box<Totals>,
    /// The memory of its processes; `None` if it was read of none.
    pub(super) memory: Option<Box<ProcessMemory>>,
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

/// Number of equal parts of a thread's time. A thread that ran for less than one part is not hot.
const HOT_PARTS: u64 = 20;

/// Maximum number of cgroups whose CPU quotas are kept. More would take memory that the limit does not count.
const MOST_CGROUPS: usize = 16;

/// A report names one. More, and longer ones, would take memory that the limit does not count.
const MOST_PARENTS: usize = 16;
const LONGEST_PARENT: usize = 64;

impl GroupTotals {
    pub(super) fn add(&mut self, thread: &ThreadState) {
        if let Some(memory) = ProcessMemory::of_leader(thread) {
            self.memory.get_or_insert_default().merge(&memory);
        }
        let span = thread.span.unwrap_or_default();
        if thread.owner == Some(Owner::Ctprof) {
            self.own = self.own.saturating_add(span.count);
        }
        // Exited threads of several processes have no id.
        self.pid.merge(if thread.tgid > 0 { OnlyId::One(thread.tgid) } else { OnlyId::Several });
        // Exited work is not a thread.
        if thread.exited_work.is_none() {
            self.tid.merge(if thread.tid > 0 { OnlyId::One(thread.tid) } else { OnlyId::Several });
        }
        self.euid.merge(thread.euid.map_or(OnlyId::None, OnlyId::One));
        self.longest_wait.merge(LongestWait::of_thread(thread));
        if thread.metrics.wait_time_ns.is_some_and(|wait| wait.number() > 0) {
            thread.cpu_cgroup.iter().chain(&thread.cgroup).take(1).for_each(|path| self.add_cgroup(path));
        }
        if let Some(parent) = &thread.parent {
            match span.zombie_ns {
                0 => add_parent(&mut self.parents, parent, span.count),
                ns => add_parent(&mut self.zombie_parents, parent, ns),
            }
        }
        if let Some(kind) = thread.exited_work {
            self.unknown_of_exited |= !thread.metrics.present();
            self.exited_work.entry(kind).or_default().add_work(&thread.metrics);
            return self.totals.add_work(&thread.metrics);
        }
        let has_left = span.exited && span.zombie_ns == 0;
        self.turnover.add(ThreadSpan { exited: has_left, ..span });
        let alive_ns = if span.count > 0 { &mut self.alive_ns } else { &mut self.left_ns };
        *alive_ns = alive_ns.saturating_add(span.alive_ns);
        let is_hot = |run_ns: &u64| span.count == 1 && span.alive_ns > 0 && *run_ns >= span.alive_ns / HOT_PARTS;
        if let Some(run_ns) = thread.metrics.run_time_ns.map(u64::from).filter(is_hot) {
            self.hottest_ns = self.hottest_ns.max(run_ns);
        }
        let blocked_ns = blocked_ns(thread);
        self.add_blocked(blocked_ns);
        if has_left {
            if thread.metrics.present() == 0 {
                self.unknown_of_exited |= !counted_by_processes();
                self.lost_processes |= thread.is_leader();
            }
            self.unknown_of_exited |= never_in_exit_records() & !thread.metrics.present();
            return self.totals.add_work(&thread.metrics);
        }
        self.threads += 1;
        self.zombies += u64::from(span.zombie_ns > 0);
        self.zombie_ns = self.zombie_ns.saturating_add(span.zombie_ns);
        self.blocked_of += u64::from(blocked_ns.is_some());
        self.whole_names += u64::from(thread.name_complete);
        self.leaders += u64::from(thread.is_leader());
        self.leaders_with_whole_names += u64::from(thread.is_leader() && thread.name_complete);
        self.lifetimes.add(thread);
        self.totals.add(&thread.metrics);
    }

    /// Whether the total of a counter, or a peak, lacks exited work. It has no state.
    pub(super) fn lacks_exited_work(&self, id: MetricId) -> bool {
        let is_lost = self.lost_processes && !self.exited_work.contains_key(&ExitedWork::Children);
        let unknown = self.unknown_of_exited | if is_lost { counted_by_processes() } else { 0 };
        id.metric().window != WindowRule::Later && unknown >> id as u32 & 1 == 1
    }

    /// The number of kinds of memory.
    pub(super) fn kinds(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.kinds.len())
    }

    fn add_cgroup(&mut self, path: &Name) {
        if self.cgroups.len() <= MOST_CGROUPS && !self.cgroups.contains(path) {
            self.cgroups.insert(Name::clone(path));
        }
    }

    fn add_blocked(&mut self, blocked_ns: Option<u64>) {
        self.blocked_ns = self.blocked_ns.into_iter().chain(blocked_ns).reduce(u64::saturating_add);
    }

    /// How long they were alive in a window of this length, in nanoseconds. Single threads can be read later at its
    /// end than at its start.
    pub(super) fn alive_within(&self, duration_ns: u64) -> u64 {
        let most_ns = self.threads.saturating_add(self.turnover.exited).saturating_mul(duration_ns);
        self.alive_ns.min(most_ns).saturating_add(self.left_ns)
    }

    /// How long its zombies were there in a window of this length, in nanoseconds; `None` without one.
    pub(super) fn zombie_ns(&self, duration_ns: u64) -> Option<u64> {
        let most_ns = self.zombies.saturating_mul(duration_ns);
        Some(self.zombie_ns.min(most_ns)).filter(|ns| *ns > 0)
    }

    /// Whether all are threads of the capturing process, or work of its exited threads.
    pub(super) fn are_own(&self) -> bool {
        self.own > 0 && self.own >= self.threads.saturating_add(self.turnover.exited)
    }

    /// Returns the facts that a report of this capture shows about the group besides its values.
    pub(super) fn group_facts(&self, head: &SnapshotHead) -> GroupFacts {
        GroupFacts {
            members: self.threads,
            zombies: self.zombies,
            turnover: self.turnover,
            uptime: self.lifetimes.share_of_uptime(head),
            own: self.are_own(),
            pid: self.pid.get(),
            tid: self.tid.get(),
            euid: self.euid.get(),
            throttled: self.throttled(head),
            longest_quota_ns: self.longest_quota_ns(head),
            hottest: self.hottest(),
            exited_work: None,
            is_minor: false,
            name_cut: self.name_cut,
            parents: most_first(&self.parents),
            zombie_parents: most_first(&self.zombie_parents),
        }
    }

    /// How often the cgroups of the threads that waited, and those above them, had used their CPU quotas in a window; `None`
    /// if they had not, if that is unknown, or if there are too many.
    fn throttled(&self, snapshot: &SnapshotHead) -> Option<Throttled> {
        let mut all = Throttled::default();
        let counters = |path: &'_ str| {
            let cpu = &snapshot.cgroup_stats.get(path)?.cpu;
            Some((cpu.nr_throttled?, cpu.nr_periods?))
        };
        // Of cgroups with quotas that are in one another, the one that stops the threads most often.
        let tightest = |path: &'_ Name| lineage(path).max_by_key(|above| counters(above)).map(str::to_owned);
        let tightest: BTreeSet<_> = self.waiting_paths(snapshot).filter_map(tightest).collect();
        for (throttled, periods) in tightest.iter().filter_map(|path| counters(path)) {
            all.periods = all.periods.saturating_add(periods.into());
            all.throttled = all.throttled.saturating_add(throttled.into());
        }
        (all.throttled > 0).then_some(all)
    }

    /// Returns the longest time out of quota: as if each thread had waited whenever one of its cgroups was out of quota, on all
    /// CPUs. `None` if a cgroup of the threads is not known at both ends of the window.
    fn longest_quota_ns(&self, snapshot: &SnapshotHead) -> Option<u64> {
        let cpu = |path: &str| snapshot.cgroup_stats.get(path).filter(|stats| !stats.partial).map(|stats| &stats.cpu);
        let is_known =
            |path: &str| cpu(path).is_some_and(|cpu| cpu.throttled_usec.is_some() || cpu.usage_usec.is_some());
        // The first cgroup of all has no quota, and no values in older kernels.
        let are_known = |path: &Name| lineage(path).filter(|above| *above != "/").all(is_known) && is_known(path);
        if !self.cgroups.iter().all(are_known) {
            return None;
        }
        let lineage: BTreeSet<_> = self.waiting_paths(snapshot).flat_map(|path| lineage(path)).collect();
        let throttled = lineage.into_iter().filter_map(|path| cpu(path)?.throttled_usec);
        let all_us = throttled.map(u64::from).reduce(u64::saturating_add)?;
        let threads = self.threads.saturating_add(self.turnover.exited);
        Some(all_us.saturating_mul(1000).saturating_mul(threads))
    }

    /// The paths of the cgroups of the threads that waited in a window; none if there are too many.
    fn waiting_paths(&self, snapshot: &SnapshotHead) -> impl Iterator<Item = &Name> {
        let is_known = snapshot.window.is_some() && self.cgroups.len() <= MOST_CGROUPS;
        self.cgroups.iter().filter(move |_| is_known)
    }

    /// The share of the run time of all that one of several threads took, 0 to 1, if that ran for much of its time.
    fn hottest(&self) -> Option<f64> {
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
            left_ns,
            zombies,
            zombie_ns,
            zombie_parents,
            halted_ns: _,
            blocked_ns,
            blocked_of,
            own,
            pid,
            tid,
            euid,
            cgroups,
            parents,
            hottest_ns,
            exited_work,
            unknown_of_exited,
            lost_processes,
            whole_names,
            leaders,
            leaders_with_whole_names,
            lifetimes,
            longest_wait,
            totals,
            memory,
            name_cut,
        } = other;
        self.threads += *threads;
        self.turnover.merge(*turnover);
        self.alive_ns = self.alive_ns.saturating_add(*alive_ns);
        self.left_ns = self.left_ns.saturating_add(*left_ns);
        self.zombies = self.zombies.saturating_add(*zombies);
        self.zombie_ns = self.zombie_ns.saturating_add(*zombie_ns);
        self.add_blocked(*blocked_ns);
        self.blocked_of += *blocked_of;
        self.own = self.own.saturating_add(*own);
        self.pid.merge(*pid);
        self.tid.merge(*tid);
        self.euid.merge(*euid);
        cgroups.iter().for_each(|path| self.add_cgroup(path));
        parents.iter().for_each(|(name, count)| add_parent(&mut self.parents, name, *count));
        zombie_parents.iter().for_each(|(name, ns)| add_parent(&mut self.zombie_parents, name, *ns));
        self.hottest_ns = self.hottest_ns.max(*hottest_ns);
        for (kind, totals) in exited_work {
            self.exited_work.entry(*kind).or_default().merge(totals);
        }
        self.unknown_of_exited |= unknown_of_exited;
        self.lost_processes |= lost_processes;
        self.whole_names += *whole_names;
        self.leaders += *leaders;
        self.leaders_with_whole_names += *leaders_with_whole_names;
        self.lifetimes.merge(*lifetimes);
        self.longest_wait.merge(*longest_wait);
        self.totals.merge(totals);
        if let Some(memory) = memory {
            self.memory.get_or_insert_default().merge(memory);
        }
        self.name_cut |= name_cut;
    }
}

/// The metrics that processes count for their exited threads and children: a bit for each.
fn counted_by_processes() -> u128 {
    let counted = PROCESS.iter().map(|field| field.source.metric).chain([MetricId::run_time_ns]);
    counted.fold(0, |all, id| all | 1 << id as u32)
}

/// The counters of allocators, which are gone with the memory of a process: a bit for each.
fn never_in_exit_records() -> u128 {
    let of_heap = METRICS.iter().filter(|metric| matches!(metric.sources.procfs, [Source::Tsd(_)]));
    of_heap.fold(0, |all, metric| all | 1 << metric.id as u32)
}

/// Adds to the amount of a parent, if there is room.
fn add_parent(parents: &mut BTreeMap<Name, u64>, name: &Name, amount: u64) {
    let has_room = parents.len() < MOST_PARENTS && name.len() <= LONGEST_PARENT;
    if has_room || parents.contains_key(name) {
        let all = parents.entry(Name::clone(name)).or_default();
        *all = all.saturating_add(amount);
    }
}

/// Returns parents and their amounts, the largest amount first.
fn most_first(parents: &BTreeMap<Name, u64>) -> Vec<(Name, u64)> {
    let mut parents: Vec<_> = parents.iter().map(|(name, amount)| (Name::clone(name), *amount)).collect();
    parents.arrange_by_key(|(_, amount)| std::cmp::Reverse(*amount));
    parents
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
        self.read_at_ns += u128::from(thread.read_after_ns());
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
