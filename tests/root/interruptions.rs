//! Threads that wait in system calls are not interrupted by captures.

use crate::support::{Missing, skipped};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ctprof::model::CtprofSnapshot;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use nix::unistd::gettid;

use crate::alone;

/// How often a system call of a waiting thread was interrupted. Stopping a thread interrupts it (signal(7)).
static INTERRUPTED: AtomicU32 = AtomicU32::new(0);

fn wait_for_events() {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
    loop {
        assert_eq!(epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::NONE), Err(Errno::EINTR));
        INTERRUPTED.fetch_add(1, Ordering::Relaxed);
    }
}

fn sleep() {
    loop {
        let hour = TimeSpec::from_duration(Duration::from_secs(3600));
        let slept = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::empty(), &hour);
        assert_eq!(slept, Err(Errno::EINTR));
        INTERRUPTED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits for a futex.
fn park() {
    loop {
        thread::park();
        INTERRUPTED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Threads that allocate and then wait for ever, by id.
fn waiting() -> BTreeMap<u32, &'static str> {
    let (sender, receiver) = mpsc::channel();
    let waits: [(_, fn()); 3] = [("epoll", wait_for_events), ("sleep", sleep), ("futex", park)];
    for &(name, wait) in &waits {
        let sender = sender.clone();
        thread::spawn(move || {
            let allocated = vec![7; 100_000];
            sender.send((gettid().as_raw().unsigned_abs(), name)).unwrap();
            wait();
            drop(allocated);
        });
    }
    receiver.iter().take(waits.len()).collect()
}

/// How often a thread has run, and how often it has waited.
fn runs(tid: u32) -> String {
    let read = |file| fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).unwrap();
    let (schedstat, status) = (read("schedstat"), read("status"));
    let is_switches = |line: &&str| line.contains("ctxt_switches");
    [&*schedstat].into_iter().chain(status.lines().filter(is_switches)).collect::<Vec<_>>().join(" ")
}

/// How often a thread has run, once it waits.
fn at_rest(tid: u32) -> String {
    let begin = Instant::now();
    loop {
        let before = runs(tid);
        thread::sleep(Duration::from_millis(20));
        if before == runs(tid) {
            return before;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{tid} does not come to rest");
    }
}

/// How often waiting threads were interrupted by captures, which of them ran meanwhile, and of how many the
/// heap counters were read; `None` prints why nothing was captured.
fn interruptions(engine: &str, captures: u32) -> Option<(u32, Vec<&'static str>, usize)> {
    let waiting = waiting();
    let before: BTreeMap<_, _> = waiting.keys().map(|tid| (tid, at_rest(*tid))).collect();
    let interrupted = INTERRUPTED.load(Ordering::Relaxed);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.zst");
    for _ in 0..captures {
        let mut capture = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        capture.args(["capture", "--quiet", "--engine", engine, "--output"]).arg(&file);
        let output = capture.output().unwrap();
        if !output.status.success() {
            skipped(Missing::Privilege(String::from_utf8_lossy(&output.stderr)));
            return None;
        }
    }
    let ran = waiting.iter().filter(|(tid, _)| runs(**tid) != before[tid]).map(|(_, name)| *name).collect();
    let snapshot = CtprofSnapshot::load(&file).unwrap();
    let own = snapshot.threads.iter().filter(|thread| waiting.contains_key(&thread.tid));
    let probed =
        own.filter(|thread| thread.metrics.allocated_bytes.is_some_and(|bytes| bytes.number() >= 100_000)).count();
    Some((INTERRUPTED.load(Ordering::Relaxed) - interrupted, ran, probed))
}

#[test]
fn heap_counters_are_read_and_no_waiting_thread_is_interrupted() {
    let _alone = alone();
    for (engine, captures) in [("bpf", 20), ("procfs", 10)] {
        // Another process may attach to the threads, but not each time.
        for attempt in 1.. {
            let Some(seen) = interruptions(engine, captures) else { return };
            if seen == (0, vec![], 3) {
                break;
            }
            eprintln!("{engine}, attempt {attempt}: {seen:?}");
            assert!(attempt < 3, "{engine}: interruptions, threads that ran, heap counters read: {seen:?}");
        }
    }
}
