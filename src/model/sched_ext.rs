//! The state of `sched_ext`, where the kernel has it.

optional_record! {
    /// `/sys/kernel/sched_ext/`.
    pub struct SchedExtSysfs {
        /// `enabled`, `disabled` or on the way between.
        pub state: String,
        /// Whether all normal threads are run by the scheduler, or only those that ask for it.
        pub switch_all: u64,
        /// Threads that were refused `SCHED_EXT`; starts again at 0 when a scheduler is loaded.
        pub nr_rejected: u64,
        /// How often CPUs came or went.
        pub hotplug_seq: u64,
        /// How often a scheduler was loaded.
        pub enable_seq: u64,
        /// Name of the scheduler that is loaded.
        pub ops: String,
    }
}
