//! Reads the counters of the threads of a process. A thread whose thread pointer neither the engine nor the C library
//! tells is stopped for microseconds to read it. Memory is read while all threads run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::getuid;

use super::super::super::process::Process;
use super::attachment::Attachment;
use super::files::ExaminedFiles;
use super::pthread;
use crate::model::CtprofProbeSummary;
use crate::model::ProbeFailure;
use crate::process::as_caller;
use crate::sys::ptrace::{self, StopError};

/// The minimum timeout of one thread, even after other threads have used up the shared timeout.
const LEAST_TIMEOUT: Duration = Duration::from_millis(10);
/// The maximum timeout of a thread in uninterruptible sleep, which is skipped once the shared timeout is
/// used up.
const UNINTERRUPTIBLE_TIMEOUT: Duration = Duration::from_millis(20);

/// A thread whose counters are read.
#[derive(Default)]
pub(in crate::capture) struct ProbedThread {
    pub(in crate::capture) tid: u32,
    /// State letter of the thread, if it is known.
    pub(in crate::capture) state: Option<char>,
    /// Thread pointer, if the engine knows it.
    pub(in crate::capture) pointer: Option<u64>,
}

/// The counters of a thread, in bytes.
#[derive(Debug)]
pub(in crate::capture) struct HeapCounters {
    pub(in crate::capture) tid: u32,
    pub(in crate::capture) allocated: u64,
    pub(in crate::capture) deallocated: u64,
}

/// The probe of one process, and what it counts.
pub(in crate::capture) struct Probe<'f> {
    files: &'f ExaminedFiles,
    summary: CtprofProbeSummary,
}

impl<'f> Probe<'f> {
    pub(in crate::capture) fn new(files: &'f ExaminedFiles) -> Self {
        Self { files, summary: CtprofProbeSummary::default() }
    }

    /// Returns the counters of the threads of a process that have memory, in their order; nothing if the process does not use
    /// jemalloc. ctprof's own counters are in the host context.
    pub(in crate::capture) fn process(&mut self, process: &Process, threads: &[ProbedThread]) -> Vec<HeapCounters> {
        ptrace::release_late();
        if process.id == std::process::id() || threads.is_empty() {
            return Vec::new();
        }
        let Some(mut attachment) = self.find(process) else { return Vec::new() };
        let counters =
            threads.iter().filter_map(|thread| self.thread(process, &mut attachment, thread)).collect::<Vec<_>>();
        self.summary.probed_ok += u64::try_from(counters.len()).unwrap_or(u64::MAX);
        counters
    }

    /// Finds jemalloc in a process. A process that has exited is not a failure.
    fn find(&mut self, process: &Process) -> Option<Attachment> {
        self.summary.tgids_walked += 1;
        // The process chooses what is in its files.
        let found = catch_unwind(AssertUnwindSafe(|| Attachment::find(&process.directory, self.files)));
        match found.unwrap_or(Err(ProbeFailure::WorkerPanic)) {
            Ok(attachment) => {
                self.summary.jemalloc_detected += 1;
                return Some(attachment);
            }
            Err(tag @ ProbeFailure::JemallocNotFound) => self.count(tag),
            Err(tag) if process.is_alive() => {
                log_failure(process, None, &tag);
                self.count(tag);
            }
            Err(_) => {}
        }
        None
    }

    fn thread(
        &mut self,
        process: &Process,
        attachment: &mut Attachment,
        thread: &ProbedThread,
    ) -> Option<HeapCounters> {
        let behind = attachment.pointer_behind_head;
        let in_library = || pthread::thread_pointer(&attachment.space, behind?, &process.directory, thread.tid);
        let without_stop = usable(thread.pointer).or_else(in_library);
        let pointer = without_stop.map_or_else(|| stop(attachment, thread), Ok);
        match pointer.and_then(|pointer| attachment.target.read(&attachment.space, pointer)) {
            Ok((allocated, deallocated)) => Some(HeapCounters { tid: thread.tid, allocated, deallocated }),
            Err(tag) => {
                self.fail(process, thread.tid, tag);
                None
            }
        }
    }

    /// Counts a thread that could not be read, unless it has exited.
    fn fail(&mut self, process: &Process, tid: u32, tag: ProbeFailure) {
        if tag != ProbeFailure::PidMissing && process.has_thread(tid) {
            log_failure(process, Some(tid), &tag);
            self.count(tag);
        }
    }

    fn count(&mut self, tag: ProbeFailure) {
        *self.summary.failures.entry(tag).or_default() += 1;
    }

    /// Returns the counts of all processes.
    pub(in crate::capture) fn finish(self) -> CtprofProbeSummary {
        self.summary
    }
}

/// The thread pointer of a thread, which is stopped while it is read.
fn stop(attachment: &mut Attachment, thread: &ProbedThread) -> Result<u64, ProbeFailure> {
    ptrace::release_late();
    let left = attachment.timeout_left;
    let timeout = match thread.state {
        Some('D') if left.is_zero() => return Err(ProbeFailure::Waitpid),
        Some('D') => left.min(UNINTERRUPTIBLE_TIMEOUT),
        _ => left.max(LEAST_TIMEOUT),
    };
    let begin = Instant::now();
    // A stopped thread stays stopped while ctprof is: who can stop ctprof may stop no other thread by that.
    let pointer = as_caller(|| ptrace::thread_pointer(thread.tid, timeout));
    attachment.timeout_left = left.saturating_sub(begin.elapsed());
    pointer.unwrap_or(Err(StopError::Seize(Errno::EPERM))).map_err(tag_of)
}

/// A thread pointer of the engine, which can be older than the program that was examined. Where nothing in memory tells,
/// only root may use it: root may read all memory.
fn usable(pointer: Option<u64>) -> Option<u64> {
    pointer.filter(|_| cfg!(target_arch = "x86_64") || getuid().is_root())
}

/// Logs that a thread, or the whole process, could not be read.
fn log_failure(process: &Process, tid: Option<u32>, tag: &ProbeFailure) {
    let reason = tag.name();
    tracing::debug!(pid = process.id, tid, process = ?process.name(), reason, "cannot read jemalloc counters");
}

/// Logs one line about all processes.
pub(in crate::capture) fn log(summary: &CtprofProbeSummary) {
    let CtprofProbeSummary { tgids_walked, jemalloc_detected, probed_ok, failures, .. } = summary;
    let reasons: Vec<_> = failures.iter().map(|(tag, count)| format!("{tag} {count}")).collect();
    let reasons = if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") };
    tracing::info!(
        "jemalloc: processes examined: {tgids_walked}, with jemalloc: {jemalloc_detected}, threads read: {probed_ok}, \
         not read: {reasons}"
    );
}

fn tag_of(error: StopError) -> ProbeFailure {
    use Errno::ESRCH;
    match error {
        StopError::Seize(ESRCH) | StopError::Interrupt(ESRCH) | StopError::Wait(ESRCH) => ProbeFailure::PidMissing,
        StopError::Seize(_) => ProbeFailure::PtraceSeize,
        StopError::Interrupt(_) => ProbeFailure::PtraceInterrupt,
        StopError::Wait(_) => ProbeFailure::Waitpid,
        StopError::Registers(_) => ProbeFailure::GetRegset,
    }
}

/// Adds the counts of a process.
pub(in crate::capture) fn add(sum: &mut CtprofProbeSummary, process: CtprofProbeSummary) {
    sum.tgids_walked += process.tgids_walked;
    sum.jemalloc_detected += process.jemalloc_detected;
    sum.probed_ok += process.probed_ok;
    for (tag, count) in process.failures {
        *sum.failures.entry(tag).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use crate::skip::{Missing, skipped};
    use std::collections::BTreeMap;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use super::super::super::super::procfs::directory::ProcDirectory;
    use super::*;

    /// Returns the counts of the probe for a process with these threads.
    fn summary(id: u32, threads: &[ProbedThread]) -> CtprofProbeSummary {
        let dir = tempfile::tempdir().unwrap();
        let process = Process::new(id, ProcDirectory::open(dir.path()).unwrap());
        let files = ExaminedFiles::default();
        let mut probe = Probe::new(&files);
        assert!(probe.process(&process, threads).is_empty());
        probe.finish()
    }

    #[test]
    fn processes_without_memory_are_not_examined() {
        assert_eq!(summary(1, &[]), CtprofProbeSummary::default());
    }

    #[test]
    fn a_process_that_exited_meanwhile_is_not_a_failure() {
        let examined = CtprofProbeSummary { tgids_walked: 1, ..CtprofProbeSummary::default() };
        assert_eq!(summary(u32::MAX >> 1, &[ProbedThread::default()]), examined);
    }

    #[test]
    fn a_thread_in_uninterruptible_sleep_is_skipped_once_the_timeout_is_used_up() {
        let mut attachment = Attachment::of_this_process();
        attachment.timeout_left = Duration::ZERO;
        let thread = ProbedThread { state: Some('D'), ..ProbedThread::default() };
        assert_eq!(stop(&mut attachment, &thread), Err(ProbeFailure::Waitpid));
    }

    /// A child that is killed at the end of the test.
    struct Sleeper(std::process::Child);

    impl Sleeper {
        fn is_traced(&self) -> bool {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
            !status.lines().any(|line| line == "TracerPid:\t0")
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_thread_that_stops_late_is_resumed_during_the_walk() {
        let sleeper = Sleeper(std::process::Command::new("sleep").arg("100").spawn().unwrap());
        let is_late = |result| matches!(result, Err(StopError::Wait(nix::errno::Errno::ETIMEDOUT)));
        // With no time to stop, one attempt in a few is late.
        let stops_late = || (0..1000).any(|_| is_late(ptrace::thread_pointer(sleeper.0.id(), Duration::ZERO)));
        if !stops_late() {
            return skipped(Missing::Kernel("threads that stop late, or ptrace is denied"));
        }
        assert!(sleeper.is_traced());
        std::thread::sleep(Duration::from_millis(20));
        summary(2, &[]);
        assert!(!sleeper.is_traced(), "any process of the walk is enough");
    }

    /// A program with known counters: the ids of its threads, and what they allocated and freed.
    struct Heap {
        program: std::process::Child,
        counters: BTreeMap<u32, (u64, u64)>,
    }

    impl Heap {
        /// `examples/heap.rs`, if cargo has built it.
        fn start() -> Option<Self> {
            let test = std::env::current_exe().unwrap();
            let heap = test.ancestors().nth(2).unwrap().join("examples/heap");
            let mut command = std::process::Command::new(heap);
            let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
            let lines = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
            let parsed = |line: String| {
                let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
                (u32::try_from(numbers[0]).unwrap(), (numbers[1], numbers[2]))
            };
            let counters = lines.take_while(|line| line != "ready").map(parsed).collect();
            Some(Self { program, counters })
        }
    }

    impl Drop for Heap {
        fn drop(&mut self) {
            let _ = self.program.kill();
            let _ = self.program.wait();
        }
    }

    #[test]
    fn threads_with_known_thread_pointers_are_read_without_a_stop() {
        let Some(heap) = Heap::start() else {
            return skipped(Missing::Tool("examples/heap (cargo build --example heap)"));
        };
        let id = heap.program.id();
        let process = Process::new(id, ProcDirectory::open(format!("/proc/{id}").as_ref()).unwrap());
        // A thread that has not stopped in time is attached to until this one exits, so that `heap` cannot be reaped.
        let timeout = Duration::from_secs(60);
        let thread = |tid: u32, pointer| ProbedThread { tid, pointer, ..ProbedThread::default() };
        let stopped = |&tid: &u32| thread(tid, ptrace::thread_pointer(tid, timeout).ok());
        let mut threads: Vec<_> = heap.counters.keys().map(stopped).collect();
        if threads.iter().any(|thread| thread.pointer.is_none()) {
            return skipped(Missing::Privilege("ptrace"));
        }
        // One thread without a thread pointer, and one whose thread-local storage is not mapped.
        threads.extend([thread(id, Some(0)), thread(id, Some(1 << 20))]);
        let files = ExaminedFiles::default();
        let mut probe = Probe::new(&files);
        let read = probe.process(&process, &threads).into_iter();
        let read = read.map(|counters| (counters.tid, (counters.allocated, counters.deallocated)));
        assert_eq!(read.collect::<BTreeMap<_, _>>(), heap.counters);
        let summary = probe.finish();
        assert_eq!(summary.probed_ok, u64::try_from(heap.counters.len()).unwrap());
        assert_eq!(
            summary.failures,
            BTreeMap::from([(ProbeFailure::ProcessVmReadv, 1), (ProbeFailure::TlsArithmetic, 1)])
        );
    }
}
