//! Captures of recorded trees with text of real kernels, compared with a simple parser of the same files.

use std::fs;
use std::path::{Path, PathBuf};

use ctprof::capture::{Options, Smaps, capture_with};
use ctprof::model::{METRICS, Metric, PROCESS, Source, Switch, Value};
use ctprof::{CtprofSnapshot, ThreadState};

const TREES: [&str; 4] = ["5.10", "6.12", "6.12-schedstats-off", "7.3"];

fn root(tree: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(tree)
}

fn captured(tree: &str) -> CtprofSnapshot {
    let mut options = Options::default();
    // Without a limit of time, which a busy host can reach.
    options.smaps = Smaps::Always;
    options.roots.procfs = root(tree).join("proc");
    options.roots.sysfs = root(tree).join("sys");
    capture_with(&options).unwrap()
}

fn proc(tree: &str, file: &str) -> String {
    fs::read_to_string(root(tree).join("proc").join(file)).unwrap()
}

fn task(tree: &str, thread: &ThreadState, file: &str) -> String {
    proc(tree, &format!("{}/task/{}/{file}", thread.tgid, thread.tid))
}

/// Field `n` of a text of `stat`.
fn field(stat: &str, n: u8) -> Option<String> {
    stat.rsplit_once(") ").unwrap().1.split_whitespace().nth(usize::from(n) - 3).map(str::to_owned)
}

/// The text after a key, where the key ends in `name`.
fn keyed(text: &str, name: &str) -> Option<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = pairs.filter(|(key, _)| key.trim() == name || key.trim().ends_with(&format!(".{name}")));
    values.next().map(|(_, value)| value.trim().to_owned())
}

/// Nanoseconds by decimal arithmetic on text: the point dropped, as the kernel prints six digits.
fn number(metric: &Metric, text: &str) -> u64 {
    let nanoseconds = metric.type_name.ends_with("Ns") && text.contains('.');
    if nanoseconds { text.replace('.', "").parse().unwrap() } else { text.parse().unwrap() }
}

fn by_hand(tree: &str, thread: &ThreadState, metric: &Metric) -> Option<String> {
    let field = |n: u8| field(&task(tree, thread, "stat"), n);
    match metric.sources.procfs[0] {
        Source::Stat(n) => field(n),
        Source::StatPolicy(n) => field(n).map(|n| if n == "0" { "SCHED_OTHER".to_owned() } else { n }),
        Source::Schedstat(n) => {
            task(tree, thread, "schedstat").split_whitespace().nth(usize::from(n) - 1).map(str::to_owned)
        }
        Source::Status("State") => keyed(&task(tree, thread, "status"), "State").map(|s| s[..1].to_owned()),
        Source::Status(key) => keyed(&task(tree, thread, "status"), key),
        Source::StatusOfLeader(key) => {
            let text = keyed(&task(tree, thread, "status"), key).filter(|_| thread.is_leader())?;
            let kib = text.strip_suffix(" kB").map(|kib| (kib.parse::<u64>().unwrap() * 1024).to_string());
            Some(kib.unwrap_or(text))
        }
        Source::Io(key) => keyed(&task(tree, thread, "io"), key),
        Source::Affinity => Some("[0, 1]".to_owned()),
        Source::Sched("ext.enabled") => {
            keyed(&task(tree, thread, "sched"), "ext.enabled").map(|n| (n != "0").to_string())
        }
        Source::Sched(key) => keyed(&task(tree, thread, "sched"), key).map(|text| number(metric, &text).to_string()),
        Source::SchedDifference(more, less) => {
            let text = task(tree, thread, "sched");
            let (more, less) = (number(metric, &keyed(&text, more)?), number(metric, &keyed(&text, less)?));
            Some((more - less).to_string())
        }
        _ => None,
    }
}

fn text(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Letter(letter) => letter.to_string(),
        Value::Cpus(cpus) => format!("{cpus:?}"),
        other => other.to_string(),
    }
}

#[test]
fn every_value_of_every_kernel_is_what_its_file_says() {
    for tree in TREES {
        let snapshot = captured(tree);
        let processes = snapshot.threads.chunk_by(|a, b| a.tgid == b.tgid).count();
        assert_eq!((snapshot.threads.len(), processes), (6, 3), "{tree}");
        for thread in &snapshot.threads {
            for metric in METRICS {
                let read = metric.get(&thread.metrics).as_ref().map(text);
                assert_eq!(read, by_hand(tree, thread, metric), "{tree}: {} of {}", metric.name, thread.comm);
            }
        }
    }
}

#[test]
fn every_counter_of_a_process_is_what_its_file_says() {
    for tree in TREES {
        for leader in captured(tree).threads.iter().filter(|thread| thread.is_leader()) {
            let Some(process) = &leader.process else {
                assert_eq!(&*leader.comm, "kthreadd", "{tree}");
                continue;
            };
            let file = |name: &str| proc(tree, &format!("{}/{name}", leader.tgid));
            for counter in PROCESS {
                let by_hand = match counter.source.source {
                    Source::Stat(n) => field(&file("stat"), n),
                    Source::Io(key) => keyed(&file("io"), key),
                    _ => None,
                };
                assert!(by_hand.is_some());
                assert_eq!(counter.get(process).as_ref().map(text), by_hand, "{tree}: {}", counter.name);
            }
            assert_eq!(process.ppid.map(|ppid| ppid.to_string()), field(&file("stat"), 4), "{tree}");
        }
    }
}

#[test]
fn children_that_the_first_process_waited_for_are_in_its_counters() {
    for tree in TREES {
        let first = captured(tree).threads[0].process.clone().unwrap();
        assert!(first.cutime_clock_ticks.unwrap().number() + first.cstime_clock_ticks.unwrap().number() > 10, "{tree}");
        assert!(first.cminflt > first.minflt, "{tree}");
    }
}

#[test]
fn the_cpu_time_of_the_host_is_what_every_kernel_prints() {
    for (tree, version) in [("5.10", 15), ("6.12", 16), ("6.12-schedstats-off", 16), ("7.3", 17)] {
        let snapshot = captured(tree);
        let (schedstat, stat) = (proc(tree, "schedstat"), proc(tree, "stat"));
        assert!(schedstat.starts_with(&format!("version {version}\n")), "{tree}");
        let sum = |column: usize| -> u64 {
            let cpus = schedstat.lines().filter(|line| line.starts_with("cpu"));
            cpus.map(|line| line.split(' ').nth(column).unwrap().parse::<u64>().unwrap()).sum()
        };
        let all: Vec<u64> = stat.lines().next().unwrap()[5..].split(' ').map(|ticks| ticks.parse().unwrap()).collect();
        let time = snapshot.head.cpu_time.unwrap();
        assert_eq!((time.run_ns, time.wait_ns), (Some(sum(7)), Some(sum(8))), "{tree}");
        assert!(time.run_ns > Some(1_000_000_000) && time.wait_ns > Some(1_000_000), "{tree}");
        let ticks = [time.idle_ticks, time.iowait_ticks, time.interrupt_ticks, time.steal_ticks];
        assert_eq!(ticks, [all[3], all[4], all[5] + all[6], all[7]].map(Some), "{tree}");
        assert_eq!((time.cpus, time.started.map(|started| started.to_string())), (Some(2), started(&stat)), "{tree}");
        let capture = snapshot.head.capture.unwrap();
        assert_eq!((capture.monotonic_ns, capture.boottime_ns), (None, None), "{tree}: clocks of another host");
    }
}

fn started(stat: &str) -> Option<String> {
    stat.lines().find_map(|line| line.strip_prefix("processes ")).map(str::to_owned)
}

fn thread<'s>(snapshot: &'s CtprofSnapshot, comm: &str) -> &'s ThreadState {
    snapshot.threads.iter().find(|thread| &*thread.comm == comm).unwrap()
}

#[test]
fn what_a_kernel_does_not_print_is_absent() {
    let has = |tree: &str, name: &str| {
        let metric = METRICS.iter().find(|metric| metric.name == name).unwrap();
        metric.get(&thread(&captured(tree), "load").metrics).is_some()
    };
    for (name, of_5_10, of_6_12, with_schedstats_off, of_7_3) in [
        ("wait_max", true, true, false, true),
        ("nr_wakeups", true, true, false, true),
        ("block_sum", false, true, false, true),
        ("voluntary_sleep_ns", false, true, false, true),
        ("fair_slice_ns", false, true, true, true),
        ("ext_enabled", false, false, false, true),
        ("nr_migrations", true, true, true, true),
        ("run_time_ns", true, true, true, true),
        ("core_forceidle_sum", false, false, false, false),
    ] {
        let found = TREES.map(|tree| has(tree, name));
        assert_eq!(found, [of_5_10, of_6_12, with_schedstats_off, of_7_3], "{name}");
    }
}

#[test]
fn identities_are_complete() {
    let snapshot = captured("7.3");
    let (kthreadd, worker) = (thread(&snapshot, "kthreadd"), thread(&snapshot, "load-1"));
    assert!(kthreadd.kernel_thread && !worker.kernel_thread);
    assert_eq!((kthreadd.tid, kthreadd.tgid), (2, 2));
    assert_eq!((&*worker.pcomm, worker.cgroup.as_deref()), ("load", Some("/")));
    assert!(!worker.is_leader() && worker.start_time_clock_ticks > Some(0));
    assert_eq!(worker.metrics.nr_threads, None);
    assert_eq!(thread(&snapshot, "load").metrics.nr_threads, Some(4.into()));
}

#[test]
fn memory_is_a_value_of_the_leader_and_no_kernel_thread_is_a_failure() {
    for tree in TREES {
        let snapshot = captured(tree);
        let pss = |comm| thread(&snapshot, comm).smaps_rollup_kib.as_ref().map(|map| map["Pss"]);
        assert!(pss("load") > Some(0), "{tree}");
        assert_eq!((pss("load-0"), pss("kthreadd")), (None, None), "{tree}");
        assert_eq!(snapshot.head.parse_summary.unwrap().read_failures, 0, "{tree}");
    }
}

#[test]
fn the_host_is_told_apart_by_its_kernel() {
    let host = |tree| captured(tree).head.host.unwrap();
    let switches = |tree| (host(tree).sched_schedstats.unwrap(), host(tree).task_delayacct.unwrap());
    assert_eq!(switches("5.10"), (Switch::On, Switch::Unknown));
    assert_eq!(switches("6.12"), (Switch::On, Switch::On));
    assert_eq!(switches("6.12-schedstats-off"), (Switch::RuntimeOff, Switch::RuntimeOff));
    assert!(host("7.3").kernel_release.unwrap().starts_with("7.3."));
    assert_eq!((host("7.3").online_cpus, host("7.3").arch), (Some(2), None));
}

#[test]
fn the_same_tree_gives_the_same_threads_with_any_number_of_workers() {
    let with = |jobs| {
        let mut options = Options::default();
        options.roots.procfs = root("7.3").join("proc");
        options.jobs = std::num::NonZeroUsize::new(jobs);
        let mut threads = capture_with(&options).unwrap().threads;
        threads.iter_mut().for_each(|thread| thread.read_at_ns = None);
        threads
    };
    assert_eq!(with(1), with(4));
}
