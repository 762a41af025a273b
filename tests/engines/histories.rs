//! Threads at rest whose counters tell of what they did: those of `history.c`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::captures::Threads;
use crate::host::{CgroupFolder, Killed, Sysctl};

/// The name of a thread, a field that shows what it did, and whether it does.
type Trace = (&'static str, &'static str, fn(&Value) -> bool);

const TRACES: [Trace; 22] = [
    ("writes", "/write_bytes", is_positive),
    ("writes", "/wchar", is_positive),
    ("reads", "/read_bytes", is_positive),
    ("reads", "/rchar", is_positive),
    ("truncates", "/cancelled_write_bytes", is_positive),
    ("faults", "/minflt", is_positive),
    ("major-faults", "/majflt", is_positive),
    ("preempted", "/nonvoluntary_csw", is_positive),
    ("computes", "/utime_clock_ticks", is_positive),
    ("calls", "/stime_clock_ticks", is_positive),
    ("sleeps", "/voluntary_csw", is_positive),
    ("migrates", "/nr_migrations", is_positive),
    ("pinned", "/cpu_affinity", |cpus| cpus.as_array().is_some_and(|cpus| cpus.len() == 1)),
    ("niced", "/nice", |nice| *nice == 7),
    ("favoured", "/nice", |nice| *nice == -5),
    ("batch", "/policy", |policy| policy == "SCHED_BATCH"),
    ("idle", "/policy", |policy| policy == "SCHED_IDLE"),
    ("fifo", "/rt_priority", is_positive),
    ("round-robin", "/policy", |policy| policy == "SCHED_RR"),
    ("deadline", "/priority", |priority| *priority == -101),
    ("vfork", "/state", |state| state == "D"),
    ("history", "/process/cminflt", is_positive),
];

/// What delay accounting counts.
const DELAYS: [Trace; 1] = [("reads", "/blkio_delay_total_ns", is_positive)];

fn is_positive(value: &Value) -> bool {
    value.as_u64().is_some_and(|number| number > 0)
}

/// Compiles a program of this folder.
pub(crate) fn compile(name: &str, to: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines").join(name).with_extension("c");
    let program = to.join(name);
    let compiled = Command::new("cc").args(["-O1", "-pthread", "-o"]).args([&program, &source]).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

/// The roots of all hierarchies that are mounted, of both versions.
pub(crate) fn cgroup_roots() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.filter(|fields| fields[2].starts_with("cgroup")).map(|fields| PathBuf::from(fields[1])).collect()
}

/// Starts a program that prints `ready`. Returns the lines before.
pub(crate) fn started(command: &mut Command) -> (Killed, Vec<String>) {
    let mut child = Killed(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let before: Vec<_> = lines.take_while(|line| line != "ready").collect();
    assert_eq!(child.0.try_wait().unwrap(), None, "{before:?}");
    (child, before)
}

/// Processes with threads of each kind.
pub(crate) struct Histories {
    processes: Vec<Killed>,
    /// Why threads of a name did not do what it says.
    absent: BTreeMap<String, String>,
    delays: Option<Sysctl>,
    _cgroups: Vec<CgroupFolder>,
    _folder: tempfile::TempDir,
}

impl Histories {
    /// Starts so many processes with so many threads of each kind. Every second one is in cgroups of its own.
    pub(crate) fn start(processes: usize, copies: usize) -> Self {
        let delays = Sysctl::set("/proc/sys/kernel/task_delayacct", "1");
        // Temporary files may be in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let program = compile("history", folder.path());
        let mut histories =
            Self { processes: Vec::new(), absent: BTreeMap::new(), delays, _cgroups: Vec::new(), _folder: folder };
        let mut commands = Vec::new();
        for number in 0..processes {
            let mut command = Command::new(&program);
            command.arg(copies.to_string()).arg(program.with_extension(number.to_string()));
            if number % 2 == 1 {
                let name = format!("ctprof-history-{}-{number}", std::process::id());
                let cgroups = cgroup_roots().into_iter().filter_map(|root| CgroupFolder::create(&root, &name));
                let cgroups: Vec<_> = cgroups.collect();
                command.args(cgroups.iter().map(|cgroup| &cgroup.0));
                histories._cgroups.extend(cgroups);
            }
            commands.push(command);
        }
        for command in &mut commands {
            let (process, lines) = started(command);
            histories.processes.push(process);
            let absent = lines.iter().filter_map(|line| line.strip_prefix("absent ")?.split_once(": "));
            histories.absent.extend(absent.map(|(name, why)| (name.to_owned(), why.to_owned())));
        }
        if histories.delays.is_none() {
            eprintln!("skipped: kernel.task_delayacct cannot be set here");
        }
        histories
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().map(|process| process.0.id())
    }

    /// The threads of these processes.
    pub(crate) fn own(&self, mut threads: Threads) -> Threads {
        let pids: Vec<_> = self.pids().collect();
        threads.retain(|(pid, ..), _| pids.contains(pid));
        threads
    }

    /// Whether the threads did what they were started for, or said why they could not.
    pub(crate) fn check_traces(&self, threads: &Threads) {
        let threads: Vec<_> = self.own(threads.clone()).into_values().map(Value::Object).collect();
        let delays = if self.delays.is_some() { &DELAYS[..] } else { &[] };
        let mut left = 0;
        for &(name, field, is_expected) in TRACES.iter().chain(delays) {
            let of_name = threads.iter().filter(|thread| thread["comm"] == name);
            let shows = |thread: &Value| thread.pointer(field).is_some_and(is_expected);
            match (of_name.clone().any(shows), self.absent.get(name)) {
                (true, _) => left += 1,
                (false, Some(why)) => eprintln!("skipped: {field} of {name}: {why}"),
                (false, None) => panic!("{field} of {name} shows nothing: {:?}", of_name.collect::<Vec<_>>()),
            }
        }
        assert!(left > TRACES.len() / 2, "{:?}", self.absent);
    }
}
