//! CPU time of processes and threads that come and go in many ways, beside what the kernel counts for a cgroup that has nothing
//! else in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ctprof::model::Owner;
use ctprof::series::Moment;
use ctprof::store::{StoreError, Stored};
use ctprof::{CtprofSnapshot, ThreadState};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::alone;
use crate::host::CgroupDirectory;
use crate::root::engine_captures::has_bpf;
use crate::root::histories::{cgroup_roots, compile};
use crate::support::{Missing, skipped};

/// Names of `mixes.c`.
const MIXES: [&str; 30] = [
    "one",
    "forks",
    "forks-below-a-tick",
    "unwaited",
    "zombies",
    "orphans",
    "daemons",
    "subreaper",
    "generations",
    "killed-group",
    "killed-threads",
    "aborts",
    "pool",
    "short-threads",
    "threads-outlive-first",
    "threads-at-exit",
    "children-of-threads",
    "execs",
    "execs-by-others",
    "exec-of-other-name",
    "reused-ids",
    "reused-thread-ids",
    "namespace",
    "siblings",
    "spawns",
    "scripts",
    "pipelines",
    "turns",
    "stopped",
    "nice",
];

/// The least share of the truth. On an idle host it is 0.995; beside many others that run, it was 0.984 once.
const LEAST: f64 = 0.97;

/// The status of a mix that lacks a privilege or something of the kernel.
const CANNOT_RUN: i32 = 3;

const MS: u64 = 1_000_000;
const TICK: u64 = 10 * MS;

/// CPU time in nanoseconds and number of the threads of each cgroup.
type Threads = BTreeMap<String, [u64; 2]>;

/// Cgroups of one name in all hierarchies.
struct Cgroup(Vec<CgroupDirectory>);

impl Cgroup {
    fn create(name: &str) -> Option<Self> {
        let all: Vec<_> = cgroup_roots().iter().filter_map(|root| CgroupDirectory::create(root, name)).collect();
        Some(Self(all)).filter(|cgroup| !cgroup.0.is_empty())
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter().map(|directory| &directory.0)
    }

    /// Waits until nothing is left in it, and returns its CPU time in nanoseconds.
    fn cpu_time(&self) -> u64 {
        let is_empty = |path: &PathBuf| fs::read_to_string(path.join("cgroup.procs")).unwrap().is_empty();
        while !self.paths().all(is_empty) {
            thread::sleep(Duration::from_millis(5));
        }
        let number = |path: &PathBuf| fs::read_to_string(path.join("cpuacct.usage")).ok()?.trim().parse().ok();
        let of_version_2 = |path: &PathBuf| {
            let stat = fs::read_to_string(path.join("cpu.stat")).ok()?;
            Some(stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?.parse::<u64>().ok()? * 1000)
        };
        self.paths().find_map(number).or_else(|| self.paths().find_map(of_version_2)).expect("CPU time of a cgroup")
    }
}

fn record(file: &Path, options: &[&str]) -> Command {
    let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    record.args(["record", "-q", "--no-why", "-o"]).arg(file).args(options).stdin(Stdio::null());
    record
}

fn stored(file: &Path) -> Stored {
    Stored::open(file, 1 << 30, &Arc::default()).unwrap()
}

/// The window in a file, or the whole series.
pub(crate) fn load(file: &Path) -> CtprofSnapshot {
    let series = stored(file).series().unwrap();
    series
        .map_or_else(|| CtprofSnapshot::load(file).unwrap(), |mut series| series.part(&"..".parse().unwrap()).unwrap())
}

/// CPU time of threads in nanoseconds, and how many threads they are.
fn sum<'t>(threads: impl Iterator<Item = &'t ThreadState>) -> [u64; 2] {
    let one = |thread: &ThreadState| {
        let run = thread.metrics.run_time_ns.map_or(0, u64::from);
        [run, thread.span.map_or(1, |span| span.count)]
    };
    threads.map(one).fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
}

/// The CPU time of a window's threads, by cgroup.
fn by_cgroup(window: &CtprofSnapshot) -> Threads {
    let mut all = BTreeMap::new();
    for thread in &window.threads {
        let [run, count] = sum([thread].into_iter());
        let of_cgroup = all.entry(thread.cgroup.as_deref().unwrap_or("").to_owned()).or_insert([0; 2]);
        (of_cgroup[0], of_cgroup[1]) = (of_cgroup[0] + run, of_cgroup[1] + count);
    }
    all
}

/// What recorders with BPF have recorded of all mixes.
struct Recorded {
    window: Threads,
    series: Threads,
    /// The threads of each step, and the increase of the cgroups' own CPU time in it, in nanoseconds.
    steps: Vec<(Threads, BTreeMap<String, u64>)>,
}

impl Recorded {
    fn read(window: &Path, series: &Path) -> Self {
        let mut steps = Vec::new();
        let mut found = |step: CtprofSnapshot, _: &Moment| {
            let stats = step.head.cgroup_stats.iter();
            let usage = stats.map(|(path, stats)| (path.clone(), stats.cpu.usage_usec.map_or(0, u64::from) * 1000));
            steps.push((by_cgroup(&step), usage.collect()));
            Ok::<_, StoreError>(())
        };
        stored(series).series().unwrap().unwrap().each_window(&"..".parse().unwrap(), &mut found).unwrap();
        let [window, series] = [window, series].map(|file| by_cgroup(&load(file)));
        Self { window, series, steps }
    }

    /// The CPU time of a cgroup's threads in all steps, and by how much those up to a step had more than the cgroup at its end.
    fn in_steps(&self, cgroup: &str, truth: u64) -> [u64; 2] {
        let of = |threads: &Threads| threads.get(cgroup).map_or(0, |[run, _]| *run);
        let all: u64 = self.steps.iter().map(|(threads, _)| of(threads)).sum();
        // A cgroup is read after its threads. A step has no increase of a new one: what it had used is known from the end.
        let (mut of_threads, mut of_cgroup, mut most_ahead) = (all, truth, 0);
        for (threads, usage) in self.steps.iter().rev() {
            if of_threads > 0 {
                most_ahead = most_ahead.max(of_threads.saturating_sub(of_cgroup));
            }
            of_threads -= of(threads);
            of_cgroup = of_cgroup.saturating_sub(usage.get(cgroup).copied().unwrap_or(0));
        }
        [all, most_ahead]
    }
}

/// A mix that has run below a recorder without BPF.
struct Run {
    name: String,
    /// CPU time in nanoseconds: of the cgroup, and of the shell before it entered. Of steps, the latter may be elsewhere.
    truth: u64,
    before: u64,
    started: SystemTime,
    by_procfs: CtprofSnapshot,
    _directory: Cgroup,
}

impl Run {
    /// Runs a mix in a cgroup of its own. `None` if it cannot run here.
    fn below_procfs(program: &Path, mix: &str, (kind, options): (&str, &[&str])) -> Option<Self> {
        let name = format!("ctprof-{mix}-{kind}-{}", std::process::id());
        let directory = Cgroup::create(&name)?;
        let file = program.with_extension("recorded");
        let mut record = record(&file, &[&["--engine", "procfs"], options].concat());
        let enter =
            "for to; do echo 0 > $to/cgroup.procs; done; read ran rest < /proc/$$/schedstat; echo $ran; exec $mix";
        record.args(["--", "sh", "-c", enter, "sh"]).args(directory.paths());
        let started = SystemTime::now();
        let done = record.env("mix", format!("{} {mix}", program.display())).output().unwrap();
        if done.status.code() == Some(CANNOT_RUN) {
            skipped(Missing::Privilege(format!("what the mix {mix} needs")));
            return None;
        }
        assert!(done.status.success(), "{mix}: {}", String::from_utf8_lossy(&done.stderr));
        // What the shell did before it entered is of its row, which ends in the cgroup.
        let before: u64 = String::from_utf8(done.stdout).unwrap().trim().parse().unwrap();
        let (truth, by_procfs) = (directory.cpu_time() + before, load(&file));
        Some(Self { name, truth, before, started, by_procfs, _directory: directory })
    }

    /// What is wrong with what was recorded.
    fn check(&self, recorded: &Recorded) -> Option<String> {
        let Self { name, truth, before, started: _, by_procfs, _directory: _ } = self;
        let path = format!("/{name}");
        let of = |threads: &Threads| threads.get(&path).map_or(0, |[run, _]| *run);
        let of_command = by_procfs.threads.iter().filter(|thread| thread.owner == Some(Owner::Command));
        let [of_command, threads] = sum(of_command);
        let [in_steps, most_ahead] = recorded.in_steps(&path, *truth);
        let ratios =
            [of(&recorded.window), of(&recorded.series), in_steps, of_command].map(|ns| ns as f64 / *truth as f64);
        let [window, series, steps, procfs] = ratios;
        // What the hypervisor takes while a thread ends is of its cgroup, and of no thread.
        let accounts = by_procfs.head.window.as_ref().and_then(|window| window.cpu.as_ref());
        let stolen = accounts.and_then(|cpu| cpu.steal_ns).unwrap_or(0);
        let least = LEAST - stolen as f64 / *truth as f64;
        let row = format!(
            "{name:42} {:4} ms: window {window:.3}, series {series:.3}, steps {steps:.3}, at most {:.1} ms ahead; procfs {procfs:.3}; {} ms stolen",
            truth / MS,
            most_ahead as f64 / MS as f64,
            stolen / MS
        );
        eprintln!("{row}");
        let is_right = ratios[..3].iter().all(|ratio| *ratio <= 1.02)
            && ratios[..2].iter().all(|ratio| *ratio >= least)
            && steps + *before as f64 / *truth as f64 >= least
            && most_ahead <= truth / 50 + TICK
            && of_command <= truth + TICK * threads.min(3);
        (!is_right).then_some(row)
    }
}

#[test]
fn cpu_time_of_whatever_starts_and_exits_is_that_of_its_cgroup() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile("mixes", directory.path());
    let kinds = [("window", &[][..]), ("series", &["--every", "300ms"])];
    let files = kinds.map(|(kind, _)| directory.path().join(kind));
    let mut recorders = [0, 1].map(|kind| record(&files[kind], kinds[kind].1).spawn().unwrap());
    while !files[1].exists() {
        assert!(recorders[1].try_wait().unwrap().is_none(), "it ended");
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_secs(1));
    let mut runs = Vec::new();
    for (mix, kind) in MIXES.iter().flat_map(|mix| kinds.map(|kind| (mix, kind))) {
        runs.extend(Run::below_procfs(&program, mix, kind));
    }
    for mut recorder in recorders {
        kill(Pid::from_raw(recorder.id().cast_signed()), Signal::SIGINT).unwrap();
        assert!(recorder.wait().unwrap().success());
    }
    if runs.is_empty() {
        return skipped(Missing::Privilege("to create cgroups"));
    }
    // The window begins without a sign.
    let window = load(&files[0]).head.window.expect("it is a window");
    runs.retain(|run| run.started > UNIX_EPOCH + Duration::from_nanos(window.started_at_unix_ns));
    assert!(runs.len() > MIXES.len(), "{} runs are in the window", runs.len());
    let recorded = Recorded::read(&files[0], &files[1]);
    let wrong: Vec<_> = runs.iter().filter_map(|run| run.check(&recorded)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
