//! Both engines give the same values: BPF between two captures of procfs.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

use ctprof::capture::{Ask, CaptureError, Engine, Options, capture_with};
use ctprof::model::{CtprofSnapshot, METRICS, Metric, ThreadState, Value};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollTimeout};
use nix::unistd::gettid;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Key = (u32, u32, Option<u64>);

type Threads = BTreeMap<Key, ThreadState>;

/// The engines of the captures that are compared.
const ENGINES: [&str; 3] = ["procfs", "bpf", "procfs"];

fn captured(engine: Engine) -> Result<CtprofSnapshot, CaptureError> {
    let mut options = Options::default();
    options.engine = engine;
    options.jemalloc = Ask::No;
    capture_with(&options)
}

/// The threads of a capture by an engine.
fn threads(snapshot: CtprofSnapshot, engine: &str) -> Threads {
    let CtprofSnapshot { threads, capture, .. } = snapshot;
    let capture = capture.unwrap();
    assert_eq!(capture.engine, engine);
    assert!(threads.iter().all(|thread| thread.read_at_ns <= capture.walk_ns), "{engine}: {capture:?}");
    let key = |thread: &ThreadState| (thread.tgid, thread.tid, thread.start_time_clock_ticks);
    threads.into_iter().map(|thread| (key(&thread), thread)).collect()
}

/// The three captures of a thread.
struct Bracketed<'t> {
    before: &'t ThreadState,
    bpf: &'t ThreadState,
    after: &'t ThreadState,
}

impl Bracketed<'_> {
    /// Whether the thread did not run meanwhile.
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

/// Metrics that only one engine has, or that a thread changes without running.
fn is_comparable(metric: &Metric) -> bool {
    !matches!(metric.file(), "taskstats" | "jemalloc")
}

#[test]
fn bpf_gives_the_values_of_procfs() {
    let captures = || Ok([captured(Engine::Procfs)?, captured(Engine::Bpf)?, captured(Engine::Procfs)?]);
    match captures() {
        Ok([before, bpf, after]) => {
            compare([threads(before, "procfs"), threads(bpf, "bpf"), threads(after, "procfs")], 20);
        }
        Err(CaptureError::NoBpf(why)) => eprintln!("skipped: {why:?}"),
        Err(error) => panic!("{error}"),
    }
}

/// Compares captures by [`ENGINES`], of which at least this many threads did nothing meanwhile.
fn compare([before, bpf, after]: [Threads; 3], quiet: usize) {
    let bracketed = |(key, bpf)| Some(Bracketed { before: before.get(key)?, bpf, after: after.get(key)? });
    let threads: Vec<_> = bpf.iter().filter_map(bracketed).collect();
    let missing: Vec<_> = before.keys().filter(|key| after.contains_key(key) && !bpf.contains_key(key)).collect();
    assert!(missing.is_empty(), "BPF did not read {missing:?}");
    // A thread of a process that did something shows it, or started or exited meanwhile.
    let captures = [&before, &bpf, &after];
    let all: BTreeSet<_> = captures.iter().flat_map(|threads| threads.keys()).collect();
    let changed = all.into_iter().filter(|key| captures.iter().any(|threads| !threads.contains_key(key)));
    let ran = threads.iter().filter(|thread| !thread.is_quiescent()).map(|thread| thread.bpf.tgid);
    let busy: BTreeSet<_> = changed.map(|(tgid, ..)| *tgid).chain(ran).collect();
    let is_busy = |thread: &ThreadState| busy.contains(&thread.tgid);
    let quiescent: Vec<_> = threads.iter().filter(|thread| !is_busy(thread.bpf)).collect();
    assert!(quiescent.len() >= quiet, "compared {} threads", quiescent.len());

    let differences = |metric: &&Metric| {
        let metric = *metric;
        quiescent.iter().filter_map(move |thread| thread.difference(metric)).collect::<Vec<_>>()
    };
    let all: Vec<_> = METRICS.iter().filter(|metric| is_comparable(metric)).flat_map(|m| differences(&m)).collect();
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
        // A process that waits for children changes without running.
        if before.process == after.process && !is_busy(bpf) {
            assert_eq!(bpf.process, before.process, "{bpf:?}");
        }
    }
}

/// Captures of the built program, under another program that starts it; `None` prints why the test is skipped.
fn captured_under(starter: &[&str]) -> Option<[Threads; 3]> {
    let dir = tempfile::tempdir().unwrap();
    let files = ["before", "bpf", "after"].map(|name| dir.path().join(name));
    let ctprof = env!("CARGO_BIN_EXE_ctprof");
    let captures = ENGINES.iter().zip(&files).map(|(engine, file)| {
        let file = file.display();
        format!("{ctprof} -q capture --no-jemalloc --engine {engine} -o {file} || exit")
    });
    // Processes that sleep: a child, and a grandchild.
    let sleepers = "sleep 10 & (sleep 10; true) & sleep 0.2".to_owned();
    let script: Vec<_> = [sleepers].into_iter().chain(captures).collect();
    let mut script_under = Command::new(starter[0]);
    script_under.args(&starter[1..]).args(["sh", "-c", &script.join("\n")]).stdout(Stdio::null());
    let done = script_under.status();
    if !done.as_ref().is_ok_and(ExitStatus::success) {
        eprintln!("skipped: {starter:?} or BPF is not available: {done:?}");
        return None;
    }
    let mut engines = ENGINES.into_iter();
    Some(files.map(|file| {
        let mut threads = threads(CtprofSnapshot::load(&file).unwrap(), engines.next().unwrap());
        threads.retain(|_, thread| &*thread.pcomm != "ctprof");
        threads
    }))
}

#[test]
fn ids_in_a_pid_namespace_are_those_of_the_namespace() {
    for nested in [&["unshare", "--pid", "--fork", "--mount-proc"][..], &["unshare", "--pid", "--fork"]] {
        let starter = [nested, &["unshare", "--pid", "--fork", "--mount-proc"]].concat();
        let starter = if nested.len() == 4 { nested } else { &starter };
        let Some(captures) = captured_under(starter) else { return };
        let ids: BTreeSet<_> = captures[1].values().map(|thread| (thread.tgid, &*thread.comm)).collect();
        assert!(ids.contains(&(1, "sh")), "{ids:?}");
        let of_init = captures[1].values().find(|thread| thread.tgid == 1).unwrap();
        assert_eq!(of_init.process.as_ref().unwrap().ppid, Some(0), "its parent is outside");
        let sleepers = captures[1].values().filter(|thread| &*thread.comm == "sleep");
        let parents: BTreeSet<_> = sleepers.map(|thread| thread.process.as_ref().unwrap().ppid.unwrap()).collect();
        assert_eq!((parents.first(), parents.len()), (Some(&1), 2), "{parents:?}");
        compare(captures, 3);
    }
}

#[test]
fn times_in_a_time_namespace_are_those_of_the_namespace() {
    let starter = ["unshare", "--time", "--boottime", "1000", "--monotonic", "-100", "--fork"];
    let Some(captures) = captured_under(&starter) else { return };
    compare(captures, 3);
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
