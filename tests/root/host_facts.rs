//! Facts of the host that are absent or impossible: what depends on them is unknown, and never 0.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ctprof::CtprofSnapshot;
use ctprof::model::CgroupLayout;

use crate::host::Killed;
use crate::root::engine_captures::has_bpf;
use crate::support::{Missing, skipped};

const CTPROF: &str = env!("CARGO_BIN_EXE_ctprof");

/// Runs `script` in a mount namespace that `prepare` has changed, in `directory`; `None` with the reason printed if
/// `prepare` fails. Returns the exit status and standard error.
fn in_mounts(directory: &Path, prepare: &str, script: &str) -> Option<(i32, String)> {
    const NOT_PREPARED: i32 = 99;
    let script = format!("{{ {prepare}; }} >&2 || exit {NOT_PREPARED}\n{script}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).env("CTPROF", CTPROF).current_dir(directory);
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    match done.status.code() {
        Some(NOT_PREPARED | 1) if !said.contains("ctprof") => {
            skipped(Missing::Privilege(format!("{prepare}: {said}")));
            None
        }
        status => Some((status.unwrap(), said)),
    }
}

/// The engines that can read this host.
fn engines() -> impl Iterator<Item = &'static str> {
    ["procfs", "bpf"].into_iter().filter(|engine| *engine == "procfs" || has_bpf())
}

#[test]
fn delays_are_unknown_where_the_sysctl_of_their_accounting_cannot_be_read() {
    let sysctl = "/proc/sys/kernel/task_delayacct";
    if !Path::new(sysctl).exists() {
        return skipped(Missing::Kernel(sysctl));
    }
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let prepare = format!(": >empty && mount --bind empty {sysctl}");
        let script = format!("\"$CTPROF\" -q capture --engine {engine} -o masked");
        let Some((status, said)) = in_mounts(directory.path(), &prepare, &script) else { return };
        assert_eq!(status, 0, "{said}");
        let snapshot = CtprofSnapshot::load(&directory.path().join("masked")).unwrap();
        let measured =
            |delay: &dyn Fn(&ctprof::ThreadState) -> bool| snapshot.threads.iter().filter(|t| delay(t)).count();
        assert_eq!(measured(&|thread| thread.metrics.blkio_delay_total_ns.is_some()), 0, "{engine}");
        assert_eq!(measured(&|thread| thread.metrics.swapin_delay_count.is_some()), 0, "{engine}");
        // The scheduler always measures waits for a CPU.
        assert!(measured(&|thread| thread.metrics.cpu_delay_total_ns.is_some()) > 0, "{engine}");
    }
}

/// Records a command that applies `change` to a copy of `/proc/stat` in its place; `None` leaves the file as it is.
fn window_while_stat_changes(change: Option<&str>) -> Option<CtprofSnapshot> {
    let directory = tempfile::tempdir().unwrap();
    let prepare = if change.is_some() { "cat /proc/stat >stat && mount --bind stat /proc/stat" } else { "true" };
    let command = change.map_or("true".to_owned(), |change| format!("{change} <stat >new; cat new >stat"));
    let script = format!("\"$CTPROF\" -q record -o window -- sh -c '{command}'");
    let (status, said) = in_mounts(directory.path(), prepare, &script)?;
    assert_eq!(status, 0, "{said}");
    Some(CtprofSnapshot::load(&directory.path().join("window")).unwrap())
}

#[test]
fn the_cpu_time_of_the_host_is_unknown_where_it_cannot_be_believed() {
    for (change, is_known) in [
        (None, true),
        // Idle for 10,000 s.
        (Some(r#"awk "/^cpu/ {\$5 += 1000000} {print}""#), false),
        (Some(r#"awk "/^cpu/ {NF = 5} {print}""#), false),
        (Some(r#"grep -v "^cpu0""#), false),
        // No CPU was there for a second.
        (Some("sleep 1; cat"), false),
    ] {
        // A kernel with scheduler statistics has the run time of tasks in another file, but the number of CPUs is of this one.
        let Some(window) = window_while_stat_changes(change) else { return };
        let cpu = window.head.window.as_ref().unwrap().cpu;
        assert_eq!(cpu.is_some(), is_known, "{change:?}: {cpu:?}");
    }
}

/// Hides /proc/sys, and all other files that are not of processes.
const ONLY_PROCESSES: &str = "mount -t proc -o subset=pid proc /proc";

#[test]
fn without_a_boot_id_a_recorder_has_windows_and_the_status_of_its_command() {
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let record = format!("\"$CTPROF\" -q record --engine {engine}");
        let script = format!("{record} --every 100ms -d 500ms -o series && {record} -o window -- sh -c 'exit 7'");
        let Some((status, said)) = in_mounts(directory.path(), ONLY_PROCESSES, &script) else { return };
        assert_eq!(status, 7, "{engine}: {said}");
        let window = CtprofSnapshot::load(&directory.path().join("window")).unwrap();
        assert_eq!(window.head.host.as_ref().unwrap().boot_id, None);
        assert_eq!(window.head.window.as_ref().unwrap().command.as_ref().unwrap().status, Some(7));
        let mut show = Command::new(CTPROF);
        let shown = show.args(["-q", "show", "series", "--steps"]).current_dir(directory.path()).output().unwrap();
        let steps = String::from_utf8_lossy(&shown.stdout).lines().count();
        assert!(shown.status.success() && steps > 3, "{engine}: {shown:?}");
    }
}

#[test]
fn captures_of_two_processes_without_a_boot_id_are_no_window() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#""$CTPROF" -q capture -o a && "$CTPROF" -q capture -o b && ! "$CTPROF" -q show a b"#;
    let Some((status, said)) = in_mounts(directory.path(), ONLY_PROCESSES, script) else { return };
    assert!(status == 0 && said.contains("no boot id"), "{said}");
}

#[test]
fn a_recording_that_fails_after_its_command_keeps_the_status_of_the_command() {
    for (command, expected) in [("exit 7", 7), ("kill -9 $$", 137), ("true", 125)] {
        let done =
            Command::new(CTPROF).args(["-q", "record", "-o", "/dev/full", "--", "sh", "-c", command]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(expected), "{command}: {said}");
        assert!(said.contains("the command has ended (") && said.contains("/dev/full"), "{said}");
    }
}

#[test]
fn hierarchies_of_cgroups_that_another_mount_hides_are_not_mounted() {
    for hidden in ["/sys/fs/cgroup", "/sys"] {
        let directory = tempfile::tempdir().unwrap();
        let prepare = format!("mount -t tmpfs none {hidden}");
        let Some((status, said)) = in_mounts(directory.path(), &prepare, "\"$CTPROF\" -q capture -o hidden") else {
            return;
        };
        assert_eq!(status, 0, "{said}");
        let snapshot = CtprofSnapshot::load(&directory.path().join("hidden")).unwrap();
        assert_eq!(snapshot.head.host.unwrap().cgroup_layout, Some(CgroupLayout::None), "{hidden}");
    }
}

#[test]
fn threads_older_than_the_clock_of_a_time_namespace_have_no_age_and_are_not_idle() {
    let directory = tempfile::tempdir().unwrap();
    let old = Killed(Command::new("sleep").arg("1000").spawn().unwrap());
    // The namespace's clock has whole seconds less than the host's.
    std::thread::sleep(Duration::from_millis(2100));
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let seconds: u64 = uptime.split('.').next().unwrap().parse().unwrap();
    let younger = format!("-{}", seconds.saturating_sub(1));
    let mut command = Command::new("unshare");
    command.args(["--time", "--boottime", &younger, "--fork", CTPROF, "-q", "capture", "-o", "young"]);
    let done = command.current_dir(directory.path()).output().unwrap();
    if !done.status.success() {
        return skipped(Missing::Privilege(format!("time namespace: {}", String::from_utf8_lossy(&done.stderr))));
    }
    let snapshot = CtprofSnapshot::load(&directory.path().join("young")).unwrap();
    let thread = snapshot.threads.iter().find(|thread| thread.tgid == old.0.id()).unwrap();
    assert_eq!(thread.start_ns(), None, "{:?}", thread.start_time_clock_ticks);
    let mut show = Command::new(CTPROF);
    show.args(["-q", "show", "young", "--only", "sleep", "--group-by", "pcomm", "--limit", "0"])
        .current_dir(directory.path());
    let table = String::from_utf8(show.output().unwrap().stdout).unwrap();
    let json = String::from_utf8(show.args(["--format", "json"]).output().unwrap().stdout).unwrap();
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["group"] == "sleep");
    let ages: Vec<_> = rows.filter(|row| row["metric"] == "sleep").map(|row| (&row["uptime"], &row["value"])).collect();
    assert!(!ages.is_empty() && ages.iter().all(|(age, asleep)| age.is_null() && asleep.is_null()), "{ages:?}");
    assert!(table.lines().any(|line| line.starts_with("sleep ")), "{table}");
}
