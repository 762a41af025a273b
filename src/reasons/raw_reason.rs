//! Reasons as samples give them, before names are known.

use crate::model::{KernelEntry, Name, ReasonClass, ThreadSample};

/// A reason before its functions have names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RawReason {
    pub(super) class: ReasonClass,
    pub(super) entry: KernelEntry,
    /// Addresses, the innermost first.
    pub(super) stack: Vec<u64>,
    pub(super) object: Option<Name>,
    /// The number of the functions of its program.
    pub(super) code: Option<u32>,
    /// The same of the thread that owns the lock, if that sleeps.
    pub(super) held_in: Option<u32>,
    /// The number of the names of another thread.
    pub(super) by: Option<u32>,
    /// The process of that thread: processes of one name can run different programs.
    pub(super) by_process: Option<u32>,
}

/// The names of threads, and what the kernel knows their cgroup by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SampledNames {
    pub(super) pcomm: Name,
    pub(super) comm: Name,
    pub(super) cgroup: Option<u64>,
}

impl SampledNames {
    pub(super) fn from_sample(sample: &ThreadSample) -> Self {
        let ThreadSample { pcomm, comm, cgroup, .. } = sample;
        Self { pcomm: Name::clone(pcomm), comm: Name::clone(comm), cgroup: *cgroup }
    }
}
