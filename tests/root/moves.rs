//! A process that moves between cgroups beside captures.

use std::process::{Command, Stdio};

use ctprof::capture::Engine;

use crate::alone;
use crate::engine_captures::{captured, has_bpf};
use crate::histories::cgroup_roots;
use crate::host::{CgroupFolder, Killed};
use crate::support::{Missing, skipped};

fn start(script: &str, folders: &[&CgroupFolder]) -> Killed {
    let mut command = Command::new("sh");
    let command = command.args(["-c", script, "sh"]).args(folders.iter().map(|folder| &folder.0));
    Killed(command.stdin(Stdio::null()).spawn().unwrap())
}

/// A process in a cgroup, under that name.
fn sleeper(folder: &CgroupFolder) -> Killed {
    start("echo 0 >\"$1/cgroup.procs\" && exec sleep 1000", &[folder])
}

#[test]
fn a_process_that_moves_takes_no_thread_of_its_old_cgroup_with_it() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let create = |name: &str| {
        let name = format!("ctprof-{name}-{}", std::process::id());
        cgroup_roots().iter().find_map(|root| CgroupFolder::create(root, &name))
    };
    let (Some(one), Some(other)) = (create("one"), create("other")) else {
        return skipped(Missing::Privilege("to create cgroups"));
    };
    // It has the lowest ids.
    let _mover = start("while :; do for to in \"$@\"; do echo 0 >\"$to/cgroup.procs\"; done; done", &[&one, &other]);
    let sleepers = [&one, &other].map(|folder| (sleeper(folder), folder.0.file_name().unwrap().to_str().unwrap()));
    for number in 0..60 {
        let snapshot = captured(Engine::Bpf).unwrap();
        for (sleeper, name) in &sleepers {
            let thread = snapshot.threads.iter().find(|thread| thread.tid == sleeper.0.id()).unwrap();
            let cgroup = thread.cgroup.as_deref().unwrap();
            assert!(&*thread.comm != "sleep" || cgroup.ends_with(name), "capture {number}: {cgroup}, not {name}");
        }
    }
}
