//! How much of the host's CPU time a window explains.

use super::boot::Clocks;
use crate::model::{Accounting, BusySource, HostCpuTime};

/// Threads may have this many percent of the run time that the scheduler counts, as they are captured after it.
const MOST_PERCENT: u64 = 101;

/// Accounts for the CPU time of the host in a window, of which threads have `explained_ns`; `None` if it is unknown.
pub(super) fn account(clocks: &Clocks, time: &HostCpuTime, explained_ns: u64, started_seen: u64) -> Option<Accounting> {
    let cpus = time.cpus.filter(|cpus| *cpus > 0)?;
    let ns = |ticks: Option<u64>| ticks.map(|ticks| ticks.saturating_mul(clocks.ns_per_tick));
    let (steal_ns, interrupt_ns) = (ns(time.steal_ticks), ns(time.interrupt_ticks));
    let not_idle = || {
        let unused = [ns(time.idle_ticks)?, ns(time.iowait_ticks)?, steal_ns.unwrap_or(0)];
        let unused = unused.into_iter().fold(0, u64::saturating_add);
        Some(clocks.duration_ns.saturating_mul(cpus).saturating_sub(unused))
    };
    // The scheduler adds the run time of a task when it leaves its CPU, which a lone task rarely does.
    let is_complete = |run_ns: &u64| run_ns.saturating_mul(MOST_PERCENT) >= explained_ns.saturating_mul(100);
    let (source, busy_ns) = match time.run_ns.filter(is_complete) {
        Some(run_ns) => (BusySource::Schedstat, run_ns),
        None => (BusySource::Idle, not_idle()?),
    };
    let (wait_ns, started) = (time.wait_ns, time.started);
    Some(Accounting { source, cpus, busy_ns, explained_ns, interrupt_ns, steal_ns, wait_ns, started, started_seen })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_is_what_is_not_idle_unless_the_scheduler_counts_it() {
        let clocks = Clocks { duration_ns: 5_000_000_000, ns_per_tick: 10_000_000, ..Clocks::default() };
        let mut time = HostCpuTime {
            cpus: Some(2),
            idle_ticks: Some(300),
            iowait_ticks: Some(100),
            steal_ticks: Some(50),
            ..HostCpuTime::default()
        };
        let of = |time: &HostCpuTime| account(&clocks, time, 7, 0).map(|cpu| (cpu.source, cpu.busy_ns));
        assert_eq!(of(&time), Some((BusySource::Idle, 5_500_000_000)));
        time.run_ns = Some(5_400_000_000);
        assert_eq!(of(&time), Some((BusySource::Schedstat, 5_400_000_000)));
        time.run_ns = Some(6);
        assert_eq!(of(&time), Some((BusySource::Idle, 5_500_000_000)), "less than the threads have");
        assert_eq!(of(&HostCpuTime { cpus: Some(2), ..HostCpuTime::default() }), None);
        assert_eq!(of(&HostCpuTime { cpus: None, ..time }), None);
    }

    #[test]
    fn threads_captured_a_little_later_do_not_hide_the_run_time_of_the_scheduler() {
        let clocks = Clocks { duration_ns: 5_000_000_000, ns_per_tick: 10_000_000, ..Clocks::default() };
        let time = HostCpuTime {
            cpus: Some(2),
            idle_ticks: Some(0),
            iowait_ticks: Some(0),
            run_ns: Some(4_000_000_000),
            ..HostCpuTime::default()
        };
        let source = |explained_ns| account(&clocks, &time, explained_ns, 0).map(|cpu| cpu.source);
        assert_eq!(source(4_040_000_000), Some(BusySource::Schedstat));
        assert_eq!(source(4_041_000_000), Some(BusySource::Idle));
    }
}
