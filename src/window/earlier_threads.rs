//! The threads of the earlier capture, by id, and what a thread of the later one has more than its earlier self.

use super::{CPU_TICKS, cpu_ticks};
use crate::model::{
    Census, InWindow, METRICS, Metric, MetricId, Metrics, Name, ProcessState, Reduction, ThreadId, ThreadState,
    Threads, Value, WindowRule,
};

/// Threads of the earlier capture, by id.
#[derive(Clone, Debug, Default)]
pub struct EarlierThreads {
    /// Numbers of threads and processes in this capture.
    pub census: Census,
    pub(super) threads: Vec<ThreadState>,
    /// Number of values of `smaps_rollup`.
    smaps_kinds: usize,
}

impl Threads for EarlierThreads {
    fn another(&self) -> Self {
        Self::default()
    }

    fn add(&mut self, thread: ThreadState) {
        self.census.add(&thread);
        self.smaps_kinds += thread.smaps_rollup_bytes().count();
        self.threads.push(thread);
    }

    fn append(&mut self, mut later: Self) {
        self.census.append(later.census);
        self.smaps_kinds += later.smaps_kinds;
        self.threads.append(&mut later.threads);
    }

    fn bytes(&self) -> usize {
        const BYTES_PER_KIND: usize = 128;
        self.threads.len() * (size_of::<ThreadState>() + size_of::<Metrics>()) + self.smaps_kinds * BYTES_PER_KIND
    }
}

impl EarlierThreads {
    /// The threads of a snapshot.
    pub fn of_threads(threads: impl IntoIterator<Item = ThreadState>) -> Self {
        let mut earlier = Self::default();
        threads.into_iter().for_each(|thread| earlier.add(thread));
        earlier
    }

    /// The index of a thread.
    pub(super) fn find(&self, id: ThreadId) -> Option<usize> {
        self.threads.binary_search_by_key(&id, ThreadState::id).ok()
    }

    /// The first thread of a process.
    pub(super) fn leader(&self, tgid: u32) -> Option<&ThreadState> {
        self.find(ThreadId { tgid, tid: tgid }).map(|place| &self.threads[place])
    }

    /// Returns the run time of all threads of a process, in nanoseconds; `None` if the run time of any thread is unknown.
    pub(super) fn run_time_ns(&self, tgid: u32) -> Option<u64> {
        let leader = self.find(ThreadId { tgid, tid: tgid })?;
        let all = std::iter::once(leader).chain(self.siblings(leader));
        all.map(|place| self.threads[place].metrics.run_time_ns)
            .try_fold(0_u64, |sum, ns| Some(sum.saturating_add(ns?.number())))
    }

    /// The places of the other threads of the process whose first thread is at `place`.
    pub(super) fn siblings(&self, place: usize) -> impl Iterator<Item = usize> + Clone {
        let tgid = self.threads[place].tgid;
        let first = self.threads.partition_point(|thread| thread.tgid < tgid);
        let end = self.threads.partition_point(|thread| thread.tgid <= tgid);
        (first..end).filter(move |sibling| *sibling != place)
    }
}

/// Returns the counters of a process read after the threads: an exited child is in these counters, or its threads were still
/// captured.
pub(super) fn process_after(leader: &ThreadState) -> Option<&ProcessState> {
    leader.process_after.as_deref().or(leader.process.as_deref())
}

/// The earlier values of a thread under the names that it has later.
pub(super) fn renamed(earlier: &ThreadState, later: &ThreadState) -> ThreadState {
    ThreadState {
        tid: earlier.tid,
        tgid: earlier.tgid,
        pcomm: Name::clone(&later.pcomm),
        comm: Name::clone(&later.comm),
        program: later.program.clone(),
        cgroup: later.cgroup.clone(),
        start_time_clock_ticks: earlier.start_time_clock_ticks,
        kernel_thread: earlier.kernel_thread,
        name_complete: later.name_complete,
        read_at_ns: Some(earlier.read_after_ns()),
        owner: earlier.owner,
        metrics: earlier.metrics.clone(),
        smaps_rollup_kib: earlier.smaps_rollup_kib.clone(),
        ..ThreadState::default()
    }
}

/// Replaces the values in `later` by the values in a window that started with `earlier`, and calls `backwards` for each counter
/// that went backwards.
pub(super) fn subtract(earlier: &Metrics, later: &mut Metrics, mut backwards: impl FnMut(&'static Metric)) {
    let ticks = CPU_TICKS.map(|id| match id.metric().get(earlier) {
        Some(Value::Unsigned(ticks)) => Some(ticks),
        _ => None,
    });
    let of_ticks = cpu_ticks::subtract(ticks, later);
    if of_ticks == Some(InWindow::Backwards) {
        CPU_TICKS.iter().for_each(|id| backwards(id.metric()));
    }
    let are_known = earlier.present();
    // Without an event there is a largest delay, of 0, and no smallest one: the first is of the window.
    let is_first = |metric: &Metric| metric.reduction == Reduction::Min && are_known >> peak_of(metric) as u32 & 1 == 1;
    for metric in METRICS.iter().filter(|metric| metric.window != WindowRule::Later) {
        match metric.get(earlier) {
            Some(_) if of_ticks.is_some() && CPU_TICKS.contains(&metric.id) => {}
            None if is_first(metric) => {}
            None => metric.clear(later),
            value => {
                if metric.subtract(value.as_ref(), later) == InWindow::Backwards {
                    backwards(metric);
                }
            }
        }
    }
}

/// Subtracts a part of a thread's life as [`subtract`] does, except that values which `part` lacks stay.
pub(super) fn subtract_part(part: &Metrics, whole: &mut Metrics) {
    let before = whole.clone();
    subtract(part, whole, |_| {});
    for metric in METRICS.iter().filter(|metric| metric.get(part).is_none()) {
        if let Some(value) = metric.get(&before) {
            metric.set(whole, value).expect("a metric holds its own value");
        }
    }
}

/// The largest delay of the kind whose smallest one this is: it precedes it in the table.
fn peak_of(floor: &Metric) -> MetricId {
    METRICS[(floor.id as usize).saturating_sub(1)].id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_that_a_new_sample_moved_from_system_to_user_mode_did_not_go_backwards() {
        let ticks = |user: u64, system: u64| Metrics {
            utime_clock_ticks: Some(user.into()),
            stime_clock_ticks: Some(system.into()),
            ..Metrics::default()
        };
        let mut later = ticks(2, 2);
        subtract(&ticks(0, 3), &mut later, |metric| panic!("{} went backwards", metric.name));
        assert_eq!(later, ticks(1, 0));
    }

    #[test]
    fn memory_grows_with_threads_and_kinds_of_mappings() {
        let mapped = |kinds: u32| ThreadState {
            smaps_rollup_kib: Some((0..kinds).map(|kind| (format!("kind {kind}"), 1)).collect()),
            ..ThreadState::default()
        };
        let bytes = |threads: &[ThreadState]| EarlierThreads::of_threads(threads.to_vec()).bytes();
        assert!(bytes(&[mapped(0)]) > size_of::<ThreadState>());
        assert_eq!([1, 3].map(|kinds| bytes(&[mapped(kinds)]) - bytes(&[mapped(0)])), [128, 384]);
        let mut both = EarlierThreads::of_threads([mapped(1)]);
        both.append(EarlierThreads::of_threads([mapped(3)]));
        assert_eq!(both.bytes(), bytes(&[mapped(1)]) + bytes(&[mapped(3)]));
    }

    #[test]
    fn the_first_event_of_a_thread_is_the_smallest_of_the_window() {
        let smallest = |before: Metrics| {
            let mut later = Metrics { cpu_delay_min_ns: Some(5.into()), ..Metrics::default() };
            subtract(&before, &mut later, |_| {});
            later.cpu_delay_min_ns.map(u64::from)
        };
        assert_eq!(smallest(Metrics { cpu_delay_max_ns: Some(0.into()), ..Metrics::default() }), Some(5));
        assert_eq!(smallest(Metrics::default()), None, "it was not measured before");
        for floor in METRICS.iter().filter(|metric| metric.reduction == Reduction::Min) {
            assert_eq!(peak_of(floor).metric().name, floor.name.replace("_min_", "_max_"));
        }
    }

    #[test]
    fn a_counter_that_was_not_known_before_has_no_increase_and_one_that_fell_is_told() {
        let [mut later, mut earlier] = [(); 2].map(|()| Metrics::default());
        (later.minflt, later.run_time_ns, later.wait_time_ns) = (Some(9.into()), Some(9.into()), Some(9.into()));
        (earlier.run_time_ns, earlier.wait_time_ns) = (Some(4.into()), Some(10.into()));
        let mut fell = Vec::new();
        subtract(&earlier, &mut later, |metric| fell.push(metric.id));
        let now = [later.minflt.map(u64::from), later.run_time_ns.map(u64::from), later.wait_time_ns.map(u64::from)];
        assert_eq!((now, fell), ([None, Some(5), None], vec![MetricId::wait_time_ns]));
    }
}
