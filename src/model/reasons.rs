//! Why the threads of a window waited, and who ran meanwhile: shares by samples of all threads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Name, Owner};

stored! {
    /// Why the threads of a window waited. Counters say how long; samples only divide that time.
    pub struct Reasons {
        /// How the samples were taken.
        pub sampling: Sampling,
        /// Threads to which the reasons belong, each once.
        pub threads: Vec<SampledThreads>,
        /// The reasons, each once.
        pub reasons: Vec<Reason>,
        /// Time of each pair of threads and reason.
        pub times: Vec<ReasonTime>,
        /// Longest single wait for a CPU that samples saw of a thread, in nanoseconds, by place in [`Reasons::threads`]: a lower
        /// bound. Threads that no sample saw waiting are absent.
        optional longest_waits: BTreeMap<u64, u64>,
    }
}

impl Reasons {
    /// Keeps the times of some of the threads.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(&SampledThreads) -> bool) {
        let kept: Vec<bool> = self.threads.iter().map(is_kept).collect();
        let has = |place: u64| usize::try_from(place).is_ok_and(|place| kept.get(place) == Some(&true));
        self.times.retain(|time| has(time.threads));
        self.longest_waits.retain(|threads, _| has(*threads));
    }

    /// The threads and the reason of a time; `None` if a place does not exist.
    pub(crate) fn of(&self, time: &ReasonTime) -> Option<(&SampledThreads, &Reason)> {
        let threads = self.threads.get(usize::try_from(time.threads).ok()?)?;
        Some((threads, self.reasons.get(usize::try_from(time.reason).ok()?)?))
    }
}

/// How long a reason lasted, and how often it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampledTime {
    pub(crate) ns: u64,
    pub(crate) samples: u64,
}

impl SampledTime {
    pub(crate) fn add(&mut self, more: Self) {
        self.ns = self.ns.saturating_add(more.ns);
        self.samples = self.samples.saturating_add(more.samples);
    }

    pub(crate) fn less(self, part: Self) -> Self {
        Self { ns: self.ns.saturating_sub(part.ns), samples: self.samples.saturating_sub(part.samples) }
    }

    /// The part `of` / `all`.
    pub(crate) fn part(self, of: u64, all: u64) -> Self {
        let part =
            |number: u64| u64::try_from(u128::from(number) * u128::from(of) / u128::from(all.max(1))).unwrap_or(number);
        Self { ns: part(self.ns), samples: part(self.samples) }
    }

    /// Parts that add up to it, as large as these weights are.
    pub(crate) fn divided(self, weights: &[u64]) -> impl Iterator<Item = Self> {
        let all = weights.iter().fold(0, |all: u64, weight| all.saturating_add(*weight));
        weights.iter().scan((0_u64, Self::default()), move |(sum, given), weight| {
            *sum = sum.saturating_add(*weight);
            let part = self.part(*sum, all).less(*given);
            given.add(part);
            Some(part)
        })
    }
}

stored! {
    /// How the threads of a window were sampled.
    #[derive(Eq)]
    pub struct Sampling {
        /// Source of the samples: `bpf` or `procfs`.
        pub source: String,
        /// Number of times that the threads were looked at.
        pub passes: u64,
        /// Median time between two passes, in nanoseconds.
        pub period_ns: u64,
        /// Samples of threads that had a reason other than to be idle.
        pub samples: u64,
        /// Samples, and ends of threads, that were lost.
        pub lost: u64,
        /// Samples of reasons that were merged, or of threads whose names were, because there were too many.
        pub merged: u64,
        /// CPU time of the sampler, in nanoseconds.
        pub cost_ns: u64,
        /// Why reasons have no functions of the kernel, if they have none.
        optional no_functions: Option<String>,
        /// Why reasons have no stacks of programs; `None` if they can have some, or if BPF was not wanted.
        optional no_stacks: Option<String>,
    }
}

impl Sampling {
    /// Why there are no stacks if nobody wanted them: the option.
    pub const STACKS_NOT_WANTED: &'static str = "--no-stacks";

    pub(super) fn merge(&mut self, later: Self) {
        let Self { source, passes, period_ns, samples, lost, merged, cost_ns, no_functions, no_stacks } = later;
        let all = self.passes.saturating_add(passes).max(1);
        let time = u128::from(self.period_ns) * u128::from(self.passes) + u128::from(period_ns) * u128::from(passes);
        self.period_ns = u64::try_from(time / u128::from(all)).unwrap_or(u64::MAX);
        self.source = source;
        for (sum, more) in [
            (&mut self.passes, passes),
            (&mut self.samples, samples),
            (&mut self.lost, lost),
            (&mut self.merged, merged),
            (&mut self.cost_ns, cost_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
        (self.no_functions, self.no_stacks) = (no_functions, no_stacks);
    }
}

stored! {
    /// Threads of one process with equal names, in one cgroup.
    #[derive(Eq, PartialOrd, Ord, Hash)]
    pub struct SampledThreads {
        /// Process id; `None` for processes that were folded because there were many.
        optional tgid: Option<u32>,
        /// Name of the process.
        pub pcomm: Name,
        /// Name of the threads.
        pub comm: Name,
        /// Name of the script or program that the process runs; `None` if the name of the process says it, or if it is unknown.
        optional program: Option<Name>,
        /// Path of their cgroup.
        optional cgroup: Option<Name>,
        /// Owner of the threads, if it is ctprof or the recorded command.
        optional owner: Option<Owner>,
    }
}

stored! {
    /// Reason why a thread ran, waited, blocked or slept.
    #[derive(Eq, PartialOrd, Ord, Hash)]
    pub struct Reason {
        /// Class of the reason.
        pub class: ReasonClass,
        /// How the thread got into the kernel: the name of a system call, or `page fault`. Absent in user code, for kernel threads
        /// and where it is unknown.
        optional entry: Option<Name>,
        /// Functions of the kernel in which the thread waits, the innermost first, without functions of the scheduler.
        optional functions: Vec<Name>,
        /// Object of the system call: a path, socket or pipe.
        optional object: Option<Name>,
        /// Thread that ran on the CPU, or that owns the lock.
        optional by: Option<OtherThread>,
        /// Functions of the program that led to it, the innermost first, as [`CodeFunction`](super::CodeFunction) reads them.
        optional stack: Option<Name>,
        /// The same of the thread that owns the lock, if that slept.
        optional held_in: Option<Name>,
    }
}

impl Reason {
    /// The same, wherever in programs it was.
    pub(crate) fn without_stacks(&self) -> Self {
        Self { stack: None, held_in: None, ..self.clone() }
    }

    /// The functions of the kernel as reports name them: compilers name their copies of a function `name.constprop.0`.
    pub fn function_names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.functions.iter().map(|name| name.split('.').next().unwrap_or_default())
    }
}

/// How threads got to where they wait, as reports name it: `fdatasync → submit_bio_wait`, or what else is known.
#[derive(Clone, Debug, Default)]
pub struct WaitPlace {
    /// The system call, or `page fault`.
    pub entry: Option<String>,
    /// The innermost function of the kernel.
    pub function: Option<String>,
    /// Name of the group that ran on the CPU or owns the lock, or of the process that has not waited for zombies.
    pub by: Option<String>,
    /// Where in the code of the program.
    pub at: Option<String>,
}

impl WaitPlace {
    /// The name of the place for reasons of a class.
    pub fn name(&self, class: ReasonClass) -> String {
        let parts: Vec<_> = self.entry.iter().chain(&self.function).map(|part| &**part).collect();
        match (&self.by, class) {
            (Some(by), ReasonClass::Wait) => format!("{by} ran"),
            (_, ReasonClass::CpuQuota) => "CPU quota".to_owned(),
            (_, ReasonClass::Idle) => "idle".to_owned(),
            (_, ReasonClass::Run) => self.at.as_ref().map_or_else(|| "on a CPU".to_owned(), |at| format!("in {at}")),
            (_, ReasonClass::Stopped) => "by a signal".to_owned(),
            (_, ReasonClass::Traced) => "by its tracer".to_owned(),
            (_, ReasonClass::Frozen) => "by the freezer of its cgroup".to_owned(),
            (Some(by), ReasonClass::Zombie) => format!("not waited for by {by}"),
            (None, ReasonClass::Zombie) => "parent unknown, or other threads live on".to_owned(),
            (_, ReasonClass::Unread) => "not readable".to_owned(),
            _ => {
                let at = self.at.as_ref().map(|at| format!("in {at}"));
                let all: Vec<_> =
                    [Some(parts.join(" → ")).filter(|parts| !parts.is_empty()), at].into_iter().flatten().collect();
                if all.is_empty() { "other".to_owned() } else { all.join(" ") }
            }
        }
    }
}

stored! {
    /// A thread that another one waits for.
    #[derive(Eq, PartialOrd, Ord, Hash)]
    pub struct OtherThread {
        /// Name of its process.
        pub pcomm: Name,
        /// Name of the thread.
        pub comm: Name,
        /// Name of the script or program that its process runs; `None` if the name of the process says it, if it is unknown, or if
        /// the thread ran on a CPU and had started in the window.
        optional program: Option<Name>,
        /// Path of its cgroup.
        optional cgroup: Option<Name>,
    }
}

/// Time that some threads spent for a reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(from = "[u64; 4]", into = "[u64; 4]")]
pub struct ReasonTime {
    /// Place in [`Reasons::threads`].
    pub threads: u64,
    /// Place in [`Reasons::reasons`].
    pub reason: u64,
    /// Nanoseconds, estimated from samples.
    pub ns: u64,
    /// Number of samples behind the estimate.
    pub samples: u64,
}

impl From<[u64; 4]> for ReasonTime {
    fn from([threads, reason, ns, samples]: [u64; 4]) -> Self {
        Self { threads, reason, ns, samples }
    }
}

impl From<ReasonTime> for [u64; 4] {
    fn from(time: ReasonTime) -> Self {
        [time.threads, time.reason, time.ns, time.samples]
    }
}

/// Kinds of reasons, by the counter whose time they divide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasonClass {
    /// On a CPU: part of the run time.
    Run,
    /// Runnable, while another thread ran on the CPU: part of the time that it waited.
    Wait,
    /// Runnable, but its cgroup had used its CPU quota: part of the time that it waited.
    CpuQuota,
    /// Blocked on I/O, memory or a lock of the kernel (state D).
    Block,
    /// Asleep (state S): part of the rest of the time.
    Sleep,
    /// Asleep for the whole window: part of the rest of the time.
    Idle,
    /// Stopped by a signal. In files of 0.3.0, also by a tracer or a freezer.
    Stopped,
    /// Stopped by its tracer, as a debugger does it.
    Traced,
    /// Frozen with its cgroup.
    Frozen,
    /// Exited, and not waited for by its parent. Only reports have it: samples are of threads that have not exited.
    Zombie,
    /// The process may not be looked into: part of the rest of the time.
    Unread,
    /// A class that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

impl ReasonClass {
    /// Whether a thread with this reason is neither on a CPU nor ready to run.
    pub fn is_sleep(self) -> bool {
        matches!(self, Self::Block | Self::Sleep | Self::Idle | Self::Stopped | Self::Traced | Self::Frozen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_named_for_zombies_only_if_it_can_wait_for_them() {
        let name = |by: Option<&str>| {
            WaitPlace { by: by.map(str::to_owned), ..WaitPlace::default() }.name(ReasonClass::Zombie)
        };
        assert_eq!(name(Some("make")), "not waited for by make");
        assert_eq!(name(None), "parent unknown, or other threads live on");
    }

    #[test]
    fn the_period_of_two_windows_is_the_average_of_all_passes() {
        let of = |passes, period_ns| Sampling { passes, period_ns, ..Sampling::default() };
        let mut both = of(30, 10);
        both.merge(of(10, 50));
        assert_eq!((both.passes, both.period_ns), (40, 20));
        both = of(0, 0);
        both.merge(of(0, 0));
        assert_eq!((both.passes, both.period_ns), (0, 0));
    }

    #[test]
    fn threads_that_run_are_ready_or_have_used_their_quota_do_not_sleep() {
        use ReasonClass::{Block, CpuQuota, Idle, Run, Sleep, Stopped, Unknown, Wait};
        assert_eq!([Block, Sleep, Idle, Stopped].map(ReasonClass::is_sleep), [true; 4]);
        assert_eq!([Run, Wait, CpuQuota, Unknown].map(ReasonClass::is_sleep), [false; 4]);
    }
}
