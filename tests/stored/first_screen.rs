//! Promises to users about the first screen of windows, and about their comparison.

use std::fs;

use ctprof::compare::{CompareOptions, Form, show};
use ctprof::model::Section;
use ctprof::report::{DisplayOptions, Terminal, write_table};
use ctprof::{CtprofSnapshot, window};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::stored::program::{printed, run};

const SECOND: u64 = 1_000_000_000;

fn usage_error(args: &[&str]) -> String {
    let out = run(args);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8(out.stderr).unwrap()
}

/// The table of a report: without the lines before it, and each line without double spaces.
fn table(args: &[&str]) -> Vec<String> {
    let page = printed(args);
    let lines = page.lines().skip_while(|line| !line.starts_with("group"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn with(mut object: Value, fields: &Value) -> Value {
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

/// The only thread of a process.
fn process(pid: u32, name: &str, start_second: u64, fields: &Value) -> Value {
    let thread = json!({"tid": pid, "tgid": pid, "pcomm": name, "comm": name, "cgroup": "/",
                        "start_time_clock_ticks": start_second * 100});
    with(thread, fields)
}

/// CPU time and run-queue wait in tenths of a second.
fn ran(run: u64, wait: u64) -> Value {
    json!({"run_time_ns": run * SECOND / 10, "wait_time_ns": wait * SECOND / 10})
}

/// A process with CPU time of its threads and of its exited children in tenths of a second.
fn parent(pid: u32, name: &str, run: u64, children: u64) -> Value {
    let counters = json!({"ppid": 1, "utime_clock_ticks": run * 10, "stime_clock_ticks": 0,
                          "cutime_clock_ticks": children * 10, "cstime_clock_ticks": 0});
    process(pid, name, 0, &with(ran(run, 0), &json!({"process": counters})))
}

fn snapshot(second: u64, threads: &[Value], fields: &Value) -> Value {
    let host = json!({"boot_id": "b", "hostname": "vm", "uptime_ns": second * SECOND,
                      "clock_ticks_per_second": 100, "online_cpus": 2});
    let whole = json!({"format_version": 1, "captured_at_unix_ns": second * SECOND, "host": host, "threads": threads});
    with(whole, fields)
}

/// Files of snapshots.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: &Value) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, content.to_string()).unwrap();
        path.display().to_string()
    }

    /// Snapshots 10 s and 15 s after boot.
    fn pair(&self, before: &[Value], after: &[Value]) -> [String; 2] {
        [self.file("before", &snapshot(10, before, &json!({}))), self.file("after", &snapshot(15, after, &json!({})))]
    }

    /// A file of the window between two snapshots, with other facts about it.
    fn window(&self, name: &str, threads: (&[Value], &[Value]), window_fields: &Value) -> String {
        self.window_with(name, threads, window_fields, &json!({}))
    }

    /// The same, with other parts of its snapshot.
    fn window_with(
        &self,
        name: &str,
        (before, after): (&[Value], &[Value]),
        window_fields: &Value,
        fields: &Value,
    ) -> String {
        let [before, after] = [snapshot(10, before, &json!({})), snapshot(15, after, &json!({}))];
        let window = window::between(loaded(before), loaded(after)).unwrap();
        let mut window = json!(window);
        window["window"] = with(window["window"].clone(), window_fields);
        self.file(name, &with(window, fields))
    }
}

fn loaded(snapshot: Value) -> CtprofSnapshot {
    serde_json::from_value(snapshot).unwrap()
}

/// A process that runs and waits, one that sleeps, one that starts, one that exits, and ctprof.
fn scene() -> (Vec<Value>, Vec<Value>) {
    let events = |csw: u64, faults: u64, read: u64| json!({"voluntary_csw": csw, "nonvoluntary_csw": 0, "minflt": faults, "majflt": 0, "read_bytes": read});
    let own = |run| with(process(8, "ctprof", 1, &ran(run, 0)), &json!({"party": "ctprof"}));
    let hog = |run, wait, events: &Value| process(6, "hog", 1, &with(ran(run, wait), events));
    let before = vec![
        process(4, "idle", 1, &ran(70, 1)),
        process(5, "gone", 1, &ran(1, 1)),
        hog(10, 5, &events(10, 5, 0)),
        own(1),
    ];
    let after = vec![
        process(4, "idle", 1, &ran(70, 1)),
        hog(40, 15, &events(510, 10, 5 << 20)),
        own(21),
        process(9, "new", 13, &ran(10, 0)),
    ];
    (before, after)
}

#[test]
fn a_window_has_a_line_per_group_with_shares_and_rates_and_ctprof_is_last() {
    let files = Files::new();
    let (before, after) = scene();
    let [before, after] = files.pair(&before, &after);
    let expected = [
        "group threads run wait sleep csw/s faults/s read/s",
        "hog 1 60% 20% 20% 100 1.0 1.00MiB",
        "new 1 (+1) 20% 0% 20% - - -",
        "gone 0 (−1) - - - - - -",
        "ctprof 1 40% 0% 60% - - -",
        "1 idle group hidden (--unchanged); not available: block, write, alloc (ctprof doctor on the host); every metric: --long",
    ];
    assert_eq!(table(&["show", &before, &after]), expected);
    let page = printed(&["show", &before, &after]);
    let head = "window     5.00 s from 00:00:10 UTC on vm, 4 threads in 4 processes (1 started, 1 exited)\n";
    assert!(page.starts_with(head), "{page}");
    let all = table(&["show", &before, &after, "--unchanged"]);
    assert!(all.contains(&"idle 1 0% 0% 100% - - -".to_owned()), "{all:?}");
}

#[test]
fn columns_of_idle_groups_are_not_said_to_lack_data() {
    let files = Files::new();
    let idle = || process(5, "idle", 1, &with(ran(3, 1), &json!({"read_bytes": 7})));
    let [before, after] = files.pair(&[idle()], &[idle()]);
    let expected = [
        "group threads",
        "1 idle group hidden (--unchanged); not available: block, csw, faults, write, alloc (ctprof doctor on the host); every metric: --long",
    ];
    assert_eq!(table(&["show", &before, &after]), expected);
}

#[test]
fn values_are_totals_per_run_and_shares_per_cpu_second() {
    let files = Files::new();
    let (before, after) = scene();
    let [before, after] = files.pair(&before, &after);
    let per = |unit| table(&["show", &before, &after, "--per", unit]);
    assert_eq!(per("run")[1], "hog 1 3.00s 1.00s 1.00s 500 5 5.00MiB");
    // All groups ran for 6 s.
    assert_eq!(per("cpu-second")[1], "hog 1 50% 17% 17% 83 0.8 853KiB");
    let metric = |options: &[&str]| table(&[&["show", &before, &after, "-m", "run_time_ns"], options].concat());
    let has = |lines: &[String], text: &str| lines.iter().any(|line| line.contains(text));
    assert!(has(&metric(&["--per", "run"]), "run_time_ns 3.00s"), "{:?}", metric(&["--per", "run"]));
    assert!(has(&metric(&["--per", "cpu-second"]), "run_time_ns 50%"), "{:?}", metric(&["--per", "cpu-second"]));
    for options in [&[][..], &["--per", "second"]] {
        assert!(has(&metric(options), "run_time_ns 60%"), "{:?}", metric(options));
    }
    for (options, said) in [
        (&["--per", "cpu-second"][..], "values are per CPU-second of all groups"),
        (&["-m", "minflt"], "values are per second"),
    ] {
        let page = printed(&[&["show", &before, &after], options].concat());
        assert!(page.contains(said), "{page}");
    }
    let total = printed(&["show", &before, &after, "-m", "minflt", "--per", "run"]);
    assert!(!total.contains("values are"), "{total}");
}

#[test]
fn what_a_report_says_that_values_are_divided_by_is_so_in_every_section() {
    let files = Files::new();
    let (before, after) = scene();
    let [before, after] = files.pair(&before, &after);
    for (options, per, units) in [
        (&[][..], "second", ["count/s", "percent"]),
        (&["--per", "second"], "second", ["count/s", "percent"]),
        (&["--per", "run"], "run", ["count", "ns"]),
    ] {
        let arguments =
            [&["show", &before, &after, "-m", "csw,nonvoluntary_csw,run,run_time_ns", "-f", "json"], options];
        let report: Value = serde_json::from_str(&printed(&arguments.concat())).unwrap();
        let unit = |metric: &str| {
            let rows = report["rows"].as_array().unwrap();
            rows.iter().find(|row| row["metric"] == metric).map(|row| row["unit"].clone()).unwrap()
        };
        assert_eq!(report["per"], per, "{options:?}");
        assert_eq!(["csw", "nonvoluntary_csw"].map(unit), [units[0]; 2], "{options:?}");
        assert_eq!(["run", "run_time_ns"].map(unit), [units[1]; 2], "{options:?}");
    }
}

#[test]
fn a_snapshot_has_averages_since_its_threads_started() {
    let files = Files::new();
    let busy = process(5, "busy", 6, &with(ran(10, 20), &json!({"voluntary_csw": 40, "nonvoluntary_csw": 0})));
    let file = files.file("s", &snapshot(10, &[busy], &json!({})));
    assert_eq!(table(&["show", &file])[..2], ["group threads run wait sleep csw/s", "busy 1 25% 50% 25% 10"]);
}

#[test]
fn work_of_exited_children_lessened_the_sleep_of_their_parent() {
    let files = Files::new();
    let [before, after] = files.pair(&[parent(5, "sh", 10, 0)], &[parent(5, "sh", 11, 40)]);
    let expected = ["sh 1 82% 82% 0% 0%* 98%*", "(exited children) 80% 80% 0% - -"];
    assert_eq!(table(&["show", &before, &after])[1..3], expected);
    let metrics = [
        "show",
        &before,
        &after,
        "--metrics",
        "run_time_ns,wait_time_ns",
        "--only",
        "sh",
        "--unchanged",
        "--per",
        "run",
    ];
    let expected = ["sh 1 run_time_ns 4.10s", "sh 1 wait_time_ns* 0ns"];
    assert!(expected.iter().all(|line| table(&metrics).iter().any(|found| found == line)), "{:?}", table(&metrics));
}

#[test]
fn exited_work_has_a_line_of_its_own_if_it_is_a_twentieth_of_its_group() {
    let files = Files::new();
    let children = |tenths| {
        let [before, after] = files.pair(&[parent(5, "sh", 0, 0)], &[parent(5, "sh", 48, tenths)]);
        table(&["show", &before, &after])
    };
    assert_eq!(
        children(2)[1..],
        [
            "sh 1 100% 100% 0% 0% 4.0%",
            "not available: block, csw, faults, read, write, alloc (ctprof doctor on the host); every metric: --long"
        ]
    );
    assert_eq!(children(3)[2], "(exited children) 6.0% 6.0% 0% - -");
}

#[test]
fn the_limit_counts_groups_and_exited_work_goes_with_its_group() {
    let files = Files::new();
    let [before, after] = files
        .pair(&[parent(5, "sh", 0, 0), parent(6, "make", 0, 0)], &[parent(5, "sh", 1, 10), parent(6, "make", 1, 40)]);
    let page = table(&["show", &before, &after, "-n", "1"]);
    assert!(page[1].starts_with("make") && page[2].starts_with("(exited children)"), "{page:?}");
    assert!(page[3].starts_with("1 more group, which ran less (--limit 0); "), "{page:?}");
}

#[test]
fn a_comparison_of_one_boot_has_what_happened_in_between_as_its_difference() {
    let files = Files::new();
    // `sh` executes `make`, whose children ran for 3 s; a thread of `gone` had run for 9 s; `new` starts.
    let before = [parent(5, "sh", 10, 20), process(6, "gone", 1, &ran(90, 0)), process(7, "old", 2, &ran(50, 0))];
    let after = [parent(5, "make", 12, 50), process(7, "old", 2, &ran(60, 0)), process(9, "new", 13, &ran(7, 0))];
    let [before, after] = files.pair(&before, &after);
    let args = ["compare", &before, &after, "--format", "json", "-m", "run_time_ns", "--sections", "primary,host"];
    let page: Value = serde_json::from_str(&printed(&args)).unwrap();
    let rows = page["rows"].as_array().unwrap().iter();
    let mut rows: Vec<_> =
        rows.map(|row| json!([row["group"], row["baseline"], row["candidate"], row["delta"]])).collect();
    rows.sort_by_key(ToString::to_string);
    let s = |tenths: u64| tenths * SECOND / 10;
    let expected = [
        json!(["all groups", s(60), s(109), s(49)]),
        json!(["gone", null, null, null]),
        json!(["make", s(10), s(42), s(32)]),
        json!(["new", 0, s(7), s(7)]),
        json!(["old", s(50), s(60), s(10)]),
    ];
    assert_eq!(rows, expected);
    assert_eq!(
        [&page["baseline"]["threads"], &page["baseline"]["processes"]],
        [&json!(3), &json!(3)],
        "also those gone"
    );
    let page = table(&["compare", &before, &after]);
    assert!(page[1].starts_with("make 1 1.00s → 4.20s"), "{page:?}");
    assert!(page.iter().any(|line| line.starts_with("gone - → 0 (−1)")), "{page:?}");
    assert!(page.iter().any(|line| line.starts_with("new - → 1 (+1)")), "{page:?}");
}

#[test]
fn a_comparison_ranks_groups_by_their_share_of_the_host_and_ctprof_last() {
    let files = Files::new();
    let faults =
        |pid, name: &str, faults: u64| process(pid, name, 1, &with(ran(0, 0), &json!({"minflt": faults, "majflt": 0})));
    let own = |run| with(process(8, "ctprof", 1, &ran(run, 0)), &json!({"party": "ctprof"}));
    let before =
        [process(5, "hog", 1, &ran(50, 0)), process(6, "waits", 1, &ran(1, 1)), faults(7, "faults", 0), own(0)];
    let after =
        [process(5, "hog", 1, &ran(80, 0)), process(6, "waits", 1, &ran(1, 21)), faults(7, "faults", 900), own(45)];
    let [before, after] = files.pair(&before, &after);
    let page = table(&["compare", &before, &after]);
    let groups: Vec<_> = page[1..5].iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(groups, ["hog", "waits", "faults", "ctprof"]);
}

#[test]
fn windows_are_compared_per_second_whatever_their_lengths_are() {
    let files = Files::new();
    let window = |name, run| {
        files.window(name, (&[process(5, "app", 1, &ran(0, 0))], &[process(5, "app", 1, &ran(run, 0))]), &json!({}))
    };
    let (slow, fast) = (window("slow", 10), window("fast", 40));
    assert_eq!(table(&["compare", &slow, &fast])[1], "app 1 20% → 80% 0% 80% → 20% run +60pp");
    assert!(
        printed(&["compare", &slow, &fast])
            .contains("baseline   5.00 s from 00:00:10 UTC on vm, 1 thread in 1 process")
    );
}

#[test]
fn two_captures_that_are_no_window_are_a_usage_error_that_says_why() {
    let files = Files::new();
    let [before, after] = files.pair(&[], &[]);
    let host = |fields: Value| {
        let host = with(json!({"boot_id": "b", "uptime_ns": 20 * SECOND}), &fields);
        snapshot(20, &[], &json!({"host": host}))
    };
    let other_boot = files.file("other", &host(json!({"boot_id": "c"})));
    let message = usage_error(&["show", &before, &other_boot]);
    assert!(message.contains("cannot build a window across a reboot; `ctprof compare`"), "{message}");
    let message = usage_error(&["show", &after, &before]);
    assert!(message.contains("the second snapshot is the earlier one; swap them"), "{message}");
    let window = files.window("w", (&[], &[]), &json!({}));
    let message = usage_error(&["show", &before, &window]);
    assert!(message.contains("one of the files is a window, not a snapshot"), "{message}");
    for pair in [[&window, &before], [&before, &window]] {
        let message = usage_error(&["compare", pair[0], pair[1]]);
        let text =
            format!("{window} is a window and {before} is a snapshot: use only windows (ctprof record), or only");
        assert!(message.contains(&text), "{message}");
    }
}

#[test]
fn a_wall_clock_that_is_set_back_does_not_prevent_a_window() {
    let files = Files::new();
    let capture = |second: u64| json!({"capture": {"monotonic_ns": second * SECOND, "boottime_ns": second * SECOND}});
    let a = files.file("a", &snapshot(10, &[process(5, "loop", 1, &ran(10, 0))], &capture(10)));
    let later = with(capture(15), &json!({"captured_at_unix_ns": 2 * SECOND}));
    let b = files.file("b", &snapshot(15, &[process(5, "loop", 1, &ran(50, 0))], &later));
    let page = printed(&["compare", &a, &b]);
    assert!(page.contains("activity   5.00 s since the baseline") && !page.contains("swapped"), "{page}");
    assert!(usage_error(&["show", &b, &a]).contains("swap them"));
}

#[test]
fn a_thread_named_like_exited_work_is_a_group_of_threads() {
    let files = Files::new();
    let fields = with(ran(10, 0), &json!({"comm": "exited children"}));
    let threads = [process(5, "loop", 1, &ran(10, 0)), with(process(5, "loop", 1, &fields), &json!({"tid": 6}))];
    let lines = table(&["show", &files.file("a", &snapshot(10, &threads, &json!({}))), "-g", "all"]);
    assert!(lines.iter().any(|line| line.starts_with("exited children… 1 ")), "{lines:?}");
}

#[test]
fn the_only_kind_of_threads_of_a_process_can_be_selected_in_a_tree() {
    let files = Files::new();
    let worker = with(process(5, "server", 1, &ran(10, 0)), &json!({"comm": "worker"}));
    let file = files.file("a", &snapshot(10, &[worker], &json!({})));
    let begins = |args: &[&str], name: &str| {
        table(&[&["show", &file, "-g", "all"], args].concat()).iter().any(|line| line.trim_start().starts_with(name))
    };
    assert!(begins(&["--only", "worker"], "worker") && begins(&["--only", "server"], "server"));
    assert!(!begins(&[], "worker"), "one line is enough");
}

#[test]
fn a_thread_named_like_exited_work_has_a_line_of_its_own() {
    let files = Files::new();
    let threads = |run, children| {
        let named = json!({"tid": 6, "comm": "exited children"});
        [parent(5, "sh", run, children), with(process(5, "sh", 0, &ran(run, 0)), &named)]
    };
    let [before, after] = files.pair(&threads(0, 0), &threads(5, 20));
    let lines = table(&["show", &before, &after, "-g", "all", "--limit", "0"]);
    for line in ["exited children… 1 10% ", "(exited children) 40% "] {
        assert!(lines.iter().any(|shown| shown.starts_with(line)), "{line}: {lines:?}");
    }
}

#[test]
fn totals_of_the_overview_say_which_threads_they_lack() {
    let events = |csw: u64| json!({"voluntary_csw": csw, "nonvoluntary_csw": 0});
    let threads = [
        process(5, "app", 0, &with(with(ran(10, 0), &events(7)), &json!({"read_bytes": 4096, "block_sum": 5}))),
        process(6, "app", 0, &with(ran(20, 0), &events(1))),
    ];
    let snapshot = snapshot(10, &threads, &json!({}));
    let lines = table(&["show", &Files::new().file("a", &snapshot)]);
    assert_eq!(lines[1], "app 2 30% 0% 0.0%* 170%* 0.8 410B*", "{lines:?}");
    let view = show(&loaded(snapshot), &CompareOptions::default());
    let rows = &view.sections.iter().find(|table| table.section == Section::Overview).unwrap().rows;
    let coverage =
        |name: &str| rows.iter().find(|row| row.name == name).map(|row| (row.covered.baseline.unwrap(), row.partial));
    for name in ["run", "wait", "csw"] {
        assert_eq!(coverage(name), Some((2, false)), "{name}");
    }
    for name in ["read", "block", "sleep"] {
        assert_eq!(coverage(name), Some((1, true)), "{name}");
    }
    assert_eq!(coverage("write"), Some((0, false)));
}

#[test]
fn snapshots_of_one_boot_without_its_uptime_are_compared() {
    let files = Files::new();
    let of = |name, second, run| {
        let host = json!({"boot_id": "b"});
        files.file(name, &snapshot(second, &[process(5, "app", 1, &ran(run, 0))], &json!({"host": host})))
    };
    let page = table(&["compare", &of("before", 10, 10), &of("after", 15, 20)]);
    assert!(page[1].starts_with("app 1 1.00s → 2.00s"), "{page:?}");
}

#[test]
fn processes_that_only_one_capture_looked_at_are_neither_exited_nor_missed() {
    let files = Files::new();
    let of = |name, second, threads: &[Value], pids: Value| {
        files.file(name, &snapshot(second, threads, &json!({"capture": {"options": {"pids": pids}}})))
    };
    let both = [process(5, "app", 1, &ran(1, 0)), process(6, "other", 1, &ran(1, 0))];
    let all = of("all", 10, &both, json!([]));
    let one = of("one", 15, &both[..1], json!([5]));
    let message = usage_error(&["show", &all, &one]);
    assert!(message.contains("the snapshots are of different processes") && message.contains("--pid"), "{message}");
    let page = printed(&["compare", &all, &one]);
    assert!(!page.contains("exited"), "{page}");
    let later = of("later", 20, &both[..1], json!([5]));
    assert_eq!(table(&["show", &one, &later])[0], "group threads");
}

/// A window in which everything happened that its header tells.
fn eventful(files: &Files) -> String {
    let window_fields = json!({
        "suspended_ns": 60 * SECOND, "missed": 1, "backwards": {"run_time_ns": 2},
        "exit_records": {"source": "taskstats", "received": 70, "lost": 3},
        "cpu": {"source": "idle", "cpus": 2, "busy_ns": 8 * SECOND, "explained_ns": 2 * SECOND,
                "interrupt_ns": SECOND, "started": 40, "started_seen": 1},
        "command": {"arguments": ["make", "-j8", "\u{1b}[31mred"], "elapsed_ns": 4 * SECOND, "status": 2},
    });
    let own = with(process(8, "ctprof", 1, &ran(1, 0)), &json!({"party": "ctprof"}));
    let make = with(process(9, "make", 12, &ran(20, 4)), &json!({"party": "command"}));
    let other = |run| process(5, "other", 1, &ran(run, 0));
    files.window("eventful", (&[other(0), own.clone()], &[other(30), own, make]), &window_fields)
}

#[test]
fn a_larger_ring_is_no_fix_for_exits_that_the_kernel_does_not_record() {
    let files = Files::new();
    let window = |name, not_run| {
        let records = json!({"source": "bpf", "received": 70, "lost": 3, "not_run": not_run});
        files.window(name, (&[], &[]), &json!({"exit_records": records}))
    };
    let fix = |file: &str| printed(&["show", file]).contains("a larger --ring");
    assert!(fix(&window("full", 1)) && !fix(&window("not-run", 3)));
}

#[test]
fn programs_that_were_left_without_a_record_are_counted_in_a_note() {
    let files = Files::new();
    let page = |name, execs_lost| {
        let records = json!({"source": "bpf", "received": 70, "lost": 0, "execs_lost": execs_lost});
        printed(&["show", &files.window(name, (&[], &[]), &json!({"exit_records": records}))])
    };
    assert!(page("some", 3).contains("3 records of execve(2) lost"));
    assert!(!page("none", 0).contains("execve(2)"));
}

#[test]
fn the_header_says_what_is_not_explained_and_what_is_not_known() {
    let files = Files::new();
    let page = printed(&["show", &eventful(&files)]);
    for text in [
        "2.00 of 8.00 CPU-seconds accounted for (25%)",
        "make -j8 \\u{1b}[31mred: exit status 2 after 4.00 s, 2.00 CPU-seconds (50%) in 1 thread",
        "not accounted for: 6.00 CPU-seconds (1.00 in interrupts, 5.00 unknown, 39 threads exited without a record)",
        "exited work is unknown: a snapshot lacks counters of processes",
        "3 of 73 exit records were lost",
        "the host was suspended for another 60.0 s",
        "1 thread left out: older than the window",
        "counters that went backwards are left out: run_time_ns of 2 threads",
    ] {
        assert!(page.contains(text), "{text}:\n{page}");
    }
}

#[test]
fn the_header_claims_no_more_than_the_kernel_knows() {
    let files = Files::new();
    let page = |name, window_fields: Value| printed(&["show", &files.window(name, (&[], &[]), &window_fields)]);
    let cpu = |explained: u64, more: Value| {
        let cpu = json!({"source": "idle", "cpus": 2, "busy_ns": 8 * SECOND, "explained_ns": explained * SECOND / 100});
        json!({"cpu": with(cpu, &more)})
    };
    let too_much = "more CPU time than the host had";
    let [possible, impossible] =
        [("a", 808), ("b", 809)].map(|(name, explained)| page(name, cpu(explained, json!({}))));
    assert!(possible.contains("(101%)") && !possible.contains(too_much), "{possible}");
    assert!(impossible.contains("(101%)") && impossible.contains(too_much), "{impossible}");
    let slow = |name, explained| page(name, cpu(explained, json!({"reading_ns": SECOND})));
    let [more, less] = [slow("e", 900), slow("f", 700)];
    assert!(more.contains("than the host had: threads were read for 1.00 s, and what exited meanwhile"), "{more}");
    assert!(less.contains("(1.00 while threads were read, which took 1.00 s)"), "{less}");
    assert!(slow("g", 1100).contains("some work is counted twice"), "more than the host can have done in that time");
    let stolen = page("c", cpu(800, json!({"busy_most_ns": 9 * SECOND, "steal_ns": SECOND})));
    assert!(
        stolen
            .contains("8.00 of 8.00 to 9.00 CPU-seconds accounted for (89 to 100%), and 1.00 stolen by the hypervisor, counted as sleep"),
        "{stolen}"
    );
    let container = page("d", cpu(16, json!({"partial": true})));
    assert!(container.contains("; 0.16 CPU-seconds\n") && !container.contains("accounted"), "{container}");
}

#[test]
fn the_first_line_says_when_and_what_samples_and_interrupts_were_unusual() {
    let files = Files::new();
    let first = |name, interrupt_ns: u64, passes: u64| {
        let reasons = json!({"sampling": {"passes": passes, "period_ns": SECOND / 100}});
        let cpu = json!({"source": "schedstat", "cpus": 2, "busy_ns": SECOND, "explained_ns": 5_000_000,
                         "interrupt_ns": interrupt_ns});
        let end = json!({"reasons": reasons});
        printed(&["show", &files.window_with(name, (&[], &[]), &json!({"cpu": cpu}), &end)])
    };
    let quiet = first("usual", SECOND / 5, 125);
    assert!(quiet.starts_with("window     5.00 s from 00:00:10 UTC on vm, 2 CPUs, "), "{quiet}");
    assert!(quiet.contains("; 5.00 ms of 1.00 CPU-seconds accounted for"), "{quiet}");
    assert!(!quiet.contains("interrupts took") && !quiet.contains("times a second"), "{quiet}");
    let unusual = first("unusual", SECOND / 2, 60);
    assert!(unusual.contains("; interrupts took 10% of a CPU; sampled 12.0 times a second"), "{unusual}");
}

#[test]
fn a_window_that_ends_late_says_so_first() {
    let files = Files::new();
    let first = |name, requested_ns: u64| {
        let page = printed(&["show", &files.window(name, (&[], &[]), &json!({"requested_ns": requested_ns}))]);
        page.lines().next().unwrap().to_owned()
    };
    assert!(
        first("late", 4 * SECOND).starts_with("window     5.00 s instead of 4.00 s"),
        "{}",
        first("late", 4 * SECOND)
    );
    assert!(!first("in-time", 4_800 * SECOND / 1000).contains("instead"));
}

#[test]
fn the_scope_of_a_command_has_its_processes_only() {
    let files = Files::new();
    let file = eventful(&files);
    let groups = |scope| {
        let page = table(&["show", &file, "--scope", scope]);
        page[1..]
            .iter()
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .take_while(|group| group != "1" && group != "not")
            .collect::<Vec<_>>()
    };
    assert_eq!(groups("host"), ["other", "make"]);
    assert_eq!(groups("command"), ["make"]);
}

#[test]
fn other_formats_have_the_overview_and_all_values() {
    let files = Files::new();
    let (before, after) = scene();
    let file = files.window("w", (&before, &after), &json!({}));
    let page: Value = serde_json::from_str(&printed(&["show", &file, "-f", "json"])).unwrap();
    let has = |section: &str, name: &str| {
        page["rows"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["section"] == section && row["metric"] == name && row["group"] == "hog")
    };
    assert!(has("overview", "sleep") && has("primary", "run_time_ns"), "{}", page["rows"][0]);
    let csv = printed(&["show", &file, "-f", "csv"]);
    assert!(csv.lines().any(|line| line.starts_with("overview,hog,")), "{csv:.800}");
    assert!(csv.lines().any(|line| line.starts_with("primary,hog,") && line.contains("run_time_ns")), "{csv:.800}");
    let markdown = printed(&["show", &file, "-f", "markdown"]);
    assert!(markdown.contains("| hog | 1 | 60% | 20% | 20% |"), "{markdown}");
    assert!(printed(&["show", &file, "-f", "markdown", "--long"]).contains("run\\_time\\_ns"));
}

#[test]
fn no_line_of_the_first_screen_is_wider_than_the_terminal() {
    let mut after = scene().1;
    after.push(process(20, "a-very-long-na\u{65e5}", 12, &ran(5, 5)));
    let (before, after) = (snapshot(10, &scene().0, &json!({})), snapshot(15, &after, &json!({})));
    let window = window::between(loaded(before), loaded(after)).unwrap();
    let mut options = CompareOptions::default();
    options.selection.form = Form::Overview;
    let view = show(&window, &options);
    for width in [40, 60, 80, 120] {
        let terminal = Terminal { width: Some(width), ..Terminal::default() };
        let mut out = Vec::new();
        write_table(&mut out, &view, &DisplayOptions::default(), terminal).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(page.lines().all(|line| line.width() <= width.into()), "{width}:\n{page}");
        let hog = page.lines().find(|line| line.starts_with("hog")).unwrap();
        assert!(hog.contains("60%"), "{width}: the group and the run time stay:\n{page}");
        assert_eq!(page.contains("narrow):"), width < 80, "{width}: columns that are left out are named:\n{page}");
    }
}

#[test]
fn columns_of_the_overview_are_selected_and_sorted_by_like_metrics() {
    let files = Files::new();
    // `old` ran longer, `young` for a larger share of its life.
    let threads = [process(5, "old", 0, &ran(30, 10)), process(6, "young", 8, &ran(10, 5))];
    let file = files.file("s", &snapshot(10, &threads, &json!({})));
    let groups = |args: &[&str]| -> Vec<String> {
        let lines = table(&[&["show", &file], args].concat()).into_iter();
        let lines = lines.filter(|line| line.starts_with("old ") || line.starts_with("young "));
        lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    for key in ["run", "run:desc", "run_time_ns", "wait", "sleep:asc"] {
        assert_eq!(groups(&["-s", key]), ["young", "old"], "{key}: as shown, per second");
    }
    assert_eq!(groups(&["-s", "run_time_ns", "-m", "run_time_ns"]), ["old", "young"], "amounts, as shown there");
    for select in ["-m", "--metrics"] {
        assert_eq!(
            table(&["show", &file, select, "wait,run"])[..2],
            ["group threads run wait", "young 1 50% 25%"],
            "{select}"
        );
    }
    let both = printed(&["show", &file, "-m", "wait", "--sections", "overview,primary", "--format", "csv"]);
    let rows = both.lines().filter(|line| line.contains(",old,")).map(|line| line.split(',').nth(2).unwrap());
    assert_eq!(rows.collect::<Vec<_>>(), ["wait", "wait_time_ns"]);
}

#[test]
fn user_and_system_time_are_parts_of_the_time_on_a_cpu() {
    let files = Files::new();
    let ticks = |user: u64, system: u64| json!({"utime_clock_ticks": user, "stime_clock_ticks": system});
    let threads = [
        process(
            5,
            "busy",
            0,
            &with(
                ran(40, 0),
                &with(ticks(300, 99), &json!({"rss_anon_bytes": 4096, "rss_file_bytes": 0, "rss_shmem_bytes": 0})),
            ),
        ),
        process(6, "short", 0, &with(ran(1, 0), &ticks(0, 0))),
    ];
    let lines = table(&["show", &files.file("s", &snapshot(10, &threads, &json!({}))), "-m", "run,usr,sys,rss"]);
    assert_eq!(lines[1..3], ["busy 1 40% 30% 9.9% 4.00KiB", "short 1 1.0% - - -"]);
}

#[test]
fn a_hint_names_no_metric_that_many_kernels_lack() {
    for (typed, hint) in
        [("wait_tme", "wait_time_ns"), ("wait_su", "wait"), ("blok", "block"), ("nr_wakeup", "nr_wakeups")]
    {
        let message = usage_error(&["show", "x", "-m", typed]);
        assert!(message.contains(&format!("unknown metric `{typed}`; did you mean `{hint}`?")), "{message}");
    }
}

#[test]
fn a_narrow_terminal_keeps_run_and_wait() {
    let app = |run, wait, faults: u64| {
        let events = json!({"minflt": faults, "majflt": 0, "voluntary_csw": 10, "nonvoluntary_csw": 1});
        [process(5, "app", 1, &with(ran(run, wait), &events))]
    };
    let [before, after] =
        [app(10, 0, 0), app(11, 30, 1_000_000)].map(|threads| loaded(snapshot(15, &threads, &json!({}))));
    let mut options = CompareOptions::default();
    options.selection.form = Form::Overview;
    let report = ctprof::compare::compare(&before, &after, &options);
    let terminal = Terminal { width: Some(40), ..Terminal::default() };
    let mut out = Vec::new();
    write_table(&mut out, &report, &DisplayOptions::default(), terminal).unwrap();
    let page = String::from_utf8(out).unwrap();
    let heads: Vec<_> = page.lines().find(|line| line.starts_with("group")).unwrap().split_whitespace().collect();
    assert_eq!(heads, ["group", "run", "wait"], "{page}");
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("hidden (terminal too narrow): threads, sleep, csw, faults"), "{page}");
}

/// A process of an interpreter, and what it runs.
fn script(pid: u32, program: &str, run: u64) -> Value {
    process(pid, "python3", 1, &with(ran(run, 0), &json!({"program": program})))
}

#[test]
fn interpreters_have_a_row_per_script_and_one_by_process_name() {
    let files = Files::new();
    let exited = with(script(7, "job-1.py", 2), &json!({"tid": 8}));
    let before = [script(5, "manage.py", 1), script(6, "worker-1.py", 1), script(7, "job-1.py", 1), exited];
    let new = with(script(9, "worker-2.py", 3), &json!({"start_time_clock_ticks": 1300}));
    let after = [script(5, "manage.py", 21), script(6, "worker-1.py", 2), new];
    let [before, after] = files.pair(&before, &after);
    let groups = |args: &[&str]| -> Vec<String> {
        let lines = table(&[&["show", &before, &after], args].concat()).into_iter();
        let lines = lines.filter(|line| line.starts_with("python3 "));
        lines.map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect()
    };
    let expected = ["python3 manage.py 1", "python3 worker-{N}.py 2", "python3 job-1.py 0"];
    assert_eq!(groups(&[]), expected);
    assert_eq!(groups(&["-g", "command"]), expected);
    assert_eq!(groups(&["--only", "python3"]), expected);
    assert_eq!(groups(&["-g", "pcomm"]), ["python3 3, 1"]);
}

#[test]
fn files_that_know_no_scripts_are_compared_by_process_name() {
    let files = Files::new();
    let old = files.file("old", &snapshot(10, &[process(5, "python3", 1, &ran(10, 0))], &json!({})));
    let other_boot = |name: &str, capture: &Value| {
        let host = json!({"boot_id": name, "uptime_ns": 10 * SECOND, "clock_ticks_per_second": 100});
        files.file(name, &snapshot(12, &[script(5, "manage.py", 30)], &json!({"host": host, "capture": capture})))
    };
    let knows = json!({"programs": true});
    let (new, newer) = (other_boot("new", &knows), other_boot("newer", &knows));
    let first = |pair: [&str; 2]| {
        let page: Value = serde_json::from_str(&printed(&["compare", pair[0], pair[1], "--format", "json"])).unwrap();
        let rows = page["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["path"] != json!([])).unwrap();
        (page["group_by"].clone(), row["group"].clone())
    };
    assert_eq!(first([&old, &new]), (json!("pcomm"), json!("python3")));
    assert_eq!(first([&new, &newer]), (json!("command"), json!("python3 manage.py")));
}

/// A thread of process 5.
fn thread_of(tid: u32, run: u64) -> Value {
    with(process(5, "pool", 1, &ran(run, 0)), &json!({"tid": tid}))
}

#[test]
fn the_thread_of_a_pool_that_takes_most_of_its_cpu_time_is_said_to_be_hot() {
    let files = Files::new();
    let first = |run: [u64; 3]| {
        let pool = |run: [u64; 3]| [thread_of(5, run[0]), thread_of(6, run[1]), thread_of(7, run[2])];
        let [before, after] = files.pair(&pool([0; 3]), &pool(run));
        let json: Value = serde_json::from_str(&printed(&["show", &before, &after, "--format", "json"])).unwrap();
        let row = json["rows"].as_array().unwrap().iter().find(|row| row["path"] == json!(["pool"])).unwrap().clone();
        assert_eq!(row["pid"], 5);
        (table(&["show", &before, &after])[1].clone(), row["hottest"].clone())
    };
    let (line, hottest) = first([2, 40, 2]);
    assert!(line.starts_with("pool 3, 1 hot 88% ") && hottest.as_f64().unwrap() > 0.9, "{line} {hottest}");
    assert!(first([20, 40, 2]).0.starts_with("pool 3 124% "));
    assert_eq!(first([0, 2, 0]).1, json!(null), "4 % of its time is not hot");
}

#[test]
fn processes_of_one_name_have_a_row_each_by_id() {
    let files = Files::new();
    let file = files.file("s", &snapshot(10, &[script(5, "a.py", 30), script(6, "a.py", 10)], &json!({})));
    let lines = table(&["show", &file, "-g", "pid"]);
    assert!(lines[1].starts_with("python3 a.py[5] 1 ") && lines[2].starts_with("python3 a.py[6] 1 "), "{lines:?}");
    let pids = table(&["show", &file, "-g", "pid", "-m", "run_time_ns,group,pid"]);
    assert!(pids.contains(&"python3 a.py[6] 6".to_owned()), "{pids:?}");
}

#[test]
fn threads_have_a_row_each_by_id_and_samples_of_equal_names_are_those_of_none() {
    let files = Files::new();
    let named = |tid: u32, name: &str, run: u64| with(thread_of(tid, run), &json!({"comm": name}));
    let threads = [named(5, "pool", 3), named(6, "io", 40), named(7, "twin", 20), named(8, "twin", 10)];
    let sampled = |name: &str| json!({"tgid": 5, "pcomm": "pool", "comm": name});
    let reasons = json!({"sampling": {"passes": 100, "period_ns": 10_000_000},
        "threads": [sampled("io"), sampled("twin")], "reasons": [{"class": "sleep", "entry": "futex"}],
        "times": [[0, 0, 900_000_000, 90], [1, 0, 900_000_000, 90]]});
    let file = files.file("s", &snapshot(10, &threads, &json!({"reasons": reasons})));
    let lines = table(&["show", &file, "-g", "tid"]);
    let rows = lines.iter().filter(|line| !line.starts_with("why "));
    let starts: Vec<_> = rows.filter_map(|line| line.split(" 1 ").next()).skip(1).take(4).collect();
    assert_eq!(starts, ["io[6] of pool[5]", "twin[7] of pool[5]", "twin[8] of pool[5]", "pool[5]"], "{lines:?}");
    let json: Value = serde_json::from_str(&printed(&["show", &file, "-g", "tid", "--format", "json"])).unwrap();
    assert_eq!(json["group_by"], "tid");
    let rows = || json["rows"].as_array().unwrap().iter();
    let ids = rows().find(|row| row["group"] == "twin[8] of pool[5]").map(|row| [&row["pid"], &row["tid"]]);
    assert_eq!(ids, Some([&json!(5), &json!(8)]));
    // Time without samples is that of other reasons.
    let explained = rows().filter(|row| row["section"] == "reasons" && row["reason"]["entry"] == "futex");
    let explained = explained.filter(|row| row["path"] != json!([]));
    assert!(explained.map(|row| &row["group"]).all(|group| group == "io[6] of pool[5]"));
    assert!(rows().any(|row| row["section"] == "reasons" && row["group"] == "io[6] of pool[5]"), "{json}");
}

/// A window of processes that ran and waited so many tenths of a second, each of which waited for the first one.
fn contended(files: &Files, processes: &[(&str, &str, u64, u64)]) -> String {
    let threads = (5..).zip(processes).map(|(pid, (name, cgroup, run, wait))| {
        with(process(pid, name, 0, &ran(*run, *wait)), &json!({"cgroup": cgroup}))
    });
    let sampled = (5..).zip(processes);
    let sampled =
        sampled.map(|(pid, (name, cgroup, ..))| json!({"tgid": pid, "pcomm": name, "comm": name, "cgroup": cgroup}));
    let [name, cgroup] = [processes[0].0, processes[0].1];
    let reason = json!({"class": "wait", "by": {"pcomm": name, "comm": name, "cgroup": cgroup}});
    let times: Vec<_> = (0..processes.len()).map(|at| json!([at, 0, SECOND / 2, 50])).collect();
    let sampling = json!({"passes": 500, "period_ns": SECOND / 100});
    let reasons =
        json!({"sampling": sampling, "threads": sampled.collect::<Vec<_>>(), "reasons": [reason], "times": times});
    files.file("s", &snapshot(10, &threads.collect::<Vec<_>>(), &json!({"reasons": reasons})))
}

#[test]
fn groups_that_waited_most_have_their_reasons_wherever_they_stand() {
    let files = Files::new();
    let busy = ["a", "b", "c", "d", "e", "f", "g"].map(|name| (name, "/", 20, 5));
    let victims = [("v", "/", 2, 60), ("w", "/", 1, 50)];
    let file = contended(&files, &[&busy[..], &victims].concat());
    let lines = table(&["show", &file]);
    let explained: Vec<_> =
        lines.windows(2).filter(|pair| pair[1].starts_with("why ")).map(|pair| &pair[0][..1]).collect();
    assert_eq!(explained.len(), 8, "{lines:?}");
    assert!(explained.ends_with(&["v", "w"]), "{lines:?}");
}

#[test]
fn why_lines_have_the_last_two_parts_of_paths_of_cgroups() {
    let files = Files::new();
    let file = contended(&files, &[("hog", "/pods/blue/api", 20, 0), ("victim", "/pods/web", 2, 30)]);
    let page = printed(&["show", &file, "-g", "cgroup"]);
    assert!(page.contains(": …/blue/api ran "), "{page}");
}

#[test]
fn axes_have_their_old_names_too() {
    let files = Files::new();
    let file = files.file("s", &snapshot(10, &[process(5, "app", 0, &ran(30, 0))], &json!({})));
    let by = |axis| printed(&["show", &file, "-g", axis]);
    assert_eq!([by("pcomm"), by("comm")], [by("process"), by("thread")]);
    assert!(by("comm-exact").contains("\napp "));
}

#[test]
fn a_width_of_80_has_what_the_first_screen_is_about_and_40_has_run_and_wait() {
    let files = Files::new();
    let busy = json!({"run_time_ns": SECOND, "wait_time_ns": SECOND, "block_sum": SECOND, "voluntary_csw": 900_000,
                      "nonvoluntary_csw": 5, "minflt": 3_000_000, "majflt": 0, "read_bytes": 7_u64 << 30,
                      "write_bytes": 5_u64 << 30, "utime_clock_ticks": 60, "stime_clock_ticks": 40});
    let idle = [
        "run_time_ns",
        "wait_time_ns",
        "block_sum",
        "voluntary_csw",
        "nonvoluntary_csw",
        "minflt",
        "majflt",
        "read_bytes",
        "write_bytes",
        "utime_clock_ticks",
        "stime_clock_ticks",
    ];
    let idle: serde_json::Map<_, _> = idle.into_iter().map(|name| (name.to_owned(), json!(0))).collect();
    let name = "a-service-15-by";
    let [before, after] = files.pair(&[process(5, name, 1, &json!(idle))], &[process(5, name, 1, &busy)]);
    let page = |args: &[&str], columns: &str| {
        let mut show = std::process::Command::new(env!("CARGO_BIN_EXE_ctprof"));
        let shown = show.args(args).env("COLUMNS", columns).output().unwrap();
        let page = String::from_utf8(shown.stdout).unwrap();
        assert!(page.lines().all(|line| line.chars().count() <= columns.parse().unwrap()), "{page}");
        page
    };
    let has = |page: &str, columns: &[&str]| {
        let heading = page.lines().find(|line| line.starts_with("group")).unwrap();
        let words: Vec<_> = heading.split_whitespace().collect();
        assert!(columns.iter().all(|column| words.contains(column)), "{columns:?}:\n{page}");
    };
    has(&page(&["show", &before, &after], "80"), &["group", "threads", "run", "wait", "block", "sleep"]);
    has(&page(&["show", &before, &after], "40"), &["group", "run", "wait"]);
    has(&page(&["compare", &before, &after], "80"), &["group", "threads", "run", "wait", "block", "change"]);
}

#[test]
fn what_is_named_is_shown_although_it_is_idle() {
    let files = Files::new();
    let threads = [process(5, "busy", 0, &ran(30, 0)), process(6, "rests", 0, &ran(0, 0))];
    let rests = |fields: &Value, args: &[&str]| {
        let file = files.file("s", &snapshot(10, &threads, fields));
        table(&[&["show", &file], args].concat()).iter().any(|line| line.starts_with("rests 1 "))
    };
    assert!(!rests(&json!({}), &[]) && rests(&json!({}), &["--only", "rests"]));
    let selected = json!({"capture": {"no_bpf": {"cause": "selected-processes"}}});
    assert!(rests(&selected, &[]), "processes that --pid selects");
}

#[test]
fn the_first_screen_has_only_gaps_of_what_it_shows_and_says_of_how_many_threads() {
    let files = Files::new();
    let threads = |io: &Value| [process(5, "denied", 0, &ran(30, 0)), process(6, "read", 0, &with(ran(10, 0), io))];
    let failed = json!({"parse_summary": {"tids_walked": 2, "read_failures_by_errno": {"io": {"EACCES": 1}, "smaps_rollup": {"EACCES": 1}}}});
    let page = |io: &Value, args: &[&str]| {
        let file = files.file("s", &snapshot(10, &threads(io), &failed));
        let page = printed(&[&["show", &file], args].concat());
        page.lines()
            .filter(|line| line.starts_with("missing") || line.starts_with("partial"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let read = json!({"read_bytes": 4096, "write_bytes": 0});
    let first = page(&read, &[]);
    assert!(first.len() == 1 && first[0].starts_with("partial    io: not read for 1 of 2 threads"), "{first:?}");
    assert_eq!(page(&read, &["-m", "run"]), [""; 0]);
    assert_eq!(page(&read, &["-m", "run_time_ns"]), [""; 0]);
    let selected = page(&read, &["-m", "read_bytes"]);
    assert!(selected.len() == 1 && selected[0].starts_with("missing    io: not read for 1 of 2"), "{selected:?}");
    let all = page(&read, &["--long"]);
    assert!(all.iter().any(|line| line.contains("smaps_rollup")), "{all:?}");
}

#[test]
fn no_text_in_csv_is_a_formula_and_numbers_stay_numbers() {
    let files = Files::new();
    let policy = with(process(7, "\u{ff1d}1", 0, &ran(1, 0)), &json!({"policy": "-2+cmd|x"}));
    let threads = [process(5, "=cmd|x", 0, &ran(30, 0)), process(6, "@sum", 0, &ran(1, 0)), policy];
    let file = files.file("s", &snapshot(10, &threads, &json!({})));
    let page = printed(&["show", &file, "--format", "csv", "--long", "-u"]);
    assert!(page.contains(",'-2+cmd|x") && page.contains(",'\u{ff1d}1,") && !page.contains(",'3"), "{page}");
    assert!(page.contains(",'=cmd|x,") && page.contains(",'@sum,") && !page.contains(",=cmd"), "{page}");
}

#[test]
fn short_lived_processes_say_who_started_them() {
    let files = Files::new();
    let exited = |parent: &str, count: u64| {
        let fields = json!({"parent": parent, "count": count, "alive_ns": 5, "started": true, "exited": true});
        with(process(9, "sh", 11, &ran(5, 0)), &fields)
    };
    let threads = [process(5, "make", 1, &ran(1, 0)), exited("make", 480), exited("bash build.sh", 1)];
    let window = json!({"window": {"duration_ns": 5 * SECOND}});
    let file = files.file("w", &snapshot(15, &threads, &window));
    assert!(
        table(&["show", &file])[1].starts_with("sh 0 (+481 −481) by make, … 20% "),
        "{:?}",
        table(&["show", &file])
    );
    let json: Value = serde_json::from_str(&printed(&["show", &file, "--format", "json"])).unwrap();
    let row = json["rows"].as_array().unwrap().iter().find(|row| row["path"] == json!(["sh"])).unwrap().clone();
    assert_eq!(row["parents"], json!({"make": 480, "bash build.sh": 1}));
}

#[test]
fn a_wait_for_a_cpu_quota_is_told_where_no_samples_say_so() {
    let files = Files::new();
    let quota = |periods: u64, throttled: u64| {
        json!({"cgroup_stats": {"/pod": {"cpu": {"nr_periods": periods, "nr_throttled": throttled}},
                                "/pod/app": {"cpu": {"nr_periods": periods, "nr_throttled": 0}},
                                "/limited": {"cpu": {"nr_periods": 10 * periods, "nr_throttled": 10 * throttled}}}})
    };
    let of = |name, run: u64, cgroups: &Value| with(process(6, name, 1, &ran(run, run)), cgroups);
    let threads = |run: u64| {
        let leaf = of("below", 2 * run, &json!({"cgroup": "/pod/app"}));
        let other =
            with(of("v1", run, &json!({"cgroup": "/job", "cpu_cgroup": "/limited"})), &json!({"tid": 7, "tgid": 7}));
        vec![leaf, other, with(of("free", run, &json!({})), &json!({"tid": 8, "tgid": 8}))]
    };
    let before = files.file("before", &snapshot(10, &threads(1), &quota(10, 5)));
    let after = files.file("after", &snapshot(15, &threads(11), &quota(60, 43)));
    let lines = table(&["show", &before, &after]);
    let why: Vec<_> = lines.iter().filter(|line| line.starts_with("why")).map(String::as_str).collect();
    assert_eq!(
        why,
        [
            "why wait 40%: CPU quota (throttled in 38 of 50 periods)",
            "why wait 20%: CPU quota (throttled in 380 of 500 periods)"
        ],
        "{lines:?}"
    );
    let report: Value = serde_json::from_str(&printed(&["show", &before, &after, "--format", "json"])).unwrap();
    let of_group = |group: &str| {
        let mut rows = report["rows"].as_array().unwrap().iter();
        rows.find(|row| row["section"] == "overview" && row["group"] == group).unwrap()["throttled"].clone()
    };
    assert_eq!(of_group("below"), json!({"periods": 50, "throttled": 38}));
    assert_eq!((of_group("free"), of_group("all groups")), (Value::Null, json!({"periods": 550, "throttled": 418})));
}

#[test]
fn a_comparison_has_the_largest_change_of_each_group_in_the_color_of_better_or_worse() {
    let files = Files::new();
    let of = |slow: u64, fast: u64| vec![process(6, "slow", 1, &ran(slow, 5)), process(7, "fast", 1, &ran(fast, 5))];
    let (a, b) = (
        files.window("a", (&of(1, 1), &of(11, 31)), &json!({})),
        files.window("b", (&of(1, 1), &of(41, 11)), &json!({})),
    );
    let plain = printed(&["compare", &a, &b]);
    let lines: Vec<_> = plain.lines().skip_while(|line| !line.starts_with("group")).collect();
    assert!(lines[0].ends_with("  change"), "{plain}");
    assert!(lines[1].starts_with("slow") && lines[1].ends_with("run +60pp"), "{plain}");
    assert!(lines[2].starts_with("fast") && lines[2].ends_with("run −40pp"), "{plain}");
    let color = printed(&["compare", &a, &b, "--color", "always"]);
    assert!(
        color.contains("\u{1b}[31mrun +60pp\u{1b}[0m\n") && color.contains("\u{1b}[32mrun −40pp\u{1b}[0m\n"),
        "{color}"
    );
    let limited = |args: &[&str]| printed(&[&["compare", &a, &b, "-n", "1"], args].concat());
    assert!(limited(&[]).contains("1 more group, which changed less (--limit 0)"));
    assert!(limited(&["-s", "wait:asc,run"]).contains("1 more group, sorted by wait:asc, run (--limit 0)"));
}

#[test]
fn a_tree_keeps_the_scripts_of_one_interpreter_apart() {
    let files = Files::new();
    let of = |tid: u32, program: &str| {
        let fields = json!({"tid": tid, "tgid": tid, "program": program, "cgroup": "/app"});
        with(process(tid, "python3", 1, &ran(30, 1)), &fields)
    };
    let file = files.file("a", &snapshot(10, &[of(6, "manage.py"), of(7, "train.py")], &json!({})));
    let lines = table(&["show", &file, "--group-by", "all"]);
    let has = |name: &str| lines.iter().any(|line| line.starts_with(name));
    assert!(has("/app 2") && has("python3 manage.py 1") && has("python3 train.py 1"), "{lines:?}");
}

#[test]
fn a_group_that_has_memory_and_does_nothing_is_idle_unless_groups_are_sorted_by_memory() {
    let files = Files::new();
    let memory = json!({"rss_anon_bytes": 5 << 20, "rss_file_bytes": 0, "rss_shmem_bytes": 0});
    let at = |run: u64| {
        let process = |pid, name, run| process(pid, name, 1, &with(ran(run, 0), &memory));
        [process(5, "busy", 1 + run), process(6, "waits", 1)]
    };
    let [before, after] = files.pair(&at(0), &at(20));
    let shown = |args: &[&str]| {
        let lines = table(&[&["show", &before, &after], args].concat());
        lines.iter().filter(|line| line.contains("5.00MiB")).count()
    };
    assert_eq!([&[][..], &["-s", "rss"], &["-m", "rss,sleep"], &["-u"]].map(shown), [1, 2, 2, 2]);
}

#[test]
fn renamed_cgroups_are_one_row_with_a_mark_unless_names_are_exact() {
    let files = Files::new();
    let side = |cgroup: &str, run: u64| {
        let thread = |(tid, comm): (u32, &str)| {
            with(process(6, comm, 1, &ran(run, 0)), &json!({"tid": tid, "tgid": 6, "pcomm": "web", "cgroup": cgroup}))
        };
        let threads: Vec<_> = [(6, "accept"), (7, "parse"), (8, "reply")].map(thread).to_vec();
        files.file(&cgroup[1..], &snapshot(10, &threads, &json!({})))
    };
    let (old, new) = (side("/alpha", 5), side("/omega", 9));
    let args = ["compare", &old, &new, "-g", "cgroup", "--sections", "primary", "-m", "run_time_ns"];
    let page = printed(&args);
    assert!(page.contains("\n≈ /alpha  ") && !page.contains("\n/omega  "), "{page}");
    assert!(page.contains("\nrenamed cgroups (≈) and how alike their threads are\n100%  "), "{page}");
    assert!(page.contains("  /alpha → /omega\n"), "{page}");
    let exact = printed(&[&args[..], &["--names", "exact"]].concat());
    assert!(!exact.contains('≈') && exact.contains("\n/alpha  ") && exact.contains("\n/omega  "), "{exact}");
}

#[test]
fn a_quota_whose_periods_are_unknown_is_not_throttled_in_so_many_of_none() {
    let files = Files::new();
    let of = |throttled: u64| json!({"cgroup_stats": {"/pod": {"cpu": {"nr_throttled": throttled}}}});
    let thread = |run: u64| vec![process(6, "app", 1, &with(ran(run, run), &json!({"cgroup": "/pod"})))];
    let before = files.file("before", &snapshot(10, &thread(1), &of(5)));
    let after = files.file("after", &snapshot(15, &thread(11), &of(43)));
    let lines = table(&["show", &before, &after]);
    assert!(!lines.iter().any(|line| line.contains("periods")), "{lines:?}");
}
