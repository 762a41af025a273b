//! Reads the counters of threads. Each thread is stopped for microseconds to read its thread pointer. Its
//! memory is read after it was resumed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use super::super::super::process::Process;
use super::attachment::Attachment;
use super::files::Files;
use super::layouts::Offsets;
use super::process::{Target, attach};
use super::tag::Tag;
use crate::model::{Bytes, CtprofProbeSummary, ThreadState};
use crate::sys::memory;
use crate::sys::ptrace::{self, Late, StopError};

/// The minimum timeout of one thread, even after other threads have used up the shared timeout.
const LEAST_TIMEOUT: Duration = Duration::from_millis(10);
/// The maximum timeout of a thread in uninterruptible sleep, which is skipped once the shared timeout is
/// used up.
const UNINTERRUPTIBLE_TIMEOUT: Duration = Duration::from_millis(20);
/// How long to wait, at the end of the walk, for threads that have not stopped yet.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(50);
/// No thread ever allocates this many bytes.
const IMPLAUSIBLE: u64 = 1 << 60;

/// The probe of one worker: its results, and the threads it still must resume.
pub(in crate::capture) struct Probe<'f> {
    files: &'f Files,
    late: Vec<Late>,
    summary: CtprofProbeSummary,
    time: Duration,
}

impl<'f> Probe<'f> {
    pub(in crate::capture) fn new(files: &'f Files) -> Self {
        Self { files, late: Vec::new(), summary: CtprofProbeSummary::default(), time: Duration::ZERO }
    }

    /// Whether a process has jemalloc. Kernel threads and exited threads have no memory; the counters of
    /// ctprof itself are in the host context.
    pub(in crate::capture) fn finds_jemalloc(&mut self, process: &Process, threads: &[ThreadState]) -> bool {
        self.resume_stopped();
        if process.id == std::process::id() || !threads.iter().any(ThreadState::has_memory) {
            return false;
        }
        let begin = Instant::now();
        let found = process.jemalloc.get_or_init(|| self.find(process)).is_some();
        self.time += begin.elapsed();
        found
    }

    /// Adds the counters to threads of a process with jemalloc.
    pub(in crate::capture) fn process(&mut self, process: &Process, threads: &mut [ThreadState]) {
        let Some(Some(attachment)) = process.jemalloc.get() else { return };
        let begin = Instant::now();
        self.threads(process, attachment, threads);
        self.time += begin.elapsed();
    }

    /// Finds jemalloc in a process. A process that has exited is not a failure.
    fn find(&mut self, process: &Process) -> Option<Attachment> {
        self.summary.tgids_walked += 1;
        match guarded(|| attach(process.id, self.files)) {
            Ok(target) => {
                self.summary.jemalloc_detected += 1;
                return Some(Attachment::new(target));
            }
            Err(tag @ Tag::JemallocNotFound) => self.count(tag),
            Err(tag) if process.is_alive() => {
                process.unprobed(None, tag.name());
                self.count(tag);
            }
            Err(_) => {}
        }
        None
    }

    fn threads(&mut self, process: &Process, attachment: &Attachment, threads: &mut [ThreadState]) {
        let mut read = 0;
        for thread in threads.iter_mut().filter(|thread| thread.has_memory()) {
            match guarded(|| self.counters(attachment, thread)) {
                Ok((allocated, deallocated)) => {
                    read += 1;
                    thread.metrics.allocated_bytes = Some(Bytes(allocated));
                    thread.metrics.deallocated_bytes = Some(Bytes(deallocated));
                }
                Err(tag) if tag != Tag::PidMissing && process.has_thread(thread.tid) => {
                    process.unprobed(Some(thread.tid), tag.name());
                    self.count(tag);
                }
                // It has exited meanwhile.
                Err(_) => {}
            }
        }
        self.summary.probed_ok += read;
        process.probed(read);
    }

    fn counters(&mut self, attachment: &Attachment, thread: &ThreadState) -> Result<(u64, u64), Tag> {
        self.resume_stopped();
        let left = attachment.timeout_left();
        let timeout = match thread.metrics.state {
            Some('D') if left.is_zero() => return Err(Tag::Waitpid),
            Some('D') => left.min(UNINTERRUPTIBLE_TIMEOUT),
            _ => left.max(LEAST_TIMEOUT),
        };
        let begin = Instant::now();
        let pointer = ptrace::thread_pointer(thread.tid, timeout, &mut self.late);
        attachment.spend(begin.elapsed());
        read(&attachment.target, thread.tgid, pointer.map_err(tag_of)?)
    }

    fn count(&mut self, tag: Tag) {
        *self.summary.failures.entry(tag).or_default() += 1;
    }

    /// Resumes the threads that did not stop in time and have stopped since.
    fn resume_stopped(&mut self) {
        self.late = std::mem::take(&mut self.late).into_iter().filter_map(Late::release).collect();
    }

    /// Waits for the threads that have not stopped yet and resumes them, on the worker that attached to them.
    /// The kernel resumes the others when this worker exits.
    pub(in crate::capture) fn release(&mut self) {
        let begin = Instant::now();
        self.resume_stopped();
        while !self.late.is_empty() && begin.elapsed() < RELEASE_TIMEOUT {
            thread::sleep(Duration::from_millis(1));
            self.resume_stopped();
        }
    }

    /// The results, and the time spent.
    pub(in crate::capture) fn finish(self) -> (CtprofProbeSummary, Duration) {
        (self.summary, self.time)
    }
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

fn tag_of(error: StopError) -> Tag {
    use nix::errno::Errno::ESRCH;
    match error {
        StopError::Seize(ESRCH) | StopError::Interrupt(ESRCH) | StopError::Wait(ESRCH) => Tag::PidMissing,
        StopError::Seize(_) => Tag::PtraceSeize,
        StopError::Interrupt(_) => Tag::PtraceInterrupt,
        StopError::Wait(_) => Tag::Waitpid,
        StopError::Registers(_) => Tag::GetRegset,
    }
}

/// Both counters in one read, of the span from the first to the last.
fn read(target: &Target, tgid: u32, thread_pointer: u64) -> Result<(u64, u64), Tag> {
    let Offsets { allocated, deallocated } = target.offsets;
    let first = allocated.min(deallocated);
    let span = allocated.abs_diff(deallocated).checked_add(8).and_then(|span| usize::try_from(span).ok());
    let mut buffer = [0; 256];
    let buffer = span.and_then(|span| buffer.get_mut(..span)).ok_or(Tag::TlsArithmetic)?;
    let address = thread_pointer.checked_add_signed(target.distance).and_then(|start| start.checked_add(first));
    memory::read(tgid, address.ok_or(Tag::TlsArithmetic)?, buffer).map_err(|errno| match errno {
        nix::errno::Errno::ESRCH => Tag::PidMissing,
        _ => Tag::ProcessVmReadv,
    })?;
    let word = |at: u64| {
        let at = usize::try_from(at - first).ok()?;
        Some(u64::from_ne_bytes(buffer.get(at..at + 8)?.try_into().ok()?))
    };
    let (allocated, deallocated) = word(allocated).zip(word(deallocated)).ok_or(Tag::TlsArithmetic)?;
    if allocated.max(deallocated) > IMPLAUSIBLE { Err(Tag::Implausible) } else { Ok((allocated, deallocated)) }
}

/// Runs code that parses untrusted data. If it panics, only its result is lost.
fn guarded<T>(work: impl FnOnce() -> Result<T, Tag>) -> Result<T, Tag> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Tag::WorkerPanic))
}

/// Adds the counts of two workers.
pub(in crate::capture) fn merge(a: CtprofProbeSummary, b: CtprofProbeSummary) -> CtprofProbeSummary {
    let mut failures: BTreeMap<Tag, u64> = a.failures;
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
    use super::super::super::super::procfs::folder::Folder;
    use super::*;

    #[test]
    fn a_panic_costs_one_result() {
        assert_eq!(guarded(|| -> Result<(), Tag> { panic!("on purpose") }), Err(Tag::WorkerPanic));
        assert_eq!(guarded(|| Ok(7)), Ok(7));
    }

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
    fn kernel_threads_and_zombies_count_as_failed_attachments() {
        let kernel_thread = ThreadState { kernel_thread: true, ..ThreadState::default() };
        let mut zombie = ThreadState::default();
        zombie.metrics.state = Some('Z');
        for thread in [kernel_thread, zombie] {
            assert_eq!(summary(1, thread), CtprofProbeSummary::default());
        }
    }

    #[test]
    fn a_process_that_exited_meanwhile_is_a_failure() {
        let examined = CtprofProbeSummary { tgids_walked: 1, ..CtprofProbeSummary::default() };
        assert_eq!(summary(u32::MAX >> 1, ThreadState::default()), examined);
    }

    #[test]
    fn a_thread_in_uninterruptible_sleep_is_skipped_once_the_timeout_is_used_up() {
        let attachment = Attachment::new(Target { distance: 0, offsets: Offsets { allocated: 0, deallocated: 8 } });
        attachment.spend(Duration::from_secs(1));
        let mut thread = ThreadState::default();
        thread.metrics.state = Some('D');
        let files = Files::default();
        assert_eq!(Probe::new(&files).counters(&attachment, &thread), Err(Tag::Waitpid));
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
    fn a_thread_that_stops_late_stays_stopped_for_the_rest_of_the_walk() {
        let sleeper = Sleeper(std::process::Command::new("sleep").arg("100").spawn().unwrap());
        let files = Files::default();
        let mut probe = Probe::new(&files);
        let stops_late = |probe: &mut Probe<'_>| {
            // With no time to stop, one attempt in a few is late.
            (0..1000).any(|_| {
                let _ = ptrace::thread_pointer(sleeper.0.id(), Duration::ZERO, &mut probe.late);
                !probe.late.is_empty()
            })
        };
        if !stops_late(&mut probe) {
            return eprintln!("skipped: processes cannot be attached to here, or stop at once");
        }
        assert!(sleeper.is_traced());
        probe.release();
        assert!(!sleeper.is_traced() && probe.late.is_empty());

        assert!(stops_late(&mut probe));
        thread::sleep(Duration::from_millis(20));
        let dir = tempfile::tempdir().unwrap();
        let other = Process::new(2, Folder::open(dir.path()).unwrap());
        probe.finds_jemalloc(&other, &[ThreadState { kernel_thread: true, ..ThreadState::default() }]);
        assert!(!sleeper.is_traced() && probe.late.is_empty(), "any process of the walk is enough");
    }

    #[test]
    fn impossible_addresses_are_tags() {
        let target =
            |distance, allocated, deallocated| Target { distance, offsets: Offsets { allocated, deallocated } };
        let pid = std::process::id();
        assert_eq!(read(&target(i64::MIN, 0, 8), pid, 16), Err(Tag::TlsArithmetic));
        assert_eq!(read(&target(0, 0, 1 << 40), pid, 16), Err(Tag::TlsArithmetic));
        assert_eq!(read(&target(0, u64::MAX, u64::MAX - 8), pid, 16), Err(Tag::TlsArithmetic));
        assert_eq!(read(&target(0, u64::MAX, 0), pid, 16), Err(Tag::TlsArithmetic));
        assert_eq!(read(&target(0, 0, 8), pid, 16), Err(Tag::ProcessVmReadv));
        let huge = [u64::MAX, 0];
        let read = read(&target(0, 0, 8), pid, huge.as_ptr() as u64);
        assert!(matches!(read, Err(Tag::Implausible | Tag::ProcessVmReadv)), "{read:?}");
    }

    #[test]
    fn counters_are_the_two_words_at_their_offsets() {
        let words = [5u64, 6, 7, 8];
        let target = Target { distance: 8, offsets: Offsets { allocated: 16, deallocated: 0 } };
        match read(&target, std::process::id(), words.as_ptr() as u64) {
            Err(Tag::ProcessVmReadv) => eprintln!("skipped: this sandbox reads no process's memory"),
            counters => assert_eq!(counters, Ok((8, 6))),
        }
    }
}
