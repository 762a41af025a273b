//! Capabilities that this process has, and capabilities that a command needs.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::thread;

use nix::errno::Errno;
use nix::unistd::{getegid, geteuid, getgid, getuid};

use crate::sys::capabilities::{Inheritable, keep, limit_effective, set_effective};

/// The capabilities that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Privileges {
    /// Read any process, load BPF programs, use taskstats, open mapped files of processes, and write files like
    /// root.
    Capture,
    /// Like `Capture`. Also lower the nice values of the threads that capture and that receive records.
    Record,
    /// Like `Record`. Also start commands, which get the capabilities that they would have without ctprof, and forward
    /// signals to them even if they change their user.
    RecordCommand,
    /// Only read and write files like root, where the caller may. For commands that parse untrusted files.
    Files,
}

/// This process has rights that it cannot drop.
#[derive(Debug, thiserror::Error)]
pub enum CannotDrop {
    /// The kernel, or a filter of system calls, refuses.
    #[error(
        "cannot drop capabilities ({0}): ctprof does not continue with them. Fix: allow capset(2) in the seccomp filter"
    )]
    Capabilities(Errno),
    /// The file system would take each access for one of the file's owner.
    #[error(
        "ctprof does not run setuid or setgid: every user could write files of its owner. Fix: chmod u-s,g-s its file, \
         and grant capabilities with setcap (ctprof doctor)"
    )]
    OtherUser,
}

impl Privileges {
    fn include(self, name: &str) -> bool {
        match self {
            Self::Files => ["dac_override", "dac_read_search", "fowner"].contains(&name),
            Self::Capture => {
                let reads = ["net_admin", "sys_ptrace", "checkpoint_restore"];
                Self::Files.include(name) || reads.contains(&name) || LOADS_BPF.contains(&name)
            }
            Self::Record => Self::Capture.include(name) || name == "sys_nice",
            Self::RecordCommand => Self::Record.include(name) || name == "kill",
        }
    }

    /// Returns the capabilities to keep out of the permitted ones. `sys_admin` also loads BPF programs, and may do far more: it
    /// is kept only where the others are missing.
    fn kept(self, permitted: u64, of_caller: u64) -> u64 {
        let kept = mask(|name| self.include(name));
        if self == Self::Files {
            return kept & of_caller;
        }
        let suffices = mask(|name| ["bpf", "perfmon"].contains(&name));
        if permitted & suffices == suffices { kept & !mask(|name| name == "sys_admin") } else { kept }
    }

    /// Drops all other capabilities, in the calling thread and threads that it starts later. Those that only the file `ctprof`
    /// has are set aside until `with_file_capabilities`.
    ///
    /// # Errors
    /// [`CannotDrop`] if this thread still has them.
    pub fn keep(self) -> Result<(), CannotDrop> {
        if getuid() != geteuid() || getgid() != getegid() {
            return Err(CannotDrop::OtherUser);
        }
        self.limit(self.kept(permitted(), of_caller()))
    }

    /// Like [`keep`](Self::keep). Also drops the capabilities that only loading BPF programs needs, after that. A command that
    /// is started later still gets them if it would have them without ctprof.
    ///
    /// # Errors
    /// [`CannotDrop`] if this thread still has them.
    pub fn keep_after_loading(self) -> Result<(), CannotDrop> {
        self.limit(self.kept_after_loading())
    }

    /// Like [`keep_after_loading`](Self::keep_after_loading). Also drops what only commands need, after the last one was started.
    ///
    /// # Errors
    /// [`CannotDrop`] if this thread still has them.
    pub fn keep_after_starting(self) -> Result<(), CannotDrop> {
        limit(self.kept_after_loading(), Inheritable::Limit)
    }

    fn kept_after_loading(self) -> u64 {
        self.kept(permitted(), of_caller()) & !mask(|name| LOADS_BPF.contains(&name))
    }

    fn limit(self, kept: u64) -> Result<(), CannotDrop> {
        limit(kept, if self == Self::RecordCommand { Inheritable::Keep } else { Inheritable::Limit })
    }
}

fn limit(kept: u64, inheritable: Inheritable) -> Result<(), CannotDrop> {
    keep(kept, inheritable).and_then(|()| limit_effective(of_caller())).map_err(CannotDrop::Capabilities).map(drop)
}

/// Drops what a thread that reads does not need: it neither loads BPF programs nor starts commands.
pub(super) fn keep_to_read() {
    let kept = Privileges::Record.kept_after_loading();
    keep(kept, Inheritable::Limit).expect("the thread that started this one could drop capabilities");
}

/// Capabilities for loading BPF programs. Before Linux 5.11, their memory counts as locked, and `sys_resource`
/// raises the limit.
const LOADS_BPF: [&str; 4] = ["bpf", "perfmon", "sys_admin", "sys_resource"];

/// Drops the capabilities that only the file `ctprof` has (`setcap`). They are for files of the kernel, and would let every
/// user who may execute ctprof read any other file.
pub(crate) fn drop_file_capabilities() -> Result<(), CannotDrop> {
    limit(of_caller(), Inheritable::Keep)
}

/// Does `work` with the capabilities of the file `ctprof` too, also in threads that it starts. They are for files of the kernel:
/// no path of the user is opened here, nor a program executed.
///
/// # Errors
/// [`CannotDrop`] if this thread still has them.
pub(crate) fn with_file_capabilities<T>(work: impl FnOnce() -> T) -> Result<T, CannotDrop> {
    with_effective(set_effective(u64::MAX), work)
}

/// Starts a thread for `work` with the capabilities of the file `ctprof` too, but without capabilities that only loading BPF
/// programs or starting commands needs.
///
/// # Errors
/// If a limit does not allow another thread.
pub(crate) fn start_reader(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let run = move || {
        Privileges::Record.keep_after_loading()?;
        with_file_capabilities(work)
    };
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Does `work` with the rights of the user who started this process, and none that only its file has.
///
/// # Errors
/// [`CannotDrop`] if the capabilities cannot be set aside: then nothing is done.
pub(crate) fn as_caller<T>(work: impl FnOnce() -> T) -> Result<T, CannotDrop> {
    with_effective(limit_effective(of_caller()), work)
}

/// Does `work`, and makes what was effective before effective again.
fn with_effective<T>(before: Result<u64, Errno>, work: impl FnOnce() -> T) -> Result<T, CannotDrop> {
    let before = before.map_err(CannotDrop::Capabilities)?;
    let done = catch_unwind(AssertUnwindSafe(work));
    set_effective(before).map_err(CannotDrop::Capabilities)?;
    Ok(done.unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Capabilities that the caller has without the file's: exec(2) of a file with capabilities clears the ambient set.
fn of_caller() -> u64 {
    if getuid().is_root() { u64::MAX } else { ambient() }
}

/// The ambient set of capabilities that this process was started with.
fn ambient() -> u64 {
    static AMBIENT: OnceLock<u64> = OnceLock::new();
    *AMBIENT.get_or_init(|| set("CapAmb:"))
}

/// Names of the capabilities that a caller other than root has without the file's.
pub(crate) fn names_of_ambient() -> Vec<String> {
    if getuid().is_root() { Vec::new() } else { named(ambient()) }
}

/// Names of the effective capabilities of this thread.
pub(crate) fn held() -> Vec<String> {
    named(set("CapEff:"))
}

/// Whether neither root nor the file of a program can give this process all capabilities that fixes name, as in most containers.
pub(crate) fn is_confined() -> bool {
    let needed = mask(|name| ["bpf", "dac_read_search", "net_admin", "perfmon", "sys_ptrace"].contains(&name));
    set("CapBnd:") & needed != needed || set("NoNewPrivs:") == 1
}

fn permitted() -> u64 {
    set("CapPrm:")
}

/// Returns a capability set of this thread.
fn set(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(key));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn mask(includes: impl Fn(&str) -> bool) -> u64 {
    let bits = CAPABILITIES.split(' ').enumerate().filter(|(_, name)| includes(name));
    bits.map(|(bit, _)| 1 << bit).sum()
}

fn named(mask: u64) -> Vec<String> {
    let held = |(bit, name): (usize, &str)| (mask >> bit & 1 == 1).then(|| format!("cap_{name}"));
    CAPABILITIES.split(' ').enumerate().filter_map(held).collect()
}

/// In the order of `include/uapi/linux/capability.h`.
pub(crate) const CAPABILITIES: &str = "\
    chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service \
    net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct \
    sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap \
    mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cap_sys_admin_is_kept_only_where_cap_bpf_or_cap_perfmon_is_missing() {
        let (admin, perfmon, bpf) = (1 << 21, 1 << 38, 1 << 39);
        for privileges in [Privileges::Capture, Privileges::Record] {
            let keeps_admin = |permitted| privileges.kept(permitted, 0) & admin == admin;
            let cases = [admin, admin | bpf, admin | perfmon, admin | bpf | perfmon];
            assert_eq!(cases.map(keeps_admin), [true, true, true, false], "{privileges:?}");
            assert_eq!(privileges.kept(u64::MAX, 0) & (bpf | perfmon), bpf | perfmon);
        }
        assert_eq!(Privileges::Files.kept(u64::MAX, u64::MAX) & (admin | perfmon | bpf), 0);
    }

    #[test]
    fn capabilities_have_the_kernels_names() {
        assert_eq!(named(1 << 19 | 1 << 12 | 1 << 2), ["cap_dac_read_search", "cap_net_admin", "cap_sys_ptrace"]);
        assert_eq!(named(1 << 40), ["cap_checkpoint_restore"]);
        assert_eq!(named(0), [] as [&str; 0]);
    }
}
