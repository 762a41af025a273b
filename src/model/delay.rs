//! Delays that cannot be true, because they are longer than the life of their thread.
//!
//! The kernel notes the start of a wait only while the sysctl `kernel.task_delayacct` is 1, and at its end adds the time
//! since the noted start, whether or not it noted one for this wait (`delayacct_end` of `kernel/delayacct.c`). A wait
//! that starts while the sysctl is 0 and ends while it is 1 thus lasts since the thread's wait before, or since the boot
//! of the host if the thread has none. On Linux 6.12, this was also seen in threads that started while it was 1.

use std::sync::LazyLock;

use super::{METRICS, Metric, Metrics, NS_PER_TICK, Reduction, TaskstatsFamily, Unit, Value};

/// The clock of delays is not adjusted to NTP, which changes the speed of the other by at most a 2,000th.
const CLOCK_DRIFT: u64 = 2000;

/// Totals of delays, and their maxima and minima.
static DELAYS: LazyLock<(Vec<&Metric>, Vec<&Metric>)> = LazyLock::new(|| {
    let is_measured =
        |metric: &Metric| matches!(metric.taskstats_family(), Some(TaskstatsFamily::Delay | TaskstatsFamily::Irq));
    let is_delay = |metric: &&Metric| metric.unit == Unit::Ns && is_measured(metric);
    METRICS.iter().filter(is_delay).partition(|metric| metric.reduction == Reduction::Sum)
});

impl Metrics {
    /// Removes delays that are longer than the thread has lived, and returns whether there were any.
    pub fn remove_impossible_delays(&mut self, life_ns: u64) -> bool {
        // Lives are known to a tick.
        let most = life_ns.saturating_add(life_ns / CLOCK_DRIFT).saturating_add(NS_PER_TICK);
        let (totals, extremes) = &*DELAYS;
        let is_longer =
            |metric: &Metric, metrics: &Self| matches!(metric.get(metrics), Some(Value::Unsigned(ns)) if ns > most);
        // A total is at least as long as the longest delay in it.
        if !totals.iter().any(|metric| is_longer(metric, self)) {
            return false;
        }
        for metric in totals.iter().chain(extremes) {
            if is_longer(metric, self) {
                metric.clear(self);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MetricId;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_delay_that_lasts_since_boot_is_removed_and_true_ones_are_kept() {
        let mut metrics = Metrics::default();
        (metrics.blkio_delay_count, metrics.blkio_delay_total_ns) = (Some(2.into()), Some((45_000 * SECOND).into()));
        (metrics.blkio_delay_max_ns, metrics.blkio_delay_min_ns) = (Some((44_999 * SECOND).into()), Some(7.into()));
        metrics.swapin_delay_total_ns = Some((5 * SECOND).into());
        // Time of waits for a CPU is counted without the sysctl.
        metrics.cpu_delay_total_ns = Some((9 * SECOND).into());
        let before = metrics.clone();
        assert!(!metrics.remove_impossible_delays(45_000 * SECOND));
        assert_eq!(metrics, before);
        assert!(metrics.remove_impossible_delays(5 * SECOND));
        let mut expected = before;
        (expected.blkio_delay_total_ns, expected.blkio_delay_max_ns) = (None, None);
        assert_eq!(metrics, expected);
    }

    #[test]
    fn a_thread_that_waited_all_its_life_keeps_its_delays() {
        let day = 86_400 * SECOND;
        let mut metrics = Metrics::default();
        let total = Value::Unsigned(day + 40 * SECOND);
        MetricId::wpcopy_delay_total_ns.metric().set(&mut metrics, total).unwrap();
        assert!(!metrics.remove_impossible_delays(day), "the clocks differ by 40 s a day");
        assert!(metrics.remove_impossible_delays(day - 10 * SECOND));
    }
}
