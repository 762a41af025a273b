//! Promises to users about tables, CSV and JSON.

use crate::stored::program::{self, printed};
use crate::support::{Missing, skipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};

fn rows(args: &[&str]) -> Vec<Value> {
    let json: Value = serde_json::from_str(&printed(&[args, &["--format", "json"]].concat())).unwrap();
    json["rows"].as_array().unwrap().clone()
}

/// A thread of its own process, unless `fields` set another one.
fn thread(tid: u32, name: &str, fields: Value) -> Value {
    let mut thread = json!({"tid": tid, "tgid": tid, "pcomm": name, "comm": name, "cgroup": "/"});
    thread.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    thread
}

struct Snapshots(tempfile::TempDir);

impl Snapshots {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The path of a snapshot with these threads, in plain JSON.
    fn with(&self, name: &str, threads: &[Value]) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, json!({"format_version": 1, "threads": threads}).to_string()).unwrap();
        path.display().to_string()
    }
}

const OLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1-linux-5.10-a.ctprof.zst");
const NEW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1-linux-5.10-b.ctprof.zst");

#[test]
fn children_stand_under_their_cgroup_even_if_its_row_is_hidden() {
    let files = Snapshots::new();
    let side = |name: &str, faults: u64| {
        let of = |tid, tgid: u32, comm: &str, cgroup: &str, minflt: u64| {
            thread(tid, comm, json!({"tgid": tgid, "pcomm": "app", "cgroup": cgroup, "minflt": minflt}))
        };
        // In /b, one thread has the faults of the other: the rows of /b and of the process are unchanged.
        let b = [of(20, 20, "app", "/b", 1000 + faults), of(21, 20, "io", "/b", 9000 - faults)];
        files.with(name, &[&[of(10, 10, "app", "/a", 5 + faults), of(11, 10, "io", "/a", 7)][..], &b].concat())
    };
    let (old, new) = (side("old", 0), side("new", 4000));
    for format in ["table", "markdown"] {
        let page =
            printed(&["compare", &old, &new, "-g", "all", "-m", "minflt", "--sections", "primary", "-f", format]);
        let after_b = page.split("/b").nth(1).unwrap_or_default();
        assert!(
            after_b.contains("io") && after_b.contains("4.00K") && !page.split("/b").next().unwrap().contains("−4.00K"),
            "{page}"
        );
    }
}

#[test]
fn a_process_of_one_kind_of_threads_is_one_line() {
    let files = Snapshots::new();
    let pool = |tid: u32| {
        thread(tid, "worker", json!({"tgid": 10, "pcomm": "web", "comm": format!("worker-{tid}"), "minflt": 9}))
    };
    let leader = thread(10, "web", json!({"minflt": 1}));
    let path = files.with("s", &[thread(5, "cron", json!({"minflt": 3})), leader, pool(11), pool(12)]);
    let paths: Vec<_> =
        rows(&["show", &path, "-g", "all", "-m", "minflt"]).into_iter().map(|row| row["path"].clone()).collect();
    assert!(paths.contains(&json!(["/", "cron"])) && !paths.contains(&json!(["/", "cron", "cron"])), "{paths:?}");
    assert!(
        paths.contains(&json!(["/", "web", "worker-{N}"])) && paths.contains(&json!(["/", "web", "web"])),
        "{paths:?}"
    );
}

#[test]
fn a_tree_is_sorted_as_asked() {
    let files = Snapshots::new();
    let of = |tid, cgroup: &str, name: &str, ns: u64| thread(tid, name, json!({"cgroup": cgroup, "run_time_ns": ns}));
    let threads = [of(1, "/a", "small", 1), of(2, "/b", "medium", 50), of(3, "/c", "x", 5), of(4, "/c", "hog", 9000)];
    let path = files.with("s", &threads);
    let page = printed(&["show", &path, "-g", "all", "-m", "run_time_ns", "--sections", "primary"]);
    let place = |name: &str| page.lines().position(|line| line.trim_start().starts_with(name)).unwrap();
    let order = ["/c", "hog", "x", "/b", "medium", "/a", "small"].map(place);
    assert!(order.is_sorted(), "{page}");
}

#[test]
fn a_section_asked_for_twice_is_shown_once() {
    let page = printed(&["show", OLD, "--sections", "io-stat,io-stat,primary", "-n", "1"]);
    assert_eq!(page.matches("io-stat").count(), 1, "{page}");
}

#[test]
fn groups_only_in_the_candidate_are_sorted_with_the_others() {
    let files = Snapshots::new();
    let old = files.with("old", &[thread(1, "stays", json!({"run_time_ns": 10}))]);
    let new = [("stays", 20), ("small", 5), ("hog", 9000), ("medium", 500)];
    let new: Vec<_> = (1..).zip(new).map(|(tid, (name, ns))| thread(tid, name, json!({"run_time_ns": ns}))).collect();
    let new = files.with("new", &new);
    let rows = rows(&["compare", &old, &new, "-m", "run_time_ns", "-s", "run_time_ns", "--sections", "primary"]);
    let order: Vec<_> = rows.iter().map(|row| row["group"].as_str().unwrap()).collect();
    assert_eq!(order, ["all groups", "hog", "medium", "stays", "small"]);
}

#[test]
fn a_heap_that_went_from_freed_to_allocated_is_ranked_by_its_whole_change() {
    let files = Snapshots::new();
    let heap = |allocated: u64, freed: u64| json!({"allocated_bytes": allocated, "deallocated_bytes": freed});
    let mib = 1 << 20;
    let side = |name: &str, crossing: Value, growing: Value| {
        files.with(name, &[thread(1, "crossing", crossing), thread(2, "growing", growing)])
    };
    let old = side("old", heap(0, 100 * mib), heap(100 * mib, 0));
    let new = side("new", heap(100 * mib, 0), heap(180 * mib, 0));
    let rows = rows(&["compare", &old, &new, "-m", "live_heap_estimate", "--sections", "derived"]);
    let first: Vec<_> = rows.iter().map(|row| json!([row["group"], row["delta"]])).collect();
    assert_eq!(first[..2], [json!(["all groups", 280 * mib]), json!(["crossing", 200 * mib])]);
}

#[test]
fn derived_values_say_that_their_inputs_are_partial() {
    let files = Snapshots::new();
    let whole = json!({"run_time_ns": 30, "wait_time_ns": 10});
    let path = files.with("s", &[thread(1, "app", whole), thread(2, "app", json!({"run_time_ns": 5}))]);
    let page = printed(&["show", &path, "-m", "cpu_efficiency,group,metric,coverage"]);
    assert!(page.contains("cpu_efficiency*") && page.contains("1/2"), "{page}");
    let rows = rows(&["show", &path, "-m", "cpu_efficiency"]);
    assert_eq!((&rows[0]["coverage"], &rows[0]["members"]), (&json!(1), &json!(2)));
}

#[test]
fn cgroup_and_smaps_rows_have_a_coverage() {
    let rows = rows(&["compare", OLD, NEW, "-g", "cgroup", "--sections", "cgroup-stats,smaps-rollup"]);
    for section in ["cgroup-stats", "smaps-rollup"] {
        assert!(rows.iter().any(|row| row["section"] == section), "{section}");
    }
    for row in rows {
        for side in
            ["baseline", "candidate"].iter().filter(|side| !row["members"][**side].is_null() && !row[**side].is_null())
        {
            assert!(row["coverage"][side].as_u64() > Some(0), "{row}");
        }
    }
}

#[test]
fn a_new_group_differs_from_zero_in_totals_unless_the_other_side_lacks_the_value() {
    let files = Snapshots::new();
    let old = files.with("old", &[thread(1, "stays", json!({"minflt": 1, "wait_max": 5}))]);
    let new = files.with("new", &[thread(2, "new", json!({"minflt": 7, "majflt": 3, "wait_max": 6}))]);
    let of = |group: &str, metric: &str| {
        let rows = rows(&["compare", &old, &new, "-m", metric]);
        let row = rows.into_iter().find(|row| row["group"] == group).unwrap();
        [row["baseline"].clone(), row["candidate"].clone(), row["delta"].clone()]
    };
    assert_eq!(of("new", "minflt"), [json!(0), json!(7), json!(7)]);
    assert_eq!(of("stays", "minflt"), [json!(1), json!(0), json!(-1)]);
    assert_eq!(of("new", "majflt"), [json!(null), json!(3), json!(null)], "the baseline has no major faults at all");
    assert_eq!(of("new", "wait_max")[0], json!(null), "a maximum of nothing is unknown");
}

#[test]
fn lists_of_one_side_print_no_zeros() {
    let files = Snapshots::new();
    let old = files.with("old", &[thread(1, "stays", json!({"minflt": 1}))]);
    let new = files
        .with("new", &[thread(1, "stays", json!({"minflt": 2})), thread(2, "new", json!({"minflt": 0, "majflt": 3}))]);
    let page = printed(&["compare", &old, &new, "--sections", "primary"]);
    let list = page.split("only in the candidate").nth(1).unwrap();
    assert!(list.contains("majflt") && !list.contains("minflt"), "{page}");
    assert!(page.contains("1 zero"), "{page}");
}

#[test]
fn a_snapshot_compared_with_itself_counts_what_is_unchanged() {
    let page = printed(&["compare", "--long", OLD, OLD]);
    assert!(page.contains("no change: primary ") && page.contains(" unchanged, "), "{page}");
    assert!(page.contains("the snapshots are identical"), "{page}");
}

#[test]
fn the_limit_counts_the_rows_of_groups_in_all_lists_and_formats() {
    let files = Snapshots::new();
    let side = |name: &str, shift: u32| {
        let threads: Vec<_> = (0..6)
            .map(|n| thread(n + shift, &format!("p{}x", n + shift), json!({"minflt": 1000 * (n + shift + 1)})))
            .collect();
        files.with(name, &threads)
    };
    let (old, new) = (side("old", 1), side("new", 4));
    let args = ["compare", &old, &new, "-n", "2", "-m", "minflt", "--sections", "primary"];
    let page = printed(&args);
    let of_groups = |page: &str| {
        let lines = page.lines().filter(|line| line.contains("minflt") && !line.contains("unchanged"));
        lines.filter(|line| !line.contains("all groups")).count()
    };
    assert_eq!(of_groups(&page), 2, "{page}");
    assert_eq!(rows(&args).iter().filter(|row| row["change"] != "unchanged" && row["path"] != json!([])).count(), 2);
    let csv = printed(&[&args[..], &["--format", "csv"]].concat());
    assert_eq!(of_groups(&csv), 2, "{csv}");
    assert!(rows(&args[..3]).len() > 100, "without a limit JSON has every row");
}

/// The output of a command on a terminal with that many columns; `None` without `script`.
fn on_terminal(columns: u16, args: &str) -> Option<String> {
    let command = format!("stty rows 50 cols {columns} 2>/dev/null; {} {args}", env!("CARGO_BIN_EXE_ctprof"));
    let out = Command::new("script").args(["-qec", &command, "/dev/null"]).env("NO_COLOR", "1").output().ok()?;
    Some(String::from_utf8(out.stdout).unwrap())
}

#[test]
fn a_report_on_standard_error_has_its_own_limits() {
    let record = "record --engine procfs --long --unchanged -- true";
    let Some(page) = on_terminal(80, &format!("{record} > /dev/null")) else { return skipped(Missing::Tool("script")) };
    assert!(page.contains("more rows (show with --limit 0)"), "{page}");
    let page = on_terminal(80, &format!("{record} 2>&1 > /dev/tty | cat")).unwrap();
    assert!(page.contains("\r\nprimary") && !page.contains("more rows"), "{page}");
}

#[test]
fn the_groups_of_markdown_do_not_depend_on_the_height_of_the_terminal() {
    let args = format!("show {OLD} -g comm-exact --format markdown");
    let Some(page) = on_terminal(80, &args) else { return skipped(Missing::Tool("script")) };
    let words: Vec<&str> = args.split(' ').collect();
    assert_eq!(page.replace('\r', ""), printed(&words));
    assert!(page.contains("more groups"), "{page}");
}

#[test]
fn names_of_metrics_are_whole_at_80_columns() {
    let Some(page) = on_terminal(80, "metrics") else { return skipped(Missing::Tool("script")) };
    for metric in ctprof::model::METRICS {
        assert!(page.lines().any(|line| line.split_whitespace().next() == Some(metric.name)), "{}", metric.name);
    }
    assert!(page.lines().all(|line| line.trim_end().chars().count() <= 80), "{page}");
}

#[test]
fn tables_do_not_wrap_on_narrow_terminals() {
    for columns in [40, 60, 80] {
        let Some(page) = on_terminal(columns, &format!("compare {OLD} {NEW} --sections primary -n 9")) else {
            return skipped(Missing::Tool("script"));
        };
        assert!(page.lines().all(|line| line.trim_end().chars().count() <= columns.into()), "{columns}: {page}");
        let dd = page.lines().find(|line| line.starts_with("dd ")).unwrap_or_else(|| panic!("{columns}: {page}"));
        assert!(dd.contains("543ms"), "{columns}: the group and a value stay: {page}");
    }
}

#[test]
fn a_whole_name_of_15_bytes_is_not_marked_as_cut() {
    let files = Snapshots::new();
    let named = |tid, name: &str, whole: bool| {
        let mut thread = thread(tid, name, json!({"minflt": 1}));
        if whole {
            thread["name_complete"] = json!(true);
        }
        thread
    };
    let path = files.with("s", &[named(1, "systemd-journal", false), named(2, "systemd-machine", true)]);
    let page = printed(&["show", &path, "-m", "minflt"]);
    assert!(page.contains("systemd-journal…") && !page.contains("systemd-machine…"), "{page}");
}

/// A Python with DuckDB: the path in the variable, or the system's.
fn python_with_duckdb() -> Option<PathBuf> {
    let candidates = [std::env::var_os("CTPROF_TEST_PYTHON").map(PathBuf::from), Some("python3".into())];
    let has = |python: &Path| {
        Command::new(python).args(["-c", "import duckdb"]).output().is_ok_and(|out| out.status.success())
    };
    candidates.into_iter().flatten().find(|python| has(python))
}

#[test]
fn duckdb_reads_numbers_in_csv_as_numbers() {
    let Some(python) = python_with_duckdb() else {
        return skipped(Missing::Tool("Python with the package duckdb (CTPROF_TEST_PYTHON)"));
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.csv");
    for (args, numbers) in [
        (
            vec!["compare", OLD, NEW, "-f", "csv"],
            vec![
                "baseline_members",
                "candidate_members",
                "baseline_covered",
                "baseline",
                "candidate",
                "delta",
                "percent",
            ],
        ),
        (vec!["show", OLD, "-f", "csv"], vec!["members", "covered", "value"]),
    ] {
        fs::write(&path, printed(&args)).unwrap();
        let script = "import duckdb, sys\n\
                      for name, kind, *_ in duckdb.sql(f\"describe select * from '{sys.argv[1]}'\").fetchall():\n    print(name, kind)\n";
        let out = Command::new(&python).args(["-c", script]).arg(&path).output().unwrap();
        let columns = String::from_utf8(out.stdout).unwrap();
        for name in &numbers {
            let kind = columns.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            assert!(matches!(kind, Some("BIGINT" | "DOUBLE")), "{name} is {kind:?}: {columns}");
        }
    }
}

#[test]
fn a_lower_bound_is_marked_in_every_format_and_an_exact_wait_is_a_number() {
    let show = |format| printed(&["show", OLD, NEW, "-m", "longest", "--limit", "0", "--format", format]);
    let longest = |group: &str| {
        let rows = rows(&["show", OLD, NEW, "-m", "longest"]);
        let row = rows.iter().find(|row| row["metric"] == "longest" && row["group"] == group).unwrap();
        (row["value"].clone(), row["unit"].clone())
    };
    let [(bound, unit), (exact, _)] = ["all groups", "dd"].map(longest);
    let exact = exact.as_u64().unwrap();
    assert_eq!(
        (&bound, unit),
        (&json!({"at_least": exact}), json!("ns")),
        "the wait of dd is the longest that is known"
    );
    let csv = show("csv");
    for line in [format!("all groups,longest,ns,55,4,{exact},≥ 84.7ms\r\n"), format!("dd,longest,ns,1,1,{exact},\r\n")]
    {
        assert!(csv.contains(&line), "{line}: {csv}");
    }
    assert!(show("markdown").contains(r"| all groups | 55 | longest\* | ≥ 84.7ms |"));
    assert!(show("html").contains(r#"["≥ 12.1ms*",12052000]"#));
}

#[test]
fn axes_and_columns_have_the_names_that_people_type() {
    for (ours, theirs) in [("pcomm", "process"), ("comm", "thread")] {
        assert_eq!(printed(&["show", OLD, "-g", ours]), printed(&["show", OLD, "-g", theirs]));
    }
    let columns = |percent| printed(&["compare", OLD, NEW, "--metrics", &format!("group,metric,{percent}")]);
    assert_eq!(columns("%"), columns("percent"));
}

/// The page with the table of keys below each of these headings replaced by that of the schema.
fn with_keys(page: &str) -> String {
    let schema: Value = serde_json::from_str(ctprof::report::JSON_SCHEMA).unwrap();
    let mut page = page.to_owned();
    for (heading, name) in [("### Rows\n", "row"), ("### Gates\n", "gate")] {
        let head = "| key | content |\n|---|---|\n";
        let start = page.find(heading).unwrap();
        let start = start + page[start..].find(head).unwrap() + head.len();
        let old =
            page[start..].lines().take_while(|line| line.starts_with('|')).map(|line| line.len() + 1).sum::<usize>();
        let keys = schema["$defs"][name]["properties"].as_object().unwrap().iter();
        let lines = keys.map(|(key, about)| format!("| `{key}` | {} |\n", about["description"].as_str().unwrap()));
        page.replace_range(start..start + old, &lines.collect::<String>());
    }
    page
}

#[test]
fn the_keys_in_the_documentation_are_those_of_the_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/output.md");
    let page = fs::read_to_string(&path).unwrap();
    if std::env::var_os("UPDATE_REPORT").is_some() {
        fs::write(&path, with_keys(&page)).unwrap();
    } else {
        assert_eq!(page, with_keys(&page), "run: UPDATE_REPORT=1 cargo test --test suite report_formats");
    }
}

/// Checks a value against a schema, whose objects have no other keys than those it names.
fn check(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    static WHOLE: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(ctprof::report::JSON_SCHEMA).unwrap());
    if let Some(name) = schema["$ref"].as_str() {
        return check(&WHOLE["$defs"][name.strip_prefix("#/$defs/").unwrap()], value, at);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let errors: Vec<_> = any.iter().map_while(|schema| check(schema, value, at).err()).collect();
        return if errors.len() < any.len() { Ok(()) } else { Err(errors.join("; ")) };
    }
    let fails = |what: &str| Err(format!("{at}: {what}: {value}"));
    let allowed = schema["enum"].as_array().cloned().or_else(|| Some(vec![schema.get("const")?.clone()]));
    if let Some(allowed) = allowed {
        return if allowed.contains(value) { Ok(()) } else { fails("none of the enum") };
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let types = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    if !types.iter().any(|name| name == kind || (name == "number" && kind == "integer")) {
        return fails(&format!("not {}", schema["type"]));
    }
    for item in value.as_array().into_iter().flatten() {
        check(&schema["items"], item, &format!("{at}[]"))?;
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            return fails(&format!("lacks {name}"));
        }
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        let of_member = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        let Some(of_member) = of_member else { return fails(&format!("has {name}")) };
        check(of_member, member, &format!("{at}.{name}"))?;
    }
    Ok(())
}

#[test]
fn every_json_output_is_as_its_published_schema_says() {
    let [a, b] = ["tests/fixtures/ktstr-a.ctprof.zst", "tests/fixtures/ktstr-b.ctprof.zst"];
    let [run, other] =
        ["tests/fixtures/v2-run-1-linux-6.18.ctprof.zst", "tests/fixtures/v2-run-2-linux-6.18.ctprof.zst"];
    let runs = tempfile::tempdir().unwrap();
    for side in ["baseline", "candidate"] {
        fs::create_dir(runs.path().join(side)).unwrap();
        for number in 0..4 {
            fs::copy(
                if number % 2 == 0 { run } else { other },
                runs.path().join(format!("{side}/run-{number}.ctprof.zst")),
            )
            .unwrap();
        }
    }
    let runs = runs.path().to_str().unwrap();
    let baseline = &format!("{runs}/baseline");
    let outputs: [(&str, &[&str]); 13] = [
        ("show", &["show", a, "-g", "cgroup"]),
        ("show", &["show", "tests/fixtures/v1-linux-7.3.ctprof.zst", "-g", "all"]),
        ("show", &["show", "tests/fixtures/v2-window-linux-6.18.ctprof.zst", "-g", "pid"]),
        ("show", &["show", run, "--sections", "primary"]),
        ("show", &["show", baseline]),
        ("compare", &["compare", a, b, "-g", "cgroup", "--names", "exact"]),
        ("compare", &["compare", "tests/fixtures/v1-linux-5.10-a.ctprof.zst", a]),
        ("compare", &["compare", run, other, "--fail-on", "run>900%"]),
        ("compare", &["compare", runs, "--fail-on", "elapsed>900%"]),
        ("compare", &["compare", runs, "--sections", "primary"]),
        ("metrics", &["metrics"]),
        ("doctor", &["doctor"]),
        ("row", &["compare", runs, "--format", "jsonl"]),
    ];
    for (name, args) in outputs {
        let json = if args.contains(&"--format") { vec![] } else { vec!["--format", "json"] };
        // Findings decide the status of doctor.
        let printed = String::from_utf8(program::run(&[args, &json].concat()).stdout).unwrap();
        let schema: Value = serde_json::from_str(&printed_schema(name)).unwrap();
        assert!(printed.lines().count() == 1 || name == "row", "an object on one line");
        for line in printed.lines() {
            check(&schema, &serde_json::from_str(line).unwrap(), name)
                .unwrap_or_else(|error| panic!("{args:?}: {error}"));
        }
    }
}

fn printed_schema(name: &str) -> String {
    printed(&["schema", name])
}
