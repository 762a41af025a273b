//! Settings of the host on which values of threads depend.

use std::fs;

use super::super::procfs::text::cpu_list;
use super::super::start::Start;
use crate::model::{HostContext, Metric, Switch, TaskstatsFamily};

#[derive(Clone, Debug, Default)]
pub(in crate::capture) struct HostParameters {
    /// CPUs online: `sched_getaffinity` returns no others. Empty if unknown.
    pub(super) online: Vec<u32>,
    /// Size of a page in bytes.
    pub(super) page_size: u64,
    /// The start of the capture, by `CLOCK_MONOTONIC`.
    pub(super) start_monotonic_ns: Option<u64>,
    /// Whether scheduler statistics count (`kernel.sched_schedstats`); false if unknown.
    pub(super) schedstats: bool,
    /// Whether delays of I/O and memory are measured (`kernel.task_delayacct`); false if unknown.
    pub(super) delays: bool,
    /// Whether the time of interrupts is measured (`CONFIG_IRQ_TIME_ACCOUNTING`); false if unknown.
    pub(super) irq_delays: bool,
}

impl HostParameters {
    pub(in crate::capture) fn read(host: &HostContext, start: Start) -> Self {
        let online = fs::read("/sys/devices/system/cpu/online").ok().and_then(|text| cpu_list(&text));
        Self {
            online: online.unwrap_or_default(),
            page_size: host.page_size.unwrap_or(4096),
            start_monotonic_ns: start.monotonic_ns,
            schedstats: host.sched_schedstats == Some(Switch::On),
            delays: host.measures_delays(),
            irq_delays: host.measures_irq_delays(),
        }
    }

    /// Whether the kernel counts a metric, if it has its field.
    pub(super) fn count(&self, metric: &Metric) -> bool {
        let is_measured = match metric.taskstats_family() {
            Some(TaskstatsFamily::Delay) => self.delays,
            Some(TaskstatsFamily::Irq) => self.irq_delays,
            _ => true,
        };
        is_measured && (self.schedstats || !metric.gates.contains(&"SCHEDSTATS"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::options::Tree;
    use super::*;
    use crate::model::METRICS;

    #[test]
    fn values_that_the_kernel_does_not_count_are_not_zero() {
        let counted = |schedstats, delays| {
            let parameters = HostParameters { schedstats, delays, irq_delays: delays, ..HostParameters::default() };
            let names = ["wait_sum", "blkio_delay_count", "irq_delay_count", "cpu_delay_count", "run_time_ns"];
            let metric = |name| METRICS.iter().find(|metric| metric.name == name).unwrap();
            names.map(|name| parameters.count(metric(name)))
        };
        assert_eq!(counted(true, true), [true; 5]);
        assert_eq!(counted(false, true), [false, true, true, true, true]);
        assert_eq!(
            counted(true, false),
            [true, false, false, true, true],
            "the scheduler counts waits for a CPU always"
        );
    }

    #[test]
    fn switches_of_the_host_decide_what_counts() {
        let parameters = |release: &str, sched_schedstats, task_delayacct| {
            let kernel_cmdline = Some("quiet".to_owned());
            let kernel_release = Some(release.to_owned());
            let switches = HostContext { sched_schedstats, task_delayacct, ..HostContext::default() };
            let host = HostContext { kernel_cmdline, kernel_release, ..switches };
            let parameters = HostParameters::read(&host, Start::now(Tree::Live));
            assert!(!parameters.online.is_empty() && parameters.start_monotonic_ns > Some(0));
            (parameters.schedstats, parameters.delays)
        };
        for (switch, counts) in [(Switch::On, true), (Switch::RuntimeOff, false), (Switch::Unknown, false)] {
            assert_eq!(parameters("6.12", Some(switch), Some(switch)), (counts, counts), "{switch:?}");
        }
        // Before Linux 5.14, delay accounting has no switch, and threads without delays have no pointer to them.
        assert_eq!(parameters("5.10", None, Some(Switch::Unknown)), (false, true));
    }
}
