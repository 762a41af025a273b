//! Fixes of causes.

use std::collections::BTreeSet;
use std::fmt;

use super::Capability;

/// A fix: a command, if one exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Grant capabilities to the program file, all in one command.
    Setcap {
        /// All missing capabilities, and all that are held.
        capabilities: BTreeSet<Capability>,
    },
    /// Run with capabilities that root lacks here, as in a container.
    GrantToRoot {
        capabilities: BTreeSet<Capability>,
    },
    Sysctl {
        name: &'static str,
    },
    /// A command, or what to do, as the reader is told.
    Advice(&'static str),
}

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
            Self::Sysctl { name: name @ "kernel.task_delayacct" } => {
                write!(f, "sudo sysctl {name}=1 (new threads only; boot with `delayacct` for all)")
            }
            Self::Sysctl { name } => write!(f, "sudo sysctl {name}=1 (counts from then on)"),
            Self::Advice(advice) => f.write_str(advice),
        }
    }
}
