//! Passes of samples to the time that each thread had each reason.

use std::collections::{HashMap, HashSet};

use super::moment::{PassMoment, SamplerTurn};
use super::pass_times::{PassTime, PassTimes};
use super::raw_reason::{RawReason, SampledNames};
use crate::model::{
    Activity, KernelEntry, Name, NumberedValues, PassScope, ProcessSelection, ReasonClass, Renumbering, RunSample,
    SampledTime, ThreadEnd, ThreadSample,
};

/// Maximum number of distinct reasons; beyond it, all reasons of a class become one.
const MAX_REASONS: usize = 1 << 14;
/// Number of reasons, out of the maximum, that may differ only by where in the code threads wait.
const MAX_WITH_CODE: usize = MAX_REASONS / 4 * 3;
/// Distinct names of threads; beyond that, threads with new names are one, and their samples count as merged.
const MAX_NAMES: usize = 1 << 16;
/// The name of threads that have no room.
const OTHERS: &str = "(others)";
/// Kinds of threads that have exited; samples of others count as lost.
const MAX_GONE: usize = 1 << 14;

/// Times of threads in a window, by samples.
#[derive(Debug, Default)]
pub(super) struct SampledTimes {
    /// Nanoseconds and samples, by the number of a reason; in the end, by its place in [`WindowReasons`](super::window_reasons::WindowReasons).
    pub(super) by_reason: Vec<(u32, SampledTime)>,
    /// The longest time for which one of the threads had waited for a CPU, in nanoseconds. It can have begun before the window.
    pub(super) longest_wait_ns: u64,
}

impl SampledTimes {
    /// Adds an amount to the total of its reason.
    pub(super) fn add(&mut self, reason: u32, amount: SampledTime) {
        match self.by_reason.iter_mut().find(|(listed, _)| *listed == reason) {
            Some((_, sum)) => sum.add(amount),
            None => self.by_reason.push((reason, amount)),
        }
    }

    fn merge(&mut self, other: Self) {
        self.longest_wait_ns = self.longest_wait_ns.max(other.longest_wait_ns);
        other.by_reason.into_iter().for_each(|(reason, amount)| self.add(reason, amount));
    }
}

/// Collects the passes of a window.
#[derive(Debug, Default)]
pub struct ReasonCollector {
    /// The thread that samples: what it does is no reason.
    sampler: u32,
    /// The processes that have reasons. Others can be in their way.
    selection: ProcessSelection,
    pub(super) passes: PassTimes,
    /// Number of the first pass of the window.
    pub(super) first_pass: u64,
    /// When the latest pass over all threads was made.
    all_sampled_at: u64,
    pub(super) threads: HashMap<u32, TrackedThread>,
    /// Threads that have exited, by the number of their names and by their process, if it was there before the window.
    pub(super) gone_threads: HashMap<GoneThreads, SampledTimes>,
    /// Programs of exited processes, by their id and start in ticks.
    pub(super) programs: HashMap<(u32, u64), Name>,
    pub(super) names: NumberedValues<SampledNames>,
    pub(super) reasons: NumberedValues<RawReason>,
    /// Threads that ran or were ready to run in the pass before: if they are not in the next one, they have exited.
    active: Vec<u32>,
    pub(super) lost: u64,
    pub(super) merged: u64,
}

/// A thread that was sampled, and what it does since when.
#[derive(Debug, Default)]
pub(super) struct TrackedThread {
    pub(super) start_time_clock_ticks: u64,
    pub(super) tgid: u32,
    pub(super) names: u32,
    switches: u64,
    voluntary_switches: u64,
    /// What it did when it was last sampled.
    activity: Activity,
    reason: u32,
    /// Index of the thread's latest sleep that was sampled.
    sleep: Option<u32>,
    since: PassTime,
    seen: u64,
    /// Whether it sleeps since the window began.
    pub(super) is_idle: bool,
    /// Whether it started after the first pass.
    is_new: bool,
    /// The start of its process in ticks, if it is known.
    pub(super) process_started: Option<u64>,
    /// Whether it was exiting when it was last sampled.
    is_exiting: bool,
    pub(super) times: SampledTimes,
}

/// Threads that have exited, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GoneThreads {
    /// Their process and its start in ticks, if they are known, and if there are not too many.
    pub(super) tgid: Option<u32>,
    pub(super) started: Option<u64>,
    /// Whether they were the first threads of processes, which are listed until a parent waits for them.
    pub(super) is_first: bool,
    /// Whether the process started in the window: before, another one can have had its id.
    pub(super) is_new: bool,
    pub(super) names: u32,
}

impl TrackedThread {
    /// Whether it slept when it was last sampled.
    fn is_asleep(&self) -> bool {
        self.activity.is_sleep()
    }

    /// Whether it is still in the sleep of the sample before. The kernel freezes and thaws some sleepers without waking them.
    fn is_in_same_sleep(&self, sample: &ThreadSample) -> bool {
        let is_same = self.activity == sample.activity && self.switches == sample.switches;
        is_same && self.is_asleep() && self.sleep == Some(self.reason)
    }

    /// Begins another reason at a pass.
    fn change(&mut self, reason: u32, pass: PassTime) {
        self.close(pass.until, pass.number);
        (self.reason, self.since) = (reason, pass);
    }

    /// Takes sleeps that were over when they were sampled for the first one that was not.
    fn name_sleeps(&mut self, unknown: u32, named: u32) {
        let reasons = self.times.by_reason.iter_mut().map(|(reason, _)| reason).chain([&mut self.reason]);
        reasons.filter(|reason| **reason == unknown).for_each(|reason| *reason = named);
    }

    /// Adds the time of its reason, which ends at a pass.
    fn close(&mut self, end: u64, pass: u64) {
        let amount = SampledTime {
            ns: end.saturating_sub(self.since.from),
            samples: pass.saturating_sub(self.since.number).max(1),
        };
        self.times.add(self.reason, amount);
    }
}

impl ReasonCollector {
    /// Returns a collector without passes, of these processes. `sampler` is the id of the sampling thread.
    pub fn new(sampler: u32, selection: ProcessSelection) -> Self {
        Self { sampler, selection, ..Self::default() }
    }

    /// Adds a pass, which lost so many samples.
    pub fn add(&mut self, moment: PassMoment, samples: &[ThreadSample], lost: u64) {
        let pass = self.passes.add(moment.at_ns, moment.period_ns);
        self.lose(lost);
        let turn = SamplerTurn::new(self.sampler, samples, moment);
        let activity = |sample: &ThreadSample| match turn.as_ref().map_or(sample.activity, |turn| turn.activity(sample))
        {
            // It cannot have slept: a sleep is a voluntary switch.
            Activity::Asleep if !sample.activity.is_sleep() && self.has_not_slept(sample) => Activity::Runnable,
            activity => activity,
        };
        let others = samples.iter().filter(|sample| sample.tid != self.sampler);
        let others: Vec<_> = others.map(|sample| (sample, activity(sample))).collect();
        let in_the_way = self.other_threads(&others);
        let active = std::mem::take(&mut self.active);
        for (sample, activity) in others {
            let is_known = |thread: &TrackedThread| thread.start_time_clock_ticks == sample.start_time_clock_ticks;
            if self.threads.get(&sample.tid).is_some_and(|thread| !is_known(thread)) {
                // Its id was reused.
                self.remove(sample.tid, (pass.until, pass.number));
            }
            if self.selection.has(sample.tgid, sample.process_started) {
                self.track(sample, activity, &in_the_way, self.weighed(sample, activity, pass));
                let waited_ns = turn.as_ref().map_or(0, |turn| turn.waited_ns(sample));
                if let Some(thread) = self.threads.get_mut(&sample.tid) {
                    thread.times.longest_wait_ns = thread.times.longest_wait_ns.max(waited_ns);
                }
            }
        }
        if moment.scope == PassScope::All {
            self.all_sampled_at = moment.at_ns;
        }
        for tid in active {
            let Some(thread) = self.threads.get_mut(&tid).filter(|thread| thread.seen < pass.number) else { continue };
            match thread.sleep.filter(|_| thread.is_asleep()) {
                // It has slept since, also while the sampler was stopped.
                Some(sleep) => thread.change(sleep, PassTime { from: pass.until, ..pass }),
                None => self.remove(tid, (pass.until, pass.number)),
            }
        }
    }

    /// Adds samples of where in their code threads ran. Each sample stands for `ns` nanoseconds. Threads that no pass has seen
    /// are left out.
    pub fn add_running(&mut self, samples: &[RunSample], ns: u64) {
        for RunSample { tid, tgid, code } in samples {
            if self.threads.get(tid).is_none_or(|thread| thread.tgid != *tgid) {
                continue;
            }
            let reason = self.reason(&RawReason { class: ReasonClass::Run, code: Some(*code), ..RawReason::default() });
            let amount = SampledTime { ns, samples: 1 };
            self.threads.entry(*tid).and_modify(|thread| thread.times.add(reason, amount));
        }
    }

    /// Counts what was lost: samples, or ends of threads.
    pub fn lose(&mut self, lost: u64) {
        self.lost = self.lost.saturating_add(lost);
    }

    /// Adds the end of a thread, which also says what its names were in the end.
    pub fn end(&mut self, end: &ThreadEnd) {
        if let Some(tgid) = end.executed_in {
            return self.leave_program(end, tgid);
        }
        if let Some((tgid, program)) = end.program.clone().filter(|_| self.programs.len() < MAX_GONE) {
            self.programs.insert((tgid, end.start_time_clock_ticks), program);
        }
        let Some(thread) = self.threads.get_mut(&end.tid) else { return };
        if thread.start_time_clock_ticks != end.start_time_clock_ticks {
            return;
        }
        thread.names = renamed(&mut self.names, thread.names, [&end.pcomm, &end.comm]);
        self.remove(end.tid, self.pass_of(end));
    }

    /// What a process did until now was in a program that it has left. All of its threads are gone but the one that called
    /// execve(2), which has the ids of the first thread since.
    fn leave_program(&mut self, end: &ThreadEnd, tgid: u32) {
        let (until, pass) = self.pass_of(end);
        let comms = [(end.tid, &end.comm), (tgid, &end.pcomm)];
        for (tid, comm) in comms.into_iter().take(if end.tid == tgid { 1 } else { 2 }) {
            let Some(thread) = self.threads.get_mut(&tid) else { continue };
            if (thread.tgid, thread.process_started) != (tgid, Some(end.start_time_clock_ticks)) {
                continue;
            }
            let names = renamed(&mut self.names, thread.names, [&end.pcomm, comm]);
            if thread.since.number < pass {
                thread.names = names;
                self.remove(tid, (until, pass));
            } else {
                // A pass has seen it in the next program already.
                let left = TrackedThread { names, times: std::mem::take(&mut thread.times), ..*thread };
                self.add_gone(tid, left);
            }
        }
    }

    /// Until when, and until which pass, samples before an end count.
    fn pass_of(&self, end: &ThreadEnd) -> (u64, u64) {
        let (last, pass) = (self.passes.last(), self.passes.after(end.monotonic_ns));
        if end.monotonic_ns >= last.at { (last.at, last.number + 1) } else { (pass.until, pass.number) }
    }

    /// How many entries each map has that outlives a window.
    pub fn entries(&self) -> Vec<(&'static str, usize)> {
        let Self { threads, gone_threads, programs, names, reasons, .. } = self;
        vec![
            ("threads with reasons", threads.len() + gone_threads.len() + programs.len()),
            ("names of threads with reasons", names.values.len()),
            ("reasons", reasons.values.len()),
        ]
    }

    /// All addresses of functions.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        self.reasons.values.iter().flat_map(|reason| reason.stack.iter().copied())
    }

    /// All numbers of stacks of programs.
    pub fn stacks(&self) -> impl Iterator<Item = u32> {
        self.reasons.values.iter().flat_map(|reason| [reason.code, reason.held_in]).flatten()
    }

    /// Ends the window at the last pass, and begins the next one there. Threads that were not in that pass sleep on, except
    /// exiting threads: their end may have been recorded before their last sample.
    pub fn next_window(&mut self) -> Self {
        let last = self.passes.last();
        let since = PassTime { number: last.number + 1, from: last.at, ..last };
        // Programs can make any number of names: the next window keeps those of its threads.
        let (all_names, all_reasons) = (std::mem::take(&mut self.names), std::mem::take(&mut self.reasons));
        let (mut names, mut reasons) = (Renumbering::new(&all_names), Renumbering::new(&all_reasons));
        let mut sleeps_on = |thread: &TrackedThread| TrackedThread {
            names: names.keep(thread.names, Clone::clone),
            reason: keep_reason(thread.reason, &mut reasons, &mut names),
            sleep: thread.sleep.map(|sleep| keep_reason(sleep, &mut reasons, &mut names)),
            since,
            is_idle: thread.is_asleep(),
            is_new: false,
            times: SampledTimes::default(),
            ..*thread
        };
        let lives = |thread: &TrackedThread| !thread.is_exiting || thread.seen == last.number;
        let living = self.threads.iter().filter(|(_, thread)| lives(thread));
        let next = living.map(|(tid, thread)| (*tid, sleeps_on(thread))).collect();
        (self.names, self.reasons) = (names.kept, reasons.kept);
        let mut ended = Self {
            selection: ProcessSelection::default(),
            passes: self.passes.clone(),
            names: all_names,
            reasons: all_reasons,
            threads: std::mem::replace(&mut self.threads, next),
            gone_threads: std::mem::take(&mut self.gone_threads),
            programs: std::mem::take(&mut self.programs),
            active: Vec::new(),
            ..*self
        };
        ended.threads.values_mut().filter(|thread| lives(thread)).for_each(|thread| thread.seen = last.number);
        (self.first_pass, self.lost, self.merged) = (self.passes.count, 0, 0);
        ended
    }

    /// Counts the time until the last pass. Of a thread that was not seen until then, only the beginning of its reason is known.
    pub(super) fn close(&mut self) {
        let last = self.passes.last();
        let vanished = self.threads.iter().filter(|(_, thread)| thread.seen < last.number).map(|(&tid, _)| tid);
        for tid in vanished.collect::<Vec<_>>() {
            let since = self.threads[&tid].since;
            self.remove(tid, (since.from + self.passes.period_ns() / 2, since.number + 1));
        }
        for thread in self.threads.values_mut() {
            thread.close(last.at, last.number + 1);
        }
    }

    /// Whether a thread has not slept since it was last sampled awake.
    fn has_not_slept(&self, sample: &ThreadSample) -> bool {
        let before = self.threads.get(&sample.tid).filter(|before| !before.is_asleep());
        before.is_some_and(|before| before.voluntary_switches == sample.voluntary_switches)
    }

    /// The pass, with the time that a thread's sample counts for: if only passes over all threads look at the thread, since
    /// halfway to the one before. Passes over active threads see all that run, and new ones.
    fn weighed(&self, sample: &ThreadSample, activity: Activity, pass: PassTime) -> PassTime {
        let is_rare = sample.rarely_sampled && !sample.exiting && activity != Activity::Running;
        match self.threads.get(&sample.tid) {
            Some(thread) if is_rare && pass.from == pass.until => {
                let since = self.all_sampled_at.midpoint(pass.at).min(pass.from).max(thread.since.from);
                PassTime { until: since, from: since, ..pass }
            }
            _ => pass,
        }
    }

    /// Notes what a thread did when the pass was due. One that has fallen asleep since sleeps from the next pass on.
    fn track(&mut self, sample: &ThreadSample, activity: Activity, others: &OtherThreads, pass: PassTime) {
        let names = numbered(&mut self.names, &SampledNames::from_sample(sample)).unwrap_or_else(|others| {
            self.merged += 1;
            others
        });
        if let Some(thread) = self.threads.get_mut(&sample.tid) {
            thread.names = names;
            thread.seen = pass.number;
            if thread.is_in_same_sleep(sample) {
                return;
            }
        }
        let [slept, is_asleep] = [activity, sample.activity].map(Activity::is_sleep);
        if !slept || !is_asleep {
            self.active.push(sample.tid);
        }
        let now = is_asleep.then(|| self.reason(&self.raw_reason(sample, sample.activity, others)));
        if let (Some(now), Some(None)) = (now, self.threads.get(&sample.tid).map(|thread| thread.sleep)) {
            let unknown = self.reason(&RawReason { class: ReasonClass::Sleep, ..RawReason::default() });
            self.threads.entry(sample.tid).and_modify(|thread| thread.name_sleeps(unknown, now));
        }
        let sleep = now.or_else(|| self.threads.get(&sample.tid)?.sleep);
        let reason = sleep.filter(|_| slept);
        let reason = reason.unwrap_or_else(|| self.reason(&self.raw_reason(sample, activity, others)));
        let is_first = pass.number == 0;
        let new = || TrackedThread {
            start_time_clock_ticks: sample.start_time_clock_ticks,
            tgid: sample.tgid,
            names,
            process_started: sample.process_started,
            reason,
            since: pass,
            seen: pass.number,
            is_idle: is_first,
            is_new: !is_first,
            ..TrackedThread::default()
        };
        let thread =
            self.threads.entry(sample.tid).and_modify(|thread| thread.change(reason, pass)).or_insert_with(new);
        (thread.switches, thread.voluntary_switches) = (sample.switches, sample.voluntary_switches);
        (thread.activity, thread.sleep, thread.is_exiting) = (sample.activity, sleep, sample.exiting);
        thread.is_idle &= is_first && slept && is_asleep;
    }

    /// Returns the index of a reason, or the index of its class if there are too many reasons.
    fn reason(&mut self, raw: &RawReason) -> u32 {
        let of_class = RawReason { class: raw.class, ..RawReason::default() };
        let without_code = || RawReason { code: None, held_in: None, ..raw.clone() };
        let number = self.reasons.number_up_to(MAX_WITH_CODE, raw);
        number.or_else(|| self.reasons.number_up_to(MAX_REASONS, &without_code())).unwrap_or_else(|| {
            self.merged += 1;
            self.reasons.number(&of_class)
        })
    }

    /// Counts what a thread did until its end at a pass, and forgets it.
    fn remove(&mut self, tid: u32, (end, pass): (u64, u64)) {
        let Some(mut thread) = self.threads.remove(&tid) else { return };
        thread.close(end, pass);
        self.add_gone(tid, thread);
    }

    /// Adds the times of a thread that is gone.
    fn add_gone(&mut self, tid: u32, thread: TrackedThread) {
        // Of many processes that start and exit, only the names are kept. Another process can have the id later.
        let is_kept = !thread.is_new || (thread.process_started.is_some() && self.gone_threads.len() < MAX_GONE / 2);
        let tgid = is_kept.then_some(thread.tgid);
        let is_new = thread.is_new && self.threads.get(&thread.tgid).is_none_or(|leader| leader.is_new);
        let (started, is_first) = (tgid.and(thread.process_started), tid == thread.tgid);
        let key = GoneThreads { tgid, started, is_first, is_new, names: thread.names };
        if self.gone_threads.len() >= MAX_GONE && !self.gone_threads.contains_key(&key) {
            self.lost =
                thread.times.by_reason.iter().fold(self.lost, |lost, (_, amount)| lost.saturating_add(amount.samples));
            return;
        }
        self.gone_threads.entry(key).or_default().merge(thread.times);
    }

    /// Returns the threads that can be in the way of the threads of a pass.
    fn other_threads(&mut self, samples: &[(&ThreadSample, Activity)]) -> OtherThreads {
        let running = samples.iter().filter(|(_, activity)| *activity == Activity::Running);
        let named = |(sample, _): &(&ThreadSample, Activity)| {
            let (Ok(names) | Err(names)) = numbered(&mut self.names, &SampledNames::from_sample(sample));
            // A storm of short processes would be as many reasons.
            let old = self.threads.get(&sample.tid).filter(|thread| !thread.is_new);
            Some((sample.cpu?, CpuOccupant { names, process: old.map(|thread| thread.tgid) }))
        };
        let running = running.filter_map(named).collect();
        let owners: HashSet<u32> = samples.iter().filter_map(|(sample, _)| sample.owner).collect();
        let owners = samples.iter().filter(|(sample, _)| owners.contains(&sample.tid));
        OtherThreads { running, owners: owners.map(|(sample, _)| (sample.tid, sample.code)).collect() }
    }

    /// Where in its code a thread sleeps.
    fn code_of(&self, tid: u32, others: &OtherThreads) -> Option<u32> {
        let sleeps_on = || self.threads.get(&tid).filter(|thread| thread.is_asleep());
        let sleeping_code = || self.reasons.values.get(index(sleeps_on()?.reason))?.code;
        others.owners.get(&tid).copied().unwrap_or_else(sleeping_code)
    }

    fn raw_reason(&self, sample: &ThreadSample, activity: Activity, others: &OtherThreads) -> RawReason {
        let class = match activity {
            Activity::Running => ReasonClass::Run,
            Activity::Runnable => ReasonClass::Wait,
            Activity::Throttled => ReasonClass::CpuQuota,
            Activity::Blocked => ReasonClass::Block,
            Activity::Asleep => ReasonClass::Sleep,
            Activity::Stopped => ReasonClass::Stopped,
            Activity::Traced => ReasonClass::Traced,
            Activity::Frozen => ReasonClass::Frozen,
        };
        let (by, by_process) = match class {
            ReasonClass::Wait => {
                let running = sample.cpu.and_then(|cpu| others.running.get(&cpu));
                (running.map(|running| running.names), running.and_then(|running| running.process))
            }
            _ => {
                let owner = sample.owner.or(sample.owner_process).and_then(|owner| self.threads.get(&owner));
                (owner.map(|owner| owner.names), owner.map(|owner| owner.tgid))
            }
        };
        if !activity.is_sleep() || !sample.activity.is_sleep() {
            return RawReason { class, by, by_process, ..RawReason::default() };
        }
        let held_in = sample.owner.and_then(|owner| self.code_of(owner, others));
        let ThreadSample { entry, stack, object, code, .. } = sample.clone();
        RawReason { class, entry: without_arguments(entry), stack, object, code, held_in, by, by_process }
    }
}

/// Returns the index of names of threads; if there are too many, the error is the index of `(others)`.
fn numbered(all: &mut NumberedValues<SampledNames>, names: &SampledNames) -> Result<u32, u32> {
    let others = || SampledNames { pcomm: OTHERS.into(), comm: OTHERS.into(), cgroup: None };
    all.number_up_to(MAX_NAMES, names).ok_or_else(|| all.number(&others()))
}

/// Returns the index of other names in the same cgroup.
fn renamed(all: &mut NumberedValues<SampledNames>, names: u32, [pcomm, comm]: [&Name; 2]) -> u32 {
    let cgroup = all.values.get(index(names)).and_then(|names| names.cgroup);
    let names = SampledNames { pcomm: Name::clone(pcomm), comm: Name::clone(comm), cgroup };
    let (Ok(number) | Err(number)) = numbered(all, &names);
    number
}

/// The number of a reason in a list that lacks reasons of no thread.
fn keep_reason(
    number: u32,
    reasons: &mut Renumbering<'_, RawReason>,
    names: &mut Renumbering<'_, SampledNames>,
) -> u32 {
    let keep_names = |by| names.keep(by, Clone::clone);
    reasons.keep(number, |reason| RawReason { by: reason.by.map(keep_names), ..reason.clone() })
}

/// Threads of a pass that can be in the way of others.
struct OtherThreads {
    /// The thread that ran, by CPU.
    running: HashMap<u32, CpuOccupant>,
    /// Index of where in its code an owner of a lock sleeps, by thread, for owners that fell asleep there since the pass before.
    owners: HashMap<u32, Option<u32>>,
}

/// A thread that ran on a CPU.
struct CpuOccupant {
    /// Index of its names.
    names: u32,
    /// The process of the thread, if the thread was there before the window.
    process: Option<u32>,
}

/// Arguments differ between calls that wait for the same reason.
fn without_arguments(entry: KernelEntry) -> KernelEntry {
    match entry {
        KernelEntry::SystemCall(number, _) => KernelEntry::SystemCall(number, [0; 2]),
        entry => entry,
    }
}

pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
