//! Settings of the host that tests change, restored at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::Duration;

/// A process, killed at the end.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A sysctl.
pub(crate) struct Sysctl(&'static str, String);

impl Sysctl {
    /// `None` if it cannot be set.
    pub(crate) fn set(path: &'static str, value: &str) -> Option<Self> {
        let before = fs::read_to_string(path).ok()?;
        fs::write(path, value).ok()?;
        Some(Self(path, before))
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        let _ = fs::write(self.0, &self.1);
    }
}

/// The directory of a cgroup. Its processes must have exited at the end, or be about to.
pub(crate) struct CgroupDirectory(pub(crate) PathBuf);

impl CgroupDirectory {
    /// A new cgroup that processes can enter; `None` if there can be none.
    pub(crate) fn create(parent: &Path, name: &str) -> Option<Self> {
        let directory = Self(parent.join(name));
        fs::create_dir(&directory.0).ok()?;
        // Before a cgroup of version 1 has CPUs and memory nodes, no process can enter it.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(value) = fs::read(parent.join(file)) {
                let _ = fs::write(directory.0.join(file), value);
            }
        }
        Some(directory)
    }
}

impl Drop for CgroupDirectory {
    fn drop(&mut self) {
        while self.0.exists() && fs::remove_dir(&self.0).is_err() {
            thread::sleep(Duration::from_millis(10));
        }
    }
}
