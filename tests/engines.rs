//! Both engines give the same values: BPF between two captures of procfs.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

use ctprof::capture::{CaptureError, Engine, Options, capture_with};
use ctprof::model::{CtprofSnapshot, METRICS, Metric, PROCESS, ThreadState, Value};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollTimeout};
use nix::unistd::gettid;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Key = (u32, u32, Option<u64>);

fn captured(engine: Engine) -> Result<BTreeMap<Key, ThreadState>, CaptureError> {
    let mut options = Options::default();
    options.engine = engine;
    let CtprofSnapshot { threads, capture, .. } = capture_with(&options)?;
    assert_eq!(capture.unwrap().engine, if engine == Engine::Bpf { "bpf" } else { "procfs" });
    let key = |thread: &ThreadState| (thread.tgid, thread.tid, thread.start_time_clock_ticks);
    Ok(threads.into_iter().map(|thread| (key(&thread), thread)).collect())
}

/// The three captures of a thread.
struct Bracketed<'t> {
    before: &'t ThreadState,
    bpf: &'t ThreadState,
    after: &'t ThreadState,
}

impl Bracketed<'_> {
    /// Whether the thread did nothing meanwhile.
    fn is_quiescent(&self) -> bool {
        let work = |thread: &ThreadState| (thread.metrics.run_time_ns, thread.metrics.timeslices);
        work(self.before) == work(self.after)
    }

    /// A value that procfs gave twice and BPF otherwise, or a counter outside of the two of procfs.
    fn difference(&self, metric: &Metric) -> Option<String> {
        let [before, bpf, after] = [self.before, self.bpf, self.after].map(|thread| metric.get(&thread.metrics));
        let differs = if before == after {
            bpf != before
        } else if let (Some(Value::Unsigned(before)), Some(Value::Unsigned(bpf)), Some(Value::Unsigned(after))) =
            (&before, &bpf, &after)
        {
            before < after && !(before..=after).contains(&bpf)
        } else {
            before.is_some() && after.is_some() && bpf.is_none()
        };
        let id = (self.bpf.tgid, self.bpf.tid, &self.bpf.comm);
        differs.then(|| format!("{metric:?} of {id:?}: {before:?}, by BPF {bpf:?}, then {after:?}"))
    }
}

#[test]
fn bpf_gives_the_values_of_procfs() {
    let captures = || Ok([captured(Engine::Procfs)?, captured(Engine::Bpf)?, captured(Engine::Procfs)?]);
    let [before, bpf, after] = match captures() {
        Ok(captures) => captures,
        Err(CaptureError::NoBpf(why)) => return eprintln!("skipped: {why:?}"),
        Err(error) => panic!("{error}"),
    };
    let bracketed = |(key, bpf)| Some(Bracketed { before: before.get(key)?, bpf, after: after.get(key)? });
    let threads: Vec<_> = bpf.iter().filter_map(bracketed).collect();
    let quiescent: Vec<_> = threads.iter().filter(|thread| thread.is_quiescent()).collect();
    assert!(quiescent.len() >= 20, "compared {} threads", quiescent.len());
    assert!(threads.len() * 10 >= before.len() * 9, "{} of {} threads", threads.len(), before.len());

    let differences = |metric: &&Metric| {
        let metric = *metric;
        quiescent.iter().filter_map(move |thread| thread.difference(metric)).collect::<Vec<_>>()
    };
    let all: Vec<_> = METRICS.iter().filter(|metric| metric.sources.bpf.is_some()).flat_map(|m| differences(&m)).collect();
    assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
    let compared = METRICS.iter().filter(|metric| quiescent.iter().any(|t| metric.get(&t.bpf.metrics).is_some()));
    assert!(compared.count() >= 20, "most metrics have no value");

    for Bracketed { before, bpf, after } in &threads {
        assert_eq!(bpf.kernel_thread, before.kernel_thread, "{bpf:?}");
        if before.cgroup == after.cgroup {
            assert_eq!(bpf.cgroup, before.cgroup, "{bpf:?}");
        }
        // Workers of the kernel get the name of what they do.
        let names = |thread: &ThreadState| (thread.pcomm.clone(), thread.comm.clone(), thread.name_complete);
        if names(before) == names(after) && !before.comm.starts_with("kworker/") {
            assert_eq!(names(bpf), names(before), "{bpf:?}");
        }
        let [Some(before), Some(bpf), Some(after)] = [&before.process, &bpf.process, &after.process] else {
            assert_eq!(before.process.is_some(), bpf.process.is_some(), "{bpf:?}");
            continue;
        };
        assert!(before.ppid != after.ppid || bpf.ppid == before.ppid);
        for counter in PROCESS {
            let [before, bpf, after] = [before, bpf, after].map(|process| counter.get(process));
            assert!(before != after || bpf == before, "{}: {before:?}, {bpf:?}, {after:?}", counter.name);
        }
    }
}

/// How often epoll_wait(2) of a thread was interrupted during captures of this process, and whether the thread's heap
/// counters were read. Stopping a thread interrupts it (signal(7)).
fn interruptions(engine: &str) -> Option<(u32, bool)> {
    static INTERRUPTED: AtomicU32 = AtomicU32::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let allocated = vec![7; 100_000];
        sender.send(gettid().as_raw().unsigned_abs()).unwrap();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
        loop {
            let waited = epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::NONE);
            assert_eq!(waited, Err(Errno::EINTR), "{}", allocated.len());
            INTERRUPTED.fetch_add(1, Ordering::Relaxed);
        }
    });
    let tid = receiver.recv().unwrap();
    let before = INTERRUPTED.load(Ordering::Relaxed);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.zst");
    let pid = std::process::id().to_string();
    for _ in 0..20 {
        let mut capture = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        capture.args(["capture", "--quiet", "--engine", engine, "--pid", &pid, "--output"]).arg(&file);
        let output = capture.output().unwrap();
        if !output.status.success() {
            eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
    }
    let snapshot = CtprofSnapshot::load(&file).unwrap();
    let thread = snapshot.threads.iter().find(|thread| thread.tid == tid).unwrap();
    let is_probed = thread.metrics.allocated_bytes.is_some_and(|bytes| bytes.0 >= 100_000);
    Some((INTERRUPTED.load(Ordering::Relaxed) - before, is_probed))
}

#[test]
fn bpf_reads_heap_counters_and_interrupts_no_thread() {
    if let Some(with_bpf) = interruptions("bpf") {
        assert_eq!(with_bpf, (0, true));
        eprintln!("procfs, for comparison: {:?}", interruptions("procfs"));
    }
}
