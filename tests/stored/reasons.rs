//! Promises to users about the reasons why threads waited: amounts from counters, shares from samples.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ctprof::compare::{CompareOptions, Form};
use ctprof::report::{DisplayOptions, Terminal, write_table};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::stored::program::{printed, run};

const MS: u64 = 1_000_000;

/// A process of one thread, with times of its counters in milliseconds of a window of 10 s, and its reasons with the number
/// of their samples.
struct Sampled<'s> {
    name: &'s str,
    run: u64,
    wait: u64,
    block: Option<u64>,
    reasons: Vec<(Value, u64)>,
}

fn reason(class: &str, entry: &str, functions: &[&str], object: &str) -> Value {
    let mut reason = json!({"class": class, "functions": functions});
    for (key, value) in [("entry", entry), ("object", object)].into_iter().filter(|(_, value)| !value.is_empty()) {
        reason[key] = value.into();
    }
    reason
}

fn ran(culprit: &str) -> Value {
    json!({"class": "wait", "by": {"pcomm": culprit, "comm": culprit, "cgroup": "/"}})
}

/// A window of 10 s with samples of 50 Hz.
fn window(processes: &[Sampled<'_>]) -> Value {
    let (mut threads, mut sampled, mut reasons, mut times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (place, Sampled { name, run, wait, block, reasons: of_process }) in processes.iter().enumerate() {
        threads.push(json!({"tid": place + 1, "tgid": place + 1, "pcomm": name, "comm": name, "cgroup": "/",
            "alive_ns": 10_000 * MS, "run_time_ns": run * MS, "wait_time_ns": wait * MS,
            "block_sum": block.map(|block| block * MS)}));
        sampled.push(json!({"tgid": place + 1, "pcomm": name, "comm": name, "cgroup": "/"}));
        for (reason, samples) in of_process {
            times.push(json!([place, reasons.len(), samples * 20 * MS, samples]));
            reasons.push(reason.clone());
        }
    }
    let sampling = json!({"source": "bpf", "passes": 500, "period_ns": 20 * MS, "samples": 1234, "lost": 7,
                          "cost_ns": 30 * MS});
    json!({"format_version": 2, "captured_at_unix_ns": 1, "threads": threads,
           "host": {"online_cpus": 2, "clock_ticks_per_second": 100},
           "window": {"duration_ns": 10_000 * MS},
           "reasons": {"sampling": sampling, "threads": sampled, "reasons": reasons, "times": times}})
}

fn database(fsync: u64) -> Sampled<'static> {
    let wal = |function| reason("block", "fdatasync", &[function, "ext4_sync_file"], "/data/appendonly.aof");
    Sampled {
        name: "redis-server",
        run: 340,
        wait: 500,
        block: Some(fsync),
        reasons: vec![
            (wal("submit_bio_wait"), fsync / 25),
            (wal("folio_wait_bit"), 5),
            (reason("block", "openat", &["lookup_slow"], "/data/other"), 4),
            (ran("redis-benchmark"), 14),
            (ran("redis-server"), 6),
            (reason("idle", "futex", &["futex_wait_queue"], ""), 300),
            (reason("sleep", "epoll_wait", &["ep_poll"], ""), 60),
        ],
    }
}

fn other(name: &str) -> Sampled<'_> {
    Sampled { name, run: 9000, wait: 100, block: Some(0), reasons: vec![(json!({"class": "run"}), 480)] }
}

/// A database that waits for its disk for so many milliseconds and for CPUs, and a compiler that only runs.
pub(crate) fn slow_database(fsync: u64) -> Value {
    window(&[database(fsync), other("cc1")])
}

/// Two programs that wait for a lock in functions of the same names, which other functions called. Of one, so many samples
/// are in another function.
pub(crate) fn two_pools(in_flush: u64) -> Value {
    let futex = |(stack, samples): (&str, u64)| {
        let mut reason = reason("sleep", "futex", &["futex_wait_queue"], "");
        reason["stack"] = stack.into();
        (reason, samples)
    };
    let pool = |name, stacks: &[(&str, u64)]| {
        let reasons = stacks.iter().copied().map(futex).chain([(json!({"class": "run"}), 50)]).collect();
        Sampled { name, run: 1000, wait: 0, block: Some(0), reasons }
    };
    let api = [("api:take;api:get;api:serve;api:main", 320), ("api:flush;api:serve;api:main", in_flush)];
    window(&[pool("api", &api), pool("jobs", &[("jobs:take;jobs:get;jobs:?stripped+0x1a2b0;jobs:main", 400)])])
}

/// The file of a window in a new directory.
fn stored(window: &Value) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "w.json", window);
    (directory, path)
}

fn write(directory: &Path, name: &str, window: &Value) -> String {
    let path = directory.join(name);
    fs::write(&path, window.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The values of the section by group and name, in milliseconds.
fn rows(args: &[&str]) -> Vec<(String, String, Value)> {
    let page: Value = serde_json::from_str(&printed(&[args, &["-f", "json", "--per", "run"]].concat())).unwrap();
    let rows = page["rows"].as_array().unwrap().iter().filter(|row| row["section"] == "reasons");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rows.map(|row| (text(&row["group"]), text(&row["metric"]), row["value"].clone())).collect()
}

fn of_group<'r>(rows: &'r [(String, String, Value)], group: &str) -> Vec<(&'r str, u64)> {
    let rows = rows.iter().filter(|(name, ..)| name == group);
    rows.map(|(_, name, value)| (&**name, value.as_u64().unwrap() / MS)).collect()
}

#[test]
fn reasons_divide_the_time_of_the_counters_by_their_shares_of_samples() {
    let (_directory, path) = stored(&slow_database(1000));
    let rows = rows(&["show", &path]);
    assert_eq!(
        of_group(&rows, "redis-server"),
        [
            ("sleep: idle", 6800),
            ("sleep: epoll_wait → ep_poll", 1360),
            ("block: fdatasync → submit_bio_wait on /data/appendonly.aof", 816),
            ("wait: redis-benchmark ran", 350),
            ("run: on a CPU", 340),
            ("wait: itself ran", 150),
            ("block: fdatasync → folio_wait_bit on /data/appendonly.aof", 102),
            ("block: other", 81),
        ],
        "block has 49 samples of 1 s, of which 4 of one reason are too few"
    );
    let of_compiler = [("run: on a CPU", 9000), ("sleep: other", 900), ("wait: other", 100)];
    assert_eq!(of_group(&rows, "cc1"), of_compiler, "no sample says whom it waited for, or why it slept");
}

/// The lines below the groups of the overview, with single spaces.
fn first_screen(args: &[&str]) -> Vec<String> {
    let page = printed(args);
    let lines = page.lines().skip_while(|line| !line.starts_with("group")).filter(|line| line.starts_with("  "));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_first_screen_says_why_a_group_waits_and_not_that_it_is_idle() {
    let (_directory, path) = stored(&slow_database(1000));
    let mut page = Vec::new();
    let snapshot = serde_json::from_value(slow_database(1000)).unwrap();
    let mut options = CompareOptions::default();
    options.selection.form = Form::Overview;
    let terminal = Terminal { width: Some(80), ..Terminal::default() };
    write_table(&mut page, &ctprof::compare::show(&snapshot, &options), &DisplayOptions::default(), terminal).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.lines().all(|line| line.width() <= 80) && page.contains("\n  why   sleep"), "{page}");
    let expected = [
        "why sleep 82%: epoll_wait → ep_poll 14%",
        "block 10%: fdatasync → submit_bio_wait on …/appendonly.aof 8.2%, folio_wait_bit 1.0%",
    ];
    assert_eq!(first_screen(&["show", &path]), expected, "three columns matter, two have lines");
    let markdown = printed(&["show", &path, "-f", "markdown"]);
    assert!(markdown.contains("\n- **redis-server** sleep 82%: epoll\\_wait → ep\\_poll 14%\n"), "{markdown}");
    let only_idle = (reason("idle", "futex", &["futex_wait_queue"], ""), 400);
    let idle = Sampled { name: "idle", run: 5, wait: 0, block: Some(0), reasons: vec![only_idle] };
    let (_directory, path) = stored(&window(&[idle]));
    assert_eq!(first_screen(&["show", &path]), [""; 0]);
}

#[test]
fn the_capturing_process_does_not_say_why_it_waits() {
    let mut file = slow_database(1000);
    file["threads"][0]["party"] = "ctprof".into();
    let (_directory, path) = stored(&file);
    assert_eq!(first_screen(&["show", &path]), [""; 0]);
}

#[test]
fn a_victim_that_mostly_sleeps_says_who_was_in_its_way() {
    let nap = || reason("sleep", "clock_nanosleep", &["hrtimer_nanosleep"], "");
    let reasons = vec![(ran("hog"), 25), (nap(), 400)];
    let victim = Sampled { name: "victim", run: 700, wait: 500, block: Some(0), reasons };
    let (_directory, path) = stored(&window(&[victim, other("hog")]));
    let lines = first_screen(&["show", &path]);
    assert_eq!(lines, ["why sleep 88%: clock_nanosleep → hrtimer_nanosleep 88%", "wait 5.0%: hog ran 5.0%"]);
}

#[test]
fn groups_that_hardly_run_and_kernel_threads_without_work_do_not_say_why_they_sleep() {
    let sleeps = |name, run, entry: &str| {
        let reasons = vec![(reason("sleep", entry, &["a_function"], ""), 400)];
        Sampled { name, run, wait: 0, block: Some(0), reasons }
    };
    let all =
        [other("busy"), sleeps("server", 900, "epoll_wait"), sleeps("kworker", 900, ""), sleeps("shim", 8, "futex")];
    let (_directory, path) = stored(&window(&all));
    assert_eq!(first_screen(&["show", &path]), ["why sleep 91%: epoll_wait → a_function 91%"]);
}

#[test]
fn a_culprit_is_the_script_that_the_only_interpreter_of_its_name_runs() {
    let waits =
        |name, culprit| Sampled { name, run: 5000, wait: 5000, block: Some(0), reasons: vec![(ran(culprit), 250)] };
    let mut all = window(&[waits("python3", "python3"), waits("victim", "python3")]);
    all["capture"] = json!({"tool": "ctprof", "programs": true});
    all["threads"][0]["program"] = "serve.py".into();
    let (_directory, path) = stored(&all);
    let lines = ["why wait 50%: itself ran 50%", "why wait 50%: python3 serve.py ran 50%"];
    assert_eq!(first_screen(&["show", &path, "-g", "command"]), lines);
}

#[test]
fn reasons_with_fewer_than_five_samples_are_others_whose_time_adds_up_to_that_of_the_group() {
    let few = vec![
        (reason("block", "read", &["folio_wait_bit"], ""), 4),
        (json!({"class": "cpu_quota"}), 3),
        (json!({"class": "stopped"}), 1),
        (reason("sleep", "futex", &["futex_wait_queue"], ""), 3),
    ];
    let few = Sampled { reasons: few, ..database(1000) };
    let (_directory, path) = stored(&window(&[few]));
    let found = rows(&["show", &path]);
    let all = [
        ("sleep: other", 6120),
        ("stopped: by a signal", 2040),
        ("block: other", 1000),
        ("wait: other", 500),
        ("run: on a CPU", 340),
    ];
    assert_eq!((of_group(&found, "redis-server"), all.iter().map(|(_, ms)| ms).sum()), (all.to_vec(), 10_000));
    assert_eq!(first_screen(&["show", &path]), [""; 0]);
    let places = |object| (reason("block", "read", &["folio_wait_bit"], object), 3);
    let (_directory, path) =
        stored(&window(&[Sampled { reasons: vec![places("/a"), places("/b")], ..database(1000) }]));
    let rows = rows(&["show", &path]);
    let of_database = of_group(&rows, "redis-server");
    assert!(of_database.contains(&("block: read → folio_wait_bit", 1000)), "together they have six: {of_database:?}");
}

#[test]
fn threads_wait_no_longer_for_a_cpu_quota_than_their_cgroups_were_throttled() {
    let waits = vec![(json!({"class": "cpu_quota"}), 20), (ran("cc1"), 5)];
    let mut file = window(&[Sampled { reasons: waits, ..database(1000) }]);
    let mut waits = |throttled_usec: Option<u64>| {
        file["cgroup_stats"] = json!({"/": {"cpu": {"throttled_usec": throttled_usec}}});
        let (_directory, path) = stored(&file);
        let rows = rows(&["show", &path]);
        let waits = of_group(&rows, "redis-server").into_iter().filter(|(name, _)| name.starts_with("wait"));
        waits.map(|(name, ms)| (name.to_owned(), ms)).collect::<BTreeMap<_, _>>()
    };
    let named = |times: &[(&str, u64)]| times.iter().map(|(name, ms)| (format!("wait: {name}"), *ms)).collect();
    assert_eq!(waits(None), named(&[("CPU quota", 400), ("cc1 ran", 100)]));
    assert_eq!(waits(Some(600_000)), named(&[("CPU quota", 400), ("cc1 ran", 100)]));
    assert_eq!(waits(Some(300_000)), named(&[("CPU quota", 300), ("cc1 ran", 100), ("other", 100)]));
    assert_eq!(waits(Some(0)), named(&[("CPU quota", 0), ("cc1 ran", 100), ("other", 400)]));
}

#[test]
fn a_cgroup_that_was_made_in_the_window_limits_no_wait_to_what_those_above_it_say() {
    let waits = vec![(json!({"class": "cpu_quota"}), 25)];
    let mut file = window(&[Sampled { reasons: waits, ..database(1000) }]);
    for list in ["/threads/0", "/reasons/threads/0"] {
        file.pointer_mut(list).unwrap()["cgroup"] = "/job".into();
    }
    let mut quota = |of_job: Value| {
        file["cgroup_stats"] = json!({"/": {"cpu": {"usage_usec": 9, "throttled_usec": 0}}, "/job": {"cpu": of_job}});
        let (_directory, path) = stored(&file);
        let rows = rows(&["show", &path]);
        of_group(&rows, "redis-server").into_iter().find(|(name, _)| *name == "wait: CPU quota").unwrap().1
    };
    assert_eq!([quota(json!({})), quota(json!({"usage_usec": 5}))], [500, 0], "unknown, and no quota");
}

#[test]
fn a_quota_of_a_cgroup_above_that_of_the_thread_is_found_or_unknown() {
    let waits = vec![(json!({"class": "cpu_quota"}), 25)];
    let mut file = window(&[Sampled { reasons: waits, ..database(1000) }]);
    for list in ["/threads/0", "/reasons/threads/0"] {
        file.pointer_mut(list).unwrap()["cgroup"] = "/batch/job".into();
    }
    let mut quota = |above: Value| {
        let none = json!({"cpu": {"usage_usec": 9, "throttled_usec": 0}});
        file["cgroup_stats"] = json!({"/": none, "/batch": above, "/batch/job": none});
        let (_directory, path) = stored(&file);
        let rows = rows(&["show", &path]);
        of_group(&rows, "redis-server").into_iter().find(|(name, _)| *name == "wait: CPU quota").unwrap().1
    };
    let throttled = json!({"cpu": {"usage_usec": 9, "throttled_usec": 300_000}});
    let none = json!({"cpu": {"usage_usec": 9, "throttled_usec": 0}});
    assert_eq!([throttled, json!({}), none].map(&mut quota), [300, 500, 0], "found, unknown and none");
}

#[test]
fn of_selected_processes_a_culprit_can_be_another_one_with_the_same_name() {
    let mut served = window(&[Sampled { name: "python3", reasons: vec![(ran("python3"), 400)], ..database(1000) }]);
    served["threads"][0]["program"] = "serve.py".into();
    served["reasons"]["threads"][0]["program"] = "serve.py".into();
    let names = |file: &Value| {
        let (_directory, path) = stored(file);
        let rows = rows(&["show", &path]);
        rows.into_iter().map(|(_, name, _)| name).filter(|name| name.ends_with(" ran")).collect::<Vec<_>>()
    };
    assert!(names(&served).contains(&"wait: itself ran".to_owned()));
    served["capture"] = json!({"options": {"pids": [1]}});
    assert!(names(&served).contains(&"wait: python3 ran".to_owned()), "{:?}", names(&served));
}

#[test]
fn what_many_threads_did_at_few_moments_is_not_told() {
    let mut file = slow_database(1000);
    file["reasons"]["sampling"]["passes"] = 4.into();
    let (_directory, path) = stored(&file);
    let names: Vec<_> = rows(&["show", &path]).into_iter().map(|(_, name, _)| name).collect();
    let is_unknown = |name: &String| name.ends_with(": other") || ["sleep: idle", "run: on a CPU"].contains(&&**name);
    assert!(names.iter().all(is_unknown), "{names:?}");
    assert_eq!(first_screen(&["show", &path]), [""; 0]);
}

#[test]
fn without_a_counter_of_blocked_time_blocks_are_a_part_of_the_sleep() {
    let uncounted = Sampled { block: None, ..database(1000) };
    let (_directory, path) = stored(&window(&[uncounted]));
    let rows = rows(&["show", &path]);
    let times = of_group(&rows, "redis-server");
    let sleep = 10_000 - 340 - 500;
    let all: u64 = times
        .iter()
        .filter(|(name, _)| name.starts_with("block") || name.starts_with("sleep"))
        .map(|(_, time)| time)
        .sum();
    assert!(all.abs_diff(sleep) <= 6, "{times:?}");
    assert!(
        times.contains(&("block: fdatasync → submit_bio_wait on /data/appendonly.aof", sleep * 40 / 409)),
        "{times:?}"
    );
    let lines = first_screen(&["show", &path]);
    assert!(
        lines.iter().any(|line| line.contains("block: fdatasync → submit_bio_wait on …/appendonly.aof 9.0%")),
        "{lines:?}"
    );
}

#[test]
fn why_with_a_group_shows_all_of_its_reasons_and_how_they_were_sampled() {
    let (_directory, path) = stored(&slow_database(1000));
    let page = printed(&["show", &path, "--why=redis*"]);
    assert!(page.contains("\n  1234 samples at 50 Hz by bpf, 7 lost, cost 0.30% of a CPU\n"), "{page}");
    assert!(page.contains("sleep: idle") && !page.contains("cc1") && !page.contains("all groups"), "{page}");
    assert!(printed(&["show", &path, "--why"]).contains("cc1"));
    let unsampled = json!({"format_version": 2, "threads": [], "window": {"duration_ns": 1}});
    let (_directory, path) = stored(&unsampled);
    let page = printed(&["show", &path, "--why"]);
    assert!(page.contains("no data: the threads of this window were not sampled"), "{page}");
}

#[test]
fn a_culprit_is_named_as_the_grouping_of_the_victim_names_it() {
    let mut file = window(&[database(1000)]);
    file["reasons"]["reasons"][3]["by"] = json!({"pcomm": "make", "comm": "cc1plus", "cgroup": "/build"});
    let (_directory, path) = stored(&file);
    for (axis, culprit) in [("pcomm", "make"), ("comm", "cc1plus"), ("cgroup", "/build"), ("all", "make")] {
        let rows = rows(&["show", &path, "--group-by", axis]);
        let name = format!("wait: {culprit} ran");
        assert!(rows.iter().any(|(_, row, _)| *row == name), "{axis}: {rows:?}");
        assert!(
            rows.iter().any(|(group, row, _)| group != "all groups" && row == "wait: itself ran"),
            "{axis}: {rows:?}"
        );
    }
}

#[test]
fn of_selected_processes_one_that_is_called_itself_is_no_other() {
    let mut file = window(&[database(1000)]);
    file["capture"] = json!({"tool": "ctprof", "options": {"pids": [7]}});
    file["reasons"]["reasons"][3]["by"] = json!({"pcomm": "itself", "comm": "itself"});
    let (_directory, path) = stored(&file);
    let ran: Vec<_> = rows(&["show", &path]).into_iter().filter(|(_, row, _)| row.contains(" ran")).collect();
    assert!(ran.iter().any(|(group, ..)| group == "all groups"), "{ran:?}");
}

#[test]
fn reasons_of_a_command_are_those_of_its_threads() {
    let mut file = slow_database(1000);
    file["window"]["command"] = json!({"arguments": ["redis-server"], "elapsed_ns": 10_000 * MS, "status": 0});
    file["threads"][0]["party"] = "command".into();
    file["reasons"]["threads"][0]["owner"] = "command".into();
    let (_directory, path) = stored(&file);
    let rows = rows(&["show", &path, "--scope", "command"]);
    assert!(rows.iter().all(|(group, ..)| group != "cc1") && rows.iter().any(|(group, ..)| group == "redis-server"));
}

#[test]
fn folded_stacks_begin_with_the_group_and_end_with_the_innermost_function() {
    let (_directory, path) = stored(&slow_database(1000));
    let stacks = printed(&["show", &path, "-f", "folded"]);
    let lines: Vec<_> = stacks.lines().collect();
    let wal = "redis-server;block;fdatasync;ext4_sync_file;submit_bio_wait;on /data/appendonly.aof 816326";
    assert!(lines.contains(&wal) && lines.contains(&"cc1;run 9000000"), "{stacks}");
    assert!(!stacks.contains("idle") && !stacks.contains("all groups"), "{stacks}");
    let (_directory, slow) = stored(&slow_database(3000));
    let stacks = printed(&["compare", &path, &slow, "-f", "folded"]);
    assert!(stacks.contains(&format!("{wal} 2790697\n")), "{stacks}");
}

#[test]
fn a_comparison_says_which_reason_grew_by_how_much() {
    let (_directory, fast) = stored(&slow_database(1000));
    let (_directory, slow) = stored(&slow_database(3000));
    let lines = first_screen(&["compare", &fast, &slow, "--per", "run"]);
    let line = "why block +2.00s: fdatasync → submit_bio_wait on …/appendonly.aof +1.97s";
    assert_eq!(lines, [line]);
    let page = printed(&["compare", &fast, &slow, "--why"]);
    let first = page.lines().skip_while(|line| !line.starts_with("group")).nth(1).unwrap();
    assert!(first.contains("block: fdatasync → submit_bio_wait on /data/appendonly.aof"), "{page}");
}

/// The exit status of a comparison with a gate, and what it says.
fn gated(sides: [&str; 2], gate: &str) -> (Option<i32>, String) {
    let out = run(&["compare", sides[0], sides[1], "--fail-on", gate]);
    (out.status.code(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn a_gate_can_look_at_a_system_call_a_function_a_culprit_or_a_class() {
    let (_directory, fast) = stored(&slow_database(1000));
    let (_directory, slow) = stored(&slow_database(3000));
    let status = |gate| gated([&fast, &slow], gate).0;
    for gate in
        ["redis-server:fdatasync>20%", "fdatasync>1s", "redis*:ext4_sync_file>10pp", "redis-server:block/fdatasync>20%"]
    {
        assert_eq!(status(gate), Some(3), "{gate}");
    }
    for gate in ["redis-server:fdatasync>900%", "redis-server:wait/redis-benchmark>20%", "idle>20%", "sleep/ep_poll>1s"]
    {
        assert_eq!(status(gate), Some(0), "{gate}");
    }
    let (status, message) = gated([&fast, &slow], "redis-server:fdatasnc>20%");
    let expected = "`fdatasnc` is neither a metric (`ctprof metrics`) nor a reason with samples (`ctprof show --why`)";
    assert!(status == Some(1) && message.contains(expected), "{message}");
    let (status, message) = gated([&fast, &slow], "redis-server:readv>20%");
    let expected = "unknown metric `readv`; did you mean `read`? For the system call, write block/ or sleep/ before it";
    assert!(status == Some(2) && message.contains(expected), "{message}");
}

#[test]
fn several_runs_have_verdicts_on_reasons_and_runs_without_one_have_none_of_it() {
    let directory = tempfile::tempdir().unwrap();
    for (side, fsync) in [("a", [0, 10, 0, 20, 0, 10]), ("b", [2000, 2100, 2200, 2000, 2100, 2050])] {
        fs::create_dir(directory.path().join(side)).unwrap();
        for (place, fsync) in fsync.into_iter().enumerate() {
            let mut file = window(&[Sampled { reasons: database(fsync).reasons, ..database(fsync + 1) }]);
            file["captured_at_unix_ns"] = (place + 1).into();
            if fsync < 100 {
                let times = file["reasons"]["times"].as_array_mut().unwrap();
                times.retain(|time| time[1].as_u64().unwrap() > 2);
            }
            write(&directory.path().join(side), &format!("{place}.json"), &file);
        }
    }
    let [a, b] = ["a", "b"].map(|side| directory.path().join(side).to_str().unwrap().to_owned());
    let page: Value = serde_json::from_str(&printed(&["compare", &a, &b, "-f", "json", "--per", "run"])).unwrap();
    let name = "block: fdatasync → submit_bio_wait on /data/appendonly.aof";
    let is_row = |row: &&Value| row["metric"] == name && row["group"] == "redis-server";
    let row = page["rows"].as_array().unwrap().iter().find(is_row).unwrap();
    assert_eq!((&row["verdict"], &row["runs"]["baseline"]), (&json!("more"), &json!([0, 0, 0, 0, 0, 0])), "{row}");
    let reason = json!({"class": "block", "entry": "fdatasync", "functions": ["submit_bio_wait"],
                        "object": "/data/appendonly.aof", "by": null, "at": null, "held_in": null, "stack": []});
    assert_eq!(row["reason"], reason);
    assert_eq!(gated([&a, &b], "redis-server:fdatasync>1s").0, Some(3));
    assert_eq!(gated([&a, &b], "redis-server:ep_poll>2s").0, Some(0));
}

#[test]
fn a_run_without_a_group_has_none_of_its_reasons() {
    let directory = tempfile::tempdir().unwrap();
    for (side, runs) in [("a", [Some(400), None, Some(500), None, Some(600)]), ("b", [Some(400); 5])] {
        fs::create_dir(directory.path().join(side)).unwrap();
        for (place, fsync) in runs.into_iter().enumerate() {
            let file = window(&Vec::from_iter(fsync.map(database).into_iter().chain([other("stress")])));
            write(&directory.path().join(side), &format!("{place}.json"), &file);
        }
    }
    let [a, b] = ["a", "b"].map(|side| directory.path().join(side).to_str().unwrap().to_owned());
    let page: Value = serde_json::from_str(&printed(&["compare", &a, &b, "-f", "json", "--per", "run"])).unwrap();
    let is_row = |row: &&Value| row["metric"] == "sleep: epoll_wait → ep_poll" && row["group"] == "redis-server";
    let row = page["rows"].as_array().unwrap().iter().find(is_row).unwrap();
    let runs = row["runs"]["baseline"].as_array().unwrap();
    let zeros = runs.iter().map(|ns| ns.as_f64() == Some(0.0));
    assert_eq!(zeros.collect::<Vec<_>>(), [false, true, false, true, false], "{row}");
}

#[test]
fn reasons_of_a_hostile_file_are_escaped_and_places_that_do_not_exist_are_left_out() {
    let mut file = slow_database(1000);
    let times = file["reasons"]["times"].as_array_mut().unwrap();
    times.extend([json!([99, 0, 1, 1]), json!([0, 99, 1, 1]), json!([u64::MAX, u64::MAX, u64::MAX, u64::MAX])]);
    times.extend([json!([0, 0, u64::MAX, u64::MAX]), json!([0, 0, u64::MAX, u64::MAX])]);
    let evil = "\u{1b}[31m;</script>\n\u{202e}|`*";
    for (key, value) in [("entry", json!(evil)), ("functions", json!([evil])), ("object", json!(evil.repeat(500)))] {
        file["reasons"]["reasons"][0][key] = value;
    }
    file["reasons"]["reasons"][1]["class"] = "of another version".into();
    let (_directory, path) = stored(&file);
    for format in ["table", "json", "csv", "markdown", "html", "folded"] {
        for args in [
            &["show", &path, "-f", format][..],
            &["show", &path, "--why", "-f", format],
            &["compare", &path, &path, "-f", format],
        ] {
            let page = printed(args);
            assert!(!page.contains(['\u{1b}', '\u{202e}']), "{args:?}");
            assert!(page.lines().count() > 3 || matches!(format, "json" | "folded"), "{args:?}: {page}");
        }
    }
    let stack = printed(&["show", &path, "-f", "folded"]);
    assert!(stack.lines().all(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().is_ok()), "{stack}");
    let row = rows(&["show", &path]).into_iter().find(|(_, name, _)| name.starts_with("block")).unwrap();
    assert!(row.1.chars().count() < 1000, "a report repeats long names: {row:?}");
}

#[test]
fn objects_without_names_are_one_row_that_counts_them_and_match_by_kind_in_comparisons() {
    let read = |number: u64| (reason("sleep", "read", &["anon_pipe_read"], &format!("pipe:[{number}]")), 2);
    let reader = |first: u64| Sampled { reasons: (first..first + 12).map(read).collect(), ..database(1000) };
    let (_one, before) = stored(&window(&[reader(4000)]));
    let (_other, after) = stored(&window(&[reader(9000)]));
    let names = |args: &[&str]| -> Vec<_> {
        let of_group = rows(args).into_iter().filter(|(group, ..)| group == "redis-server");
        of_group.map(|(_, name, _)| name).filter(|name| name.contains("pipe")).collect()
    };
    assert_eq!(names(&["show", &before]), ["sleep: read → anon_pipe_read on 12 pipes"]);
    assert_eq!(names(&["compare", &before, &after]), ["sleep: read → anon_pipe_read on pipes"]);
    let (_only, path) = stored(&window(&[Sampled { reasons: vec![(read(7).0, 500)], ..database(1000) }]));
    assert_eq!(
        names(&["show", &path]),
        ["sleep: read → anon_pipe_read on pipe:[7]"],
        "one of them is found by its number"
    );
}

#[test]
fn a_lock_is_held_by_a_thread_of_the_group_with_its_name() {
    let held = |comm: &str| {
        let mut futex = reason("sleep", "futex", &["futex_wait_queue"], "");
        futex["by"] = json!({"pcomm": "redis-server", "comm": comm, "cgroup": "/"});
        futex
    };
    let (_directory, path) = stored(&window(&[Sampled { reasons: vec![(held("flusher"), 400)], ..database(1000) }]));
    let screen = first_screen(&["show", &path]).join("\n");
    assert!(screen.contains(", held by its thread flusher "), "{screen}");
    let (_directory, path) =
        stored(&window(&[Sampled { reasons: vec![(ran("redis-server"), 400)], ..database(1000) }]));
    assert!(printed(&["show", &path, "--why"]).contains("wait: itself ran"));
}

#[test]
fn zombies_say_which_processes_have_not_waited_for_them() {
    let mut file = window(&[other("worker")]);
    let zombie = |(tid, parent): (u64, &str)| {
        json!({"tid": tid, "tgid": tid, "pcomm": "worker", "comm": "worker", "cgroup": "/", "parent": parent,
               "alive_ns": 0, "zombie_ns": 10_000 * MS, "run_time_ns": 0, "wait_time_ns": 0, "block_sum": 0})
    };
    let zombies = [(7, "python3 spawn.py"), (8, "python3 spawn.py"), (9, "make")].map(zombie);
    file["threads"].as_array_mut().unwrap().extend(zombies);
    let (_directory, path) = stored(&file);
    let all = rows(&["show", &path]);
    let zombies = of_group(&all, "worker").into_iter().filter(|(name, _)| name.starts_with("zombie"));
    assert_eq!(
        zombies.collect::<Vec<_>>(),
        [("zombie: not waited for by python3 spawn.py", 20_000), ("zombie: not waited for by make", 10_000)]
    );
    let screen = printed(&["show", &path]);
    let why = "zombie 300%: not waited for by python3 spawn.py 200%, not waited for by make 100%";
    assert!(screen.contains(why), "{screen}");
    assert!(printed(&["show", &path, "-f", "folded"]).contains("worker;zombie;not waited for by make 10000000"));
}

#[test]
fn a_lock_is_held_by_the_script_of_its_holder() {
    let held = |script: &str| {
        let mut flock = reason("sleep", "flock", &["locks_lock_inode_wait"], "");
        flock["by"] = json!({"pcomm": "python3", "comm": "python3", "program": script, "cgroup": "/"});
        flock
    };
    let waits = Sampled { reasons: vec![(held("backup.py"), 400)], ..database(1000) };
    let mut file = window(&[waits, other("python3"), other("python3")]);
    for (place, script) in [(1, "backup.py"), (2, "report.py")] {
        file["threads"][place]["program"] = script.into();
        file["reasons"]["threads"][place]["program"] = script.into();
    }
    let (_directory, path) = stored(&file);
    let screen = first_screen(&["show", &path]).join("\n");
    assert!(screen.contains(", held by python3 backup.py "), "{screen}");
    file["reasons"]["reasons"][0]["by"].as_object_mut().unwrap().remove("program");
    let (_directory, path) = stored(&file);
    assert!(printed(&["show", &path]).contains(", held by python3 "), "a file of 0.3.0");
}
