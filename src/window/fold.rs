//! Exited threads with equal names as one: a storm of short processes takes the memory of its names.

use std::collections::BTreeMap;

use super::cpu_ticks::divided;
use crate::model::{
    ExitedThread, METRICS, Metrics, NS_PER_TICK, Name, Owner, Reduction, ThreadState, Value, WindowRule,
};

/// Exited threads, by what reports can tell apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Fold(BTreeMap<FoldKey, ExitedThread>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FoldKey {
    pcomm: Name,
    comm: Name,
    program: Option<Name>,
    parent: Option<Name>,
    cgroup: Option<Name>,
    unnamed_cgroup: Option<u64>,
    owner: Option<Owner>,
    kernel_thread: bool,
    started: bool,
    /// Whether it is what was done in a program that was left, which counts no thread.
    is_left: bool,
}

impl FoldKey {
    fn from_exit(exited: &ExitedThread) -> Self {
        let thread = &exited.state;
        Self {
            pcomm: Name::clone(&thread.pcomm),
            comm: Name::clone(&thread.comm),
            program: thread.program.clone(),
            parent: thread.parent.clone(),
            cgroup: thread.cgroup.clone(),
            unnamed_cgroup: exited.unnamed_cgroup,
            owner: thread.owner,
            kernel_thread: thread.kernel_thread,
            started: thread.span.unwrap_or_default().started,
            is_left: thread.span.is_some_and(|span| span.count == 0),
        }
    }
}

impl Fold {
    /// Whether one that is equal was added before.
    pub(super) fn has(&self, exited: &ExitedThread) -> bool {
        self.0.contains_key(&FoldKey::from_exit(exited))
    }

    /// Adds a thread, or several as one; true if there was none that is equal.
    pub(super) fn add(&mut self, mut exited: ExitedThread) -> bool {
        let span = exited.state.span.unwrap_or_default();
        let kind = FoldKey::from_exit(&exited);
        let Some(same) = self.0.get_mut(&kind) else {
            exited.state.name_complete = false;
            self.0.insert(kind, exited);
            return true;
        };
        let all = same.state.span.get_or_insert_default();
        all.alive_ns = all.alive_ns.saturating_add(span.alive_ns);
        all.count = all.count.saturating_add(span.count);
        add_metrics(&mut same.state.metrics, &exited.state.metrics);
        let sums = same.cpu_time_ns.iter_mut().flatten().zip(exited.cpu_time_ns.iter().flatten());
        sums.for_each(|(all, more)| *all = all.saturating_add(*more));
        (same.state.tid, same.state.tgid, same.state.start_time_clock_ticks) = (0, 0, None);
        false
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The threads, each for all that are equal, sorted by names.
    pub(super) fn into_rows(self) -> impl Iterator<Item = ExitedThread> {
        self.0.into_values()
    }

    /// Returns the threads of [`Fold::into_rows`]. The total run time is divided in proportion to their ticks, and rounded to
    /// ticks, only here: most threads run for less than a tick, and have none.
    pub(super) fn into_threads(self) -> impl Iterator<Item = ThreadState> {
        self.into_rows().map(|ExitedThread { mut state, cpu_time_ns, .. }| {
            if let Some(ticks) = cpu_time_ns {
                let [user, system] = state.metrics.run_time_ns.map_or(ticks, |run| divided(run.into(), ticks));
                state.metrics.utime_clock_ticks = Some((user / NS_PER_TICK).into());
                state.metrics.stime_clock_ticks = Some((system / NS_PER_TICK).into());
            }
            state
        })
    }
}

/// Adds counters, and keeps the larger peak and the smaller floor.
fn add_metrics(all: &mut Metrics, more: &Metrics) {
    for metric in METRICS.iter().filter(|metric| metric.window != WindowRule::Later) {
        let Some(Value::Unsigned(added)) = metric.get(more) else { continue };
        let sum = match (metric.get(all), metric.reduction) {
            (Some(Value::Unsigned(total)), Reduction::Sum) => total.saturating_add(added),
            (Some(Value::Unsigned(total)), Reduction::Max) => total.max(added),
            (Some(Value::Unsigned(total)), Reduction::Min) => total.min(added),
            _ => added,
        };
        metric.set(all, Value::Unsigned(sum)).expect("the metric had such a value");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ThreadSpan;

    const MS: u64 = 1_000_000;

    fn exited(tid: u32, comm: &str, run_ms: u64, peak: u64) -> ExitedThread {
        let span = ThreadSpan { alive_ns: 5, started: true, exited: true, ..ThreadSpan::default() };
        let mut thread = ThreadState { tid, tgid: tid, comm: comm.into(), span: Some(span), ..ThreadState::default() };
        thread.metrics.run_time_ns = Some((run_ms * MS).into());
        thread.metrics.cpu_delay_max_ns = Some(peak.into());
        thread.metrics.cpu_delay_min_ns = Some(peak.into());
        let cpu_time_ns = Some([run_ms * MS, 1]);
        ExitedThread { state: thread, cpu_time_ns, ..ExitedThread::default() }
    }

    #[test]
    fn exited_threads_with_equal_names_are_one_with_the_sum_of_their_values() {
        let mut fold = Fold::default();
        let all = [exited(1, "a", 12, 7), exited(2, "b", 4, 1), exited(3, "a", 8, 5), exited(4, "a", 8, 6)];
        let is_new = all.map(|one| fold.add(one));
        assert_eq!((is_new, fold.len()), ([true, true, false, false], 2));
        let mut threads: Vec<_> = fold.into_threads().collect();
        threads.sort_by(|a, b| a.comm.cmp(&b.comm));
        let [a, b] = threads.as_slice() else { panic!("{threads:?}") };
        let metrics = &a.metrics;
        let (run, peak, floor) = (metrics.run_time_ns, metrics.cpu_delay_max_ns, metrics.cpu_delay_min_ns);
        assert_eq!((run, peak, floor), (Some((28 * MS).into()), Some(7.into()), Some(5.into())));
        assert_eq!((a.span.unwrap().count, a.span.unwrap().alive_ns, a.tgid), (3, 15, 0));
        assert_eq!((b.span.unwrap().count, b.tgid), (1, 2));
        let ticks = [a, b].map(|thread| thread.metrics.utime_clock_ticks.unwrap().number());
        assert_eq!(ticks, [2, 0], "12, 8 and 8 ms are 28 ms, and 4 ms less than a tick");
    }

    #[test]
    fn run_time_without_a_tick_is_divided_as_that_of_threads_that_met_one() {
        let mut fold = Fold::default();
        for (number, ticks) in (0..100).zip([[0, 0], [0, 4 * MS], [0, 0], [0, 4 * MS], [4 * MS, 0]].into_iter().cycle())
        {
            fold.add(ExitedThread { cpu_time_ns: Some(ticks), ..exited(number, "a", 2, 1) });
        }
        let metrics = fold.into_threads().next().unwrap().metrics;
        let ticks = [metrics.utime_clock_ticks, metrics.stime_clock_ticks].map(|ticks| ticks.unwrap().number());
        assert_eq!(ticks, [6, 13], "a third and two thirds of 200 ms");
    }
}
