//! Zombies: threads that have exited and are listed until their parent waits for them, such as the recorded command.

use std::collections::HashMap;

use crate::model::{ExitedThread, METRICS, ThreadEnd, ThreadId, ThreadState};

/// Gives zombies what only records of their exits have: when they exited, peaks of memory, and on cgroup v1 their cgroup. Those
/// without a record have the cgroup of the last capture, whose threads `last_thread` returns, and exited when samples have
/// `seen` it, or when that capture says.
pub(super) fn complete_zombies<'k>(
    threads: &mut [ThreadState],
    exits: impl Iterator<Item = ExitedThread>,
    seen: &[ThreadEnd],
    last_thread: impl Fn(ThreadId) -> Option<&'k ThreadState>,
) {
    let zombies = threads.iter_mut().filter(|thread| thread.has_exited());
    let mut zombies: HashMap<ThreadId, &mut ThreadState> = zombies.map(|thread| (thread.id(), thread)).collect();
    if zombies.is_empty() {
        return;
    }
    for exit in exits {
        if let Some(thread) = zombies.get_mut(&exit.state.id()) {
            complete(thread, exit);
        }
    }
    let seen: HashMap<_, _> =
        seen.iter().map(|end| ((end.tid, end.start_time_clock_ticks), end.monotonic_ns)).collect();
    for (id, thread) in zombies {
        let same = last_thread(id).filter(|last| last.start_time_clock_ticks == thread.start_time_clock_ticks);
        if let Some(last) = same.filter(|_| thread.cgroup.is_none()) {
            (thread.cgroup, thread.cpu_cgroup) = (last.cgroup.clone(), last.cpu_cgroup.clone());
        }
        if thread.exited_monotonic_ns.is_some() {
            continue;
        }
        let seen_ns = || seen.get(&(thread.tid, thread.start_time_clock_ticks?)).copied();
        thread.exited_monotonic_ns = same.and_then(|last| last.exited_monotonic_ns).or_else(seen_ns);
    }
}

fn complete(thread: &mut ThreadState, exited: ExitedThread) {
    let exited_ns = exited.exited_monotonic_ns();
    let exit = exited.state;
    // Another thread can have had the ids.
    if thread.start_time_clock_ticks != exit.start_time_clock_ticks || exited.replaced_by.is_some() {
        return;
    }
    thread.exited_monotonic_ns = Some(exited_ns);
    thread.cgroup = exit.cgroup.or_else(|| thread.cgroup.take());
    for metric in METRICS.iter().filter(|metric| metric.get(&thread.metrics).is_none()).collect::<Vec<_>>() {
        if let Some(value) = metric.get(&exit.metrics) {
            metric.set(&mut thread.metrics, value).expect("a metric holds its own value");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Metrics;

    #[test]
    fn a_zombie_has_the_time_the_peaks_and_the_cgroup_of_its_exit_and_keeps_its_counters() {
        let thread = |cgroup: &str, run: u64, peak: Option<u64>, start: u64| {
            let mut metrics = Box::<Metrics>::default();
            (metrics.run_time_ns, metrics.hiwater_rss_bytes) = (Some(run.into()), peak.map(Into::into));
            ThreadState {
                metrics,
                cgroup: Some(cgroup.into()),
                start_time_clock_ticks: Some(start),
                ..ThreadState::default()
            }
        };
        let completed = |start| {
            let mut zombie = thread("/", 7, None, 3);
            let state = thread("/job", 5, Some(9), start);
            let exit = ExitedThread { state, started_monotonic_ns: 30, elapsed_ns: 4, ..ExitedThread::default() };
            complete(&mut zombie, exit);
            zombie
        };
        let expected = ThreadState { exited_monotonic_ns: Some(34), ..thread("/job", 7, Some(9), 3) };
        assert_eq!(completed(3), expected);
        assert_eq!(completed(4), thread("/", 7, None, 3), "another process with the id");
    }

    #[test]
    fn a_zombie_without_a_record_exited_when_samples_noticed_it_or_as_and_where_the_last_capture_knew_it() {
        let zombie = |tid, start| {
            let mut zombie =
                ThreadState { tid, tgid: tid, start_time_clock_ticks: Some(start), ..ThreadState::default() };
            zombie.metrics.state = Some('Z');
            zombie
        };
        let mut lives = zombie(9, 1);
        lives.metrics.state = Some('S');
        let mut threads = [zombie(7, 1), zombie(6, 2), zombie(8, 1), lives];
        let end = |tid| ThreadEnd { tid, start_time_clock_ticks: 1, monotonic_ns: 50, ..ThreadEnd::default() };
        let cgroup = Some("/job".into());
        let last = ThreadState { exited_monotonic_ns: Some(20), cgroup, ..zombie(8, 1) };
        let ends = [6, 7, 8, 9].map(end);
        complete_zombies(&mut threads, std::iter::empty(), &ends, |id| Some(&last).filter(|last| last.id() == id));
        assert_eq!(threads.each_ref().map(|thread| thread.exited_monotonic_ns), [Some(50), None, Some(20), None]);
        assert_eq!(threads.map(|thread| thread.cgroup), [None, None, Some("/job".into()), None]);
    }
}
