//! A process that moves between cgroups beside captures.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ctprof::capture::{CaptureScope, Capturer, Engine, Options, Smaps, Use};
use ctprof::model::ThreadState;

use crate::alone;
use crate::host::{CgroupDirectory, Killed};
use crate::root::engine_captures::{captured, has_bpf};
use crate::root::histories::cgroup_roots;
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

#[test]
fn a_thread_that_moves_between_passes_is_in_its_new_cgroup() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let names = ["before", "after"].map(|name| format!("ctprof-{name}-{}", std::process::id()));
    let create = |root: &PathBuf| Some([0, 1].map(|at| CgroupDirectory::create(root, &names[at])));
    let directories: Vec<_> = cgroup_roots().iter().filter_map(create).collect();
    let each = |at: usize| directories.iter().filter_map(move |pair| pair[at].as_ref()).map(|directory| &directory.0);
    if each(1).next().is_none() {
        return skipped(Missing::Privilege("to create cgroups"));
    }
    let works = Killed(Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]).spawn().unwrap());
    let enter = |at| each(at).for_each(|to| fs::write(to.join("cgroup.procs"), works.0.id().to_string()).unwrap());
    enter(0);
    let mut options = Options::default();
    (options.engine, options.jemalloc) = (Engine::Bpf, Use::Disabled);
    let mut capturer = Capturer::of_changes(options).unwrap();
    let first = capturer.capture(Smaps::Never).unwrap();
    let cgroup = |threads: &[ThreadState]| {
        let thread = threads.iter().find(|thread| thread.tid == works.0.id());
        thread.and_then(|thread| thread.cgroup.clone()).map(|cgroup| cgroup.to_string())
    };
    assert_eq!(cgroup(&first.threads), Some(format!("/{}", names[0])));
    enter(1);
    std::thread::sleep(Duration::from_millis(100));
    let threads = first.threads.iter().map(|thread| (thread.id(), thread.clone())).collect();
    let pass = capturer.pass(CaptureScope::Changed { threads: &threads, head: &first.head }).unwrap();
    assert!(pass.gone_threads.is_some(), "only what changed is read");
    assert_eq!(cgroup(&pass.capture.threads), Some(format!("/{}", names[1])));
}
