//! Output of `ctprof doctor` for an unprivileged user with selected capabilities, on this host.

use crate::support::{Missing, skipped};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

/// The findings of `doctor` for the user `nobody` with these capabilities; `None` if this process cannot
/// grant them.
fn findings(capabilities: &[&str]) -> Option<Vec<Value>> {
    let dir = tempfile::tempdir().unwrap();
    let binary = dir.path().join("ctprof");
    crate::support::copy_program(env!("CARGO_BIN_EXE_ctprof"), &binary);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut set = String::from("-all");
    capabilities.iter().for_each(|name| set.push_str(&format!(",+{name}")));
    let doctor = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args([format!("--inh-caps={set}"), format!("--ambient-caps={set}")])
        .arg(&binary)
        .args(["doctor", "--format", "json"])
        .output();
    let report: Value = serde_json::from_slice(&doctor.ok()?.stdout).ok()?;
    report["findings"].as_array().cloned()
}

fn code(findings: &[Value], source: &str) -> String {
    let finding = findings.iter().find(|finding| finding["source"] == source).unwrap();
    finding["code"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn each_missing_capability_is_named_and_no_other() {
    let (Some(none), Some(ptrace), Some(all)) = (
        findings(&[]),
        findings(&["sys_ptrace"]),
        findings(&["sys_ptrace", "dac_read_search", "net_admin", "bpf", "perfmon"]),
    ) else {
        return skipped(Missing::Privilege("root, with setpriv"));
    };
    let codes = |source: &str| [&none, &ptrace, &all].map(|findings| code(findings, source));
    // Even root is denied a process of an outer user namespace.
    let or_despite = |code: &str| ["none", "permission-denied-despite-capability"].contains(&code);
    let [a, b, c] = codes("io");
    assert!(a == "permission-denied" && b == a && or_despite(&c), "io: {a}, {b}, {c}");
    let [a, b, _] = codes("smaps_rollup");
    assert!(a == "permission-denied" && or_despite(&b), "smaps_rollup: {a}, {b}");
    let setcaps = |findings: &[Value]| {
        let fixes = findings.iter().filter_map(|finding| finding["fix"].as_str());
        let mut setcaps: Vec<_> = fixes.filter(|fix| fix.contains("setcap")).map(str::to_owned).collect();
        setcaps.dedup();
        setcaps
    };
    assert_eq!((setcaps(&none).len(), setcaps(&ptrace).len(), setcaps(&all).len()), (1, 1, 0), "{none:#?}");
    assert!(setcaps(&ptrace)[0].contains("cap_sys_ptrace"), "what is held stays: {ptrace:#?}");
}

#[test]
fn setcap_is_advised_only_for_a_file_whose_capabilities_count() {
    let dir = tempfile::tempdir().unwrap();
    let mount = |options: &str| {
        let options = ["-t", "tmpfs", "-o", options, "none"];
        Command::new("mount").args(options).arg(dir.path()).status().is_ok_and(|status| status.success())
    };
    if !nix::unistd::geteuid().is_root() || !mount("nosuid,mode=755") {
        return skipped(Missing::Privilege("only root may mount a file system"));
    }
    let binary = dir.path().join("ctprof");
    crate::support::copy_program(env!("CARGO_BIN_EXE_ctprof"), &binary);
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let doctor = Command::new("setpriv").args(user).arg(&binary).arg("doctor").output();
    assert!(Command::new("umount").arg(dir.path()).status().unwrap().success());
    let Ok(doctor) = doctor else { return skipped(Missing::Tool("setpriv")) };
    let said = String::from_utf8(doctor.stdout).unwrap();
    let copy = format!("sudo cp '{}' /usr/local/bin/ctprof && sudo setcap cap_", binary.display());
    assert!(said.contains(&copy) && said.contains("+p /usr/local/bin/ctprof"), "{said}");
    assert!(!said.contains("once: sudo setcap"), "{said}");
}
