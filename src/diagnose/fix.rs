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
    pub(super) fn setcap<const N: usize>(capabilities: [Capability; N]) -> Self {
        Self::Setcap { capabilities: capabilities.into() }
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setcap { capabilities } => {
                let names = joined(capabilities, ",", str::to_owned);
                write!(f, "run as root, or once: sudo setcap {names}+ep \"$(command -v ctprof)\"")
            }
            Self::GrantToRoot { capabilities } => {
                let option = |name: &str| format!("--cap-add={}", name.trim_start_matches("cap_").to_uppercase());
                let (names, options) = (joined(capabilities, ", ", str::to_owned), joined(capabilities, " ", option));
                write!(f, "run with {names} (container: {options})")
            }
            Self::Sysctl { name: name @ "kernel.task_delayacct" } => {
                write!(f, "sudo sysctl {name}=1 (new threads only; boot with `delayacct` for all)")
            }
            Self::Sysctl { name } => write!(f, "sudo sysctl {name}=1 (counts from then on)"),
            Self::Advice(advice) => f.write_str(advice),
        }
    }
}

fn joined(capabilities: &BTreeSet<Capability>, separator: &str, text: impl Fn(&str) -> String) -> String {
    capabilities.iter().map(|capability| text(capability.name())).collect::<Vec<_>>().join(separator)
}
