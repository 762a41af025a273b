//! The command line: help, errors, exit statuses, and effects on files.

use crate::support::{Missing, skipped};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn ctprof(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    command.args(args).stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

fn run(args: &[&str]) -> Output {
    ctprof(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const A: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/ktstr-a.ctprof.zst");
const SERIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v4-series-linux-6.12.ctprof.zst");
const B: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/ktstr-b.ctprof.zst");

#[test]
fn help_errors_and_reports_are_as_recorded() {
    trycmd::TestCases::new().case("tests/cli/*.toml");
}

#[test]
fn a_capture_of_one_process_is_a_file_that_show_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("snap").display().to_string();
    let pid = std::process::id().to_string();
    let captured = run(&["capture", "-o", &path, "--pid", &pid]);
    assert!(captured.status.success() && captured.stdout.is_empty());
    assert!(text(&captured.stderr).contains(" in 1 process, "), "{}", text(&captured.stderr));
    let shown = run(&["show", &path, "-m", "nr_threads", "-f", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(json["rows"][0]["metric"], "nr_threads");
    assert!(json["rows"][0]["value"].as_u64() >= Some(1));
}

#[test]
fn a_name_in_the_place_of_a_process_id_is_an_error_that_says_how_to_find_the_id() {
    for wrong in ["redis", "0", "12,x"] {
        let refused = run(&["capture", "-o", "-", "-p", wrong]);
        assert_eq!(refused.status.code(), Some(2));
        let error = text(&refused.stderr);
        assert!(error.contains("expected process ids such as 1234 or 1234,1240; `pgrep -d, NAME` prints"), "{error}");
    }
}

#[test]
fn exported_files_have_what_their_formats_print() {
    let dir = tempfile::tempdir().unwrap();
    let path = |format: &str| dir.path().join(format).display().to_string();
    let formats = ["table", "json", "csv", "markdown", "html"];
    for args in [&["show", B][..], &["compare", A, B]] {
        let options = formats.map(|format| format!("--export={format}={}", path(format)));
        let printed = ctprof(args).args(&options).output().unwrap();
        assert!(printed.status.success(), "{}", text(&printed.stderr));
        assert_eq!(text(&printed.stdout), text(&run(args).stdout), "what is printed stays as it is");
        for format in formats {
            let alone = ctprof(args).args(["--format", format]).output().unwrap();
            assert!(fs::read(path(format)).unwrap() == alone.stdout, "{args:?} {format}");
        }
    }
    let gate = ["compare", A, B, "--fail-on", "run>0%", "--export"];
    let [export, nowhere] = [format!("json={}", path("failed")), "json=/nonexistent/x".to_owned()];
    assert_eq!(ctprof(&gate).arg(&export).output().unwrap().status.code(), Some(3));
    let failed: serde_json::Value = serde_json::from_slice(&fs::read(path("failed")).unwrap()).unwrap();
    assert_eq!(failed["gates"][0]["outcome"], "failed", "{}", failed["gates"]);
    let refused = ctprof(&gate).arg(nowhere).output().unwrap();
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "before anything is printed");
    let [old, new] = ["failed", "new"].map(|name| format!("json={}", path(name)));
    let before = fs::read(path("failed")).unwrap();
    let refused = run(&["show", "/nonexistent", "--export", &old, "--export", &new]);
    assert_eq!((refused.status.code(), fs::read(path("failed")).unwrap() == before), (Some(1), true));
    let left = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, formats.len() + 1, "a run that fails leaves what was there, and no new file");
    let refused = run(&["show", "-", "--export", &export]);
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("read twice"));
}

#[test]
fn no_export_replaces_a_file_that_the_command_reads_or_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let series = fs::read(SERIES).unwrap();
    fs::write(path("s"), &series).unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();
    let of = |name: &str| format!("--export=json={}", path(name));
    let [own, linked, twice] = [of("s"), of("link/s"), of("new")];
    for args in [
        &["show", &path("s"), &own][..],
        &["show", &format!("{}@1s..2s", path("s")), &linked],
        &["compare", &path("s"), B, &own],
        &["compare", B, &path("s"), &linked],
        &["show", B, &twice, &twice],
        &["record", "-o", &path("s"), &own, "--", "true"],
    ] {
        let refused = run(args);
        let error = text(&refused.stderr);
        let status = if args[0] == "record" { 125 } else { 2 };
        assert!(refused.status.code() == Some(status) && error.contains("name another file"), "{args:?}: {error}");
    }
    assert!(fs::read(path("s")).unwrap() == series && !dir.path().join("new").exists());
    let streams = run(&["show", B, "--export=json=/dev/null", "--export=csv=/dev/null"]);
    assert!(streams.status.success(), "{}", text(&streams.stderr));
}

#[test]
fn no_file_is_left_out_because_nobody_reads_what_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.json");
    let option = format!("--export=json={}", file.display());
    let mut closed = ctprof(&["show", B, "--format", "json", &option]).stdout(Stdio::piped()).spawn().unwrap();
    drop(closed.stdout.take());
    assert!(closed.wait().unwrap().success() && fs::metadata(file).unwrap().len() > 0);
    let refused = run(&["show", SERIES, "--format", "perfetto", "--export", "json=/nonexistent/x"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
}

#[test]
fn no_width_cuts_a_verdict_to_a_number_or_a_name_to_a_letter() {
    let runs = ["fast", "slow"].map(|side| format!("{}/tests/fixtures/runs/{side}", env!("CARGO_MANIFEST_DIR")));
    let shown =
        |args: &[&str], width: usize| text(&ctprof(args).env("COLUMNS", width.to_string()).output().unwrap().stdout);
    let compared = shown(&["compare", &runs[0], &runs[1]], 80);
    assert!(compared.contains("sleep: 109.0% worse"), "{compared}");
    for width in 60..100 {
        let page = shown(&["show", SERIES], width);
        let group = page.lines().find(|line| line.starts_with("neighbor")).unwrap();
        assert_eq!(group.contains(" b"), group.contains(" by ash "), "{width}: {group}");
    }
    let steps = shown(&["show", "--steps", SERIES], 40);
    assert!(steps.contains("neighbor") && !steps.contains(" by "), "{steps}");
}

#[test]
fn what_is_asked_for_together_is_shown_or_refused() {
    let shown = text(&run(&["show", SERIES, "--why", "-m", "run,minflt"]).stdout);
    for part in ["reasons", "sleep: idle", "minflt", "run over time"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let one = text(&run(&["show", SERIES, "--why=kworker*"]).stdout);
    assert!(
        one.contains("sleep: idle") && !one.contains("kthread;"),
        "a group without functions has no tree of them: {one}"
    );
    for (args, said) in [
        (&["--steps", "-m", "majflt"][..], "steps have no `majflt`, only columns of the overview: run, usr, "),
        (&["--format", "folded", "--per", "second"], "folded stacks are microseconds of the whole window"),
        (&["--why=nosuch"], "ctprof: --why: no group matches `nosuch`"),
    ] {
        let refused = run(&[&["show", SERIES], args].concat());
        assert!(!refused.status.success() && text(&refused.stderr).contains(said), "{}", text(&refused.stderr));
    }
    let of_nothing = run(&["show", "--steps", SERIES, "--scope", "container:nosuch"]);
    assert_eq!(text(&of_nothing.stderr), "ctprof: --scope: no container matches `nosuch`\n");
    assert_eq!(of_nothing.status.code(), Some(2), "as without --steps");
}

#[test]
fn folded_stacks_without_reasons_are_said_to_be_none() {
    let shown = run(&["show", A, "--format", "folded"]);
    assert!(shown.status.success() && shown.stdout.is_empty());
    let expected =
        "ctprof: warning: no reasons to print: only windows that `ctprof record` wrote without --no-why have them\n";
    assert_eq!(text(&shown.stderr), expected);
}

#[test]
fn without_a_name_the_file_goes_to_the_working_directory_and_its_name_to_stdout() {
    let dir = tempfile::tempdir().unwrap();
    let pid = std::process::id().to_string();
    let out = ctprof(&["capture", "-q", "--pid", &pid]).current_dir(dir.path()).output().unwrap();
    let name = text(&out.stdout);
    assert!(name.starts_with("ctprof-") && name.ends_with(".ctprof.zst\n"), "{name}");
    assert!(out.stderr.is_empty() && dir.path().join(name.trim()).is_file());
}

#[test]
fn snapshots_go_through_pipes() {
    let captured = run(&["capture", "-q", "-o", "-", "--pid", &std::process::id().to_string()]);
    assert!(captured.status.success());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("piped");
    fs::write(&path, &captured.stdout).unwrap();
    let shown = ctprof(&["show", "--long", "-"]).stdin(fs::File::open(&path).unwrap()).output().unwrap();
    assert!(shown.status.success() && text(&shown.stdout).contains("run_time_ns"));
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let mut show = ctprof(&["show", A, "--unchanged"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(16, show.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let out = show.wait_with_output().unwrap();
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
}

#[test]
fn a_full_disk_fails_and_leaves_the_old_file_whole() {
    let out = run(&["capture", "-q", "-o", "/dev/full"]);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(text(&out.stderr), "ctprof: cannot write /dev/full: No space left on device (os error 28)\n");

    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4k", "tmpfs"]).arg(dir.path()).output();
    if !mounted.is_ok_and(|out| out.status.success()) {
        return skipped(Missing::Privilege("mount"));
    }
    let path = dir.path().join("snap");
    fs::write(&path, "old").unwrap();
    let out = run(&["capture", "-q", "-o", &path.display().to_string()]);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let old = fs::read_to_string(&path);
    assert!(Command::new("umount").arg(dir.path()).status().unwrap().success());
    assert_eq!((out.status.code(), left), (Some(1), vec!["snap".into()]));
    assert_eq!(old.unwrap(), "old");
}

#[test]
fn devices_and_pipes_are_written_to_and_not_replaced() {
    let pid = std::process::id().to_string();
    assert!(run(&["capture", "-q", "-o", "/dev/null", "--pid", &pid]).status.success());
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn names_that_steer_a_terminal_are_spelt_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("snap");
    let json =
        r#"{"format_version":1,"threads":[{"tid":1,"tgid":1,"pcomm":"\u001b[31m\u0000\n","comm":"x","minflt":5}]}"#;
    fs::write(&path, zstd::encode_all(json.as_bytes(), 3).unwrap()).unwrap();
    let shown = run(&["show", &path.display().to_string(), "--long"]);
    assert!(text(&shown.stdout).contains("\\u{1b}[31m\\u{0}\\n"), "{}", text(&shown.stdout));
    assert!(!shown.stdout.iter().any(|&b| b == 0x1b || b == 0));
}

#[test]
fn a_snapshot_compared_with_itself_has_nothing_that_changed() {
    let out = run(&["compare", A, A, "-f", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert!(rows.len() > 1000 && rows.iter().all(|row| row["change"] == "unchanged" || row["change"] == "absent"));
    assert_eq!((json["format_version"].as_u64(), &json["warnings"]), (Some(3), &serde_json::json!([])));
}

#[test]
fn sides_swapped_negate_every_difference() {
    let rows = |a, b| {
        let json: serde_json::Value = serde_json::from_slice(&run(&["compare", a, b, "-f", "json"]).stdout).unwrap();
        let rows = json["rows"].as_array().unwrap().clone();
        let place = |row: &serde_json::Value| (row["group"].to_string(), row["metric"].to_string());
        rows.into_iter().map(|row| (place(&row), row)).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (forward, backward) = (rows(A, B), rows(B, A));
    assert_eq!(forward.len(), backward.len());
    for (place, row) in forward {
        let other = &backward[&place];
        assert_eq!(row["delta"].as_i64(), other["delta"].as_i64().map(|delta| -delta), "{place:?}");
        assert_eq!((&row["baseline"], &row["candidate"]), (&other["candidate"], &other["baseline"]), "{place:?}");
    }
}

#[test]
fn an_unprivileged_capture_names_its_true_gaps() {
    if !nix::unistd::geteuid().is_root() {
        return skipped(Missing::Privilege("root"));
    }
    let dir = tempfile::tempdir().unwrap();
    let binary = dir.path().join("ctprof");
    crate::support::copy_program(env!("CARGO_BIN_EXE_ctprof"), &binary);
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(dir.path(), everyone).unwrap();
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(arguments).output()
    };
    let nobody = |bounds: &[&str], arguments: &[&str]| {
        let program = [binary.to_str().unwrap()];
        nobody(&[bounds, &program, arguments, &["-o", "/dev/null"]].concat())
    };
    let Ok(out) = nobody(&[], &["capture"]) else { return skipped(Missing::Tool("setpriv")) };
    let said = text(&out.stderr);
    assert!(out.status.success(), "{said}");
    assert!(said.contains("missing: io: not read for") && said.contains("permission denied (EACCES)"), "{said}");
    assert!(said.matches("setcap cap_").count() == 1, "one command grants all: {said}");
    assert!(!said.contains("CONFIG_TASK_IO_ACCOUNTING"), "{said}");
    let refused = nobody(&[], &["capture", "--engine", "bpf"]).unwrap();
    for said in [said, text(&refused.stderr)] {
        let names_file = said.contains(&format!(" '{}'", binary.display()));
        assert!(names_file || !said.contains("setcap"), "the file that ran: {said}");
    }
    for bounds in ["--bounding-set=-all", "--bounding-set=-bpf,-perfmon"] {
        let confined = text(&nobody(&[bounds], &["capture"]).unwrap().stderr);
        assert!(confined.contains("--cap-add=") && !confined.contains("setcap"), "it gives none here: {confined}");
    }
}

const OLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1-linux-5.10-a.ctprof.zst");
const NEW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1-linux-5.10-b.ctprof.zst");

#[test]
fn files_of_every_format_that_ever_was_are_shown_and_compared() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path().display().to_string());
    let files: Vec<String> = entries.filter(|path| path.ends_with(".ctprof.zst")).collect();
    // A file of ktstr, version 1 on one line, version 1 with one line per thread, version 2.
    assert!(
        ["ktstr-", "/v1-linux", "/v1-lines", "/v2-"].iter().all(|kind| files.iter().any(|file| file.contains(kind)))
    );
    for file in &files {
        let shown = run(&["show", "--long", file]);
        assert!(shown.status.success() && text(&shown.stdout).contains("run_time_ns"), "{file}");
        assert!(run(&["compare", file, file]).status.success(), "{file}");
    }
}

/// The shell commands of docs/using.md that start with `start`, with its files replaced by real ones.
fn recipe(start: &str) -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/using.md")).unwrap();
    let block = page.split("```sh\n").filter_map(|rest| rest.split_once("```")).map(|(block, _)| block.to_owned());
    let recipe = block.into_iter().find(|block| block.starts_with(start)).unwrap();
    recipe.replace("before.ctprof.zst", OLD).replace("after.ctprof.zst", NEW)
}

fn shell(script: &str) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_ctprof")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    Command::new("sh").args(["-ec", script]).env("PATH", path).output().unwrap()
}

#[test]
fn the_recipe_for_jq_works() {
    if !shell("jq --version").status.success() {
        return skipped(Missing::Tool("jq"));
    }
    let out = shell(&recipe("ctprof compare before.ctprof.zst after.ctprof.zst --per run --format json"));
    assert_eq!(text(&out.stdout), "dd: 1.274408206 s\n", "{}", text(&out.stderr));
}

#[test]
fn a_terminal_is_filled_and_not_overrun() {
    let command =
        format!("stty rows 24 cols 60 2>/dev/null; {} compare --long {OLD} {NEW}", env!("CARGO_BIN_EXE_ctprof"));
    let out = Command::new("script").args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).output();
    let Ok(out) = out else { return skipped(Missing::Tool("script")) };
    let page = text(&out.stdout);
    assert!(page.contains("\u{1b}[1mprimary\u{1b}[0m"), "headings stand out on a terminal: {page}");
    assert!(page.contains("more rows (show with --limit 0)"), "rows are limited on a terminal");
    let in_tables = page.lines().filter(|line| line.contains("_ns") || line.contains("csw"));
    for line in in_tables {
        assert!(line.trim_end().chars().count() <= 60, "{line}");
    }
}

#[test]
fn record_writes_no_compressed_file_to_a_terminal() {
    let command = format!("{} record --engine procfs -d 1ms -o -", env!("CARGO_BIN_EXE_ctprof"));
    let out = Command::new("script").args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).output();
    let Ok(out) = out else { return skipped(Missing::Tool("script")) };
    let page = text(&out.stdout);
    assert!(out.status.code() == Some(125) && page.contains("cannot write a compressed file to a terminal"), "{page}");
}

#[test]
fn no_color_0_disables_color() {
    let command = format!("{} compare --long {OLD} {NEW}", env!("CARGO_BIN_EXE_ctprof"));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &command, "/dev/null"]).env("NO_COLOR", "0").stdin(Stdio::null());
    let Ok(out) = terminal.output() else { return skipped(Missing::Tool("script")) };
    let page = text(&out.stdout);
    assert!(page.contains("primary") && !page.contains('\u{1b}'), "{page}");
}

#[test]
fn the_listing_in_the_documentation_is_the_programs_own() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let listing = text(&run(&["metrics", "--format", "markdown"]).stdout);
    assert_eq!(
        fs::read_to_string(path).unwrap(),
        listing,
        "run: cargo run -- metrics --format markdown > docs/metrics.md"
    );
}

#[test]
fn the_states_of_each_group_take_the_time_of_its_threads() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let mut checked = 0;
    for file in ["v2-window-linux-6.18.ctprof.zst", "v2-reasons-linux-6.18.ctprof.zst", "v2-series-linux-6.18.ctprof"] {
        for axis in ["command", "process", "thread", "pid", "tid", "cgroup", "all"] {
            let path = format!("{fixtures}/{file}");
            let shown = run(&["show", &path, "-f", "json", "--group-by", axis]);
            let report = serde_json::from_slice(&shown.stdout).unwrap();
            checked += crate::states::assert_states_add_up(&report, 0.04);
            assert_all_have_the_rare_states_of_each(&report);
        }
    }
    assert!(checked > 20, "{checked}");
}

/// Asserts that all groups together have the time of their groups in states that few threads are in.
fn assert_all_have_the_rare_states_of_each(report: &serde_json::Value) {
    let rows: Vec<_> = report["rows"].as_array().unwrap().iter().filter(|row| row["section"] == "overview").collect();
    for state in ["stopped", "traced", "frozen", "zombie"] {
        let of = |is_total: bool| {
            let rows = rows
                .iter()
                .filter(|row| row["metric"] == state && row["path"].as_array().unwrap().is_empty() == is_total);
            let rows = rows.filter(|row| row["path"].as_array().unwrap().len() < 2);
            rows.filter_map(|row| row["value"].as_f64()).sum::<f64>()
        };
        let [total, sum] = [true, false].map(of);
        assert!((total - sum).abs() <= 0.001 * total, "{state}: {total} of all, {sum} of the groups");
    }
}
