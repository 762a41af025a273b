//! Steps of series that read only what changed.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use ctprof::capture::{CaptureScope, Capturer, Engine, Options, Pass, Smaps};
use serde_json::Value;

use crate::alone;
use crate::host::{CgroupDirectory, Killed};
use crate::root::engine_captures::has_bpf;
use crate::root::histories::{cgroup_roots, compile, started};
use crate::support::{Missing, skipped};

#[test]
fn a_process_has_the_new_name_of_its_first_thread_in_all_threads_at_once() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut child, _) = started(Command::new(compile("threads", directory.path())).arg("rename"));
    let mut options = Options::default();
    options.engine = Engine::Bpf;
    let mut capturer = Capturer::of_changes(options).unwrap();
    let first = capturer.capture(Smaps::Never).unwrap();
    let last_threads = first.threads.into_iter().map(|thread| (thread.id(), thread)).collect();
    child.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    thread::sleep(Duration::from_millis(200));
    let Pass { capture, .. } =
        capturer.pass(CaptureScope::Changed { threads: &last_threads, head: &first.head }).unwrap();
    let of_child = capture.threads.iter().filter(|thread| thread.tgid == child.0.id());
    assert_eq!(of_child.map(|thread| &*thread.pcomm).collect::<Vec<_>>(), ["renamed"; 2]);
}

/// The CPU time of a cgroup in a part of a series, and how long that is, in microseconds.
fn usage(part: &str, cgroup: &str) -> (u64, u64) {
    let arguments = ["show", part, "--limit", "0", "--per", "total", "--group-by", "cgroup", "--format", "json"];
    let shown = Command::new(env!("CARGO_BIN_EXE_ctprof")).args(arguments).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("a report");
    let rows = shown["rows"].as_array().unwrap();
    let is_usage = |row: &&Value| row["metric"] == "cpu.usage_usec" && row["group"].as_str().unwrap().ends_with(cgroup);
    let usage = rows.iter().find(is_usage).and_then(|row| row["value"].as_u64()).unwrap_or(0);
    (usage, shown["snapshot"]["window"]["duration_ns"].as_u64().unwrap() / 1000)
}

#[test]
fn the_cpu_time_of_what_exited_in_a_cgroup_is_in_the_step_in_which_it_exited() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let name = format!("ctprof-steps-{}", std::process::id());
    let directories: Vec<_> = cgroup_roots().iter().filter_map(|root| CgroupDirectory::create(root, &name)).collect();
    if directories.is_empty() {
        return skipped(Missing::Privilege("to create cgroups"));
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("s").to_str().unwrap().to_owned();
    let enter = "for to; do echo 0 >$to/cgroup.procs; done";
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).args(directories.iter().map(|directory| &directory.0)).stdin(Stdio::null());
        command
    };
    let _sleeper = Killed(shell(&format!("{enter}; exec sleep 1000")).spawn().unwrap());
    thread::sleep(Duration::from_millis(200));
    // What enters the cgroup is gone when the step ends, more than a second before the last one.
    let script =
        format!("sleep 0.5; sh -c '{enter}; i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done' sh \"$@\"; sleep 2");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    recorder.args(["record", "-q", "--no-why", "--every", "400ms", "-o", &file, "--", "sh", "-c", &script, "sh"]);
    let recorded = recorder.args(directories.iter().map(|directory| &directory.0)).output().unwrap();
    assert!(recorded.status.success(), "{recorded:?}");
    let (all, elapsed_us) = usage(&file, &name);
    let (before_the_end, _) = usage(&format!("{file}@0s..{}ms", elapsed_us / 1000 - 1000), &name);
    assert!(all > 20_000 && before_the_end > all - all / 10, "{before_the_end} of {all} µs");
}

/// The paths of all containers of a step: of the first one, the object; later, what changed of it.
fn container_paths(value: &Value) -> Vec<&str> {
    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().into_iter().flat_map(|object| object.keys().map(String::as_str)).collect()
    }
    match value {
        Value::Object(fields) => match fields.get("containers") {
            Some(Value::Array(changed)) => changed.iter().flat_map(keys).collect(),
            Some(all) => keys(all),
            None => fields.values().flat_map(container_paths).collect(),
        },
        _ => Vec::new(),
    }
}

#[test]
fn a_container_that_exits_keeps_its_name_in_a_redacted_series() {
    let _alone = alone();
    let name = format!("docker-{:064x}.scope", 0xabcd_ef01_2345_6789_u64 ^ u64::from(std::process::id()));
    let directories: Vec<_> = cgroup_roots().iter().filter_map(|root| CgroupDirectory::create(root, &name)).collect();
    if directories.is_empty() {
        return skipped(Missing::Privilege("to create cgroups"));
    }
    let recorded = |script: &str| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("s");
        let mut recorder = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        recorder.args(["record", "-q", "--no-why", "--redact", "--every", "100ms", "-o", file.to_str().unwrap(), "--"]);
        recorder.args(["sh", "-c", script, "sh"]).args(directories.iter().map(|directory| &directory.0));
        let output = recorder.env("CTPROF_REDACT_KEY", "k").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let json = zstd::decode_all(std::fs::File::open(&file).unwrap()).unwrap();
        let documents = serde_json::Deserializer::from_slice(&json).into_iter::<Value>().map(Result::unwrap);
        let paths = documents.flat_map(|step| Vec::from_iter(container_paths(&step).into_iter().map(str::to_owned)));
        paths.collect::<BTreeSet<_>>()
    };
    let others = recorded("sleep 0.3");
    let enter = "for to; do echo 0 >$to/cgroup.procs; done";
    // It is removed while steps follow that no longer have it.
    let script = format!("(sh -c '{enter}; sleep 1' sh \"$@\"); rmdir \"$@\"; sleep 0.8");
    let own: Vec<_> = recorded(&script).difference(&others).cloned().collect();
    assert!((1..=directories.len()).contains(&own.len()), "{own:?}");
}
