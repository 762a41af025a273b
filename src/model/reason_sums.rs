//! The reasons of windows that follow each other, together.

use std::collections::BTreeMap;

use super::shared_stacks::StackGroups;
use super::{NumberedValues, Reason, ReasonClass, ReasonTime, Reasons, SampledThreads, SampledTime, Sampling};

/// The reasons of windows that follow each other, together.
#[derive(Debug, Default)]
pub struct ReasonSums {
    sampling: Sampling,
    threads: NumberedValues<SampledThreads>,
    reasons: NumberedValues<Reason>,
    /// Time by the index of the threads and the index of the reason.
    times: BTreeMap<(u32, u32), SampledTime>,
    /// Threads that were idle in all windows so far, by the index of the threads and of the reason; `None` before the first window.
    idle: Option<BTreeMap<(u32, u32), IdleThreads>>,
    /// Longest wait in nanoseconds by the index of the threads.
    longest_waits: BTreeMap<u32, u64>,
}

/// Threads with the same names that were idle for the same reason in each window. Which ones these were is unknown: they count as
/// many as were idle in the window with the fewest idle threads.
#[derive(Debug, Default)]
struct IdleThreads {
    threads: u64,
    time: SampledTime,
}

impl IdleThreads {
    fn merge(&mut self, later: &Self) {
        let fewest = self.threads.min(later.threads);
        self.time = self.time.part(fewest, self.threads);
        self.time.add(later.time.part(fewest, later.threads));
        self.threads = fewest;
    }
}

impl ReasonSums {
    /// Adds the reasons of a later window.
    pub fn add(&mut self, later: Reasons) {
        let Reasons { sampling, threads, reasons, times, longest_waits } = later;
        let passes = sampling.passes.max(1);
        self.sampling.merge(sampling);
        let threads: Vec<_> = threads.into_iter().map(|threads| self.number_of_threads(threads)).collect();
        let reasons: Vec<_> = reasons.into_iter().map(|reason| self.number_of_reason(reason)).collect();
        let place = |places: &[Option<u32>], at: u64| *usize::try_from(at).ok().and_then(|at| places.get(at))?;
        let mut idle = BTreeMap::<_, IdleThreads>::new();
        for ReasonTime { threads: of, reason, ns, samples } in times {
            if let (Some(of), Some(reason)) = (place(&threads, of), place(&reasons, reason)) {
                let time = SampledTime { ns, samples };
                self.times.entry((of, reason)).or_default().add(time);
                if self.reason(reason).class == ReasonClass::Idle {
                    let threads = idle.entry((of, reason)).or_default();
                    threads.time.add(time);
                    threads.threads = threads.time.samples.div_ceil(passes).max(1);
                }
            }
        }
        match &mut self.idle {
            None => self.idle = Some(idle),
            Some(before) => before.retain(|key, threads| idle.get(key).map(|later| threads.merge(later)).is_some()),
        }
        for (of, ns) in longest_waits.into_iter().filter_map(|(of, ns)| Some((place(&threads, of)?, ns))) {
            self.longest_waits.entry(of).and_modify(|longest| *longest = ns.max(*longest)).or_insert(ns);
        }
    }

    /// The number of names, reasons and times that are kept.
    pub fn entries(&self) -> usize {
        self.threads.values.len() + self.reasons.values.len() + self.times.len()
    }

    fn reason(&self, number: u32) -> &Reason {
        &self.reasons.values[usize::try_from(number).expect("numbers are places")]
    }

    /// `None` if there are too many names as well.
    fn number_of_threads(&mut self, threads: SampledThreads) -> Option<u32> {
        let number = self.threads.number_up_to(MOST_PROCESSES, &threads);
        number.or_else(|| self.threads.number_up_to(2 * MOST_PROCESSES, &SampledThreads { tgid: None, ..threads }))
    }

    /// Returns the index of a reason. Beyond the limit, reasons lose their stacks, and finally all reasons of a class become one.
    fn number_of_reason(&mut self, reason: Reason) -> Option<u32> {
        let number = self.reasons.number_up_to(MOST_WITH_STACK, &reason);
        let reason = Reason { stack: None, held_in: None, ..reason };
        number.or_else(|| self.reasons.number_up_to(MOST_REASONS, &reason)).or_else(|| {
            self.reasons.number_up_to(2 * MOST_REASONS, &Reason { class: reason.class, ..Reason::default() })
        })
    }

    /// Takes what was idle in some windows only for the sleep that it was: those threads did something in the others.
    fn wake(&mut self) {
        let is_idle = |((_, reason), _): &(&(u32, u32), _)| self.reason(*reason).class == ReasonClass::Idle;
        let idle: Vec<_> = self.times.iter().filter(is_idle).map(|(key, time)| (*key, *time)).collect();
        for ((of, reason), time) in idle {
            let in_all = self.idle.as_ref().and_then(|idle| idle.get(&(of, reason)));
            let in_all = in_all.map(|threads| threads.time).unwrap_or_default();
            let slept = time.less(in_all);
            if slept == SampledTime::default() {
                continue;
            }
            let sleep = Reason { class: ReasonClass::Sleep, ..self.reason(reason).clone() };
            let Some(sleep) = self.number_of_reason(sleep) else { continue };
            self.times.insert((of, reason), in_all);
            self.times.entry((of, sleep)).or_default().add(slept);
            self.sampling.samples = self.sampling.samples.saturating_add(slept.samples);
        }
    }

    /// Returns all collected reasons.
    #[must_use]
    pub fn finish(mut self) -> Reasons {
        self.wake();
        let Self { sampling, threads, reasons, times, longest_waits, .. } = self;
        let stacks = StackGroups::new(&reasons.values);
        let times: Vec<_> = times.into_iter().collect();
        let of_threads = times.chunk_by(|((one, _), _), ((other, _), _)| one == other);
        let times = of_threads.flat_map(|rows| {
            let shared = stacks.share(rows.iter().map(|((_, reason), time)| (*reason, *time)).collect());
            let threads = rows[0].0.0.into();
            let time = move |(reason, SampledTime { ns, samples }): (u32, _)| ReasonTime {
                threads,
                reason: reason.into(),
                ns,
                samples,
            };
            shared.into_iter().map(time)
        });
        let times = times.collect();
        let longest_waits = longest_waits.into_iter().map(|(of, ns)| (of.into(), ns)).collect();
        Reasons { sampling, threads: threads.values, reasons: reasons.values, times, longest_waits }
    }
}

/// Threads of more processes are not told apart by process.
const MOST_PROCESSES: usize = 1 << 16;
/// Distinct reasons that are kept apart.
const MOST_REASONS: usize = 1 << 16;
/// Number of reasons, out of the limit, that may differ only by their stacks.
const MOST_WITH_STACK: usize = MOST_REASONS / 4 * 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Name;

    /// Reasons of a window with a number of passes. Each row is a class of sleep in a futex, its stack, and its number of samples, of
    /// one millisecond each.
    fn step(passes: u64, rows: &[(ReasonClass, Option<&str>, u64)]) -> Reasons {
        let reason = |(class, stack, _): &(ReasonClass, Option<&str>, u64)| Reason {
            class: *class,
            entry: Some("futex".into()),
            stack: stack.map(Name::from),
            ..Reason::default()
        };
        let time = |(reason, (.., samples)): (u64, &(_, _, u64))| ReasonTime {
            threads: 0,
            reason,
            ns: samples * 1_000_000,
            samples: *samples,
        };
        let sampling = Sampling { passes, ..Sampling::default() };
        let (reasons, times) = (rows.iter().map(reason).collect(), (0..).zip(rows).map(time).collect());
        Reasons { sampling, threads: vec![SampledThreads::default()], reasons, times, ..Reasons::default() }
    }

    /// The milliseconds of each class and stack of these windows together.
    fn together(steps: &[Reasons]) -> Vec<(ReasonClass, Option<Name>, u64)> {
        let mut sums = ReasonSums::default();
        steps.iter().cloned().for_each(|step| sums.add(step));
        let all = sums.finish();
        let row = |time: &ReasonTime| {
            let reason = &all.reasons[usize::try_from(time.reason).unwrap()];
            (reason.class, reason.stack.clone(), time.ns / 1_000_000)
        };
        let mut rows: Vec<_> = all.times.iter().map(row).collect();
        rows.sort();
        rows
    }

    #[test]
    fn a_sleep_of_several_windows_is_idle_only_if_it_has_lasted_through_all() {
        use ReasonClass::{Idle, Sleep};
        let idle = step(10, &[(Idle, None, 10)]);
        assert_eq!(together(&[idle.clone(), step(20, &[(Idle, None, 20)])]), [(Idle, None, 30)]);
        let in_get = Some("a:get".into());
        let begun = step(10, &[(Sleep, Some("a:get"), 4)]);
        let expected = [(Sleep, in_get.clone(), 24)];
        assert_eq!(together(&[begun.clone(), idle.clone(), idle.clone()]), expected, "it has slept where it began to");
        assert_eq!(together(&[idle.clone(), idle.clone(), begun]), expected, "or where it was until it was woken");
        assert_eq!(together(&[idle.clone(), step(10, &[])]), [(Sleep, None, 10)], "it has exited");
        let rotated = [30, 20, 30].map(|idle| step(10, &[(Idle, None, idle), (Sleep, Some("a:get"), 30 - idle)]));
        assert_eq!(together(&rotated), [(Sleep, in_get, 30), (Idle, None, 60)], "two of three, whichever they were");
    }

    /// A window with three passes, in which a process waited for 2 ns.
    fn window(tgid: u32) -> Reasons {
        let threads = vec![SampledThreads { tgid: Some(tgid), ..SampledThreads::default() }];
        let times = vec![ReasonTime { threads: 0, reason: 0, ns: 2, samples: 1 }];
        let sampling = Sampling { passes: 3, ..Sampling::default() };
        Reasons { sampling, threads, reasons: vec![Reason::default()], times, ..Reasons::default() }
    }

    #[test]
    fn the_longest_wait_of_windows_is_the_largest_of_each_process() {
        let mut sums = ReasonSums::default();
        for (tgid, ns) in [(7, 5), (8, 3), (7, 2), (8, 4), (9, 0)] {
            let longest_waits = if ns > 0 { [(0, ns), (99, 1)].into() } else { BTreeMap::new() };
            sums.add(Reasons { longest_waits, ..window(tgid) });
        }
        assert_eq!(sums.finish().longest_waits, [(0, 5), (1, 4)].into(), "places that do not exist are left out");
    }

    #[test]
    fn reasons_of_windows_add_up_and_those_of_very_many_processes_are_one() {
        let mut sums = ReasonSums::default();
        let processes = u32::try_from(MOST_PROCESSES).unwrap();
        for tgid in (0..processes + 5).chain([7]) {
            sums.add(window(tgid));
        }
        let all = sums.finish();
        assert_eq!((all.sampling.passes, all.reasons.len()), (u64::from(3 * (processes + 6)), 1));
        let [seventh, others] = [all.times[7], *all.times.last().unwrap()].map(|time| (time.ns, time.samples));
        assert_eq!((all.threads.len(), seventh, others), (MOST_PROCESSES + 1, (4, 2), (10, 5)));
        assert_eq!(all.threads.last().unwrap().tgid, None);
    }

    #[test]
    fn reasons_without_end_take_no_memory_without_end() {
        let most = u64::try_from(MOST_REASONS).unwrap();
        let reasons =
            (0..most + 5).map(|number| Reason { entry: Some(number.to_string().into()), ..Reason::default() });
        let times = (0..most + 5).map(|reason| ReasonTime { threads: 0, reason, ns: 1, samples: 1 });
        let mut sums = ReasonSums::default();
        sums.add(Reasons {
            threads: vec![SampledThreads::default()],
            reasons: reasons.collect(),
            times: times.collect(),
            ..Reasons::default()
        });
        let all = sums.finish();
        assert_eq!(
            (all.reasons.len(), all.times.iter().map(|time| time.ns).sum::<u64>()),
            (MOST_REASONS + 1, most + 5)
        );
    }
}
