//! The engine that read the threads of a capture: why BPF could not, or what it did.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::stored_name::{clause, stored_names};

stored_names! {
    /// Why the BPF engine could not read the threads.
    pub enum BpfObstacle {
        /// The capture read another procfs than the running kernel's.
        NotLive = "not-live",
        /// BPF reads the threads of all processes, not of the selected ones (`--pid`).
        SelectedProcesses = "selected-processes",
        /// The kernel lacks CONFIG_DEBUG_INFO_BTF: there is no type information of its own in /sys/kernel/btf/vmlinux.
        NoBtf = "no-btf",
        /// The type information of the kernel is not visible: /sys is not mounted here, or may not be read.
        NoSysfs = "no-sysfs",
        /// The kernel lacks CONFIG_BPF_SYSCALL, or BPF iterators over tasks, which Linux 5.8 introduced.
        NoTaskIterator = "no-task-iterator",
        /// BPF requires cap_bpf and cap_perfmon.
        NoCapability = "permission-denied",
        /// BPF requires the initial user namespace.
        UserNamespace = "user-namespace",
        /// BPF requires the initial PID and time namespaces.
        PidNamespace = "pid-namespace",
        /// The kernel is locked down (lockdown=confidentiality), where BPF requires Linux 6.12.
        Lockdown = "lockdown",
        /// A seccomp filter denies bpf(2).
        Seccomp = "seccomp",
        /// The limit on locked memory is too low for BPF before Linux 5.11.
        MemoryLock = "memory-lock-limit",
        /// The kernel denied bpf(2) despite the capabilities: blocked by an LSM.
        Denied = "permission-denied-despite-capability",
        /// The verifier of the kernel rejected a program.
        Verifier = "verifier",
        /// An unexpected error of the kernel.
        Failed = "error",
    }
}

/// Why the BPF engine did not read the threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NoBpf {
    /// Reason why BPF was not used.
    pub cause: BpfObstacle,
    /// Name of the kernel's error, or the end of the verifier's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl NoBpf {
    pub(crate) fn with_detail(cause: BpfObstacle, detail: impl Into<String>) -> Self {
        Self { cause, detail: Some(detail.into()) }
    }
}

/// The reason as a clause, and the detail.
impl fmt::Display for NoBpf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, detail } = self;
        f.write_str(&clause(cause.meaning().unwrap_or(cause.name())))?;
        detail.iter().try_for_each(|detail| write!(f, " ({detail})"))
    }
}

impl From<BpfObstacle> for NoBpf {
    fn from(cause: BpfObstacle) -> Self {
        Self { cause, detail: None }
    }
}

stored! {
    /// Report of the BPF engine about one capture.
    #[derive(Eq)]
    pub struct BpfUse {
        /// Time to read the kernel's type information and to load the programs, in nanoseconds.
        pub setup_ns: u64,
        /// Names of the metrics without values because the kernel's verifier rejected access to their fields.
        optional dropped: Vec<String>,
        /// Number of processes that `/proc` lists and the BPF iterator did not return. procfs read them.
        pub missed_processes: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CaptureInfo, CaptureOptions};
    use super::*;

    #[test]
    fn an_obstacle_says_who_denied_what() {
        let denied = NoBpf::with_detail(BpfObstacle::Denied, "EPERM").to_string();
        assert_eq!(denied, "the kernel denied bpf(2) despite the capabilities: blocked by an LSM (EPERM)");
    }

    #[test]
    fn captures_of_older_versions_do_not_say_why_procfs_read_the_threads() {
        let old = r#"{"tool":"ctprof","engine":"procfs","options":{"smaps":"auto"}}"#;
        let old: CaptureInfo = serde_json::from_str(old).unwrap();
        assert_eq!((&old.no_bpf, &old.bpf, &old.options.engine), (&None, &None, &None));
        let written = serde_json::to_value(&old).unwrap();
        assert!(written.get("no_bpf").is_none() && written.get("bpf").is_none(), "{written}");
        assert_eq!(serde_json::to_value(CaptureOptions::default()).unwrap().get("engine"), None);
    }

    #[test]
    fn an_obstacle_that_a_newer_version_wrote_is_kept() {
        let json = r#"{"cause":"no-patience","detail":"EAGAIN"}"#;
        let no_bpf: NoBpf = serde_json::from_str(json).unwrap();
        assert_eq!(no_bpf, NoBpf::with_detail(BpfObstacle::Other("no-patience".into()), "EAGAIN"));
        assert_eq!(serde_json::to_string(&no_bpf).unwrap(), json);
    }
}
