//! Hostile hosts and files: a capture succeeds, reports what is missing, and leaves nothing behind; a file
//! is a clear error or a correct result.

use crate::support::{Missing, skipped};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ctprof::model::{METRICS, ProcessState, RecordedCommand};
use ctprof::window::{self, EarlierThreads, ExitedThread, Exits, Recording};
use ctprof::{CtprofSnapshot, ThreadState, capture, capture_pid};
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

const CTPROF: &str = env!("CARGO_BIN_EXE_ctprof");

/// A child that is killed with its process group at the end of the test.
struct Beside(Child);

impl Beside {
    fn shell(script: &str) -> Self {
        use std::os::unix::process::CommandExt;
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self(shell.spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).unwrap())
    }

    fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    fn wait_for(&self, state: char) {
        let begin = Instant::now();
        while self.state() != state {
            assert!(begin.elapsed() < Duration::from_secs(10), "still {}", self.state());
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = nix::sys::signal::killpg(self.pid(), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

fn output(program: &str, args: &[impl AsRef<OsStr>]) -> Output {
    Command::new(program).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Runs a capture by a shell that changes something first.
fn captured_after(change: &str, options: &str) -> (Output, Option<CtprofSnapshot>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("snapshot");
    let done = output("sh", &["-c", &format!("{change}; exec {CTPROF} capture {options} -o {}", file.display())]);
    let snapshot = CtprofSnapshot::load(&file).ok();
    (done, snapshot)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn forks_and_execs_do_not_fail_a_capture() {
    let dir = tempfile::tempdir().unwrap();
    let itself = dir.path().join("again");
    fs::write(&itself, "#!/bin/sh\nexec \"$0\"\n").unwrap();
    let storm = Beside::shell("while :; do (:) & (:) & (:); done");
    let again = Beside::shell(&format!("exec sh {}", itself.display()));
    for _ in 0..10 {
        let snapshot = capture().unwrap();
        assert!(snapshot.threads.iter().any(|thread| thread.tgid == std::process::id()));
        let summary = snapshot.head.parse_summary.unwrap();
        let lost = summary.tids_walked - u64::try_from(snapshot.threads.len()).unwrap();
        assert_eq!(lost, summary.ghosts, "threads that exited are counted");
    }
    assert_ne!((storm.state(), again.state()), ('t', 't'));
}

#[test]
fn a_stopped_process_stays_stopped_and_is_read() {
    let stopped = Beside::shell("exec sleep 100");
    stopped.wait_for('S');
    kill(stopped.pid(), Signal::SIGSTOP).unwrap();
    stopped.wait_for('T');
    let snapshot = capture_pid(stopped.0.id()).unwrap();
    assert_eq!(snapshot.threads[0].metrics.state, Some('T'));
    assert_eq!(stopped.state(), 'T');
}

#[test]
fn a_zombie_has_the_values_that_the_kernel_still_has() {
    let zombie = Beside::shell(":");
    zombie.wait_for('Z');
    let snapshot = capture_pid(zombie.0.id()).unwrap();
    let metrics = &snapshot.threads[0].metrics;
    assert_eq!(metrics.state, Some('Z'));
    assert!(metrics.utime_clock_ticks.is_some() && snapshot.threads[0].smaps_rollup_kib.is_none());
}

#[test]
fn sixty_four_descriptors_are_enough() {
    let (done, snapshot) = captured_after("ulimit -n 64", "--jobs 4");
    assert!(done.status.success() && !said(&done).contains("EMFILE"), "{}", said(&done));
    let failures = snapshot.unwrap().head.parse_summary.unwrap().read_failures_by_errno;
    assert!(failures.values().all(|errnos| !errnos.contains_key(&"EMFILE".into())), "{failures:?}");
}

/// The words for each limit that a test sets, of the kernel or of the fix.
const NO_DESCRIPTORS: &str = "raise the limit of open files: ulimit -n \"$(ulimit -Hn)\", or sudo prlimit --nofile=65536 --pid $$ (container: --ulimit nofile=65536)\n";
const TOO_LARGE: &str = "File too large";
const NO_SPACE: &str = "No space left on device";

/// Runs ctprof after a change of its shell, with files in a directory that must have whole snapshots only, and one of the
/// causes in the message if it fails. Returns whether it succeeded.
fn ends_well(change: &str, line: &str, causes: &[&str]) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let line = line.replace("DIR", dir.path().to_str().unwrap());
    let done = output("sh", &["-c", &format!("{change}; exec {CTPROF} {line}")]);
    let files: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    for file in files.iter().filter(|file| file.is_file()) {
        let snapshot = CtprofSnapshot::load(file);
        assert!(snapshot.is_ok_and(|snapshot| !snapshot.threads.is_empty()), "{change}; {line}: {file:?}");
    }
    let text = said(&done);
    let is_explained = done.status.code().is_some_and(|code| code > 0)
        && causes.iter().any(|cause| text.contains(cause))
        && files.iter().all(|file| file.is_dir());
    assert!(done.status.success() || is_explained, "{change}; {line}: {} {text} {files:?}", done.status);
    done.status.success()
}

const WRITING: [&str; 3] = [
    "capture -q --pid 1 -o DIR/x.ctprof.zst",
    "record -q -d 10ms -o DIR/x.ctprof.zst",
    "record -q --runs 1 -o DIR/runs -- true",
];

#[test]
fn lack_of_descriptors_is_an_error_that_names_the_limit() {
    for line in WRITING {
        // Below 5, the dynamic loader fails. Where five limits in a row are enough, so are all above. How many are needed depends
        // on what this process has inherited.
        let mut ended = Vec::new();
        for limit in 5..200 {
            ended.push(ends_well(&format!("ulimit -n {limit}"), line, &[NO_DESCRIPTORS]));
            if ended.ends_with(&[true; 5]) {
                break;
            }
        }
        assert!(!ended[0] && ended.ends_with(&[true; 5]), "{line}: {ended:?}");
    }
}

#[test]
fn a_closed_standard_output_is_an_error() {
    for arguments in ["capture --pid $$ --engine procfs -o -", "capture --pid $$ -o /dev/stdout", "metrics", "--help"] {
        let done = output("sh", &["-c", &format!("exec {CTPROF} {arguments} >&-")]);
        let said = said(&done);
        assert_eq!(done.status.code(), Some(1), "{arguments}: {said}");
        assert!(said.contains("Bad file descriptor") && !said.contains("Captured"), "{arguments}: {said}");
    }
}

#[test]
fn a_reader_that_goes_away_hides_no_finding_of_doctor() {
    let status = |to: &str| output("bash", &["-c", &format!("{CTPROF} doctor {to}")]).status.code();
    assert_eq!(status("> >(exec true)"), status("> /dev/null"));
}

#[test]
fn a_limit_of_file_sizes_is_an_error_that_names_the_file() {
    for line in WRITING {
        assert!(!ends_well("ulimit -f 0", line, &[TOO_LARGE]), "{line}");
        assert!(!ends_well("ulimit -f 1", line, &[TOO_LARGE]), "{line}");
    }
    let (done, _) = captured_after("ulimit -f 0", "-q");
    assert!(said(&done).starts_with("ctprof: cannot write /"), "{}", said(&done));
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let snapshot = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1-lines-linux-7.3.ctprof.zst");
    for line in [
        "capture -q -o /dev/full".to_owned(),
        "record -q -d 1ms -o /dev/full".to_owned(),
        "record -d 1ms > /dev/full".to_owned(),
        "--version > /dev/full".to_owned(),
        "record --help > /dev/full".to_owned(),
        format!("show {snapshot} > /dev/full"),
        format!("compare --format html {snapshot} {snapshot} > /dev/full"),
    ] {
        let done = output("sh", &["-c", &format!("exec {CTPROF} {line}")]);
        let text = said(&done);
        let is_named = text.contains("cannot write /dev/full") || text.contains("cannot write to standard output");
        assert!(!done.status.success() && is_named && text.contains(NO_SPACE), "{line}: {text}");
    }
}

#[test]
fn a_summary_that_nobody_can_read_fails_no_command_that_has_written_its_file() {
    let dir = tempfile::tempdir().unwrap();
    for (number, line) in ["capture -o", "record -d 1ms -o", "record -o"].into_iter().enumerate() {
        let file = dir.path().join(number.to_string());
        let command = if line == "record -o" { "-- true" } else { "" };
        let done = output("sh", &["-c", &format!("{CTPROF} {line} {} {command} 2>/dev/full", file.display())]);
        assert!(done.status.success(), "{line}: {}", done.status);
        CtprofSnapshot::load(&file).unwrap();
    }
}

#[test]
fn errors_spell_out_escape_sequences_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("\u{1b}[31m.json");
    fs::write(&file, r#"{"threads":[],"cgroup_stats":{"/\u001b]0;x\u0007\u001b[2J":5}}"#).unwrap();
    let compared = output(CTPROF, &[OsStr::new("compare"), dir.path().as_os_str(), dir.path().as_os_str()]);
    for done in [output(CTPROF, &[OsStr::new("show"), file.as_os_str()]), compared] {
        let text = said(&done);
        assert!(text.starts_with("ctprof: cannot parse") && text.contains(r"\u{1b}[31m.json"), "{text}");
        assert!(text.contains(r"/\u{1b}]0;x\u{7}") && !text.contains('\u{1b}'), "{text}");
    }
    fs::write(&file, r#"{"threads":[]}"#).unwrap();
    let done = output(CTPROF, &[OsStr::new("show"), file.as_os_str(), "--scope=command".as_ref()]);
    let text = said(&done);
    assert!(text.contains(r"\u{1b}[31m.json has no recorded command") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_message_that_cannot_be_written_changes_no_exit_status() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    for (line, status) in [
        ("show /nonexistent".to_owned(), 1),
        (format!("export /nonexistent -o {}", dir.path().join("out").display()), 1),
        (format!("record --engine procfs --runs 1 -d 1ms -o {}", runs.display()), 0),
    ] {
        let done = output("sh", &["-c", &format!("exec {CTPROF} {line} 2> /dev/full")]);
        let is_without_parquet = cfg!(not(feature = "parquet")) && line.starts_with("export");
        assert!(done.status.code() == Some(status) || is_without_parquet, "{line}: {}", done.status);
    }
}

#[test]
fn lack_of_memory_of_any_thread_is_one_status_and_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let limited = |kib: u64, line: &str| output("sh", &["-c", &format!("ulimit -v {kib}; exec {CTPROF} {line}")]);
    // With less, the kernel refuses pages of the main thread's stack: how many it needs, and where it is, varies.
    let least = (20 * 1024..).step_by(1024).find(|kib| limited(*kib, "record --help").status.success()).unwrap() + 2048;
    let mut failed = 0;
    for (command, failure) in
        [("capture --engine procfs", 1), ("capture", 1), ("record -d 50ms", 125), ("record --every 50ms -d 150ms", 125)]
    {
        let line = format!("{command} -q -o {}", file.display());
        for kib in (least..).step_by(512) {
            let done = limited(kib, &line);
            // A series that has begun is kept.
            let is_kept = fs::remove_file(&file).is_ok();
            let may_be_kept = done.status.success() || command.contains("--every");
            assert!(if is_kept { may_be_kept } else { !done.status.success() }, "{command} in {kib} KiB: {done:?}");
            if done.status.success() {
                break;
            }
            failed += 1;
            assert_eq!(done.status.code(), Some(failure), "{command} in {kib} KiB: {done:?}");
            assert!(said(&done).contains("ctprof: "), "{command} in {kib} KiB: {done:?}");
        }
    }
    assert_ne!(failed, 0, "no limit let the program start and was too small");
}

#[test]
fn a_user_who_may_start_no_thread_still_reads_and_captures() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1-lines-linux-7.3.ctprof.zst");
    let limited = ["--reuid", "65534", "--clear-groups", "prlimit", "--nproc=1"];
    let may = |line: &[&str]| Command::new("setpriv").args(limited).args(line).output().ok();
    if !may(&[CTPROF, "--version"]).is_some_and(|done| done.status.success()) {
        return skipped(Missing::Privilege("root, with setpriv, prlimit, and a directory that all may enter"));
    }
    for line in [
        vec![CTPROF, "show", file],
        vec![CTPROF, "compare", file, file],
        vec![CTPROF, "capture", "-o", "/dev/null"],
        vec![CTPROF, "record", "-d", "1ms", "-o", "/dev/null"],
    ] {
        let done = may(&line).unwrap();
        assert!(done.status.success(), "{line:?}: {}", said(&done));
    }
}

#[test]
fn a_filter_that_kills_for_ptrace_and_bpf_costs_the_allocators_counters_and_the_engine_only() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = dir.path().join("seccomp");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/seccomp.c");
    assert!(output("cc", &["-o", launcher.to_str().unwrap(), source]).status.success());
    let file = dir.path().join("snapshot");
    let done = output(launcher.to_str().unwrap(), &[CTPROF, "capture", "-q", "-o", file.to_str().unwrap()]);
    if done.status.code() == Some(99) {
        return skipped(Missing::Privilege(format!("seccomp filters: {}", said(&done))));
    }
    assert!(done.status.success(), "{:?} {}", done.status, said(&done));
    assert!(CtprofSnapshot::load(&file).unwrap().threads.len() > 1);
    let window = ["record", "-q", "-o", file.to_str().unwrap(), "--", "sh", "-c", "exit 7"];
    let done = output(launcher.to_str().unwrap(), &[&[CTPROF][..], &window].concat());
    assert_eq!(done.status.code(), Some(7), "{}", said(&done));
    assert_eq!(CtprofSnapshot::load(&file).unwrap().head.capture.unwrap().engine, "procfs");
}

#[test]
fn a_signal_at_any_moment_leaves_no_thread_stopped_and_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("snapshot");
    let beside = Beside::shell("while :; do sleep 0.01; done");
    let lines: [&[&str]; 3] =
        [&["capture"], &["capture", "--engine", "procfs"], &["record", "--duration", "20ms", "--engine", "procfs"]];
    for moment in 0..45u64 {
        // A file of that name is replaced whole.
        let old = (moment % 2 == 0).then(|| fs::write(&file, "old").unwrap());
        let line = lines[usize::try_from(moment % 3).unwrap()];
        let mut ctprof = Command::new(CTPROF).args(line).args(["-q", "-o"]).arg(&file).spawn().unwrap();
        thread::sleep(Duration::from_micros(moment * 1_700));
        // A signal that asks a recording to end ends it with a file.
        let signal = [Signal::SIGKILL, Signal::SIGINT, Signal::SIGTERM][usize::try_from(moment / 3 % 3).unwrap()];
        let _ = kill(Pid::from_raw(i32::try_from(ctprof.id()).unwrap()), signal);
        let status = ctprof.wait().unwrap();
        assert!(status.success() || status.signal() == Some(signal as i32), "{status}");
        let is_old = || old.is_some() && fs::read(&file).unwrap() == b"old";
        if fs::exists(&file).unwrap() && !is_old() {
            CtprofSnapshot::load(&file).unwrap();
        }
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| name == "snapshot") && (old.is_none() || names.len() == 1), "{names:?}");
        let _ = fs::remove_file(&file);
        assert!(!['t', 'T'].contains(&beside.state()));
    }
}

#[test]
fn a_fifo_is_written_to_and_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let (fifo, copy) = (dir.path().join("fifo"), dir.path().join("copy"));
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = Beside::shell(&format!("cat {} > {}", fifo.display(), copy.display()));
    let pid = std::process::id().to_string();
    let done = output(CTPROF, &["capture", "--pid", &pid, "-q", "-o", fifo.to_str().unwrap()]);
    assert!(done.status.success(), "{}", said(&done));
    reader.wait_for('Z');
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&fs::metadata(&fifo).unwrap().file_type()));
    assert!(!CtprofSnapshot::load(&copy).unwrap().threads.is_empty());
}

/// Whether a capture of process `pid` ends in a time that is long for it; kills it if not.
fn capture_ends(pid: u32) -> bool {
    let capture = format!("exec {CTPROF} capture -q --pid {pid} -o /dev/null");
    let mut capture = Beside::shell(&capture);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(20) {
        if let Some(status) = capture.0.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_fifo_in_the_place_of_a_mapped_file_does_not_block_a_capture() {
    let dir = tempfile::tempdir().unwrap();
    let [source, library, fifo] = ["x.c", "x.so", "x.so (deleted)"].map(|name| dir.path().join(name));
    // With thread-local storage, so that the whole file is examined, and a link to debug information.
    fs::write(&source, "__thread int x_tsd_tls[64]; int *x(void) { return x_tsd_tls; }").unwrap();
    let [source, object] = [&source, &library].map(|path| path.to_str().unwrap());
    let built = output("cc", &["-shared", "-fPIC", "-o", object, source]);
    assert!(built.status.success(), "{}", said(&built));
    fs::write(dir.path().join("x.debug"), "debug").unwrap();
    let link = format!("--add-gnu-debuglink={}", dir.path().join("x.debug").display());
    let linked = output("objcopy", &[&link, object]);
    assert!(linked.status.success(), "{}", said(&linked));
    let user = Beside::shell(&format!("LD_PRELOAD={object} exec sleep 100"));
    user.wait_for('S');
    let maps = || fs::read_to_string(format!("/proc/{}/maps", user.0.id())).unwrap();
    while !maps().contains("x.so") {
        thread::sleep(Duration::from_millis(1));
    }

    let replace = |path: &Path| {
        let _ = fs::remove_file(path);
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    replace(&dir.path().join("x.debug"));
    assert!(capture_ends(user.0.id()), "by the link to debug information");
    fs::remove_file(&library).unwrap();
    replace(&fifo);
    assert!(capture_ends(user.0.id()), "by the name of the mapping");
}

#[test]
fn unneeded_capabilities_are_dropped() {
    if !nix::unistd::geteuid().is_root() {
        return skipped(Missing::Privilege("root"));
    }
    let (_, snapshot) = captured_after(":", "-q --pid 1");
    let held = snapshot.unwrap().head.capture.unwrap().capabilities;
    for unneeded in ["cap_sys_admin", "cap_sys_module", "cap_setuid", "cap_kill", "cap_chown"] {
        assert!(!held.iter().any(|name| name == unneeded), "{held:?}");
    }
}

fn fits(metric: &str, number: &str) -> bool {
    let thread = format!(r#"{{"tid":1,"tgid":1,"{metric}":{number}}}"#);
    serde_json::from_str::<ctprof::ThreadState>(&thread).is_ok()
}

/// Three threads with the largest counters and with dangerous names.
fn extremes() -> String {
    let counters = METRICS.iter().map(|metric| {
        let value = match metric.type_name {
            "CategoricalString" => r#""NaN""#,
            "char" => r#""\u0000""#,
            "bool" => "true",
            "CpuSet" => "[0,65535,4294967295]",
            _ => ["18446744073709551615", "4294967295", "-2147483648"]
                .into_iter()
                .find(|n| fits(metric.name, n))
                .unwrap(),
        };
        format!(r#""{}":{value}"#, metric.name)
    });
    let counters = counters.collect::<Vec<_>>().join(",");
    let thread = |tid: u32, name: &str| {
        format!(r#"{{"tid":{tid},"tgid":4294967295,"pcomm":"{name}","comm":"{name}","cgroup":"/{name}",{counters}}}"#)
    };
    let threads = [thread(1, r"\u001b[2J\u202e"), thread(4_294_967_295, "NaN"), thread(2, "=1+1|`\\n\\n")];
    format!(r#"{{"format_version":1,"threads":[{}]}}"#, threads.join(","))
}

fn written(dir: &Path, name: &str, json: &str) -> String {
    let file = dir.join(name);
    fs::write(&file, zstd::encode_all(json.as_bytes(), 1).unwrap()).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn the_largest_counters_and_dangerous_names_are_shown_and_compared_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let most = written(dir.path(), "most", &extremes());
    let none = written(dir.path(), "none", &extremes().replace("18446744073709551615", "0"));
    for format in ["table", "json", "csv", "markdown"] {
        for by in ["pcomm", "comm", "cgroup", "all"] {
            for line in [vec!["show", &most], vec!["compare", &most, &none], vec!["compare", &none, &most]] {
                let done =
                    output(CTPROF, &[&line[..], &["--format", format, "--group-by", by, "--limit", "0"]].concat());
                assert!(done.status.success(), "{line:?}: {}", said(&done));
                let text = String::from_utf8(done.stdout).unwrap();
                // JSON is for programs, which escape control characters themselves.
                let controls = text.contains('\u{1b}') || (format != "json" && text.contains('\u{202e}'));
                assert!(!controls, "{line:?} {format} {by}");
            }
        }
    }
}

/// Everything that a file can say of a process, a window and a host, in numbers that are too large.
const LARGE: &str = r#""read_at_ns":MAX,"alive_ns":MAX,"started":true,"start_time_clock_ticks":MAX,"process":{"ppid":4294967295,
    "utime_clock_ticks":MAX,"stime_clock_ticks":MAX,"cutime_clock_ticks":MAX,"cstime_clock_ticks":MAX,"minflt":MAX,
    "cminflt":MAX,"rchar":MAX,"write_bytes":MAX}"#;
const LARGE_HOST: &str = r#""host":{"boot_id":"b","uptime_ns":UPTIME,"clock_ticks_per_second":100,"online_cpus":MAX},
    "cpu_time":{"cpus":MAX,"idle_ticks":UPTIME,"steal_ticks":UPTIME,"run_ns":UPTIME,"wait_ns":UPTIME,"started":UPTIME}"#;
const LARGE_WINDOW: &str = r#""window":{"started_at_unix_ns":MAX,"duration_ns":DURATION,"suspended_ns":MAX,"missed":MAX,
    "backwards":{"\u001b[2J":MAX},"process_counters":true,
    "exit_records":{"source":"\u001b[2J","received":MAX,"lost":MAX},
    "cpu":{"source":"tea","cpus":MAX,"busy_ns":DURATION,"explained_ns":MAX,"interrupt_ns":MAX,"steal_ns":MAX,"started":MAX,"started_seen":MAX},
    "command":{"arguments":["\u001b[2J","\u202e"],"elapsed_ns":DURATION,"status":-2147483648,"signal":2147483647}}"#;

fn shown_in_every_format(line: &[&str]) {
    for format in ["table", "json", "csv", "markdown"] {
        for options in
            [["--per", "second"], ["--per", "run"], ["--per", "cpu-second"], ["--scope", "command"], ["-g", "all"]]
        {
            let done = output(CTPROF, &[line, &["--format", format, "--limit", "0"], &options].concat());
            // Two snapshots have no recorded command.
            let has_no_command = options[0] == "--scope" && said(&done).contains("no recorded command");
            assert!(done.status.success() || has_no_command, "{line:?} {format} {options:?}: {}", said(&done));
            let text = String::from_utf8(done.stdout).unwrap();
            let controls = text.contains('\u{1b}') || (format != "json" && text.contains('\u{202e}'));
            assert!(!controls, "{line:?} {format} {options:?}");
        }
    }
}

#[test]
fn windows_of_the_largest_numbers_are_shown_and_compared_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let extremes = extremes().replace(r#""tgid":4294967295,"#, &format!(r#""tgid":4294967295,{LARGE},"#));
    let exited = r#"{"tid":0,"tgid":4294967295,"exited_work":"children","party":"command","run_time_ns":MAX},"#;
    let file = |name: &str, window: &str, duration: &str| {
        let json = extremes.replace(r#""threads":["#, &format!(r#"{LARGE_HOST}{window},"threads":[{exited}"#));
        let json = json.replace(r#""format_version":1"#, r#""format_version":2"#);
        let json = json.replace("UPTIME", duration).replace("DURATION", duration);
        written(dir.path(), name, &json.replace("MAX", "18446744073709551615"))
    };
    let window = format!(",{LARGE_WINDOW}");
    let (none, long) = (file("none", &window, "0"), file("long", &window, "18446744073709551615"));
    shown_in_every_format(&["show", &none]);
    shown_in_every_format(&["show", &long]);
    shown_in_every_format(&["compare", &none, &long]);
    let (early, late) = (file("early", "", "0"), file("late", "", "18446744073709551615"));
    shown_in_every_format(&["show", &early, &late]);
    shown_in_every_format(&["show", &late, &late]);
}

#[test]
fn html_has_the_largest_count_of_started_and_exited_threads() {
    let dir = tempfile::tempdir().unwrap();
    let thread =
        r#"{"tid":1,"tgid":1,"alive_ns":1,"count":18446744073709551615,"started":true,"exited":true,"run_time_ns":1}"#;
    let window = r#""window":{"duration_ns":1000000000}"#;
    let file = written(dir.path(), "w", &format!(r#"{{"format_version":2,{window},"threads":[{thread}]}}"#));
    let done = output(CTPROF, &["show", &file, "--format", "html"]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(String::from_utf8(done.stdout).unwrap().contains("18446744073709551615"));
}

/// A snapshot of a host with these processes, each with its parent.
fn processes(second: u64, parents: impl IntoIterator<Item = (u32, u32)>) -> CtprofSnapshot {
    let host = format!(r#"{{"boot_id":"b","uptime_ns":{second}000000000,"clock_ticks_per_second":100}}"#);
    let mut snapshot: CtprofSnapshot = serde_json::from_str(&format!(r#"{{"host":{host},"threads":[]}}"#)).unwrap();
    snapshot.threads.extend(parents.into_iter().map(|(pid, parent)| {
        let mut thread = ThreadState::default();
        (thread.tid, thread.tgid, thread.start_time_clock_ticks) = (pid, pid, Some(1));
        let mut process = ProcessState::default();
        (process.ppid, process.cutime_clock_ticks) = (Some(parent), Some(u64::MAX.into()));
        thread.process = Some(Box::new(process));
        thread.metrics.run_time_ns = Some(u64::MAX.into());
        thread
    }));
    snapshot
}

/// The number of threads of a window with a record for each process, of a command that process 1 ran.
fn recorded(earlier: CtprofSnapshot, later: CtprofSnapshot, exits: &[(u32, u32)]) -> usize {
    let record = |(pid, parent): &(u32, u32)| {
        let mut thread = ThreadState::default();
        (thread.tid, thread.tgid, thread.start_time_clock_ticks) = (*pid, *pid, Some(1));
        thread.metrics.run_time_ns = Some(u64::MAX.into());
        ExitedThread {
            state: thread,
            ppid: *parent,
            started_monotonic_ns: u64::MAX,
            elapsed_ns: u64::MAX,
            ..ExitedThread::default()
        }
    };
    let each = |add: &mut dyn FnMut(ExitedThread)| exits.iter().map(record).for_each(add);
    let mut recording = Recording::default();
    (recording.recorder, recording.command) = (Some(1), Some(RecordedCommand::default()));
    recording.exits = Exits { each: Some(&each), ..Exits::default() };
    window::recorded(&earlier.head, EarlierThreads::of_threads(earlier.threads), later, recording)
        .unwrap()
        .threads
        .len()
}

#[test]
fn circles_of_parents_end() {
    let circle = [(5, 6), (6, 7), (7, 5), (8, 8)];
    // Exited threads with equal names are one.
    assert_eq!(recorded(processes(10, circle), processes(15, []), &circle), 1);
    assert_eq!(recorded(processes(10, []), processes(15, circle), &circle), 1);
    assert_eq!(recorded(processes(10, circle), processes(15, circle), &circle), 4);
}

#[test]
fn chains_of_processes_and_many_threads_are_joined_in_little_time() {
    const MANY: u32 = 20_000;
    let up = || (2..MANY).map(|pid| (pid, pid - 1));
    let down = || (2..MANY).map(|pid| (pid, pid + 1));
    let records: Vec<_> = up().chain(down()).collect();
    let pool = |second| {
        let mut snapshot = processes(second, []);
        // Every thread has another CPU set.
        snapshot.threads.extend((1..MANY).map(|tid| {
            let mut thread = ThreadState::default();
            (thread.tid, thread.tgid, thread.start_time_clock_ticks) = (tid, 1, Some(1));
            thread.metrics.cpu_affinity = serde_json::from_value(serde_json::json!([tid])).unwrap();
            thread
        }));
        snapshot
    };
    let cpu_time = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
    let timed = |what: &str, join: &dyn Fn() -> usize| {
        let begin = cpu_time();
        let joined = join();
        let took = cpu_time() - begin;
        eprintln!("{what}: {joined} threads in {took:?}");
        // Work that grows with the square takes longer.
        assert!(joined > 0 && took < Duration::from_secs(10), "{what}: {joined} threads in {took:?}");
    };
    timed("a chain that turns around", &|| recorded(processes(10, up()), processes(15, down()), &[]));
    timed("a chain that exits", &|| recorded(processes(10, down()), processes(15, [(MANY, 1)]), &records));
    timed("a pool", &|| window::between(pool(10), pool(15)).unwrap().threads.len());
}

#[test]
fn an_invalid_snapshot_is_an_error_with_a_position() {
    let dir = tempfile::tempdir().unwrap();
    let deep = format!(r#"{{"threads":[],"psi":{}{}}}"#, r#"{"cpu":"#.repeat(100_000), "}".repeat(100_000));
    for (json, word) in [
        (r#"{"threads":[],"threads":[]}"#, "duplicate field"),
        (r#"{"threads":[{"tid":1,"tgid":1,"nice":1e400}]}"#, "invalid JSON"),
        (r#"{"threads":[{"tid":1,"tgid":1,"wait_max":NaN}]}"#, "invalid JSON"),
        (r#"{"threads":[{"tid":-1,"tgid":1}]}"#, "threads[0].tid"),
        (r#"{"threads":{"a":1}}"#, "threads"),
        (r#"{"threads":[],"cgroup_stats":{"/":{"cpu":{"usage_usec":"x"}}}}"#, "usage_usec"),
        (&deep, "invalid JSON"),
        ("[]", "cannot parse"),
        ("{\"threads\":[\n{\"tid\":1,\"tgid\":1},\n{\"tid\":2}\n]}", "threads[1]"),
    ] {
        let done = output(CTPROF, &["show", &written(dir.path(), "bad", json)]);
        assert_eq!(done.status.code(), Some(1), "{json:.80}");
        assert!(said(&done).contains(word), "{json:.80}: {}", said(&done));
    }
}
