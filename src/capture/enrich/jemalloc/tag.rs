//! Why a process or a thread has no counters of its allocator.

/// Why a process or a thread has no counters of its allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Tag {
    /// The process has ended.
    PidMissing,
    /// The name of its program can't be read: a kernel thread, or a process on its way out.
    ReadlinkFailure,
    /// Its memory map can't be read.
    MapsReadFailure,
    /// It carries no jemalloc.
    JemallocNotFound,
    /// Its program is for another machine.
    ArchMismatch,
    /// The debug information makes no sense, and the layout is not a known one.
    DwarfParseFailure,
    /// The layout is not a known one.
    UnknownLayout,
    /// The code here failed.
    WorkerPanic,
    /// A thread can't be attached to.
    PtraceSeize,
    /// A thread can't be told to stop.
    PtraceInterrupt,
    /// A thread did not stop in time.
    Waitpid,
    /// A thread's registers can't be read.
    GetRegset,
    /// A process's memory can't be read.
    ProcessVmReadv,
    /// The address of the counters can't be worked out.
    TlsArithmetic,
    /// The counters are none.
    Implausible,
}

impl Tag {
    /// The tag in snapshots.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PidMissing => "pid-missing",
            Self::ReadlinkFailure => "readlink-failure",
            Self::MapsReadFailure => "maps-read-failure",
            Self::JemallocNotFound => "jemalloc-not-found",
            Self::ArchMismatch => "arch-mismatch",
            Self::DwarfParseFailure => "dwarf-parse-failure",
            Self::UnknownLayout => "unknown-layout",
            Self::WorkerPanic => "worker-panic",
            Self::PtraceSeize => "ptrace-seize",
            Self::PtraceInterrupt => "ptrace-interrupt",
            Self::Waitpid => "waitpid",
            Self::GetRegset => "get-regset",
            Self::ProcessVmReadv => "process-vm-readv",
            Self::TlsArithmetic => "tls-arithmetic",
            Self::Implausible => "implausible",
        }
    }
}
