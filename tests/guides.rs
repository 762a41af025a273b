//! Runs the commands of the guides.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

/// Scenarios run one at a time, because they compete for CPUs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn guide(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join("docs").join(name)).unwrap()
}

/// The shell commands below a heading.
fn block(guide: &str, heading: &str) -> String {
    let part = guide.split_once(heading).unwrap().1;
    part.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0.to_owned()
}

/// The directory of programs built by cargo, with examples below.
fn built() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_ctprof")).parent().unwrap().to_owned()
}

/// Runs commands in a directory that looks like the repository after a build, and stops the processes they
/// start.
fn run(dir: &Path, commands: &str) -> Output {
    fs::create_dir_all(dir.join("target")).unwrap();
    let _ = std::os::unix::fs::symlink(built(), dir.join("target/debug"));
    let path = format!("{}:{}", built().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-ec", &format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{commands}")]);
    bash.current_dir(dir).env("PATH", path).stdin(Stdio::null()).output().unwrap()
}

fn succeeded(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Growth of a metric of a group between the two captures in `dir`.
fn delta(dir: &Path, by: &str, group: &str, metric: &str) -> f64 {
    let line = format!("ctprof compare before.ctprof.zst after.ctprof.zst --group-by {by} --format json --unchanged");
    let report: serde_json::Value = serde_json::from_str(&succeeded(&run(dir, &line))).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["group"] == group && row["metric"] == metric).unwrap();
    row["delta"].as_f64().unwrap_or(0.0)
}

/// Runs a scenario of the guide, and returns the directory with its captures.
fn played(heading: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let _alone = ONE_AT_A_TIME.lock();
    let shown = succeeded(&run(dir.path(), &block(&guide("why-slower.md"), heading)));
    assert!(shown.contains("\nprimary\n"), "{shown}");
    dir
}

#[test]
fn a_convoy_neither_runs_nor_waits_and_sleeps_by_choice() {
    let dir = played("a lock convoy");
    let of = |metric| delta(dir.path(), "comm", "convoy-{N}", metric);
    assert!(of("run_time_ns") < 8e9 && of("voluntary_csw") > 1000.0);
}

#[test]
fn a_worker_beside_a_noisy_neighbour_waits_for_longer_than_it_runs() {
    let dir = played("a noisy neighbour");
    let of = |metric| delta(dir.path(), "comm", "worker", metric);
    assert!(of("wait_time_ns") > of("run_time_ns"), "{} {}", of("wait_time_ns"), of("run_time_ns"));
}

#[test]
fn a_cgroup_with_too_little_memory_reads_the_same_again() {
    let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control").unwrap_or_default();
    if !nix::unistd::geteuid().is_root() || !controllers.contains("memory") {
        return eprintln!("skipped: only root may limit memory, in a cgroup of version 2");
    }
    let dir = tempfile::tempdir().unwrap();
    let shown = succeeded(&run(dir.path(), &block(&guide("why-slower.md"), "too little memory")));
    assert!(shown.contains("/tight"), "{shown}");
    assert!(delta(dir.path(), "cgroup", "/tight", "workingset_refault_file") > 0.0);
}

/// The scripts of a workflow's steps, by their names.
fn steps(workflow: &str) -> Vec<(String, String)> {
    let mut steps = Vec::new();
    for step in workflow.split("      - name: ").skip(1) {
        let (name, rest) = step.split_once('\n').unwrap();
        let Some((_, script)) = rest.split_once("        run: ") else { continue };
        let lines = script.strip_prefix("|\n").unwrap_or(script).lines();
        let own = lines.take_while(|line| !line.starts_with("      - ") && !line.starts_with("```"));
        steps.push((name.to_owned(), own.collect::<Vec<_>>().join("\n")));
    }
    steps
}

#[test]
fn the_steps_of_the_workflow_work_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    // Only a runner has a Makefile and sudo without a password.
    let tools = dir.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let tool = |name: &str, script: &str| {
        fs::write(tools.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        succeeded(&Command::new("chmod").arg("+x").arg(tools.join(name)).output().unwrap());
    };
    tool("sudo", r#"exec "$@""#);
    tool("make", "exit 0");
    if !run(dir.path(), "jq --version").status.success() {
        return eprintln!("skipped: no jq");
    }
    let steps = steps(&guide("ci.md"));
    assert_eq!(steps.len(), 6, "{steps:?}");
    for (name, script) in steps.iter().filter(|(name, _)| name != "Install ctprof") {
        let prepared = format!("PATH={}:$PATH; export GITHUB_STEP_SUMMARY=summary.md\n{script}", tools.display());
        let done = run(dir.path(), &prepared);
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    }
    assert!(fs::read_to_string(dir.path().join("summary.md")).unwrap().contains("- **baseline** before.ctprof.zst"));
}

#[test]
fn every_command_of_the_privacy_guide_works() {
    let dir = tempfile::tempdir().unwrap();
    succeeded(&run(dir.path(), &block(&guide("privacy.md"), "What a snapshot holds")));
    let shown = succeeded(&run(dir.path(), "ctprof show before.ctprof.zst --group-by comm --format csv"));
    assert!(!shown.contains("bash"), "{shown}");
}

#[test]
fn redacted_captures_under_one_key_compare_and_tell_no_names() {
    let dir = tempfile::tempdir().unwrap();
    let commands = "export CTPROF_REDACT_KEY=k
        cp $(command -v sleep) secretive
        ./secretive 9.5 & pid=$!
        sleep 0.2
        ctprof capture -q --redact --pid $pid -o before.ctprof.zst
        ctprof capture -q --redact --pid $pid -o after.ctprof.zst
        ctprof compare before.ctprof.zst after.ctprof.zst --unchanged --limit 0 --format csv";
    let compared = succeeded(&run(dir.path(), commands));
    assert!(!compared.contains("secretive"), "{compared}");
    assert!(compared.lines().count() > 20 && !compared.contains("only in"), "{compared}");
}
