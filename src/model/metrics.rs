//! The list: every per-thread metric, one row each.
//!
//! A row is `/// meaning`, `name: Type = source`, and the scheduling class if not all count it.
//! A block of rows names the section and the kernel options that all its rows need.
//!
//! Sources in the kernel: `stat`, `status` in `fs/proc/array.c`; `schedstat`, `io` in
//! `fs/proc/base.c`; `sched` in `kernel/sched/debug.c`, `proc_sched_show_task`; taskstats in
//! `include/uapi/linux/taskstats.h`.

use super::reduce::Reduce;
use super::section::Section;
use super::table::Source::{
    Affinity, Io, Sched, SchedDifference, Schedstat, Stat, StatPolicy, Status, StatusOfLeader, Tsd,
};
use super::table::{Class, Metric, Source, Total, metrics};
use super::unit::{
    Bytes, CategoricalString, ClockTicks, CpuSet, FloorNs, GaugeCount, GaugeNs, MonotonicCount, MonotonicNs,
    OrdinalI32, OrdinalU32, PeakBytes, PeakNs, Reading,
};

const fn taskstats(at: u16, since: u16) -> Source {
    Source::Taskstats { at, since, scale: 1 }
}

/// The kernel gives these fields in KiB.
const fn taskstats_kib(at: u16, since: u16) -> Source {
    Source::Taskstats { at, since, scale: 1024 }
}

metrics! {
    Primary [] {
        /// Scheduling policy by name.
        policy: CategoricalString = StatPolicy(41);
        /// Nice value, from -20 (favoured) to 19.
        nice: OrdinalI32 = Stat(19);
        /// Kernel priority: fair class 0..39, real time -2..-100, deadline -101.
        priority: OrdinalI32 = Stat(18);
        /// Real-time priority; 0 for threads that are not real-time.
        rt_priority: OrdinalU32 = Stat(40);
        /// CPUs the thread may run on.
        cpu_affinity: CpuSet = Affinity("Cpus_allowed_list");
        /// CPU it last ran on.
        processor: OrdinalI32 = Stat(39);
        /// State letter: R S D T t X Z P or I.
        state: char = Status("State");
        /// Threads of the process, counted once a process.
        nr_threads: GaugeCount = StatusOfLeader("Threads");
    }
    Primary ["SCHED_CLASS_EXT"] {
        /// Whether a sched_ext scheduler runs the thread.
        ext_enabled: bool = Sched("ext.enabled");
    }
    Primary ["SCHED_INFO"] {
        /// Time on a CPU.
        run_time_ns: MonotonicNs = Schedstat(1);
        /// Time runnable but waiting for a CPU.
        wait_time_ns: MonotonicNs = Schedstat(2);
        /// Times put on a CPU.
        timeslices: MonotonicCount = Schedstat(3);
    }
    Primary [] {
        /// Switches the thread asked for by blocking.
        voluntary_csw: MonotonicCount = Status("voluntary_ctxt_switches");
        /// Switches forced on the thread.
        nonvoluntary_csw: MonotonicCount = Status("nonvoluntary_ctxt_switches");
        /// Moves to another CPU.
        nr_migrations: MonotonicCount = Sched("nr_migrations");
        /// User CPU time.
        utime_clock_ticks: ClockTicks = Stat(14);
        /// Kernel CPU time.
        stime_clock_ticks: ClockTicks = Stat(15);
        /// Current fair-class slice; stale for SCHED_EXT threads.
        fair_slice_ns: GaugeNs = Sched("slice"), FairPolicy;
    }
    Primary ["SCHEDSTATS"] {
        /// Wake-ups.
        nr_wakeups: MonotonicCount = Sched("nr_wakeups");
        /// Wake-ups on the waker's CPU.
        nr_wakeups_local: MonotonicCount = Sched("nr_wakeups_local");
        /// Wake-ups on another CPU than the waker's.
        nr_wakeups_remote: MonotonicCount = Sched("nr_wakeups_remote");
        /// Wake-ups with the sync hint.
        nr_wakeups_sync: MonotonicCount = Sched("nr_wakeups_sync");
        /// Wake-ups that moved the thread.
        nr_wakeups_migrate: MonotonicCount = Sched("nr_wakeups_migrate");
        /// Wake-ups that the cache-affine heuristic placed.
        nr_wakeups_affine: MonotonicCount = Sched("nr_wakeups_affine"), CfsOnly;
        /// Times the cache-affine heuristic was tried.
        nr_wakeups_affine_attempts: MonotonicCount = Sched("nr_wakeups_affine_attempts"), CfsOnly;
        /// Moves forced by load balancing.
        nr_forced_migrations: MonotonicCount = Sched("nr_forced_migrations"), CfsOnly;
        /// Moves refused by affinity.
        nr_failed_migrations_affine: MonotonicCount = Sched("nr_failed_migrations_affine"), CfsOnly;
        /// Moves refused because the thread was running.
        nr_failed_migrations_running: MonotonicCount = Sched("nr_failed_migrations_running"), CfsOnly;
        /// Moves refused because its cache was still hot.
        nr_failed_migrations_hot: MonotonicCount = Sched("nr_failed_migrations_hot"), CfsOnly;
        /// Total of run-queue waits.
        wait_sum: MonotonicNs = Sched("wait_sum"), NonExt;
        /// Run-queue waits.
        wait_count: MonotonicCount = Sched("wait_count"), NonExt;
        /// Longest run-queue wait.
        wait_max: PeakNs = Sched("wait_max"), NonExt;
        /// Time asleep by choice: the kernel's sleep sum less the blocking it includes.
        voluntary_sleep_ns: MonotonicNs = SchedDifference("sum_sleep_runtime", "sum_block_runtime"), NonExt;
        /// Longest sleep.
        sleep_max: PeakNs = Sched("sleep_max"), NonExt;
        /// Time blocked uninterruptibly (disk, swap, kernel locks).
        block_sum: MonotonicNs = Sched("sum_block_runtime"), NonExt;
        /// Longest block.
        block_max: PeakNs = Sched("block_max"), NonExt;
        /// Part of block_sum spent on I/O.
        iowait_sum: MonotonicNs = Sched("iowait_sum"), NonExt;
        /// I/O waits.
        iowait_count: MonotonicCount = Sched("iowait_count"), NonExt;
        /// Longest uninterrupted run.
        exec_max: PeakNs = Sched("exec_max");
        /// Longest slice before preemption.
        slice_max: PeakNs = Sched("slice_max"), CfsOnly;
    }
    Primary ["SCHEDSTATS", "SCHED_CORE"] {
        /// Time it forced its SMT sibling idle.
        core_forceidle_sum: MonotonicNs = Sched("core_forceidle_sum");
    }
    Primary [] {
        /// Page faults served without disk.
        minflt: MonotonicCount = Stat(10);
        /// Page faults that read from disk.
        majflt: MonotonicCount = Stat(12);
    }
    Primary ["TASK_IO_ACCOUNTING"] {
        /// Bytes asked of read-like calls, cache hits included.
        rchar: Bytes = Io("rchar");
        /// Bytes given to write-like calls.
        wchar: Bytes = Io("wchar");
        /// Read-like calls.
        syscr: MonotonicCount = Io("syscr");
        /// Write-like calls.
        syscw: MonotonicCount = Io("syscw");
        /// Bytes fetched from storage.
        read_bytes: Bytes = Io("read_bytes");
        /// Bytes sent to storage.
        write_bytes: Bytes = Io("write_bytes");
        /// Dirty bytes dropped before write-back, by whoever dropped them.
        cancelled_write_bytes: Bytes = Io("cancelled_write_bytes");
    }
    Primary [] {
        /// Bytes this thread ever allocated through jemalloc.
        allocated_bytes: Bytes = Tsd("thread_allocated");
        /// Bytes this thread ever freed through jemalloc, other threads' memory included.
        deallocated_bytes: Bytes = Tsd("thread_deallocated");
    }
    TaskstatsDelay ["TASKSTATS", "TASK_DELAY_ACCT"] {
        /// Number of run-queue waits.
        cpu_delay_count: MonotonicCount = taskstats(16, 1);
        /// Time lost to run-queue waits.
        cpu_delay_total_ns: MonotonicNs = taskstats(24, 1);
        /// Longest loss to run-queue waits.
        cpu_delay_max_ns: PeakNs = taskstats(432, 16);
        /// Shortest loss to run-queue waits.
        cpu_delay_min_ns: FloorNs = taskstats(440, 16);
        /// Number of waits for block I/O.
        blkio_delay_count: MonotonicCount = taskstats(32, 1);
        /// Time lost to waits for block I/O.
        blkio_delay_total_ns: MonotonicNs = taskstats(40, 1);
        /// Longest loss to waits for block I/O.
        blkio_delay_max_ns: PeakNs = taskstats(448, 16);
        /// Shortest loss to waits for block I/O.
        blkio_delay_min_ns: FloorNs = taskstats(456, 16);
        /// Number of waits for swap-in.
        swapin_delay_count: MonotonicCount = taskstats(48, 1);
        /// Time lost to waits for swap-in.
        swapin_delay_total_ns: MonotonicNs = taskstats(56, 1);
        /// Longest loss to waits for swap-in.
        swapin_delay_max_ns: PeakNs = taskstats(464, 16);
        /// Shortest loss to waits for swap-in.
        swapin_delay_min_ns: FloorNs = taskstats(472, 16);
        /// Number of direct reclaims.
        freepages_delay_count: MonotonicCount = taskstats(312, 8);
        /// Time lost to direct reclaims.
        freepages_delay_total_ns: MonotonicNs = taskstats(320, 8);
        /// Longest loss to direct reclaims.
        freepages_delay_max_ns: PeakNs = taskstats(480, 16);
        /// Shortest loss to direct reclaims.
        freepages_delay_min_ns: FloorNs = taskstats(488, 16);
        /// Number of refaults of pages just evicted.
        thrashing_delay_count: MonotonicCount = taskstats(328, 9);
        /// Time lost to refaults of pages just evicted.
        thrashing_delay_total_ns: MonotonicNs = taskstats(336, 9);
        /// Longest loss to refaults of pages just evicted.
        thrashing_delay_max_ns: PeakNs = taskstats(496, 16);
        /// Shortest loss to refaults of pages just evicted.
        thrashing_delay_min_ns: FloorNs = taskstats(504, 16);
        /// Number of memory compactions.
        compact_delay_count: MonotonicCount = taskstats(352, 11);
        /// Time lost to memory compactions.
        compact_delay_total_ns: MonotonicNs = taskstats(360, 11);
        /// Longest loss to memory compactions.
        compact_delay_max_ns: PeakNs = taskstats(512, 16);
        /// Shortest loss to memory compactions.
        compact_delay_min_ns: FloorNs = taskstats(520, 16);
        /// Number of write-protect copies (copy on write).
        wpcopy_delay_count: MonotonicCount = taskstats(400, 13);
        /// Time lost to write-protect copies (copy on write).
        wpcopy_delay_total_ns: MonotonicNs = taskstats(408, 13);
        /// Longest loss to write-protect copies (copy on write).
        wpcopy_delay_max_ns: PeakNs = taskstats(528, 16);
        /// Shortest loss to write-protect copies (copy on write).
        wpcopy_delay_min_ns: FloorNs = taskstats(536, 16);
        /// Number of interrupts charged to the thread.
        irq_delay_count: MonotonicCount = taskstats(416, 14);
        /// Time lost to interrupts charged to the thread.
        irq_delay_total_ns: MonotonicNs = taskstats(424, 14);
        /// Longest loss to interrupts charged to the thread.
        irq_delay_max_ns: PeakNs = taskstats(544, 16);
        /// Shortest loss to interrupts charged to the thread.
        irq_delay_min_ns: FloorNs = taskstats(552, 16);
    }
    TaskstatsDelay ["TASKSTATS", "TASK_XACCT"] {
        /// Largest resident set of the process.
        hiwater_rss_bytes: PeakBytes = taskstats_kib(200, 3);
        /// Largest virtual size of the process.
        hiwater_vm_bytes: PeakBytes = taskstats_kib(208, 3);
    }
}
