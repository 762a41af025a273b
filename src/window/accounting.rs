//! How much of the host's CPU time a window explains.

use super::Clocks;
use crate::model::{Accounting, BusySource, HostCpuTime, NS_PER_TICK};

/// Threads may have this many percent of the run time that the scheduler counts, as they are captured after it.
const MOST_PERCENT: u64 = 101;

/// CPU time of the host is known to some ticks per CPU and 10%: it is read some time before or after the clock.
const PRECISION_TICKS: u64 = 5;

/// Returns the precision of the CPU times in a window with this capacity.
fn precision_ns(capacity_ns: u64, cpus: u64) -> u64 {
    (capacity_ns / 10).saturating_add(cpus.saturating_mul(PRECISION_TICKS * NS_PER_TICK))
}

/// Whether CPUs with that capacity can have this time. More is not believed: file systems in user space and hypervisors that
/// migrate a guest make up idle time, and the scheduler adds what a task ran before the window when it leaves its CPU.
fn is_possible(time_ns: u64, capacity_ns: u64, cpus: u64) -> bool {
    time_ns <= capacity_ns.saturating_add(precision_ns(capacity_ns, cpus))
}

/// Whether a CPU was away for a part of the window, and has come back. All columns together are the time that CPUs were there. Before
/// Linux 6.8, the idle time of a CPU that comes back begins at 0, so that the sum can fall. A virtual CPU that is flooded with
/// interrupts loses ticks: 11% of the time of two CPUs was in no column.
fn is_away(time: &HostCpuTime, capacity_ns: u64, cpus: u64) -> bool {
    let Some(task_ticks) = time.task_ticks else { return false };
    let Some(idle_ticks) = time.idle_ticks else { return true };
    let mut others = [time.iowait_ticks, time.interrupt_ticks, time.steal_ticks].into_iter();
    let others = others.try_fold(idle_ticks, |sum, ticks| Some(sum.saturating_add(ticks?)));
    let all_ns = |others: u64| task_ticks.saturating_add(others).saturating_mul(NS_PER_TICK);
    let precision_ns = 2 * precision_ns(capacity_ns, cpus);
    others.is_some_and(|others| all_ns(others).saturating_add(precision_ns) < capacity_ns)
}

/// Accounts for the CPU time of the host in a window whose threads ran for `explained_ns`; `None` if it is unknown: `/proc/stat`
/// lacks columns, has more idle time than the CPUs, or CPUs came or went. Where a CPU was away for a part of the window, the run
/// time of tasks in `/proc/schedstat` still says it.
///
/// What the hypervisor takes from a CPU is stolen time. If it takes it from an idle CPU that has just been woken, tickless
/// kernels to 7.0 count it as idle too: `idle_sleeptime` of kernel/time/tick-sched.c is time by the clock, while
/// `account_idle_ticks` of kernel/sched/cputime.c, which kernels with a tick use, leaves stolen time out. Run time of tasks in
/// `/proc/schedstat` is time by the clock as well (`sched_info_depart` of kernel/sched/stats.h), and the run time of threads is
/// not (`update_rq_clock_task`). So the host's CPU time is known but for the stolen time.
pub(super) fn account(
    clocks: &Clocks,
    time: &HostCpuTime,
    reading_ns: Option<u64>,
    (explained_ns, started_seen): (u64, u64),
) -> Option<Accounting> {
    let cpus = time.cpus.filter(|cpus| *cpus > 0)?;
    let capacity_ns = clocks.duration_ns.saturating_mul(cpus);
    let ns = |ticks: Option<u64>| ticks.map(|ticks| ticks.saturating_mul(NS_PER_TICK));
    // The time of I/O waits can go backwards (`get_cpu_iowait_time_us` of kernel/time/tick-sched.c).
    let unused_ns = ns(time.idle_ticks).zip(ns(time.iowait_ticks)).map(|(idle, waits)| idle.saturating_add(waits));
    let (steal_ns, interrupt_ns) = (ns(time.steal_ticks)?, ns(time.interrupt_ticks));
    if [unused_ns, Some(steal_ns)].into_iter().flatten().any(|time_ns| !is_possible(time_ns, capacity_ns, cpus)) {
        return None;
    }
    // The scheduler adds the run time of a task when it leaves its CPU, which a lone task rarely does.
    let is_complete = |run_ns: &u64| {
        let has_explained = run_ns.saturating_mul(MOST_PERCENT) >= explained_ns.saturating_mul(100);
        has_explained && is_possible(*run_ns, capacity_ns, cpus)
    };
    let (source, most_ns) = match time.run_ns.filter(is_complete) {
        Some(run_ns) => (BusySource::Schedstat, run_ns),
        None if is_away(time, capacity_ns, cpus) => return None,
        None => (BusySource::Idle, capacity_ns.saturating_sub(unused_ns?)),
    };
    let busy_ns = explained_ns.clamp(most_ns.saturating_sub(steal_ns), most_ns);
    let busy_most_ns = Some(most_ns).filter(|most| *most > busy_ns);
    let HostCpuTime { wait_ns, started, .. } = *time;
    Some(Accounting {
        source,
        cpus,
        busy_ns,
        busy_most_ns,
        explained_ns,
        reading_ns,
        interrupt_ns,
        steal_ns: Some(steal_ns),
        wait_ns,
        started,
        started_seen,
        partial: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_is_what_is_not_idle_unless_the_scheduler_counts_it() {
        let clocks = Clocks { duration_ns: 5_000_000_000, ..Clocks::default() };
        let time = HostCpuTime {
            cpus: Some(2),
            idle_ticks: Some(300),
            iowait_ticks: Some(100),
            steal_ticks: Some(50),
            ..HostCpuTime::default()
        };
        let of = |time: &HostCpuTime| account(&clocks, time, None, (7, 0)).map(|cpu| (cpu.source, cpu.busy_ns));
        let bounds = |explained_ns| {
            let cpu = account(&clocks, &time, None, (explained_ns, 0)).unwrap();
            (cpu.busy_ns / 10_000_000, cpu.busy_most_ns.map(|most| most / 10_000_000))
        };
        assert_eq!(bounds(7), (550, Some(600)), "500 ms were stolen");
        assert_eq!(bounds(5_800_000_000), (580, Some(600)), "of an idle CPU, for the most part");
        assert_eq!(bounds(6_100_000_000), (600, None));
        assert_eq!(of(&time), Some((BusySource::Idle, 5_500_000_000)));
        let mut time = time;
        time.run_ns = Some(5_400_000_000);
        assert_eq!(of(&time), Some((BusySource::Schedstat, 4_900_000_000)));
        time.run_ns = Some(6);
        assert_eq!(of(&time), Some((BusySource::Idle, 5_500_000_000)), "less than the threads have");
        assert_eq!(of(&HostCpuTime { cpus: Some(2), ..HostCpuTime::default() }), None);
        assert_eq!(of(&HostCpuTime { cpus: Some(0), ..time.clone() }), None);
        assert_eq!(of(&HostCpuTime { cpus: None, ..time }), None);
    }

    #[test]
    fn impossible_or_missing_times_leave_the_cpu_time_of_the_host_unknown() {
        let clocks = Clocks { duration_ns: 2_000_000_000, ..Clocks::default() };
        let plain = HostCpuTime {
            cpus: Some(2),
            idle_ticks: Some(100),
            iowait_ticks: Some(0),
            steal_ticks: Some(0),
            ..HostCpuTime::default()
        };
        let of = |time: HostCpuTime| account(&clocks, &time, None, (7, 0)).map(|cpu| (cpu.source, cpu.busy_most_ns));
        assert_eq!(of(plain.clone()), Some((BusySource::Idle, None)));
        let idle = |ticks| of(HostCpuTime { idle_ticks: Some(ticks), ..plain.clone() });
        assert!(idle(400).is_some() && idle(450).is_some(), "read a little later than the clock");
        assert_eq!([idle(451), idle(1_000_000), idle(u64::MAX)], [None; 3]);
        for lacking in [
            HostCpuTime { idle_ticks: None, ..plain.clone() },
            HostCpuTime { iowait_ticks: None, ..plain.clone() },
            HostCpuTime { steal_ticks: None, ..plain.clone() },
            HostCpuTime { steal_ticks: Some(1_000_000), ..plain.clone() },
        ] {
            assert_eq!(of(lacking.clone()), None, "{lacking:?}");
        }
        let recovered = HostCpuTime { iowait_ticks: None, run_ns: Some(9), ..plain.clone() };
        assert_eq!(of(recovered).map(|(source, _)| source), Some(BusySource::Schedstat));
        // A task that has run for an hour left its CPU in the window.
        let hour = HostCpuTime { run_ns: Some(3_600_000_000_000), ..plain };
        assert_eq!(of(hour).map(|(source, _)| source), Some(BusySource::Idle));
    }

    #[test]
    fn threads_captured_a_little_later_do_not_hide_the_run_time_of_the_scheduler() {
        let clocks = Clocks { duration_ns: 5_000_000_000, ..Clocks::default() };
        let time = HostCpuTime {
            cpus: Some(2),
            idle_ticks: Some(0),
            iowait_ticks: Some(0),
            steal_ticks: Some(0),
            run_ns: Some(4_000_000_000),
            ..HostCpuTime::default()
        };
        let source = |explained_ns| account(&clocks, &time, None, (explained_ns, 0)).map(|cpu| cpu.source);
        assert_eq!(source(4_040_000_000), Some(BusySource::Schedstat));
        assert_eq!(source(4_041_000_000), Some(BusySource::Idle));
    }
}
