//! Values and names that no capture has, and names that mean something to a terminal or a browser.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::json;

const FORMATS: [&str; 5] = ["table", "json", "csv", "markdown", "html"];

const CTPROF: &str = env!("CARGO_BIN_EXE_ctprof");

/// Snapshots in a directory of their own.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A snapshot of one thread, taken at these times of the wall clock, and of the clocks without and with suspension.
    fn write(&self, file: &str, name: &str, [unix_ns, monotonic_ns, boottime_ns]: [u64; 3]) -> PathBuf {
        let path = self.0.path().join(file);
        let thread = json!({"tid": 1, "tgid": 1, "pcomm": name, "comm": name, "start_time_clock_ticks": 1,
                            "run_time_ns": boottime_ns / 1000});
        let host = json!({"hostname": name, "boot_id": "b", "clock_ticks_per_second": 100});
        let capture = json!({"tool": "ctprof", "monotonic_ns": monotonic_ns, "boottime_ns": boottime_ns});
        let snapshot = json!({"format_version": 2, "captured_at_unix_ns": unix_ns, "capture": capture, "host": host,
                              "threads": [thread]});
        fs::write(&path, snapshot.to_string()).unwrap();
        path
    }
}

fn run(arguments: &[&str], files: &[&PathBuf]) -> Output {
    Command::new(CTPROF).args(arguments).args(files).output().unwrap()
}

#[test]
fn captures_at_any_time_are_compared_in_every_format() {
    let files = Files::new();
    let [least, most] = [1, u64::MAX].map(|time| files.write(&time.to_string(), "a", [time, 5, 5]));
    let later = files.write("later", "a", [7, u64::MAX, u64::MAX]);
    for format in FORMATS {
        for pair in [[&least, &most], [&most, &least], [&least, &later], [&most, &later]] {
            for command in ["compare", "show"] {
                let done = run(&[command, "--format", format], &pair);
                let said = String::from_utf8_lossy(&done.stderr);
                // Two captures in the wrong order are no window, which is an error.
                assert!(matches!(done.status.code(), Some(0 | 1)) && !said.contains("panic"), "{pair:?}: {said}");
                assert!(command == "show" || done.status.success(), "{pair:?}: {said}");
            }
        }
    }
}

#[test]
fn no_format_prints_a_character_that_steers_a_terminal_or_ends_a_line() {
    // CSI of one byte, an override of the direction of text, and the ends of lines that JavaScript knows.
    let steering = ['\u{9b}', '\u{85}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}', '\u{2029}'];
    let name: String = steering.iter().flat_map(|steers| ['n', *steers]).collect();
    let files = Files::new();
    let [a, b] = [1, 2].map(|time| files.write(&time.to_string(), &name, [time, time * 1_000_000, time * 1_000_000]));
    for format in FORMATS {
        for axis in ["process", "thread", "all"] {
            let shown = run(&["show", "--long", "--format", format, "--group-by", axis], &[&a]);
            let compared = run(&["compare", "--unchanged", "--format", format, "--group-by", axis], &[&a, &b]);
            for done in [shown, compared] {
                assert!(done.status.success(), "{done:?}");
                let printed = String::from_utf8(done.stdout).unwrap();
                let found: Vec<_> = steering.into_iter().filter(|steers| printed.contains(*steers)).collect();
                assert!(found.is_empty(), "{format} by {axis} prints {found:?}");
            }
        }
    }
}

#[test]
fn a_window_between_a_host_and_a_time_namespace_does_not_say_that_the_host_was_suspended() {
    let files = Files::new();
    let second = 1_000_000_000;
    let before = files.write("before", "a", [1000 * second, 100 * second, 100 * second]);
    // Ten seconds later by the wall clock, and by the clock that stops while the host is suspended.
    for offset in [500_000, 3600, 60] {
        let after = files.write("after", "a", [1010 * second, 110 * second, (110 + offset) * second]);
        let done = run(&["show"], &[&before, &after]);
        let said = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(!said.contains(&offset.to_string()), "{said}");
    }
    // A suspension passes for the wall clock too.
    let after = files.write("after", "a", [1310 * second, 110 * second, 410 * second]);
    let said = String::from_utf8(run(&["show"], &[&before, &after]).stdout).unwrap();
    assert!(said.contains("suspended for another 300 s"), "{said}");
}

#[test]
fn a_redacted_snapshot_has_no_argument_of_the_init_process() {
    let files = Files::new();
    let root = files.0.path();
    let process = root.join("proc/7");
    fs::create_dir_all(process.join("task/7")).unwrap();
    let stat = format!("7 (a) S 1 7 7 0 -1 0 {}", "0 ".repeat(43));
    for directory in [process.clone(), process.join("task/7")] {
        fs::write(directory.join("stat"), &stat).unwrap();
        fs::write(directory.join("comm"), "a\n").unwrap();
        fs::write(directory.join("status"), "Name:\ta\nState:\tS (sleeping)\nTgid:\t7\n").unwrap();
    }
    fs::write(root.join("proc/cmdline"), "quiet psi=1 -- --token secret --user=somebody 'a b'\n").unwrap();
    fs::write(root.join("proc/uptime"), "100.0 100.0\n").unwrap();
    let file = root.join("snapshot");
    let mut capture = Command::new(CTPROF);
    capture.args(["-q", "capture", "--redact", "--procfs"]).arg(root.join("proc")).args(["--sysfs"]).arg(root);
    let done = capture.arg("-o").arg(&file).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let snapshot = String::from_utf8(zstd::decode_all(fs::File::open(&file).unwrap()).unwrap()).unwrap();
    assert!(snapshot.contains(r#""kernel_cmdline":"quiet psi=1""#), "{snapshot}");
}
