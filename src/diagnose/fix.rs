//! Fixes of causes, and the capabilities that some need.

use std::collections::BTreeSet;
use std::fmt;

use crate::model::stored_names;

stored_names! {
    /// A capability that a capture can use (`include/uapi/linux/capability.h`).
    pub enum Capability {
        /// Read and write any file, whatever its mode.
        DacOverride = "cap_dac_override",
        /// Read any file, whatever its mode: `io` has mode 0400.
        DacReadSearch = "cap_dac_read_search",
        /// Query taskstats (network administration).
        NetAdmin = "cap_net_admin",
        /// Read `io`, `smaps_rollup` and memory of other users' processes.
        SysPtrace = "cap_sys_ptrace",
        /// Load BPF programs and maps.
        Bpf = "cap_bpf",
        /// Let BPF programs read memory of the kernel.
        Perfmon = "cap_perfmon",
        /// Includes the two above, and most of what root may do.
        SysAdmin = "cap_sys_admin",
        /// Lock more memory than the limit, which BPF programs need before Linux 5.11.
        SysResource = "cap_sys_resource",
        /// Open the files that other users' processes have mapped.
        CheckpointRestore = "cap_checkpoint_restore",
    }
}

/// A fix: a command, if one exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Grant capabilities to the program file, all in one command: all that are missing, and all that are held.
    Setcap(BTreeSet<Capability>),
    /// The same, of a file that is not found by name: a word of a shell.
    SetcapFile(BTreeSet<Capability>, String),
    /// The same, to a copy of a file where the kernel ignores capabilities: a word of a shell.
    SetcapCopy(BTreeSet<Capability>, String),
    /// Run with capabilities that root lacks here, as in a container.
    GrantToRoot(BTreeSet<Capability>),
    /// Set a kernel parameter: `name=value`.
    Sysctl(&'static str),
    /// Advice as the reader gets it: a command, or an action.
    Advice(&'static str),
}

impl Fix {
    pub(super) fn setcap<const N: usize>(capabilities: [Capability; N]) -> Self {
        Self::Setcap(capabilities.into())
    }

    /// Names the file of this program, as a word of a shell, and how it gets capabilities: [`Fix::SetcapFile`] or
    /// [`Fix::SetcapCopy`]. Other hosts, to which reports are sent, have other files.
    pub fn of_program(&mut self, file: &str, grant: fn(BTreeSet<Capability>, String) -> Self) {
        if let Self::Setcap(capabilities) = self {
            *self = grant(std::mem::take(capabilities), file.to_owned());
        }
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setcap(capabilities) => setcap(f, capabilities, "\"$(command -v ctprof)\""),
            Self::SetcapFile(capabilities, file) => setcap(f, capabilities, file),
            Self::SetcapCopy(capabilities, file) => {
                let names = joined(capabilities, ",", str::to_owned);
                write!(f, "run as root, or, because setcap has no effect on a nosuid mount, run a copy elsewhere: ")?;
                write!(f, "sudo cp {file} /usr/local/bin/ctprof && sudo setcap {names}+p /usr/local/bin/ctprof")
            }
            Self::GrantToRoot(capabilities) => {
                let option = |name: &str| format!("--cap-add={}", name.trim_start_matches("cap_").to_uppercase());
                let (names, options) = (joined(capabilities, ", ", str::to_owned), joined(capabilities, " ", option));
                write!(f, "run as root with {names} (container: --user=0 {options})")
            }
            Self::Sysctl(name @ "kernel.task_delayacct") => {
                write!(f, "sudo sysctl {name}=1 (new threads only; boot with `delayacct` for all)")
            }
            Self::Sysctl(name) => write!(f, "sudo sysctl {name}=1 (counts from then on)"),
            Self::Advice(advice) => f.write_str(advice),
        }
    }
}

fn setcap(f: &mut fmt::Formatter<'_>, capabilities: &BTreeSet<Capability>, file: &str) -> fmt::Result {
    let names = joined(capabilities, ",", str::to_owned);
    write!(f, "run as root, or once: sudo setcap {names}+p {file}")
}

fn joined(capabilities: &BTreeSet<Capability>, separator: &str, text: impl Fn(&str) -> String) -> String {
    capabilities.iter().map(|capability| text(capability.name())).collect::<Vec<_>>().join(separator)
}
