//! Why something could not be read: errors of the kernel, and steps of the jemalloc probe.

use super::stored_name::stored_names;

stored_names! {
    /// An error number of the kernel, by name (`include/uapi/asm-generic/errno*.h`).
    pub enum Errno {
        /// Operation was not permitted (EPERM).
        EPERM = "EPERM",
        /// No such file or directory.
        ENOENT = "ENOENT",
        /// Process or thread does not exist (ESRCH).
        ESRCH = "ESRCH",
        /// Input or output failed (EIO).
        EIO = "EIO",
        /// Memory ran out in the kernel (ENOMEM).
        ENOMEM = "ENOMEM",
        /// Permission was denied (EACCES).
        EACCES = "EACCES",
        /// Argument was invalid (EINVAL).
        EINVAL = "EINVAL",
        /// Too many open files in the system.
        ENFILE = "ENFILE",
        /// Too many open files in the process.
        EMFILE = "EMFILE",
        /// A file is too large.
        EFBIG = "EFBIG",
        /// A symbolic link on the way, or too many.
        ELOOP = "ELOOP",
        /// Content of a file was malformed (EBADMSG).
        EBADMSG = "EBADMSG",
        /// Reading timed out and was given up (ETIMEDOUT).
        ETIMEDOUT = "ETIMEDOUT",
    }
}

impl Errno {
    /// Whether access was denied.
    pub fn is_denial(&self) -> bool {
        matches!(self, Self::EPERM | Self::EACCES)
    }
}

stored_names! {
    /// A file that a capture reads for each thread or process.
    pub enum SourceFile {
        /// `stat` of a thread.
        Stat = "stat",
        /// `status` of a thread.
        Status = "status",
        /// `sched` of a thread.
        Sched = "sched",
        /// `schedstat` of a thread.
        Schedstat = "schedstat",
        /// `io` of a thread.
        Io = "io",
        /// `cgroup` of a thread.
        Cgroup = "cgroup",
        /// `smaps_rollup` of a process.
        SmapsRollup = "smaps_rollup",
    }
}

stored_names! {
    /// Why a process or a thread has no jemalloc counters.
    pub enum ProbeFailure {
        /// The process or thread exited before it was read.
        PidMissing = "pid-missing",
        /// The program cannot be identified: a kernel thread, or a process that is exiting.
        ReadlinkFailure = "readlink-failure",
        /// The memory map cannot be read.
        MapsReadFailure = "maps-read-failure",
        /// The process does not use jemalloc.
        JemallocNotFound = "jemalloc-not-found",
        /// The program is built for another architecture.
        ArchMismatch = "arch-mismatch",
        /// The debug information is invalid or takes too long to search, and the jemalloc build is not recognized.
        DwarfParseFailure = "dwarf-parse-failure",
        /// The jemalloc build is not recognized and has no debug information.
        UnknownLayout = "unknown-layout",
        /// ctprof failed on this process (a bug).
        WorkerPanic = "worker-panic",
        /// Access to the process was denied.
        PtraceSeize = "ptrace-seize",
        /// The thread could not be interrupted.
        PtraceInterrupt = "ptrace-interrupt",
        /// The thread did not stop in time.
        Waitpid = "waitpid",
        /// The registers of the thread cannot be read.
        GetRegset = "get-regset",
        /// Reading blocked for too long: the process held its memory lock, or was in execve(2).
        TimedOut = "timed-out",
        /// The programs and libraries together take too much memory or time to examine, or a file is sparse.
        OutOfBudget = "out-of-budget",
        /// The memory of the process cannot be read.
        ProcessVmReadv = "process-vm-readv",
        /// The address of the counters cannot be computed.
        TlsArithmetic = "tls-arithmetic",
        /// The values at that address cannot be counters.
        Implausible = "implausible",
    }
}

impl ProbeFailure {
    /// Whether it is expected: most programs use another allocator, and kernel threads none.
    pub fn is_routine(&self) -> bool {
        matches!(self, Self::JemallocNotFound | Self::ReadlinkFailure)
    }

    /// Whether the kernel denied access to the process or thread.
    pub fn is_denial(&self) -> bool {
        matches!(self, Self::PtraceSeize | Self::PtraceInterrupt)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn names_that_a_newer_version_wrote_are_kept() {
        let json = r#"{"EACCES":1,"EFUTURE":2}"#;
        let counts: BTreeMap<Errno, u64> = serde_json::from_str(json).unwrap();
        assert_eq!((counts[&Errno::EACCES], counts[&Errno::Other("EFUTURE".into())]), (1, 2));
        assert_eq!(serde_json::to_string(&counts).unwrap(), json);
    }

    #[test]
    fn every_known_name_reads_back() {
        let same = |written: serde_json::Value, name: &str| assert_eq!(written, name);
        for errno in Errno::KNOWN {
            assert!(!matches!(Errno::from(errno.name()), Errno::Other(_)));
            same(serde_json::to_value(errno).unwrap(), errno.name());
        }
        for failure in ProbeFailure::KNOWN {
            assert!(!matches!(ProbeFailure::from(failure.name()), ProbeFailure::Other(_)));
            same(serde_json::to_value(failure).unwrap(), failure.name());
        }
    }
}
