//! What a report says of threads beside an exact trace of the same seconds, by the kernel's own tracer.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ctprof::CtprofSnapshot;
use syscalls::Sysno;

use crate::alone::alone;
use crate::example::example;
use crate::root::histories::compile;
use crate::support::{Missing, skipped};

/// Seconds, or nanoseconds, by the name of a thread and by what it did: `run`, `wait`, or a sleep with its system call.
type Times = BTreeMap<String, BTreeMap<String, f64>>;

/// An instance of the kernel's tracer, until this is dropped.
struct Tracer(PathBuf);

/// Where the kernel's tracer is. A host without debugfs has an empty directory until it is mounted.
const TRACEFS: &str = "/sys/kernel/tracing";

impl Tracer {
    /// Of threads with such a name. `None` prints why the test is skipped.
    fn start(name: &str) -> Option<Self> {
        let instances = Path::new(TRACEFS).join("instances");
        if !instances.exists() {
            // What fails is said below.
            let _ = Command::new("mount").args(["-t", "tracefs", "nodev", TRACEFS]).status();
        }
        let instance = instances.join(format!("ctprof-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&instance) {
            skipped(Missing::Kernel(format!("an instance of tracefs: {error}")));
            return None;
        }
        let tracer = Self(instance);
        tracer.set("buffer_size_kb", "100000");
        tracer.set("trace_clock", "mono");
        let switches = format!("prev_comm ~ \"{name}*\" || next_comm ~ \"{name}*\"");
        let events = [
            ("sched/sched_switch", switches),
            ("sched/sched_wakeup", format!("comm ~ \"{name}*\"")),
            ("sched/sched_wakeup_new", format!("comm ~ \"{name}*\"")),
            ("raw_syscalls", format!("comm ~ \"{name}*\"")),
        ];
        for (event, filter) in events {
            tracer.set(&format!("events/{event}/filter"), &filter);
            tracer.set(&format!("events/{event}/enable"), "1");
        }
        Some(tracer)
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    /// What the threads did.
    fn times(&self) -> Times {
        self.set("tracing_on", "0");
        for cpu in fs::read_dir(self.0.join("per_cpu")).unwrap() {
            let lost = fs::read_to_string(cpu.unwrap().path().join("stats")).unwrap();
            assert!(lost.contains("\noverrun: 0\n"), "{lost}");
        }
        let trace = fs::read_to_string(self.0.join("trace")).unwrap();
        let mut threads = TracedThreads::default();
        trace.lines().filter(|line| !line.starts_with('#')).for_each(|line| threads.event(line));
        threads.times()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// What threads do, and did.
#[derive(Default)]
struct TracedThreads {
    names: HashMap<u32, String>,
    calls: HashMap<u32, String>,
    doing: HashMap<u32, (f64, String)>,
    times: HashMap<u32, BTreeMap<String, f64>>,
}

impl TracedThreads {
    /// A line of `trace`: `comm-tid [cpu] flags seconds: event: fields`.
    fn event(&mut self, line: &str) {
        let (head, rest) = line.split_once(" [").expect(line);
        let current = head.rsplit_once('-').and_then(|(_, tid)| tid.trim().parse().ok()).expect(line);
        let [place, event, fields] = rest.splitn(3, ": ").collect::<Vec<_>>().try_into().expect(line);
        let at: f64 = place.rsplit(' ').next().and_then(|at| at.parse().ok()).expect(line);
        // Names may hold anything but the name of the field behind.
        let field = |name: &str, next: &str| {
            let value = fields.split_once(&format!("{name}=")).expect(line).1;
            value.split_once(&format!(" {next}=")).map_or(value, |(value, _)| value).to_owned()
        };
        let id = |name, next| field(name, next).split(' ').next().and_then(|id| id.parse().ok()).expect(line);
        // Some hosts trace no switch from an idle thread.
        if self.doing.get(&current).is_some_and(|(_, doing)| doing == "wait") {
            self.change(current, at, Some("run"));
        }
        match event {
            "sys_enter" => {
                let number = fields.strip_prefix("NR ").and_then(|fields| fields.split(' ').next()?.parse().ok());
                let call = number.and_then(Sysno::new).map_or("unknown", |call| call.name());
                self.calls.insert(current, call.to_owned());
            }
            "sys_exit" => drop(self.calls.remove(&current)),
            "sched_switch" => {
                let (before, next) = (id("prev_pid", "prev_prio"), id("next_pid", "next_prio"));
                self.names.insert(before, field("prev_comm", "prev_pid"));
                let call = self.calls.get(&before).map_or("page fault", String::as_str);
                let doing = match field("prev_state", "").chars().next() {
                    Some('R') => "wait".to_owned(),
                    Some('D') => format!("block {call}"),
                    _ => format!("sleep {call}"),
                };
                self.change(before, at, Some(&doing));
                self.names.insert(next, field("next_comm", "next_pid"));
                self.change(next, at, Some("run"));
            }
            _ => {
                let tid = id("pid", "prio");
                if self.doing.get(&tid).is_none_or(|(_, doing)| doing != "run" && doing != "wait") {
                    self.change(tid, at, Some("wait"));
                }
            }
        }
    }

    fn change(&mut self, tid: u32, at: f64, doing: Option<&str>) {
        if let Some((since, before)) = self.doing.remove(&tid) {
            *self.times.entry(tid).or_default().entry(before).or_default() += at - since;
        }
        self.doing.extend(doing.map(|doing| (tid, (at, doing.to_owned()))));
    }

    /// By the name that each thread had in the end.
    fn times(self) -> Times {
        let mut all = Times::new();
        for (tid, times) in self.times {
            let of_name = all.entry(self.names[&tid].clone()).or_default();
            times.into_iter().for_each(|(what, time)| *of_name.entry(what).or_default() += time);
        }
        all
    }
}

/// Divides the time from a wake-up to the end of a turn by the kernel's own run time: some hosts trace no switch from an idle
/// thread.
fn divide(times: &mut Times, window: &CtprofSnapshot) {
    for (comm, of_name) in times {
        let threads = window.threads.iter().filter(|thread| *thread.comm == **comm);
        let counted: u64 = threads.filter_map(|thread| thread.metrics.run_time_ns).map(u64::from).sum();
        let turns: f64 = ["run", "wait"].iter().filter_map(|what| of_name.get(*what)).sum();
        let run = Duration::from_nanos(counted).as_secs_f64().min(turns);
        of_name.extend([("run".to_owned(), run), ("wait".to_owned(), turns - run)]);
    }
}

/// The same, as ctprof shows it: `thread;class;functions of the program…;system call;functions of the kernel… microseconds`.
fn reported(file: &Path) -> Times {
    let mut show = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    let folded = show.arg("show").arg(file).args(["--format", "folded", "--group-by", "comm-exact"]).output().unwrap();
    let mut all = Times::new();
    for line in String::from_utf8(folded.stdout).unwrap().lines() {
        let (stack, time) = line.rsplit_once(' ').expect(line);
        let frames: Vec<_> = stack.split(';').collect();
        let is_call = |frame: &&&str| **frame == "page fault" || frame.parse::<Sysno>().is_ok();
        let what = match frames[1] {
            class @ ("run" | "wait") => class.to_owned(),
            class => format!("{class} {}", frames[2..].iter().find(is_call).unwrap_or(&"unknown")),
        };
        let time = Duration::from_micros(time.parse().expect(line)).as_secs_f64();
        *all.entry(frames[0].to_owned()).or_default().entry(what).or_default() += time;
    }
    all
}

/// Half of the sum of the differences between shares, in percent.
fn distance(one: &BTreeMap<String, f64>, other: &BTreeMap<String, f64>) -> f64 {
    let share = |of: &BTreeMap<String, f64>, what: &String| {
        of.get(what).copied().unwrap_or(0.0) / of.values().sum::<f64>().max(1e-9)
    };
    let all: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    all.into_iter().map(|what| (share(one, what) - share(other, what)).abs()).sum::<f64>() * 50.0
}

/// Of all threads whose names begin so.
fn sum(times: &Times, name: &str) -> BTreeMap<String, f64> {
    let mut sum = BTreeMap::new();
    for (what, time) in times.iter().filter(|(comm, _)| comm.starts_with(name)).flat_map(|(_, times)| times) {
        *sum.entry(what.clone()).or_default() += time;
    }
    sum
}

#[test]
fn times_of_reasons_are_those_of_an_exact_trace() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let pair = directory.path().join("pair");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/pair.c");
    assert!(Command::new("cc").args(["-O1", "-o"]).args([&pair, &source]).status().unwrap().success());
    let convoy = example("convoy");
    let loads = [
        ("pair", pair.display().to_string() + " 5"),
        // A pass keeps a CPU from what wakes up meanwhile: sleeps have to be longer.
        ("convoy", format!("timeout 5 {} 2000; true", convoy.display())),
        // As often as it is sampled.
        ("mixes", format!("{} periodic", compile("mixes", directory.path()).display())),
        ("dd", "timeout 5 dd if=/dev/zero of=f bs=4k oflag=dsync conv=notrunc; true".to_owned()),
    ];
    for (name, load) in loads {
        // Other tests can keep the sampler off its CPU for longer than the turns of these threads.
        let mut recordings = (0..3).map(|_| differences(name, &load, directory.path()));
        let Some(found) = recordings.next().unwrap() else { return };
        let is_close = found.is_empty() || recordings.flatten().any(|found| found.is_empty());
        assert!(is_close, "{name}: three recordings differ from their traces");
    }
}

/// Records a load, and says what differs from the trace; `None` prints why the test is skipped.
fn differences(name: &str, load: &str, directory: &Path) -> Option<Vec<String>> {
    let file = directory.join("w");
    let tracer = Tracer::start(name)?;
    let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    record.args(["-q", "record", "--why-rate", "100", "-o"]).arg(&file);
    record.args(["--", "sh", "-c", load]).current_dir(directory);
    assert!(record.output().unwrap().status.success());
    let window = CtprofSnapshot::load(&file).unwrap();
    let (mut exact, reported) = (tracer.times(), reported(&file));
    divide(&mut exact, &window);
    // Time of the hypervisor is not run time: reports count it as sleep, the trace as a turn.
    let accounts = window.head.window.as_ref().and_then(|window| window.cpu.as_ref());
    let stolen = accounts.and_then(|cpu| cpu.steal_ns).map_or(0.0, |ns| Duration::from_nanos(ns).as_secs_f64());
    let stolen = 100.0 * stolen / sum(&exact, name).values().sum::<f64>();
    let all = ("all threads", sum(&exact, name), sum(&reported, name), 6.0 + stolen);
    let of_threads = exact.keys().filter(|comm| comm.starts_with(name));
    // One of 200 samples is half a point: those of one thread say less than those of all.
    let of_threads = of_threads.map(|comm| (&**comm, exact[comm].clone(), reported[comm].clone(), 20.0 + stolen));
    let mut found = Vec::new();
    for (what, exact, reported, most) in std::iter::once(all).chain(of_threads) {
        let distance = distance(&exact, &reported);
        let text =
            format!("{name}, {what}: {distance:.1} points of {most:.1}; exact {exact:.2?}, reported {reported:.2?}");
        eprintln!("{text}");
        found.extend((distance >= most).then_some(text));
    }
    Some(found)
}
