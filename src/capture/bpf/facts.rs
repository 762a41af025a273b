//! Facts of the host that values depend on.

use std::fs;

use super::super::procfs::text::cpu_list;
use super::super::start::Start;
use crate::model::{HostContext, Metric, Switch, TaskstatsFamily};

/// Facts of the host that values depend on.
#[derive(Clone, Debug, Default)]
pub(in crate::capture) struct Facts {
    /// CPUs online: procfs shows no others in masks.
    pub(super) online: Vec<u32>,
    /// In bytes.
    pub(super) page_size: u64,
    /// What procfs adds to start times, for ctprof's time namespace, in nanoseconds.
    pub(super) boottime_offset_ns: i64,
    /// The monotonic time from which the times of threads count.
    pub(super) start_monotonic_ns: u64,
    /// Whether scheduler statistics count (`kernel.sched_schedstats`).
    pub(super) schedstats: bool,
    /// Whether delays count (`kernel.task_delayacct`).
    pub(super) delays: bool,
}

impl Facts {
    /// Those of this host, for a capture that starts at `start`.
    pub(in crate::capture) fn read(host: &HostContext, start: Start) -> Self {
        let online = fs::read("/sys/devices/system/cpu/online").ok().and_then(|text| cpu_list(&text));
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        Self {
            online: online.unwrap_or_default(),
            page_size: host.page_size.unwrap_or(4096),
            boottime_offset_ns: boottime_offset_ns(&offsets).unwrap_or(0),
            start_monotonic_ns: start.monotonic_ns.unwrap_or(0),
            schedstats: host.sched_schedstats == Some(Switch::On),
            delays: host.task_delayacct != Some(Switch::RuntimeOff),
        }
    }

    /// Whether the kernel counts a metric, if it has its field.
    pub(super) fn count(&self, metric: &Metric) -> bool {
        let is_delay = metric.taskstats_family() == Some(TaskstatsFamily::Delay);
        (self.schedstats || !metric.gates.contains(&"SCHEDSTATS")) && (self.delays || !is_delay)
    }
}

/// The offset of `CLOCK_BOOTTIME` in the time namespace of this process (time_namespaces(7)), from lines with a clock,
/// seconds and nanoseconds.
fn boottime_offset_ns(text: &str) -> Option<i64> {
    let line = text.lines().find(|line| line.starts_with("boottime"))?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse::<i64>);
    let (seconds, nanoseconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times_are_those_of_the_time_namespace() {
        // Linux 6.18.
        let text = "monotonic           0         0\nboottime       -3600   5000000\n";
        assert_eq!(boottime_offset_ns(text), Some(-3_599_995_000_000));
        assert_eq!(boottime_offset_ns("monotonic 0 0\n"), None);
    }
}
