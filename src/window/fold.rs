//! Exited threads with equal names as one: a storm of short processes takes the memory of its names.

use std::collections::BTreeMap;

use crate::model::{METRICS, Metrics, Name, Owner, Reduction, ThreadState, Value, WindowRule};

/// Exited threads, by what reports can tell apart.
#[derive(Default)]
pub(super) struct Fold(BTreeMap<FoldKey, ThreadState>);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FoldKey {
    pcomm: Name,
    comm: Name,
    cgroup: Option<Name>,
    owner: Option<Owner>,
    kernel_thread: bool,
    started: bool,
}

impl Fold {
    pub(super) fn add(&mut self, mut thread: ThreadState) {
        let span = thread.span.unwrap_or_default();
        let kind = FoldKey {
            pcomm: Name::clone(&thread.pcomm),
            comm: Name::clone(&thread.comm),
            cgroup: thread.cgroup.clone(),
            owner: thread.owner,
            kernel_thread: thread.kernel_thread,
            started: span.started,
        };
        match self.0.get_mut(&kind) {
            Some(same) => {
                let all = same.span.get_or_insert_default();
                all.alive_ns = all.alive_ns.saturating_add(span.alive_ns);
                all.count = all.count.saturating_add(span.count);
                add_metrics(&mut same.metrics, &thread.metrics);
                (same.tid, same.tgid, same.start_time_clock_ticks) = (0, 0, None);
            }
            None => {
                thread.name_complete = false;
                self.0.insert(kind, thread);
            }
        }
    }

    /// The threads, each for all that are equal, sorted by names.
    pub(super) fn into_threads(self) -> impl Iterator<Item = ThreadState> {
        self.0.into_values()
    }
}

/// Adds counters, and keeps the larger peak and the smaller floor.
fn add_metrics(all: &mut Metrics, more: &Metrics) {
    for metric in METRICS.iter().filter(|metric| metric.window != WindowRule::Later) {
        let Some(Value::Unsigned(added)) = metric.get(more) else { continue };
        let sum = match (metric.get(all), metric.reduction) {
            (Some(Value::Unsigned(known)), Reduction::Sum) => known.saturating_add(added),
            (Some(Value::Unsigned(known)), Reduction::Max) => known.max(added),
            (Some(Value::Unsigned(known)), Reduction::Min) => known.min(added),
            _ => added,
        };
        metric.set(all, Value::Unsigned(sum)).expect("the metric had such a value");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ThreadSpan;

    fn exited(tid: u32, comm: &str, run: u64, peak: u64) -> ThreadState {
        let span = ThreadSpan { alive_ns: 5, started: true, exited: true, ..ThreadSpan::default() };
        let mut thread = ThreadState { tid, tgid: tid, comm: comm.into(), span: Some(span), ..ThreadState::default() };
        thread.metrics.run_time_ns = Some(run.into());
        thread.metrics.cpu_delay_max_ns = Some(peak.into());
        thread.metrics.cpu_delay_min_ns = Some(peak.into());
        thread
    }

    #[test]
    fn exited_threads_with_equal_names_are_one_with_the_sum_of_their_values() {
        let mut fold = Fold::default();
        let all = [exited(1, "a", 3, 7), exited(2, "b", 1, 1), exited(3, "a", 2, 5), exited(4, "a", 2, 6)];
        all.into_iter().for_each(|one| fold.add(one));
        let mut threads: Vec<_> = fold.into_threads().collect();
        threads.sort_by(|a, b| a.comm.cmp(&b.comm));
        let [a, b] = threads.as_slice() else { panic!("{threads:?}") };
        let metrics = &a.metrics;
        let (run, peak, floor) = (metrics.run_time_ns, metrics.cpu_delay_max_ns, metrics.cpu_delay_min_ns);
        assert_eq!((run, peak, floor), (Some(7.into()), Some(7.into()), Some(5.into())));
        assert_eq!((a.span.unwrap().count, a.span.unwrap().alive_ns, a.tgid), (3, 15, 0));
        assert_eq!((b.span.unwrap().count, b.tgid), (1, 2));
    }
}
