//! Gates and the selection of groups: exit statuses, messages and output.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// Snapshots of two sides.
struct Snapshots(tempfile::TempDir);

/// A process of one thread.
fn process(tid: usize, name: &str, fields: &Value) -> Value {
    let mut thread = json!({"tid": tid, "tgid": tid, "pcomm": name, "comm": name, "cgroup": format!("/{name}")});
    thread.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    thread
}

impl Snapshots {
    /// Snapshots with processes of these names and values.
    fn new(baseline: &[(&str, Value)], candidate: &[(&str, Value)]) -> Self {
        let sides = Self(tempfile::tempdir().unwrap());
        for (name, processes) in [("a", baseline), ("b", candidate)] {
            let threads = processes.iter().enumerate().map(|(place, (name, fields))| process(place + 1, name, fields));
            sides.write(name, &json!({"format_version": 1, "threads": threads.collect::<Vec<_>>()}));
        }
        sides
    }

    fn write(&self, name: &str, snapshot: &Value) {
        fs::write(self.0.path().join(name), snapshot.to_string()).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null()).env_remove("RUST_LOG");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn compare(&self, args: &[&str]) -> Output {
        self.run(&[&["compare", "a", "b"], args].concat())
    }

    /// The exit status of a comparison with these gates, and what it says on standard error.
    fn gates(&self, gates: &[&str]) -> (Option<i32>, String) {
        let args: Vec<_> = gates.iter().flat_map(|gate| ["--fail-on", gate]).collect();
        let out = self.compare(&args);
        (out.status.code(), text(&out.stderr))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Page faults of a thread whose run time nobody knows.
fn faults(count: u64) -> Value {
    json!({"minflt": count})
}

fn run_time(seconds: u64) -> Value {
    json!({"run_time_ns": seconds * 1_000_000_000, "wait_time_ns": 1_000_000_000})
}

/// A build that takes 20% more CPU time, and a shell that takes none.
fn slower() -> Snapshots {
    Snapshots::new(
        &[
            (
                "make",
                json!({"run_time_ns": 5_000_000_000_u64, "wait_time_ns": 1_000_000_000, "hiwater_rss_bytes": 5 << 20}),
            ),
            ("sh", json!({"run_time_ns": 1_000_000_000, "hiwater_rss_bytes": 9 << 20})),
        ],
        &[
            (
                "make",
                json!({"run_time_ns": 6_000_000_000_u64, "wait_time_ns": 1_000_000_000, "hiwater_rss_bytes": 8 << 20}),
            ),
            ("sh", json!({"run_time_ns": 1_000_000_000, "hiwater_rss_bytes": 9 << 20})),
        ],
    )
}

#[test]
fn a_gate_that_holds_exits_with_3_and_says_why_last() {
    let sides = slower();
    let failed = "ctprof: gate failed: make run_time_ns: 5.00s → 6.00s (+20.0%), bound >10%\n";
    assert_eq!(sides.gates(&["make:run_time_ns>10%"]), (Some(3), format!("1 gate failed\n{failed}")));
    let (status, said) = sides.gates(&["make:run_time_ns>10%", "run_time_ns>2s", "sh:run_time_ns>10%"]);
    assert_eq!((status, said), (Some(3), format!("1 gate failed, 2 passed\n{failed}")));
    assert_eq!(sides.gates(&["run_time_ns>20%"]), (Some(0), "1 gate passed\n".to_owned()));
    let quiet = |gate| sides.compare(&["-q", "--fail-on", gate]);
    assert_eq!(text(&quiet("run_time_ns>20%").stderr), "");
    assert!(text(&quiet("run_time_ns>10%").stderr).contains(
        "gate failed: all groups run_time_ns: 6.00s → 7.00s (+16.7%), bound >10%; mostly make run_time_ns +1.00s"
    ));
}

#[test]
fn in_a_tree_the_cause_can_be_a_process_with_one_kind_of_threads() {
    let sides = Snapshots(tempfile::tempdir().unwrap());
    let thread = |tid: u64, tgid: u64, names: [&str; 2], ms: u64| json!({"tid": tid, "tgid": tgid, "pcomm": names[0], "comm": names[1], "cgroup": "/a", "run_time_ns": ms * 1_000_000});
    for (name, single, multi) in [("a", 100, 200), ("b", 600, 210)] {
        let threads = [
            thread(1, 1, ["single", "single"], single),
            thread(2, 2, ["multi", "multi"], multi),
            thread(3, 2, ["multi", "helper"], 1),
        ];
        sides.write(name, &json!({"format_version": 1, "threads": threads}));
    }
    let failed = text(&sides.compare(&["-g", "all", "--fail-on", "run_time_ns>1%"]).stderr);
    assert!(failed.contains("mostly /a » single run_time_ns +500ms"), "{failed}");
}

#[test]
fn a_gate_on_all_groups_combines_them_as_the_metric_does() {
    let sides = slower();
    let said = |gates: &[&str]| sides.gates(gates).1;
    assert_eq!(said(&["hiwater_rss_bytes>1MiB"]), "1 gate passed\n", "the largest stayed the same");
    assert!(
        said(&["make:hiwater_rss_bytes>1MiB"])
            .contains("make hiwater_rss_bytes: 5.00MiB → 8.00MiB (+3.00MiB), bound >1MiB")
    );
    assert!(said(&["avg_slice_ns>1s"]).contains("all groups avg_slice_ns>1s: no data"));
    assert!(said(&["cpu_efficiency>1pp"]).contains("all groups cpu_efficiency: 0.857* → 0.875* (+0.018), bound >1pp"));
    let only = sides.compare(&["--only", "make", "--fail-on", "run_time_ns>10%"]);
    let whole = sides.gates(&["run_time_ns>10%"]).1;
    assert_eq!(text(&only.stderr), whole, "whatever is shown");
}

#[test]
fn worse_means_each_column_that_gets_worse_as_it_grows() {
    let (status, said) = slower().gates(&["make:worse>10%"]);
    let expected = "1 gate failed\nctprof: gate failed: make run: 5.00s → 6.00s (+20.0%), bound >10%\n";
    assert_eq!((status, said.as_str()), (Some(3), expected));
    assert_eq!(slower().gates(&["sh:worse>10%"]).0, Some(0));
}

#[test]
fn what_cannot_be_judged_is_an_error_and_never_a_pass() {
    let sides =
        Snapshots::new(&[("make", run_time(5)), ("gone", run_time(1))], &[("make", run_time(5)), ("new", run_time(3))]);
    for (gate, why) in [
        ("block>10%", "all groups block>10%: no data"),
        ("mak:run>10%", "mak run>10%: no group matches `mak`; did you mean `make`?"),
        (
            "new:run>10%",
            "new run>10%: the group is only in the candidate: a percentage bound cannot apply to a baseline of 0",
        ),
        ("gone:run>10%", "gone run>10%: the group is only in the baseline"),
        ("new:cpu_efficiency<5pp", "new cpu_efficiency<5pp: no data in the baseline"),
    ] {
        let (status, said) = sides.gates(&[gate, "make:run>1%"]);
        assert!(said.contains(&format!("ctprof: gate error: {why}")), "{said}");
        assert_eq!((status, said.lines().count()), (Some(1), 2), "{said}");
    }
    let (status, said) = sides.gates(&["new:run>2s"]);
    assert_eq!(status, Some(3), "a group that did nothing before can have an absolute bound: {said}");
}

/// A window of a second with these threads, of a command that took so long.
fn window(elapsed_ms: Option<u64>, threads: &[(&str, Value)]) -> Value {
    let threads = threads.iter().enumerate().map(|(place, (name, fields))| process(place + 1, name, fields));
    let mut window = json!({"duration_ns": 1_000_000_000});
    if let Some(ms) = elapsed_ms {
        window["command"] = json!({"arguments": ["x"], "elapsed_ns": ms * 1_000_000, "status": 0});
    }
    json!({"format_version": 2, "window": window, "threads": threads.collect::<Vec<_>>()})
}

fn ran(ms: u64) -> Value {
    json!({"run_time_ns": ms * 1_000_000, "wait_time_ns": 0, "party": "command"})
}

#[test]
fn a_value_without_what_exited_is_an_error_on_each_side_and_one_with_it_is_judged() {
    let shell = json!({"run_time_ns": 1_000_000_000, "wait_time_ns": 1_000_000_000, "voluntary_csw": 5,
                       "nonvoluntary_csw": 0, "minflt": 100, "majflt": 0, "hiwater_rss_bytes": 1 << 20,
                       "party": "command"});
    // Of children that took less than a tick, a process counts the page faults and not the switches.
    let children = json!({"tid": 0, "exited_work": "children", "run_time_ns": 0, "minflt": 50, "majflt": 0,
                          "party": "command"});
    let sides = Snapshots(tempfile::tempdir().unwrap());
    let whole = window(Some(500), &[("sh", shell.clone())]);
    let lacks = window(Some(500), &[("sh", shell), ("sh", children)]);
    let missing = "the value lacks threads or children that exited";
    for (a, b, side) in [(&whole, &lacks, "candidate: "), (&lacks, &whole, "baseline: "), (&lacks, &lacks, "")] {
        sides.write("a", a);
        sides.write("b", b);
        for (gate, group) in [("csw>10%", "all groups"), ("sh:wait<1ms", "sh"), ("*:csw>9", "sh")] {
            let (status, said) = sides.gates(&[gate]);
            assert_eq!(status, Some(1), "{gate}: {said}");
            assert!(
                said.contains(&format!("gate error: {group} ")) && said.contains(&format!(": {side}{missing}")),
                "{said}"
            );
        }
        for gate in ["cpu_efficiency>5pp", "hiwater_rss_bytes>1MiB"] {
            assert_eq!(sides.gates(&[gate]).0, Some(1), "{gate}");
        }
        for gate in ["elapsed>5%", "run>10%", "*:run>10%", "faults>50%", "worse>50%"] {
            assert_eq!(sides.gates(&[gate]), (Some(0), "1 gate passed\n".to_owned()), "{gate}");
        }
    }
}

#[test]
fn the_peak_average_or_ratio_of_a_new_group_fails_a_glob_unless_new_groups_are_allowed() {
    let of =
        |mib: u64| json!({"run_time_ns": 1_000_000_000, "wait_time_ns": 1_000_000_000, "hiwater_rss_bytes": mib << 20});
    let sides = Snapshots::new(&[("app", of(1))], &[("app", of(1)), ("leaky", of(10_240)), ("small", of(2))]);
    for (gate, change) in [
        ("*:hiwater_rss_bytes>64MiB", "leaky hiwater_rss_bytes: - → 10.0GiB (+10.0GiB)"),
        ("*:hiwater_rss_bytes>10%", "leaky hiwater_rss_bytes: - → 10.0GiB (new)"),
        ("*:cpu_efficiency<5pp", "leaky cpu_efficiency: - → 0.500 (-)"),
    ] {
        let (status, said) = sides.gates(&[gate]);
        assert!(status == Some(3) && said.contains(&format!("gate failed: {change}")), "{said}");
        assert_eq!(sides.compare(&["--allow-new", "--fail-on", gate]).status.code(), Some(0), "{gate}");
    }
    assert!(!sides.gates(&["*:hiwater_rss_bytes>64MiB"]).1.contains("small"), "it cannot have grown by so much");
    let of_cgroups = |cgroups: &[(&str, u64)]| {
        let mut side = window(None, &[("app", ran(1))]);
        side["cgroup_stats"] =
            cgroups.iter().map(|(path, peak)| ((*path).to_owned(), json!({"memory": {"peak": peak}}))).collect();
        side
    };
    sides.write("a", &of_cgroups(&[("/a", 1 << 20)]));
    sides.write("b", &of_cgroups(&[("/a", 1 << 20), ("/b", 1 << 30)]));
    let out = sides.compare(&["-g", "cgroup", "--fail-on", "*:memory.peak>64MiB"]);
    assert!(text(&out.stderr).contains("gate failed: /b memory.peak: - → 1.00GiB"), "{}", text(&out.stderr));
}

#[test]
fn per_unit_a_bound_of_ticks_or_microseconds_is_the_time_that_it_says() {
    let of = |ticks: u64, usec: u64| {
        let mut side =
            window(None, &[("app", json!({"run_time_ns": 1, "utime_clock_ticks": ticks, "stime_clock_ticks": 0}))]);
        side["cgroup_stats"] = json!({"/app": {"cpu": {"usage_usec": usec}}});
        side
    };
    let sides = Snapshots(tempfile::tempdir().unwrap());
    sides.write("a", &of(100, 1_000_000));
    sides.write("b", &of(101, 1_000_200));
    for (gate, status) in [
        ("utime_clock_ticks>1s", 0),
        ("utime_clock_ticks>5ms", 3),
        ("/app:utime_clock_ticks<900ms", 0),
        ("/app:utime_clock_ticks<1s", 1),
        ("/app:cpu.usage_usec>100ms", 0),
        ("/app:cpu.usage_usec>100us", 3),
    ] {
        for per in [&["--per-unit", "1"][..], &[]] {
            let out = sides.compare(&[&["-g", "cgroup", "--fail-on", gate], per].concat());
            assert_eq!(out.status.code(), Some(status), "{gate} {per:?}: {}", text(&out.stderr));
        }
    }
}

#[test]
fn per_unit_a_command_takes_the_time_of_one_unit() {
    let sides = Snapshots(tempfile::tempdir().unwrap());
    sides.write("a", &window(Some(200), &[("app", ran(100))]));
    sides.write("b", &window(Some(400), &[("app", ran(200))]));
    let said = |units: &str, gate: &str| sides.compare(&["--per-unit", units, "--fail-on", gate]);
    assert_eq!(said("1000,2000", "elapsed>1%").status.code(), Some(0), "twice the work in twice the time");
    assert_eq!(said("1000", "elapsed>1ms").status.code(), Some(0));
    let failed = text(&said("1000", "elapsed>100us").stderr);
    assert!(failed.contains("elapsed: 200µs → 400µs (+200µs)"), "{failed}");
}

#[test]
fn per_unit_times_are_as_exact_as_they_were() {
    let sides = Snapshots(tempfile::tempdir().unwrap());
    sides.write("a", &window(Some(1_470), &[("app", ran(1_400))]));
    sides.write("b", &window(Some(1_510), &[("app", ran(1_490))]));
    for (gate, status) in [("elapsed>10%", 0), ("elapsed>2%", 3), ("run>7%", 0), ("run>6%", 3)] {
        let out = sides.compare(&["--per-unit", "1000000000", "--fail-on", gate]);
        assert_eq!(out.status.code(), Some(status), "{gate}: {}", text(&out.stderr));
    }
}

#[test]
fn a_change_of_as_much_as_the_bound_passes() {
    let sides = Snapshots(tempfile::tempdir().unwrap());
    sides.write("a", &window(None, &[("app", ran(100))]));
    for percent in 1..100 {
        for (ran_ms, sign) in [(100 + percent, '>'), (100 - percent, '<')] {
            sides.write("b", &window(None, &[("app", ran(ran_ms))]));
            let (status, said) = sides.gates(&[&format!("run{sign}{percent}%")]);
            assert_eq!(status, Some(0), "{ran_ms}: {said}");
        }
    }
}

#[test]
fn a_glob_on_a_ratio_leaves_out_what_did_nothing_on_one_side() {
    let sides = Snapshots(tempfile::tempdir().unwrap());
    let switches =
        |voluntary: u64, involuntary: u64| json!({"voluntary_csw": voluntary, "nonvoluntary_csw": involuntary});
    let side = |idle: u64| window(None, &[("app", switches(10, 10)), ("idler", switches(idle, idle))]);
    for (before, after) in [(0, 5), (5, 0)] {
        sides.write("a", &side(before));
        sides.write("b", &side(after));
        let (status, said) = sides.gates(&["*:involuntary_csw_ratio>10pp"]);
        assert_eq!(status, Some(0), "{said}");
    }
}

#[test]
fn the_change_of_an_average_of_pressure_is_in_percentage_points() {
    let sides = Snapshots(tempfile::tempdir().unwrap());
    for (name, hundredths) in [("a", 2000), ("b", 2600)] {
        let mut side = window(None, &[("app", ran(1))]);
        let half = json!({"avg10": hundredths, "avg60": 0, "avg300": 0, "total_usec": 1});
        side["psi"] = json!({"memory": {"some": half}});
        sides.write(name, &side);
    }
    let (status, said) = sides.gates(&["memory.some.avg10>5pp"]);
    assert!(status == Some(3) && said.contains("20.00% → 26.00% (+6.00pp), bound >5pp"), "{said}");
}

#[test]
fn the_cause_of_a_slower_or_faster_command_explains_much_of_its_change() {
    let sides = Snapshots(tempfile::tempdir().unwrap());
    let said = |gate: &str, [before, after]: [Value; 2]| {
        sides.write("a", &before);
        sides.write("b", &after);
        let (status, said) = sides.gates(&[gate]);
        assert_eq!(status, Some(3), "{said}");
        said.split_once("; mostly ").map(|(_, cause)| cause.trim().to_owned())
    };
    let of = |elapsed, app, helper| window(Some(elapsed), &[("app", ran(app)), ("helper", ran(helper))]);
    assert_eq!(said("elapsed>20%", [of(1000, 100, 10), of(2000, 101, 10)]), None, "it slept");
    assert_eq!(said("elapsed>20%", [of(1000, 100, 10), of(2000, 200, 10)]).as_deref(), Some("app run +100ms"));
    assert_eq!(said("elapsed<20%", [of(2000, 1000, 10), of(1000, 100, 12)]).as_deref(), Some("app run −900ms"));
    let many = |ms: u64| {
        let names: Vec<String> = (0..26_u8).map(|of| format!("of{}", char::from(b'a' + of))).collect();
        window(None, &names.iter().map(|name| (&**name, ran(ms))).collect::<Vec<_>>())
    };
    assert_eq!(said("run>20%", [many(100), many(200)]), None, "each of 26 groups is less than a twentieth");
}

#[test]
fn the_run_time_of_all_groups_per_cpu_second_never_changes_and_its_gate_is_an_error() {
    let sides = Snapshots(tempfile::tempdir().unwrap());
    sides.write("a", &window(None, &[("app", ran(100)), ("web", ran(100))]));
    sides.write("b", &window(None, &[("app", ran(800)), ("web", ran(100))]));
    let status = |gate: &str| sides.compare(&["--per", "cpu-second", "--fail-on", gate]).status.code();
    for gate in ["run>10%", "run<10%", "run_time_ns>10%", "app:run>150%"] {
        assert_eq!(status(gate), Some(1), "{gate}");
    }
    assert_eq!([status("app:run>10%"), status("web:run<10%"), status("web:run>10%")], [Some(3), Some(3), Some(0)]);
    assert_eq!([status("worse>10%"), status("run>10ms")], [Some(0), Some(3)]);
}

#[test]
fn in_a_group_that_was_never_in_a_state_its_time_is_0() {
    let zombie = json!({"run_time_ns": 1_000_000, "zombie_ns": 500_000_000, "exited": true});
    let side = |others: &[(&str, Value)]| window(None, &[&[("other", zombie.clone())], others].concat());
    let sides = Snapshots(tempfile::tempdir().unwrap());
    sides.write("a", &side(&[("app", ran(100)), ("gone", ran(1))]));
    sides.write("b", &side(&[("app", ran(100))]));
    assert_eq!(sides.gates(&["app:zombie>1s"]), (Some(0), "1 gate passed\n".to_owned()));
    assert!(sides.gates(&["app:zombie<1s"]).1.contains("this gate can never fail"));
    assert!(sides.gates(&["gone:zombie>1s"]).1.contains("only in the baseline"));
    assert!(sides.gates(&["app:frozen>1s"]).1.contains("no data"), "no samples, and no group was");
}

#[test]
fn an_error_does_not_hide_a_failed_gate() {
    let (status, said) = slower().gates(&["none:run>10%", "make:run>10%"]);
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("gate error: none run") && said.contains("gate failed: make run"), "{said}");
}

#[test]
fn every_group_means_those_of_both_sides_that_matter() {
    let small = |ms: u64| json!({"run_time_ns": ms * 1_000_000});
    let before = [("make", run_time(5)), ("gone", run_time(1)), ("cron", small(2))];
    let after = [("make", run_time(5)), ("new", run_time(3)), ("cron", small(20))];
    let sides = Snapshots::new(&before, &after);
    let (status, said) = sides.gates(&["*:run>10%"]);
    assert!(status == Some(3) && said.contains("gate failed: new run: 0ns → 3.00s (new), bound >10%"), "{said}");
    let allowed = sides.compare(&["--fail-on", "*:run>10%", "--allow-new"]);
    assert_eq!(text(&allowed.stderr), "1 gate passed\n");
    let (status, said) = sides.gates(&["*:run>2s"]);
    assert!(status == Some(3) && said.contains("gate failed: new run: 0ns → 3.00s"), "{said}");
    let all = sides.compare(&["--min-time", "0%", "--allow-new", "--fail-on", "*:run>10%"]);
    assert!(text(&all.stderr).contains("gate failed: cron run: 2.00ms → 20.0ms (×10)"), "{}", text(&all.stderr));
}

#[test]
fn sides_of_different_processors_have_no_percentages_of_times_unless_they_are_allowed() {
    let of = |model: &str| {
        let threads = [process(1, "make", &json!({"run_time_ns": 1_000_000_000, "minflt": 100}))];
        let host = json!({"cpu_model": model, "cpu_microcode": "0x1"});
        json!({"format_version": 2, "window": {"duration_ns": 2_000_000_000}, "host": host, "threads": threads})
    };
    let sides = Snapshots(tempfile::tempdir().unwrap());
    sides.write("a", &of("EPYC 7763"));
    sides.write("b", &of("Xeon 8370C"));
    for gate in ["run>10%", "*:run>10%", "make:run_time_ns>10%"] {
        let (status, said) = sides.gates(&[gate]);
        assert!(
            status == Some(1) && said.contains("different processors (cpu_model: EPYC 7763 → Xeon 8370C)"),
            "{said}"
        );
        assert_eq!(sides.compare(&["--fail-on", gate, "--allow-different-hosts"]).status.code(), Some(0), "{gate}");
    }
    assert_eq!(sides.gates(&["minflt>10%", "run>1s"]).0, Some(0), "other values, and bounds that are no percentages");
    sides.write("b", &of("EPYC 7763"));
    assert_eq!(sides.gates(&["run>10%"]).0, Some(0), "one processor");
}

#[test]
fn per_unit_a_service_that_did_more_work_is_not_slower_and_one_that_needs_more_for_each_request_is() {
    let window = |run_ms: u64| {
        let fields =
            json!({"run_time_ns": run_ms * 1_000_000, "minflt": run_ms, "majflt": 0, "utime_clock_ticks": run_ms / 10});
        let threads = [process(1, "server", &fields)];
        json!({"format_version": 2, "window": {"duration_ns": 2_000_000_000}, "threads": threads})
    };
    let sides = Snapshots(tempfile::tempdir().unwrap());
    sides.write("a", &window(1000));
    sides.write("b", &window(1300));
    let status = |args: &[&str]| sides.compare(args).status.code();
    let gates = ["--fail-on", "server:run>10%", "--fail-on", "minflt>10%", "--fail-on", "run_time_ns>0.1ms"];
    assert_eq!(status(&gates[..4]), Some(3), "30% more per second");
    assert_eq!(status(&[&gates[..], &["--per-unit", "1000,1300"]].concat()), Some(0), "30% more requests");
    assert_eq!(status(&[&gates[..2], &["--per-unit", "1000"]].concat()), Some(3), "as many requests");
    assert_eq!(status(&[&gates[4..], &["--per-unit", "1000"]].concat()), Some(3), "a bound of each request");
    let out =
        sides.compare(&["--per-unit", "1000,1300", "-m", "run_time_ns,minflt,utime_clock_ticks", "-u", "-f", "json"]);
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let row = |metric: &str| {
        let rows = report["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["group"] == "server" && row["metric"] == metric).unwrap();
        (row["unit"].clone(), row["baseline"].clone(), row["candidate"].clone())
    };
    assert_eq!(report["per"], "unit");
    assert_eq!(row("run_time_ns"), (json!("ns"), json!(1_000_000.0), json!(1_000_000.0)));
    assert_eq!(row("utime_clock_ticks"), (json!("ns"), json!(1_000_000.0), json!(1_000_000.0)));
    assert_eq!(row("minflt"), (json!("count/unit"), json!(1.0), json!(1.0)));
    let shown = text(&sides.compare(&["--per-unit", "1000"]).stdout);
    assert!(shown.contains("values are per unit of work (--per-unit), of the whole host"), "{shown}");
    assert!(shown.contains("1.00ms → 1.30ms") && shown.contains("faults/unit"), "{shown}");
    let one = text(&sides.run(&["show", "a", "--per-unit", "1000"]).stdout);
    assert!(one.contains("values are per unit of work (--per-unit)\n") && one.contains("faults/unit"), "{one}");
    assert!(!shown.contains("faults/s") && !one.contains("faults/s"), "{shown}{one}");
    for wrong in ["0", "-1", "x", "1,0", "1,2,3"] {
        assert_eq!(status(&["--per-unit", wrong]), Some(2), "{wrong}");
    }
}

#[test]
fn windows_of_different_lengths_are_compared_per_second_in_every_section() {
    let window = |seconds: u64, busy_ms: u64, names: &[&str]| {
        let times = json!({"run_time_ns": seconds * busy_ms * 1_000_000, "minflt": seconds * 10, "utime_clock_ticks": seconds * 50});
        let threads = names.iter().enumerate().map(|(place, name)| process(place + 1, name, &times));
        let window = json!({"duration_ns": seconds * 1_000_000_000});
        json!({"format_version": 2, "window": window, "threads": threads.collect::<Vec<_>>()})
    };
    let sides = Snapshots(tempfile::tempdir().unwrap());
    sides.write("a", &window(8, 500, &["rustc"]));
    sides.write("b", &window(2, 510, &["rustc", "new"]));
    for gate in ["rustc:run>1%", "rustc:run_time_ns>1%"] {
        assert_eq!(sides.gates(&[gate]).0, Some(3), "{gate}");
    }
    assert_eq!(sides.gates(&["rustc:run>3%", "rustc:run_time_ns>3%", "rustc:minflt>1%", "rustc:minflt<1%"]).0, Some(0));
    let rows = |args: &[&str]| {
        let report: Value = serde_json::from_slice(&sides.compare(&[args, &["-f", "json"]].concat()).stdout).unwrap();
        move |group: &str, metric: &str| {
            let rows = report["rows"].as_array().unwrap();
            let row = rows.iter().find(|row| row["group"] == group && row["metric"] == metric).unwrap();
            (row["unit"].clone(), row["baseline"].clone(), row["candidate"].clone(), row["delta"].clone())
        }
    };
    let row = rows(&[]);
    assert_eq!(row("rustc", "run_time_ns"), (json!("percent"), json!(50.0), json!(51.0), json!(1.0)));
    assert_eq!(row("rustc", "minflt"), (json!("count/s"), json!(10.0), json!(10.0), json!(0.0)));
    assert_eq!(row("rustc", "utime_clock_ticks"), (json!("percent"), json!(50.0), json!(50.0), json!(0.0)));
    let mut of_command = window(8, 500, &["rustc"]);
    of_command["window"]["command"] = json!({"arguments": ["x"], "elapsed_ns": 8_000_000_000_u64, "status": 0});
    sides.write("a", &of_command);
    assert_eq!(sides.gates(&["rustc:run>3%"]).0, Some(0), "a command beside a host");
    // What a side does not have is nothing there.
    assert_eq!(row("new", "run_time_ns"), (json!("percent"), json!(0.0), json!(51.0), json!(51.0)));
    let row = rows(&["--per", "total"]);
    assert_eq!(row("rustc", "minflt"), (json!("count"), json!(80), json!(20), json!(-60)));
    let shown: Value = serde_json::from_slice(&sides.run(&["show", "a", "-f", "json"]).stdout).unwrap();
    let total = shown["rows"].as_array().unwrap().iter().find(|row| row["metric"] == "minflt").unwrap();
    assert_eq!((&total["value"], &total["unit"]), (&json!(10.0), &json!("count/s")), "of one window, too");
}

#[test]
fn units_of_work_of_two_sides_are_refused_for_one() {
    let show = |units| crate::stored::program::run(&["show", "--per-unit", units, "tests/fixtures/ktstr-a.ctprof.zst"]);
    assert_eq!([show("10,99"), show("10")].map(|done| done.status.code()), [Some(2), Some(0)]);
}

#[test]
fn a_gate_that_makes_no_sense_is_a_usage_error_before_files_are_read() {
    let sides = Snapshots(tempfile::tempdir().unwrap());
    for (gate, why) in [
        ("run_tme_ns>10%", "unknown metric `run_tme_ns`; did you mean `run_time_ns`?"),
        ("run_time_ns>64MiB", "`run_time_ns` is a time, which `>64MiB` does not fit"),
        ("run>", "no bound"),
        ("run>NaN", "bad bound `NaN`"),
        ("run<-10%", "negative bound `-10%`"),
        ("memory.current>1MiB", "`memory.current` is a value of cgroups; group by cgroup"),
    ] {
        let (status, said) = sides.gates(&[gate]);
        assert!(status == Some(2) && said.contains(why), "{status:?} {said}");
    }
    let out = sides.compare(&["--fail-on-unclear"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
}

#[test]
fn a_closed_pipe_does_not_hide_a_failed_gate() {
    let sides = slower();
    let shell = |redirect: &str| {
        let script = format!("\"$0\" compare a b -f json --fail-on 'run>10%' {redirect}");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_ctprof")]).current_dir(sides.0.path());
        shell.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().code()
    };
    assert_eq!(shell("> >(exec true)"), Some(3));
    assert_eq!(shell(">&-"), Some(3), "though the report was not written");
    assert_eq!(shell("2>&-"), Some(3));
}

#[test]
fn a_full_disk_does_not_hide_a_failed_gate_nor_the_gate_that_the_report_was_not_written() {
    let sides = slower();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    command.args(["compare", "a", "b", "--fail-on", "run>10%"]).current_dir(sides.0.path());
    let out = command.stdout(std::fs::File::create("/dev/full").unwrap()).output().unwrap();
    let said = text(&out.stderr);
    assert!(out.status.code() == Some(3) && said.contains("cannot write to standard output"), "{said}");
}

#[test]
fn json_has_the_gates_and_markdown_has_failed_gates_on_top() {
    let sides = slower();
    let gates = ["--fail-on", "make:run>10%", "--fail-on", "sh:run>10%"];
    let out = sides.compare(&[&gates[..], &["-f", "json"]].concat());
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    let outcome = |place: usize| (json["gates"][place]["group"].clone(), json["gates"][place]["outcome"].clone());
    assert_eq!([outcome(0), outcome(1)], [(json!("make"), json!("failed")), (json!("sh"), json!("passed"))]);
    let first = &json["gates"][0];
    assert_eq!(first["change"], json!(1.2));
    assert_eq!(
        (&first["bound"], &first["baseline"], &first["p"]),
        (&json!(">10%"), &json!(5_000_000_000_u64), &Value::Null)
    );

    let page = text(&sides.compare(&[&gates[..], &["-f", "markdown"]].concat()).stdout);
    assert!(page.starts_with("**1 gate failed, 1 passed**\n\n| result | group | metric |"), "{page}");
    assert!(page.contains("\n| failed | make | run | 5.00s | 6.00s | +20.0% |  | \\>10% |  |\n\n<details>"), "{page}");
    assert!(page.ends_with("\n</details>\n"), "{page}");
    let passed = text(&sides.compare(&["-f", "markdown", "--fail-on", "run>50%"]).stdout);
    assert!(passed.starts_with("**1 gate passed**\n\n- **baseline**"), "{passed}");
    let table = text(&sides.compare(&["--fail-on", "make:run>10%"]).stdout);
    assert!(!table.contains("gate"), "{table}");
}

#[test]
fn only_the_selected_groups_are_in_every_format() {
    let sides = slower();
    for format in ["table", "csv", "markdown", "json"] {
        for args in [&["compare", "a", "b"][..], &["show", "a"]] {
            let shown = sides.run(&[args, &["--only", "m*", "--unchanged", "-f", format]].concat());
            let shown = text(&shown.stdout);
            assert!(shown.contains("make") && !shown.contains("sh,") && !shown.contains("\"sh\""), "{shown}");
            assert!(!shown.lines().any(|line| line.trim_start_matches("| ").starts_with("sh ")), "{shown}");
        }
    }
    for args in [&["compare", "a", "b"][..], &["show", "a"]] {
        let out = sides.run(&[args, &["--only", "make", "--only", "mak"]].concat());
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), out.stdout.is_empty()), (Some(0), false));
        assert_eq!(said, "ctprof: warning: --only: no group matches `mak`; did you mean `make`?\n");
        let out = sides.run(&[args, &["--only", "mak", "--only", "zz"]].concat());
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), out.stdout.is_empty()), (Some(1), true));
        assert_eq!(said, "ctprof: --only: no group matches `mak`; did you mean `make`?\n");
    }
}

#[test]
fn in_a_tree_a_selected_group_keeps_those_below_it() {
    let sides = slower();
    let page = text(&sides.compare(&["-g", "all", "--only", "/make", "-f", "csv", "-m", "run_time_ns"]).stdout);
    assert!(page.contains("/make » make,run_time_ns") && !page.contains("/sh"), "{page}");
    let page = text(&sides.compare(&["-g", "all", "--only", "sh", "-f", "csv", "-m", "run_time_ns"]).stdout);
    assert!(page.contains("/sh » sh,") && !page.contains("/make"), "{page}");
    let out = sides.compare(&["-g", "all", "--only", "sh", "--only", "/make", "--fail-on", "run_time_ns>10%"]);
    assert!(text(&out.stderr).contains("all groups run_time_ns: 6.00s → 7.00s"), "{}", text(&out.stderr));
}

#[test]
fn a_markdown_page_of_1000_groups_has_less_than_64_kib() {
    let sides = Snapshots(tempfile::tempdir().unwrap());
    for (name, factor) in [("a", 1), ("b", 3)] {
        let path = |number: u32| {
            let hash = letters(number);
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{hash}.slice/cri-containerd-{hash}{hash}.scope"
            )
        };
        let value = |number: u32| u64::from(number) * 1_000_000 * factor;
        let thread = |number: u32| {
            let mut metrics = json!({"tid": number, "tgid": number, "pcomm": format!("server{}", letters(number)), "comm": "x",
                "cgroup": path(number), "run_time_ns": value(number), "wait_time_ns": value(number), "minflt": value(number),
                "read_bytes": value(number), "blkio_delay_total_ns": value(number), "blkio_delay_count": 5});
            metrics["smaps_rollup_kib"] = json!({"Pss": value(number), "Rss": value(number)});
            metrics
        };
        let half = json!({"some": {"avg10": 1, "avg60": 1, "avg300": 1, "total_usec": factor}});
        let cgroup = |number: u32| {
            (
                path(number),
                json!({"cpu": {"usage_usec": value(number), "max_quota_us": value(number)},
                "memory": {"current": value(number), "stat": {"anon": value(number)}, "events": {"oom": value(number)}},
                "io": {"stat": {"8:0": {"rbytes": value(number)}}}, "psi": {"cpu": half}}),
            )
        };
        let threads: Vec<_> = (1..=1000).map(thread).collect();
        let cgroups: serde_json::Map<_, _> = (1..=1000).map(cgroup).collect();
        sides.write(name, &json!({"format_version": 1, "threads": threads, "cgroup_stats": cgroups}));
    }
    let literal = ["--names", "exact"];
    for axis in ["pcomm", "cgroup", "all"] {
        let gate = ["-g", axis, "-f", "markdown", "--fail-on", "*:run_time_ns>0s"];
        let out = sides.compare(&[&gate[..], &literal].concat());
        let page = text(&out.stdout);
        assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
        assert!(page.len() < 64 * 1024, "{axis}: {}", page.len());
        assert!(
            page.contains(" more groups, which changed less (--limit 0)")
                && page.contains(" more rows (show with --limit 0)"),
            "{page}"
        );
        assert!(page.contains("\n980 more\n") || axis == "all", "{page}");
    }
    let all = text(&sides.compare(&[&["-f", "markdown", "--limit", "0"][..], &literal].concat()).stdout);
    assert!(all.len() > 64 * 1024 && !all.contains(" more "), "{}", all.len());
}

/// Letters that differ from number to number, of the length of an id.
fn letters(number: u32) -> String {
    (0..8)
        .map(|place| char::from(b'g' + u8::try_from((number >> (place * 2)) & 3).unwrap()))
        .collect::<String>()
        .repeat(4)
}

#[test]
fn every_gate_of_the_guide_is_one() {
    let sides = slower();
    let guide = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ci.md")).unwrap();
    let table = guide.split_once("| gate | fails if |\n|---|---|\n").unwrap().1.split("\n\n").next().unwrap();
    let gates: Vec<_> = table.lines().map(|row| row.split('`').nth(1).unwrap()).collect();
    assert_eq!(gates.len(), 13, "{gates:?}");
    for gate in gates {
        let out = sides.compare(&["-g", "cgroup", "--fail-on", gate]);
        assert_ne!(out.status.code(), Some(2), "{gate}: {}", text(&out.stderr));
    }
}

/// The report on the recorded runs of two commands with these options, as JSON.
fn report_of(options: &[&str]) -> Value {
    let sides = ["fast", "slow"].map(|side| format!("{}/tests/fixtures/runs/{side}", env!("CARGO_MANIFEST_DIR")));
    let gates = ["run>5%", "python3:sleep>10%", "*:worse>50%", "elapsed>5%"];
    let gates = gates.iter().flat_map(|gate| ["--fail-on", gate]);
    let out = Command::new(env!("CARGO_BIN_EXE_ctprof"))
        .args(["compare", &sides[0], &sides[1], "--scope", "host", "--format", "json", "--unchanged"])
        .args(gates.chain(options.iter().copied()))
        .output()
        .unwrap();
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{options:?}: {}", text(&out.stderr)))
}

#[test]
fn the_same_question_has_the_same_answer_whatever_is_selected() {
    let selections: [&[&str]; 8] = [
        &["--metrics", "run"],
        &["--metrics", "csw,minflt"],
        &["--only", "ctprof*"],
        &["--only", "python*", "--metrics", "sleep"],
        &["--limit", "1"],
        &["--sections", "overview,reasons"],
        &["--sections", "primary"],
        &["--sort-by", "wait:asc", "--long"],
    ];
    let whole = report_of(&[]);
    let headlines = |report: &Value| -> Vec<(String, Value)> {
        let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["section"] == "overview");
        rows.map(|row| (format!("{} {}", row["path"], row["metric"]), row["headline"].clone())).collect()
    };
    let of_whole: std::collections::HashMap<String, Value> = headlines(&whole).into_iter().collect();
    assert!(of_whole.values().any(|headline| !headline.is_null()) && whole["gates"].as_array().unwrap().len() > 4);
    for selection in selections {
        let report = report_of(selection);
        assert_eq!(report["gates"], whole["gates"], "{selection:?}");
        for (row, headline) in headlines(&report) {
            assert_eq!(headline, of_whole[&row], "{selection:?}: {row}");
        }
    }
}

#[test]
fn a_group_whose_time_is_unknown_is_not_said_to_take_little_of_it() {
    let sides =
        Snapshots::new(&[("app", run_time(9)), ("odd", faults(500))], &[("app", run_time(9)), ("odd", faults(4500))]);
    let (status, said) = sides.gates(&["*:minflt>10%"]);
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("gate failed: odd minflt"), "{said}");
}
