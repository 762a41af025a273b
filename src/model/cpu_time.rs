//! CPU time of the whole host.

optional_record! {
    /// CPU time of all CPUs since boot, from `/proc/stat` (`fs/proc/stat.c`) and `/proc/schedstat`
    /// (`kernel/sched/stats.c`), read before the threads.
    #[derive(Eq)]
    pub struct HostCpuTime {
        /// CPUs that the counters cover.
        pub cpus: u64,
        /// Idle time in `USER_HZ` ticks; exact on tickless kernels.
        pub idle_ticks: u64,
        /// Idle time with I/O outstanding, in `USER_HZ` ticks.
        pub iowait_ticks: u64,
        /// Time in interrupts and soft interrupts, in `USER_HZ` ticks.
        pub interrupt_ticks: u64,
        /// Time taken by the hypervisor, in `USER_HZ` ticks.
        pub steal_ticks: u64,
        /// Threads and processes started.
        pub started: u64,
        /// Run time of all tasks, in nanoseconds; absent without `CONFIG_SCHEDSTATS`.
        pub run_ns: u64,
        /// Time that tasks waited for a CPU, in nanoseconds; absent without `CONFIG_SCHEDSTATS`.
        pub wait_ns: u64,
        /// The part of the capturing process, in nanoseconds (`CLOCK_PROCESS_CPUTIME_ID`); absent where the threads
        /// are those of another boot.
        pub own_ns: u64,
    }
}
