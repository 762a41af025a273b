//! Captures of recorded trees with text of real kernels, compared with a simple parser of the same files.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::fs;
use std::path::{Path, PathBuf};

use ctprof::capture::{Options, capture_with};
use ctprof::model::{METRICS, Metric, Source, Switch, Value};
use ctprof::{CtprofSnapshot, ThreadState};

const TREES: [&str; 4] = ["5.10", "6.12", "6.12-schedstats-off", "7.3"];

fn root(tree: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(tree)
}

fn captured(tree: &str) -> CtprofSnapshot {
    let mut options = Options::default();
    options.roots.procfs = root(tree).join("proc");
    options.roots.sysfs = root(tree).join("sys");
    capture_with(&options).unwrap()
}

fn task(tree: &str, thread: &ThreadState, file: &str) -> String {
    let path = root(tree).join(format!("proc/{}/task/{}/{file}", thread.tgid, thread.tid));
    fs::read_to_string(path).unwrap()
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
    let stat = || task(tree, thread, "stat").rsplit_once(") ").unwrap().1.to_owned();
    let field = |n: u8| stat().split_whitespace().nth(usize::from(n) - 3).map(str::to_owned);
    match metric.sources.procfs[0] {
        Source::Stat(n) => field(n),
        Source::StatPolicy(n) => field(n).map(|n| if n == "0" { "SCHED_OTHER".to_owned() } else { n }),
        Source::Schedstat(n) => {
            task(tree, thread, "schedstat").split_whitespace().nth(usize::from(n) - 1).map(str::to_owned)
        }
        Source::Status("State") => keyed(&task(tree, thread, "status"), "State").map(|s| s[..1].to_owned()),
        Source::Status(key) => keyed(&task(tree, thread, "status"), key),
        Source::StatusOfLeader(key) => keyed(&task(tree, thread, "status"), key).filter(|_| thread.is_leader()),
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
        assert_eq!((snapshot.threads.len(), snapshot.processes()), (6, 3), "{tree}");
        for thread in &snapshot.threads {
            for metric in METRICS {
                let read = metric.get(&thread.metrics).as_ref().map(text);
                assert_eq!(read, by_hand(tree, thread, metric), "{tree}: {} of {}", metric.name, thread.comm);
            }
        }
    }
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
        assert_eq!(snapshot.parse_summary.unwrap().read_failures, 0, "{tree}");
    }
}

#[test]
fn the_host_is_told_apart_by_its_kernel() {
    let host = |tree| captured(tree).host.unwrap();
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
