//! Zombies: threads that have exited and are listed until their parent waits for them, such as the recorded command.

use std::collections::HashMap;

use crate::model::{ExitedThread, METRICS, ThreadId, ThreadState};

/// Gives them what they no longer had when they were read, but at their exit: peaks of memory, and on cgroup v1 their cgroup.
pub(super) fn complete_zombies(threads: &mut [ThreadState], exits: impl Iterator<Item = ExitedThread>) {
    let zombies = threads.iter_mut().filter(|thread| thread.has_exited());
    let mut zombies: HashMap<ThreadId, &mut ThreadState> = zombies.map(|thread| (thread.id(), thread)).collect();
    if zombies.is_empty() {
        return;
    }
    for exit in exits {
        if let Some(thread) = zombies.get_mut(&exit.state.id()) {
            complete(thread, exit.state);
        }
    }
}

fn complete(thread: &mut ThreadState, exit: ThreadState) {
    // Another thread can have had the ids.
    if thread.start_time_clock_ticks != exit.start_time_clock_ticks {
        return;
    }
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
    fn a_zombie_has_the_peaks_and_the_cgroup_of_its_exit_and_keeps_its_counters() {
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
            complete(&mut zombie, thread("/job", 5, Some(9), start));
            zombie
        };
        assert_eq!(completed(3), thread("/job", 7, Some(9), 3));
        assert_eq!(completed(4), thread("/", 7, None, 3), "another process with the id");
    }
}
