//! Threads at rest whose counters tell of what they did: those of `history.c`.

use crate::support::{Missing, skipped};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::host::{CgroupDirectory, Killed, Sysctl};
use crate::root::engine_captures::Threads;

/// The name of a thread, a field that shows what it did, its value, and what has to be enabled for that.
const TRACES: &str = include_str!("traces.tsv");

const DELAYS: &str = "/proc/sys/kernel/task_delayacct";

/// Whether a value is as in a row of the table.
fn is_expected(value: &Value, expected: &str) -> bool {
    match expected {
        ">0" => value.as_u64().is_some_and(|number| number > 0),
        "one" => value.as_array().is_some_and(|values| values.len() == 1),
        json => *value == serde_json::from_str::<Value>(json).unwrap(),
    }
}

/// Compiles a program of this directory.
pub(crate) fn compile(name: &str, to: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
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
    _cgroups: Vec<CgroupDirectory>,
    _directory: tempfile::TempDir,
}

impl Histories {
    /// Starts so many processes with so many threads of each kind. Every second one is in cgroups of its own.
    pub(crate) fn start(processes: usize, copies: usize) -> Self {
        let delays = Sysctl::set(DELAYS, "1");
        // Temporary files may be in memory.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let program = compile("history", directory.path());
        let mut histories = Self {
            processes: Vec::new(),
            absent: BTreeMap::new(),
            delays,
            _cgroups: Vec::new(),
            _directory: directory,
        };
        let mut commands = Vec::new();
        for number in 0..processes {
            let mut command = Command::new(&program);
            command.arg(copies.to_string()).arg(program.with_extension(number.to_string()));
            if number % 2 == 1 {
                let name = format!("ctprof-history-{}-{number}", std::process::id());
                let cgroups = cgroup_roots().into_iter().filter_map(|root| CgroupDirectory::create(&root, &name));
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
        // Another process of this host may have changed it.
        if fs::read_to_string(DELAYS).is_ok_and(|value| value.trim() != "1") {
            histories.delays = None;
        }
        if histories.delays.is_none() {
            skipped(Missing::Privilege("to set kernel.task_delayacct"));
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
        let rows = TRACES.lines().skip(2).map(|line| line.split('\t').collect::<Vec<_>>());
        let rows: Vec<_> = rows.filter(|row| row.len() == 3 || self.delays.is_some()).collect();
        let mut left = 0;
        for row in &rows {
            let [name, field, expected] = [row[0], row[1], row[2]];
            let of_name = threads.iter().filter(|thread| thread["comm"] == name);
            let value = |thread: &'_ Value| thread.pointer(&format!("/{field}")).cloned();
            let values: Vec<_> = of_name.filter_map(value).collect();
            match (values.iter().any(|value| is_expected(value, expected)), self.absent.get(name)) {
                (true, _) => left += 1,
                (false, Some(why)) => skipped(Missing::Kernel(format!("{field} of {name}: {why}"))),
                (false, None) => panic!("{field} of {name}: {values:?}, not {expected}"),
            }
        }
        assert!(left > rows.len() / 2, "{:?}", self.absent);
    }
}
