//! All per-thread metrics, one row each.
//!
//! A row is `/// meaning`, `name: Type, Direction = sources; at "field of the kernel" as form;`. If a source has no value, the
//! next one is read. A block of rows has the section, the required kernel options, and the scheduling class if not all classes
//! count the metrics. `stats` is a member of `struct sched_statistics`, which has been in two places. `rare` blocks are those in
//! which most threads of a host are alike: they share one copy.
//!
//! The direction is `MoreIsWorse` for resources that were used up and time that was lost. Rows without one say how a thread
//! worked (sleeps, wake-ups, calls) or how it is configured: more of it can be good or bad.
//!
//! Sources in the kernel: `stat`, `status` in `fs/proc/array.c`; `schedstat`, `io` in
//! `fs/proc/base.c`; `sched` in `kernel/sched/debug.c`, `proc_sched_show_task`; taskstats in
//! `include/uapi/linux/taskstats.h`, filled by `delayacct_add_tsk` (`kernel/delayacct.c`), `bacct_add_tsk`
//! and `xacct_add_tsk` (`kernel/tsacct.c`), and for context switches by `fill_stats` (`kernel/taskstats.c`).

/// Passes the rows to the macro `$define`.
macro_rules! rows {
    ($define:ident) => {
        $define! {
        Primary [] [] {
            /// Scheduling policy by name.
            policy: CategoricalString = StatPolicy(41); at "policy" as Policy;
            /// Nice value, from -20 (favored) to 19.
            nice: OrdinalI32 = Stat(19); at "static_prio" as Less(120);
            /// Kernel priority: fair class 0..39, real time -2..-100, deadline -101.
            priority: OrdinalI32 = Stat(18); at "prio" as Less(100);
            /// Real-time priority; 0 for threads that are not real-time.
            rt_priority: OrdinalU32 = Stat(40); at "rt_priority";
            /// CPUs the thread may run on.
            cpu_affinity: CpuSet = Affinity, Status("Cpus_allowed_list");
                at "cpus_mask.bits | cpus_allowed.bits" as Cpus;
            /// CPU it last ran on.
            processor: OrdinalI32 = Stat(39); at "thread_info.cpu | cpu";
            /// State letter: R S D T t X Z P or I.
            state: char = Status("State"); at "__state | state" as State;
            /// Threads of the process, counted once per process.
            nr_threads: GaugeCount = StatusOfLeader("Threads"); at "signal->nr_threads";
        }
        Primary ["SCHED_CLASS_EXT"] [] {
            /// Whether a sched_ext scheduler runs the thread.
            ext_enabled: bool = Sched("ext.enabled"); at "sched_class" as Representative;
        }
        Primary ["SCHED_INFO"] [] {
            /// Time on a CPU.
            run_time_ns: MonotonicNs, MoreIsWorse = Schedstat(1); at "se.sum_exec_runtime";
            /// Time runnable but waiting for a CPU.
            wait_time_ns: MonotonicNs, MoreIsWorse = Schedstat(2); at "sched_info.run_delay";
            /// Times put on a CPU.
            timeslices: MonotonicCount = Schedstat(3); at "sched_info.pcount";
        }
        Primary [] [] {
            /// Voluntary context switches: the thread blocked.
            voluntary_csw: MonotonicCount = Status("voluntary_ctxt_switches"); at "nvcsw";
            /// Involuntary context switches: the thread was preempted.
            nonvoluntary_csw: MonotonicCount, MoreIsWorse = Status("nonvoluntary_ctxt_switches"); at "nivcsw";
            /// Migrations to another CPU.
            nr_migrations: MonotonicCount = Sched("nr_migrations"); at "se.nr_migrations";
            /// CPU time in user mode.
            utime_clock_ticks: ClockTicks, MoreIsWorse = Stat(14); at "utime" as UserTime;
            /// CPU time in the kernel.
            stime_clock_ticks: ClockTicks, MoreIsWorse = Stat(15); at "stime" as SystemTime;
        }
        Primary [] [FairPolicy] {
            /// Current fair-class slice; stale for SCHED_EXT threads.
            fair_slice_ns: GaugeNs = Sched("slice"); at "se.slice";
        }
        Primary ["SCHEDSTATS"] [] rare {
            /// Times that the thread woke up.
            nr_wakeups: MonotonicCount = Sched("nr_wakeups"); stats "nr_wakeups";
            /// Wake-ups on the waker's CPU.
            nr_wakeups_local: MonotonicCount = Sched("nr_wakeups_local"); stats "nr_wakeups_local";
            /// Wake-ups on another CPU than the waker's.
            nr_wakeups_remote: MonotonicCount = Sched("nr_wakeups_remote"); stats "nr_wakeups_remote";
            /// Wake-ups with the sync hint.
            nr_wakeups_sync: MonotonicCount = Sched("nr_wakeups_sync"); stats "nr_wakeups_sync";
            /// Wake-ups that moved the thread.
            nr_wakeups_migrate: MonotonicCount = Sched("nr_wakeups_migrate"); stats "nr_wakeups_migrate";
        }
        Primary ["SCHEDSTATS"] [CfsOnly] rare {
            /// Wake-ups that the cache-affine heuristic placed.
            nr_wakeups_affine: MonotonicCount = Sched("nr_wakeups_affine"); stats "nr_wakeups_affine";
            /// Times the cache-affine heuristic was tried.
            nr_wakeups_affine_attempts: MonotonicCount = Sched("nr_wakeups_affine_attempts");
                stats "nr_wakeups_affine_attempts";
            /// Migrations forced by load balancing.
            nr_forced_migrations: MonotonicCount = Sched("nr_forced_migrations"); stats "nr_forced_migrations";
            /// Migrations refused by affinity.
            nr_failed_migrations_affine: MonotonicCount = Sched("nr_failed_migrations_affine");
                stats "nr_failed_migrations_affine";
            /// Migrations refused because the thread was running.
            nr_failed_migrations_running: MonotonicCount = Sched("nr_failed_migrations_running");
                stats "nr_failed_migrations_running";
            /// Migrations refused because its cache was still hot.
            nr_failed_migrations_hot: MonotonicCount = Sched("nr_failed_migrations_hot");
                stats "nr_failed_migrations_hot";
        }
        Primary ["SCHEDSTATS"] [NonExt] rare {
            /// Total of run-queue waits.
            wait_sum: MonotonicNs, MoreIsWorse = Sched("wait_sum"); stats "wait_sum";
            /// Waits on a run queue.
            wait_count: MonotonicCount = Sched("wait_count"); stats "wait_count";
            /// Longest run-queue wait.
            wait_max: PeakNs, MoreIsWorse = Sched("wait_max"); stats "wait_max";
            /// Time in voluntary sleep: the kernel's sleep sum minus blocked time.
            voluntary_sleep_ns: MonotonicNs = SchedDifference("sum_sleep_runtime", "sum_block_runtime");
                at "stats.sum_sleep_runtime | se.statistics.sum_sleep_runtime" as LessField("stats.sum_block_runtime | se.statistics.sum_block_runtime");
            /// Longest time asleep at once.
            sleep_max: PeakNs = Sched("sleep_max"); stats "sleep_max";
            /// Time blocked uninterruptibly (disk, swap, kernel locks).
            block_sum: MonotonicNs, MoreIsWorse = Sched("sum_block_runtime"); stats "sum_block_runtime";
            /// Longest time blocked at once.
            block_max: PeakNs, MoreIsWorse = Sched("block_max"); stats "block_max";
            /// Part of block_sum spent on I/O.
            iowait_sum: MonotonicNs, MoreIsWorse = Sched("iowait_sum"); stats "iowait_sum";
            /// Number of waits for I/O.
            iowait_count: MonotonicCount, MoreIsWorse = Sched("iowait_count"); stats "iowait_count";
        }
        Primary ["SCHEDSTATS"] [] rare {
            /// Longest run without interruption.
            exec_max: PeakNs = Sched("exec_max"); stats "exec_max";
        }
        Primary ["SCHEDSTATS"] [CfsOnly] rare {
            /// Longest slice before preemption.
            slice_max: PeakNs = Sched("slice_max"); stats "slice_max";
        }
        Primary ["SCHEDSTATS", "SCHED_CORE"] [] rare {
            /// Time it forced its SMT sibling idle.
            core_forceidle_sum: MonotonicNs, MoreIsWorse = Sched("core_forceidle_sum"); at "stats.core_forceidle_sum";
        }
        Primary [] [] {
            /// Page faults served without disk.
            minflt: MonotonicCount, MoreIsWorse = Stat(10); at "min_flt";
        }
        Primary [] [] rare {
            /// Page faults that read from disk.
            majflt: MonotonicCount, MoreIsWorse = Stat(12); at "maj_flt";
        }
        Primary ["TASK_IO_ACCOUNTING"] [] rare {
            /// Bytes requested by read-like calls, including cache hits.
            rchar: Bytes = Io("rchar"); at "ioac.rchar";
            /// Bytes passed to write-like calls.
            wchar: Bytes = Io("wchar"); at "ioac.wchar";
            /// System calls that read.
            syscr: MonotonicCount = Io("syscr"); at "ioac.syscr";
            /// System calls that write.
            syscw: MonotonicCount = Io("syscw"); at "ioac.syscw";
            /// Bytes fetched from storage.
            read_bytes: Bytes, MoreIsWorse = Io("read_bytes"); at "ioac.read_bytes";
            /// Bytes sent to storage.
            write_bytes: Bytes, MoreIsWorse = Io("write_bytes"); at "ioac.write_bytes";
            /// Dirty bytes dropped before write-back, whoever wrote them.
            cancelled_write_bytes: Bytes = Io("cancelled_write_bytes"); at "ioac.cancelled_write_bytes";
        }
        Primary [] [] rare {
            /// Bytes this thread allocated through jemalloc.
            allocated_bytes: Bytes, MoreIsWorse = Tsd("thread_allocated");
            /// Bytes this thread freed through jemalloc, including memory of other threads.
            deallocated_bytes: Bytes = Tsd("thread_deallocated");
        }
        Primary [] [] rare {
            /// Resident anonymous memory of the process.
            rss_anon_bytes: GaugeBytes = StatusOfLeader("RssAnon"); at "mm->rss_stat.count[1].counter" as PageCounter;
            /// Resident memory of files that the process has mapped.
            rss_file_bytes: GaugeBytes = StatusOfLeader("RssFile"); at "mm->rss_stat.count[0].counter" as PageCounter;
            /// Resident shared memory of the process: tmpfs, System V and shared anonymous.
            rss_shmem_bytes: GaugeBytes = StatusOfLeader("RssShmem"); at "mm->rss_stat.count[3].counter" as PageCounter;
            /// Anonymous memory of the process that is swapped out.
            swap_bytes: GaugeBytes = StatusOfLeader("VmSwap"); at "mm->rss_stat.count[2].counter" as PageCounter;
        }
        TaskstatsDelay ["TASKSTATS", "TASK_DELAY_ACCT"] [] {
            /// Number of run-queue waits.
            cpu_delay_count: MonotonicCount = cpu_delay(16, 1); at "sched_info.pcount";
            /// Time in run-queue waits.
            cpu_delay_total_ns: MonotonicNs, MoreIsWorse = cpu_delay(24, 1); at "sched_info.run_delay";
            /// Longest run-queue wait.
            cpu_delay_max_ns: PeakNs, MoreIsWorse = cpu_delay(432, 16); at "sched_info.max_run_delay";
            /// Shortest run-queue wait.
            cpu_delay_min_ns: FloorNs = cpu_delay(440, 16); at "sched_info.min_run_delay";
        }
        TaskstatsDelay ["TASKSTATS", "TASK_DELAY_ACCT"] [] rare {
            /// Number of waits for block I/O.
            blkio_delay_count: MonotonicCount, MoreIsWorse = delay(32, 1); at "delays->blkio_count";
            /// Time in waits for block I/O.
            blkio_delay_total_ns: MonotonicNs, MoreIsWorse = delay(40, 1); at "delays->blkio_delay";
            /// Longest wait for block I/O.
            blkio_delay_max_ns: PeakNs, MoreIsWorse = delay(448, 16); at "delays->blkio_delay_max";
            /// Shortest wait for block I/O.
            blkio_delay_min_ns: FloorNs = delay(456, 16); at "delays->blkio_delay_min";
            /// Number of waits for swap-in.
            swapin_delay_count: MonotonicCount, MoreIsWorse = delay(48, 1); at "delays->swapin_count";
            /// Time in waits for swap-in.
            swapin_delay_total_ns: MonotonicNs, MoreIsWorse = delay(56, 1); at "delays->swapin_delay";
            /// Longest wait for swap-in.
            swapin_delay_max_ns: PeakNs, MoreIsWorse = delay(464, 16); at "delays->swapin_delay_max";
            /// Shortest wait for swap-in.
            swapin_delay_min_ns: FloorNs = delay(472, 16); at "delays->swapin_delay_min";
            /// Number of direct reclaims.
            freepages_delay_count: MonotonicCount, MoreIsWorse = delay(312, 8); at "delays->freepages_count";
            /// Time in direct reclaims.
            freepages_delay_total_ns: MonotonicNs, MoreIsWorse = delay(320, 8); at "delays->freepages_delay";
            /// Longest direct reclaim of memory.
            freepages_delay_max_ns: PeakNs, MoreIsWorse = delay(480, 16); at "delays->freepages_delay_max";
            /// Shortest direct reclaim of memory.
            freepages_delay_min_ns: FloorNs = delay(488, 16); at "delays->freepages_delay_min";
            /// Number of refaults of pages just evicted.
            thrashing_delay_count: MonotonicCount, MoreIsWorse = delay(328, 9); at "delays->thrashing_count";
            /// Time in refaults of pages just evicted.
            thrashing_delay_total_ns: MonotonicNs, MoreIsWorse = delay(336, 9); at "delays->thrashing_delay";
            /// Longest refault of a page just evicted.
            thrashing_delay_max_ns: PeakNs, MoreIsWorse = delay(496, 16); at "delays->thrashing_delay_max";
            /// Shortest refault of a page just evicted.
            thrashing_delay_min_ns: FloorNs = delay(504, 16); at "delays->thrashing_delay_min";
            /// Number of memory compactions.
            compact_delay_count: MonotonicCount, MoreIsWorse = delay(352, 11); at "delays->compact_count";
            /// Time in memory compactions.
            compact_delay_total_ns: MonotonicNs, MoreIsWorse = delay(360, 11); at "delays->compact_delay";
            /// Longest wait for memory compaction.
            compact_delay_max_ns: PeakNs, MoreIsWorse = delay(512, 16); at "delays->compact_delay_max";
            /// Shortest wait for memory compaction.
            compact_delay_min_ns: FloorNs = delay(520, 16); at "delays->compact_delay_min";
            /// Number of write-protect copies (copy on write).
            wpcopy_delay_count: MonotonicCount, MoreIsWorse = delay(400, 13); at "delays->wpcopy_count";
            /// Time in write-protect copies (copy on write).
            wpcopy_delay_total_ns: MonotonicNs, MoreIsWorse = delay(408, 13); at "delays->wpcopy_delay";
            /// Longest write-protect copy (copy on write).
            wpcopy_delay_max_ns: PeakNs, MoreIsWorse = delay(528, 16); at "delays->wpcopy_delay_max";
            /// Shortest write-protect copy (copy on write).
            wpcopy_delay_min_ns: FloorNs = delay(536, 16); at "delays->wpcopy_delay_min";
            /// Number of interrupts charged to the thread.
            irq_delay_count: MonotonicCount, MoreIsWorse = irq_delay(416, 14); at "delays->irq_count";
            /// Time in interrupts charged to the thread.
            irq_delay_total_ns: MonotonicNs, MoreIsWorse = irq_delay(424, 14); at "delays->irq_delay";
            /// Longest interrupt charged to the thread.
            irq_delay_max_ns: PeakNs, MoreIsWorse = irq_delay(544, 16); at "delays->irq_delay_max";
            /// Shortest interrupt charged to the thread.
            irq_delay_min_ns: FloorNs = irq_delay(552, 16); at "delays->irq_delay_min";
        }
        TaskstatsDelay ["TASKSTATS", "TASK_XACCT"] [] {
            /// Largest resident set of the process.
            hiwater_rss_bytes: PeakBytes, MoreIsWorse = watermark(200, 3); at "mm->hiwater_rss" as Pages(RESIDENT);
            /// Largest virtual size of the process.
            hiwater_vm_bytes: PeakBytes = watermark(208, 3); at "mm->hiwater_vm" as Pages(&["mm->total_vm"]);
        }
        }
    };
}

pub(super) use rows;
