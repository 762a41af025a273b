//! Windows in steps (`record --every`), and their files.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Missing, copy_program, skipped};

fn ctprof(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    let output = ctprof(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(arguments: &[&str]) -> String {
    String::from_utf8(run(arguments).stdout).unwrap()
}

/// Whose run time is summed.
#[derive(Clone, Copy)]
enum Of {
    /// The command's. Until its process executes the program it has the name of ctprof, which a step can see on a busy host.
    Command,
    Group(&'static str),
}

impl Of {
    fn scope(self) -> &'static str {
        if let Self::Command = self { "command" } else { "host" }
    }

    fn has(self, group: &str) -> bool {
        if let Self::Group(name) = self { group == name } else { true }
    }
}

/// The sum of the run times in all steps of a part, and when the steps began, in nanoseconds.
fn steps(part: &str, of: Of) -> (u64, Vec<u64>) {
    let csv = text(&["show", "--steps", part, "--per", "run", "--format", "csv", "--scope", of.scope()]);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = lines.next().unwrap();
    let column = |name: &str| heads.iter().position(|head| *head == name).unwrap();
    let (mut sum, mut starts) = (0, Vec::new());
    for line in lines {
        starts.push(line[0].parse().unwrap());
        if of.has(line[column("group")]) {
            sum += line[column("run")].parse::<u64>().unwrap_or(0);
        }
    }
    starts.dedup();
    (sum, starts)
}

/// When the steps of a part began, in nanoseconds.
fn starts(part: &str) -> Vec<u64> {
    steps(part, Of::Group("all of none")).1
}

#[test]
fn a_series_of_a_part_of_a_command_has_the_reasons_of_the_command() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("series");
    let file = file.to_str().unwrap();
    run(&["record", "-q", "-d", "1s", "--every", "200ms", "-o", file, "--", "sh", "-c", "sleep 2 & wait"]);
    if !text(&["show", file, "--why", "--scope", "host"]).contains("sleep") {
        return skipped(Missing::Privilege("samples of why threads wait"));
    }
    let of_command = text(&["show", file, "--why", "--scope", "command"]);
    assert!(of_command.lines().any(|line| line.starts_with("sleep") && line.contains("sleep: ")), "{of_command}");
}

#[test]
fn a_recording_begins_at_a_multiple_of_the_clock_or_is_interrupted_before() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let period = Duration::from_secs(2).as_nanos();
    let next = (now() / period + 2) * period;
    let directory = tempfile::tempdir().unwrap();
    let window = directory.path().join("at.ctprof.zst");
    // From just after the multiple before: without a wait, it would begin at once.
    thread::sleep(Duration::from_nanos(u64::try_from(next - period - now()).unwrap()));
    run(&["record", "-q", "--at", "/2s", "-d", "50ms", "-o", window.to_str().unwrap()]);
    let end = ctprof::CtprofSnapshot::load(&window).unwrap().head.captured_at_unix_ns;
    assert!(u128::from(end) >= next + 50_000_000, "{end} {next}");
    let waiting = ctprof(&["record", "--at", "/10000h", "-d", "50ms"]).stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_secs(1));
    kill(Pid::from_raw(i32::try_from(waiting.id()).unwrap()), Signal::SIGINT).unwrap();
    let ended = waiting.wait_with_output().unwrap();
    let message = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{message}");
    assert!(message.contains("interrupted by signal 2 before the recording began"), "{message}");
}

/// The run time in a window, in nanoseconds.
fn whole(part: &str, of: Of) -> u64 {
    let json = text(&["show", part, "--per", "run", "--format", "json", "--scope", of.scope()]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["section"] == "overview" && row["metric"] == "run");
    let rows = rows.filter(|row| row["path"].as_array().is_some_and(|path| !path.is_empty()));
    let of_groups = rows.filter(|row| of.has(row["group"].as_str().unwrap()));
    // Without BPF, what exits while it is read can have no value.
    let is_whole = has_exit_records(part);
    of_groups.map(|row| row["value"].as_u64().or((!is_whole).then_some(0)).unwrap()).sum()
}

fn has_exit_records(file: &str) -> bool {
    let json: serde_json::Value = serde_json::from_str(&text(&["show", file, "--format", "json"])).unwrap();
    json["snapshot"]["window"]["exit_records"].is_object()
}

/// The names of what is recorded, which nothing else on the host has.
const NAMES: &[&str] = &["step-sh", "step-head", "step-sum"];

/// Records processes that live for shorter and for longer than a step.
fn recorded(directory: &Path, options: &[&str]) -> String {
    let file = directory.join("s.ctprof.zst").to_str().unwrap().to_owned();
    for (program, name) in ["/bin/sh", "/usr/bin/head", "/usr/bin/sha256sum"].into_iter().zip(NAMES) {
        copy_program(program, directory.join(name));
    }
    let script = "cd $0; ./step-sum /dev/zero & for i in 1 2 3 4 5 6 7 8 9 10 11 12; do ./step-head -c 9000000 /dev/zero | ./step-sum; done; kill $!";
    let [shell, directory] =
        [directory.join("step-sh"), directory.to_owned()].map(|path| path.to_str().unwrap().to_owned());
    let command = ["--", &shell, "-c", script, &directory];
    run(&[&["record", "--every", "100ms", "-q", "-o", &file], options, &command].concat());
    file
}

#[test]
fn the_steps_of_a_series_add_up_to_its_window_to_the_nanosecond() {
    let directory = tempfile::tempdir().unwrap();
    let file = recorded(directory.path(), &[]);
    if !has_exit_records(&file) {
        return skipped(Missing::Privilege("records of exits need BPF"));
    }
    let (sum, starts) = steps(&file, Of::Command);
    assert!(starts.len() > 1 && sum > 0, "{starts:?} with {sum} ns");
    assert_eq!(sum, whole(&file, Of::Command));
    for start in &starts[1..] {
        let middle = Duration::from_nanos(start - starts[0]).as_secs_f64();
        let parts = [format!("{file}@..{middle}"), format!("{file}@{middle}..")];
        let [first, second] = parts.map(|part| whole(&part, Of::Command));
        assert_eq!(first + second, sum, "two parts that meet at {middle} s have it all");
    }
}

/// The run time of the command in each part that `show` draws.
fn run_of_command(part: &str) -> Vec<Option<f64>> {
    let json = text(&["show", part, "--scope", "command", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let groups = json["trend"]["groups"].as_array().unwrap();
    let all = groups.iter().find(|group| group["path"].as_array().unwrap().is_empty()).unwrap();
    all["values"].as_array().unwrap().iter().map(serde_json::Value::as_f64).collect()
}

#[test]
fn each_part_of_a_series_knows_the_threads_of_its_command() {
    for options in [&[][..], &["--engine", "procfs"], &["--redact"]] {
        let directory = tempfile::tempdir().unwrap();
        let file = recorded(directory.path(), options);
        let run = run_of_command(&file);
        // The last part can be of some milliseconds.
        let is_known = run[..run.len() - 1].iter().all(|run| run.is_some_and(|run| run > 0.0));
        assert!(run.len() > 1 && is_known, "{options:?}: {run:?}");
        assert!(!run_of_command(&format!("{file}@150ms..350ms")).is_empty(), "a part before its end");
        let json: serde_json::Value = serde_json::from_str(&text(&["show", &file, "--format", "json"])).unwrap();
        let (window, command) = (&json["snapshot"]["window"], &json["snapshot"]["window"]["command"]);
        assert_eq!(command["status"], 0, "{options:?}: {command}");
        let length = |of: &serde_json::Value, name| of[name].as_u64().unwrap();
        assert!(length(command, "elapsed_ns") < length(window, "duration_ns"), "{options:?}: {window}");
    }
}

#[test]
fn steps_without_bpf_have_the_same_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = recorded(directory.path(), &["--engine", "procfs", "--no-why"]);
    assert!(starts(&file).len() > 1);
    assert!(whole(&file, Of::Command) > 0);
}

#[test]
fn steps_that_procfs_takes_long_to_read_are_longer_and_a_warning_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("s.ctprof.zst");
    let file = file.to_str().unwrap();
    let options = ["record", "--engine", "procfs", "--no-why", "--every", "10ms", "-d", "1s", "-o", file];
    let output = run(&options);
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("reading one from procfs takes") && warning.contains("2% of a CPU"), "{warning}");
    let steps = starts(file).len();
    assert!((1..50).contains(&steps), "{steps} of 100 steps");
}

#[test]
fn a_scope_in_which_no_step_has_threads_is_refused() {
    let options = ["record", "--every", "100ms", "-d", "300ms", "--format", "json", "--scope", "container:nosuch"];
    let out = ctprof(&options).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(125) && said.contains("--scope: no container matches `nosuch`"), "{said}");
}

#[test]
fn a_reader_that_goes_away_ends_the_recording_and_keeps_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("s.ctprof.zst");
    let file = file.to_str().unwrap();
    let mut recorder = ctprof(&["record", "--every", "50ms", "--format", "json", "-o", file]);
    let mut recorder = recorder.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(recorder.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let step: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert!(step["snapshot"]["window"]["duration_ns"].as_u64().unwrap() > 10_000_000, "{step}");
    }
    drop(lines);
    assert!(recorder.wait().unwrap().success());
    assert!(starts(file).len() >= 2);
}

#[test]
fn a_flight_recorder_ends_when_a_step_meets_its_gate_and_keeps_what_was_before() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("last").to_str().unwrap().to_owned();
    let options = ["record", "--every", "100ms", "--keep", "1h", "-q", "-d", "60s", "-o", &directory, "--until"];
    let mut busy = Command::new("sha256sum").arg("/dev/zero").spawn().unwrap();
    let ended = ctprof(&options).args(["sha256sum:run>5%", "--after", "200ms"]).output();
    busy.kill().and_then(|()| busy.wait()).unwrap();
    let ended = ended.unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("--until is met by sha256sum"), "{ended:?}");
    let (run, starts) = steps(&directory, Of::Group("sha256sum"));
    assert!(run > 0 && starts.len() > 1, "{run} {starts:?}");
    assert_eq!(run, whole(&directory, Of::Group("sha256sum")));
    let trend: serde_json::Value = serde_json::from_str(&text(&["show", &directory, "--format", "json"])).unwrap();
    assert_eq!(trend["trend"]["column"], "run");
}

#[test]
fn a_command_runs_on_after_it_met_the_gate_and_its_status_is_passed_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("s").to_str().unwrap().to_owned();
    copy_program("/usr/bin/sha256sum", directory.path().join("gate-sum"));
    let options = ["record", "--every", "100ms", "-q", "-o", &file, "--until", "gate-sum:run>1%", "--"];
    let script = "timeout 2 $0/gate-sum /dev/zero; sleep 0.5; echo end; exit 7";
    let ended = ctprof(&options).args(["sh", "-c", script]).arg(directory.path()).output().unwrap();
    assert_eq!((ended.status.code(), &ended.stdout[..]), (Some(7), &b"end\n"[..]), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("--until is met by gate-sum"), "{ended:?}");
    let json: serde_json::Value = serde_json::from_str(&text(&["show", &file, "--format", "json"])).unwrap();
    assert!(json["snapshot"]["window"]["command"].is_null(), "its end was not recorded: {}", json["snapshot"]);
}

#[test]
fn a_file_whose_name_looks_like_a_part_is_that_file() {
    let directory = tempfile::tempdir().unwrap();
    let [file, named] = ["s", "s@1s.."].map(|name| directory.path().join(name).to_str().unwrap().to_owned());
    run(&["record", "-q", "-d", "50ms", "-o", &named]);
    text(&["show", &named]);
    std::fs::rename(&named, &file).unwrap();
    let refused = ctprof(&["show", &named]).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("is not a series; `ctprof record --every` records one"), "{error}");
    let refused = ctprof(&["show", &format!("{file}@1s")]).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("expected a part such as 10s..20s or 12:03:05.., found `1s`"), "{error}");
}

#[test]
fn names_in_a_redacted_series_are_hashes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("s.ctprof.zst");
    let mut recorder = ctprof(&["record", "--every", "50ms", "-q", "--redact", "-o", file.to_str().unwrap(), "--"]);
    run_with_key(recorder.args(["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do basename hardly-hidden; sleep 0.02; done"]));
    let json = zstd::decode_all(std::fs::File::open(&file).unwrap()).unwrap();
    let json = String::from_utf8(json).unwrap();
    for name in ["hardly-hidden", "basename", "\"sh\""] {
        assert!(!json.contains(name), "{name}");
    }
}

#[test]
fn an_empty_key_is_none_and_one_that_is_no_text_is_refused_before_the_command_runs() {
    let directory = tempfile::tempdir().unwrap();
    let ran = directory.path().join("ran");
    for options in [&[][..], &["--every", "50ms"]] {
        let with_key = |key: &OsStr| {
            let mut command = ctprof(&["record", "--redact", "-o", "/dev/null"]);
            command.args(options).args(["--", "touch"]).arg(&ran).env("CTPROF_REDACT_KEY", key);
            let output = command.output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let (status, said) = with_key(OsStr::from_bytes(b"\x80key"));
        assert!(status == Some(125) && said.contains("CTPROF_REDACT_KEY is not UTF-8") && !ran.exists(), "{said}");
        let (status, said) = with_key(OsStr::new(""));
        assert!(status == Some(0) && said.contains("CTPROF_REDACT_KEY is not set") && ran.exists(), "{said}");
        std::fs::remove_file(&ran).unwrap();
    }
}

fn run_with_key(command: &mut Command) {
    let output = command.env("CTPROF_REDACT_KEY", "k").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts to record a series without end, and waits for its first steps. A shell that starts the tests in the background ignores
/// SIGINT for them, and nohup(1) SIGHUP.
fn recorder(file: &str) -> Child {
    let mut recorder = Command::new("env");
    recorder.args(["--default-signal", env!("CARGO_BIN_EXE_ctprof")]);
    recorder.args(["record", "--every", "50ms", "--format", "json", "-o", file]);
    let mut recorder = recorder.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(recorder.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        lines.next().expect("a step").unwrap();
    }
    thread::spawn(move || lines.for_each(drop));
    recorder
}

fn send(recorder: &Child, signal: Signal) {
    kill(Pid::from_raw(recorder.id().try_into().unwrap()), signal).unwrap();
}

#[test]
fn a_signal_ends_a_series_with_status_0_and_a_whole_file() {
    let directory = tempfile::tempdir().unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let file = directory.path().join(signal.as_str()).to_str().unwrap().to_owned();
        let recorder = recorder(&file);
        send(&recorder, signal);
        assert_eq!(recorder.wait_with_output().unwrap().status.code(), Some(0), "{signal}");
        let shown = run(&["show", &file]);
        assert_eq!(String::from_utf8_lossy(&shown.stderr), "", "{signal}: nothing is missing");
        assert!(starts(&file).len() >= 2);
    }
}

#[test]
fn a_reader_that_pauses_keeps_no_step_out_of_the_file_and_a_signal_ends_the_recording_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    for end in [&["-d", "2s"][..], &[]] {
        let file = directory.path().join(end.len().to_string()).to_str().unwrap().to_owned();
        // All steps are more than a pipe and ctprof keep for a reader.
        let record = ["record", "--every", "50ms", "--format", "json", "--unchanged", "-o", &file];
        let mut recorder = ctprof(&[&record[..], end].concat());
        recorder.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut recorder = recorder.spawn().unwrap();
        let mut steps = BufReader::new(recorder.stdout.take().unwrap()).lines();
        steps.next().expect("a step").unwrap();
        thread::sleep(Duration::from_millis(2500));
        if end.is_empty() {
            send(&recorder, Signal::SIGTERM);
        } else {
            assert!(steps.all(|step| step.is_ok_and(|step| step.ends_with('}'))), "what is printed is whole");
        }
        let ended = recorder.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(0), "{said}");
        assert_eq!(String::from_utf8_lossy(&run(&["show", &file]).stderr), "", "the file is whole");
        let starts = starts(&file);
        // A busy host makes fewer steps than a pipe and ctprof keep.
        let is_left_out = said.contains("not printed, because nobody read them in time");
        assert!(is_left_out || starts.len() < 20, "{said}");
        let longest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest < 2_000_000_000, "a step of {longest} ns: {starts:?}");
    }
}

#[test]
fn a_command_that_cannot_run_leaves_a_whole_series_to_which_another_recorder_adds() {
    let directory = tempfile::tempdir().unwrap();
    let [series, fleet] = ["s", "fleet"].map(|name| directory.path().join(name).to_str().unwrap().to_owned());
    let record = ["record", "--every", "100ms", "--keep", "1m", "-q", "-o", &series];
    let failed = ctprof(&[&record[..], &["--", "/no/such/file"]].concat()).output().unwrap();
    assert_eq!(failed.status.code(), Some(127), "{failed:?}");
    let shown = String::from_utf8(ctprof(&["show", &series]).output().unwrap().stderr).unwrap();
    assert!(shown.contains("has no step") && !shown.contains("was killed"), "{shown}");
    run(&[&record[..], &["-d", "300ms"]].concat());
    run(&["export", &series, "-o", &fleet]);
}

#[test]
fn a_signal_ends_a_step_that_waits_for_descriptors_and_keeps_the_steps_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("s").to_str().unwrap().to_owned();
    let mut recorder = recorder(&file);
    let mut said = BufReader::new(recorder.stderr.take().unwrap()).lines().map(Result::unwrap);
    let limit = ["--nofile=3", "--pid", &recorder.id().to_string()];
    if !Command::new("prlimit").args(limit).status().is_ok_and(|status| status.success()) {
        send(&recorder, Signal::SIGTERM);
        recorder.wait().unwrap();
        return skipped(Missing::Tool("prlimit"));
    }
    assert!(said.any(|line| line.contains("the step ends when that works again")));
    send(&recorder, Signal::SIGTERM);
    let rest: Vec<_> = said.collect();
    assert!(recorder.wait().unwrap().success(), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("the last step is missing")), "{rest:?}");
    let shown = run(&["show", &file]);
    assert_eq!(String::from_utf8_lossy(&shown.stderr), "", "the file is whole");
    assert!(starts(&file).len() >= 2);
}

#[test]
fn a_step_in_which_the_recorder_was_stopped_has_its_true_length_and_no_other_is_invented() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("s").to_str().unwrap().to_owned();
    let recorder = recorder(&file);
    send(&recorder, Signal::SIGSTOP);
    thread::sleep(Duration::from_secs(1));
    send(&recorder, Signal::SIGCONT);
    thread::sleep(Duration::from_millis(200));
    send(&recorder, Signal::SIGTERM);
    assert!(recorder.wait_with_output().unwrap().status.success());
    let csv = text(&["show", "--steps", &file, "--format", "csv"]);
    let length = |line: &str| line.split(',').nth(1).unwrap().parse::<u64>().unwrap();
    assert!(csv.lines().skip(1).any(|line| length(line) >= 900_000_000), "{csv}");
}

/// Mounts a disk of this size there, which only root may.
fn small_disk(directory: &Path, size: &str) -> bool {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(directory);
    let mounted = nix::unistd::geteuid().is_root() && mount.status().is_ok_and(|status| status.success());
    if !mounted {
        skipped(Missing::Privilege("only root may mount a small file system"));
    }
    mounted
}

#[test]
fn a_recorder_frees_a_full_disk_of_what_it_no_longer_keeps() {
    let directory = tempfile::tempdir().unwrap();
    if !small_disk(directory.path(), "16m") {
        return;
    }
    let series = directory.path().join("series");
    let record = |keep: &str| {
        let record = ["record", "--every", "100ms", "-d", "300ms", "--engine", "procfs", "-q", "--keep", keep, "-o"];
        ctprof(&record).arg(&series).output().unwrap()
    };
    let recorded: Vec<_> = (0..4).map(|_| record("24h")).collect();
    let files = std::fs::read_dir(&series).unwrap().map(|file| file.unwrap().path());
    let oldest = files.filter(|file| file.extension().is_some_and(|ending| ending == "zst")).min().unwrap();
    let filled = std::fs::write(directory.path().join("filled"), vec![0; 16 << 20]);
    let freeing = record("1ms");
    let is_removed = !oldest.exists();
    assert!(Command::new("umount").arg(directory.path()).status().unwrap().success());
    assert!(recorded.iter().all(|recorded| recorded.status.success()), "{recorded:?}");
    assert_eq!(filled.unwrap_err().raw_os_error(), Some(nix::libc::ENOSPC));
    assert!(freeing.status.success(), "{freeing:?}");
    assert!(is_removed, "it is still there: {oldest:?}");
}

#[test]
fn a_full_disk_ends_a_series_with_its_cause_and_keeps_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    if !small_disk(directory.path(), "8m") {
        return;
    }
    let file = directory.path().join("s").to_str().unwrap().to_owned();
    let mut recorder = ctprof(&["record", "--every", "20ms", "-q", "-d", "60s", "-o", &file]);
    let recorder = recorder.stderr(Stdio::piped()).spawn().unwrap();
    // The first capture of a busy host takes more than that of an idle one: the disk is full some steps later.
    let (mut last, mut grown, begin) = (0, 0, Instant::now());
    while grown < 5 && begin.elapsed() < Duration::from_secs(60) {
        let length = std::fs::metadata(&file).map_or(0, |file| file.len());
        grown += usize::from(length > std::mem::replace(&mut last, length));
        thread::sleep(Duration::from_millis(5));
    }
    let filled = std::fs::write(directory.path().join("filled"), vec![0; 8 << 20]);
    let ended = recorder.wait_with_output();
    let shown = ctprof(&["show", &file]).output();
    assert!(Command::new("umount").arg(directory.path()).status().unwrap().success());
    let (ended, shown) = (ended.unwrap(), shown.unwrap());
    assert_eq!(filled.unwrap_err().raw_os_error(), Some(nix::libc::ENOSPC));
    assert_eq!(ended.status.code(), Some(125));
    let error = String::from_utf8(ended.stderr).unwrap();
    assert!(error.contains(&file) && error.contains("No space left on device"), "{error}");
    assert!(shown.status.success());
    assert!(String::from_utf8_lossy(&shown.stderr).contains("its recorder was killed or had a full disk"), "{shown:?}");
}

#[test]
fn what_a_program_waits_for_is_never_of_the_program_that_its_process_ran_before() {
    let directory = tempfile::tempdir().unwrap();
    copy_program("/usr/bin/sleep", directory.path().join("waiter"));
    let file = directory.path().join("s").display().to_string();
    let recorded = ctprof(&["record", "-q", "--every", "500ms", "-o", &file, "--"])
        .args(["sh", "-c", "sleep 1.3; exec ./waiter 1"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let shown = text(&["show", &file, "--why", "--scope", "command", "--limit", "0"]);
    let is_of = |line: &str, group: &str, entry: &str| line.starts_with(group) && line.contains(entry);
    assert!(shown.lines().any(|line| is_of(line, "waiter ", "sleep: ")), "{shown}");
    let is_wrong = shown.lines().any(|line| is_of(line, "sh ", "clock_nanosleep"));
    assert!(!is_wrong, "the shell only waits for its children: {shown}");
}
