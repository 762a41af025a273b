//! A whole capture of a procfs in which files have any content. What comes out has to survive being
//! written and read.
//!
//! The input is a list of files: a byte that chooses the file, two that give its length, its content.
#![no_main]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ctprof::CtprofSnapshot;
use ctprof::capture::{CaptureError, Options, capture_with};
use tempfile::TempDir;

/// Every file that a capture reads, with one thread of one process in one cgroup.
const FILES: [&str; 41] = [
    "proc/7/task/7/stat",
    "proc/7/task/7/status",
    "proc/7/task/7/sched",
    "proc/7/task/7/schedstat",
    "proc/7/task/7/io",
    "proc/7/task/7/cgroup",
    "proc/7/task/7/comm",
    "proc/7/smaps_rollup",
    "proc/self/mountinfo",
    "proc/loadavg",
    "proc/uptime",
    "proc/stat",
    "proc/meminfo",
    "proc/cpuinfo",
    "proc/cmdline",
    "proc/version",
    "proc/config.gz",
    "proc/pressure/cpu",
    "proc/pressure/memory",
    "proc/pressure/io",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/hostname",
    "proc/sys/kernel/sched_schedstats",
    "proc/sys/kernel/task_delayacct",
    "cgroup/cpu.stat",
    "cgroup/cpu.max",
    "cgroup/cpu.weight",
    "cgroup/cpu.pressure",
    "cgroup/memory.stat",
    "cgroup/memory.current",
    "cgroup/memory.max",
    "cgroup/memory.events",
    "cgroup/io.stat",
    "cgroup/pids.current",
    "cgroup/pids.max",
    "sys/devices/system/cpu/online",
    "sys/kernel/sched_ext/state",
    "sys/kernel/sched_ext/root/ops",
    "proc/7/stat",
    "proc/7/io",
    "proc/schedstat",
];

/// Where the files are, in memory if that can be had.
static ROOT: LazyLock<TempDir> = LazyLock::new(|| {
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    for file in FILES {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().expect("a file in a directory")).expect("directories");
    }
    root
});

fn put(root: &Path, mut input: &[u8]) -> Vec<PathBuf> {
    let mut put = Vec::new();
    while let [file, low, high, rest @ ..] = input {
        let (content, rest) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(rest.len()));
        let path = root.join(FILES[usize::from(*file) % FILES.len()]);
        fs::write(&path, content).expect("a file");
        put.push(path);
        input = rest;
    }
    put
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let root = ROOT.path();
    let put = put(root, input);
    let mut options = Options::default();
    options.roots.procfs = root.join("proc");
    options.roots.sysfs = root.join("sys");
    options.roots.cgroupfs = Some(root.join("cgroup"));
    options.jobs = NonZeroUsize::new(1);
    match capture_with(&options) {
        Ok(snapshot) => {
            let file = root.join("snapshot");
            snapshot.write(&file).expect("a snapshot that can be written");
            assert_eq!(CtprofSnapshot::load(&file).expect("a snapshot that can be read"), snapshot);
        }
        Err(CaptureError::NoThreads(_)) => {}
        Err(error) => panic!("the tree can be read: {error}"),
    }
    put.iter().for_each(|path| drop(fs::remove_file(path)));
});
