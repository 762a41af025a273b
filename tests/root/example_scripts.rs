//! Scripts of `examples/` that need privileges: each shows what its page promises.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::alone;
use crate::example::{example, script};
use crate::host::Killed;
use crate::root::stacks::has_stacks;
use crate::support::{Missing, skipped};

/// Recordings on a busy host, of which one has to show what is wanted.
const ATTEMPTS: usize = 3;

#[test]
fn the_script_of_a_lock_names_the_function_that_takes_it() {
    let convoy = Killed(Command::new(example("convoy")).spawn().unwrap());
    if !has_stacks(&convoy.0) {
        return;
    }
    drop(convoy);
    let mut seen = String::new();
    for _ in 0..ATTEMPTS {
        let done = script("lock.sh").env("CONVOY", example("convoy")).env("DURATION", "2s").output().unwrap();
        seen = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        if done.status.success() && seen.contains("futex in convoy::append ← convoy::work") {
            return;
        }
    }
    panic!("{seen}");
}

/// Directories and logs of the pods of a host.
fn pods() -> Vec<PathBuf> {
    let places = ["", "cpu/"].map(|tree| format!("/sys/fs/cgroup/{tree}kubepods.slice/kubepods-burstable.slice"));
    let entries = |place: &Path| fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
    places.iter().map(Path::new).chain([Path::new("/var/log/containers")]).flat_map(entries).collect()
}

/// Starts the script of a pod that is throttled; `None` if there can be no such pods.
fn throttled_pod(duration: &str) -> Option<Command> {
    let tree = ["/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"];
    if !nix::unistd::geteuid().is_root() || !tree.iter().any(|file| Path::new(file).exists()) {
        skipped(Missing::Privilege("to limit the CPU time of cgroups"));
        return None;
    }
    let mut command = Command::new("env");
    let script = script("throttled-pod.sh");
    // As from a terminal, whatever started this test.
    command.arg("--default-signal=INT").arg(script.get_program()).env("DURATION", duration).stdin(Stdio::null());
    command.envs(script.get_envs().filter_map(|(name, value)| Some((name, value?)))).process_group(0);
    Some(command)
}

#[test]
fn the_script_of_a_throttled_pod_tells_it_from_the_other_one_and_leaves_nothing() {
    let _alone = alone();
    let (Some(mut script), before) = (throttled_pod("2s"), pods()) else { return };
    // Not into pipes: a process that the script has left would keep them open.
    let printed = tempfile::NamedTempFile::new().unwrap();
    let file = printed.reopen().unwrap();
    let status = script.stdout(file.try_clone().unwrap()).stderr(file).status().unwrap();
    let seen = fs::read_to_string(printed.path()).unwrap();
    let (_, api) = seen.split_once("shop/api:server").unwrap_or_else(|| panic!("{seen}"));
    let api = api.split("shop/web:server  ").next().unwrap();
    assert!(status.success() && api.contains("CPU quota"), "{seen}");
    assert_eq!((seen.matches("CPU quota").count(), pods()), (1, before), "{seen}");
}

#[test]
fn the_script_of_a_throttled_pod_that_is_interrupted_leaves_nothing() {
    let _alone = alone();
    let (Some(mut script), before) = (throttled_pod("60s"), pods()) else { return };
    let mut script = Killed(script.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let group = Pid::from_raw(i32::try_from(script.0.id()).unwrap());
    while pods().len() < before.len() + 4 && script.0.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(20));
    }
    killpg(group, Signal::SIGINT).unwrap();
    script.0.wait().unwrap();
    assert_eq!(pods(), before);
}
