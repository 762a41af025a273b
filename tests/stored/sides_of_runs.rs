//! Sides of several runs: which runs count, and what their rows say.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// Directories of runs.
struct Lab(tempfile::TempDir);

/// A thread of a process of its own, which the command started.
fn process(tid: usize, name: &str, fields: &Value) -> Value {
    let mut thread = json!({"tid": tid, "tgid": tid, "pcomm": name, "comm": name, "party": "command"});
    thread.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    thread
}

/// A window in which a command ran, with processes of these names and values.
fn window(status: i32, processes: &[(&str, Value)]) -> Value {
    let threads = processes.iter().enumerate().map(|(place, (name, fields))| process(place + 1, name, fields));
    let command = json!({"arguments": ["make"], "elapsed_ns": 1_500_000_000, "status": status});
    let window = json!({"duration_ns": 2_000_000_000_u64, "command": command});
    json!({"format_version": 2, "window": window, "threads": threads.collect::<Vec<_>>()})
}

fn ran(ms: u64) -> Value {
    json!({"run_time_ns": ms * 1_000_000})
}

/// A window in which the command took so long, and did so much on a CPU, in milliseconds.
fn took(elapsed_ms: u64, run_ms: u64) -> Value {
    let mut window = window(0, &[("make", ran(run_ms))]);
    window["window"]["command"]["elapsed_ns"] = json!(elapsed_ms * 1_000_000);
    window
}

/// Ten values around 1 s, within 2 %.
const STEADY: [u64; 10] = [1000, 1010, 990, 1005, 995, 1015, 985, 1002, 998, 1007];

impl Lab {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, directory: &str, run: usize, snapshot: &Value) {
        fs::create_dir_all(self.path(directory)).unwrap();
        fs::write(self.path(directory).join(format!("run-{run:02}.json")), snapshot.to_string()).unwrap();
    }

    /// Runs of `make` that took so many milliseconds of CPU time.
    fn side(&self, directory: &str, run_times: impl IntoIterator<Item = u64>) {
        for (run, ms) in run_times.into_iter().enumerate() {
            self.write(directory, run, &window(0, &[("make", ran(ms))]));
        }
    }

    fn ctprof(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null()).env_remove("RUST_LOG").output().unwrap()
    }

    fn compare(&self, args: &[&str]) -> Output {
        self.ctprof(&[&["compare"], args].concat())
    }

    /// The exit status and the message of a comparison that fails.
    fn refused(&self, args: &[&str]) -> (Option<i32>, String) {
        let out = self.compare(args);
        assert!(out.stdout.is_empty());
        (out.status.code(), text(&out.stderr))
    }

    fn json(&self, args: &[&str]) -> Value {
        let out = self.compare(&[args, &["--long", "--format", "json"]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn row<'j>(report: &'j Value, group: &str, metric: &str) -> &'j Value {
    let rows = report["rows"].as_array().unwrap();
    rows.iter().find(|row| row["group"] == group && row["metric"] == metric).unwrap_or(&Value::Null)
}

#[test]
fn runs_that_were_recorded_in_turn_are_compared_in_pairs() {
    let lab = Lab::new();
    // The machine slows down by 2 % from pair to pair. The candidate's run is the first of every second pair.
    let slowed = |pair: usize| 1000 + 20 * u64::try_from(pair).unwrap();
    let run = |directory: &str, pair: usize, place: usize, ms: u64| {
        let mut window = window(0, &[("make", ran(ms))]);
        window["captured_at_unix_ns"] = json!(1_000 * pair + place);
        // The names do not follow the time.
        lab.write(directory, 10 - pair, &window);
    };
    for pair in 0..8 {
        run("a", pair, pair % 2, slowed(pair));
        run("b", pair, 1 - pair % 2, slowed(pair) * 107 / 100);
    }
    let report = lab.json(&["a", "b"]);
    assert_eq!(
        (&report["design"], &row(&report, "make", "run_time_ns")["verdict"]),
        (&json!("paired"), &json!("more"))
    );
    // A run that failed leaves its partner out, and the pairs that are whole.
    let mut failed = window(1, &[("make", ran(slowed(3)))]);
    failed["captured_at_unix_ns"] = json!(3_001);
    (8..11).for_each(|pair| {
        run("a", pair, pair % 2, slowed(pair));
        run("b", pair, 1 - pair % 2, slowed(pair) * 107 / 100);
    });
    lab.write("a", 10 - 3, &failed);
    let report = lab.json(&["a", "b"]);
    let counts = |side: &str| ["runs", "excluded", "unpaired"].map(|key| report[side][key].as_u64().unwrap());
    assert_eq!((counts("baseline"), counts("candidate")), ([10, 1, 0], [10, 0, 1]));
    let verdict = &row(&report, "make", "run_time_ns")["verdict"];
    assert_eq!((&report["design"], verdict), (&json!("paired"), &json!("more")));
    let page = text(&lab.compare(&["a", "b"]).stdout);
    assert!(page.contains("1 run left out without a run of the other side next to it"), "{page}");
    // Runs one after the other have no pairs.
    for pair in 0..11 {
        run("b", pair, 100_000, slowed(pair) * 107 / 100);
    }
    let report = lab.json(&["a", "b"]);
    let verdict = &row(&report, "make", "run_time_ns")["verdict"];
    assert_eq!((&report["design"], verdict), (&json!("independent"), &json!("unclear")));
}

#[test]
fn a_rise_beyond_the_threshold_is_more_and_less_the_other_way_round() {
    let lab = Lab::new();
    lab.side("base", STEADY);
    lab.side("cand", STEADY.map(|ms| ms * 11 / 10));
    let report = lab.json(&["base", "cand"]);
    let run_time = row(&report, "make", "run_time_ns");
    assert_eq!((&run_time["verdict"], &run_time["baseline"]), (&json!("more"), &json!(1_001_000_000)));
    assert_eq!(run_time["runs"]["baseline"], json!(STEADY.map(|ms| ms * 1_000_000)));
    let [low, ratio, high] = [&run_time["interval"]["low"], &run_time["ratio"], &run_time["interval"]["high"]];
    let [low, ratio, high] = [low, ratio, high].map(|number| number.as_f64().unwrap());
    assert!(1.08 < low && low <= ratio && ratio <= high && high < 1.12, "{run_time}");
    assert_eq!(row(&lab.json(&["cand", "base"]), "make", "run_time_ns")["verdict"], "less");
    assert_eq!(row(&lab.json(&["base", "cand", "--threshold", "20%"]), "make", "run_time_ns")["verdict"], "same");
}

#[test]
fn the_change_of_elapsed_time_is_the_one_in_its_interval_and_of_its_gate() {
    let lab = Lab::new();
    for (run, ms) in [100, 101, 102, 103, 104, 199, 200, 201, 202, 203].into_iter().enumerate() {
        lab.write("base", run, &took(if run < 6 { ms } else { ms - 98 }, 100));
        lab.write("cand", run, &took(if run < 4 { ms } else { 200 }, 100));
    }
    let compared = lab.compare(&["base", "cand", "--fail-on", "elapsed>5%"]);
    let [shown, said] = [&compared.stdout, &compared.stderr].map(|bytes| text(bytes));
    let change = |text: &str, front: &str| {
        let line = text.lines().find(|line| line.contains(front)).unwrap_or_else(|| panic!("{text}"));
        line.split_once('(').and_then(|(_, rest)| rest.split_once(')')).unwrap().0.to_owned()
    };
    assert_eq!(change(&shown, "elapsed  "), change(&said, "elapsed: "), "{shown}{said}");
}

#[test]
fn a_side_compared_with_itself_is_the_same_and_hidden() {
    let lab = Lab::new();
    lab.side("base", STEADY);
    let page = text(&lab.compare(&["base", "base", "--long"]).stdout);
    assert!(!page.contains("run_time_ns") && page.contains("unchanged"), "{page}");
    let page = text(&lab.compare(&["base", "base", "--long", "--unchanged"]).stdout);
    let line = page.lines().find(|line| line.contains("run_time_ns")).unwrap();
    assert!(line.ends_with("same"), "{line}");
}

#[test]
fn an_unclear_row_says_how_many_runs_would_decide() {
    let lab = Lab::new();
    lab.side("base", [800, 1000, 1300, 700, 1500, 1100]);
    lab.side("cand", [900, 1200, 1400, 800, 1000, 1600]);
    let report = lab.json(&["base", "cand"]);
    let run_time = row(&report, "make", "run_time_ns");
    assert_eq!(run_time["verdict"], "unclear");
    assert!(run_time["runs_needed"]["runs"].as_u64().unwrap() > 100, "{run_time}");
    let page = text(&lab.compare(&["base", "cand", "--long"]).stdout);
    assert!(page.contains("  unclear: ±") && page.contains(" runs would decide"), "{page}");
}

#[test]
fn runs_whose_command_failed_are_excluded_and_more_than_a_tenth_is_an_error() {
    let lab = Lab::new();
    lab.side("base", STEADY);
    lab.side("cand", STEADY);
    lab.write("cand", 9, &window(2, &[("make", ran(1))]));
    let page = text(&lab.compare(&["base", "cand"]).stdout);
    assert!(page.contains("cand  9 runs, ") && page.contains("1 run excluded because the command failed"), "{page}");
    let report = lab.json(&["base", "cand"]);
    assert_eq!((&report["candidate"]["runs"], &report["candidate"]["excluded"]), (&json!(9), &json!(1)));
    lab.write("cand", 8, &window(2, &[("make", ran(1))]));
    let message = "ctprof: cand: the command failed in 2 of 10 runs; at most a tenth may fail\n";
    assert_eq!(lab.refused(&["base", "cand"]), (Some(1), message.to_owned()));
}

#[test]
fn no_gate_is_judged_if_the_command_of_a_file_failed() {
    let lab = Lab::new();
    let mut killed = window(0, &[("make", ran(1))]);
    killed["window"]["command"] = json!({"arguments": ["x"], "elapsed_ns": 5, "signal": 9});
    lab.write("side", 1, &window(0, &[("make", ran(1000))]));
    lab.write("side", 2, &window(2, &[("make", ran(1))]));
    lab.write("side", 3, &killed);
    let [good, failed, killed] = ["side/run-01.json", "side/run-02.json", "side/run-03.json"];
    for (sides, side) in [([good, failed], "candidate"), ([good, killed], "candidate"), ([killed, good], "baseline")] {
        let out = lab.compare(&[&sides[..], &["--fail-on", "run>5%", "--fail-on", "make:worse>5%"]].concat());
        let said = text(&out.stderr);
        let why = format!("run>5%: the command of the {side} failed, or a signal ended it");
        assert!(out.status.code() == Some(1) && said.contains(&why), "{said}");
        assert!(said.starts_with("2 gates could not be evaluated"), "{said}");
        assert_eq!(lab.compare(&sides).status.code(), Some(0), "it can be looked at");
    }
}

#[test]
fn a_directory_without_runs_is_an_error_and_other_files_are_left_alone() {
    let lab = Lab::new();
    lab.side("base", STEADY);
    fs::create_dir(lab.path("empty")).unwrap();
    fs::write(lab.path("base/notes.txt"), "not a run").unwrap();
    let message = "ctprof: no run files (*.ctprof.zst or *.json) in empty; record one with `ctprof record -o`\n";
    assert_eq!(lab.refused(&["base", "empty"]), (Some(1), message.to_owned()));
    assert!(lab.compare(&["base", "base"]).status.success());
}

#[test]
fn windows_and_snapshots_are_not_mixed_on_a_side_or_between_sides() {
    let lab = Lab::new();
    let snapshot = json!({"format_version": 1, "threads": []});
    lab.side("windows", STEADY);
    lab.write("mixed", 0, &window(0, &[]));
    lab.write("mixed", 1, &snapshot);
    lab.write("snapshots", 0, &snapshot);
    for (sides, said) in [
        (["mixed", "windows"], "mixed/run-00.json is a window and mixed/run-01.json is a snapshot"),
        (["windows", "snapshots"], "windows is a window and snapshots is a snapshot"),
    ] {
        let (status, message) = lab.refused(&sides);
        assert!(status == Some(2) && message.contains(said), "{message}");
    }
}

#[test]
fn with_fewer_than_four_runs_there_is_no_interval_and_the_report_says_so() {
    let lab = Lab::new();
    lab.side("base", STEADY);
    lab.side("cand", [2000, 2010, 1990]);
    for candidate in ["cand", "cand/run-00.json"] {
        let page = text(&lab.compare(&["base", candidate]).stdout);
        assert_eq!(page.matches("no intervals or verdicts with fewer than 4 runs per side").count(), 1, "{page}");
        assert!(page.contains("1.00s → 2.00s") && !page.contains("verdict "), "{page}");
        let report = lab.json(&["base", candidate]);
        let run_time = row(&report, "make", "run_time_ns");
        assert!(run_time["interval"].is_null() && run_time["verdict"].is_null() && run_time["runs"].is_object());
    }
}

#[test]
fn a_group_that_few_runs_have_did_no_work_in_the_others() {
    let lab = Lab::new();
    for run in 0..10 {
        let processes = [("make", ran(1000)), ("cron", json!({"run_time_ns": 5_000_000, "wait_max": 7}))];
        lab.write("base", run, &window(0, &processes[..1]));
        lab.write("cand", run, &window(0, if run == 3 { &processes } else { &processes[..1] }));
    }
    let report = lab.json(&["base", "cand"]);
    let run_time = row(&report, "cron", "run_time_ns");
    assert_eq!(run_time["runs"]["candidate"], json!([0, 0, 0, 5_000_000, 0, 0, 0, 0, 0, 0]));
    assert_eq!(run_time["runs"]["baseline"], json!([0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!((&run_time["candidate"], &run_time["verdict"]), (&json!(0), &json!("same")));
    let longest = row(&report, "cron", "wait_max");
    assert_eq!((&longest["candidate"], &longest["verdict"]), (&Value::Null, &Value::Null));
    assert_eq!(longest["runs"]["candidate"][3], 7);
}

#[test]
fn a_group_that_ran_in_fewer_than_half_of_the_runs_is_shown_and_judged_if_it_is_unclear() {
    let lab = Lab::new();
    let processes = [("app", ran(100)), ("retry", ran(300))];
    for run in 0..12 {
        lab.write("base", run, &window(0, &processes[..1]));
        lab.write("cand", run, &window(0, &processes[..if [0, 1, 5, 6, 10].contains(&run) { 2 } else { 1 }]));
    }
    let out = lab.compare(&["base", "cand", "--fail-on", "*:run>10%", "--fail-on-unclear"]);
    let page = text(&out.stdout);
    let retry = page.lines().find(|line| line.starts_with("retry ")).unwrap_or_else(|| panic!("{page}"));
    assert!(retry.contains("run: unclear"), "{page}");
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
}

#[test]
fn a_group_that_only_one_side_has_in_every_run_is_more() {
    let lab = Lab::new();
    for (run, ms) in STEADY.into_iter().enumerate() {
        lab.write("base", run, &window(0, &[("make", ran(ms))]));
        lab.write("cand", run, &window(0, &[("make", ran(ms)), ("ld", ran(ms / 2))]));
    }
    let report = lab.json(&["base", "cand"]);
    let run_time = row(&report, "ld", "run_time_ns");
    assert_eq!((&run_time["change"], &run_time["verdict"]), (&json!("candidate_only"), &json!("more")));
    assert_eq!(run_time["interval"], json!({"low": null, "high": null}));
}

#[test]
fn a_group_of_one_side_is_new_or_gone_and_a_value_from_zero_has_no_percentage() {
    let lab = Lab::new();
    for run in 0..10 {
        lab.write("base", run, &window(0, &[("make", ran(1000)), ("old", ran(500))]));
        lab.write("cand", run, &window(0, &[("make", ran(1000)), ("late", ran(700))]));
        lab.write(
            "more",
            run,
            &window(
                0,
                &[("make", json!({"run_time_ns": 1_000_000_000, "minflt": 9_000_000, "majflt": 0})), ("old", ran(500))],
            ),
        );
        lab.write(
            "none",
            run,
            &window(0, &[("make", json!({"run_time_ns": 1_000_000_000, "minflt": 0, "majflt": 0})), ("old", ran(500))]),
        );
    }
    let table = text(&lab.compare(&["base", "cand"]).stdout);
    assert!(table.contains("new: run 700ms") && table.contains("gone: run 500ms"), "{table}");
    let table = text(&lab.compare(&["none", "more"]).stdout);
    assert!(table.contains("faults: +9.00M worse") && !table.contains('∞'), "{table}");
    let table = text(&lab.compare(&["more", "none"]).stdout);
    assert!(table.contains("faults: −9.00M better") && !table.contains("100"), "{table}");
}

#[test]
fn clock_ticks_carry_their_quantum() {
    let lab = Lab::new();
    for run in 0..10 {
        lab.write("base", run, &window(0, &[("make", json!({"utime_clock_ticks": 10}))]));
        lab.write("cand", run, &window(0, &[("make", json!({"utime_clock_ticks": 11}))]));
    }
    let report = lab.json(&["base", "cand"]);
    let ticks = row(&report, "make", "utime_clock_ticks");
    let percent = |end: &str| (ticks["interval"][end].as_f64().unwrap() * 100.0).round();
    // From (11 - 1) / (10 + 1) to (11 + 1) / (10 - 1).
    assert_eq!((&ticks["verdict"], percent("low"), percent("high")), (&json!("unclear"), 91.0, 133.0));
}

#[test]
fn every_format_has_the_runs_and_the_verdict_and_is_the_same_every_time() {
    let lab = Lab::new();
    lab.side("base", STEADY);
    lab.side("cand", STEADY.map(|ms| ms * 3 / 2));
    for (format, said) in [
        ("table", "run: 50.0% worse"),
        ("markdown", "| +50.0% | +48.5..+51.4% | worse |"),
        ("csv", "baseline_runs,candidate_runs,ratio,interval_low,interval_high,verdict,runs_needed"),
        ("json", "\"verdict\":\"more\""),
    ] {
        let page = || text(&lab.compare(&["base", "cand", "--format", format]).stdout);
        let page_now = page();
        assert!(page_now.contains(said), "{format}: {page_now}");
        assert_eq!(page_now, page(), "{format}");
    }
    let csv = text(&lab.compare(&["base", "cand", "--format", "csv"]).stdout);
    let run_time = csv.lines().find(|line| line.contains("run_time_ns")).unwrap();
    assert!(
        run_time.contains(",1000000000 1010000000 990000000 ") && run_time.trim().ends_with(",more,"),
        "{run_time}"
    );
}

#[test]
fn two_single_files_are_compared_as_ever() {
    let lab = Lab::new();
    lab.side("base", [1000]);
    lab.side("cand", [2000]);
    let (a, b) = (Path::new("base/run-00.json"), Path::new("cand/run-00.json"));
    let out = lab.compare(&[a.to_str().unwrap(), b.to_str().unwrap(), "--format", "json"]);
    let page = text(&out.stdout);
    assert!(!page.contains("verdict") && !page.contains("threshold") && !page.contains("\"runs\""), "{page}");
}

#[test]
fn a_directory_of_runs_is_shown_as_the_medians_of_its_runs() {
    let lab = Lab::new();
    lab.side("runs", [1000, 3000, 2000]);
    lab.write("runs", 3, &window(1, &[("make", ran(9000))]));
    lab.write("runs", 4, &window(0, &[("cc", ran(5))]));
    (5..12).for_each(|run| lab.write("runs", run, &window(0, &[("make", ran(2500))])));
    let out = lab.ctprof(&["show", "runs", "--format", "json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let page: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&page["snapshot"]["runs"], &page["snapshot"]["excluded"]), (&json!(11), &json!(1)));
    let rows = page["rows"].as_array().unwrap();
    let row = |group: &str| {
        rows.iter()
            .find(|row| row["section"] == "primary" && row["group"] == group && row["metric"] == "run_time_ns")
            .unwrap()
    };
    assert_eq!(row("make")["value"], 2_500_000_000_u64);
    let ms = [1000, 3000, 2000, 0, 2500, 2500, 2500, 2500, 2500, 2500, 2500_u64];
    assert_eq!(row("make")["runs"], json!(ms.map(|ms| ms * 1_000_000)));
    assert_eq!((&row("make")["verdict"], &row("cc")["value"]), (&Value::Null, &json!(0)));
    assert_eq!(row("all groups")["value"], 2_500_000_000_u64);
    let table = String::from_utf8(lab.ctprof(&["show", "runs"]).stdout).unwrap();
    assert!(table.starts_with("runs       runs  11 runs"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("make") && line.contains("2.50s")), "{table}");
}

#[test]
fn runs_have_one_median_in_their_line_and_in_the_row_elapsed() {
    let lab = Lab::new();
    for (run, ms) in [1000, 5000, 2000, 3000].into_iter().enumerate() {
        lab.write("base", run, &took(ms, 5));
        lab.write("cand", run, &took(ms, 5));
    }
    let page = text(&lab.compare(&["base", "cand"]).stdout);
    assert!(page.contains("cand  4 runs, median 2.50 s (1.00 s to 5.00 s)"), "{page}");
    assert!(page.contains("elapsed    2.50s → 2.50s"), "{page}");
}

#[test]
fn elapsed_time_that_one_side_has_is_shown_without_a_change() {
    let lab = Lab::new();
    let mut period = took(1000, 5);
    period["window"].as_object_mut().unwrap().remove("command");
    lab.write("base", 0, &period);
    lab.write("cand", 0, &took(596, 5));
    let page = text(&lab.compare(&["base/run-00.json", "cand/run-00.json"]).stdout);
    let line = page.lines().find(|line| line.starts_with("elapsed "));
    assert_eq!(line.map(str::trim_end), Some("elapsed    - → 596ms"), "{page}");
}

#[test]
fn elapsed_time_is_the_first_row_of_a_comparison_of_commands() {
    let lab = Lab::new();
    for (run, ms) in STEADY.into_iter().enumerate() {
        lab.write("base", run, &took(ms, 5));
        lab.write("cand", run, &took(ms * 3, 5));
    }
    let page = text(&lab.compare(&["base", "cand"]).stdout);
    let line = page.lines().find(|line| line.starts_with("elapsed ")).unwrap();
    assert_eq!(line, "elapsed    1.00s → 3.00s (+200.0%, 95% interval +197.0..+203.0%)  worse", "{page}");
    let report = text(&lab.compare(&["base", "cand", "-f", "json"]).stdout);
    let report: Value = serde_json::from_str(&report).unwrap();
    let first = &report["rows"][0];
    assert_eq!((&first["metric"], &first["path"], &first["verdict"]), (&json!("elapsed"), &json!([]), &json!("more")));
    assert_eq!((&report["elapsed"]["verdict"], &report["elapsed"]["candidate"]), (&json!("more"), &first["candidate"]));
    for format in ["markdown", "html"] {
        let page = text(&lab.compare(&["base", "cand", "-f", format]).stdout);
        assert!(page.contains("1.00s → 3.00s (+200.0%"), "{format}");
    }
    let csv = text(&lab.compare(&["base", "cand", "-f", "csv"]).stdout);
    assert!(csv.lines().nth(1).unwrap().starts_with("overview,all groups,elapsed,ns,"), "{csv}");
    let gate = |gate| lab.compare(&["base", "cand", "--fail-on", gate]).status.code();
    assert_eq!(
        [gate("elapsed>5%"), gate("elapsed>1s"), gate("elapsed>3s"), gate("worse>5%")].map(Option::unwrap),
        [3, 3, 0, 3]
    );
    assert_eq!([gate("make:elapsed>5%"), gate("elapsed>5pp")].map(Option::unwrap), [2, 2]);
}

#[test]
fn commands_are_compared_without_the_rest_of_the_host() {
    let lab = Lab::new();
    let busy = |ms: u64, elapsed_ms: u64| {
        let mut window = took(elapsed_ms, 1000);
        let rustc = json!({"tid": 9, "tgid": 9, "pcomm": "rustc", "comm": "rustc", "run_time_ns": ms * 1_000_000});
        window["threads"].as_array_mut().unwrap().push(rustc);
        window
    };
    for run in 0..10 {
        lab.write("base", run, &busy(100, 1000));
        lab.write("cand", run, &busy(900, 2000));
    }
    let shown = |args: &[&str]| text(&lab.ctprof(args).stdout);
    for args in
        [&["compare", "base", "cand"][..], &["compare", "base/run-01.json", "cand/run-01.json"], &["show", "base"]]
    {
        let page = shown(&[args, &["--unchanged"]].concat());
        assert!(page.contains("\nmake ") && !page.contains("rustc"), "{page}");
        assert!(page.contains("values are totals of each run, of the command and its descendants"), "{page}");
    }
    let page = shown(&["compare", "base", "cand", "--scope", "host"]);
    assert!(
        page.contains("values are totals of each run, of the whole host\n") && page.contains("\nrustc  "),
        "{page}"
    );
}

#[test]
fn runs_of_several_hosts_are_said_to_differ() {
    let lab = Lab::new();
    for (run, (name, cpus)) in [("vm", 2), ("vm", 2), ("other", 4)].into_iter().enumerate() {
        let mut window = took(1000, 5);
        let model = if cpus == 2 { "A, 2 GHz" } else { "B" };
        window["host"] = json!({"hostname": name, "online_cpus": cpus, "kernel_release": "6.1", "cpu_model": model,
                                 "cpu_microcode": "0x1", "hypervisor": "none"});
        lab.write("base", run, &window);
        window["host"] = json!({"hostname": "vm", "online_cpus": 2, "kernel_release": "6.1", "cpu_model": "C, 2 GHz",
                                 "cpu_microcode": "0x2", "hypervisor": "KVM"});
        lab.write("cand", run, &window);
    }
    let page = text(&lab.compare(&["base", "cand"]).stdout);
    assert!(
        page.contains(
            "warning    baseline: the runs differ: cpu_model A, 2 GHz, B; hostname vm, other; online_cpus 2, 4\n"
        ),
        "{page}"
    );
    assert!(page.contains("different processor (cpu_model): A, 2 GHz, B → C, 2 GHz\n"), "{page}");
    assert!(page.contains("different host: vm, other → vm\n"), "{page}");
    assert!(page.contains("different microcode: 0x1 → 0x2\n") && page.contains("different hypervisor: none → KVM\n"));
    assert!(
        text(&lab.ctprof(&["show", "base"]).stdout)
            .contains("warning    the runs differ: cpu_model A, 2 GHz, B; hostname vm, other")
    );
    assert!(!text(&lab.ctprof(&["show", "cand"]).stdout).contains("warning"));
}

#[test]
fn a_directory_of_both_sides_is_compared_by_its_name() {
    let lab = Lab::new();
    lab.side("runs/baseline", STEADY);
    lab.side("runs/candidate", STEADY);
    let page = text(&lab.compare(&["runs"]).stdout);
    assert!(page.starts_with("baseline   runs/baseline  10 runs"), "{page}");
    let out = lab.ctprof(&["show", "runs"]);
    let said = "ctprof: no run files in runs; did you mean runs/baseline or runs/candidate?\n";
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(1), said.to_owned()));
    let (status, said) = lab.refused(&["runs/baseline"]);
    assert!(status == Some(2) && said.contains("compare needs two sides"), "{said}");
}

#[test]
fn the_verdict_of_a_group_is_about_the_time_that_explains_elapsed_time() {
    let lab = Lab::new();
    let run = |elapsed_ms: u64, run: u64, wait: u64| {
        let times = json!({"run_time_ns": run * 1_000_000, "wait_time_ns": wait * 1_000_000});
        let mut window = window(0, &[("gzip", times), ("sh", ran(elapsed_ms / 500))]);
        window["window"]["command"]["elapsed_ns"] = json!(elapsed_ms * 1_000_000);
        window["host"] = json!({"online_cpus": 2});
        window
    };
    for (number, percent) in STEADY.into_iter().map(|ms| ms / 10).enumerate() {
        lab.write("first", number, &run(7 * percent, 3 * percent, 4 * percent));
        lab.write("more-work", number, &run(20 * percent, 8 * percent, 12 * percent));
        lab.write("other-load", number, &run(20 * percent, 3 * percent, 17 * percent));
    }
    let verdict = |sides: [&str; 2], group: &str| {
        let page = text(&lab.compare(&sides).stdout);
        let line = page.lines().find(|line| line.starts_with(group)).map(str::to_owned);
        line.unwrap_or(page).rsplit("  ").next().unwrap().to_owned()
    };
    assert_eq!(verdict(["first", "more-work"], "gzip "), "run: 166.7% worse", "though it waits 200 % longer");
    assert_eq!(verdict(["more-work", "first"], "gzip "), "run: 62.5% better");
    assert_eq!(verdict(["first", "other-load"], "gzip "), "wait: 325.0% more by other load");
    let page = text(&lab.compare(&["first", "more-work", "--unchanged"]).stdout);
    assert!(page.contains("\nnote: no verdict below 1% of the CPU time (--min-time): sh\n"), "{page}");
    assert!(!text(&lab.compare(&["first", "more-work", "--unchanged", "--min-time", "0%"]).stdout).contains("note:"));
    let report = lab.ctprof(&["compare", "first", "other-load", "-f", "json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let headlines: Vec<_> = report["rows"].as_array().unwrap().iter().filter(|row| row["group"] == "gzip").collect();
    let headline = headlines.iter().find(|row| row["headline"].is_string()).unwrap();
    assert_eq!((&headline["metric"], &headline["headline"]), (&json!("wait"), &json!("other-load")));
}

#[test]
fn one_long_run_does_not_decide_which_change_stands_for_a_group() {
    let lab = Lab::new();
    for (number, percent) in STEADY.into_iter().map(|ms| ms / 10).enumerate() {
        for (side, faults) in [("fewer", 40), ("more", 60)] {
            let counts = json!({"run_time_ns": percent * 1_000_000, "minflt": faults * percent, "majflt": 0});
            let mut run = window(0, &[("app", counts)]);
            run["window"]["duration_ns"] = json!(if number == 0 { 30_000_000_000_u64 } else { 200_000_000 });
            run["host"] = json!({"online_cpus": 2});
            lab.write(side, number, &run);
        }
    }
    let page = text(&lab.compare(&["fewer", "more", "--per", "run"]).stdout);
    let line = page.lines().find(|line| line.starts_with("app ")).unwrap_or_else(|| panic!("{page}"));
    assert!(line.ends_with("faults: 50.0% worse"), "{page}");
}

#[test]
fn the_verdict_of_a_command_is_never_that_of_wait_whatever_values_are_divided_by() {
    let lab = Lab::new();
    let run = |run: u64, wait: u64| {
        let times = json!({"run_time_ns": run * 1_000_000, "wait_time_ns": wait * 1_000_000});
        window(0, &[("gzip", times), ("sh", ran(500))])
    };
    for (number, percent) in STEADY.into_iter().map(|ms| ms / 10).enumerate() {
        lab.write("first", number, &run(2 * percent, 6 * percent));
        lab.write("second", number, &run(3 * percent, percent));
    }
    for per in [&[][..], &["--per-unit", "1"], &["--per", "cpu-second"], &["--per", "second"]] {
        let page = text(&lab.compare(&[&["first", "second"], per].concat()).stdout);
        let line = page.lines().find(|line| line.starts_with("gzip ")).unwrap_or_else(|| panic!("{page}"));
        assert!(line.contains("  run: "), "{per:?}: {page}");
    }
}

#[test]
fn a_run_in_which_a_group_was_never_a_zombie_has_no_time_of_it_and_is_not_unknown() {
    let lab = Lab::new();
    // Each run has another group that was a zombie, so that the state could be seen in all.
    let run = |zombie_ms: u64| {
        let zombie = |ms: u64| json!({"run_time_ns": 0, "alive_ns": 1, "zombie_ns": ms * 1_000_000, "state": "Z"});
        window(0, &[("app", zombie(zombie_ms)), ("other", zombie(700))])
    };
    for (side, zombies) in [("three", 3), ("two", 2), ("none", 0)] {
        (0..6).for_each(|number| lab.write(side, number, &run(if number < zombies { 500 } else { 0 })));
    }
    let value = |side: &str| {
        let report = lab.json(&["none", side, "--sections", "overview"]);
        row(&report, "app", "zombie")["candidate"].clone()
    };
    assert_eq!([value("three"), value("two")], [json!(250_000_000), json!(0)]);
    let judged = lab.compare(&["none", "two", "--fail-on", "app:zombie>100ms"]);
    assert_ne!(judged.status.code(), Some(1), "{}", text(&judged.stderr));
}
