//! Fixes of causes, and the capabilities that some need.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::{env, fmt};

use crate::model::stored_names;

stored_names! {
    /// A capability that a capture can use (`include/uapi/linux/capability.h`).
    pub enum Capability {
        /// Read and write any file, whatever its mode.
        DacOverride = "cap_dac_override",
        /// Read any file, whatever its mode: `io` has mode 0400.
        DacReadSearch = "cap_dac_read_search",
        /// Query taskstats.
        NetAdmin = "cap_net_admin",
        /// Read `io`, `smaps_rollup` and memory of other users' processes.
        SysPtrace = "cap_sys_ptrace",
        /// Load BPF programs and maps.
        Bpf = "cap_bpf",
        /// Let BPF programs read memory of the kernel.
        Perfmon = "cap_perfmon",
        /// Includes the two above, and most of what root may do.
        SysAdmin = "cap_sys_admin",
        /// Open the files that other users' processes have mapped.
        CheckpointRestore = "cap_checkpoint_restore",
    }
}

/// A fix: a command, if one exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Grant capabilities to the program file, all in one command: all that are missing, and all that are held.
    Setcap(BTreeSet<Capability>),
    /// Run with capabilities that root lacks here, as in a container.
    GrantToRoot(BTreeSet<Capability>),
    Sysctl(&'static str),
    /// A command, or what to do, as the reader is told.
    Advice(&'static str),
}

impl Fix {
    pub(super) fn setcap<const N: usize>(capabilities: [Capability; N]) -> Self {
        Self::Setcap(capabilities.into())
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setcap(capabilities) => {
                let names = joined(capabilities, ",", str::to_owned);
                let path = env::var_os("PATH").unwrap_or_default();
                let file = program_file(env::current_exe().ok().filter(|file| file.exists()).as_deref(), &path);
                write!(f, "run as root, or once: sudo setcap {names}+ep {file}")
            }
            Self::GrantToRoot(capabilities) => {
                let option = |name: &str| format!("--cap-add={}", name.trim_start_matches("cap_").to_uppercase());
                let (names, options) = (joined(capabilities, ", ", str::to_owned), joined(capabilities, " ", option));
                write!(f, "run with {names} (container: {options})")
            }
            Self::Sysctl(name @ "kernel.task_delayacct") => {
                write!(f, "sudo sysctl {name}=1 (new threads only; boot with `delayacct` for all)")
            }
            Self::Sysctl(name) => write!(f, "sudo sysctl {name}=1 (counts from then on)"),
            Self::Advice(advice) => f.write_str(advice),
        }
    }
}

/// This program as a word of a shell: `setcap` follows no link, and finds no program by name.
pub(super) fn program_file(executed: Option<&Path>, path: &OsStr) -> String {
    let found = env::split_paths(path).map(|directory| directory.join("ctprof")).find(|file| file.is_file());
    let is_found = found.is_some_and(|file| !file.is_symlink() && file.canonicalize().ok().as_deref() == executed);
    match executed {
        Some(executed) if !is_found => format!("'{}'", executed.display().to_string().replace('\'', r"'\''")),
        _ => "\"$(command -v ctprof)\"".to_owned(),
    }
}

fn joined(capabilities: &BTreeSet<Capability>, separator: &str, text: impl Fn(&str) -> String) -> String {
    capabilities.iter().map(|capability| text(capability.name())).collect::<Vec<_>>().join(separator)
}
