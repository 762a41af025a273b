//! Several runs of one command (`record --runs`) and of two in turn (`ab`).

use crate::support::{Missing, skipped};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal::{SIGINT, SIGTERM};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A directory in which commands run, and one for temporary files.
struct Lab {
    directory: tempfile::TempDir,
    temporary: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), temporary: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        // A shell that starts the tests in the background ignores SIGINT for them.
        let mut command = Command::new("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_ctprof")]).args(arguments);
        command.current_dir(&self.directory).env("TMPDIR", self.temporary.path()).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs two commands in turn.
    fn ab(&self, options: &[&str], baseline: &str, candidate: &str) -> Output {
        self.run(&[&["ab", baseline, candidate], options].concat())
    }

    /// What commands appended to `log`, as one line.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        log.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Waits until commands have appended so many words to `log`, and then sends a signal.
    fn signal_after(&self, words: usize, process: &mut Child, signal: Signal) {
        while self.log().split(' ').filter(|word| !word.is_empty()).count() < words {
            assert_eq!(process.try_wait().unwrap(), None, "it ended before a signal was sent");
            thread::sleep(Duration::from_millis(5));
        }
        kill(Pid::from_raw(process.id().cast_signed()), signal).unwrap();
    }

    /// Files of a directory, sorted.
    fn files(&self, directory: &str) -> Vec<String> {
        names(&self.directory.path().join(directory))
    }

    fn assert_no_temporary_files(&self) {
        assert_eq!(names(self.temporary.path()), [] as [&str; 0]);
    }

    /// The report of a window or a comparison.
    fn report(&self, arguments: &[&str]) -> Value {
        json(&self.run(&[arguments, &["--format", "json"]].concat()))
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What was printed on stderr, without warnings about other processes of the host.
fn said(output: &Output) -> String {
    let about_others = |line: &&str| line.starts_with("ctprof: warning: reading ");
    text(&output.stderr).split_inclusive('\n').filter(|line| !about_others(line)).collect()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)))
}

const RUNS: [&str; 3] = ["run-01.ctprof.zst", "run-02.ctprof.zst", "run-03.ctprof.zst"];

/// Runs as usual until `log` has this many words, then waits for a signal.
fn hangs_at(words: usize, word: &str) -> String {
    format!("echo {word} >> log; [ $(wc -l < log) -lt {words} ] || exec sleep 100")
}

#[test]
fn each_run_of_a_command_has_a_file_and_the_streams_of_ctprof() {
    let lab = Lab::new();
    let recorded = lab.run(&["record", "--runs", "3", "-o", "runs", "--", "sh", "-c", "echo output; echo error >&2"]);
    assert_eq!((code(&recorded), text(&recorded.stdout)), (Some(0), "output\n".repeat(3)));
    assert_eq!(said(&recorded), format!("{}Recorded 3 runs: runs\n", "error\n".repeat(3)));
    assert_eq!(lab.files("runs"), RUNS);
    let shown = lab.report(&["show", "runs/run-03.ctprof.zst"]);
    assert_eq!(shown["snapshot"]["window"]["command"]["arguments"][0], "sh");
}

#[test]
fn runs_of_a_time_need_no_command() {
    let lab = Lab::new();
    let recorded = lab.run(&["record", "-q", "--runs", "3", "-o", "runs", "-d", "10ms"]);
    assert_eq!((code(&recorded), text(&recorded.stderr)), (Some(0), String::new()));
    assert_eq!(lab.files("runs"), RUNS);
}

#[test]
fn runs_end_when_the_selected_processes_have_exited() {
    let lab = Lab::new();
    let mut sleep = Command::new("sleep").arg("5").spawn().unwrap();
    let pid = sleep.id().to_string();
    let reaper = thread::spawn(move || sleep.wait());
    let recorded = lab.run(&["record", "--runs", "99", "-o", "runs", "-d", "800ms", "-p", &pid]);
    reaper.join().unwrap().unwrap();
    let error = text(&recorded.stderr);
    assert_eq!(code(&recorded), Some(125));
    assert!(error.contains(&format!("no such process: {pid} (")), "{error}");
    let runs = lab.files("runs").len();
    assert!((1..8).contains(&runs), "{runs} runs");
}

#[test]
fn a_window_of_selected_processes_has_their_cpu_time_and_not_that_of_ctprof() {
    let lab = Lab::new();
    let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleep.id().to_string();
    let window = lab.report(&["record", "-d", "200ms", "-p", &pid])["snapshot"]["window"].clone();
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    let explained = window["cpu"]["explained_ns"].as_u64().unwrap();
    assert!(explained < 2_000_000, "sleep ran for {explained} ns");
}

#[test]
fn runs_end_in_time_with_whole_pairs_and_the_report_says_it() {
    let lab = Lab::new();
    let log = |word: &str| format!("echo {word} >> log; sleep 0.1");
    let options = ["--runs", "500", "--max-time", "2s", "-o", "runs", "--no-warmup", "--no-why", "--format", "json"];
    let compared = lab.ab(&options, &log("A"), &log("B"));
    let (report, error) = (json(&compared), text(&compared.stderr));
    let made = lab.files("runs/baseline").len();
    assert!((1..12).contains(&made), "{made} pairs in 2 s");
    assert_eq!(lab.files("runs/candidate").len(), made, "{}", lab.log());
    assert_eq!(report["ended_early"], serde_json::json!({"planned": 500, "by": "time"}));
    let text = format!("ended after {made} of 500 runs per side: the time of --max-time is over\n");
    assert!(error.contains(&text), "{error}");
}

#[test]
fn runs_end_once_gates_and_elapsed_are_decided_and_all_are_made_where_their_number_is_given() {
    let lab = Lab::new();
    let options = ["--no-warmup", "--no-why", "--format", "json", "--fail-on", "elapsed>5%"];
    let exported = ["-o", "ended", "--export", "json=report.json"];
    let compared = lab.ab(&[&options[..], &exported].concat(), "sleep 0.01", "sleep 0.3");
    let (report, error) = (json(&compared), text(&compared.stderr));
    let file = fs::read(lab.directory.path().join("report.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&file).unwrap(), report, "a file is judged as what is printed");
    let made = lab.files("ended/baseline").len();
    assert_eq!(code(&compared), Some(3), "{error}");
    assert!([8, 12].contains(&made), "{made} runs");
    assert_eq!(report["ended_early"], serde_json::json!({"planned": 20, "by": "decided"}));
    let expected = format!("ended after {made} of 20 runs per side: elapsed and all gates are decided\n");
    assert!(error.contains("ctprof: up to 20 runs of each command. ") && error.contains(&expected), "{error}");
    assert!((report["tail"].as_f64().unwrap() - 0.005).abs() < 1e-12);
    assert_eq!(report["gates"][0]["interval"], report["elapsed"]["interval"], "the one that is printed decides");
    assert!(error.contains(", 95% interval "), "of all looks together: {error}");
    let all = lab.ab(&[&options[..], &["--runs", "14", "-o", "all"]].concat(), "true", "sleep 0.1");
    assert_eq!((lab.files("all/baseline").len(), &json(&all)["tail"]), (14, &serde_json::json!(0.025)));
}

#[test]
fn runs_of_one_command_end_in_time_and_it_is_said() {
    let lab = Lab::new();
    let options = ["record", "--runs", "500", "--max-time", "1s", "--no-why", "-o", "runs", "--", "sleep", "0.1"];
    let recorded = lab.run(&options);
    let (made, error) = (lab.files("runs").len(), text(&recorded.stderr));
    assert_eq!(code(&recorded), Some(0));
    assert!((1..10).contains(&made) && error.contains(&format!("Recorded {made} of 500 runs: runs")), "{error}");
    assert!(error.contains("ended by --max-time"), "{error}");
}

#[test]
fn a_failed_run_is_kept_and_decides_the_exit_status() {
    let lab = Lab::new();
    let fails_second = "echo run >> log; [ $(wc -l < log) != 2 ] || exit 3";
    let recorded = lab.run(&["record", "--runs", "3", "-o", "runs", "--", "sh", "-c", fails_second]);
    assert_eq!((code(&recorded), lab.files("runs").len()), (Some(3), 3));
    assert!(text(&recorded.stderr).ends_with("failed: 1 (run 2 exit status 3)\n"), "{}", text(&recorded.stderr));
    let shown = lab.report(&["show", "runs/run-02.ctprof.zst"]);
    assert_eq!(shown["snapshot"]["window"]["command"]["status"], 3);
}

#[test]
fn runs_do_not_mix_with_those_of_another_time() {
    let lab = Lab::new();
    let arguments = ["record", "--runs", "1", "-o", "runs", "--", "sh", "-c", "echo run >> log"];
    assert_eq!(code(&lab.run(&arguments)), Some(0));
    let again = lab.run(&arguments);
    assert_eq!((code(&again), lab.log().as_str()), (Some(125), "run"));
    assert!(text(&again.stderr).contains("runs already has runs (run-01.ctprof.zst): name another directory"));
    fs::create_dir_all(lab.directory.path().join("ab")).unwrap();
    fs::rename(lab.directory.path().join("runs"), lab.directory.path().join("ab/candidate")).unwrap();
    assert_eq!(code(&lab.ab(&["-o", "ab"], "echo run >> log", "true")), Some(1));
    assert_eq!(lab.log(), "run");
}

#[test]
fn runs_need_a_directory_and_an_end() {
    let lab = Lab::new();
    fs::write(lab.directory.path().join("file"), "").unwrap();
    for (arguments, message) in [
        (&["record", "--runs", "2", "--", "true"][..], "--output <PATH>"),
        (&["record", "--runs", "0", "-o", "runs", "--", "true"], "'0' for '--runs <N>'"),
        (&["record", "--runs", "2", "-o", "runs"], "--runs needs the end of a run"),
        (&["record", "--runs", "2", "-o", "-", "--", "true"], "--runs needs a directory"),
        (&["record", "--runs", "2", "-o", "file", "--", "true"], "cannot create the directory file"),
    ] {
        let refused = lab.run(arguments);
        assert_eq!(code(&refused), Some(125), "{arguments:?}");
        assert!(text(&refused.stderr).contains(message), "{}", text(&refused.stderr));
    }
}

#[test]
fn a_signal_ends_the_runs_and_keeps_those_so_far() {
    for (signal, status) in [(SIGINT, 130), (SIGTERM, 143)] {
        let lab = Lab::new();
        let script = hangs_at(3, "run");
        let mut recording = lab.command(&["record", "--runs", "9", "-o", "runs", "--", "sh", "-c", &script]);
        let mut process = recording.spawn().unwrap();
        lab.signal_after(3, &mut process, signal);
        let output = process.wait_with_output().unwrap();
        assert_eq!((code(&output), text(&output.stderr).as_str()), (Some(status), "Recorded 2 of 9 runs: runs\n"));
        assert_eq!(lab.files("runs"), RUNS[..2]);
    }
}

#[test]
fn a_terminal_shows_which_run_is_next_and_the_time_left() {
    let lab = Lab::new();
    let show = |arguments: &str| {
        let command = format!("exec {} {arguments}", env!("CARGO_BIN_EXE_ctprof"));
        let mut script = Command::new("script");
        // Bars are drawn only for a terminal that is known.
        script.args(["-qec", &command, "/dev/null"]).env("TERM", "xterm");
        script.current_dir(&lab.directory).stdin(Stdio::null()).output()
    };
    let Ok(recorded) = show("record --runs 2 -o runs -- true") else { return skipped(Missing::Tool("script")) };
    let shown = text(&recorded.stdout);
    assert!(shown.contains("ctprof: run 1 of 2\r\n") && shown.contains("ctprof: run 2 of 2, about "), "{shown}");
    let compared = text(&show("ab --runs 1 true true").unwrap().stdout);
    for step in ["warm-up of the baseline", "run 1 of 1 of the candidate, about "] {
        assert!(compared.contains(step), "{compared}");
    }
}

#[test]
fn what_a_run_leaves_behind_is_not_of_the_next_one() {
    let lab = Lab::new();
    let leaves_one = "(sleep 100 > /dev/null 2>&1 & echo $! >> log)";
    let recorded = lab.run(&["record", "--runs", "3", "-o", "runs", "--", "sh", "-c", leaves_one]);
    for orphan in lab.log().split(' ') {
        kill(Pid::from_raw(orphan.parse().unwrap()), SIGTERM).unwrap();
    }
    assert_eq!(code(&recorded), Some(0), "{}", text(&recorded.stderr));
    let threads = |run: &str| {
        let shown = lab.report(&["show", &format!("runs/{run}")]);
        shown["snapshot"]["window"]["command_totals"]["threads"].as_u64().unwrap()
    };
    assert_eq!(RUNS.map(threads), [threads(RUNS[0]); 3]);
}

#[test]
fn commands_run_in_turn_after_a_warm_up() {
    let lab = Lab::new();
    let options = ["--runs", "3", "-o", "ab", "--prepare", "echo - >> log"];
    let compared = lab.ab(&options, "echo A >> log", "echo B >> log");
    let warning = "ctprof: 3 runs of each command: no intervals and no verdicts (use at least --runs 4)\n";
    assert_eq!((code(&compared), said(&compared).as_str()), (Some(0), warning));
    assert_eq!(lab.log(), "- A - B - A - B - B - A - A - B");
    assert_eq!([lab.files("ab/baseline"), lab.files("ab/candidate")], [RUNS, RUNS]);
    let lab = Lab::new();
    assert_eq!(code(&lab.ab(&["--runs", "2", "--no-warmup"], "echo A >> log", "echo B >> log")), Some(0));
    assert_eq!(lab.log(), "A B B A");
    lab.assert_no_temporary_files();
}

#[test]
fn commands_that_are_not_recorded_are_in_no_run() {
    let lab = Lab::new();
    assert_eq!(code(&lab.ab(&["--runs", "1", "-o", "ab", "--prepare", "echo $$ >> log"], "true", "true")), Some(0));
    let run = lab.report(&["show", "ab/baseline/run-01.ctprof.zst", "--scope", "host", "--group-by", "pid"]);
    let groups: Vec<_> = run["rows"].as_array().unwrap().iter().filter_map(|row| row["group"].as_str()).collect();
    assert!(groups.iter().any(|group| group.ends_with("[1]")), "{groups:?}");
    let log = lab.log();
    let prepared: Vec<_> = log.split(' ').map(|pid| format!("sh[{pid}]")).collect();
    assert!(prepared.len() == 4 && !prepared.iter().any(|sh| groups.contains(&sh.as_str())), "{prepared:?} {groups:?}");
}

#[test]
fn only_the_commands_are_compared_by_default() {
    let lab = Lab::new();
    let groups = |options: &[&str]| {
        let report = json(&lab.ab(&[&["--runs", "1", "--format", "json"], options].concat(), "true", "true"));
        let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["section"] == "overview");
        let rows = rows.filter(|row| row["path"].as_array().is_some_and(|path| !path.is_empty()));
        let mut groups: Vec<_> = rows.map(|row| row["group"].as_str().unwrap().to_owned()).collect();
        groups.dedup();
        groups
    };
    assert_eq!(groups(&[]), ["sh"]);
    let of_host = groups(&["--scope", "host"]);
    assert!(of_host.contains(&"sh".to_owned()) && of_host.len() > 1, "{of_host:?}");
}

#[test]
fn output_is_discarded_or_shown_on_stderr() {
    let lab = Lab::new();
    let options = ["--runs", "1", "--format", "json", "-q"];
    let script = "cat; echo output; echo error >&2";
    let discarded = lab.ab(&options, script, "true");
    assert!(json(&discarded)["rows"].is_array());
    assert_eq!(text(&discarded.stderr), "");
    let shown = lab.ab(&[&options[..], &["--show-output"]].concat(), script, "true");
    assert!(json(&shown)["rows"].is_array());
    assert_eq!(text(&shown.stderr), "output\nerror\n".repeat(2));
}

#[test]
fn a_command_that_fails_ends_the_comparison() {
    let lab = Lab::new();
    let failed = lab.ab(&["-q", "--runs", "10", "-o", "ab"], "true", "exit 3");
    let message =
        "ctprof: 2 of 2 runs of the candidate failed: `exit 3`: exit status 3; show its output with --show-output\n";
    assert_eq!((code(&failed), text(&failed.stderr).as_str()), (Some(1), message));
    assert_eq!(lab.files("ab/candidate"), RUNS[..2]);
    let killed = lab.ab(&["--runs", "3", "--show-output"], "kill -9 $$", "true");
    assert_eq!(code(&killed), Some(1));
    assert!(text(&killed.stderr).ends_with("`kill -9 $$`: killed by signal 9\n"), "{}", text(&killed.stderr));
    let unprepared = lab.ab(&["--prepare", "exit 4"], "true", "true");
    assert_eq!(code(&unprepared), Some(1));
    assert!(text(&unprepared.stderr).contains("`exit 4` (--prepare) failed: exit status 4"));
    lab.assert_no_temporary_files();
}

#[test]
fn a_tenth_of_the_runs_may_fail_and_is_left_out() {
    let lab = Lab::new();
    let fails_once = "echo run >> log; [ $(wc -l < log) != 3 ]";
    let compared = lab.ab(&["--runs", "10", "--no-warmup", "--format", "json", "-o", "ab"], "true", fails_once);
    assert_eq!(code(&compared), Some(0), "{}", text(&compared.stderr));
    assert_eq!(lab.files("ab/candidate").len(), 10);
    let report = json(&compared);
    let runs = |side: &str| ["runs", "excluded", "unpaired"].map(|count| report[side][count].as_u64());
    let (baseline, candidate) = ([Some(9), Some(0), Some(1)], [Some(9), Some(1), Some(0)]);
    assert_eq!([runs("baseline"), runs("candidate")], [baseline, candidate], "its partner is left out too");
}

#[test]
fn gates_are_checked_before_the_runs_and_decide_the_exit_status() {
    let lab = Lab::new();
    let run = |gate: &str| {
        let options = ["--runs", "4", "-q", "--fail-on", gate];
        code(&lab.ab(&options, "echo A >> log", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"))
    };
    assert_eq!((run("no-such-metric>5%"), lab.log()), (Some(2), String::new()));
    assert_eq!(run("run>50%"), Some(3));
    assert_eq!(run("run<50%"), Some(0));
}

#[test]
fn a_gate_that_equal_programs_leave_unclear_is_told_before_the_first_run() {
    let lab = Lab::new();
    let said = |gate: &str| {
        let done = lab.ab(
            &["--runs", "1", "--prepare", "echo prepared >&2", "--show-output", "--fail-on", gate],
            "true",
            "true",
        );
        let said = text(&done.stderr);
        said.split("prepared").next().unwrap().contains("stays unclear with any number of runs")
    };
    assert!(said("elapsed>0%") && !said("elapsed>5000%"));
}

#[test]
fn a_report_does_not_name_the_temporary_directory() {
    let lab = Lab::new();
    let report = text(&lab.ab(&["--runs", "1"], "true", "true").stdout);
    assert!(report.starts_with("baseline   1 run on ") && !report.contains("ctprof-ab-"), "{report}");
    let report = text(&lab.ab(&["--runs", "1", "-o", "ab"], "true", "true").stdout);
    assert!(report.starts_with("baseline   ab/baseline  1 run on "), "{report}");
}

#[test]
fn a_signal_compares_the_runs_so_far() {
    let lab = Lab::new();
    let (baseline, candidate) = (hangs_at(8, "A"), hangs_at(8, "B"));
    let command = ["ab", &baseline, &candidate, "--format", "json"];
    let mut process = lab.command(&command).spawn().unwrap();
    lab.signal_after(8, &mut process, SIGINT);
    let output = process.wait_with_output().unwrap();
    assert_eq!(code(&output), Some(130));
    let message = "ctprof: interrupted after 3 runs of the baseline and 2 runs of the candidate\n";
    assert!(text(&output.stderr).ends_with(message), "{}", text(&output.stderr));
    assert!(json(&output)["rows"].is_array());
    lab.assert_no_temporary_files();
}

#[test]
fn a_signal_decides_the_exit_status_also_where_the_runs_so_far_cannot_be_compared() {
    let lab = Lab::new();
    let fails_once = format!("{}; [ -e failed ] || {{ touch failed; exit 1; }}", hangs_at(6, "B"));
    let command = ["ab", "--no-warmup", &hangs_at(6, "A"), &fails_once];
    let mut process = lab.command(&command).spawn().unwrap();
    lab.signal_after(6, &mut process, SIGINT);
    let output = process.wait_with_output().unwrap();
    assert_eq!((code(&output), text(&output.stdout).as_str()), (Some(130), ""));
    let said = text(&output.stderr);
    assert!(said.ends_with("the command failed in 1 of 2 runs; at most a tenth may fail\n"), "{said}");
    lab.assert_no_temporary_files();
}

#[test]
fn a_signal_before_both_commands_have_run_leaves_nothing_to_compare() {
    let lab = Lab::new();
    let script = hangs_at(1, "A");
    let mut process = lab.command(&["ab", &script, "true"]).spawn().unwrap();
    lab.signal_after(1, &mut process, SIGINT);
    let output = process.wait_with_output().unwrap();
    assert_eq!((code(&output), text(&output.stdout).as_str()), (Some(130), ""));
    assert!(text(&output.stderr).contains("interrupted after 0 runs of the baseline"), "{}", text(&output.stderr));
    lab.assert_no_temporary_files();
}

#[test]
fn commands_run_on_their_cpus_and_ctprof_on_others() {
    let lab = Lab::new();
    let allowed = |process: &str| format!("grep ^Cpus_allowed_list: /proc/{process}/status | cut -f2 >> log");
    assert!(Command::new("sh").args(["-c", &allowed("self")]).current_dir(&lab.directory).status().unwrap().success());
    let all = lab.log();
    let last = all.rsplit([',', '-']).next().unwrap().to_owned();
    let script = format!("{}; {}", allowed("self"), allowed("$PPID"));
    let options = ["--runs", "1", "--no-warmup", "--cpus", &last];
    let pinned = lab.ab(&options, &script, "true");
    assert_eq!(code(&pinned), Some(0), "{}", text(&pinned.stderr));
    let log = lab.log();
    let [_, command, ctprof] = log.split(' ').collect::<Vec<_>>()[..] else { panic!("{log}") };
    let is_alone = all == last;
    assert_eq!((command, ctprof.ends_with(&last)), (last.as_str(), is_alone), "{log}");

    let refused = lab.ab(&["--cpus", "8000"], "true", "true");
    assert_eq!(code(&refused), Some(2));
    let message = format!("CPU 8000 is not available for --cpus: ctprof may run on {all}");
    assert!(text(&refused.stderr).contains(&message), "{}", text(&refused.stderr));
}

#[test]
fn a_command_that_sleeps_longer_is_worse_because_of_its_sleep() {
    let lab = Lab::new();
    let options = ["--runs", "4", "--no-warmup", "-f", "json", "--fail-on", "elapsed>5%"];
    let mut seen = Value::Null;
    // On a crowded host, the kernel counts a few sleeps as waiting for a CPU, also in /proc/PID/schedstat.
    for _ in 0..3 {
        let compared = lab.ab(&options, "exec sleep 0.05", "exec sleep 0.4");
        let report: Value = serde_json::from_slice(&compared.stdout).unwrap();
        assert_eq!(
            (code(&compared), &report["elapsed"]["verdict"]),
            (Some(3), &"more".into()),
            "{}",
            text(&compared.stderr)
        );
        let rows = report["rows"].as_array().unwrap();
        let headline = rows.iter().find(|row| row["group"] == "sleep" && row["headline"] == "elapsed");
        if headline.is_some_and(|row| row["metric"] == "sleep") {
            return;
        }
        seen = report;
    }
    panic!("{seen}");
}
