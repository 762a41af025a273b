//! Windows: the changes between two captures of one boot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

stored! {
    /// A window: two captures of one boot. In the snapshot that has it, counters are increases.
    pub struct WindowInfo {
        /// Wall clock at the start, in nanoseconds since 1970.
        pub started_at_unix_ns: u64,
        /// Length in nanoseconds, without time that the host was suspended: between the times at which the busy threads
        /// were read on average.
        pub duration_ns: u64,
        /// Length that was asked for, in nanoseconds; `None` if it was not reached, or none was.
        optional requested_ns: Option<u64>,
        /// Time that the host was suspended, in nanoseconds.
        optional suspended_ns: Option<u64>,
        /// Threads that were only in the second capture although they are older than the first. They are left out.
        pub missed: u64,
        /// Threads that the second capture could not read: what they did, and whether they live, is unknown.
        optional unread: u64,
        /// Number of threads that lack a metric because its counter went backwards, by metric.
        optional backwards: BTreeMap<String, u64>,
        /// Whether both captures have counters of processes, so that exited work is known.
        pub process_counters: bool,
        /// Records of exited threads; `None` if there were none.
        optional exit_records: Option<ExitRecords>,
        /// How much of the host's CPU time the window explains; `None` if the host's is unknown.
        optional cpu: Option<Accounting>,
        /// The command that ran; `None` if there was none.
        optional command: Option<RecordedCommand>,
    }
}

stored! {
    /// The records of exited threads that a window is made from.
    #[derive(Eq)]
    pub struct ExitRecords {
        /// Where they came from: `bpf`; `taskstats` in files of 0.2.0.
        pub source: String,
        /// Number of records received.
        pub received: u64,
        /// Number of records that were lost.
        pub lost: u64,
        /// Number of lost records for which the kernel did not run the program, because a thread was exiting on the same
        /// CPU.
        optional not_run: u64,
        /// Number of executions of another program without a record: the work before them belongs to the program that followed.
        optional execs_lost: u64,
    }
}

/// Where the host's CPU time came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusySource {
    /// Run time of all tasks in `/proc/schedstat`.
    Schedstat,
    /// Time that is neither idle nor stolen in `/proc/stat`.
    Idle,
    /// Source is not known.
    #[default]
    #[serde(other)]
    Unknown,
}

stored! {
    /// CPU time of the host in a window, and the part of it that the window's threads have.
    #[derive(Copy, Eq)]
    pub struct Accounting {
        /// Where the host's CPU time came from.
        pub source: BusySource,
        /// CPUs of the host.
        pub cpus: u64,
        /// CPU time of the host at least, in nanoseconds. Of time taken by the hypervisor, it has what the threads have.
        pub busy_ns: u64,
        /// Upper bound of the host's CPU time, in nanoseconds; `None` if `busy_ns` is exact. The kernel counts stolen time also
        /// as idle, or as run time of a task.
        optional busy_most_ns: Option<u64>,
        /// True if the window has only the threads of a PID namespace, or of selected processes.
        optional partial: bool,
        /// CPU time of all threads and exited work, in nanoseconds.
        pub explained_ns: u64,
        /// How long both captures read threads, in nanoseconds, if that was long: what exited meanwhile counts up to its exit,
        /// and what was read first does not count from then on.
        optional reading_ns: Option<u64>,
        /// Time in interrupts, in nanoseconds.
        pub interrupt_ns: Option<u64>,
        /// Time taken by the hypervisor, which is not busy time, in nanoseconds.
        pub steal_ns: Option<u64>,
        /// Time that tasks waited for a CPU, in nanoseconds, if the source has it.
        pub wait_ns: Option<u64>,
        /// Threads that started on the host.
        pub started: Option<u64>,
        /// Threads that started and that the window has; fewer if some exited without a trace.
        pub started_seen: u64,
    }
}

stored! {
    /// A command that ran in a window.
    #[derive(Eq)]
    pub struct RecordedCommand {
        /// The command and its arguments; empty if names are redacted.
        optional arguments: Vec<String>,
        /// How long it ran, in nanoseconds.
        pub elapsed_ns: u64,
        /// Exit status of the command; `None` if a signal ended it, or if it ran on after the window.
        optional status: Option<i32>,
        /// The signal that ended it.
        optional signal: Option<i32>,
    }
}

impl RecordedCommand {
    /// The exit status or the signal with which it ended; `None` if it ran on after the window.
    pub fn end(&self) -> Option<i32> {
        self.status.or(self.signal)
    }
}
