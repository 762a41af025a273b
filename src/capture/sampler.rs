//! What samples threads, and what their samples mean.

use std::collections::{BTreeSet, HashMap};

use nix::errno::Errno;

use super::bpf::samples::BpfSampler;
use super::error::finding_without_bpf;
use super::kernel_symbols::KernelSymbols;
use super::options::{Engine, Options, Tree};
use crate::model::{BpfObstacle, Name, ThreadSample};

/// Samples all threads, one pass at a time.
pub struct ThreadSampler {
    bpf: BpfSampler,
    symbols: Option<KernelSymbols>,
}

/// Why threads cannot be sampled.
#[derive(Debug, thiserror::Error)]
#[error("no samples: {0}")]
pub struct NoSamples(String);

impl NoSamples {
    /// Because of an error.
    pub fn because(error: &dyn std::error::Error) -> Self {
        Self(error.to_string())
    }
}

impl ThreadSampler {
    /// Loads what is needed, with the capabilities that this needs.
    ///
    /// # Errors
    /// [`NoSamples`] if threads cannot be sampled here.
    pub fn load(options: &Options) -> Result<Self, NoSamples> {
        let loaded = match options.engine {
            Engine::Procfs => return Err(NoSamples("only BPF has them. Fix: use --engine auto".to_owned())),
            _ if options.roots.tree() != Tree::Live => Err(BpfObstacle::NotLive.into()),
            _ => BpfSampler::load(),
        };
        let bpf = loaded.map_err(|no_bpf| NoSamples(finding_without_bpf(&no_bpf).to_string()))?;
        Ok(Self { bpf, symbols: KernelSymbols::open().ok() })
    }

    /// What takes the samples, as files name it.
    pub fn source(&self) -> &'static str {
        "bpf"
    }

    /// Adds the samples of a pass, and returns how many were lost.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn pass(&mut self, samples: &mut Vec<ThreadSample>) -> Result<u64, Errno> {
        self.bpf.pass(samples)
    }

    /// Makes the next pass sample all threads, also those that sleep on.
    pub fn forget(&self) {
        self.bpf.forget();
    }

    /// The functions of the kernel that these addresses are in, and why there are none.
    pub fn functions(&mut self, addresses: &BTreeSet<u64>) -> (HashMap<u64, Name>, Option<String>) {
        let hidden = "/proc/kallsyms hides addresses: kernel.kptr_restrict or no cap_syslog";
        let names = match &mut self.symbols {
            _ if addresses.is_empty() => return (HashMap::new(), None),
            Some(symbols) => symbols.names(addresses),
            None => return (HashMap::new(), Some("/proc/kallsyms cannot be opened".to_owned())),
        };
        match names {
            Ok(names) if names.is_empty() => (names, Some(hidden.to_owned())),
            Ok(names) => (names, None),
            Err(error) => (HashMap::new(), Some(format!("/proc/kallsyms cannot be read: {error}"))),
        }
    }
}
