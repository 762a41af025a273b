//! The load to capture: `examples/load.rs`, or a recorded tree if the host cannot have that many threads.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::process::role;

#[expect(dead_code, reason = "its main is another program's")]
#[path = "../../examples/load.rs"]
mod example;

/// Threads per process of a load.
const PER_PROCESS: usize = 100;

/// Sleeping threads, until dropped.
pub(crate) struct Load(Child);

impl Load {
    /// Starts about `threads` threads and waits until all run.
    pub(crate) fn of(threads: usize) -> anyhow::Result<Self> {
        let processes = threads.div_ceil(PER_PROCESS).max(1);
        let load = role(&["load", &processes.to_string(), &(threads / processes).to_string()])?;
        let mut child = Command::new(&load[0]).args(&load[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        BufReader::new(stdout).read_line(&mut String::new())?;
        Ok(Self(child))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The role that [`Load`] starts.
pub(crate) fn run(numbers: &[&str]) -> anyhow::Result<()> {
    Ok(example::run(&numbers.iter().filter_map(|number| number.parse().ok()).collect::<Vec<_>>())?)
}

/// Whether this host can have that many threads.
pub(crate) fn fits(threads: usize) -> anyhow::Result<bool> {
    let limit: usize = fs::read_to_string("/proc/sys/kernel/pid_max")?.trim().parse()?;
    Ok(threads + 2_000 < limit)
}

/// A tree like procfs with that many threads. Each has the files of the current thread.
pub(crate) fn tree(root: &Path, threads: usize) -> anyhow::Result<()> {
    let model = root.join("model");
    fs::create_dir(&model)?;
    for name in ["stat", "status", "schedstat", "sched", "io", "cgroup"] {
        if let Ok(content) = fs::read(format!("/proc/thread-self/{name}")) {
            fs::write(model.join(name), content)?;
        }
    }
    for first in (1..=threads).step_by(PER_PROCESS) {
        let tasks = root.join(first.to_string()).join("task");
        fs::create_dir_all(&tasks)?;
        for tid in first..(first + PER_PROCESS).min(threads + 1) {
            symlink(&model, tasks.join(tid.to_string()))?;
        }
    }
    Ok(())
}
