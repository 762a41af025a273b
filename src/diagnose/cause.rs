//! Why a source, or a part of it, is missing.

use std::fmt;

use super::{Capability, Fix};
use crate::model::{BpfObstacle, Errno, NoBpf, ProbeFailure};

coded! {
    /// Why a source, or a part of it, is missing.
    pub enum Cause {
        /// The kernel denied access: a capability is missing.
        Denied {
            /// The capability that would allow it.
            capability: Capability,
            /// The kernel's error.
            errno: Errno,
        } = "permission-denied",
        /// The kernel denied access although the capability is held: by an LSM or a user namespace.
        DeniedDespite {
            /// The capability that is held.
            capability: Capability,
            /// The kernel's error.
            errno: Errno,
        } = "permission-denied-despite-capability",
        /// The file has mode 0400, and the capability to read any file is missing.
        FileMode {
            /// The kernel's error.
            errno: Errno,
        } = "file-mode",
        /// ptrace was denied although `cap_sys_ptrace` is held.
        AttachDenied = "attach-denied",
        /// A step of the jemalloc probe failed.
        ProbeFailed {
            /// The most frequent failure.
            failure: ProbeFailure,
        } = "probe-failed",
        /// The BPF engine is not available, so procfs read the threads.
        NoBpf {
            /// The obstacle.
            no_bpf: NoBpf,
        } = "no-bpf",
        /// The verifier of the kernel rejected access to the fields of metrics.
        FieldsRejected = "fields-rejected",
        /// The BPF iterator did not return processes that `/proc` lists, so procfs read them.
        MissedByIterator = "missed-by-iterator",
        /// The kernel was built without an option.
        KernelLacks {
            /// The option, without `CONFIG_`.
            option: &'static str,
        } = "kernel-lacks-option",
        /// The kernel has no such file.
        KernelLacksFile = "kernel-lacks-file",
        /// The kernel has no such fields.
        KernelLacksFields = "kernel-lacks-fields",
        /// A sysctl is 0.
        SysctlOff {
            /// The sysctl.
            sysctl: &'static str,
        } = "sysctl-off",
        /// The sysctl was set after boot: threads that started before are not covered.
        EnabledLate {
            /// What these threads have.
            older: Older,
        } = "enabled-late",
        /// Disabled at boot.
        BootOff = "disabled-at-boot",
        /// Disabled at boot, or the kernel was built without an option: the two cannot be told apart.
        BootOffOrKernelLacks {
            /// The option, without `CONFIG_`.
            option: &'static str,
        } = "disabled-or-not-built",
        /// ctprof runs in another namespace than the host's.
        OtherNamespace {
            /// Which namespace.
            kind: Namespace,
        } = "other-namespace",
        /// taskstats is not there: not built, or another network namespace.
        NamespaceOrKernelLacks {
            /// The option, without `CONFIG_`.
            option: &'static str,
        } = "namespace-or-not-built",
        /// procfs is mounted with `hidepid`.
        HiddenByMount {
            /// The value of `hidepid`.
            hidepid: String,
        } = "hidden-by-mount",
        /// No cgroup hierarchy is mounted.
        NotMounted = "not-mounted",
        /// The cgroup is outside ctprof's cgroup namespace, or was removed.
        CgroupGone = "cgroup-gone",
        /// The process exceeds `--smaps-max-rss`.
        TooLarge = "too-large",
        /// Reading `smaps_rollup` of smaller processes took all the time that a capture spends on it.
        OutOfTime = "out-of-time",
        /// The limit on open files was reached.
        OpenFileLimit {
            /// The kernel's error.
            errno: Errno,
        } = "open-file-limit",
        /// Disabled by an option of `ctprof capture`.
        DisabledByOption {
            /// The option as on the command line.
            option: &'static str,
        } = "disabled-by-option",
        /// Only a live host has it, and the capture read another procfs.
        NotLive = "not-live",
        /// taskstats did not answer.
        NoAnswer = "no-answer",
        /// taskstats cannot be opened.
        CannotOpen {
            /// The kernel's error.
            errno: Errno,
        } = "cannot-open",
        /// The kernel's delays are longer than the thread has lived, so that they are dropped.
        ImpossibleDelays = "impossible-delays",
        /// ctprof panicked (a bug) while it read a process, or a part of a large one.
        Panicked = "panic",
        /// Another error of the kernel.
        Failed {
            /// The kernel's error.
            errno: Errno,
        } = "error",
        /// The snapshot does not say.
        Unknown = "unknown",
    }
}

/// What threads have that started before their delays were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Older {
    /// The value 0, from taskstats.
    Zero,
    /// No value.
    Absent,
}

/// A kind of namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Namespace {
    /// PID namespace.
    Pid,
    /// Network namespace.
    Network,
    /// User namespace.
    User,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied { capability, errno } => {
                write!(f, "permission denied ({errno}): requires {capability}")
            }
            Self::DeniedDespite { capability, errno } => {
                write!(f, "permission denied ({errno}) despite {capability}: blocked by an LSM or a user namespace")
            }
            Self::FileMode { errno } => {
                write!(f, "permission denied ({errno}) by file mode 0400: requires {}", Capability::DacReadSearch)
            }
            Self::AttachDenied => f.write_str("already traced, or blocked by an LSM, seccomp or a user namespace"),
            Self::ProbeFailed { failure } => match failure.meaning() {
                Some(meaning) => write!(f, "mostly {failure}. {}", meaning.trim_end_matches('.')),
                None => write!(f, "mostly {failure}"),
            },
            Self::NoBpf { no_bpf } => f.write_str(&obstacle(no_bpf)),
            Self::FieldsRejected => f.write_str("the kernel's verifier rejected access to their fields"),
            Self::MissedByIterator => f.write_str("not returned by the BPF iterator"),
            Self::KernelLacks { option } => write!(f, "kernel lacks CONFIG_{option}"),
            Self::KernelLacksFile => f.write_str("kernel has no such file"),
            Self::KernelLacksFields => f.write_str("kernel has no such fields"),
            Self::SysctlOff { sysctl } => write!(f, "{sysctl}=0"),
            Self::EnabledLate { older: Older::Zero } => f.write_str("threads started before it was enabled show 0"),
            Self::EnabledLate { older: Older::Absent } => {
                f.write_str("threads started before it was enabled have no value")
            }
            Self::BootOff => f.write_str("disabled at boot"),
            Self::BootOffOrKernelLacks { option } => {
                write!(f, "disabled at boot, or kernel lacks CONFIG_{option}")
            }
            Self::OtherNamespace { kind: Namespace::Pid } => f.write_str("only this PID namespace is visible"),
            Self::OtherNamespace { kind: Namespace::Network } => f.write_str("not available in this network namespace"),
            Self::OtherNamespace { kind: Namespace::User } => {
                write!(f, "permission denied despite {}: not the initial user namespace", Capability::NetAdmin)
            }
            Self::NamespaceOrKernelLacks { option } => {
                write!(f, "kernel lacks CONFIG_{option}, or not available in this network namespace")
            }
            Self::HiddenByMount { hidepid } => write!(f, "procfs is mounted with hidepid={hidepid}"),
            Self::NotMounted => f.write_str("no cgroup hierarchy is mounted"),
            Self::CgroupGone => f.write_str("outside this cgroup namespace, or removed"),
            Self::TooLarge => f.write_str("above --smaps-max-rss"),
            Self::OutOfTime => f.write_str("time limit reached"),
            Self::OpenFileLimit { errno } => write!(f, "too many open files ({errno})"),
            Self::DisabledByOption { option } => write!(f, "disabled by {option}"),
            Self::NotLive => f.write_str("only available on a live host"),
            Self::NoAnswer => f.write_str("no answer from taskstats"),
            Self::CannotOpen { errno } => write!(f, "cannot open taskstats: {errno}"),
            Self::ImpossibleDelays => f.write_str("the kernel's are longer than the threads have lived"),
            Self::Panicked => f.write_str("ctprof panicked while reading them"),
            Self::Failed { errno } => write!(f, "{errno}"),
            Self::Unknown => f.write_str("not recorded"),
        }
    }
}

impl Cause {
    /// The fix, if the cause alone determines it.
    pub(super) fn fix(&self) -> Option<Fix> {
        Some(match self {
            Self::SysctlOff { sysctl } => Fix::Sysctl { name: sysctl, value: 1 },
            Self::EnabledLate { .. } => Fix::Boot { parameter: "delayacct" },
            Self::BootOff | Self::BootOffOrKernelLacks { .. } => Fix::Boot { parameter: "psi=1" },
            Self::OtherNamespace { kind: Namespace::Pid } => Fix::RunOnHost,
            Self::NoBpf { no_bpf } => return without_obstacle(&no_bpf.cause),
            Self::FieldsRejected => Fix::Option { option: "--engine procfs" },
            Self::OtherNamespace { kind: Namespace::Network | Namespace::User } => Fix::RunInHostNetwork,
            Self::NotMounted => Fix::MountCgroups,
            Self::TooLarge | Self::OutOfTime => Fix::Option { option: "--smaps always" },
            Self::OpenFileLimit { .. } => Fix::RaiseOpenFiles,
            Self::ProbeFailed { failure: ProbeFailure::UnknownLayout } => Fix::InstallDebugInfo,
            _ => return None,
        })
    }
}

/// The meaning of an obstacle as a clause, with the kernel's error.
fn obstacle(NoBpf { cause, detail }: &NoBpf) -> String {
    let mut meaning = cause.meaning().unwrap_or(cause.name()).trim_end_matches('.').to_owned();
    let is_name = meaning.starts_with("BPF");
    if let Some(first) = meaning.get_mut(..1).filter(|_| !is_name) {
        first.make_ascii_lowercase();
    }
    detail.iter().for_each(|detail| meaning += &format!(" ({detail})"));
    meaning
}

/// The fix of an obstacle, unless it needs capabilities: they depend on those that are held.
fn without_obstacle(obstacle: &BpfObstacle) -> Option<Fix> {
    Some(match obstacle {
        BpfObstacle::UserNamespace => Fix::RunInHostUsers,
        BpfObstacle::PidNamespace => Fix::RunOnHost,
        BpfObstacle::Lockdown => Fix::BootWithout { parameter: "lockdown=confidentiality" },
        BpfObstacle::Seccomp => Fix::AllowBpf,
        BpfObstacle::MemoryLock => Fix::RaiseLockedMemory,
        _ => return None,
    })
}
