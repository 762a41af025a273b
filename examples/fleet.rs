//! Makes windows of a fleet of hosts from a snapshot, to try queries on: `fleet SNAPSHOT DIRECTORY [HOSTS [DAYS
//! [WINDOWS [THREADS]]]]`.
//!
//! Every host runs the services of [`SERVICES`], and the threads of the snapshot beside them. All values follow from the
//! arguments. Some hosts, one service and one kernel have a problem: see the constants.
#![allow(clippy::unwrap_used, reason = "an example")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ctprof::model::{
    Accounting, BusySource, Errno, ExitRecords, Limit, LimitBytes, METRICS, SourceFile, ThreadSpan, Value, WindowInfo,
    WindowRule,
};
use ctprof::{CtprofSnapshot, ThreadState};
use rayon::prelude::*;
use serde_json::json;

/// Threads wait twice as long as on the day before.
pub(crate) const DOUBLED_HOST: usize = 3;
/// A process that does not belong to the services takes the CPUs.
pub(crate) const NOISY_HOST: usize = 7;
/// Captured without privileges.
pub(crate) const UNPRIVILEGED_HOST: usize = 5;
/// Much CPU time is not that of any thread in the window.
pub(crate) const UNEXPLAINED_HOST: usize = 4;
/// A cgroup is close to its limit of memory.
pub(crate) const FULL_HOST: usize = 2;
/// The quota of a pod runs out in 2 of 5 periods.
pub(crate) const THROTTLED_HOST: usize = 6;
/// The kernel on which threads wait longer.
pub(crate) const SLOW_KERNEL: &str = "7.3.1";
/// The kernels of the hosts, in turn.
const KERNELS: [&str; 3] = ["6.12.9", "6.18.2", SLOW_KERNEL];
/// The process that allocates more than it frees.
pub(crate) const LEAKING_PROCESS: &str = "cache";

/// A service: a process with a pool of threads, and what a thread does in a second.
struct Service {
    process: &'static str,
    pool: &'static str,
    /// Threads on a small host.
    threads: usize,
    run: Duration,
    /// Time waiting for a CPU, in percent of the time running.
    wait_percent: u64,
    allocated: u64,
    written: u64,
}

const SERVICES: [Service; 4] = [
    service("api", "http-worker", 8, 60, 20, 4 << 20, 1 << 10),
    service("cache", "evict", 4, 10, 5, 1 << 20, 0),
    service("logger", "flush", 1, 5, 5, 64 << 10, 8 << 20),
    service("batch", "job", 4, 40, 10, 2 << 20, 1 << 20),
];

const fn service(
    process: &'static str,
    pool: &'static str,
    threads: usize,
    run_ms: u64,
    wait_percent: u64,
    allocated: u64,
    written: u64,
) -> Service {
    Service { process, pool, threads, run: Duration::from_millis(run_ms), wait_percent, allocated, written }
}

/// The size of a fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fleet {
    /// Hosts.
    pub(crate) hosts: usize,
    /// Days, in UTC.
    pub(crate) days: usize,
    /// Windows per host and day.
    pub(crate) windows: usize,
    /// Threads per window.
    pub(crate) threads: usize,
}

/// Length of a window in seconds.
const SECONDS: u64 = 10;
/// 2026-11-20, in nanoseconds since 1970.
const START_NS: u64 = 1_795_132_800 * SECOND_NS;
const SECOND_NS: u64 = 1_000_000_000;
/// Between two samples.
const PERIOD_NS: u64 = 20_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;

impl Fleet {
    /// Writes the windows into `directory`, and returns their paths.
    pub(crate) fn write(self, template: &CtprofSnapshot, directory: &Path) -> Vec<PathBuf> {
        let all = (0..self.hosts * self.days * self.windows).into_par_iter();
        let write = |number: usize| {
            let (host, day) = (number % self.hosts, number / self.hosts % self.days);
            let window = number / self.hosts / self.days;
            let moment = Moment { host, day, window, is_last_day: day + 1 == self.days };
            let path = directory.join(format!("host-{host:02}-{day}-{window:03}.ctprof.zst"));
            self.window(template, moment).write(&path).unwrap();
            path
        };
        all.map(write).collect()
    }

    fn window(self, template: &CtprofSnapshot, moment: Moment) -> CtprofSnapshot {
        let mut snapshot = template.clone();
        let started = START_NS + as_u64(moment.day) * DAY_NS + DAY_NS / as_u64(self.windows) * as_u64(moment.window);
        snapshot.head.format_version = Some(2);
        snapshot.head.captured_at_unix_ns = started + SECONDS * SECOND_NS;
        let host = snapshot.head.host.get_or_insert_default();
        host.hostname = Some(format!("host-{:02}", moment.host));
        host.boot_id = Some(format!("00000000-0000-4000-8000-{:012}", moment.host));
        host.kernel_release = Some(KERNELS[moment.host % KERNELS.len()].to_owned());
        snapshot.threads = self.threads(&template.threads, moment);
        add_cgroups(&mut snapshot, moment);
        add_window(&mut snapshot, started, moment);
        add_reasons(&mut snapshot, moment);
        if moment.host == UNPRIVILEGED_HOST {
            deny(&mut snapshot);
        }
        snapshot
    }

    fn threads(self, template: &[ThreadState], moment: Moment) -> Vec<ThreadState> {
        let mut random = Random(as_u64(moment.host) << 40 | as_u64(moment.day) << 20 | as_u64(moment.window));
        let mut threads = Vec::with_capacity(self.threads);
        let busiest = template.iter().max_by_key(|thread| thread.metrics.run_time_ns).unwrap();
        for (number, service) in (1..).zip(&SERVICES) {
            let tgid = number * 1_000_000;
            for at in 0..service.threads * (self.threads / 64).max(1) {
                let tid = tgid + u32::try_from(at).unwrap();
                threads.push(service.thread(busiest, (tgid, tid, at), moment, &mut random));
            }
        }
        for (at, thread) in template.iter().cycle().enumerate() {
            if threads.len() >= self.threads {
                break;
            }
            let offset = u32::try_from(at / template.len()).unwrap() * 10_000;
            let mut thread = scaled(thread, &mut random);
            (thread.tgid, thread.tid) = (thread.tgid + offset, thread.tid + offset);
            threads.push(thread);
        }
        threads.sort_by_key(|thread| (thread.tgid, thread.tid));
        threads
    }
}

/// A host at a time.
#[derive(Clone, Copy, Debug)]
struct Moment {
    host: usize,
    day: usize,
    window: usize,
    is_last_day: bool,
}

impl Service {
    fn thread(
        &self,
        template: &ThreadState,
        (tgid, tid, at): (u32, u32, usize),
        moment: Moment,
        random: &mut Random,
    ) -> ThreadState {
        let mut thread = scaled(template, random);
        (thread.tgid, thread.tid) = (tgid, tid);
        thread.pcomm = self.process.into();
        thread.comm = format!("{}-{at}", self.pool).into();
        thread.cgroup = Some(format!("/app.slice/{}.service", self.process).into());
        thread.kernel_thread = false;
        let noise = if moment.host == NOISY_HOST && self.process == "batch" { 10 } else { 1 };
        let run = random.about(u64::try_from(self.run.as_nanos()).unwrap() * SECONDS * noise);
        let mut wait = run / noise * self.wait_percent / 100;
        wait *= if moment.host % KERNELS.len() == 2 && self.process == "api" { 3 } else { 1 };
        wait *= if moment.host == NOISY_HOST { 4 } else { 1 };
        wait = if moment.host == DOUBLED_HOST && moment.is_last_day { wait * 5 / 2 } else { wait };
        let allocated = random.about(self.allocated * SECONDS);
        let kept_percent = if self.process == LEAKING_PROCESS { 40 } else { 0 };
        let metrics = &mut thread.metrics;
        metrics.run_time_ns = Some(run.into());
        metrics.wait_time_ns = Some(wait.into());
        metrics.nonvoluntary_csw = Some((wait / 1_000_000).into());
        metrics.allocated_bytes = Some(allocated.into());
        metrics.deallocated_bytes = Some((allocated - allocated * kept_percent / 100).into());
        metrics.write_bytes = Some(random.about(self.written * SECONDS).into());
        thread
    }
}

/// A thread with a part of its counters, as the increase of a window.
fn scaled(template: &ThreadState, random: &mut Random) -> ThreadState {
    let mut thread = template.clone();
    for metric in METRICS.iter().filter(|metric| metric.window == WindowRule::Increase) {
        if let Some(Value::Unsigned(total)) = metric.get(&template.metrics) {
            metric.set(&mut thread.metrics, Value::Unsigned(random.about(total / 10))).unwrap();
        }
    }
    thread.process = None;
    thread.process_after = None;
    thread.span = Some(ThreadSpan { alive_ns: SECONDS * SECOND_NS, ..ThreadSpan::default() });
    thread
}

fn add_cgroups(snapshot: &mut CtprofSnapshot, moment: Moment) {
    let template =
        snapshot.head.cgroup_stats.values().max_by_key(|stats| stats.memory.stat.as_ref().map(BTreeMap::len));
    let template = template.cloned().unwrap_or_default();
    for service in &SERVICES {
        let mut stats = template.clone();
        let limit = 1 << 30;
        stats.memory.max = Some(LimitBytes::from(Limit::Number(limit)));
        let is_full = moment.host == FULL_HOST && service.process == LEAKING_PROCESS;
        stats.memory.current = Some((limit / 100 * if is_full { 97 } else { 40 }).into());
        let is_throttled = moment.host == THROTTLED_HOST && service.process == "api";
        stats.cpu.nr_periods = Some(100.into());
        stats.cpu.nr_throttled = Some(if is_throttled { 40 } else { 0 }.into());
        let path = format!("/app.slice/{}.service", service.process);
        snapshot.head.cgroup_stats.insert(path.clone(), stats);
        let container = json!({"name": "main", "pod": format!("{}-x2k4p", service.process), "namespace": "shop"});
        snapshot.head.containers.insert(path, serde_json::from_value(container).unwrap());
    }
}

fn add_window(snapshot: &mut CtprofSnapshot, started: u64, moment: Moment) {
    let run = snapshot.threads.iter().filter_map(|thread| Some(thread.metrics.run_time_ns?.number()));
    let explained_ns = run.sum::<u64>();
    let mut cpu = Accounting::default();
    cpu.source = BusySource::Schedstat;
    cpu.cpus = 2;
    cpu.explained_ns = explained_ns;
    cpu.busy_ns = explained_ns * 100 / if moment.host == UNEXPLAINED_HOST { 70 } else { 99 };
    let mut exits = ExitRecords::default();
    exits.source = "bpf".to_owned();
    let mut window = WindowInfo::default();
    window.started_at_unix_ns = started;
    window.duration_ns = SECONDS * SECOND_NS;
    window.process_counters = true;
    window.exit_records = Some(exits);
    window.cpu = Some(cpu);
    snapshot.head.window = Some(window);
}

/// Loggers sync, and other services take CPUs from the API: most on one host.
fn add_reasons(snapshot: &mut CtprofSnapshot, moment: Moment) {
    let by = |process: &str| json!({"class": "wait", "by": {"pcomm": process, "comm": process}});
    let sync = json!({"class": "block", "entry": "fdatasync", "functions": ["submit_bio_wait"]});
    let reasons = json!({
        "sampling": {"source": "bpf", "period_ns": PERIOD_NS, "samples": 70},
        "threads": [{"pcomm": "api", "comm": "http-worker"}, {"pcomm": "logger", "comm": "flush"}],
        "reasons": [by("batch"), by("cache"), sync],
        "times": if moment.host == NOISY_HOST {
            [[0, 0, 30 * PERIOD_NS, 30], [0, 1, 10 * PERIOD_NS, 10], [1, 2, 30 * PERIOD_NS, 30]]
        } else {
            [[0, 0, 6 * PERIOD_NS, 6], [0, 1, 6 * PERIOD_NS, 6], [1, 2, 30 * PERIOD_NS, 30]]
        },
    });
    snapshot.head.reasons = Some(serde_json::from_value(reasons).unwrap());
}

/// Removes what an unprivileged capture cannot read.
fn deny(snapshot: &mut CtprofSnapshot) {
    let mut denied = 0;
    for thread in &mut snapshot.threads {
        for metric in METRICS.iter().filter(|metric| metric.file() == "io") {
            metric.clear(&mut thread.metrics);
        }
        denied += 1;
    }
    let summary = snapshot.head.parse_summary.get_or_insert_default();
    summary.read_failures_by_errno = [(SourceFile::Io, [(Errno::EACCES, denied)].into())].into();
    snapshot.head.parse_summary = Some(std::mem::take(summary).concluded());
    if let Some(capture) = &mut snapshot.head.capture {
        capture.euid = 1000;
        capture.capabilities.clear();
    }
}

/// Numbers that look random and are the same in each run: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number up to 5% below or above.
    fn about(&mut self, number: u64) -> u64 {
        number - number / 20 + self.next() % (number / 10 + 1)
    }
}

fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap()
}

#[allow(dead_code, reason = "tests and benchmarks include this file")]
fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(template), Some(directory)) = (args.next(), args.next()) else {
        eprintln!("usage: fleet SNAPSHOT DIRECTORY [HOSTS [DAYS [WINDOWS [THREADS]]]]");
        std::process::exit(2);
    };
    let mut number = |default| args.next().map_or(default, |text| text.parse().unwrap());
    let fleet = Fleet { hosts: number(12), days: number(2), windows: number(3), threads: number(100) };
    let template = CtprofSnapshot::load(Path::new(&template)).unwrap();
    std::fs::create_dir_all(&directory).unwrap();
    println!("{} windows", fleet.write(&template, Path::new(&directory)).len());
}
