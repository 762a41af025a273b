//! Activity of threads at the moment when a pass was due.
//!
//! A pass changes what it sees. The sampler takes a CPU, so the thread that ran there waits, and a thread that works with it on
//! another CPU soon sleeps. On a CPU that was idle, the sampler is late, and the event that wakes the CPU up also wakes a thread
//! up. Each thread keeps when it last got a CPU and how long it has run since: this says what it did before.

use std::collections::HashSet;

use crate::model::{Activity, PassScope, ThreadSample};

/// When a pass of the sampler was made, and what it sampled.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassMoment {
    /// Time of the pass by `CLOCK_MONOTONIC`, in nanoseconds.
    pub at_ns: u64,
    /// How many nanoseconds after it was due the sampler got its CPU.
    pub late_ns: u64,
    /// Time from getting a CPU to the end of the pass, in nanoseconds.
    pub took_ns: u64,
    /// The threads that it sampled.
    pub scope: PassScope,
    /// The time between passes that was intended, in nanoseconds.
    pub period_ns: u64,
}

/// Within a longer turn, threads may have run and slept several times: what they do in the end is the better guess.
const LONGEST_TURN_NS: u64 = 1_000_000;

/// A turn of the sampler on its CPU, in nanoseconds of the clock of the scheduler.
#[derive(Debug)]
pub(super) struct SamplerTurn {
    cpu: u32,
    due: u64,
    since: u64,
    until: u64,
    /// CPUs, without the sampler's, on which several threads have run since the pass was due: only their present is known.
    busy: HashSet<u32>,
}

impl SamplerTurn {
    /// Returns the moment of a pass from all its samples; `None` if the sampler is not among them, or if its times are unknown.
    pub(super) fn new(sampler: u32, samples: &[ThreadSample], moment: PassMoment) -> Option<Self> {
        let own = samples.iter().find(|sample| sample.tid == sampler && sample.last_arrival > 0)?;
        let (cpu, since) = (own.cpu?, own.last_arrival);
        let until = since.saturating_add(moment.took_ns);
        let is_short = moment.late_ns.saturating_add(moment.took_ns) <= LONGEST_TURN_NS;
        let due = if is_short { since.saturating_sub(moment.late_ns) } else { until };
        let mut turn = Self { cpu, due, since, until, busy: HashSet::new() };
        let mut seen = HashSet::new();
        let later = samples.iter().filter(|sample| sample.last_arrival > due).filter_map(|sample| sample.cpu);
        turn.busy = later.filter(|&other| other != cpu && !seen.insert(other)).collect();
        for cpu in samples.iter().filter(|sample| turn.ran(sample)).filter_map(|sample| sample.cpu).collect::<Vec<_>>()
        {
            turn.busy.remove(&cpu);
        }
        Some(turn)
    }

    /// Returns the activity of a thread when the pass was due. A thread that got a CPU or was queued since is taken to have slept
    /// before, because waits are longer.
    pub(super) fn activity(&self, sample: &ThreadSample) -> Activity {
        let ThreadSample { activity, last_arrival, last_queued, .. } = *sample;
        let is_ready = matches!(activity, Activity::Runnable | Activity::Throttled);
        let is_displaced = is_ready && sample.cpu == Some(self.cpu) && last_queued == self.since;
        match activity {
            _ if sample.cpu.is_some_and(|cpu| self.busy.contains(&cpu)) => activity,
            Activity::Running if last_arrival > self.due => Activity::Asleep,
            _ if is_displaced && last_arrival > self.due => Activity::Asleep,
            _ if is_displaced || self.ran(sample) => Activity::Running,
            Activity::Runnable if last_queued > self.due => Activity::Asleep,
            _ => activity,
        }
    }

    /// Returns for how long a thread had waited for a CPU, in nanoseconds; 0 if it did not wait, or if it is unknown since when. It
    /// is a lower bound: the pass may have begun before the sampler last got its CPU, but no earlier than its length before that.
    pub(super) fn waited_ns(&self, sample: &ThreadSample) -> u64 {
        let is_ready = matches!(sample.activity, Activity::Runnable | Activity::Throttled);
        let since = Some(sample.last_queued).filter(|queued| is_ready && *queued > 0);
        let began = self.since.saturating_sub(self.until - self.since);
        since.map_or(0, |queued| began.saturating_sub(queued))
    }

    /// Whether a thread was on a CPU when the pass was due, and still is or left it since.
    fn ran(&self, sample: &ThreadSample) -> bool {
        let ran_until = sample.last_arrival.saturating_add(sample.ran_ns);
        let has_left = (self.due + 1..=self.until).contains(&ran_until);
        sample.last_arrival <= self.due && (sample.activity == Activity::Running || has_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLER: u32 = 9;
    /// When the pass was due, when the sampler got its CPU, and when the pass ended.
    const DUE: u64 = 1000;
    const SINCE: u64 = 1050;
    const UNTIL: u64 = 1080;

    /// A thread on a CPU that got one at a time and ran for so long, or waits since a time.
    fn sample(activity: Activity, cpu: u32, last_arrival: u64, ran_ns: u64, last_queued: u64) -> ThreadSample {
        ThreadSample { activity, cpu: Some(cpu), last_arrival, ran_ns, last_queued, ..ThreadSample::default() }
    }

    /// Returns the activities of threads while a sampler ran on CPU 0.
    fn activities(threads: &[ThreadSample]) -> Vec<Activity> {
        let sampler = ThreadSample { tid: SAMPLER, ..sample(Activity::Running, 0, SINCE, 0, 0) };
        let samples: Vec<_> = threads.iter().cloned().chain([sampler]).collect();
        let moment = PassMoment { at_ns: 0, late_ns: SINCE - DUE, took_ns: UNTIL - SINCE, ..PassMoment::default() };
        let turn = SamplerTurn::new(SAMPLER, &samples, moment).unwrap();
        threads.iter().map(|thread| turn.activity(thread)).collect()
    }

    #[test]
    fn a_thread_does_what_it_did_before_the_sampler_came() {
        use Activity::{Asleep, Blocked, Runnable, Running};
        let threads = [
            // The sampler took its CPU, which it had before or got while the sampler was late.
            (sample(Runnable, 0, 900, 150, SINCE), Running),
            (sample(Runnable, 0, 1020, 30, SINCE), Asleep),
            // It was woken up and waits for the sampler, or for another thread since before.
            (sample(Runnable, 0, 800, 40, 1060), Asleep),
            (sample(Runnable, 0, 800, 40, 990), Runnable),
            // It fell asleep because the one that it works with has no CPU.
            (sample(Asleep, 1, 990, 75, 0), Running),
            (sample(Blocked, 1, 900, 50, 0), Blocked),
            // Those of other CPUs.
            (sample(Running, 2, 900, 0, 0), Running),
            (sample(Running, 3, 1060, 0, 0), Asleep),
            // A real-time thread has no time since it got its CPU, but since it started.
            (sample(Asleep, 4, 900, 5000, 0), Asleep),
            // They got or left a CPU at the very moment.
            (sample(Runnable, 0, DUE, 50, SINCE), Running),
            (sample(Running, 5, DUE, 0, 0), Running),
            (sample(Asleep, 6, 900, 100, 0), Asleep),
        ];
        let (samples, expected): (Vec<_>, Vec<_>) = threads.into_iter().unzip();
        assert_eq!(activities(&samples), expected);
    }

    #[test]
    fn where_threads_took_turns_meanwhile_they_do_what_they_do_now() {
        use Activity::{Asleep, Running};
        let turns = [sample(Running, 1, 1070, 0, 0), sample(Asleep, 1, 1040, 30, 0)];
        assert_eq!(activities(&turns), [Running, Asleep]);
        let with_earlier = [sample(Asleep, 1, 990, 50, 0)].into_iter().chain(turns).collect::<Vec<_>>();
        assert_eq!(activities(&with_earlier), [Running, Asleep, Asleep]);
    }
}
