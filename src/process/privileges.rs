//! Capabilities that this process has, and capabilities that a command needs.

use std::fs;

use crate::sys::capabilities::{Inheritable, keep};

/// The capabilities that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Privileges {
    /// Read any process, use taskstats, open mapped files of processes, and write files like root.
    Capture,
    /// Like `Capture`. Also start a command, which gets the capabilities that it would have without ctprof,
    /// and forward signals to it even if it changes its user.
    Record,
    /// Only read and write files like root. For commands that parse untrusted files.
    Files,
}

impl Privileges {
    fn include(self, name: &str) -> bool {
        match self {
            Self::Files => ["dac_override", "dac_read_search", "fowner"].contains(&name),
            Self::Capture => {
                Self::Files.include(name) || ["net_admin", "sys_ptrace", "checkpoint_restore"].contains(&name)
            }
            Self::Record => Self::Capture.include(name) || name == "kill",
        }
    }

    /// Drops all other capabilities, in the calling thread and threads it starts later.
    pub fn keep(self) {
        let bits = CAPABILITIES.iter().enumerate().filter(|(_, name)| self.include(name));
        let inheritable = if self == Self::Record { Inheritable::Keep } else { Inheritable::Limit };
        if let Err(errno) = keep(bits.map(|(bit, _)| 1 << bit).sum(), inheritable) {
            tracing::debug!(%errno, "cannot drop capabilities");
        }
    }
}

/// Names of the effective capabilities of this process.
pub(crate) fn held() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    named(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
}

fn named(mask: u64) -> Vec<String> {
    let held = |(bit, name): (usize, &&str)| (mask >> bit & 1 == 1).then(|| format!("cap_{name}"));
    CAPABILITIES.iter().enumerate().filter_map(held).collect()
}

/// In the order of `include/uapi/linux/capability.h`.
pub(crate) const CAPABILITIES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_have_the_kernels_names() {
        assert_eq!(named(1 << 19 | 1 << 12 | 1 << 2), ["cap_dac_read_search", "cap_net_admin", "cap_sys_ptrace"]);
        assert_eq!(named(1 << 40), ["cap_checkpoint_restore"]);
        assert_eq!(named(0), [] as [&str; 0]);
    }
}
