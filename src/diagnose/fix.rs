//! Fixes of causes.

use std::collections::BTreeSet;
use std::fmt;

use super::Capability;

/// A fix: a command, if one exists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fix {
    /// Grant capabilities to the program file, all in one command.
    Setcap {
        /// All missing capabilities, and all that are held.
        capabilities: BTreeSet<Capability>,
    },
    /// Run with capabilities that root lacks here, as in a container.
    GrantToRoot {
        /// All missing capabilities.
        capabilities: BTreeSet<Capability>,
    },
    /// Set a sysctl.
    Sysctl {
        /// Its name.
        name: &'static str,
        /// The value to set.
        value: u64,
    },
    /// Boot with a kernel parameter.
    Boot {
        /// The parameter.
        parameter: &'static str,
    },
    /// Boot without a kernel parameter.
    BootWithout {
        /// The parameter.
        parameter: &'static str,
    },
    /// Run on the host instead of in a container.
    RunOnHost,
    /// Run in the network and user namespace of the host.
    RunInHostNetwork,
    /// Run in the user namespace of the host.
    RunInHostUsers,
    /// Run without a seccomp filter that denies bpf(2).
    AllowBpf,
    /// Mount the cgroup hierarchy.
    MountCgroups,
    /// Capture with an option.
    Option {
        /// The option as on the command line.
        option: &'static str,
    },
    /// Raise the limit on open files.
    RaiseOpenFiles,
    /// Raise the limit on locked memory.
    RaiseLockedMemory,
    /// Install the program's debug information.
    InstallDebugInfo,
}

/// Raises the limit of open files to the most that the shell may have.
pub(crate) const MORE_OPEN_FILES: &str = "ulimit -n \"$(ulimit -Hn)\"";

impl Fix {
    /// The capabilities that the fix grants; `None` for other fixes.
    pub(super) fn capabilities_mut(&mut self) -> Option<&mut BTreeSet<Capability>> {
        match self {
            Self::Setcap { capabilities } | Self::GrantToRoot { capabilities } => Some(capabilities),
            _ => None,
        }
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setcap { capabilities } => {
                let names: Vec<_> = capabilities.iter().map(Capability::name).collect();
                write!(f, "run as root, or once: sudo setcap {}+ep \"$(command -v ctprof)\"", names.join(","))
            }
            Self::GrantToRoot { capabilities } => {
                let names: Vec<_> = capabilities.iter().map(Capability::name).collect();
                let options = names.iter().map(|name| name.trim_start_matches("cap_").to_uppercase());
                let options: Vec<_> = options.map(|name| format!("--cap-add={name}")).collect();
                write!(f, "run with {} (container: {})", names.join(", "), options.join(" "))
            }
            Self::Sysctl { name: name @ "kernel.task_delayacct", value } => {
                write!(f, "sudo sysctl {name}={value} (new threads only; boot with `delayacct` for all)")
            }
            Self::Sysctl { name, value } => write!(f, "sudo sysctl {name}={value} (counts from then on)"),
            Self::Boot { parameter } => write!(f, "boot with `{parameter}`"),
            Self::BootWithout { parameter } => write!(f, "boot without `{parameter}`"),
            Self::RunOnHost => f.write_str("run on the host, or start the container with --pid=host"),
            Self::RunInHostNetwork => f.write_str(
                "run on the host, or start the container with --network=host and without its own user namespace",
            ),
            Self::RunInHostUsers => f.write_str("run on the host, or start the container with --userns=host"),
            Self::AllowBpf => f.write_str(
                "allow bpf(2) in the seccomp profile of the container, or start it with --security-opt seccomp=unconfined",
            ),
            Self::MountCgroups => f.write_str("sudo mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
            Self::Option { option } => write!(f, "capture with {option}"),
            Self::RaiseOpenFiles => f.write_str(MORE_OPEN_FILES),
            Self::RaiseLockedMemory => f.write_str("ulimit -l unlimited"),
            Self::InstallDebugInfo => f.write_str("install the debug information of the program"),
        }
    }
}
