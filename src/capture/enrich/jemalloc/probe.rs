//! Reads the counters of the threads of a process. A thread whose thread pointer neither the engine nor the C library
//! tells is stopped for microseconds to read it. Memory is read while all threads run.

use std::collections::BTreeMap;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::getuid;

use super::super::super::process::Process;
use super::attachment::Attachment;
use super::files::Files;
use super::pthread;
use crate::model::ProbeFailure;
use crate::model::{Bytes, CtprofProbeSummary, ThreadState};
use crate::process::as_caller;
use crate::sys::ptrace::{self, StopError};

/// The minimum timeout of one thread, even after other threads have used up the shared timeout.
const LEAST_TIMEOUT: Duration = Duration::from_millis(10);
/// The maximum timeout of a thread in uninterruptible sleep, which is skipped once the shared timeout is
/// used up.
const UNINTERRUPTIBLE_TIMEOUT: Duration = Duration::from_millis(20);
/// How long to wait, at the end of the walk, for threads that have not stopped yet.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(50);

/// The probe of one worker, and its results.
pub(in crate::capture) struct Probe<'f> {
    files: &'f Files,
    summary: CtprofProbeSummary,
    time: Duration,
}

impl<'f> Probe<'f> {
    pub(in crate::capture) fn new(files: &'f Files) -> Self {
        Self { files, summary: CtprofProbeSummary::default(), time: Duration::ZERO }
    }

    /// Whether a process has jemalloc. Kernel threads and exited threads have no memory; the counters of
    /// ctprof itself are in the host context.
    pub(in crate::capture) fn finds_jemalloc(&mut self, process: &Process, threads: &[ThreadState]) -> bool {
        ptrace::release_late();
        if process.id == std::process::id() || !threads.iter().any(ThreadState::has_memory) {
            return false;
        }
        let begin = Instant::now();
        let found = process.jemalloc.get_or_init(|| self.find(process)).is_some();
        self.time += begin.elapsed();
        found
    }

    /// Adds the counters to threads of a process with jemalloc. `pointers` are thread pointers, where the engine knows
    /// them.
    pub(in crate::capture) fn process(
        &mut self,
        process: &Process,
        threads: &mut [ThreadState],
        pointers: &[Option<u64>],
    ) {
        let Some(Some(attachment)) = process.jemalloc.get() else { return };
        let begin = Instant::now();
        self.threads(process, attachment, threads, pointers);
        self.time += begin.elapsed();
    }

    /// Finds jemalloc in a process. A process that has exited is not a failure.
    fn find(&mut self, process: &Process) -> Option<Attachment> {
        self.summary.tgids_walked += 1;
        // The process chooses what is in its files.
        let found = catch_unwind(AssertUnwindSafe(|| Attachment::find(&process.folder, self.files)));
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

    fn threads(
        &mut self,
        process: &Process,
        attachment: &Attachment,
        threads: &mut [ThreadState],
        pointers: &[Option<u64>],
    ) {
        let Attachment { target, space, pointer_behind_head: behind, .. } = attachment;
        let pointers = pointers.iter().copied().map(usable).chain(iter::repeat(None));
        let mut read = 0;
        for (thread, known) in threads.iter_mut().zip(pointers).filter(|(thread, _)| thread.has_memory()) {
            let known = known.or_else(|| pthread::thread_pointer(space, (*behind)?, &process.folder, thread.tid));
            let pointer = known.map_or_else(|| self.stop(attachment, thread), Ok);
            match pointer.and_then(|pointer| target.read(space, pointer)) {
                Ok((allocated, deallocated)) => {
                    read += 1;
                    thread.metrics.allocated_bytes = Some(Bytes(allocated));
                    thread.metrics.deallocated_bytes = Some(Bytes(deallocated));
                }
                Err(tag) => self.fail(process, thread.tid, tag),
            }
        }
        self.summary.probed_ok += read;
    }

    /// The thread pointer of a thread, which is stopped while it is read.
    fn stop(&mut self, attachment: &Attachment, thread: &ThreadState) -> Result<u64, ProbeFailure> {
        ptrace::release_late();
        let left = attachment.timeout_left();
        let timeout = match thread.metrics.state {
            Some('D') if left.is_zero() => return Err(ProbeFailure::Waitpid),
            Some('D') => left.min(UNINTERRUPTIBLE_TIMEOUT),
            _ => left.max(LEAST_TIMEOUT),
        };
        let begin = Instant::now();
        // A stopped thread stays stopped while ctprof is: who can stop ctprof may stop no other thread by that.
        let pointer = as_caller(|| ptrace::thread_pointer(thread.tid, timeout));
        attachment.spend(begin.elapsed());
        pointer.unwrap_or(Err(StopError::Seize(Errno::EPERM))).map_err(tag_of)
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

    /// Waits for the threads that have not stopped yet and resumes them, on the worker that attached to them.
    /// The kernel resumes the others when this worker exits.
    pub(in crate::capture) fn release() {
        let begin = Instant::now();
        while ptrace::release_late() && begin.elapsed() < RELEASE_TIMEOUT {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The results, and the time spent.
    pub(in crate::capture) fn finish(self) -> (CtprofProbeSummary, Duration) {
        (self.summary, self.time)
    }
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

/// Adds the counts of two workers.
pub(in crate::capture) fn merge(a: CtprofProbeSummary, b: CtprofProbeSummary) -> CtprofProbeSummary {
    let mut failures: BTreeMap<ProbeFailure, u64> = a.failures;
    for (tag, count) in b.failures {
        *failures.entry(tag).or_default() += count;
    }
    CtprofProbeSummary {
        tgids_walked: a.tgids_walked + b.tgids_walked,
        jemalloc_detected: a.jemalloc_detected + b.jemalloc_detected,
        probed_ok: a.probed_ok + b.probed_ok,
        failures,
        ..CtprofProbeSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::skip::{Missing, skipped};
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use super::super::super::super::procfs::folder::Folder;
    use super::*;

    /// What the probe counts for a process of one thread.
    fn summary(id: u32, thread: ThreadState) -> CtprofProbeSummary {
        let dir = tempfile::tempdir().unwrap();
        let process = Process::new(id, Folder::open(dir.path()).unwrap());
        let files = Files::default();
        let mut probe = Probe::new(&files);
        probe.finds_jemalloc(&process, &[thread]);
        probe.finish().0
    }

    #[test]
    fn kernel_threads_and_zombies_are_not_examined() {
        let kernel_thread = ThreadState { kernel_thread: true, ..ThreadState::default() };
        let mut zombie = ThreadState::default();
        zombie.metrics.state = Some('Z');
        for thread in [kernel_thread, zombie] {
            assert_eq!(summary(1, thread), CtprofProbeSummary::default());
        }
    }

    #[test]
    fn a_process_that_exited_meanwhile_is_not_a_failure() {
        let examined = CtprofProbeSummary { tgids_walked: 1, ..CtprofProbeSummary::default() };
        assert_eq!(summary(u32::MAX >> 1, ThreadState::default()), examined);
    }

    #[test]
    fn a_thread_in_uninterruptible_sleep_is_skipped_once_the_timeout_is_used_up() {
        let attachment = Attachment::of_this_process();
        attachment.spend(Duration::from_secs(1));
        let mut thread = ThreadState::default();
        thread.metrics.state = Some('D');
        let files = Files::default();
        assert_eq!(Probe::new(&files).stop(&attachment, &thread), Err(ProbeFailure::Waitpid));
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
        let files = Files::default();
        let mut probe = Probe::new(&files);
        let is_late = |result| matches!(result, Err(StopError::Wait(nix::errno::Errno::ETIMEDOUT)));
        // With no time to stop, one attempt in a few is late.
        let stops_late = || (0..1000).any(|_| is_late(ptrace::thread_pointer(sleeper.0.id(), Duration::ZERO)));
        if !stops_late() {
            return skipped(Missing::Kernel("threads that stop late, or ptrace is denied"));
        }
        assert!(sleeper.is_traced());
        Probe::release();
        assert!(!sleeper.is_traced());

        assert!(stops_late());
        thread::sleep(Duration::from_millis(20));
        let dir = tempfile::tempdir().unwrap();
        let other = Process::new(2, Folder::open(dir.path()).unwrap());
        probe.finds_jemalloc(&other, &[ThreadState { kernel_thread: true, ..ThreadState::default() }]);
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
        let process = Process::new(id, Folder::open(format!("/proc/{id}").as_ref()).unwrap());
        let thread = |&tid: &u32| ThreadState { tgid: id, tid, ..ThreadState::default() };
        let mut threads: Vec<_> = heap.counters.keys().map(thread).collect();
        // A thread that has not stopped in time is attached to until this one exits, so that `heap` cannot be reaped.
        let timeout = Duration::from_secs(60);
        let stopped = |thread: &ThreadState| ptrace::thread_pointer(thread.tid, timeout);
        let mut pointers: Vec<_> = threads.iter().map(|thread| stopped(thread).ok()).collect();
        if pointers.contains(&None) {
            return skipped(Missing::Privilege("ptrace"));
        }
        // One thread without a thread pointer, and one whose thread-local storage is not mapped.
        threads.extend([thread(&id), thread(&id)]);
        pointers.extend([Some(0), Some(1 << 20)]);
        let files = Files::default();
        let mut probe = Probe::new(&files);
        assert!(probe.finds_jemalloc(&process, &threads));
        let whole_timeout = process.jemalloc.get().unwrap().as_ref().unwrap().timeout_left();
        probe.process(&process, &mut threads, &pointers);
        assert_eq!(process.jemalloc.get().unwrap().as_ref().unwrap().timeout_left(), whole_timeout, "a thread stopped");
        let read = threads.iter().filter_map(|thread| {
            Some((thread.tid, (thread.metrics.allocated_bytes?.0, thread.metrics.deallocated_bytes?.0)))
        });
        assert_eq!(read.collect::<BTreeMap<_, _>>(), heap.counters);
        let summary = probe.finish().0;
        assert_eq!(summary.probed_ok, u64::try_from(heap.counters.len()).unwrap());
        assert_eq!(
            summary.failures,
            BTreeMap::from([(ProbeFailure::ProcessVmReadv, 1), (ProbeFailure::TlsArithmetic, 1)])
        );
    }
}
