//! Reasons of steps without the ones that go on: most threads sleep through most steps, for the reason that they had in the step
//! before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{NumberedValues, Reason, ReasonTime, Reasons, SampledThreads};

/// Threads that had one reason during the whole step before.
#[derive(Debug, Default)]
pub struct Sleepers(BTreeMap<SampledThreads, Steady>);

/// A single reason of some threads, during a whole step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Steady {
    reason: Arc<Reason>,
    threads: u64,
}

/// Reasons of the step before that this step does not repeat. Threads with one reason during both steps have no row in it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SleptOn {
    /// Time and samples of one thread, in the whole step.
    ns: u64,
    samples: u64,
    /// Threads without a row that do not go on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ended: Vec<SampledThreads>,
}

impl Sleepers {
    /// Knows of no step before.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Takes out the reasons that go on. `None` if there is no thread with one reason.
    pub(super) fn shorten(&mut self, reasons: &mut Reasons) -> Option<SleptOn> {
        let Some((ns, samples)) = whole_step(reasons) else {
            self.0.clear();
            return None;
        };
        let steady = steady(reasons, (ns, samples));
        let present: BTreeSet<&SampledThreads> = reasons.threads.iter().collect();
        let ended = self.0.keys().filter(|threads| !present.contains(threads)).cloned().collect();
        let goes_on =
            |threads: &SampledThreads| self.0.get(threads).is_some_and(|before| steady.get(threads) == Some(before));
        *reasons = with_rows(reasons, |threads| !goes_on(threads));
        self.0 = steady;
        Some(SleptOn { ns, samples, ended })
    }

    /// Adds to the reasons of a step the ones that go on.
    pub(super) fn restore(&mut self, reasons: &mut Reasons, slept: Option<SleptOn>) {
        let Some(SleptOn { ns, samples, ended }) = slept else {
            self.0.clear();
            return;
        };
        let present_or_ended: BTreeSet<&SampledThreads> = reasons.threads.iter().chain(&ended).collect();
        let go_on: Vec<_> = self.0.iter().filter(|(threads, _)| !present_or_ended.contains(threads)).collect();
        let place = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let mut reason_places = BTreeMap::new();
        for (threads, Steady { reason, threads: count }) in go_on {
            let reason = *reason_places.entry(Arc::clone(reason)).or_insert_with(|| {
                reasons.reasons.push(Reason::clone(reason));
                place(reasons.reasons.len()) - 1
            });
            reasons.threads.push(threads.clone());
            reasons.times.push(ReasonTime {
                threads: place(reasons.threads.len()) - 1,
                reason,
                ns: ns.saturating_mul(*count),
                samples: samples.saturating_mul(*count),
            });
        }
        self.0 = steady(reasons, (ns, samples));
    }
}

/// The rows of threads that have only one, and that no sample saw waiting for a CPU.
fn single_rows(reasons: &Reasons) -> impl Iterator<Item = (&SampledThreads, &ReasonTime)> {
    let mut rows: Vec<(u64, Option<&ReasonTime>)> = vec![(0, None); reasons.threads.len()];
    for time in &reasons.times {
        if let Some((count, row)) = usize::try_from(time.threads).ok().and_then(|place| rows.get_mut(place)) {
            (*count, *row) = (*count + 1, Some(time));
        }
    }
    let is_all = |count: u64, time: &ReasonTime| count == 1 && !reasons.longest_waits.contains_key(&time.threads);
    let rows = reasons.threads.iter().zip(rows);
    rows.filter_map(move |(threads, (count, row))| Some((threads, row.filter(|time| is_all(count, time))?)))
}

/// The most frequent time and number of samples of threads with one reason.
fn whole_step(reasons: &Reasons) -> Option<(u64, u64)> {
    let mut frequencies = BTreeMap::<_, u64>::new();
    for (_, time) in single_rows(reasons).filter(|(_, time)| time.ns > 0) {
        *frequencies.entry((time.ns, time.samples)).or_default() += 1;
    }
    frequencies.into_iter().max_by_key(|(_, threads)| *threads).map(|(whole, _)| whole)
}

/// Returns the threads that had one reason during a whole step, with the same multiple of this time and number of samples.
fn steady(reasons: &Reasons, (ns, samples): (u64, u64)) -> BTreeMap<SampledThreads, Steady> {
    let shared: Vec<_> = reasons.reasons.iter().cloned().map(Arc::new).collect();
    let of_row = |(threads, time): (&SampledThreads, &ReasonTime)| {
        let count = time.ns.checked_div(ns).filter(|count| *count > 0)?;
        let is_whole = [(count, ns, time.ns), (count, samples, time.samples)]
            .iter()
            .all(|(count, one, all)| count.checked_mul(*one) == Some(*all));
        let reason = Arc::clone(shared.get(usize::try_from(time.reason).ok()?)?);
        is_whole.then(|| (threads.clone(), Steady { reason, threads: count }))
    };
    single_rows(reasons).filter_map(of_row).collect()
}

/// The reasons of some of the threads.
fn with_rows(reasons: &Reasons, is_kept: impl Fn(&SampledThreads) -> bool) -> Reasons {
    let (mut threads, mut causes) = (NumberedValues::default(), NumberedValues::default());
    let mut times = Vec::new();
    for time in &reasons.times {
        if let Some((of, reason)) = reasons.of(time).filter(|(of, _)| is_kept(of)) {
            let (threads, reason) = (threads.number(of).into(), causes.number(reason).into());
            times.push(ReasonTime { threads, reason, ..*time });
        }
    }
    let longest = reasons.longest_waits.iter().filter_map(|(of, ns)| {
        let of = usize::try_from(*of).ok().and_then(|place| reasons.threads.get(place)).filter(|of| is_kept(of))?;
        Some((threads.number(of).into(), *ns))
    });
    let longest_waits = longest.collect();
    Reasons {
        sampling: reasons.sampling.clone(),
        threads: threads.values,
        reasons: causes.values,
        times,
        longest_waits,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{ReasonClass, ReasonSums};

    /// The process, the numbers of the reason and of the threads, the time beyond the whole step, and the longest wait.
    type Row = (u32, u32, u64, u64, u64);

    fn reasons(rows: &[Row], whole: (u64, u64)) -> Reasons {
        let mut sums = ReasonSums::default();
        for (tgid, reason, threads, more, waited) in rows {
            let one = SampledThreads { tgid: Some(*tgid), ..SampledThreads::default() };
            let class = if *reason == 0 { ReasonClass::Run } else { ReasonClass::Sleep };
            let reason = Reason { class, entry: Some(format!("call{reason}").as_str().into()), ..Reason::default() };
            let time = ReasonTime { threads: 0, reason: 0, ns: threads * whole.0 + more, samples: threads * whole.1 };
            let longest_waits = Some(*waited).filter(|ns| *ns > 0).map(|ns| (0, ns)).into_iter().collect();
            let (threads, reasons, times) = (vec![one], vec![reason], vec![time]);
            sums.add(Reasons { threads, reasons, times, longest_waits, ..Reasons::default() });
        }
        sums.finish()
    }

    /// The rows in an order that does not depend on places.
    fn rows(reasons: &Reasons) -> Vec<(SampledThreads, Reason, u64, u64)> {
        let place = |place: u64| usize::try_from(place).unwrap();
        let row = |time: &ReasonTime| {
            let (threads, reason) = (&reasons.threads[place(time.threads)], &reasons.reasons[place(time.reason)]);
            (threads.clone(), reason.clone(), time.ns, time.samples)
        };
        let mut rows: Vec<_> = reasons.times.iter().map(row).collect();
        rows.sort();
        rows
    }

    fn longest_waits(reasons: &Reasons) -> BTreeMap<&SampledThreads, u64> {
        let named = |(place, ns): (&u64, &u64)| (&reasons.threads[usize::try_from(*place).unwrap()], *ns);
        reasons.longest_waits.iter().map(named).collect()
    }

    proptest! {
        #[test]
        fn a_reader_has_what_the_writer_had_in_every_step(
            steps in prop::collection::vec(
                (prop::collection::vec((0_u32..6, 0_u32..3, 1_u64..3, 0_u64..2, 0_u64..3), 0..12), 90_u64..110, 1_u64..4),
                1..8,
            ),
        ) {
            let (mut writer, mut reader) = (Sleepers::default(), Sleepers::default());
            for (step, ns, samples) in steps {
                let whole = reasons(&step, (ns, samples));
                let mut read = whole.clone();
                let slept = writer.shorten(&mut read);
                let slept = slept.map(|slept| serde_json::from_str(&serde_json::to_string(&slept).unwrap()).unwrap());
                reader.restore(&mut read, slept);
                prop_assert_eq!(rows(&read), rows(&whole));
                prop_assert_eq!(longest_waits(&read), longest_waits(&whole));
            }
        }
    }

    #[test]
    fn threads_that_sleep_on_have_no_row() {
        let mut writer = Sleepers::default();
        let mut shortened = |rows: &[Row], ns| {
            let mut step = reasons(rows, (ns, 9));
            writer.shorten(&mut step);
            let named = step.threads.iter().map(|threads| threads.tgid.unwrap()).collect::<Vec<_>>();
            (named, step.reasons.len())
        };
        let sleepers = [(1, 1, 1, 0, 0), (2, 1, 1, 0, 0), (3, 2, 4, 0, 0)];
        assert_eq!(shortened(&sleepers, 100), (vec![1, 2, 3], 2));
        assert_eq!(shortened(&sleepers, 103), (vec![], 0), "steps differ in length");
        assert_eq!(
            shortened(&[(1, 1, 1, 0, 0), (2, 0, 1, 0, 0), (3, 2, 3, 0, 0)], 100),
            (vec![2, 3], 2),
            "2 ran, one of 3 exited"
        );
    }
}
