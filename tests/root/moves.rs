//! A process that moves between cgroups beside captures.

use std::process::{Command, Stdio};

use ctprof::capture::Engine;

use crate::alone;
use crate::engine_captures::{captured, has_bpf};
use crate::histories::cgroup_roots;
use crate::host::{CgroupDirectory, Killed};
use crate::support::{Missing, skipped};

/// A shell that enters cgroups, and then runs a script.
fn start(script: &str, directories: &[CgroupDirectory]) -> Killed {
    let enter = "for to; do echo 0 >\"$to/cgroup.procs\"; done; ";
    let mut command = Command::new("sh");
    let command =
        command.args(["-c", &format!("{enter}{script}"), "sh"]).args(directories.iter().map(|directory| &directory.0));
    Killed(command.stdin(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_process_that_moves_takes_no_thread_of_its_old_cgroup_with_it() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let mut roots = cgroup_roots();
    // Of hierarchies of version 1, that of memory is looked at first.
    roots.sort_by_key(|root| !root.ends_with("memory"));
    let name = format!("ctprof-stays-{}", std::process::id());
    let directories: Vec<_> = roots.iter().filter_map(|root| CgroupDirectory::create(root, &name)).collect();
    let other = directories
        .first()
        .and_then(|first| CgroupDirectory::create(first.0.parent()?, &format!("ctprof-other-{}", std::process::id())));
    let Some(other) = other else { return skipped(Missing::Privilege("to create cgroups")) };
    let other = other.0.display();
    // It has the lowest id of the two.
    let _mover =
        start(&format!("while :; do for to in {other} $1; do echo 0 >$to/cgroup.procs; done; done"), &directories);
    let sleeper = start("exec sleep 1000", &directories);
    for number in 0..60 {
        let snapshot = captured(Engine::Bpf).unwrap();
        let thread = snapshot.threads.iter().find(|thread| thread.tid == sleeper.0.id()).unwrap();
        let cgroup = thread.cgroup.as_deref().unwrap();
        assert!(&*thread.comm != "sleep" || cgroup.ends_with(&name), "capture {number}: {cgroup}");
    }
}
