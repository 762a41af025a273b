//! Why a source, or a part of it, is missing.

use super::{Capability, Fix};
use crate::model::{BpfObstacle, Errno, NoBpf, ProbeFailure, clause};

coded! {
    /// Why a source, or a part of it, is missing: meaning, code, message, fix.
    pub enum Cause {
        /// The kernel denied access: a capability is missing.
        Denied { capability: Capability, errno: Errno } = "permission-denied",
            ("permission denied ({errno}): requires {capability}"), Fix::setcap([capability.clone()]);
        /// The kernel denied access although the capability is held: by an LSM, seccomp, a user namespace, or a debugger.
        DeniedDespite { capability: Capability, errno: Errno, blocked_by: &'static str } = "permission-denied-despite-capability",
            ("permission denied ({errno}) despite {capability}: blocked by {blocked_by}");
        /// ctprof does not use its file capabilities to stop threads of other users.
        StopsOfUserOnly = "stops-of-user-only",
            ("with file capabilities, ctprof stops only threads that its user could stop"),
            Fix::Advice("capture all processes with --engine bpf, or as root");
        /// Threads that glibc has not started were paused to read their counters.
        PausesThreads = "pauses-threads",
            ("pauses threads that glibc did not start: waits such as epoll_wait(2) return EINTR; avoid with --no-jemalloc");
        /// A step of the jemalloc probe failed; the message names the most frequent one.
        ProbeFailed { failure: ProbeFailure } = "probe-failed",
            ("mostly: {}", failure.meaning().map_or_else(|| failure.to_string(), clause)), (*failure == ProbeFailure::UnknownLayout).then_some(DEBUG_INFO);
        /// The BPF engine is not available, so procfs read the threads.
        NoBpf { no_bpf: NoBpf } = "no-bpf", ("{no_bpf}"), fix_of_obstacle(&no_bpf.cause);
        /// The kernel's verifier rejected access to the fields of some metrics.
        FieldsRejected = "fields-rejected",
            ("the kernel's verifier rejected access to their fields"), Fix::Advice("capture with --engine procfs");
        /// The BPF iterator did not return processes that `/proc` lists, so procfs read them.
        MissedByIterator = "missed-by-iterator", ("missing from the BPF iterator");
        /// The kernel was built without an option.
        KernelLacks { option: &'static str } = "kernel-lacks-option", ("kernel lacks CONFIG_{option}");
        /// The kernel was built without an option, or /sys is not mounted here.
        SysfsHiddenOrKernelLacks { option: &'static str } = "no-sysfs-or-not-built",
            ("kernel lacks CONFIG_{option}, or /sys is not visible here");
        /// The kernel has no such file, or none of the fields that BPF would read instead.
        KernelLacksFile = "kernel-lacks-file", ("kernel has no such file or fields");
        /// A sysctl is 0.
        SysctlOff { sysctl: &'static str } = "sysctl-off", ("{sysctl}=0"), Fix::Sysctl(sysctl);
        /// A sysctl cannot be read, so it is unknown whether the kernel measures what depends on it.
        SysctlUnreadable { sysctl: &'static str } = "sysctl-unreadable", ("{sysctl} cannot be read"),
            Fix::Advice("let ctprof read sys/ in /proc, or in the directory of --procfs (systemd: ProcSubset=all)");
        /// The kernel does not say which functions threads wait in.
        NoFunctionNames { why: String } = "no-function-names", ("{why}");
        /// Reasons do not say where in the code of programs threads wait.
        NoStacks { why: String } = "no-stacks", ("{why}");
        /// ctprof reads stacks without its file capabilities, with the rights of the caller.
        StacksOfUserOnly = "stacks-of-user-only", ("stacks are read with the rights of the caller, without file capabilities");
        /// The sysctl was set after boot: threads that started before are not covered.
        EnabledLate { older_threads: &'static str } = "enabled-late",
            ("threads started before it was enabled {older_threads}"), Fix::Advice("boot with `delayacct`");
        /// Disabled at boot, or the kernel was built without the option.
        BootOff { option: &'static str } = "disabled-at-boot",
            ("disabled at boot, or kernel lacks CONFIG_{option}"), Fix::Advice("boot with `psi=1`");
        /// ctprof runs in another namespace than the host's.
        OtherNamespace { message: &'static str, fix: Fix } = "other-namespace", ("{message}"), fix.clone();
        /// taskstats is not there: not built, or another network namespace.
        NamespaceOrKernelLacks { option: &'static str } = "namespace-or-not-built",
            ("kernel lacks CONFIG_{option}, or not available in this network namespace");
        /// procfs is mounted with `hidepid`.
        HiddenByMount { hidepid: String } = "hidden-by-mount", ("procfs is mounted with hidepid={hidepid}"),
            Fix::setcap([Capability::SysPtrace]);
        /// No cgroup hierarchy is mounted, or other mounts hide them.
        NotMounted = "not-mounted", ("no cgroup hierarchy is mounted here, or another mount hides it"),
            Fix::Advice("let ctprof read /sys/fs/cgroup (host: sudo mount -t cgroup2 cgroup2 /sys/fs/cgroup; container: -v /sys/fs/cgroup:/sys/fs/cgroup:ro)");
        /// The cgroup is outside ctprof's cgroup namespace, or was removed.
        CgroupGone = "cgroup-gone", ("outside this cgroup namespace, or removed");
        /// The runtime of a container keeps its files elsewhere.
        RuntimeElsewhere = "runtime-elsewhere", ("no such directory (ENOENT): the runtime keeps its files elsewhere"),
            Fix::Advice("link the path to the directory that the runtime is configured to use");
        /// No file of a container runtime names these containers, or they exited before it was read.
        NotListed = "not-listed", ("no file of a container runtime names them, or they exited before it was read");
        /// A file of a container runtime is too large, malformed, a link, or owned by another user.
        UnexpectedFile { errno: Errno } = "unexpected-file",
            ("a file of a container runtime is too large, malformed, a link, or owned by another user ({errno})");
        /// The process exceeds `--smaps-max-rss`.
        TooLarge = "too-large", ("above --smaps-max-rss"), SMAPS_ALWAYS;
        /// Reading `smaps_rollup` of smaller processes took all the time that a capture spends on it.
        OutOfTime = "out-of-time", ("time limit reached"), SMAPS_ALWAYS;
        /// Reading blocked for too long: the process held its memory lock, or was in execve(2).
        ReadBlocked { errno: Errno } = "read-blocked", ("blocked for too long: the process held its memory lock, or was in execve(2) ({errno})");
        /// The limit on open files was reached.
        OpenFileLimit { errno: Errno } = "open-file-limit", ("too many open files ({errno})"), Fix::Advice(MORE_OPEN_FILES);
        /// Disabled by an option of `ctprof capture`.
        DisabledByOption { option: &'static str } = "disabled-by-option", ("disabled by {option}");
        /// Only a live host has it, and the capture read another procfs.
        NotLive = "not-live", ("only available on a live host, with the procfs of ctprof's own PID namespace");
        /// taskstats did not answer.
        NoAnswer = "no-answer", ("no answer from taskstats");
        /// Delays longer than the thread's lifetime were discarded.
        ImpossibleDelays = "impossible-delays", ("delays longer than the lifetime of their threads were discarded");
        /// ctprof panicked (a bug) while it read a process, or a part of a large one.
        Panicked = "panic", ("ctprof panicked while reading them");
        /// Another error of the kernel.
        Failed { errno: Errno } = "error", ("{errno}");
        /// The snapshot does not say.
        Unknown = "unknown", ("not recorded");
    }
}

/// Facilities that deny access to files of processes although a capability is held.
pub(super) const LSM_OR_NAMESPACE: &str = "an LSM or a user namespace";

/// Raises the limit of open files to the most that the shell may have, or beyond.
const MORE_OPEN_FILES: &str =
    "ulimit -n \"$(ulimit -Hn)\", or sudo prlimit --nofile=65536 --pid $$ (container: --ulimit nofile=65536)";

/// How to fix a lack of descriptors, where it is a limit of the process, as it follows the words of the error.
pub(crate) fn fix_of_descriptors(errno: nix::errno::Errno) -> String {
    match errno {
        nix::errno::Errno::EMFILE => format!("; raise the limit of open files: {MORE_OPEN_FILES}"),
        _ => String::new(),
    }
}

const LET_READ_SYSFS: &str = "let ctprof read /sys (container: -v /sys:/sys:ro)";
const SMAPS_ALWAYS: Fix = Fix::Advice("capture with --smaps always");
const DEBUG_INFO: Fix = Fix::Advice("install the debug information of the program");
const RUN_ON_HOST: Fix = Fix::Advice("run on the host, or start the container with --pid=host");
const RUN_IN_HOST_NETWORK: Fix =
    Fix::Advice("run on the host, or have root start the container, with --network=host and --userns=host");

pub(super) const OTHER_PID_NAMESPACE: Cause =
    Cause::OtherNamespace { message: "only this PID namespace is visible", fix: RUN_ON_HOST };
pub(super) const OTHER_NETWORK_NAMESPACE: Cause =
    Cause::OtherNamespace { message: "not available in this network namespace", fix: RUN_IN_HOST_NETWORK };
pub(super) const OTHER_USER_NAMESPACE: Cause = Cause::OtherNamespace {
    message: "permission denied despite cap_net_admin: not the initial user namespace",
    fix: RUN_IN_HOST_NETWORK,
};

fn fix_of_obstacle(obstacle: &BpfObstacle) -> Option<Fix> {
    Some(Fix::Advice(match obstacle {
        BpfObstacle::NoCapability => return Some(Fix::setcap([Capability::Bpf, Capability::Perfmon])),
        BpfObstacle::NoSysfs => LET_READ_SYSFS,
        BpfObstacle::UserNamespace => "run on the host, or have root start the container, with --userns=host",
        BpfObstacle::PidNamespace => return Some(RUN_ON_HOST),
        BpfObstacle::Lockdown => "boot without `lockdown=confidentiality`",
        BpfObstacle::Seccomp => {
            "allow bpf(2) in the seccomp profile of the container, or start it with --security-opt seccomp=unconfined"
        }
        BpfObstacle::MemoryLock => {
            return Some(Fix::setcap([Capability::Bpf, Capability::Perfmon, Capability::SysResource]));
        }
        _ => return None,
    }))
}
