//! Passes of samples to the time that each thread had each reason.

use std::collections::HashMap;

use super::pass_times::{PassTime, PassTimes};
use super::raw_reason::{NumberedValues, RawReason, SampledNames};
use crate::model::{Activity, KernelEntry, Name, ReasonClass, ThreadEnd, ThreadSample};

/// Distinct reasons that are kept apart; beyond that, those of a class are one.
const MAX_REASONS: usize = 1 << 14;
/// Distinct names of threads; beyond that, a thread has the names that it had before, or none.
const MAX_NAMES: usize = 1 << 16;
/// Kinds of threads that have exited; samples of others count as lost.
const MAX_GONE: usize = 1 << 14;

/// Nanoseconds and samples, by the number of a reason.
pub(super) type AmountsByReason = Vec<(u32, Amount)>;

/// For how long, and in how many passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) ns: u64,
    pub(super) samples: u64,
}

/// Collects the passes of a window.
#[derive(Debug)]
pub struct ReasonCollector {
    /// The thread that samples: what it does is no reason.
    sampler: u32,
    pub(super) passes: PassTimes,
    pub(super) threads: HashMap<u32, TrackedThread>,
    /// Threads that have exited, by the number of their names and by their process, if it was there before the window.
    pub(super) gone: HashMap<(Option<u32>, u32), AmountsByReason>,
    pub(super) names: NumberedValues<SampledNames>,
    pub(super) reasons: NumberedValues<RawReason>,
    /// Threads that ran or were ready to run in the pass before: if they are not in the next one, they have exited.
    active: Vec<u32>,
    pub(super) lost: u64,
    pub(super) merged: u64,
}

/// A thread that was sampled, and what it does since when.
#[derive(Debug)]
pub(super) struct TrackedThread {
    pub(super) start_time_clock_ticks: u64,
    pub(super) tgid: u32,
    pub(super) names: u32,
    switches: u64,
    is_asleep: bool,
    reason: u32,
    /// When the reason began.
    since: PassTime,
    /// The last pass that it was in.
    seen: u64,
    /// Whether it sleeps since the window began.
    pub(super) is_idle: bool,
    /// Whether it started after the first pass.
    is_new: bool,
    pub(super) times: AmountsByReason,
}

impl TrackedThread {
    /// Adds the time of its reason, which ends at a pass.
    fn close(&mut self, end: u64, pass: u64) {
        let amount =
            Amount { ns: end.saturating_sub(self.since.from), samples: pass.saturating_sub(self.since.number).max(1) };
        add_time(&mut self.times, self.reason, amount);
    }
}

/// Adds an amount to that of its reason.
pub(super) fn add_time(times: &mut AmountsByReason, reason: u32, amount: Amount) {
    match times.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, sum)) => {
            sum.ns = sum.ns.saturating_add(amount.ns);
            sum.samples = sum.samples.saturating_add(amount.samples);
        }
        None => times.push((reason, amount)),
    }
}

impl ReasonCollector {
    /// Without passes. `sampler` is the id of the thread that samples.
    pub fn new(sampler: u32) -> Self {
        Self {
            sampler,
            passes: PassTimes::default(),
            threads: HashMap::new(),
            gone: HashMap::new(),
            names: NumberedValues::new(MAX_NAMES),
            reasons: NumberedValues::new(MAX_REASONS),
            active: Vec::new(),
            lost: 0,
            merged: 0,
        }
    }

    /// Adds a pass that was made at a time of `CLOCK_MONOTONIC`, in nanoseconds, and lost so many samples.
    pub fn add(&mut self, at_ns: u64, samples: &[ThreadSample], lost: u64) {
        let pass = self.passes.add(at_ns);
        self.lost = self.lost.saturating_add(lost);
        let on_cpus = self.on_cpus(samples);
        let active = std::mem::take(&mut self.active);
        let sampler = self.sampler;
        for sample in samples.iter().filter(|sample| sample.tid != sampler) {
            let runs = sample.activity == Activity::Running || is_displaced(sample, on_cpus.sampler);
            let raw = self.raw_reason(sample, runs, &on_cpus);
            if !raw.class.is_sleep() {
                self.active.push(sample.tid);
            }
            self.track(sample, &raw, pass);
        }
        for tid in active {
            if self.threads.get(&tid).is_some_and(|thread| thread.seen < pass.number && !thread.is_asleep) {
                self.remove(tid, (pass.until, pass.number));
            }
        }
    }

    /// Adds the end of a thread, which also says what its names were in the end.
    pub fn end(&mut self, end: &ThreadEnd) {
        let Some(thread) = self.threads.get_mut(&end.tid) else { return };
        if thread.start_time_clock_ticks != end.start_time_clock_ticks {
            return;
        }
        let cgroups = self.names.values.get(index(thread.names)).map_or(0, |names| names.cgroups);
        let names = SampledNames { pcomm: Name::clone(&end.pcomm), comm: Name::clone(&end.comm), cgroups };
        thread.names = self.names.number(&names).unwrap_or(thread.names);
        let last = self.passes.last();
        let pass = self.passes.after(end.monotonic_ns);
        let is_later = end.monotonic_ns >= last.at;
        self.remove(end.tid, if is_later { (last.at, last.number + 1) } else { (pass.until, pass.number) });
    }

    /// All addresses of functions.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        self.reasons.values.iter().flat_map(|reason| reason.stack.iter().copied())
    }

    /// Counts the time until the last pass, which had all threads. Of one that was not in it, only the beginning of its
    /// reason is known.
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

    fn track(&mut self, sample: &ThreadSample, raw: &RawReason, pass: PassTime) {
        let is_known = |thread: &TrackedThread| thread.start_time_clock_ticks == sample.start_time_clock_ticks;
        if self.threads.get(&sample.tid).is_some_and(|thread| !is_known(thread)) {
            // Its id was reused.
            self.remove(sample.tid, (pass.until, pass.number));
        }
        let names = SampledNames {
            pcomm: Name::clone(&sample.pcomm),
            comm: Name::clone(&sample.comm),
            cgroups: sample.cgroups,
        };
        let names = self.names.number(&names);
        let is_asleep = raw.class.is_sleep();
        let thread = self.threads.get_mut(&sample.tid);
        if let Some(thread) = thread {
            thread.seen = pass.number;
            thread.names = names.unwrap_or(thread.names);
            if thread.is_asleep && is_asleep && thread.switches == sample.switches {
                return;
            }
            thread.close(pass.until, pass.number);
        }
        let reason = self.reason(raw);
        let is_first = pass.number == 0;
        let new = || TrackedThread {
            start_time_clock_ticks: sample.start_time_clock_ticks,
            tgid: sample.tgid,
            names: names.unwrap_or(0),
            switches: sample.switches,
            is_asleep,
            reason,
            since: pass,
            seen: pass.number,
            is_idle: is_first,
            is_new: !is_first,
            times: Vec::new(),
        };
        let thread = self.threads.entry(sample.tid).or_insert_with(new);
        (thread.switches, thread.is_asleep, thread.reason, thread.since) = (sample.switches, is_asleep, reason, pass);
        thread.is_idle &= is_first && is_asleep;
    }

    /// The number of a reason. If there are too many, that of its class.
    fn reason(&mut self, raw: &RawReason) -> u32 {
        let of_class = RawReason { class: raw.class, ..RawReason::default() };
        self.reasons.number(raw).unwrap_or_else(|| {
            self.merged += 1;
            self.reasons.number_of_few(&of_class)
        })
    }

    /// Counts what a thread did until its end at a pass, and forgets it.
    fn remove(&mut self, tid: u32, (end, pass): (u64, u64)) {
        let Some(mut thread) = self.threads.remove(&tid) else { return };
        thread.close(end, pass);
        let is_new = |tgid: &u32| self.threads.get(tgid).is_none_or(|leader| leader.is_new);
        let tgid = Some(thread.tgid).filter(|tgid| !thread.is_new || (*tgid != tid && !is_new(tgid)));
        let key = (tgid, thread.names);
        if self.gone.len() >= MAX_GONE && !self.gone.contains_key(&key) {
            self.lost = thread.times.iter().fold(self.lost, |lost, (_, amount)| lost.saturating_add(amount.samples));
            return;
        }
        let times = self.gone.entry(key).or_default();
        thread.times.into_iter().for_each(|(reason, amount)| add_time(times, reason, amount));
    }

    /// Who runs on each CPU.
    fn on_cpus(&mut self, samples: &[ThreadSample]) -> RunningThreads {
        let sampler = samples.iter().find(|sample| sample.tid == self.sampler);
        let sampler = sampler.and_then(|sample| Some((sample.cpu?, sample.last_arrival)));
        let mut by_cpu = HashMap::new();
        let runs = |sample: &&ThreadSample| sample.activity == Activity::Running || is_displaced(sample, sampler);
        for sample in samples.iter().filter(|sample| sample.tid != self.sampler).filter(runs) {
            let names = SampledNames {
                pcomm: Name::clone(&sample.pcomm),
                comm: Name::clone(&sample.comm),
                cgroups: sample.cgroups,
            };
            if let (Some(cpu), Some(names)) = (sample.cpu, self.names.number(&names)) {
                by_cpu.insert(cpu, names);
            }
        }
        RunningThreads { by_cpu, sampler }
    }

    fn raw_reason(&self, sample: &ThreadSample, runs: bool, on_cpus: &RunningThreads) -> RawReason {
        let class = match sample.activity {
            _ if runs => ReasonClass::Run,
            Activity::Running => ReasonClass::Run,
            Activity::Runnable => ReasonClass::Wait,
            Activity::Throttled => ReasonClass::CpuQuota,
            Activity::Blocked => ReasonClass::Block,
            Activity::Asleep => ReasonClass::Sleep,
            Activity::Stopped => ReasonClass::Stopped,
        };
        let by = match class {
            ReasonClass::Wait => sample.cpu.and_then(|cpu| on_cpus.by_cpu.get(&cpu)).copied(),
            _ => sample.owner.and_then(|owner| self.threads.get(&owner)).map(|owner| owner.names),
        };
        let RawReason { entry, stack, object, .. } = match class.is_sleep() {
            true => RawReason {
                entry: without_arguments(sample.entry),
                stack: sample.stack.clone(),
                object: sample.object.clone(),
                ..RawReason::default()
            },
            false => RawReason::default(),
        };
        RawReason { class, entry, stack, object, by }
    }
}

/// Who runs where.
struct RunningThreads {
    /// The number of the names of the thread that runs on a CPU.
    by_cpu: HashMap<u32, u32>,
    /// The CPU of the sampler, and when it got it.
    sampler: Option<(u32, u64)>,
}

/// Whether a thread only waits because the sampler took its CPU: it is queued there since the sampler got it.
fn is_displaced(sample: &ThreadSample, sampler: Option<(u32, u64)>) -> bool {
    let is_ready = matches!(sample.activity, Activity::Runnable | Activity::Throttled);
    is_ready && sampler.is_some_and(|(cpu, since)| since > 0 && sample.cpu == Some(cpu) && sample.last_queued == since)
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
