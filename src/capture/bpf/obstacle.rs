//! Why bpf(2) failed: from its error and what the kernel says about this process.

use std::path::Path;
use std::{fs, io};

use nix::errno::Errno;

use crate::model::{BpfObstacle, NoBpf, at_least};
use crate::sys::bpf::kernel_btf;
use crate::sys::seccomp::RiskyCall;

/// Facts that decide about bpf(2), as text from the kernel. A file that cannot be read is empty.
#[derive(Debug)]
struct BpfRights {
    /// `/proc/thread-self/status`: capabilities belong to threads.
    status: String,
    /// Target of `/proc/self/ns/user`.
    user_namespace: String,
    /// Release of the kernel.
    release: String,
    /// `/sys/kernel/security/lockdown`.
    lockdown: String,
    /// Content of `/proc/self/limits`.
    limits: String,
}

/// The obstacle that is certain before bpf(2) is called: it costs a few small files, and the kernel's type
/// information megabytes.
pub(super) fn before_loading() -> Result<(), NoBpf> {
    // Records have the ids and times of the initial namespaces. A kernel without namespaces has no link.
    let is_other = |(path, initial)| fs::read_link(path).is_ok_and(|link| link.as_os_str() != initial);
    if INITIAL_NAMESPACES.into_iter().any(is_other) {
        return Err(BpfObstacle::PidNamespace.into());
    }
    without_type_information(Path::new(kernel_btf::PATH), Path::new("/sys/kernel"))?;
    match BpfRights::read().privilege() {
        Some(cause) => Err(cause.into()),
        None if !RiskyCall::Bpf.returns() => Err(NoBpf::with_detail(BpfObstacle::Seccomp, "it kills the caller")),
        None => Ok(()),
    }
}

/// Refuses a kernel without type information in `file`. Where its directory `kernel` is not visible, nobody knows whether the kernel
/// has it.
fn without_type_information(file: &Path, kernel: &Path) -> Result<(), NoBpf> {
    match file.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) if kernel.exists() => Err(BpfObstacle::NoBtf.into()),
        Ok(false) | Err(_) => Err(BpfObstacle::NoSysfs.into()),
    }
}

/// Why BPF is not used where `/proc` is of another PID namespace than this process: the process is not in the initial namespaces, or
/// only `/proc` is not.
pub(in crate::capture) fn of_other_ids() -> NoBpf {
    let obstacle = before_loading().err().filter(|no_bpf| no_bpf.cause == BpfObstacle::PidNamespace);
    obstacle.unwrap_or(BpfObstacle::NotLive.into())
}

/// Why bpf(2) failed. `reason` is what the verifier says, if it was asked.
pub(super) fn explain(errno: Errno, reason: &str) -> NoBpf {
    let no_bpf = BpfRights::read().explain(errno, reason);
    tracing::info!(?errno, cause = %no_bpf.cause, reason, "BPF is not available");
    no_bpf
}

pub(super) fn of_errno(errno: Errno) -> NoBpf {
    explain(errno, "")
}

/// Why the kernel's type information cannot be read.
pub(super) fn without_types(error: &io::Error) -> NoBpf {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => BpfObstacle::NoBtf.into(),
        Some(errno) => of_errno(errno),
        None => NoBpf::with_detail(BpfObstacle::NoBtf, error.to_string()),
    }
}

impl BpfRights {
    fn read() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let user_namespace = fs::read_link("/proc/self/ns/user").unwrap_or_default();
        Self {
            status: text("/proc/thread-self/status"),
            user_namespace: user_namespace.to_string_lossy().into_owned(),
            release: text("/proc/sys/kernel/osrelease"),
            lockdown: text("/sys/kernel/security/lockdown"),
            limits: text("/proc/self/limits"),
        }
    }

    fn explain(&self, errno: Errno, reason: &str) -> NoBpf {
        // Before 6.12, the lockdown takes helpers away from programs, which the verifier then rejects.
        let locked_down = self.lockdown.contains("[confidentiality]") && !self.is_since((6, 12));
        let cause = match errno {
            _ if !reason.is_empty() && locked_down => BpfObstacle::Lockdown,
            _ if !reason.is_empty() => return NoBpf::with_detail(BpfObstacle::Verifier, reason),
            Errno::ENOSYS if self.is_filtered() => BpfObstacle::Seccomp,
            Errno::ENOSYS => BpfObstacle::NoTaskIterator,
            Errno::EPERM | Errno::EACCES => match self.privilege() {
                Some(cause) => cause,
                None if self.lacks_locked_memory() => BpfObstacle::MemoryLock,
                None if self.is_filtered() => BpfObstacle::Seccomp,
                None if locked_down => BpfObstacle::Lockdown,
                None => BpfObstacle::Denied,
            },
            _ => BpfObstacle::Failed,
        };
        NoBpf::with_detail(cause, format!("{errno:?}"))
    }

    /// The missing privilege. The kernel checks capabilities in the initial user namespace only (`bpf_capable`
    /// and `perfmon_capable` of `include/linux/capability.h`).
    fn privilege(&self) -> Option<BpfObstacle> {
        if !["", INITIAL_USER_NAMESPACE].contains(&&*self.user_namespace) {
            return Some(BpfObstacle::UserNamespace);
        }
        let effective = u64::from_str_radix(self.field("CapEff:")?, 16).ok()?;
        let held = |bits: u64| effective & bits == bits;
        let suffices = held(CAP_SYS_ADMIN) || held(CAP_PERFMON | CAP_BPF);
        (!suffices).then_some(BpfObstacle::NoCapability)
    }

    /// Whether a seccomp filter is installed (`SECCOMP_MODE_FILTER`).
    fn is_filtered(&self) -> bool {
        self.field("Seccomp:") == Some("2")
    }

    /// Whether the limit on locked memory can have failed bpf(2), which then reports EPERM.
    fn lacks_locked_memory(&self) -> bool {
        let limit = self.limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
        let bytes = limit.and_then(|limit| limit.split_whitespace().next()?.parse::<u64>().ok());
        !self.is_since((5, 11)) && bytes.is_some_and(|bytes| bytes < ENOUGH_LOCKED_BYTES)
    }

    fn field(&self, key: &str) -> Option<&str> {
        self.status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
    }

    fn is_since(&self, version: (u32, u32)) -> bool {
        at_least(Some(&self.release), version)
    }
}

/// `PROC_USER_INIT_INO` of `include/linux/proc_ns.h`.
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";
/// Inode numbers of the initial namespaces: `PROC_PID_INIT_INO` and `PROC_TIME_INIT_INO`.
const INITIAL_NAMESPACES: [(&str, &str); 2] =
    [("/proc/self/ns/pid", "pid:[4026531836]"), ("/proc/self/ns/time", "time:[4026531834]")];

const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// More than all programs and maps take.
const ENOUGH_LOCKED_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of `/proc/self/status`, Linux 6.18.
    fn status(effective: &str, seccomp: u8) -> String {
        format!(
            "Name:\tctprof\nUmask:\t0022\nCapInh:\t0000000000000000\nCapPrm:\t{effective}\nCapEff:\t{effective}\n\
             CapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t{seccomp}\n\
             Seccomp_filters:\t{seccomp}\n"
        )
    }

    const ALL: &str = "000001ffffffffff";
    const NONE: &str = "0000000000000000";

    fn root() -> BpfRights {
        BpfRights {
            status: status(ALL, 0),
            user_namespace: INITIAL_USER_NAMESPACE.to_owned(),
            release: "6.18.44-fc-v595".to_owned(),
            lockdown: "[none] integrity confidentiality".to_owned(),
            limits: "Max locked memory         8388608              8388608              bytes     \n".to_owned(),
        }
    }

    fn cause(rights: &BpfRights, errno: Errno) -> BpfObstacle {
        rights.explain(errno, "").cause
    }

    #[test]
    fn a_denial_without_capabilities_names_them_and_not_the_seccomp_filter_of_the_container() {
        let plain = BpfRights { status: status(NONE, 2), ..root() };
        assert_eq!(plain.explain(Errno::EPERM, ""), NoBpf::with_detail(BpfObstacle::NoCapability, "EPERM"));
        assert_eq!(plain.privilege(), Some(BpfObstacle::NoCapability));
    }

    #[test]
    fn cap_bpf_with_cap_perfmon_or_cap_sys_admin_alone_suffices() {
        let privilege = |effective| BpfRights { status: status(effective, 0), ..root() }.privilege();
        assert_eq!(["000000c000000000", "0000000000200000", ALL].map(privilege), [None, None, None]);
        let lacking = Some(BpfObstacle::NoCapability);
        assert_eq!(["0000008000000000", "0000004000000000"].map(privilege), [lacking.clone(), lacking]);
    }

    #[test]
    fn capabilities_of_another_user_namespace_do_not_count() {
        let user_namespace = "user:[4026532249]".to_owned();
        assert_eq!(cause(&BpfRights { user_namespace, ..root() }, Errno::EPERM), BpfObstacle::UserNamespace);
        let unknown = BpfRights { user_namespace: String::new(), ..root() };
        assert_eq!(cause(&unknown, Errno::EPERM), BpfObstacle::Denied);
    }

    #[test]
    fn a_seccomp_filter_is_told_from_a_kernel_without_bpf() {
        let filtered = BpfRights { status: status(ALL, 2), ..root() };
        for errno in [Errno::EPERM, Errno::ENOSYS] {
            assert_eq!(cause(&filtered, errno), BpfObstacle::Seccomp);
        }
        assert_eq!(cause(&root(), Errno::ENOSYS), BpfObstacle::NoTaskIterator);
    }

    #[test]
    fn a_lockdown_is_the_cause_below_linux_6_12_only() {
        let locked = |release: &str| BpfRights {
            lockdown: "none integrity [confidentiality]".to_owned(),
            release: release.to_owned(),
            ..root()
        };
        assert_eq!(cause(&locked("6.1.0-28-amd64"), Errno::EPERM), BpfObstacle::Lockdown);
        let log = "unknown func bpf_probe_read_kernel#113\n";
        assert_eq!(locked("6.1.0-28-amd64").explain(Errno::EINVAL, log).cause, BpfObstacle::Lockdown);
        assert_eq!(locked("6.12.41+deb13-amd64").explain(Errno::EINVAL, log).cause, BpfObstacle::Verifier);
        let integrity = BpfRights { lockdown: "none [integrity] confidentiality".to_owned(), ..root() };
        assert_eq!(cause(&integrity, Errno::EPERM), BpfObstacle::Denied);
    }

    #[test]
    fn a_low_limit_on_locked_memory_is_the_cause_below_linux_5_11_only() {
        let old = BpfRights { release: "5.10.0-32-cloud-amd64".to_owned(), ..root() };
        assert_eq!(cause(&old, Errno::EPERM), BpfObstacle::MemoryLock);
        let unlimited = "Max locked memory         unlimited            unlimited            bytes     \n".to_owned();
        assert_eq!(cause(&BpfRights { limits: unlimited, ..old }, Errno::EPERM), BpfObstacle::Denied);
        assert_eq!(cause(&root(), Errno::EPERM), BpfObstacle::Denied);
    }

    #[test]
    fn a_rejected_program_has_the_reason_of_the_verifier() {
        let reason = "12: (79) r2 = *(u64 *)(r6 +4242); access beyond struct pid at off 112 size 4";
        assert_eq!(root().explain(Errno::EACCES, reason), NoBpf::with_detail(BpfObstacle::Verifier, reason));
    }

    #[test]
    fn what_the_kernel_says_about_this_process_is_found() {
        let rights = BpfRights::read();
        assert!(rights.field("CapEff:").is_some() && rights.field("Seccomp:").is_some(), "{}", rights.status);
        assert!(rights.is_since((5, 0)) && rights.user_namespace.starts_with("user:["), "{rights:?}");
        assert!(rights.limits.lines().any(|line| line.starts_with("Max locked memory")), "{}", rights.limits);
        let before = before_loading().err().map(|no_bpf| no_bpf.cause);
        assert!(before == rights.privilege() || before == Some(BpfObstacle::PidNamespace), "{before:?}");
    }

    #[test]
    fn an_unexpected_error_is_named() {
        assert_eq!(explain(Errno::ENOMEM, ""), NoBpf::with_detail(BpfObstacle::Failed, "ENOMEM"));
    }
}
