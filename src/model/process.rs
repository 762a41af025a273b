//! Counters of whole processes: exited threads, and exited children that were waited for, are included.

use super::record::{RecordField, ValueScope, ValueType, record};
use super::source::Source::{self, Io, Stat};
use super::table::MetricId::{self, self as M};
use super::{Bytes, ClockTicks, MonotonicCount, Reading};

use Includes::{Both, Children, Threads};

/// Work that a counter of a process includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Includes {
    /// All threads of the process, also exited ones.
    Threads,
    /// Exited children that the process waited for, and theirs.
    Children,
    /// Work of the process and of its children.
    Both,
}

/// The source of a counter of a process, and the metric of threads that counts the same.
#[derive(Clone, Copy, Debug)]
pub struct ProcessSource {
    /// The field of `/proc/<pid>/stat`, or the key of `/proc/<pid>/io`.
    pub source: Source,
    /// The metric of threads.
    pub metric: MetricId,
    /// Work that the counter includes.
    pub includes: Includes,
    /// Path from a thread's `task_struct` to the part that is not of living threads: of exited threads, and of
    /// children if it includes those. CPU times are in nanoseconds there.
    pub field: &'static str,
}

impl ProcessSource {
    /// Whether it counts I/O, which the kernel does not separate by threads and children.
    pub(crate) fn is_io(&self) -> bool {
        self.includes == Both
    }
}

const fn counted(includes: Includes, source: Source, metric: MetricId, field: &'static str) -> ProcessSource {
    ProcessSource { source, metric, includes, field }
}

// `do_task_stat` of fs/proc/array.c, `do_io_accounting` of fs/proc/base.c, and `wait_task_zombie` of
// kernel/exit.c, which adds the counters of a child to those of the process that waits for it.
record! {
    /// Counters of a whole process since its start.
    pub struct ProcessState, "" in pub PROCESS: ProcessSource {
        /// User CPU time of all threads.
        utime_clock_ticks: ClockTicks = counted(Threads, Stat(14), M::utime_clock_ticks, "signal->utime");
        /// Kernel CPU time of all threads.
        stime_clock_ticks: ClockTicks = counted(Threads, Stat(15), M::stime_clock_ticks, "signal->stime");
        /// Page faults of all threads served without disk.
        minflt: MonotonicCount = counted(Threads, Stat(10), M::minflt, "signal->min_flt");
        /// Page faults of all threads that read from disk.
        majflt: MonotonicCount = counted(Threads, Stat(12), M::majflt, "signal->maj_flt");
        /// User CPU time of children.
        cutime_clock_ticks: ClockTicks = counted(Children, Stat(16), M::utime_clock_ticks, "signal->cutime");
        /// Kernel CPU time of children.
        cstime_clock_ticks: ClockTicks = counted(Children, Stat(17), M::stime_clock_ticks, "signal->cstime");
        /// Page faults of children served without disk.
        cminflt: MonotonicCount = counted(Children, Stat(11), M::minflt, "signal->cmin_flt");
        /// Page faults of children that read from disk.
        cmajflt: MonotonicCount = counted(Children, Stat(13), M::majflt, "signal->cmaj_flt");
        /// Bytes requested by read-like calls.
        rchar: Bytes = counted(Both, Io("rchar"), M::rchar, "signal->ioac.rchar");
        /// Bytes passed to write-like calls.
        wchar: Bytes = counted(Both, Io("wchar"), M::wchar, "signal->ioac.wchar");
        /// System calls that read.
        syscr: MonotonicCount = counted(Both, Io("syscr"), M::syscr, "signal->ioac.syscr");
        /// System calls that write.
        syscw: MonotonicCount = counted(Both, Io("syscw"), M::syscw, "signal->ioac.syscw");
        /// Bytes fetched from storage.
        read_bytes: Bytes = counted(Both, Io("read_bytes"), M::read_bytes, "signal->ioac.read_bytes");
        /// Bytes sent to storage.
        write_bytes: Bytes = counted(Both, Io("write_bytes"), M::write_bytes, "signal->ioac.write_bytes");
        /// Dirty bytes dropped before write-back.
        cancelled_write_bytes: Bytes = counted(Both, Io("cancelled_write_bytes"), M::cancelled_write_bytes, "signal->ioac.cancelled_write_bytes");
        and /// Process id of the parent (field 4 of `stat`).
            ppid: u32;
    }
}

impl ProcessState {
    /// Returns true if the counters of children equal the counters in `earlier`: the process waited for no child in between.
    pub fn has_same_children_as(&self, earlier: &Self) -> bool {
        let mut of_children = PROCESS.iter().filter(|field| field.source.includes == Includes::Children);
        of_children.all(|field| field.get(self) == field.get(earlier))
    }
}
