//! Captures of this process's own threads, which do known amounts of work.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::fs::{self, File};
use std::io::Write;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ctprof::model::{MonotonicCount, MonotonicNs};
use ctprof::{CtprofSnapshot, ThreadState, capture_pid};
use nix::unistd::gettid;

/// A thread that does some work and then waits until it is dropped.
struct Worker {
    tid: u32,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn after(name: &str, work: impl FnOnce() + Send + 'static) -> Self {
        let (done, is_done) = channel();
        let (end, is_end): (_, Receiver<()>) = channel();
        let body = move || {
            work();
            done.send(u32::try_from(gettid().as_raw()).unwrap()).unwrap();
            let _ = is_end.recv();
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body).unwrap();
        let tid = is_done.recv().unwrap();
        wait_until_asleep(tid);
        Self { tid, end: Some(end), thread: Some(thread) }
    }

    fn state(&self) -> ThreadState {
        thread_of(&capture_pid(std::process::id()).unwrap(), self.tid)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end.take();
        let _ = self.thread.take().unwrap().join();
    }
}

fn wait_until_asleep(tid: u32) {
    let stat = || fs::read(format!("/proc/self/task/{tid}/stat")).unwrap();
    let asleep = || stat().windows(4).any(|text| text == b") S ");
    while !asleep() {
        thread::sleep(Duration::from_millis(1));
    }
}

fn thread_of(snapshot: &CtprofSnapshot, tid: u32) -> ThreadState {
    snapshot.threads.iter().find(|thread| thread.tid == tid).unwrap().clone()
}

#[test]
fn io_is_counted_to_the_byte() {
    let worker = Worker::after("writer", || {
        let mut null = File::create("/dev/null").unwrap();
        (0..10).for_each(|_| null.write_all(&[0; 1000]).unwrap());
    });
    let metrics = worker.state().metrics;
    if metrics.wchar.is_none() {
        return eprintln!("skipped: this kernel or sandbox has no /proc/<pid>/io");
    }
    assert_eq!((metrics.wchar, metrics.syscw), (Some(10_000.into()), Some(10.into())));
}

#[test]
fn sleeps_are_voluntary_switches() {
    let worker = Worker::after("sleeper", || (0..50).for_each(|_| thread::sleep(Duration::from_millis(1))));
    let metrics = worker.state().metrics;
    assert!(metrics.voluntary_csw >= Some(MonotonicCount(50)), "{:?}", metrics.voluntary_csw);
    assert!(metrics.timeslices.is_none() || metrics.timeslices >= Some(MonotonicCount(50)), "{:?}", metrics.timeslices);
    assert_eq!((metrics.state, metrics.policy.unwrap().0.as_ref()), (Some('S'), "SCHED_OTHER"));
}

#[test]
fn cpu_time_is_counted() {
    let burn = || {
        let begin = cpu_time();
        while cpu_time() - begin < Duration::from_millis(50) {}
    };
    let metrics = Worker::after("burner", burn).state().metrics;
    assert!(metrics.run_time_ns.is_none() || metrics.run_time_ns >= Some(MonotonicNs(50_000_000)));
    let ticks = metrics.utime_clock_ticks.unwrap().0 + metrics.stime_clock_ticks.unwrap().0;
    assert!(ticks >= 2, "{ticks} ticks");
}

fn cpu_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

#[test]
fn affinity_is_the_threads_own() {
    let pin = || {
        let mut one = nix::sched::CpuSet::new();
        one.set(0).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &one).unwrap();
    };
    let metrics = Worker::after("pinned", pin).state().metrics;
    assert_eq!((metrics.cpu_affinity.unwrap().0, metrics.processor), (vec![0], Some(0.into())));
}

#[test]
fn names_that_break_parsers_are_kept_whole() {
    for (name, expected) in [
        (&b"a) R 1 (b"[..], "a) R 1 (b"),
        (b"caf\xc3", "caf\\xc3"),
        (b"x\nwait_max:9", "x\nwait_max:9"),
        (b"\x1b[31mred", "\x1b[31mred"),
        (b"back\\slash", "back\\slash"),
        (b" ", " "),
        (b"fifteen-bytes-x", "fifteen-bytes-x"),
    ] {
        let rename = move || fs::write(format!("/proc/self/task/{}/comm", gettid()), name).unwrap();
        let worker = Worker::after("before", rename);
        let state = worker.state();
        assert_eq!(&*state.comm, expected);
        assert!(state.metrics.nr_migrations.is_some() && state.metrics.minflt.is_some(), "{expected:?}");
        assert_ne!(state.metrics.wait_max.map(|max| max.0), Some(9));
    }
}

#[test]
fn a_process_name_of_15_bytes_is_complete_only_if_its_program_has_that_name() {
    let dir = tempfile::tempdir().unwrap();
    for (program, complete) in [("fifteen-bytes-x", true), ("fifteen-bytes-xy", false), ("short", false)] {
        let path = dir.path().join(program);
        fs::copy("/bin/sleep", &path).unwrap();
        let mut sleeper = Command::new(&path).arg("100").spawn().unwrap();
        let snapshot = capture_pid(sleeper.id());
        sleeper.kill().and_then(|()| sleeper.wait()).unwrap();
        let thread = &snapshot.unwrap().threads[0];
        assert_eq!((&*thread.comm, thread.name_complete), (&program[..program.len().min(15)], complete));
    }
}

#[test]
fn a_thread_is_known_by_its_process_and_its_start() {
    let worker = Worker::after("a-worker", || ());
    let snapshot = capture_pid(std::process::id()).unwrap();
    let (leader, worker) = (thread_of(&snapshot, std::process::id()), thread_of(&snapshot, worker.tid));
    assert_eq!((worker.tgid, &worker.pcomm), (leader.tid, &leader.comm));
    assert!(worker.start_time_clock_ticks >= leader.start_time_clock_ticks);
    let threads = snapshot.threads.iter().filter(|thread| thread.tgid == leader.tid).count();
    assert!(leader.metrics.nr_threads.unwrap().0.abs_diff(u64::try_from(threads).unwrap()) <= 8);
    assert!(leader.smaps_rollup_bytes().any(|(key, bytes)| key == "Rss" && bytes > 4096));
}

#[test]
fn a_thread_asked_for_as_a_process_is_an_error_that_names_the_process() {
    let worker = Worker::after("no-process", || ());
    let error = capture_pid(worker.tid).unwrap_err().to_string();
    let pid = std::process::id();
    assert_eq!(error, format!("{} is a thread of process {pid}: ask for --pid {pid}", worker.tid));
}

#[test]
fn threads_that_start_and_exit_do_not_fail_a_capture() {
    let begin = Instant::now();
    let churn = thread::spawn(move || {
        while begin.elapsed() < Duration::from_millis(400) {
            let threads: Vec<_> = (0..8).map(|_| thread::spawn(|| ())).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
    while begin.elapsed() < Duration::from_millis(300) {
        let snapshot = capture_pid(std::process::id()).unwrap();
        let summary = snapshot.parse_summary.unwrap();
        let kept = u64::try_from(snapshot.threads.len()).unwrap();
        assert_eq!(kept + summary.ghosts, summary.tids_walked);
        assert_eq!(summary.read_failures_by_file.get(&"stat".into()), None);
        assert!(!summary.kernel_config_dominant);
    }
    churn.join().unwrap();
}

#[test]
fn a_whole_host_has_its_first_process_and_this_one() {
    let snapshot = ctprof::capture().unwrap();
    assert!(snapshot.threads.is_sorted_by_key(|thread| (thread.tgid, thread.tid)));
    for pid in [1, std::process::id()] {
        assert!(snapshot.threads.iter().any(|thread| thread.tgid == pid), "{pid}");
    }
    let host = snapshot.host.unwrap();
    assert!(host.boot_id.is_some() && host.uptime_ns > Some(0) && host.kernel_release.is_some());
    let cost = snapshot.capture.unwrap().self_cost.unwrap();
    assert!(cost.peak_rss_bytes > Some(0) && cost.system_ns.is_some());
}
