//! Why the threads of each group waited: the time of its counters, divided by shares of samples.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::longest_wait::LongestWait;
use super::shared_waits::SharedWaits;
use super::{
    BLOCK, COARSEST, CompareOptions, GroupBy, GroupReason, ITSELF, Measurement, Naming, OverviewColumn, RUN,
    ReasonName, SLEEP, SideGroup, SideSection, Sides, ThreadNames, ThreadTotals, WAIT, ZOMBIE, number, of_kind,
};
use crate::diagnose::{Note, Side};
use crate::model::sorted::CollectSorted;
use crate::model::{
    Cell, Name, OtherThread, ReasonClass, ReasonTime, Reasons, SampledThreads, SampledTime, SnapshotHead, Unit,
};

/// A reason with fewer samples is merged with others: shares of so few say nothing.
const FEWEST_SAMPLES: u64 = 5;

/// The reasons of the groups of a capture, by key. All groups together have an empty key.
pub(super) type GroupedReasons = BTreeMap<Vec<String>, BTreeMap<GroupReason, SampledTime>>;

/// The names of the processes and threads that a capture's reasons name.
pub(super) fn names(reasons: &Reasons) -> impl Iterator<Item = (&str, &str)> {
    let culprits = reasons.reasons.iter().filter_map(|reason| reason.by.as_ref());
    let victims = reasons.threads.iter().map(|threads| (&*threads.pcomm, &*threads.comm));
    victims.chain(culprits.map(|other| (&*other.pcomm, &*other.comm)))
}

/// Groups the reasons of a capture, also for the upper levels of a tree. Places that do not exist are left out.
pub(super) fn grouped(
    head: &SnapshotHead,
    reasons: &Reasons,
    threads: &ThreadTotals,
    naming: &Naming<'_>,
) -> GroupedReasons {
    let is_in_scope = |sampled: &SampledThreads| threads.filter.includes(sampled.owner, sampled.cgroup.as_deref());
    let only_threads = threads.only_threads();
    let path = |process: &Name, (pid, program): (Option<u32>, Option<&Name>), thread: &Name, cgroup: &Option<Name>| {
        let tid = pid.and_then(|pid| *only_threads.get(&(pid, &**thread))?);
        let [process, thread] = [process, thread].map(Name::clone);
        naming.path(&ThreadNames { process, program: program.cloned(), thread, cgroup: cgroup.clone(), pid, tid })
    };
    let victim = |sampled: &SampledThreads| {
        path(&sampled.pcomm, (sampled.tgid, program_of(sampled, threads)), &sampled.comm, &sampled.cgroup)
    };
    let all: Vec<_> = reasons.threads.iter().map(victim).collect();
    // Which script or process a culprit is of is only known if there is one of its name.
    let mut only: HashMap<&str, Option<&[String]>> = HashMap::new();
    let are_all = head.capture.as_ref().is_none_or(|capture| capture.options.pids.is_empty());
    if are_all && matches!(naming.by, GroupBy::Command | GroupBy::Pid) {
        for (sampled, path) in reasons.threads.iter().zip(&all) {
            let only_path = only.entry(&*sampled.pcomm).or_insert(Some(path));
            *only_path = only_path.filter(|earlier| earlier == path);
        }
    }
    // In a tree, the same of its script.
    let mut programs: HashMap<&str, Option<Option<&Name>>> = HashMap::new();
    for sampled in reasons.threads.iter().filter(|_| are_all && naming.by == GroupBy::All) {
        let program = program_of(sampled, threads);
        let only_program = programs.entry(&*sampled.pcomm).or_insert(Some(program));
        *only_program = only_program.filter(|earlier| *earlier == program);
    }
    let program = |other: &OtherThread| programs.get(&*other.pcomm).copied().flatten().flatten();
    let culprit = |other: &OtherThread| match only.get(&*other.pcomm).copied().flatten() {
        Some(path) => path.to_vec(),
        None => path(&other.pcomm, (None, other.program.as_ref().or(program(other))), &other.comm, &other.cgroup),
    };
    let victims: Vec<_> =
        reasons.threads.iter().zip(&all).map(|(sampled, path)| is_in_scope(sampled).then_some(path)).collect();
    let culprits: Vec<_> = reasons.reasons.iter().map(|reason| reason.by.as_ref().map(culprit)).collect();
    let mut groups = GroupedReasons::new();
    for ReasonTime { threads, reason, ns, samples, .. } in &reasons.times {
        let place = usize::try_from(*reason).unwrap_or(usize::MAX);
        let victim = usize::try_from(*threads).ok().and_then(|threads| *victims.get(threads)?);
        let (Some(path), Some(reason)) = (victim, reasons.reasons.get(place)) else { continue };
        for depth in 0..=path.len() {
            let by = culprits[place].as_ref().zip(reason.by.as_ref());
            let by = by.map(|(culprit, other)| match culprit_name(culprit, path, depth) {
                // Of other processes with its name, some may have run that were not selected.
                itself if &*itself == ITSELF && reason.class == ReasonClass::Wait && !are_all && depth > 0 => {
                    culprit[depth - 1].as_str().into()
                }
                itself if &*itself == ITSELF && reason.class != ReasonClass::Wait => {
                    format!("its thread {}", naming.thread.key(&other.comm)).into()
                }
                name => name,
            });
            let group = groups.entry(path[..depth].to_vec()).or_default();
            group.entry(GroupReason::new(reason, by)).or_default().add(SampledTime { ns: *ns, samples: *samples });
        }
    }
    groups
}

/// Returns the program that the process of these threads runs. Files of 0.3.0 have it only in the rows of threads.
fn program_of<'t>(sampled: &'t SampledThreads, threads: &'t ThreadTotals) -> Option<&'t Name> {
    sampled.program.as_ref().or_else(|| threads.programs.get(&sampled.tgid?))
}

/// Tells threads how long samples saw them waiting. Threads that several names stand for are left out.
pub(super) fn tell_longest_waits(threads: &mut ThreadTotals, reasons: &Reasons) {
    let only_threads = threads.only_threads();
    let sampled = reasons.longest_waits.iter().filter_map(|(place, ns)| {
        let of = reasons.threads.get(usize::try_from(*place).ok()?)?;
        let tid = of.tgid.and_then(|tgid| *only_threads.get(&(tgid, &*of.comm))?);
        let names = ThreadNames {
            process: Name::clone(&of.pcomm),
            program: program_of(of, threads).cloned(),
            thread: Name::clone(&of.comm),
            cgroup: of.cgroup.clone(),
            pid: of.tgid,
            tid,
        };
        let is_in_scope = threads.filter.includes(of.owner, of.cgroup.as_deref());
        is_in_scope.then(|| (names.seen_by(threads.group_by), *ns))
    });
    for (names, ns) in sampled.collect::<Vec<_>>() {
        if let Some(members) = threads.by_names.get_mut(&names) {
            members.longest_wait.merge(LongestWait::of_samples(ns));
        }
    }
}

/// The name of a culprit for the group at this depth of its victim's path.
fn culprit_name(culprit: &[String], victim: &[String], depth: usize) -> Name {
    let place = depth.max(1);
    let is_itself = depth > 0 && culprit[..place] == victim[..place];
    if is_itself { ITSELF.into() } else { culprit[place - 1].as_str().into() }
}

/// The rows of each group, decided for all captures together so that they have the same: which reasons are parts of a row.
pub(super) type ReasonRows = BTreeMap<Vec<String>, BTreeMap<GroupReason, Arc<GroupReason>>>;

/// Merges reasons with few samples into reasons with fewer details. Samples of many threads at one moment are one observation: at
/// most `passes` of a side count.
pub(super) fn rows(sides: &Sides<Vec<&GroupedReasons>>, passes: u64, options: &CompareOptions) -> ReasonRows {
    let mut samples: BTreeMap<&[String], BTreeMap<&GroupReason, u64>> = BTreeMap::new();
    for side in sides.iter() {
        let mut of_side: BTreeMap<(&[String], &GroupReason), u64> = BTreeMap::new();
        for (key, reasons) in side.iter().copied().flatten() {
            for (reason, weight) in reasons {
                let all = of_side.entry((key, reason)).or_default();
                *all = all.saturating_add(weight.samples);
            }
        }
        for ((key, reason), count) in of_side {
            let most = samples.entry(key).or_default().entry(reason).or_default();
            *most = count.max(*most);
        }
    }
    let objects = if sides.candidate.is_none() { UnnamedObjects::Counted } else { UnnamedObjects::Matched };
    let whole = |reasons: BTreeMap<&GroupReason, u64>| {
        let mut of_kinds: BTreeMap<GroupReason, Vec<&GroupReason>> = BTreeMap::new();
        reasons.into_keys().for_each(|reason| of_kinds.entry(reason.of_kind_of_object()).or_default().push(reason));
        let rows = of_kinds.into_iter().flat_map(|(row, members)| {
            let row = Arc::new(objects.shown_in(row, members.iter().copied()));
            members.into_iter().map(move |member| (member.clone(), Arc::clone(&row)))
        });
        rows.collect()
    };
    let of_group = |reasons: BTreeMap<&GroupReason, u64>| {
        let has_stacks = || reasons.keys().any(|reason| reason.stack.is_some());
        let is_whole = options.has_whole_stacks || (options.has_reason_trees && has_stacks());
        if is_whole { whole(reasons) } else { merged(reasons, passes, objects) }
    };
    samples.into_iter().map(|(key, reasons)| (key.to_vec(), of_group(reasons))).collect()
}

/// How reports show objects without names, such as pipes.
#[derive(Clone, Copy)]
enum UnnamedObjects {
    /// Objects of one side are counted: `12 pipes`.
    Counted,
    /// Objects of two sides are one if they are of the same kind: `pipes`.
    Matched,
}

impl UnnamedObjects {
    fn shown_in<'m>(self, row: GroupReason, members: impl Iterator<Item = &'m GroupReason>) -> GroupReason {
        match self {
            Self::Counted => row.on_objects_of(members),
            Self::Matched => row,
        }
    }
}

fn merged(
    mut reasons: BTreeMap<&GroupReason, u64>,
    passes: u64,
    objects: UnnamedObjects,
) -> BTreeMap<GroupReason, Arc<GroupReason>> {
    reasons.retain(|reason, _| reason.column().is_some());
    let shared = SharedWaits::from_reasons(&reasons);
    let placed = |reason| GroupReason { at: shared.site(reason), ..GroupReason::clone(reason) };
    let placed: BTreeMap<&GroupReason, GroupReason> = reasons.keys().map(|reason| (*reason, placed(*reason))).collect();
    let mut rows = BTreeMap::new();
    for level in 0..=COARSEST {
        let mut coarse: BTreeMap<GroupReason, Vec<(u64, &GroupReason)>> = BTreeMap::new();
        for (reason, samples) in &reasons {
            coarse.entry(placed[reason].coarse(level)).or_default().push((*samples, reason));
        }
        for (row, members) in coarse {
            let samples = members.iter().fold(0_u64, |all, (samples, _)| all.saturating_add(*samples));
            if samples.min(passes) >= FEWEST_SAMPLES || level == COARSEST || row.class == ReasonClass::Idle {
                let most = members.iter().filter(|_| row.at.is_some()).max_by_key(|(samples, _)| samples);
                let stack = most.and_then(|(_, reason)| reason.stack.clone());
                let row = objects.shown_in(row, members.iter().map(|(_, reason)| *reason));
                let row = Arc::new(GroupReason { stack, ..row });
                for (_, reason) in members {
                    reasons.remove(reason);
                    rows.insert(reason.clone(), Arc::clone(&row));
                }
            }
        }
    }
    rows
}

/// Content of the section for each group.
pub(super) enum Wanted<'w> {
    /// Rows with one reason each.
    Rows(&'w ReasonRows),
    /// The sums of the reasons with these names.
    Sums(Vec<&'w ReasonName>),
}

/// The section of one capture, from its overview, whose times are nanoseconds.
pub(super) fn section(
    overview: SideSection,
    reasons: &GroupedReasons,
    period_ns: u64,
    wanted: &Wanted<'_>,
) -> SideSection {
    let none = BTreeMap::new();
    let groups = overview.into_iter().filter(|(_, group)| group.group_facts.exited_work.is_none());
    let groups = groups.map(|(key, group)| {
        let weights = reasons.get(&key).unwrap_or(&none);
        let times = GroupTime::new(&group, weights, period_ns);
        let measurements = match wanted {
            Wanted::Rows(rows) => times.rows(weights, rows.get(&key)),
            Wanted::Sums(names) => names.iter().map(|name| times.sum(weights, name)).collect(),
        };
        (key, SideGroup { measurements, ..group })
    });
    groups.collect()
}

/// The time of a group in each column of the overview, and the weight of the samples that divide it.
struct GroupTime<'g> {
    columns: BTreeMap<&'static str, (&'g Measurement, f64)>,
    /// How long threads were zombies, by the process that had not waited for them.
    zombie_parents: &'g [(Name, u64)],
    /// Shorter times may have no sample.
    shortest: f64,
    /// The part of the samples of waits for CPU quotas that the kernel's own times of cgroups allow for, 0 to 1.
    quota_part: f64,
}

impl<'g> GroupTime<'g> {
    fn new(group: &'g SideGroup, weights: &BTreeMap<GroupReason, SampledTime>, period_ns: u64) -> Self {
        let mut columns: BTreeMap<&'static str, (&Measurement, f64)> = BTreeMap::new();
        for measured in group.measurements.iter().filter(|measured| measured.cell.is_some()) {
            columns.extend(measured.quantity.map(|column| (column.name(), (measured, 0.0))));
        }
        let shortest = (period_ns.saturating_mul(FEWEST_SAMPLES)) as f64;
        let mut times = Self { columns, zombie_parents: &group.group_facts.zombie_parents, shortest, quota_part: 1.0 };
        for (reason, weight) in weights {
            let column = times.column(reason);
            if let Some((_, all)) = column.and_then(|column| times.columns.get_mut(column)) {
                *all += weight.ns as f64;
            }
        }
        let of_quotas = weights.iter().filter(|(reason, _)| reason.class == ReasonClass::CpuQuota);
        let quotas_ns = times.amount(WAIT, of_quotas.map(|(_, weight)| weight.ns as f64).sum()).unwrap_or(0.0);
        if let Some(longest_ns) = group.group_facts.longest_quota_ns.filter(|longest| (*longest as f64) < quotas_ns) {
            times.quota_part = longest_ns as f64 / quotas_ns;
        }
        times
    }

    /// Returns the nanoseconds of samples that belong to a reason, out of `ns`: beyond the time that cgroups waited for quotas,
    /// waits have other reasons.
    fn own_ns(&self, reason: &GroupReason, ns: u64) -> f64 {
        if reason.class == ReasonClass::CpuQuota { ns as f64 * self.quota_part } else { ns as f64 }
    }

    /// The column whose time the reason divides. Without a counter of blocked time, sleep includes it.
    fn column(&self, reason: &GroupReason) -> Option<&'static str> {
        reason.column().map(|column| if column == BLOCK && !self.columns.contains_key(BLOCK) { SLEEP } else { column })
    }

    /// The time of reasons that have so many nanoseconds of the samples of a column.
    fn amount(&self, column: &str, ns: f64) -> Option<f64> {
        let Some((counter, all)) = self.columns.get(column) else {
            // Groups that were never in a rare state have no time of it.
            return OverviewColumn::named(column).filter(|column| column.is_rare() && ns == 0.0).map(|_| 0.0);
        };
        let time = number(counter.cell.as_ref()?)?;
        match () {
            () if *all > 0.0 => Some(time * ns / all),
            () if time <= self.shortest => Some(0.0),
            () => None,
        }
    }

    fn rows(
        &self,
        weights: &BTreeMap<GroupReason, SampledTime>,
        rows: Option<&BTreeMap<GroupReason, Arc<GroupReason>>>,
    ) -> Vec<Measurement> {
        let mut ns: BTreeMap<&Arc<GroupReason>, f64> = BTreeMap::new();
        let other_wait = GroupReason::other(WAIT).map(Arc::new);
        for (reason, row) in rows.into_iter().flatten() {
            let all_ns = weights.get(reason).map_or(0, |weight| weight.ns);
            let own_ns = self.own_ns(reason, all_ns);
            *ns.entry(row).or_default() += own_ns;
            if let Some(other) = other_wait.as_ref().filter(|_| own_ns < all_ns as f64) {
                *ns.entry(other).or_default() += all_ns as f64 - own_ns;
            }
        }
        let sampled = ns.into_iter().filter_map(|(row, ns)| {
            let column = self.column(row)?;
            Some((Arc::clone(row), (column, self.amount(column, ns))))
        });
        let amounts: BTreeMap<_, _> = sampled.chain(self.unsampled()).into_map();
        let row = |(row, (column, amount)): (Arc<GroupReason>, (&str, Option<f64>))| {
            let measured = self.measured(row_name(&row), &[column], amount);
            Measurement { reason: Some(row), ..measured }
        };
        amounts.into_iter().map(row).collect()
    }

    /// The time of columns without a sample, so that the reasons of a group add up to its time.
    fn unsampled(&self) -> impl Iterator<Item = (Arc<GroupReason>, (&'static str, Option<f64>))> {
        let columns = self.columns.iter().filter(|(_, (_, all))| *all <= 0.0);
        let times = columns.filter_map(|(column, (counter, _))| Some((*column, number(counter.cell.as_ref()?)?)));
        times.flat_map(|(column, time)| {
            let parts = self.parts(column, time).into_iter().filter(|(_, amount)| *amount > 0.0);
            parts.map(move |(row, amount)| (Arc::new(row), (column, Some(amount))))
        })
    }

    /// Divides the time of a column without a sample: zombies by the process that has not waited for them.
    fn parts(&self, column: &str, mut rest: f64) -> Vec<(GroupReason, f64)> {
        let parents = self.zombie_parents.iter().filter(|_| column == ZOMBIE);
        let by_parent = parents.map(|(parent, ns)| {
            let amount = rest.min(*ns as f64);
            rest -= amount;
            (GroupReason::not_waited_for_by(parent), amount)
        });
        let mut parts: Vec<_> = by_parent.collect();
        parts.extend(GroupReason::other(column).map(|other| (other, rest)));
        parts
    }

    fn sum(&self, weights: &BTreeMap<GroupReason, SampledTime>, name: &ReasonName) -> Measurement {
        let mut ns: BTreeMap<&str, f64> = BTreeMap::new();
        for (reason, weight) in weights.iter().filter(|(reason, _)| name.is_of(reason)) {
            *ns.entry(self.column(reason).unwrap_or_default()).or_default() += self.own_ns(reason, weight.ns);
        }
        let amount = ns.iter().map(|(column, ns)| self.amount(column, *ns)).sum();
        self.measured(name.to_string(), &ns.into_keys().collect::<Vec<_>>(), amount)
    }

    fn measured(&self, name: String, columns: &[&str], amount: Option<f64>) -> Measurement {
        let counters = || columns.iter().filter_map(|column| self.columns.get(column)).map(|(counter, _)| counter);
        let covered = counters().map(|counter| counter.covered).min().unwrap_or(0);
        let cell = amount.map(|ns| of_kind(&Cell::Number(0), ns));
        Measurement {
            partial: counters().any(|counter| counter.partial),
            lacks_exited_work: counters().any(|counter| counter.lacks_exited_work),
            is_total: true,
            is_increase: true,
            ..Measurement::new(name, Unit::Ns, cell, covered)
        }
    }
}

/// The name of a row, which no other row of its group has.
fn row_name(row: &GroupReason) -> String {
    let is_whole = row.functions.len() > 1 || (row.stack.is_some() && row.at.is_none());
    if is_whole { row.whole_name() } else { row.to_string() }
}

/// The names that rows can have, whether the groups of a capture have them or not.
pub(super) fn row_names(wanted: &Wanted<'_>) -> BTreeSet<String> {
    match wanted {
        Wanted::Rows(rows) => {
            let others = [RUN, WAIT, BLOCK, SLEEP].into_iter().filter_map(GroupReason::other);
            let sampled = rows.values().flat_map(BTreeMap::values).map(|row| row_name(row));
            sampled.chain(others.map(|other| other.to_string())).into_set()
        }
        Wanted::Sums(names) => names.iter().map(ToString::to_string).collect(),
    }
}

/// How the reasons of the first capture of each side were sampled, and why they have no functions.
pub(super) fn notes(snapshots: Sides<&SnapshotHead>) -> Vec<Note> {
    let is_compared = snapshots.candidate.is_some();
    let sides = snapshots.zip(Sides::two(Side::Baseline, Side::Candidate));
    let notes = sides.into_iter().filter_map(|(head, side)| {
        let (sampling, side) = (head.reasons.as_ref()?.sampling.clone(), is_compared.then_some(side));
        let duration_ns = head.window.as_ref().map_or(0, |window| window.duration_ns);
        let no_functions = sampling.no_functions.clone().map(|why| Note::NoFunctions { side, why });
        Some([Some(Note::Sampled { side, sampling, duration_ns }), no_functions])
    });
    notes.flatten().flatten().collect()
}
