//! Samples: the activity of a thread at one moment.

use super::{ExitedThread, Name};

/// Number of registers that say where in its code a thread entered the kernel.
pub const CODE_REGISTERS: usize = if cfg!(target_arch = "x86_64") { 8 } else { 14 };

/// A thread as a sampler saw it. Samplers leave out threads that are still in the sleep of their sample before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadSample {
    /// Id of the thread.
    pub tid: u32,
    /// Process id (thread group id).
    pub tgid: u32,
    /// Start time in `USER_HZ` ticks since boot: ids are reused.
    pub start_time_clock_ticks: u64,
    /// Start of its process in the same ticks; `None` if it is unknown.
    pub process_started: Option<u64>,
    /// Name of its process.
    pub pcomm: Name,
    /// Name of the thread.
    pub comm: Name,
    /// Whether it is a kernel thread.
    pub kernel_thread: bool,
    /// Whether it exits: its end can be known already.
    pub exiting: bool,
    /// Whether only passes over all threads looked at it lately.
    pub rarely_sampled: bool,
    /// Id of the cgroup in the kernel; `None` if it is unknown.
    pub cgroup: Option<u64>,
    /// Voluntary and involuntary context switches so far.
    pub switches: u64,
    /// Voluntary ones alone; 0 if they are unknown.
    pub voluntary_switches: u64,
    /// Whether it runs, waits or sleeps.
    pub activity: Activity,
    /// The CPU that it runs on, or in whose queue it is; `None` if it is unknown.
    pub cpu: Option<u32>,
    /// When it last got a CPU, by the clock of the queue; 0 if it is unknown.
    pub last_arrival: u64,
    /// Since when it waits for a CPU, by the same clock; 0 if it does not, or it is unknown.
    pub last_queued: u64,
    /// Nanoseconds that the thread had run when it last left its CPU; 0 if it is on one.
    pub ran_ns: u64,
    /// How it got into the kernel, if it sleeps there.
    pub entry: KernelEntry,
    /// Addresses of the functions of the kernel that it sleeps in, the innermost first.
    pub stack: Vec<u64>,
    /// Registers in the thread's own code, if it sleeps in the kernel: the instruction, the stack, and the registers that
    /// functions save. `None` without BPF.
    pub registers: Option<[u64; CODE_REGISTERS]>,
    /// The number of the functions of its program that led to the sleep, by which the sampler knows them.
    pub code: Option<u32>,
    /// The file that its system call works on.
    pub object: Option<Name>,
    /// Id of the thread that owns the lock that it waits for.
    pub owner: Option<u32>,
    /// Id of the process that holds the lock on a file that it waits for: which of its threads does is unknown.
    pub owner_process: Option<u32>,
}

/// A thread that ran on a CPU when a clock interrupted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSample {
    /// Id of the thread.
    pub tid: u32,
    /// Process id (thread group id).
    pub tgid: u32,
    /// The number of the functions of its program that it was in, by which the sampler knows them.
    pub code: u32,
}

/// The threads that a pass samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassScope {
    /// All threads that did something since the pass before.
    #[default]
    All,
    /// Only threads that run, or did something in the last seconds and since the pass before.
    Active,
}

/// The end of a thread, or of a program that a process has left for another one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadEnd {
    /// Id of the thread.
    pub tid: u32,
    /// Start time in `USER_HZ` ticks since boot.
    pub start_time_clock_ticks: u64,
    /// When it exited, in nanoseconds of `CLOCK_MONOTONIC`.
    pub monotonic_ns: u64,
    /// Name of its process when it exited.
    pub pcomm: Name,
    /// Name of the thread when it exited.
    pub comm: Name,
    /// Process id, and the name of what the process ran, if the record is of the first thread and has it.
    pub program: Option<(u32, Name)>,
    /// The id of the process, if this is the end of a program: the process goes on with another one. `start_time_clock_ticks` is then
    /// the start of the process.
    pub executed_in: Option<u32>,
}

impl ThreadEnd {
    /// The end of a thread whose exit was recorded; `None` for a first thread whose ids another one has got, and goes on with.
    pub fn from_exit(exit: &ExitedThread) -> Option<Self> {
        let state = exit.replaced_by.is_none().then_some(&exit.state)?;
        let of_process = state.program.clone().filter(|_| state.is_leader() && !exit.executed);
        Some(Self {
            tid: state.tid,
            start_time_clock_ticks: state.start_time_clock_ticks?,
            monotonic_ns: exit.exited_monotonic_ns(),
            pcomm: Name::clone(&state.pcomm),
            comm: Name::clone(&state.comm),
            program: of_process.map(|program| (state.tgid, program)),
            executed_in: exit.executed.then_some(state.tgid),
        })
    }
}

/// Activity of a thread at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// It is on a CPU.
    #[default]
    Running,
    /// It is ready to run.
    Runnable,
    /// It is ready to run, and a cgroup that it is in has used its CPU quota.
    Throttled,
    /// It is in an uninterruptible sleep (state D).
    Blocked,
    /// It is in another sleep (states S and I).
    Asleep,
    /// It is stopped by a signal.
    Stopped,
    /// It is stopped by its tracer.
    Traced,
    /// It is frozen: it runs again when its cgroup or the host is thawed.
    Frozen,
}

/// How a thread got into the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelEntry {
    /// It is unknown, or the thread is one of the kernel.
    #[default]
    Unknown,
    /// In this system call, with its first two arguments.
    SystemCall(u32, [u64; 2]),
    /// In a system call of a 32-bit program, by its number in their table.
    Compatible(u32),
    /// In an exception, such as a page fault.
    Exception,
}

impl KernelEntry {
    /// The bit in the number of system calls of x32 programs, which have 32-bit addresses and the 64-bit table
    /// (`__X32_SYSCALL_BIT` of arch/x86/include/uapi/asm/unistd.h).
    pub const X32: u32 = 0x4000_0000;
}

/// `TASK_UNINTERRUPTIBLE`, `TASK_STOPPED`, `TASK_TRACED`, `TASK_FROZEN`, `TASK_NOLOAD`, `TASK_WAKING`, `TASK_NEW` and
/// `TASK_RTLOCK_WAIT` of include/linux/sched.h.
const UNINTERRUPTIBLE: u64 = 0x2;
const STOPPED: u64 = 0x4;
const TRACED: u64 = 0x8;
const FROZEN: u64 = 0x8000;
const DEAD: u64 = 0x10 | 0x20 | 0x80;
const NOLOAD: u64 = 0x400;
const READY_SOON: u64 = 0x200 | 0x800;
const LOCK_WAIT: u64 = 0x1000;

impl Activity {
    /// Returns the activity of a thread that is not on a CPU, from the kernel's `task->__state`; `None` if the thread has exited.
    pub fn of_state(state: u64) -> Option<Self> {
        Some(match state {
            0 => Self::Runnable,
            _ if state & DEAD != 0 => return None,
            _ if state & STOPPED != 0 => Self::Stopped,
            _ if state & TRACED != 0 => Self::Traced,
            _ if state & FROZEN != 0 => Self::Frozen,
            _ if state & LOCK_WAIT != 0 || (state & UNINTERRUPTIBLE != 0 && state & NOLOAD == 0) => Self::Blocked,
            _ if state & READY_SOON != 0 => Self::Runnable,
            _ => Self::Asleep,
        })
    }

    /// Whether a thread that does this is not ready to run.
    pub fn is_sleep(self) -> bool {
        matches!(self, Self::Blocked | Self::Asleep | Self::Stopped | Self::Traced | Self::Frozen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_the_kernel_are_what_threads_do() {
        use Activity::{Asleep, Blocked, Frozen, Runnable, Stopped, Traced};
        // TASK_INTERRUPTIBLE, TASK_UNINTERRUPTIBLE, TASK_KILLABLE, TASK_IDLE, TASK_FREEZABLE, TASK_WAKING, TASK_NEW, TASK_STOPPED,
        // TASK_TRACED, TASK_FROZEN, TASK_PARKED, TASK_RTLOCK_WAIT.
        let states = [0, 1, 2, 0x102, 0x402, 0x2001, 0x200, 0x800, 0x104, 8, 0x8000, 0x40, 0x1000];
        let expected = [
            Runnable, Asleep, Blocked, Blocked, Asleep, Asleep, Runnable, Runnable, Stopped, Traced, Frozen, Asleep,
            Blocked,
        ];
        assert_eq!(states.map(Activity::of_state), expected.map(Some));
        assert_eq!([0x10, 0x20, 0x80].map(Activity::of_state), [None; 3]);
    }
}
